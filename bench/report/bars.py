"""Horizontal bars with a figure and its interval beside each, as plots of perplexity and of bits have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.text import Text

from bench.report.drawing import COUNTING_COLOUR, drawable_names, fix_layout
from bench.stats import Interval

_COLOURS = {"counting": "#B8C0CA", "neural": "#7FB2D9", "coder": "#E9DFC7"}
# beside the longest text; and what bars keep of the axis, however long the texts are
_MARGIN_PX = 6
_LEAST_SHARE = 0.2
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
    """The first on top, each from `start`.  The horizontal axis, whose scale and start are the caller's, ends where the
    longest bar has room for what is written beside it.
    """
    texts = []
    for place, bar in enumerate(bars):
        end = start if bar.value is None else _draw(axes, place, bar, bar.value, start)
        text = f"no value: {bar.text}" if bar.value is None else bar.text
        beside = axes.annotate(text, (end, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
        # the axis gets the figure's whole width; room for the texts is made within it
        beside.set_in_layout(False)
        texts.append(beside)
    name_bars(axes, [bar.name for bar in bars])
    make_room(axes, texts)


def make_room(axes: Axes, texts: Sequence[Text]) -> None:
    """Let the horizontal axis end so late that all texts, which stand at their points, are inside."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    fix_layout(figure)
    inside = axes.get_window_extent()
    boxes = [text.get_window_extent() for text in texts]
    shares = [(inside.width - box.width - _MARGIN_PX) / (box.x0 - inside.x0) for box in boxes if box.x0 > inside.x0]
    share = min(max(min(shares, default=1.0), _LEAST_SHARE), 1.0)
    low, high = axes.get_xlim()
    axes.set_xlim(low, low * (high / low) ** (1 / share) if axes.get_xscale() == "log" else low + (high - low) / share)


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
