"""From counts to probabilities.  Each smoothing fills the same two tables per order.

`logp_G`: ln p(token | history) of every n-gram seen.  `backoff_G`: what is added, per history, when the token was not
seen after it and the next shorter history is asked.  A history that nothing followed adds 0.

Most smoothings differ only in the *shares* of each order: what a seen n-gram keeps, and what its history has left for
the order below.  `interpolate` and `back_off` turn shares into tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import Counts, Level, continuation_counts
from lmzoo.ngram.discounts import ESTIMATES, Discounts, for_backing_off, last_ngrams, warn_of_fallbacks
from lmzoo.ngram.held_out import bucket, fit_interpolation, fit_k, tune_discounts
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]

# what a shorter history counts for in stupid backoff (Brants et al. 2007)
_STUPID_FACTOR = 0.4
# below this much, nothing is left but rounding
_NOTHING = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The probabilities of one order: see the module."""

    logp_G: Floats
    backoff_G: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """Of one order: what each seen n-gram keeps of its history's mass, and what each history has left of it."""

    kept_G: Floats
    left_H: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """What a smoothing starts from.  `valid` serves to fit options, never for counts."""

    config: NgramConfig
    vocab: Vocab
    levels: Sequence[Level]
    train: Split
    valid: Split


# tables, and what is worth knowing of how they were made, as JSON values
Smoothed = tuple[list[Table], dict[str, Any]]


def smooth(counted: Counted) -> Smoothed:
    """Tables by the smoothing that the config names, and the details of how: discounts, fallbacks, fitted options."""
    tables, details = SMOOTHINGS[counted.config.smoothing](counted)
    return tables, {"smoothing": counted.config.smoothing, **details}


def discounting(counted: Counted) -> Smoothed:
    """What discounts take off the counts of an order goes to the order below.

    `mkn`: modified Kneser-Ney (Chen & Goodman 1998, eq. 24 to 28).  `kn`: with one discount (Kneser & Ney 1995).
    `ad`: absolute discounting (Ney, Essen & Kneser 1994).  `katz`: backed off (Katz 1987).  Warns with
    `DiscountWarning` for each order whose discounts are the fixed ones.
    """
    config, levels = counted.config, counted.levels
    is_kneser_ney = config.smoothing in ("mkn", "kn")
    counts = continuation_counts(levels) if is_kneser_ney else [level.counts_G for level in levels]
    discounts = _discounts(counted, counts)
    shares = [_discounted(level, c, d) for level, c, d in zip(levels, counts, discounts, strict=True)]
    tables = (interpolate if _is_interpolated(config) else back_off)(levels, counted.vocab, shares)
    fallbacks = {str(order): d.reason for order, d in enumerate(discounts, start=1) if d.reason}
    return tables, {"discounts": [list(d.amounts) for d in discounts], "fallbacks": fallbacks}


def _is_interpolated(config: NgramConfig) -> bool:
    return config.interpolated and config.smoothing != "katz"


def _discounts(counted: Counted, counts: Sequence[Counts]) -> list[Discounts]:
    config = counted.config
    counted_G = [count_G.copy() for count_G in counts]
    if config.discounts == "kenlm":
        for n, count_G, level in zip(
            last_ngrams(counted.train, counted.levels), counted_G, counted.levels, strict=False
        ):
            count_G[n] = level.counts_G[n]
    discounts = [ESTIMATES[config.smoothing](count_G) for count_G in counted_G]
    if not _is_interpolated(config):
        discounts = [for_backing_off(discount) for discount in discounts]
    if config.discounts == "tuned":
        return tune_discounts(counted.levels, counts, discounts, counted.valid, counted.vocab.n_predictable)
    warn_of_fallbacks(discounts)
    return discounts


def _discounted(level: Level, counts_G: Counts, discounts: Discounts) -> Share:
    taken_G = discounts.of(counts_G)
    total_H, taken_H = level.sum_by_history(counts_G), level.sum_by_history(taken_G)
    # Katz takes nothing off high counts; a history with none else would leave the unseen impossible (as SRILM, +1)
    total_H = np.where((total_H > 0) & (taken_H < _NOTHING), total_H + 1, total_H)
    kept_H = level.sum_by_history(counts_G - taken_G)
    return Share(
        kept_G=_per_history(counts_G - taken_G, total_H, level),
        left_H=np.divide(total_H - kept_H, total_H, out=np.ones(len(total_H)), where=total_H > 0),
    )


def witten_bell(counted: Counted) -> Smoothed:
    """Method C: c / (C + T), and T / (C + T) for the order below, T the number of different tokens that followed.

    Witten & Bell 1991; interpolated as by Chen & Goodman 1998, eq. 17.
    """
    shares = []
    for level in counted.levels:
        types_H = level.sum_by_history(level.counts_G > 0)
        total_H = level.totals_H + types_H
        left_H = np.divide(types_H, total_H, out=np.ones(len(total_H)), where=total_H > 0)
        shares.append(Share(kept_G=_per_history(level.counts_G, total_H, level), left_H=left_H))
    return interpolate(counted.levels, counted.vocab, shares), {}


def jelinek_mercer(counted: Counted) -> Smoothed:
    """Relative frequencies of all orders, weighted by how frequent the history is; weights by EM on held-out text.

    Jelinek & Mercer 1980; buckets of histories as by Bahl, Jelinek & Mercer 1983.
    """
    weights = fit_interpolation(counted.levels, counted.valid, counted.vocab.n_predictable)
    shares = []
    for level, weight in zip(counted.levels, weights, strict=True):
        weight_H = np.where(level.totals_H > 0, weight[bucket(level.totals_H)], 0.0)
        kept_G = weight_H[level.history_G] * _per_history(level.counts_G, level.totals_H, level)
        shares.append(Share(kept_G=kept_G, left_H=1 - weight_H))
    return interpolate(counted.levels, counted.vocab, shares), {"weights": [w.tolist() for w in weights]}


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


def _frequencies(counted: Counted, backoff: float) -> list[Table]:
    logps = [_log(_per_history(level.counts_G, level.totals_H, level)) for level in counted.levels]
    return _tables(logps, [np.where(level.totals_H > 0, backoff, 0.0) for level in counted.levels[1:]])


def add_k(counted: Counted) -> Smoothed:
    """(c + k) / (C + k V) with the counts of the whole context; uniform in a context that nothing followed.

    Near its start a document's context is all there is of it, so it is whole there however short.
    """
    n_predictable, levels = counted.vocab.n_predictable, counted.levels
    k = counted.config.k
    if k is None:
        k = fit_k(levels, counted.valid, n_predictable)
    mass = k * n_predictable
    logps, backoffs = [], []
    for order, level in enumerate(levels, start=1):
        is_highest = order == len(levels)
        logp_G = np.log((level.counts_G + k) / (level.totals_H[level.history_G] + mass))
        logps.append(np.where(level.starts_G | is_highest, logp_G, -math.log(n_predictable)))
        if order > 1:
            is_whole_H = (levels[order - 2].starts_G | is_highest) & (level.totals_H > 0)
            # relative to the uniform distribution below: k / (C + k V) over 1 / V
            backoffs.append(np.where(is_whole_H, np.log(mass / (level.totals_H + mass)), 0.0))
    logps[0][counted.vocab.bos_id] = -math.inf
    return _tables(logps, backoffs), {"k": k}


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


def interpolate(levels: Sequence[Level], vocab: Vocab, shares: Sequence[Share]) -> list[Table]:
    """What is left at each order is spread over the whole order below; order 0 is uniform."""
    below_G = np.full(1, 1 / vocab.n_predictable)
    logps: list[Floats] = []
    backoffs: list[Floats] = []
    for level, share in zip(levels, shares, strict=True):
        below_G = share.kept_G + share.left_H[level.history_G] * below_G[level.suffix_G]
        if not logps:
            below_G[vocab.bos_id] = 0.0
        logps.append(_log(below_G))
        backoffs.append(_log(share.left_H))
    return _tables(logps, backoffs[1:])


def back_off(levels: Sequence[Level], vocab: Vocab, shares: Sequence[Share]) -> list[Table]:
    """What is left at each order goes to the tokens never seen after the history, as the order below has them."""
    below_G = np.full(1, 1 / vocab.n_predictable)
    logps, backoffs = [], []
    for order, (level, share) in enumerate(zip(levels, shares, strict=True), start=1):
        is_seen_G = (level.counts_G > 0) if order == 1 else np.ones(len(level.keys_G), np.bool_)
        # what the order below gives to tokens never seen here
        rest_H = 1 - level.sum_by_history(np.where(is_seen_G, below_G[level.suffix_G], 0.0))
        is_full_H = rest_H < _NOTHING
        kept_H = level.sum_by_history(share.kept_G)
        scale_H = np.where(is_full_H & (kept_H > 0), 1 / np.where(kept_H > 0, kept_H, 1.0), 1.0)
        factor_H = np.where(is_full_H, 1.0, share.left_H / np.where(is_full_H, 1.0, rest_H))
        kept_G = share.kept_G * scale_H[level.history_G]
        below_G = np.where(is_seen_G, kept_G, factor_H[level.history_G] * below_G[level.suffix_G])
        if order == 1:
            below_G[vocab.bos_id] = 0.0
        logps.append(_log(below_G))
        backoffs.append(_log(factor_H))
    return _tables(logps, backoffs[1:])


def _per_history(values_G: npt.NDArray[Any], total_H: Floats, level: Level) -> Floats:
    """Values of n-grams over the total of their history; 0 in a history without any."""
    total_G = total_H[level.history_G]
    return np.asarray(np.divide(values_G, total_G, out=np.zeros(len(total_G)), where=total_G > 0))


def _tables(logps: Sequence[Floats], backoffs: Sequence[Floats]) -> list[Table]:
    # nothing is longer than the highest order, so it backs off to nothing
    return [Table(logp_G=p, backoff_G=b) for p, b in zip(logps, [*backoffs, np.zeros(0)], strict=True)]


def _log(p_G: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p_G))
