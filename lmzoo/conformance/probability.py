"""Checks that the answers are probabilities, and that the two ways to ask for them agree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lmzoo.conformance.subject import NotApplicableError, Subject, checks_of, require, require_close
from lmzoo.interface import LogProbs, Tokens

# all strings of length 2 are V squared of them, and an adaptive model takes them one at a time
_LARGEST_FOR_STRINGS = 100
_LARGEST_FOR_ADAPTIVE_STRINGS = 20


def never_above_zero(subject: Subject) -> None:
    """No logarithm of a probability is above 0."""
    for name, logprobs in _answers(subject):
        worst = float(np.max(logprobs, initial=-np.inf, where=~np.isnan(logprobs)))
        require(worst <= subject.tolerance, f"{name} holds {worst:.6g} nats, 0 is the most")


def never_nan(subject: Subject) -> None:
    """No answer is NaN."""
    for name, logprobs in _answers(subject):
        require(not np.isnan(logprobs).any(), f"{name} holds NaN")


def _answers(subject: Subject) -> Iterator[tuple[str, LogProbs]]:
    for name, next_NxV in subject.distributions:
        yield f"next_logprobs after {name}", next_NxV
    for name, ids_1xL, bos in subject.contexts:
        yield f"logprobs of {name}", subject.logprobs(ids_1xL, bos=bos)


def sums_to_one(subject: Subject) -> None:
    """The next symbol's probabilities sum to 1 in every kind of context."""
    for name, next_NxV in subject.distributions:
        totals_N = np.exp(np.asarray(next_NxV, np.float64)).sum(axis=-1)
        require_close(totals_N, np.ones(len(next_NxV)), subject.tolerance, f"the sum of the probabilities after {name}")


def two_ways_agree(subject: Subject) -> None:
    """`logprobs` of each symbol is its entry in `next_logprobs`."""
    symbols_N = subject.spread_symbols_N
    for name, ids_1xL, bos in subject.contexts:
        wanted_N = subject.next_after(ids_1xL, bos=bos)[0, symbols_N]
        got_N = _last_logprobs(subject, ids_1xL, symbols_N, bos=bos)
        require_close(got_N, wanted_N, subject.token_tolerance, f"logprobs against next_logprobs after {name}")


def _last_logprobs(subject: Subject, ids_1xL: Tokens, symbols_N: Tokens, *, bos: bool) -> LogProbs:
    """ln p of each symbol after the same context."""
    if subject.model.is_adaptive:
        state = subject.state_after(ids_1xL, bos=bos)
        return np.array(
            [subject.model.logprobs(symbols_N[None, n : n + 1], state)[0][0, 0] for n in range(len(symbols_N))]
        )
    state = subject.state_after(np.repeat(ids_1xL, len(symbols_N), axis=0), bos=bos)
    return subject.model.logprobs(symbols_N[:, None], state)[0][:, 0]


def all_logprobs_agree(subject: Subject) -> None:
    """A model's own `all_logprobs` is `next_logprobs` before each token."""
    own = getattr(subject.model, "all_logprobs", None)
    if own is None:
        raise NotApplicableError("the model has no all_logprobs of its own")
    tokens_1xL = subject.tokens(1, 5)
    got_1xLxV = own(tokens_1xL, subject.model.initial_state(1))
    wanted_1xLxV = np.stack([subject.next_after(tokens_1xL[:, :t]) for t in range(tokens_1xL.shape[1])], axis=1)
    require_close(got_1xLxV, wanted_1xLxV, subject.token_tolerance, "all_logprobs against next_logprobs")


def strings_sum_to_one(subject: Subject) -> None:
    """The probabilities of all strings of two symbols sum to 1."""
    most = _LARGEST_FOR_ADAPTIVE_STRINGS if subject.model.is_adaptive else _LARGEST_FOR_STRINGS
    if subject.n_symbols > most:
        raise NotApplicableError(f"{subject.n_symbols} symbols make too many strings; it is checked up to {most}")
    symbols = np.arange(subject.n_symbols)
    strings_Nx2 = np.stack(np.meshgrid(symbols, symbols, indexing="ij"), axis=-1).reshape(-1, 2)
    n_rows = 1 if subject.model.is_adaptive else subject.n_symbols
    rows = [subject.logprobs(strings_Nx2[i : i + n_rows]) for i in range(0, len(strings_Nx2), n_rows)]
    total = float(np.exp(np.concatenate(rows).astype(np.float64).sum(axis=1)).sum())
    # two factors, so twice the tolerance of one
    is_one = abs(total - 1) <= 2 * subject.tolerance
    require(is_one, f"the probabilities of all strings of length 2 sum to {total:.12g}, not 1")


def start_has_no_mass(subject: Subject) -> None:
    """`<s>` is context only: its logarithm is -inf, both ways of asking."""
    bos_id = subject.model.vocab.bos_id
    for name, ids_1xL, bos in subject.contexts:
        state = subject.state_after(ids_1xL, bos=bos)
        asked = {
            "next_logprobs": subject.model.next_logprobs(state)[0, bos_id],
            "logprobs": subject.model.logprobs(np.array([[bos_id]]), state)[0][0, 0],
        }
        for method, value in asked.items():
            require(bool(np.isneginf(value)), f"{method} gives <s> {value:.6g} nats after {name}, not -inf")


CHECKS = checks_of(
    "probability",
    (
        never_above_zero,
        never_nan,
        sums_to_one,
        two_ways_agree,
        all_logprobs_agree,
        strings_sum_to_one,
        start_has_no_mass,
    ),
)
