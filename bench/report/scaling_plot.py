"""The plot of a series: perplexity, training seconds and peak memory over training tokens, all logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis

from bench.report import wording
from bench.report.answer import label_of
from bench.report.drawing import (
    COUNTING_COLOUR,
    INK,
    Style,
    byte_ticks,
    new_figure,
    plain_ticks,
    save,
    styles,
)
from bench.report.excess import entropy_of
from bench.report.rows import Row
from bench.report.scaling import MEASURES, Measure, Series, points_of, slope_of

_WIDTH_IN = 8.4
_PANEL_HEIGHT_IN = 3.6
# lines of the legend below the panels: names and what they take of the width
_NAMES_A_LINE = 3
# more lines than this cannot be told apart: the best are drawn
_MAX_LINES = 16

Line = tuple[str, Style, Sequence[Row]]
Ticks = Callable[[Axis, float, float], None]


def draw_scaling(series: Series, folder: Path, stem: str) -> str:
    """Three panels, a mark for every fraction that finished, and the fitted line where there are three; the alt text.

    Nothing is drawn, and the alt text is empty, where no model finished at two amounts of text.
    """
    lines = _lines(series)
    shown = [line for line in lines if len(points_of(line[2], MEASURES[0])) > 1][:_MAX_LINES]
    if not shown:
        return ""
    height_in = _PANEL_HEIGHT_IN + 0.2 * math.ceil(len(shown) / _NAMES_A_LINE)
    figure, panels = new_figure(_WIDTH_IN, height_in, len(MEASURES))
    for axes, measure in zip(panels, MEASURES, strict=True):
        entropy_nats = entropy_of(series.groups[series.whole]) if measure is MEASURES[0] else None
        _draw_panel(axes, measure, shown, entropy_nats)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=_NAMES_A_LINE, fontsize=8, frameon=False, handlelength=3
    )
    save(figure, folder, stem)
    return f"Test perplexity, training seconds and peak memory over training tokens: {'; '.join(map(_words, shown))}."


def _lines(series: Series) -> list[Line]:
    """Each model with its style: colours for neural models, grey for counting ones, as in the other plots."""
    among = series.groups[series.whole]
    named = [(label_of(line[-1], among), line) for line in series.lines.values()]
    neural = [name for name, line in named if line[-1].family == "neural"]
    others = [name for name, line in named if line[-1].family != "neural"]
    looks = styles(neural) | styles(others, colour=COUNTING_COLOUR)
    return [(name, looks[name], line) for name, line in named]


def _draw_panel(axes: Axes, measure: Measure, lines: Sequence[Line], entropy_nats: float | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(measure.title)
    axes.set_xlabel("training tokens")
    points = [point for _, _, line in lines for point in points_of(line, measure)]
    for name, look, line in lines:
        _draw_line(axes, measure, name, look, line)
    if points:
        # equal values would leave an axis without length
        axes.set_xlim(min(x for x, _ in points) / 1.25, max(x for x, _ in points) * 1.25)
        low, high = min(y for _, y in points), max(y for _, y in points)
        # what hardly changes is shown as such, with numbers above and below it
        margin = 1.1 if high / low > 1.5 else 1.5
        axes.set_ylim(low / margin, high * margin)
    _draw_source(axes, entropy_nats)
    plain_ticks(axes.xaxis, *axes.get_xlim(), show=lambda value: wording.count(value, 1), most=4)
    _ticks(measure)(axes.yaxis, *axes.get_ylim())
    axes.grid(color="#E6EAEE", lw=0.6)
    axes.set_axisbelow(True)


def _draw_source(axes: Axes, entropy_nats: float | None) -> None:
    """A level for the perplexity of the text's source, where that is known: the line that curves can only approach."""
    if entropy_nats is not None:
        source, (low, high) = math.exp(entropy_nats), axes.get_ylim()
        axes.set_ylim(min(low, source / 1.1), max(high, source * 1.1))
        axes.axhline(source, color=INK, lw=0.8, ls=(0, (1, 2)), zorder=1, label="the text's source")


def _draw_line(axes: Axes, measure: Measure, name: str, look: Style, line: Sequence[Row]) -> None:
    points = points_of(line, measure)
    tokens, values = [x for x, _ in points], [y for _, y in points]
    face = "white" if look.colour == COUNTING_COLOUR else look.colour
    fitted = slope_of(line, measure)
    # the fitted line where there is one; else the points are joined
    heights = [fitted.at(x) for x in tokens] if fitted else values
    axes.plot(tokens, heights, color=look.colour, ls=look.dashes, lw=1.2, zorder=1.5)
    # a mark at the edge is drawn whole
    whole: dict[str, Any] = {"ls": "", "ms": 5, "mew": 1.2, "clip_on": False, "zorder": 3}
    axes.plot(tokens, values, marker=look.marker, color=look.colour, markerfacecolor=face, **whole)
    axes.plot(
        [], [], color=look.colour, ls=look.dashes, marker=look.marker, markerfacecolor=face, ms=5, label=look.label
    )


def _ticks(measure: Measure) -> Ticks:
    return byte_ticks if measure.key.endswith("_bytes") else _few_ticks


def _few_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, most=6)


def _words(line: Line) -> str:
    name, _, rows = line
    points, fitted = points_of(rows, MEASURES[0]), slope_of(rows, MEASURES[0])
    (first_tokens, first), (last_tokens, last) = points[0], points[-1]
    slope = f", slope {fitted.slope:.3f}" if fitted else ""
    return (
        f"{name} {wording.perplexity(first)} at {wording.count(first_tokens)} tokens, {wording.perplexity(last)} at "
        f"{wording.count(last_tokens)}{slope}"
    )
