"""Checks that generated text follows the model's distribution and nothing else."""

from __future__ import annotations

import random
import sys

import numpy as np
import numpy.typing as npt

from lmzoo.conformance.subject import Subject, checks_of, require
from lmzoo.sampling import sample

_N_DRAWS = 300
# a symbol's share is off by more than this many standard deviations once in 15 million draws of a right model
_MOST_DEVIATIONS = 5.5
_LENGTH = 12
# near 0: a symbol a tenth of a nat below the best one is drawn once in exp(100) times
_COLD = 1e-3
_NEARLY_BEST_NATS = 0.1


def same_seed_same_text(subject: Subject) -> None:
    """A seed gives one text, however often it is asked."""
    first = sample(subject.model, length=_LENGTH, seed=3)
    second = sample(subject.model, length=_LENGTH, seed=3)
    require(first == second, f"seed 3 gave {first!r:.60} and then {second!r:.60}")


def global_generators_untouched(subject: Subject) -> None:
    """Scoring and sampling leave the generators of `random`, numpy and torch where they were."""
    tokens_1xL = subject.tokens(1, 4)
    before = _generator_states()
    subject.logprobs(tokens_1xL)
    subject.next_after(tokens_1xL)
    sample(subject.model, length=3, seed=0)
    after = _generator_states()
    moved = [name for name, state in before.items() if after[name] != state]
    require(not moved, f"the global generator of {' and '.join(moved)} moved")


def _generator_states() -> dict[str, object]:
    # the legacy generator is the very thing that must not move
    _, keys, position, *_ = np.random.get_state(legacy=True)  # noqa: NPY002
    states: dict[str, object] = {"random": random.getstate(), "numpy": (np.asarray(keys).tobytes(), position)}
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def frequencies(subject: Subject) -> None:
    """Symbols are drawn as often as `next_logprobs` says."""
    p_V = _drawable(subject)
    texts = [subject.model.vocab.decode([i]) for i in range(subject.n_symbols)]
    expected: dict[str, float] = {}
    for text, p in zip(texts, p_V.tolist(), strict=True):
        # the end of a document is drawn as the empty text
        key = "" if text == "\n" and subject.model.vocab.eos_id is not None else text
        expected[key] = expected.get(key, 0.0) + p
    drawn = [sample(subject.model, length=1, seed=seed) for seed in range(_N_DRAWS)]
    for text in set(drawn) | {t for t, p in expected.items() if p * _N_DRAWS > 1}:
        p = expected.get(text, 0.0)
        n_drawn, n_expected = drawn.count(text), p * _N_DRAWS
        # +1: of the rarest symbols one may always be drawn
        most = _MOST_DEVIATIONS * np.sqrt(n_expected * (1 - p)) + 1 if p else 0.0
        require(
            abs(n_drawn - n_expected) <= most,
            f"{text!r:.40} was drawn {n_drawn} times in {_N_DRAWS}, next_logprobs says {n_expected:.1f}",
        )


def _drawable(subject: Subject) -> npt.NDArray[np.float64]:
    """The first symbol's distribution without `<unk>`, which is never drawn while anything else can be."""
    p_V = np.exp(np.asarray(subject.next_after(np.zeros((1, 0), np.int64))[0], np.float64))
    others_V = p_V.copy()
    others_V[subject.model.vocab.unk_id] = 0.0
    chosen_V = others_V if others_V.any() else p_V
    return np.asarray(chosen_V / chosen_V.sum(), np.float64)


def cold_is_argmax(subject: Subject) -> None:
    """Temperature 0 is the likeliest symbol each time, and temperatures near 0 come to the same."""
    vocab = subject.model.vocab
    ids: list[int] = []
    while len(ids) < _LENGTH:
        logprobs_V = _without_unk(subject, ids)
        best = int(logprobs_V.argmax())
        if best == vocab.eos_id:
            break
        ids.append(best)
    wanted, got = vocab.decode(ids), sample(subject.model, length=_LENGTH, temperature=0)
    require(got == wanted, f"temperature 0 gave {got!r:.60}, the likeliest symbols are {wanted!r:.60}")
    first_V = _without_unk(subject, [])
    near = {vocab.decode([int(i)]) for i in np.flatnonzero(first_V >= first_V.max() - _NEARLY_BEST_NATS)}
    near |= {""} if "\n" in near else set()
    cold = sample(subject.model, length=1, temperature=_COLD, seed=1)
    require(cold in near, f"temperature {_COLD:g} gave {cold!r:.40}, which is not the likeliest symbol")


def _without_unk(subject: Subject, ids: list[int]) -> npt.NDArray[np.float64]:
    """ln p of the next symbol, where `<unk>` cannot be drawn unless it is all there is."""
    logprobs_V = np.array(subject.next_after(np.array([ids], np.int64).reshape(1, -1))[0], np.float64)
    others = np.delete(logprobs_V, subject.model.vocab.unk_id)
    if np.isfinite(others).any():
        logprobs_V[subject.model.vocab.unk_id] = -np.inf
    return logprobs_V


CHECKS = checks_of("sampling", (same_seed_same_text, global_generators_untouched, frequencies, cold_is_argmax))
