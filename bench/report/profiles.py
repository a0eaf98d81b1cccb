"""What the profiles of a group's rows say, the seeds of each joined: costs by kind of token, and reliability.

Rows without a profile (compressors, failures, records of older schemas) are in none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.profiled import N_BINS, Bucket, Confidence, Profile, Sample, SortedBy
from bench.report.rows import Row, mean, ranked

OOV = "OOV"
SUMS_TO_ONE = "probability.sums_to_one"
_FEW_TOKENS = 100
# least and largest value of a bucket
Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Tokens of one bucket: how many of one seed's, and the mean of their nats over seeds (inf: some impossible)."""

    bounds: Bounds
    n_tokens: int
    nats: float

    @property
    def bits(self) -> float:
        """Bits per token."""
        return self.nats / self.n_tokens / math.log(2)


def profiles_of(row: Row) -> list[Profile]:
    """One of each seed that ended well and has one."""
    return [measured.profile for measured in row.measured if measured.profile is not None]


def with_profile(rows: Iterable[Row]) -> list[Row]:
    """The ranked rows that have one, best first."""
    return [row for row in ranked(rows) if profiles_of(row)]


def chosen(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of some rows, which come best first: the best of each family, then the best of all."""
    first = {row.family: row for row in reversed(rows)}
    kept = {id(row) for row in first.values()}
    for row in rows:
        if len(kept) < most:
            kept.add(id(row))
    return [row for row in rows if id(row) in kept][:most]


def costs_of(row: Row, kind: SortedBy) -> dict[Bounds, Cost]:
    """What tokens of each bucket cost a row, by the bucket's bounds; empty where its records do not tell.

    Places in a document that have few tokens in all, as the first ones of a single document, are joined.
    """
    found = [dict(profile.sorted_tokens()).get(kind, ()) for profile in profiles_of(row)]
    by_bounds: dict[Bounds, list[Bucket]] = {}
    for bucket in (bucket for buckets in found for bucket in buckets):
        by_bounds.setdefault((bucket.low, bucket.high), []).append(bucket)
    costs = [
        Cost(
            bounds=bounds,
            n_tokens=same[0].n_tokens,
            nats=math.fsum(math.inf if bucket.nats is None else bucket.nats for bucket in same) / len(same),
        )
        for bounds, same in sorted(by_bounds.items(), key=lambda item: _place(item[0]))
    ]
    return {cost.bounds: cost for cost in (_joined(costs) if kind == "position" else costs)}


def _joined(costs: Iterable[Cost]) -> list[Cost]:
    """Neighbours in one until there are enough tokens in it to say something; what is left at the end stands alone."""
    found: list[Cost] = []
    for cost in costs:
        if found and found[-1].n_tokens < _FEW_TOKENS:
            before = found.pop()
            cost = Cost(
                bounds=(before.bounds[0], cost.bounds[1]),
                n_tokens=before.n_tokens + cost.n_tokens,
                nats=before.nats + cost.nats,
            )
        found.append(cost)
    return found


def _place(bounds: Bounds) -> int:
    return -1 if bounds[0] is None else bounds[0]


def named(bounds: Bounds) -> str:
    """A bucket's values in words: `OOV`, `1`, `2-9`, `6 or more`."""
    low, high = bounds
    if low is None:
        return OOV
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def rare_share(costs: Mapping[Bounds, Cost], below: int) -> tuple[float, float] | None:
    """Shares, 0 to 1, of tokens and of nats that are below a frequency, out of vocabulary included; None for neither.

    Infinite nats have no shares.
    """
    n_tokens, nats = (math.fsum(getattr(cost, name) for cost in costs.values()) for name in ("n_tokens", "nats"))
    rare = [cost for (low, high), cost in costs.items() if low is None or (high is not None and high < below)]
    if not rare or not 0 < nats < math.inf:
        return None
    return math.fsum(cost.n_tokens for cost in rare) / n_tokens, math.fsum(cost.nats for cost in rare) / nats


def confidences_of(row: Row) -> tuple[Confidence, ...]:
    """The bins of all seeds together; empty for a row without a profile."""
    found = [profile.confidences for profile in profiles_of(row)]
    if not found:
        return ()
    return tuple(
        Confidence(
            n_tokens=sum(bins[n].n_tokens for bins in found),
            p_sum=math.fsum(bins[n].p_sum for bins in found),
            n_right=sum(bins[n].n_right for bins in found),
        )
        for n in range(N_BINS)
    )


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """First choices: the mean of their probabilities, and the share of them that came, 0 to 1."""

    mean_confidence: float
    accuracy: float


def guesses_of(row: Row) -> Guesses | None:
    """Over the tokens of all bins; None without any."""
    bins = confidences_of(row)
    n_tokens = sum(one.n_tokens for one in bins)
    if not n_tokens:
        return None
    sure, right = (math.fsum(getattr(one, name) for one in bins) / n_tokens for name in ("p_sum", "n_right"))
    return Guesses(mean_confidence=sure, accuracy=right)


def sample_of(row: Row) -> Sample | None:
    """That of the first seed that has one."""
    return next((profile.sample for profile in profiles_of(row) if profile.sample is not None), None)


def calibration_error_of(row: Row) -> float | None:
    """The mean over seeds of the expected calibration error."""
    return mean(profile.calibration_error for profile in profiles_of(row))


def sums_to_one(row: Row) -> str:
    """What came of the check that probabilities sum to 1, the worst over all records; empty where none tells."""
    found = [r.measured.checks[SUMS_TO_ONE] for r in row.records if r.measured and SUMS_TO_ONE in r.measured.checks]
    return next((status for status in ("failed", "expected", "skipped", "passed") if status in found), "")
