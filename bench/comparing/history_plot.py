"""The plot of a history: a figure of each model on a text, one run after the other, with its interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from bench.comparing.history import Entry, History, Line, Point, has_place, segments_of
from bench.report import content, wording
from bench.report.answer import label_of
from bench.report.build import MOST_DRAWN
from bench.report.drawing import (
    COUNTING_COLOUR,
    Style,
    byte_ticks,
    drawable,
    new_figure,
    plain_ticks,
    save,
    style_sheet,
    styles,
)
from bench.report.front import LARGEST

_WIDTH_IN = 8.4
_LEAST_HEIGHT_IN = 4.2
# of the legend
_LINE_IN = 0.23
# more lines than this cannot be told apart: those of the best latest figures are drawn
_MAX_LINES = 16
# more dates than this do not stand side by side
_MAX_DATES = 8
# intervals of several models stand side by side within this part of the way from one run to the next
_ASIDE = 0.24
# from this ratio of the highest to the lowest on, the axis is logarithmic
_WIDE = 3.0
# how figures are shown whose axes have plain numbers: rounded, those of a narrow range would seem unevenly spaced
_AS_THEY_ARE = (wording.perplexity, wording.rounded, wording.seconds)

_TOO_LARGE, _NO_VALUE = "∞", "×"
_KEY = {_TOO_LARGE: "above the plot: infinite", _NO_VALUE: "below the axis: failed, or without the figure"}
# where on the height of the plot the marks of either stand, and by how many points outside
_SIDES: Mapping[str, tuple[float, float]] = {_TOO_LARGE: (1.0, 5.0), _NO_VALUE: (0.0, -6.0)}
_PT_PER_INCH = 72
# between the axis and its numbers, where marks stand there
_ROOM_BELOW_PT = 20.0

Look = tuple[str, Style, Line]


def draw_history(history: History, folder: Path) -> tuple[dict[str, content.Figure], list[str]]:
    """Draw a plot for each text into a folder: those that came out, by text, and a warning for each that did not."""
    figures, warnings = {}, []
    for number, (title, lines) in enumerate(list(history.by_text.items())[:MOST_DRAWN], start=1):
        stem = f"history-{number}"
        try:
            with style_sheet():
                alt = _draw(history, lines, folder, stem)
        # a plot is never worth the tables: whatever went wrong in drawing is told and left
        except Exception as error:
            warnings.append(f"plot {stem} could not be drawn: {type(error).__name__}: {error}")
            continue
        if alt:
            shown = f"{history.metric.name}, run by run"
            figures[title] = content.Figure(stem=stem, title=shown, alt=alt, group=lines[0].row.group)
    if len(history.by_text) > MOST_DRAWN:
        warnings.append(f"plots are there for {MOST_DRAWN} of {len(history.by_text)} texts; the tables have all")
    return figures, warnings


def _draw(history: History, lines: Sequence[Line], folder: Path, stem: str) -> str:
    """Draws nothing, and gives back no words, where no model has a finite value."""
    looks = _looks(history, lines)
    points = [point for _, _, line in looks for segment in segments_of(line) for _, point in segment]
    if not points:
        return ""
    figure, (axes,) = new_figure(_WIDTH_IN, max(_LEAST_HEIGHT_IN, _LINE_IN * (len(looks) + 3)))
    _scale(axes, history, points)
    for place, (name, look, line) in enumerate(looks):
        aside = _ASIDE * ((place + 0.5) / len(looks) - 0.5)
        _draw_line(axes, name, look, line, aside)
    _name_runs(axes, history.entries, {_sign_of(point) for _, _, line in looks for _, point in _outside(line)})
    better = "lower" if history.metric.lower_is_better else "higher"
    axes.set_ylabel(f"{history.metric.name}, {better} is better")
    axes.grid(axis="y", color="#E6EAEE", lw=0.6)
    axes.set_axisbelow(True)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False, handlelength=3
    )
    save(figure, folder, stem)
    return f"{history.metric.name} over runs, oldest first: {'; '.join(_words(history, *look) for look in looks)}."


def _looks(history: History, lines: Sequence[Line]) -> list[Look]:
    """The lines to draw with names and styles: colours for neural models, grey for counting ones, as in the report."""
    among = [line.row for line in lines]
    sign = 1 if history.metric.lower_is_better else -1
    latest = [(sign * _latest(line), place) for place, line in enumerate(lines) if segments_of(line)]
    kept = sorted(place for _, place in sorted(latest)[:_MAX_LINES])
    named = [(label_of(lines[place].row, among), lines[place]) for place in kept]
    neural = [name for name, line in named if line.row.family == "neural"]
    others = [name for name, line in named if line.row.family != "neural"]
    found = styles(neural) | styles(others, colour=COUNTING_COLOUR)
    return [(name, found[name], line) for name, line in named]


def _latest(line: Line) -> float:
    _, point = segments_of(line)[-1][-1]
    return point.value or 0.0


def _scale(axes: Axes, history: History, points: Sequence[Point]) -> None:
    """An axis that shows small changes as small and none of the figures outside."""
    values = [value for point in points for value in (point.value or 0.0, *(point.span or ())) if abs(value) < LARGEST]
    low, high = min(values), max(values)
    show = "{:,.6g}".format if history.metric.show in _AS_THEY_ARE else history.metric.show
    if low > 0 and high / low > _WIDE:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.1, high * 1.1)
        if history.metric.key.endswith("_bytes"):
            byte_ticks(axes.yaxis, *axes.get_ylim())
        else:
            plain_ticks(axes.yaxis, *axes.get_ylim(), show=show)
        return
    # what hardly changes is not blown up until noise looks like news
    margin = max(0.08 * (high - low), 0.01 * max(abs(low), abs(high)), 1e-12)
    axes.set_ylim(low - margin, high + margin)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: show(value)))


def _draw_line(axes: Axes, name: str, look: Style, line: Line, aside: float) -> None:
    face = "white" if look.colour == COUNTING_COLOUR else look.colour
    for segment in segments_of(line):
        shown = [(place + 1 + aside, point) for place, point in segment]
        places, values = [x for x, _ in shown], [point.value or 0.0 for _, point in shown]
        axes.plot(places, values, color=look.colour, ls=look.dashes, lw=1.3, zorder=2)
        axes.plot(places, values, ls="", marker=look.marker, color=look.colour, markerfacecolor=face, ms=5, zorder=3)
        for x, point in shown:
            if point.span is not None:
                axes.plot([x, x], point.span, color=look.colour, lw=0.8, alpha=0.6, solid_capstyle="butt", zorder=1)
    _draw_outside(axes, look, line, aside, face)
    axes.plot(
        [], [], color=look.colour, ls=look.dashes, marker=look.marker, markerfacecolor=face, ms=5, label=drawable(name)
    )


def _draw_outside(axes: Axes, look: Style, line: Line, aside: float, face: str) -> None:
    """The model's mark, with a sign, outside the scale for each run where its row has no value on it.

    Above the plot what is too large, as an infinite perplexity; below the axis, where no value lies, what has none.
    """
    across = axes.get_xaxis_transform()
    for place, point in _outside(line):
        x, (share, step_pt) = place + 1 + aside, _SIDES[_sign_of(point)]
        shifted = across + ScaledTranslation(0, step_pt / _PT_PER_INCH, axes.figure.dpi_scale_trans)
        (mark,) = axes.plot([x], [share], color=look.colour, ls="", marker=look.marker, markerfacecolor=face, ms=5)
        mark.set(clip_on=False, transform=shifted, zorder=4)
        axes.annotate(
            _sign_of(point),
            (x, share),
            (0, 2.3 * step_pt),
            xycoords=across,
            textcoords="offset points",
            ha="center",
            va="center",
            annotation_clip=False,
        )


def _outside(line: Line) -> list[tuple[int, Point]]:
    """The points that the scale has no place for, with the places of their runs."""
    return [(place, point) for place, point in enumerate(line.points) if point is not None and not has_place(point)]


def _sign_of(point: Point) -> str:
    return _NO_VALUE if point.value is None else _TOO_LARGE


def _name_runs(axes: Axes, entries: Sequence[Entry], signs: Collection[str]) -> None:
    numbers = range(1, len(entries) + 1)
    axes.set_xlim(0.6, len(entries) + 0.4)
    if len(entries) <= _MAX_DATES:
        axes.xaxis.set_major_locator(FixedLocator(list(numbers)))
        # the time of day where the day does not tell two runs apart
        has_times = len({entry.day for entry in entries}) < len(entries)
        labels = [
            f"{number}\n{entry.day}" + (f"\n{entry.time}" if has_times else "")
            for number, entry in zip(numbers, entries, strict=True)
        ]
        axes.set_xticklabels(labels)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    if _NO_VALUE in signs:
        axes.tick_params(axis="x", pad=_ROOM_BELOW_PT)
    told = [f"{sign} {words}" for sign, words in _KEY.items() if sign in signs]
    axes.set_xlabel(f"runs, oldest first ({', '.join(['upright lines are intervals', *told])})")


def _words(history: History, name: str, _look: Style, line: Line) -> str:
    shown = [(place, point) for segment in segments_of(line) for place, point in segment]
    first, last = shown[0], shown[-1]
    values = [history.metric.show(point.value) for _, point in (first, last)]
    told = [f"{values[0]} in run {first[0] + 1}"]
    if first[0] != last[0]:
        told.append(f"{values[1]} in run {last[0] + 1}")
    for place, point in _outside(line):
        told.append(f"{'no value' if point.value is None else history.metric.show(point.value)} in run {place + 1}")
    return f"{wording.isolated(name)} {', '.join(told)}"
