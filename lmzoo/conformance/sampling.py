"""Checks that generated text follows the model's distribution and nothing else."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter

import numpy as np
import numpy.typing as npt

from lmzoo.conformance.subject import Subject, checks_of, require
from lmzoo.sampling import sample

_N_DRAWS = 300
_FEWEST_EXPECTED = 5
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
    expected = _expected_shares(subject)
    drawn = Counter(sample(subject.model, length=1, seed=seed) for seed in range(_N_DRAWS))
    impossible = sorted(text for text in drawn if not expected.get(text))
    require(not impossible, f"{impossible!r:.60} was drawn, next_logprobs gives it no probability")
    # too rare to be judged one by one, so they are judged together
    rare = {text for text, p in expected.items() if p * _N_DRAWS < _FEWEST_EXPECTED}
    classes = [(f"{text!r:.40}", p, drawn[text]) for text, p in expected.items() if text not in rare]
    classes.append(("a rare symbol", sum(expected[text] for text in rare), sum(drawn[text] for text in rare)))
    for name, p, n_drawn in classes:
        # +1: of the rarest one may always be drawn
        most = _MOST_DEVIATIONS * math.sqrt(max(_N_DRAWS * p * (1 - p), 0.0)) + 1
        says = f"{name} was drawn {n_drawn} times in {_N_DRAWS}, next_logprobs says {_N_DRAWS * p:.1f}"
        require(abs(n_drawn - _N_DRAWS * p) <= most, says)


def _expected_shares(subject: Subject) -> dict[str, float]:
    """How often each first symbol is to be drawn, by the text that is seen of it; the end of a document shows none."""
    vocab = subject.model.vocab
    shares: dict[str, float] = {}
    for symbol, p in enumerate(_drawable(subject).tolist()):
        text = "" if symbol == vocab.eos_id else vocab.decode([symbol])
        shares[text] = shares.get(text, 0.0) + p
    return shares


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
    best_few = np.flatnonzero(first_V >= first_V.max() - _NEARLY_BEST_NATS).tolist()
    near = {"" if i == vocab.eos_id else vocab.decode([i]) for i in best_few}
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
