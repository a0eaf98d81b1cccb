"""What a smoothing makes of a block of n-grams: shares of each history's mass, and from shares to probabilities.

A seen n-gram *keeps* a share of its history's mass, and the history has something *left* for the order below.
`interpolate` and `back_off` are the two ways of giving out what is left.  All sums are over one history, and a block
has whole histories, so how an order is cut into blocks changes no digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.discounts import Discounts
from lmzoo.ngram.held_out import bucket
from lmzoo.ngram.levels import Block, Level
from lmzoo.ngram.runs import Counts

Floats = npt.NDArray[np.float64]

# below this much, nothing is left but rounding
NOTHING = 1e-12


class Cells(NamedTuple):
    """A block's figures: p and ln p of every n-gram, and what each history adds where a token never followed it.

    `p_G` is for the order above, which mixes it in; empty where it does not.
    """

    p_G: Floats
    logp_G: Floats
    backoff_H: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """What each n-gram of a block keeps of its history's mass, and what each history has left of it."""

    kept_G: Floats
    left_H: Floats


# from a block, its counts and the p of the same tokens one order below
Rule = Callable[[Block, Counts, Floats], Cells]
Sharing = Callable[[Block, Counts], Share]
Joining = Callable[[Block, Share, Floats], Cells]


def joined(sharing: Sharing, joining: Joining) -> Rule:
    """A rule that shares out by one way and joins the order below by another."""

    def rule(block: Block, counts_G: Counts, lower_G: Floats) -> Cells:
        return joining(block, sharing(block, counts_G), lower_G)

    return rule


def interpolate(block: Block, share: Share, lower_G: Floats) -> Cells:
    """What is left is spread over the whole order below."""
    return _cells(block, share.kept_G + share.left_H[block.history_G] * lower_G, share.left_H)


def back_off(block: Block, share: Share, lower_G: Floats) -> Cells:
    """What is left goes to the tokens never seen after the history, as the order below has them."""
    # order 1 has a place for every symbol, any other only for what was seen
    is_seen_G = block.counts_G > 0
    rest_H = 1 - block.sum_by_history(np.where(is_seen_G, lower_G, 0.0))
    is_full_H = rest_H < NOTHING
    kept_H = block.sum_by_history(share.kept_G)
    scale_H = np.where(is_full_H & (kept_H > 0), 1 / np.where(kept_H > 0, kept_H, 1.0), 1.0)
    factor_H = np.where(is_full_H, 1.0, share.left_H / np.where(is_full_H, 1.0, rest_H))
    kept_G = share.kept_G * scale_H[block.history_G]
    return _cells(block, np.where(is_seen_G, kept_G, factor_H[block.history_G] * lower_G), factor_H)


def _cells(block: Block, p_G: Floats, left_H: Floats) -> Cells:
    if block.is_lowest:
        # <s> is context only
        p_G[block.level.starts] = 0.0
    return Cells(p_G, _log(p_G), _log(left_H))


def discounted(block: Block, counts_G: Counts, discounts: Discounts) -> Share:
    """Each count less its discount, over the total; what was taken is left."""
    taken_G = discounts.of(counts_G)
    total_H = block.sum_by_history(counts_G)
    if min(discounts.amounts) < NOTHING:
        # Katz takes nothing off high counts; a history with none else would leave the unseen impossible (as SRILM, +1)
        taken_H = block.sum_by_history(taken_G)
        total_H = np.where((total_H > 0) & (taken_H < NOTHING), total_H + 1, total_H)
    kept_G = counts_G - taken_G
    left_H = total_H - block.sum_by_history(kept_G)
    return Share(
        kept_G=_per_history(kept_G, total_H, block),
        left_H=np.divide(left_H, total_H, out=np.ones(len(total_H)), where=total_H > 0),
    )


def witten_bell(block: Block, counts_G: Counts) -> Share:
    """c / (C + T) and T / (C + T), T the number of different tokens that followed."""
    types_H = block.sum_by_history(counts_G > 0)
    total_H = block.sum_by_history(counts_G) + types_H
    left_H = np.divide(types_H, total_H, out=np.ones(len(total_H)), where=total_H > 0)
    return Share(kept_G=_per_history(counts_G, total_H, block), left_H=left_H)


def weighted(block: Block, counts_G: Counts, weights: Floats) -> Share:
    """Relative frequencies, with a weight by how frequent the history is."""
    total_H = block.sum_by_history(counts_G)
    weight_H = np.where(total_H > 0, weights[bucket(total_H)], 0.0)
    kept_G = weight_H[block.history_G] * _per_history(counts_G, total_H, block)
    return Share(kept_G=kept_G, left_H=1 - weight_H)


def frequencies(block: Block, counts_G: Counts, backoff: float) -> Cells:
    """Relative frequencies, and one back-off for every history that was followed."""
    total_H = block.sum_by_history(counts_G)
    logp_G = _log(_per_history(counts_G, total_H, block))
    return Cells(np.zeros(0), logp_G, np.where(total_H > 0, backoff, 0.0))


def add_k(
    block: Block, counts_G: Counts, k: float, n_predictable: int, below: Level | None, *, is_highest: bool
) -> Cells:
    """(c + k) / (C + k V) in whole contexts; `below`: the level of the histories, None at order 1."""
    total_H, mass = block.sum_by_history(counts_G), k * n_predictable
    logp_G = np.log((counts_G + k) / (total_H[block.history_G] + mass))
    is_whole_G = block.level.are_starts(block.grams) | is_highest
    logp_G = np.where(is_whole_G, logp_G, -math.log(n_predictable))
    if below is None:
        logp_G[block.level.starts] = -math.inf
        return Cells(np.zeros(0), logp_G, np.zeros(block.n_histories))
    is_whole_H = (below.are_starts(block.histories) | is_highest) & (total_H > 0)
    # relative to the uniform distribution below: k / (C + k V) over 1 / V
    return Cells(np.zeros(0), logp_G, np.where(is_whole_H, np.log(mass / (total_H + mass)), 0.0))


def _per_history(values_G: npt.NDArray[Any], total_H: Floats, block: Block) -> Floats:
    """Values of n-grams over the total of their history; 0 in a history without any."""
    total_G = total_H[block.history_G]
    return np.asarray(np.divide(values_G, total_G, out=np.zeros(len(total_G)), where=total_G > 0))


def _log(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))
