"""Speed to perplexity: validation perplexity over training seconds, and over training tokens, all logarithmic.

A network is the median of its seeds inside the band from the lowest to the highest; a counting model, which is
validated at its end alone, is a level.  Over seconds, a bracket on a level tells between which two validations a
network came to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from bench.records import CurvePoint
from bench.report import wording
from bench.report.answer import label_of, times_to_targets
from bench.report.bands import Band, Point, band_of
from bench.report.drawing import COUNTING_COLOUR, Style, drawable_names, fix_layout, new_figure, plain_ticks, save
from bench.report.front import LARGEST
from bench.report.labels import name_ends, name_levels
from bench.report.looks import PALE, looks_of
from bench.report.rows import Row
from bench.report.sheets import shown_targets
from bench.report.tables import counting_levels, seed_curves

_WIDTH_IN = 8.4
# a curve that starts very far up is cut there: so many times the highest of what the plot is about
_HEADROOM = 3.0
# nor can anything be told apart on an axis that goes beyond so many times the lowest
_MOST_TIMES = 1000.0
# brackets that would lie on each other are set apart by so many points
_LANE_PT = 3.4
# brackets of more lines than these cannot be told apart
_MOST_BRACKETED = 8
# where a line is looked at, to find room for names
_N_SEEN = 80


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What a curve is drawn over."""

    of: Callable[[CurvePoint], float]
    words: str
    ticks: Callable[[Axis, float, float], None]
    has_brackets: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """A network's curve, with the label and the style of its row."""

    row: Row
    name: str
    look: Style
    band: Band

    @property
    def last(self) -> float:
        return self.band.middle[-1]


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """From `after` to `by`, in training seconds: when a network came to the level of a counting model."""

    level: float
    after: float
    by: float
    look: Style


def _plain_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high)


def _count_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, show=lambda value: wording.count(value, 2).replace(".0 ", " "))


SECONDS = Clock(of=lambda point: point.train_s, words="training seconds", ticks=_plain_ticks, has_brackets=True)
TOKENS = Clock(of=lambda point: point.train_tokens, words="training tokens", ticks=_count_ticks, has_brackets=False)


def draw_validation(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Validation perplexity over training seconds; gives back the alt text, empty where no network has a curve."""
    return _draw(rows, folder, stem, SECONDS)


def draw_tokens(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """The same over the tokens that were learned from, repetitions included: what a network makes of its text."""
    return _draw(rows, folder, stem, TOKENS)


def _draw(rows: Sequence[Row], folder: Path, stem: str, clock: Clock) -> str:
    lines = lines_of(rows, clock)
    if not lines:
        return ""
    all_levels = {name: level for name, level in counting_levels(rows).items() if level < LARGEST}
    # the same as in the table of targets
    levels = {name: all_levels[name] for name in shown_targets(all_levels)}
    named = [line for line in lines if line.look is not PALE]
    figure, (axes,) = new_figure(_WIDTH_IN, max(4.6, 0.2 * len(named) + 1.2))
    _set_limits(axes, lines, levels.values())
    for level in levels.values():
        axes.axhline(level, color=COUNTING_COLOUR, lw=1, ls=(0, (6, 3)), zorder=1)
    for line in lines:
        _draw_line(axes, line)
    if clock.has_brackets:
        best = sorted(named, key=lambda line: line.last)[:_MOST_BRACKETED]
        _draw_brackets(figure, axes, brackets_of(best, rows, levels))
    clock.ticks(axes.xaxis, *axes.get_xlim())
    plain_ticks(axes.yaxis, *axes.get_ylim())
    axes.set_xlabel(f"{clock.words} (logarithmic)")
    axes.set_ylabel("validation perplexity (logarithmic)")
    ends = [(line.name, line.last, line.look) for line in named]
    name_ends(axes, ends, figure_height_in=figure.get_figheight())
    fix_layout(figure)
    by_level = sorted(levels.items(), key=lambda item: (item[1], item[0]))
    labels = drawable_names([name for name, _ in by_level])
    shown = [(label, level) for label, (_, level) in zip(labels, by_level, strict=True) if level < axes.get_ylim()[1]]
    name_levels(axes, shown, [_seen(line.band) for line in lines])
    save(figure, folder, stem)
    return _words(lines, by_level, clock)


def lines_of(rows: Sequence[Row], clock: Clock) -> list[Line]:
    """The neural rows that have points which logarithmic axes can show; those of each seed, failed ones included."""
    looks = looks_of(rows)
    found = []
    for row in rows:
        curves = [_points(curve, clock) for _, curve in seed_curves(row)] if row.family == "neural" else []
        if any(curves):
            name = label_of(row, rows)
            found.append(Line(row=row, name=name, look=looks[name], band=band_of(curves)))
    return found


def _points(curve: Sequence[CurvePoint], clock: Clock) -> list[Point]:
    values = [(float(clock.of(point)), point.valid_perplexity.number) for point in curve]
    return [(x, y) for x, y in values if x > 0 and y is not None and 0 < y < LARGEST]


def _set_limits(axes: Axes, lines: Sequence[Line], levels: Iterable[float]) -> None:
    xs = [x for line in lines for x in line.band.xs]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(xs) / 1.15, max(max(xs), min(xs) * 1.5) * 1.05)
    about = [*levels, *[line.last for line in lines]]
    low = min([*about, *[y for line in lines for y in line.band.low]])
    high = max([*about, *[y for line in lines for y in line.band.high]])
    axes.set_ylim(low / 1.06, min(high, _HEADROOM * max(about), _MOST_TIMES * low) * 1.06)


def _draw_line(axes: Axes, line: Line) -> None:
    band, look = line.band, line.look
    zorder = 1.5 if look is PALE else 2
    if band.low != band.high:
        axes.fill_between(band.xs, band.low, band.high, color=look.colour, alpha=0.22, lw=0, zorder=zorder - 0.2)
    # a dense curve would hide under its own markers
    every = max(len(band.xs) // 8, 1)
    axes.plot(
        band.xs,
        band.middle,
        color=look.colour,
        ls=look.dashes,
        marker=look.marker,
        markevery=every,
        ms=4.5,
        lw=1.5,
        zorder=zorder,
    )
    if look is not PALE:
        # from where the line ends to the edge, where its name is
        edge = ([band.xs[-1], axes.get_xlim()[1]], [line.last, line.last])
        axes.plot(*edge, color=look.colour, lw=0.6, ls=(0, (1, 2)), zorder=zorder)


def brackets_of(several: Sequence[Line], rows: Sequence[Row], levels: Mapping[str, float]) -> list[Bracket]:
    """The crossings of the table of targets, but misses and those before the first validation."""
    times = times_to_targets(rows, ())
    found = []
    for line in several:
        for name, level in levels.items():
            after, by = times.get((line.row.model, line.row.device, name), (math.inf, math.inf))
            # a curve that starts below a level shows so itself
            if after > 0 and math.isfinite(by):
                found.append(Bracket(level=level, after=after, by=by, look=line.look))
    return found


def _draw_brackets(figure: Figure, axes: Axes, several: Sequence[Bracket]) -> None:
    """On their levels; those that overlap, side by side above and below it."""
    for bracket, start, lane in lanes_of(several, axes.get_xlim()[0]):
        # 0, 1, -1, 2, -2 ... lanes from the level
        offset_pt = _LANE_PT * ((lane + 1) // 2) * (1 if lane % 2 else -1)
        axes.plot(
            [start, bracket.by],
            [bracket.level, bracket.level],
            color=bracket.look.colour,
            lw=1.8,
            marker="|",
            ms=6,
            mew=1.2,
            solid_capstyle="butt",
            zorder=2.6,
            transform=offset_copy(axes.transData, fig=figure, y=offset_pt, units="points"),
        )


def lanes_of(several: Sequence[Bracket], left: float) -> list[tuple[Bracket, float, int]]:
    """Each bracket with where it starts, not before `left`, and its lane: those of one lane do not touch."""
    ends: dict[float, list[float]] = {}
    found = []
    for bracket in sorted(several, key=lambda one: (one.level, one.after, one.by)):
        taken = ends.setdefault(bracket.level, [])
        start = max(bracket.after, left)
        lane = next((n for n, end in enumerate(taken) if end * 1.03 < start), len(taken))
        taken[lane : lane + 1] = [bracket.by]
        found.append((bracket, start, lane))
    return found


def _seen(band: Band) -> list[Point]:
    """Places along a line, near enough to each other for finding room beside it."""
    low, high = math.log(band.xs[0]), math.log(band.xs[-1])
    places = [math.exp(low + (high - low) * n / (_N_SEEN - 1)) for n in range(_N_SEEN)]
    return [(x, y) for x in places if (y := band.at(x)) is not None]


def _words(lines: Sequence[Line], levels: Sequence[tuple[str, float]], clock: Clock) -> str:
    """The alt text: where each line ends, best first, and the levels."""
    last = [
        f"{line.name} {wording.perplexity(line.last)}"
        for line in sorted(lines, key=lambda line: (line.last, line.name))
    ]
    told = [f"{name} {wording.perplexity(level)}" for name, level in levels]
    beside = f"; levels of the counting models: {'; '.join(told)}" if told else ""
    several = " (median of the seeds)" if any(len(line.row.trials) > 1 for line in lines) else ""
    return f"Validation perplexity over {clock.words}{several}; at the end: {'; '.join(last)}{beside}."
