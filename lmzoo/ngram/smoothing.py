"""From counts to probabilities.  Each smoothing fills the same two tables per order.

`logp_G`: ln p(token | history) of every n-gram seen.  `backoff_G`: what is added, per history, when the token was not
seen after it and the next shorter history is asked.  A history that nothing followed adds 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.counts import Counts, Level, continuation_counts, counts_of_counts, sum_by_history
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]

# KenLM's, for orders whose own cannot be estimated
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class DiscountWarning(UserWarning):
    """Kneser-Ney discounts of some order could not be estimated, so the fixed ones were taken."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The probabilities of one order: see the module."""

    logp_G: Floats
    backoff_G: Floats


@dataclass(frozen=True, kw_only=True)
class Discounts:
    """What is taken off counts of 1, 2, and 3 or more.  `reason`: why they are the fixed ones, if they are."""

    amounts: tuple[float, float, float]
    reason: str | None = None

    def of(self, counts_G: Counts) -> Floats:
        """The discount of each count; 0 for a count of 0."""
        return np.array((0.0, *self.amounts))[np.minimum(counts_G, 3)]


def estimate_discounts(counts_G: Counts) -> Discounts:
    """D1, D2, D3+ from counts of counts (Chen & Goodman 1998, eq. 26), or the fixed ones where these have no sense.

    They have none where some count 1, 2 or 3 never occurs, or where an estimate is not above 0 and at most its count.
    """
    n1, n2, n3, n4 = counts_of_counts(counts_G)
    missing = [str(c) for c, n in ((1, n1), (2, n2), (3, n3)) if n == 0]
    if missing:
        return Discounts(amounts=FALLBACK_DISCOUNTS, reason=f"no n-gram has count {' or '.join(missing)}")
    y = n1 / (n1 + 2 * n2)
    amounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    for c, amount in enumerate(amounts, start=1):
        if not 0 < amount <= c:
            return Discounts(amounts=FALLBACK_DISCOUNTS, reason=f"the discount of count {c} would be {amount:.2f}")
    return Discounts(amounts=amounts)


def modified_kneser_ney(
    levels: Sequence[Level], vocab: Vocab, plain: Sequence[int] = ()
) -> tuple[list[Table], list[Discounts]]:
    """Interpolated modified Kneser-Ney (Chen & Goodman 1998, eq. 24 to 28); order 1 is interpolated with uniform.

    `plain`: at each of the lowest orders, one n-gram that enters the counts of counts with its plain count.
    Warns with `DiscountWarning` for each order whose discounts are the fixed ones.
    """
    counts = continuation_counts(levels)
    counted = [count_G.copy() for count_G in counts]
    for n, count_G, level in zip(plain, counted, levels, strict=False):
        count_G[n] = level.counts_G[n]
    discounts = [estimate_discounts(count_G) for count_G in counted]
    for k, discount in enumerate(discounts, start=1):
        if discount.reason:
            fixed = ", ".join(map(str, FALLBACK_DISCOUNTS))
            warnings.warn(
                f"order {k}: {discount.reason}; the fixed discounts {fixed} are taken", DiscountWarning, stacklevel=3
            )
    total = counts[0].sum()
    p_G = (counts[0] - discounts[0].of(counts[0])) / total
    p_G += discounts[0].of(counts[0]).sum() / total / vocab.n_predictable
    p_G[vocab.bos_id] = 0.0
    probabilities, backoffs = [p_G], []
    for level, below, count_G, discount in zip(levels[1:], levels, counts[1:], discounts[1:], strict=False):
        n_histories = len(below.keys_G)
        history_G = level.keys_G // len(vocab)
        total_H = sum_by_history(count_G, level, n_histories, len(vocab))
        taken_H = sum_by_history(discount.of(count_G), level, n_histories, len(vocab))
        # 1 where nothing followed, so that its logarithm is 0
        rest_H = np.divide(taken_H, total_H, out=np.ones(n_histories), where=total_H > 0)
        p_G = (count_G - discount.of(count_G)) / total_H[history_G] + rest_H[history_G] * p_G[level.suffix_G]
        probabilities.append(p_G)
        backoffs.append(np.log(rest_H))
    return _tables([_log(p) for p in probabilities], backoffs), discounts


def maximum_likelihood(levels: Sequence[Level], vocab: Vocab) -> list[Table]:
    """Relative frequencies c / C; in a history that nothing followed, those of its longest suffix that was followed.

    What was never seen after a seen history is impossible.
    """
    logps, backoffs = [], []
    for level, below in zip(levels, [None, *levels[:-1]], strict=True):
        if below is None:
            logps.append(_log(level.counts_G / level.counts_G.sum()))
            continue
        total_H = sum_by_history(level.counts_G, level, len(below.keys_G), len(vocab))
        logps.append(_log(level.counts_G / total_H[level.keys_G // len(vocab)]))
        backoffs.append(np.where(total_H > 0, -np.inf, 0.0))
    return _tables(logps, backoffs)


def add_k(levels: Sequence[Level], vocab: Vocab, k: float) -> list[Table]:
    """(c + k) / (C + k V) with the counts of the whole context; uniform in a context that nothing followed."""
    mass = k * vocab.n_predictable
    return whole_context_tables(
        levels,
        vocab,
        seen=lambda count, total: np.log((count + k) / (total + mass)),
        # relative to the uniform distribution below: k / (C + k V) over 1 / V
        unseen=lambda total: np.log(mass / (total + mass)),
        base=-np.log(vocab.n_predictable),
    )


def whole_context_tables(
    levels: Sequence[Level],
    vocab: Vocab,
    *,
    seen: Callable[[Counts, Floats], Floats],
    unseen: Callable[[Floats], Floats],
    base: float,
) -> list[Table]:
    """Tables that look at the whole context only, never at a shorter one.

    Near its start a document's context is all there is of it, so it is whole there however short.

    Args:
        seen: of a token's count in its context and the context's total.
        unseen: of the context's total, added to `base` for tokens never seen in it.
        base: where nothing followed the context.
    """
    logps, backoffs = [], []
    for order, level in enumerate(levels, start=1):
        is_highest = order == len(levels)
        n_histories = len(levels[order - 2].keys_G) if order > 1 else 1
        total_H = sum_by_history(level.counts_G, level, n_histories, len(vocab))
        logp_G = seen(level.counts_G, total_H[level.keys_G // len(vocab)])
        logps.append(np.where(level.starts_G | is_highest, logp_G, base))
        if order > 1:
            is_whole_H = (levels[order - 2].starts_G | is_highest) & (total_H > 0)
            backoffs.append(np.where(is_whole_H, unseen(total_H), 0.0))
    logps[0][vocab.bos_id] = -np.inf
    return _tables(logps, backoffs)


def fit_k(counts_N: Floats, totals_N: Floats, n_predictable: int) -> float:
    """The k that gives held-out tokens the highest probability, to three digits.

    Args:
        counts_N, totals_N: training count of each held-out token after its context, and of the context.
    """
    best = 1.0
    for width in (6.0, 0.2, 0.01):
        grid = np.log10(best) + np.linspace(-width, width, 41)
        best = float(10 ** min(grid, key=lambda g: _add_k_nats(10**g, counts_N, totals_N, n_predictable)))
    return best


def _add_k_nats(k: float, counts_N: Floats, totals_N: Floats, n_predictable: int) -> float:
    return float((np.log(totals_N + k * n_predictable) - np.log(counts_N + k)).sum())


def _tables(logps: Sequence[Floats], backoffs: Sequence[Floats]) -> list[Table]:
    # nothing is longer than the highest order, so it backs off to nothing
    return [Table(logp_G=p, backoff_G=b) for p, b in zip(logps, [*backoffs, np.zeros(0)], strict=True)]


def _log(p_G: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p_G))
