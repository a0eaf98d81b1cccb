"""Curves of several seeds as one: the line of their median, between the lowest and the highest of them."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

# clocks of seeds end some hundredths apart; the last of them alone is no band
_BEYOND = 1.05


@dataclass(frozen=True, kw_only=True)
class Band:
    """At each of `xs`, ascending: the lowest, the median and the highest of the seeds that were there."""

    xs: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]

    def at(self, x: float) -> float | None:
        """The median between two places, on the straight line of logarithmic axes; None beyond both ends."""
        return _at(tuple(zip(self.xs, self.middle, strict=True)), x, beyond=1.0)


def band_of(curves: Sequence[Sequence[Point]]) -> Band:
    """The band of one or several curves, whose x and y are positive and x ascending.

    Its places are those of all curves.  Between two of its own a curve is on the straight line of logarithmic axes; it
    counts from its first to its last, and 5 % beyond both.
    """
    clean = [_without_doubles(curve) for curve in curves if curve]
    xs = sorted({x for curve in clean for x, _ in curve})
    columns = [sorted(y for curve in clean if (y := _at(curve, x, beyond=_BEYOND)) is not None) for x in xs]
    return Band(
        xs=tuple(xs),
        low=tuple(column[0] for column in columns),
        middle=tuple(map(_median, columns)),
        high=tuple(column[-1] for column in columns),
    )


def _without_doubles(curve: Sequence[Point]) -> list[Point]:
    """One point for each x, the last: a schedule's validation and the one at the end may be of the same moment."""
    return sorted(dict(curve).items())


def _at(curve: Sequence[Point], x: float, *, beyond: float) -> float | None:
    xs = [place for place, _ in curve]
    if not xs or x < xs[0] / beyond or x > xs[-1] * beyond:
        return None
    right = bisect.bisect_left(xs, x)
    if right == len(xs):
        return curve[-1][1]
    if right == 0 or xs[right] == x:
        return curve[right][1]
    (x0, y0), (x1, y1) = curve[right - 1], curve[right]
    share = math.log(x / x0) / math.log(x1 / x0)
    return math.exp((1 - share) * math.log(y0) + share * math.log(y1))


def _median(ordered: Sequence[float]) -> float:
    """Of ascending values; of an even number, the geometric mean of the two in the middle."""
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else math.exp((math.log(low) + math.log(high)) / 2)
