"""Horizontal bars with a figure and its interval beside each, as plots of perplexity and of bits have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from bench.report.drawing import COUNTING_COLOUR, drawable_names
from bench.stats import Interval

_COLOURS = {"counting": "#B8C0CA", "neural": "#7FB2D9", "coder": "#E9DFC7"}
_HATCHES = {"counting": "///", "neural": "", "coder": "..."}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value with its interval, written out as `text`; where there is none, `text` says why."""

    name: str
    family: str
    value: float | None
    interval: Interval | None
    text: str


def draw_bars(axes: Axes, bars: Sequence[Bar], start: float) -> None:
    """The first on top, each from `start`; the limits of the horizontal axis are the caller's."""
    for place, bar in enumerate(bars):
        end = start if bar.value is None else _draw(axes, place, bar, bar.value, start)
        text = f"no value: {bar.text}" if bar.value is None else bar.text
        axes.annotate(text, (end, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    name_bars(axes, [bar.name for bar in bars])


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), drawable_names(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def bars_height_in(n_bars: int) -> float:
    return 0.27 * n_bars + 0.9


def _draw(axes: Axes, place: int, bar: Bar, value: float, start: float) -> float:
    """A bar and the line of its interval; gives back where they end."""
    axes.barh(
        place,
        value - start,
        left=start,
        color=_COLOURS.get(bar.family, "white"),
        hatch=_HATCHES.get(bar.family, ""),
        edgecolor=COUNTING_COLOUR,
        lw=0.6,
    )
    if bar.interval is None:
        return value
    ends = (bar.interval.low, bar.interval.high)
    axes.plot(ends, [place, place], color="black", lw=1.6, solid_capstyle="butt", marker="|", ms=6)
    return max(bar.interval.high, value)
