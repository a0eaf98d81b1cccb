"""Options of smoothing fitted on held-out text: the k of add-k, the weights of Jelinek-Mercer, discounts.

No count comes from the held-out text; it only says which of several models of the training text suits it best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.ngram.counts import find_ngrams, stream_of
from lmzoo.ngram.discounts import Discounts
from lmzoo.ngram.levels import Level
from lmzoo.ngram.runs import ABSENT, Counts

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_EM_ROUNDS = 30
_TUNING_ROUNDS = 3
_LEAST_DISCOUNT = 1e-3
_GOLDEN = (5**0.5 - 1) / 2
_GOLDEN_STEPS = 12
# histories share a Jelinek-Mercer weight with those of like frequency: powers of 2 up to 2^15
N_BUCKETS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Sighting:
    """What one order knows of M held-out tokens: their n-grams and their histories, by id or `ABSENT`."""

    level: Level
    ngram_M: npt.NDArray[np.int64]
    history_M: npt.NDArray[np.int64]

    def of_ngrams(self, values_G: npt.NDArray[np.generic]) -> Floats:
        """A value of each token's n-gram; 0 where it was never seen."""
        return _pick(values_G, self.ngram_M)

    def of_histories(self, values_H: npt.NDArray[np.generic]) -> Floats:
        """A value of each token's history; 0 where it was never seen."""
        return _pick(values_H, self.history_M)


def _pick(values: npt.NDArray[np.generic], ids_M: npt.NDArray[np.int64]) -> Floats:
    if not len(values):
        return np.zeros(len(ids_M))
    return np.where(ids_M == ABSENT, 0.0, values[np.maximum(ids_M, 0)].astype(np.float64))


def sight(valid: Split, levels: Sequence[Level]) -> list[Sighting]:
    """What each order, 1 to n, knows of the tokens of a text."""
    _, place_N = stream_of(valid)
    at_M = np.flatnonzero(place_N > 0)
    nodes = find_ngrams(valid, levels)
    sightings = []
    for k, level in enumerate(levels, start=1):
        history_M = np.zeros(len(at_M), np.int64) if k == 1 else nodes[k - 2][at_M - 1].astype(np.int64)
        sightings.append(Sighting(level=level, ngram_M=nodes[k - 1][at_M].astype(np.int64), history_M=history_M))
    return sightings


def fit_k(levels: Sequence[Level], valid: Split, n_predictable: int) -> float:
    """The k of add-k that gives held-out tokens the highest probability, to three digits."""
    counts_M = np.zeros(valid.n_tokens)
    totals_M = np.zeros(valid.n_tokens)
    _, place_N = stream_of(valid)
    place_M = place_N[place_N > 0]
    for k, seen in enumerate(sight(valid, levels), start=1):
        # the whole context: n-1 tokens, or all there is of it near the start of a document
        is_whole_M = np.minimum(place_M + 1, len(levels)) == k
        counts_M = np.where(is_whole_M, seen.of_ngrams(seen.level.counts_G[:]), counts_M)
        totals_M = np.where(is_whole_M, seen.of_histories(seen.level.totals_H), totals_M)
    return best_k(counts_M, totals_M, n_predictable)


def best_k(counts_M: Floats, totals_M: Floats, n_predictable: int) -> float:
    """The k under which tokens of these counts in contexts of these totals are most probable."""

    def nats(k: float) -> float:
        return float((np.log(totals_M + k * n_predictable) - np.log(counts_M + k)).sum())

    best = 1.0
    for width in (6.0, 0.2, 0.01):
        grid = np.log10(best) + np.linspace(-width, width, 41)
        best = float(10 ** min(grid, key=lambda g: nats(10**g)))
    return best


def bucket(totals: Floats) -> npt.NDArray[np.int64]:
    """Which weight a history of this total has: floor(log2), at most 15."""
    return np.minimum(np.log2(np.maximum(totals, 1)).astype(np.int64), N_BUCKETS - 1)


def fit_interpolation(levels: Sequence[Level], valid: Split, n_predictable: int) -> list[Floats]:
    """Jelinek-Mercer weights of each order and bucket by expectation maximisation (Jelinek & Mercer 1980).

    The weight is what an order's own relative frequency counts for against the order below; order 0 is uniform.
    """
    seen = sight(valid, levels)
    totals = [s.of_histories(s.level.totals_H) for s in seen]
    own = [_ratio(s.of_ngrams(s.level.counts_G[:]), t) for s, t in zip(seen, totals, strict=True)]
    buckets = [bucket(t) for t in totals]
    weights = [np.full(N_BUCKETS, 0.5) for _ in levels]
    for _ in range(_EM_ROUNDS):
        weights = _em_round(weights, own, totals, buckets, 1 / n_predictable)
    return weights


def _em_round(
    weights: Sequence[Floats], own: Sequence[Floats], totals: Sequence[Floats], buckets: Sequence[Counts], base: float
) -> list[Floats]:
    """One round: how much of each token every order is responsible for, and the weights that this makes best."""
    lam = [np.where(t > 0, w[b], 0.0) for w, t, b in zip(weights, totals, buckets, strict=True)]
    below = [np.full(len(own[0]), base)]
    for w, p in zip(lam, own, strict=True):
        below.append(w * p + (1 - w) * below[-1])
    # the share of each token that is handed down to this order or a lower one
    reached = np.ones(len(own[0]))
    better: list[Floats] = []
    for k in range(len(own) - 1, -1, -1):
        kept = reached * lam[k] * own[k] / below[k + 1]
        is_known = totals[k] > 0
        used = np.bincount(buckets[k][is_known], weights=kept[is_known], minlength=N_BUCKETS)
        asked = np.bincount(buckets[k][is_known], weights=reached[is_known], minlength=N_BUCKETS)
        # as if each bucket had been asked once more and half kept: no weight becomes 0 or 1
        better.append((used + 0.5) / (asked + 1.0))
        reached = reached - kept
    return better[::-1]


def tune_discounts(
    levels: Sequence[Level], counts: Sequence[Counts], start: Sequence[Discounts], valid: Split, n_predictable: int
) -> list[Discounts]:
    """Discounts that make the held-out text most probable, order by order and count by count, from `start` on.

    `counts` are those that the discounts are taken off (continuation counts, or plain ones).
    """
    mixers = [_Mixer(s, c, len(d.amounts)) for s, c, d in zip(sight(valid, levels), counts, start, strict=True)]
    amounts = [list(d.amounts) for d in start]
    for _ in range(_TUNING_ROUNDS):
        below = np.full(valid.n_tokens, 1 / n_predictable)
        for k, mixer in enumerate(mixers):
            for j in range(len(amounts[k])):

                def nats(amount: float, k: int = k, j: int = j, below: Floats = below) -> float:
                    trial = [*amounts[:k], [*amounts[k][:j], amount, *amounts[k][j + 1 :]], *amounts[k + 1 :]]
                    p = below
                    for higher, taken in zip(mixers[k:], trial[k:], strict=True):
                        p = higher.mix(taken, p)
                    return -float(np.log(p).sum())

                best = _least(nats, _LEAST_DISCOUNT, float(j + 1))
                if nats(best) < nats(amounts[k][j]):
                    amounts[k][j] = best
            below = mixer.mix(amounts[k], below)
    return [Discounts(amounts=tuple(a)) for a in amounts]


class _Mixer:
    """One order's interpolation on held-out tokens, ready for any discounts."""

    def __init__(self, seen: Sighting, counts_G: Counts, n_amounts: int) -> None:
        level = seen.level
        self._total_M = seen.of_histories(level.sum_by_history(counts_G))
        self._count_M = seen.of_ngrams(counts_G)
        self._class_M = np.minimum(self._count_M, n_amounts).astype(np.int64)
        classes_G = np.minimum(counts_G, n_amounts)
        self._n_of_class = [seen.of_histories(level.sum_by_history(classes_G == j)) for j in range(1, n_amounts + 1)]

    def mix(self, amounts: Sequence[float], below_M: Floats) -> Floats:
        """p of each token at this order, given p one order below."""
        taken_M = np.array((0.0, *amounts))[self._class_M]
        rest_M = sum(a * n for a, n in zip(amounts, self._n_of_class, strict=True))
        mixed_M = _ratio(self._count_M - taken_M + rest_M * below_M, self._total_M)
        return np.where(self._total_M > 0, mixed_M, below_M)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)


def _least(cost: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is least, by golden sections."""
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    cost_a, cost_b = cost(a), cost(b)
    for _ in range(_GOLDEN_STEPS):
        if cost_a < cost_b:
            high, b, cost_b = b, a, cost_a
            a = high - _GOLDEN * (high - low)
            cost_a = cost(a)
        else:
            low, a, cost_a = a, b, cost_b
            b = low + _GOLDEN * (high - low)
            cost_b = cost(b)
    return (low + high) / 2
