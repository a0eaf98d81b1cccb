"""From counts to probabilities.  Each smoothing fills the same two tables per order.

`logp_G`: ln p(token | history) of every n-gram seen.  `backoff_G`: what is added, per history, when the token was not
seen after it and the next shorter history is asked.  A history that nothing followed adds 0.

Most smoothings differ only in the *shares* of each order; see `rules.py` for what they make of a block of n-grams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from lmzoo.corpus import Split
from lmzoo.ngram import rules
from lmzoo.ngram.columns import IN_MEMORY, Column, Room
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import each_continuation_counts
from lmzoo.ngram.discounts import ESTIMATES, Discounts, for_backing_off, last_ngrams, warn_of_fallbacks
from lmzoo.ngram.held_out import fit_interpolation, fit_k, tune_discounts
from lmzoo.ngram.levels import Block, Level
from lmzoo.ngram.rules import Cells, Floats, Rule, joined
from lmzoo.ngram.runs import Counts
from lmzoo.vocab import Vocab

# what a shorter history counts for in stupid backoff (Brants et al. 2007)
_STUPID_FACTOR = 0.4


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The probabilities of one order: see the module."""

    logp_G: Any
    backoff_G: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """What a smoothing starts from.

    `stream_N` is the text that was counted, each document after its `<s>`.  `held_out` serves to fit options, never for
    counts.  `is_last_use`: each order is let go of as soon as it is smoothed.
    """

    config: NgramConfig
    vocab: Vocab
    levels: Sequence[Level]
    stream_N: Column
    held_out: Split | None
    room: Room = IN_MEMORY
    is_last_use: bool = False

    @property
    def valid(self) -> Split:
        """The held-out text of a smoothing that is fitted."""
        assert self.held_out is not None
        return self.held_out


@dataclass(frozen=True, kw_only=True, eq=False)
class Figures:
    """The tables of all orders laid end to end: ln p of all n-grams, back-off of all below the highest order."""

    logp_G: Column
    backoff_G: Column


# figures, and what is worth knowing of how they were made, as JSON values
Smoothed = tuple[Figures, dict[str, Any]]
# the counts of one order, and what is made of them
Step = tuple[Column, Rule]


def smooth(counted: Counted) -> Smoothed:
    """Figures by the smoothing that the config names, and the details of how: discounts, fallbacks, fitted options."""
    figures, details = SMOOTHINGS[counted.config.smoothing](counted)
    return figures, {"smoothing": counted.config.smoothing, **details}


def discounting(counted: Counted) -> Smoothed:
    """What discounts take off the counts of an order goes to the order below.

    `mkn`: modified Kneser-Ney (Chen & Goodman 1998, eq. 24 to 28).  `kn`: with one discount (Kneser & Ney 1995).
    `ad`: absolute discounting (Ney, Essen & Kneser 1994).  `katz`: backed off (Katz 1987).  Warns with
    `DiscountWarning` for each order whose discounts are the fixed ones.
    """
    joining = rules.interpolate if _is_interpolated(counted.config) else rules.back_off
    discounts: list[Discounts] = []

    def steps() -> Iterator[Step]:
        for counts_G, discount in _counts_and_discounts(counted):
            discounts.append(discount)
            yield counts_G, joined(partial(rules.discounted, discounts=discount), joining)

    figures = _filled(counted, steps())
    if counted.config.discounts != "tuned":
        warn_of_fallbacks(discounts)
    fallbacks = {str(order): d.reason for order, d in enumerate(discounts, start=1) if d.reason}
    return figures, {"discounts": [list(d.amounts) for d in discounts], "fallbacks": fallbacks}


def _is_interpolated(config: NgramConfig) -> bool:
    return config.interpolated and config.smoothing != "katz"


def _counts_and_discounts(counted: Counted) -> Iterator[tuple[Column, Discounts]]:
    """Order by order, so that only the latest counts need be there."""
    levels, config = counted.levels, counted.config
    is_kneser_ney = config.smoothing in ("mkn", "kn")
    counts = each_continuation_counts(levels, counted.room) if is_kneser_ney else (level.counts_G for level in levels)
    last = last_ngrams(counted.stream_N[:], counted.vocab, levels) if config.discounts == "kenlm" else []
    estimated = ((counts_G, _estimate(counts_G, order, counted, last)) for order, counts_G in enumerate(counts))
    if config.discounts != "tuned":
        yield from estimated
        return
    all_counts, start = zip(*estimated, strict=True)
    yield from zip(
        all_counts,
        tune_discounts(levels, all_counts, start, counted.valid, counted.vocab.n_predictable),
        strict=True,
    )


def _estimate(counts_G: Column, order: int, counted: Counted, last: Sequence[int]) -> Discounts:
    """The discounts of the order at this place; `last`: of the first few the n-gram whose plain count KenLM counts."""
    config = counted.config
    if order < len(last):
        n = last[order]
        counts_G = counts_G[:].copy()
        counts_G[n : n + 1] = counted.levels[order].counts_G[n : n + 1]
    discounts = ESTIMATES[config.smoothing](counts_G)
    return discounts if _is_interpolated(config) else for_backing_off(discounts)


def witten_bell(counted: Counted) -> Smoothed:
    """Method C: c / (C + T), and T / (C + T) for the order below, T the number of different tokens that followed.

    Witten & Bell 1991; interpolated as by Chen & Goodman 1998, eq. 17.
    """
    rule = joined(rules.witten_bell, rules.interpolate)
    return _filled(counted, [(level.counts_G, rule) for level in counted.levels]), {}


def jelinek_mercer(counted: Counted) -> Smoothed:
    """Relative frequencies of all orders, weighted by how frequent the history is; weights by EM on held-out text.

    Jelinek & Mercer 1980; buckets of histories as by Bahl, Jelinek & Mercer 1983.
    """
    weights = fit_interpolation(counted.levels, counted.valid, counted.vocab.n_predictable)
    steps = [
        (level.counts_G, joined(partial(rules.weighted, weights=of_order), rules.interpolate))
        for level, of_order in zip(counted.levels, weights, strict=True)
    ]
    return _filled(counted, steps), {"weights": [w.tolist() for w in weights]}


def maximum_likelihood(counted: Counted) -> Smoothed:
    """Relative frequencies c / C; in a history that nothing followed, those of its longest suffix that was followed.

    What was never seen after a seen history is impossible.
    """
    return _frequencies(counted, -math.inf), {}


def stupid_backoff(counted: Counted) -> Smoothed:
    """Relative frequencies; 0.4 times those of the shorter history for what was never seen (Brants et al. 2007).

    The scores do not sum to 1.
    """
    return _frequencies(counted, math.log(_STUPID_FACTOR)), {"factor": _STUPID_FACTOR}


def _frequencies(counted: Counted, backoff: float) -> Figures:
    def rule(block: Block, counts_G: Counts, lower_G: Floats) -> Cells:
        return rules.frequencies(block, counts_G, backoff)

    return _filled(counted, [(level.counts_G, rule) for level in counted.levels], mixes=False)


def add_k(counted: Counted) -> Smoothed:
    """(c + k) / (C + k V) with the counts of the whole context; uniform in a context that nothing followed.

    Near its start a document's context is all there is of it, so it is whole there however short.
    """
    n_predictable, levels = counted.vocab.n_predictable, counted.levels
    k = counted.config.k
    if k is None:
        k = fit_k(levels, counted.valid, n_predictable)

    def step(level: Level, below: Level | None) -> Step:
        def rule(block: Block, counts_G: Counts, lower_G: Floats) -> Cells:
            return rules.add_k(block, counts_G, k, n_predictable, below, is_highest=level is levels[-1])

        return level.counts_G, rule

    return _filled(counted, map(step, levels, [None, *levels[:-1]]), mixes=False), {"k": k}


SMOOTHINGS: Mapping[str, Callable[[Counted], Smoothed]] = {
    "mkn": discounting,
    "kn": discounting,
    "ad": discounting,
    "katz": discounting,
    "wb": witten_bell,
    "jm": jelinek_mercer,
    "addk": add_k,
    "mle": maximum_likelihood,
    "sb": stupid_backoff,
}


def _filled(counted: Counted, steps: Iterable[Step], *, mixes: bool = True) -> Figures:
    """The figures of all orders from the lowest up, block by block.

    `mixes`: each order mixes in the one below; order 0 is uniform.
    """
    room, levels = counted.room, counted.levels
    bounds = [0, *accumulate(map(len, levels))]
    logp_G, backoff_G = room.empty(bounds[-1], np.float64), room.empty(bounds[-2], np.float64)
    below: Column = np.full(1, 1 / counted.vocab.n_predictable)
    for number, (level, (counts_G, rule)) in enumerate(zip(levels, steps, strict=True)):
        # the highest order is mixed into none
        p_G = room.empty(len(level) if mixes and level is not levels[-1] else 0, np.float64)
        lower_G = room.picked(below, level.suffix_G) if mixes else None
        for block in level.blocks(room.n_grams):
            part = block.grams
            cells = rule(block, counts_G[part], np.zeros(0) if lower_G is None else lower_G[part])
            logp_G[_moved(part, bounds[number])] = cells.logp_G
            if number:  # the empty history backs off to nothing
                backoff_G[_moved(block.histories, bounds[number - 1])] = cells.backoff_H
            if len(p_G):
                p_G[part] = cells.p_G
        below = p_G
        if counted.is_last_use:
            level.forget()
    return Figures(logp_G=logp_G, backoff_G=backoff_G)


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)
