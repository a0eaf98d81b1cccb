"""Discounts: what is taken off each count, estimated from counts of counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.columns import Column
from lmzoo.ngram.counts import Counts, counts_of_counts
from lmzoo.ngram.levels import Level
from lmzoo.ngram.runs import Nodes
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]

# KenLM's, for orders whose own cannot be estimated
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
# Katz takes nothing off counts above this one (Katz 1987)
_KATZ_COUNTS = 5


class DiscountWarning(UserWarning):
    """The discounts of some order could not be estimated, so the fixed ones were taken."""


@dataclass(frozen=True, kw_only=True)
class Discounts:
    """What is taken off counts of 1, 2, …; the last amount is for every higher count too.

    `reason`: why they are the fixed ones, if they are.
    """

    amounts: tuple[float, ...]
    reason: str | None = None

    def of(self, counts_G: Counts) -> Floats:
        """The discount of each count; 0 for a count of 0."""
        return np.array((0.0, *self.amounts))[np.minimum(counts_G, len(self.amounts))]


def _fixed(reason: str) -> Discounts:
    return Discounts(amounts=FALLBACK_DISCOUNTS, reason=reason)


def modified_discounts(counts_G: Column) -> Discounts:
    """D1, D2, D3+ from counts of counts (Chen & Goodman 1998, eq. 26), or the fixed ones where these have no sense.

    They have none where some count 1, 2 or 3 never occurs, or where an estimate is not above 0 and at most its count.
    """
    n1, n2, n3, n4 = counts_of_counts(counts_G)
    missing = _missing((n1, n2, n3))
    if missing:
        return _fixed(missing)
    y = n1 / (n1 + 2 * n2)
    return _in_range((1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3))


def single_discount(counts_G: Column) -> Discounts:
    """One D = n1 / (n1 + 2 n2) for every count (Ney, Essen & Kneser 1994, eq. 15), or the fixed ones."""
    n1, n2, *_ = counts_of_counts(counts_G)
    return _fixed(_missing((n1,))) if n1 == 0 else _in_range((n1 / (n1 + 2 * n2),))


def katz_discounts(counts_G: Column) -> Discounts:
    """What Good-Turing takes off counts up to 5 (Katz 1987, eq. 10, as c - d_c c), nothing above; or the fixed ones."""
    n = counts_of_counts(counts_G, _KATZ_COUNTS + 1)
    missing = _missing(n)
    if missing:
        return _fixed(missing)
    unseen = (_KATZ_COUNTS + 1) * n[_KATZ_COUNTS] / n[0]
    if unseen >= 1:
        return _fixed(f"Good-Turing would leave nothing: 6 n6 / n1 is {unseen:.2f}")
    kept = [((c + 1) * n[c] / n[c - 1] / c - unseen) / (1 - unseen) for c in range(1, _KATZ_COUNTS + 1)]
    found = _in_range(tuple(c * (1 - share) for c, share in enumerate(kept, start=1)))
    return found if found.reason else Discounts(amounts=(*found.amounts, 0.0))


ESTIMATES: Mapping[str, Callable[[Column], Discounts]] = {
    "mkn": modified_discounts,
    "kn": single_discount,
    "ad": single_discount,
    "katz": katz_discounts,
}


def _missing(n: Sequence[int]) -> str:
    missing = [str(c) for c, how_many in enumerate(n, start=1) if how_many == 0]
    return f"no n-gram has count {' or '.join(missing)}" if missing else ""


def _in_range(amounts: tuple[float, ...]) -> Discounts:
    for c, amount in enumerate(amounts, start=1):
        if not 0 < amount <= c:
            return _fixed(f"the discount of count {c} would be {amount:.2f}")
    return Discounts(amounts=amounts)


def for_backing_off(discounts: Discounts) -> Discounts:
    """The same, or the fixed ones where a count would lose all: backed off, what was seen has nothing else."""
    for c, amount in enumerate(discounts.amounts, start=1):
        if amount >= c:
            return _fixed(f"backed off, the discount {amount:.2f} would leave nothing of count {c}")
    return discounts


def warn_of_fallbacks(discounts: Sequence[Discounts]) -> None:
    """A `DiscountWarning` for each order whose discounts are the fixed ones."""
    for order, discount in enumerate(discounts, start=1):
        if discount.reason:
            fixed = ", ".join(map(str, FALLBACK_DISCOUNTS))
            message = f"order {order}: {discount.reason}; the fixed discounts {fixed} are taken"
            warnings.warn(message, DiscountWarning, stacklevel=2)


def last_ngrams(stream_N: Nodes, vocab: Vocab, levels: Sequence[Level]) -> list[int]:
    """Of each order, the id of the n-gram that KenLM's sort puts last, whose plain count it counts.

    It sorts by the last token, then the one before it and so on, tokens in the order of their first appearance.
    `stream_N`: the text, each document after its `<s>`.
    """
    # the markers are at the head of KenLM's list, wherever they stand in the text
    rank_V = np.full(len(vocab), -1)
    seen, first = np.unique(stream_N, return_index=True)
    rank_V[seen] = first + 1
    rank_V[vocab.bos_id] = -1
    if vocab.eos_id is not None:
        rank_V[vocab.eos_id] = 0
    at_N = np.arange(len(stream_N))
    start_N = np.maximum.accumulate(np.where(stream_N == vocab.bos_id, at_N, 0))
    ends = np.flatnonzero(start_N < at_N)
    for back in range(len(levels)):
        is_inside = ends - start_N[ends] >= back
        ranks = np.where(is_inside, rank_V[stream_N[ends - back]], -2)
        ends = ends[ranks == ranks.max()]
    tokens = stream_N[start_N[ends[0]] : ends[0] + 1]
    return [_find(tokens[-k:], levels) for k in range(1, min(len(levels), len(tokens)) + 1)]


def _find(tokens: Nodes, levels: Sequence[Level]) -> int:
    node = int(tokens[0])
    for token, level in zip(tokens[1:], levels[1:], strict=False):
        start, end = level.starts_of(node, node + 1)
        node = int(start + np.searchsorted(level.tokens_G[start:end], token))
    return node
