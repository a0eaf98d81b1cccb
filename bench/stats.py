"""Intervals, paired tests and speed to perplexity, from the blocks and curves of stored records.

Each figure of a text is a ratio of two sums over its blocks: nats and tokens, bits and characters, bits and bytes.

**Interval of a ratio**: bootstrap over runs of neighbouring blocks (Kunsch 1989; circular, Politis & Romano 1992), of
n^(1/3) blocks each, because what stands side by side is alike: single blocks cover far too little where a text sticks
to its subject.  Few runs vary less than the text does; how much is known, and so is how much farther Student's
distribution reaches than the normal one: both ends are moved out by that, and where runs twice as long tell of a
larger variance, by that too.  Where there are several seeds, the variance of their mean is added on both sides; it
holds already what each seed has of its own in each block, which is therefore taken off the variance over blocks.

**Paired test of two models**: the difference of the ratios over the same blocks, divided by its standard error,
against Student's t.  The division is what holds the level: per-block differences are sums over many tokens of
different number, so a rank or a sign test would test another hypothesis, and an unstudentised bootstrap rejects too
often.  Unlike resampling, it has no smallest p, so Holm's correction over hundreds of pairs still leaves something to
find.  The variance is that of sums over runs, of n^(1/3) blocks or of twice as many, whichever is larger, with the
degrees of freedom of the longer runs, of which at most 20 count: where the runs are too short or the blocks far from
normal, the test finds less instead of what is not there.

**Several parts of a variance** (blocks; the seeds of either model): the reciprocal of the degrees of freedom is the
sum of the parts' reciprocals, each times a weight.  Satterthwaite's weight is the square of the part's share, which
covers too little where two seeds make up most of the variance: they are often alike by chance, and their share small
just when it should not be.  Intervals count a share 1 + 2/df times, at most as the whole, and cube that, so that few
seeds weigh little or all; tests take the share itself, and leave in both parts what intervals take off one, which is
on the safe side.

**Smallest difference**: below 1e-6 nats per token two models are called equal whatever p says.  Two that are all but
the same function of the text differ by a hair in every block, which a paired test finds with any confidence wanted.

**Impossible tokens**: a model that gave some block probability zero has infinite perplexity and no interval.  Against
a model that gave none it has lost, and no test is needed: what the source has once given it can give, so that this
model's nats are infinite for the source too, whatever blocks were drawn.  p is 0.  Two infinite models are never told
apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench.records import CurvePoint
from bench.student import LEVEL, student_t_p, student_t_quantile

Floats = npt.NDArray[np.float64]
Verdict = Literal["a", "b", "~"]
# a part of a variance, and its degrees of freedom
Part = tuple[float, float]
# how much a part adds to the reciprocal of the degrees of freedom, from its share and its own degrees of freedom
Weight = Callable[[float, float], float]

# nats per token; a millionth of a perplexity is nothing to anybody
SMALLEST_DIFFERENCE = 1e-6
N_RESAMPLES = 2000
# more documents than that are joined with their neighbours, which also keeps their dependence inside a block
MAX_BLOCKS = 1000
# more runs than that are no surer of their variance: they may be too short
_MOST_RUNS = 20
# beyond which, on both sides, LEVEL of the normal distribution lies
_NORMAL_QUANTILE = NormalDist().inv_cdf(1 - LEVEL / 2)
# from this many seeds on, the fastest and the slowest are dropped
_MANY_SEEDS = 5


@dataclass(frozen=True)
class Interval:
    """Both ends of a 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class PairTest:
    """Model a against model b: nats per token of a less those of b (above 0: b is better), 95 % interval, p.

    None where there is no such value: both perplexities are infinite, or a single block shows no spread.  Where one
    is infinite, so is `diff`, and p is 0.
    """

    diff: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    def verdict(self, p_corrected: float | None) -> Verdict:
        """Which of the two is better; `~` when p or the size of the difference leaves it open."""
        if self.diff is None or abs(self.diff) < SMALLEST_DIFFERENCE or p_corrected is None or p_corrected > LEVEL:
            return "~"
        return "a" if self.diff < 0 else "b"


def join_blocks(values_SxB: Floats, max_blocks: int = MAX_BLOCKS) -> Floats:
    """Sums over neighbouring blocks, so that at most `max_blocks` remain along the last axis."""
    n_blocks = values_SxB.shape[-1]
    if n_blocks <= max_blocks:
        return values_SxB
    starts = np.linspace(0, n_blocks, max_blocks, endpoint=False).astype(np.int64)
    return np.add.reduceat(values_SxB, starts, axis=-1)


def _with_sizes(sums_SxB: Floats, sizes_B: Floats) -> tuple[Floats, Floats]:
    """Blocks that have a size, each with those behind it that have none (the first with those before it, too).

    A `</s>` that stands alone in a block is no character: drawn anew without what it ends, it is bits of nothing.
    """
    starts = np.flatnonzero(sizes_B)
    if len(starts) in (0, len(sizes_B)):
        return sums_SxB, sizes_B
    starts[0] = 0
    return np.add.reduceat(sums_SxB, starts, axis=-1), np.add.reduceat(sizes_B, starts)


def ratio_interval(sums_SxB: Floats, sizes_B: Floats, *, n_resamples: int = N_RESAMPLES) -> Interval | None:
    """95 % interval of a ratio of sums over blocks (a row of sums per seed, whose mean is taken).

    A block without a size belongs to the one before it.  None where there is none: an infinite block, fewer than two
    blocks, or nothing to divide by.
    """
    sums_SxB, sizes_B = (join_blocks(values) for values in _with_sizes(sums_SxB, sizes_B))
    n_blocks = len(sizes_B)
    if n_blocks < 2 or not np.isfinite(sums_SxB).all() or not sizes_B.sum() > 0:
        return None
    mean_B = sums_SxB.mean(axis=0)
    counts_RxB = _resample_counts(n_resamples, n_blocks)
    # einsum and not @: the sums must not depend on the number of threads, or a rebuilt table would differ
    drawn_sums_R, drawn_sizes_R = np.einsum("rb,b->r", counts_RxB, mean_B), np.einsum("rb,b->r", counts_RxB, sizes_B)
    has_size_R = drawn_sizes_R > 0
    ratio = float(mean_B.sum() / sizes_B.sum())
    ends = np.quantile(drawn_sums_R[has_size_R] / drawn_sizes_R[has_size_R], [LEVEL / 2, 1 - LEVEL / 2])
    length = _run_length(n_blocks)
    spread_SxB = sums_SxB - np.outer(sums_SxB.sum(axis=1) / sizes_B.sum(), sizes_B)
    # a resample has so many blocks, and its runs are drawn about a mean of their own
    factor = counts_RxB[0].sum() / (n_blocks - length) * _lasting(spread_SxB.mean(axis=0)) * _common(spread_SxB)
    stretch = math.sqrt(factor) / _NORMAL_QUANTILE
    of_seeds = _seed_variances(sums_SxB, float(sizes_B.sum()))
    below, above = (
        _margin([((stretch * (end - ratio)) ** 2, n_blocks / length - 1), *of_seeds], _cubed) for end in ends.tolist()
    )
    return Interval(ratio - below, ratio + above)


def cost_interval(costs_SxB: Floats, sizes_B: Floats, *, n_resamples: int = N_RESAMPLES) -> Interval | None:
    """The same of nats or bits, which are never below 0: of a few short blocks an end could come out there."""
    interval = ratio_interval(costs_SxB, sizes_B, n_resamples=n_resamples)
    return Interval(max(interval.low, 0.0), interval.high) if interval else None


def perplexity_interval(nats_SxB: Floats, tokens_B: Floats, *, n_resamples: int = N_RESAMPLES) -> Interval | None:
    """95 % interval of a perplexity from the nats of each block (a row per seed) and the blocks' tokens."""
    interval = cost_interval(nats_SxB, tokens_B, n_resamples=n_resamples)
    return Interval(_exp(interval.low), _exp(interval.high)) if interval else None


def paired_test(a_SxB: Floats, b_SxB: Floats, tokens_B: Floats) -> PairTest:
    """Whether two models differ on the same blocks; a row per seed in each (their numbers may differ)."""
    a_SxB, b_SxB, tokens_B = join_blocks(a_SxB), join_blocks(b_SxB), join_blocks(tokens_B)
    a_is_infinite, b_is_infinite = (bool(np.isinf(nats_SxB).any()) for nats_SxB in (a_SxB, b_SxB))
    if a_is_infinite and b_is_infinite:
        return PairTest(diff=None)
    if a_is_infinite or b_is_infinite:
        return PairTest(diff=math.inf if a_is_infinite else -math.inf, p=0.0)
    n_tokens, n_blocks = float(tokens_B.sum()), len(tokens_B)
    diff_B = a_SxB.mean(axis=0) - b_SxB.mean(axis=0)
    diff = float(diff_B.sum()) / n_tokens
    if n_blocks < 2:
        return PairTest(diff=diff)
    spread_B = (diff_B - diff * tokens_B) / n_tokens
    length = _run_length(n_blocks)
    of_blocks = _variance_of_sum(spread_B, length) * _lasting(spread_B)
    df = max(min(n_blocks / (2 * length), _MOST_RUNS) - 1, 1)
    of_seeds = [part for nats_SxB in (a_SxB, b_SxB) for part in _seed_variances(nats_SxB, n_tokens)]
    return _studentised(diff, [(of_blocks, df), *of_seeds])


def unpaired_test(a: Sequence[float], b: Sequence[float]) -> PairTest:
    """Whether the means of independent values differ (Welch 1947, with the degrees of freedom told above).

    At least one value on either side; without a second one on both there is no p.
    """
    sides = [np.array(values, np.float64)[:, None] for values in (a, b)]
    diff = float(sides[0].mean() - sides[1].mean())
    if min(map(len, sides)) < 2:
        return PairTest(diff=diff)
    return _studentised(diff, [part for values_Sx1 in sides for part in _seed_variances(values_Sx1, 1.0)])


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down correction, in the order given; a missing p takes no part."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[place] = highest
    return corrected


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """When a curve first was at or below a target: after one and by the next of two validations, on both clocks.

    `..._s`: training seconds; `..._wall_s`: seconds since the process started.  `by_...` is inf on a miss.
    """

    reached: bool
    after_s: float
    by_s: float
    after_wall_s: float
    by_wall_s: float
    train_tokens: int | None


def first_crossing(curve: Sequence[CurvePoint], target_perplexity: float) -> Crossing:
    """The bracket of two validations in which a target was first reached; on a miss, the last validation and inf."""
    after_s = after_wall_s = 0.0
    train_tokens = None
    for point in curve:
        perplexity, train_tokens = point.valid_perplexity.number, point.train_tokens
        if perplexity is not None and perplexity <= target_perplexity:
            return Crossing(
                reached=True,
                after_s=after_s,
                by_s=point.train_s,
                after_wall_s=after_wall_s,
                by_wall_s=point.wall_s,
                train_tokens=train_tokens,
            )
        after_s, after_wall_s = point.train_s, point.wall_s
    return Crossing(
        reached=False,
        after_s=after_s,
        by_s=math.inf,
        after_wall_s=after_wall_s,
        by_wall_s=math.inf,
        train_tokens=train_tokens,
    )


def over_seeds(times_s: Sequence[float]) -> float:
    """One time for several seeds, misses being inf: the median, or from 5 seeds on the mean without both extremes."""
    ordered = sorted(times_s)
    if len(ordered) >= _MANY_SEEDS:
        kept = ordered[1:-1]
        return sum(kept) / len(kept)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True, kw_only=True)
class Slope:
    """A power law y = exp(intercept) x**slope, and the standard error of its slope."""

    slope: float
    error: float
    intercept: float

    def at(self, x: float) -> float:
        return math.exp(self.intercept + self.slope * math.log(x))


def power_law(points: Sequence[tuple[float, float]]) -> Slope:
    """Least squares of ln y on ln x over three points or more, at two different x or more, all above 0."""
    x = np.log([point[0] for point in points])
    y = np.log([point[1] for point in points])
    deviations = x - x.mean()
    spread = float(deviations @ deviations)
    slope = float(deviations @ y) / spread
    intercept = float(y.mean() - slope * x.mean())
    residuals = y - intercept - slope * x
    variance = float(residuals @ residuals) / (len(points) - 2)
    return Slope(slope=slope, error=math.sqrt(variance / spread), intercept=intercept)


def _run_length(n_blocks: int) -> int:
    """How many neighbouring blocks make a run: the rate at which bias and noise of the variance balance."""
    return round(math.cbrt(n_blocks))


def _variance_of_sum(spread_B: Floats, length: int) -> float:
    """The variance of the sum of blocks whose mean is 0, from the sums of all their runs (the last go on in the first).

    For single blocks it is the usual one, n/(n - 1) times the sum of squares.
    """
    n_blocks = len(spread_B)
    sums_B = np.convolve(np.concatenate([spread_B, spread_B[: length - 1]]), np.ones(length), "valid")
    return n_blocks / (n_blocks - length) * float((sums_B**2).sum()) / length


def _lasting(spread_B: Floats) -> float:
    """How much larger the variance is by runs of twice the length, where blocks are alike for longer; at least 1."""
    length = _run_length(len(spread_B))
    single = _variance_of_sum(spread_B, length)
    if not single or 2 * length >= len(spread_B):
        return 1.0
    return max(_variance_of_sum(spread_B, 2 * length) / single, 1.0)


def _common(spread_SxB: Floats) -> float:
    """Of the variance of the seeds' mean over runs of blocks, the share that is not each seed's own."""
    n_seeds, mean_B = len(spread_SxB), spread_SxB.mean(axis=0)
    length = _run_length(len(mean_B))
    of_mean = _variance_of_sum(mean_B, length)
    if n_seeds < 2 or not of_mean:
        return 1.0
    of_own = math.fsum(_variance_of_sum(own_B, length) for own_B in spread_SxB - mean_B) / (n_seeds - 1) / n_seeds
    return max(1 - of_own / of_mean, 0.0)


def _seed_variances(sums_SxB: Floats, size: float) -> list[Part]:
    """The variance of the mean over seeds, where there are several."""
    n_seeds = len(sums_SxB)
    if n_seeds < 2:
        return []
    return [(float((sums_SxB.sum(axis=1) / size).var(ddof=1)) / n_seeds, n_seeds - 1)]


def _cubed(share: float, df: float) -> float:
    """The weight of a part in an interval."""
    return min(share * (1 + 2 / df), 1.0) ** 3


def _plain(share: float, _df: float) -> float:
    """The weight of a part in a test."""
    return share


def _degrees_of_freedom(parts: Sequence[Part], weight: Weight) -> float:
    """Those of a sum of parts of a variance, from each part's own and its share."""
    variance = math.fsum(v for v, _ in parts)
    return 1 / math.fsum(weight(v / variance, df) / df for v, df in parts)


def _margin(parts: Sequence[Part], weight: Weight) -> float:
    """How far a 95 % interval reaches to one side, from the parts of the variance."""
    variance = math.fsum(v for v, _ in parts)
    return student_t_quantile(_degrees_of_freedom(parts, weight)) * math.sqrt(variance) if variance else 0.0


def _studentised(diff: float, parts: Sequence[Part]) -> PairTest:
    """The test from the parts of the variance of `diff`."""
    error = math.sqrt(math.fsum(v for v, _ in parts))
    # differences at the limit of float64 are no evidence of anything
    if error <= 1e-12 * abs(diff) or error == 0:
        return PairTest(diff=diff, low=diff, high=diff, p=0.0 if abs(diff) > 1e-12 else 1.0)
    margin = _margin(parts, _plain)
    p = student_t_p(diff / error, _degrees_of_freedom(parts, _plain))
    return PairTest(diff=diff, low=diff - margin, high=diff + margin, p=p)


@lru_cache(maxsize=2)
def _resample_counts(n_resamples: int, n_blocks: int) -> Floats:
    """How often each block is drawn in each resample; the same for every model, so that rows are comparable."""
    rng = np.random.default_rng([n_resamples, n_blocks])
    length = _run_length(n_blocks)
    starts_RxK = rng.integers(n_blocks, size=(n_resamples, -(-n_blocks // length)))
    drawn_RxKxL = (starts_RxK[:, :, None] + np.arange(length)) % n_blocks
    drawn_RxKxL += n_blocks * np.arange(n_resamples)[:, None, None]
    counts = np.bincount(drawn_RxKxL.ravel(), minlength=n_resamples * n_blocks).astype(np.float64)
    return counts.reshape(n_resamples, n_blocks)


def _exp(nats: float) -> float:
    """exp, infinite where float64 ends."""
    return math.exp(nats) if nats < 709 else math.inf
