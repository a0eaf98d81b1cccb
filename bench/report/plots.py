"""The plots of a report, one set per group of comparable rows.  What has no finite value is drawn as "no value"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from bench.report import content, wording
from bench.report.across import Across
from bench.report.across_plot import draw_across
from bench.report.answer import label_of
from bench.report.bars import Bar, bars_height_in, draw_bars, name_bars
from bench.report.drawing import (
    COUNTING_COLOUR,
    Style,
    byte_ticks,
    drawable,
    fix_layout,
    new_figure,
    place_labels,
    plain_ticks,
    save,
    spread,
    style_sheet,
    styles,
    write_key,
)
from bench.report.profile_plots import draw_calibration, draw_surprisal
from bench.report.rows import Group, Row, ranked
from bench.report.scaling import Series
from bench.report.scaling_plot import draw_scaling
from bench.report.sheets import above_baseline, number
from bench.report.tables import counting_levels, seed_curves, summary_of

_WIDTH_IN = 8.4
# beyond it, limits of axes leave the range of floats
_LARGEST = 1e100
# more lines or dots than this cannot be told apart: the best are named, the others are pale
_MAX_NAMED = 16
_PALE = Style("#C9CFD6", "o", "-")


@dataclass(frozen=True)
class Cost:
    """What perplexity is drawn against: a column of the summary, and how its values are named and marked."""

    key: str
    title: str
    show: Callable[[float | None], str]
    ticks: Callable[[Axis, float, float], None]


@dataclass(frozen=True)
class Dot:
    name: str
    look: Style
    cost: float
    perplexity: float


Drawer = Callable[[Sequence[Row], Path, str], str]
# what it is of, the stem of its files, its title, and what draws it
_Plot = tuple[Group, str, str, Callable[[Path, str], str]]


def draw_all(
    folder: Path, several: Sequence[Series], across: Sequence[Across] = ()
) -> tuple[list[content.Figure], list[str]]:
    """Draw every plot of each text: the figures that came out, and a warning for each that did not."""
    figures, warnings = [], []
    for group, stem, title, draw in [*_across_plots(across), *_plots_of_texts(several)]:
        try:
            with style_sheet():
                alt = draw(folder, stem)
        # a plot is never worth the tables: whatever went wrong in drawing is told and left
        except Exception as error:
            warnings.append(f"plot {stem} could not be drawn: {type(error).__name__}: {error}")
            continue
        if alt:
            figures.append(content.Figure(stem=stem, title=title, alt=alt, group=group))
    return figures, warnings


def _across_plots(several: Sequence[Across]) -> Iterator[_Plot]:
    for place, across in enumerate(several, start=1):
        title = f"{across.unit_in_words}, whatever the tokens"
        yield across.group, _stem("across", place), title, partial(draw_across, across)


def _plots_of_texts(several: Sequence[Series]) -> Iterator[_Plot]:
    for place, series in enumerate(several, start=1):
        for name, (title, draw) in _plots_of(series).items():
            yield series.whole, _stem(name, place), title, draw


def _stem(name: str, place: int) -> str:
    return name if place == 1 else f"{name}-{place}"


def _plots_of(series: Series) -> Mapping[str, tuple[str, Callable[[Path, str], str]]]:
    """The plots of the largest fraction, and before them, where there are several, one over all."""
    rows = series.groups[series.whole]
    own = {name: (title, partial(draw, rows)) for name, (title, draw) in PLOTS.items()}
    return {"scaling": ("more training text", partial(draw_scaling, series))} | own if series.is_several else own


def draw_perplexity(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Bars from 1 (certainty) on a logarithmic axis, best on top, with 95 % intervals."""
    order = [*ranked(rows), *[row for row in rows if not row.is_ranked]]
    bars = [_bar(row, order) for row in order]
    high = max([bar.value for bar in bars if bar.value], default=10.0)
    figure, (axes,) = new_figure(_WIDTH_IN, bars_height_in(len(order)))
    axes.set_xscale("log")
    axes.set_xlim(1, max(high, 1.5) ** 1.32)
    draw_bars(axes, bars, 1.0)
    plain_ticks(axes.xaxis, 1, max(high, 1.5) ** 1.32)
    axes.set_xlabel("test perplexity, lower is better (logarithmic; lines are 95 % intervals)")
    save(figure, folder, stem)
    shown = [f"{bar.name} {wording.perplexity(bar.value) if bar.value else 'no value'}" for bar in bars]
    return f"Bar chart of test perplexity with 95 % intervals, best first: {'; '.join(shown)}."


def draw_validation(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Validation perplexity over training seconds, both logarithmic; counting models as levels; labels at the right."""
    curves = _finite_curves(rows)
    levels = counting_levels(rows)
    if not curves:
        return ""
    points = [point for _, seeds in curves for curve in seeds for point in curve]
    times, values = [t for t, _ in points], [v for _, v in points] + list(levels.values())
    figure, (axes,) = new_figure(_WIDTH_IN, max(4.6, 0.2 * (min(len(curves), _MAX_NAMED) + len(levels)) + 1))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(times) / 1.15, max(max(times), min(times) * 1.5) * 1.05)
    axes.set_ylim(min(values) / 1.06, max(values) * 1.06)
    for name, level in levels.items():
        axes.axhline(level, color=COUNTING_COLOUR, lw=1, ls=(0, (6, 3)), zorder=1, label=name)
    ends = [(f"{name} (level)", level, Style(COUNTING_COLOUR, "", "-")) for name, level in levels.items()]
    looks = _looks(rows)
    for row, seeds in curves:
        name = label_of(row, rows)
        for curve in seeds:
            _line(axes, curve, looks[name], alpha=1 if len(seeds) == 1 else 0.75)
        if looks[name] is not _PALE:
            ends.append((name, _middle([curve[-1][1] for curve in seeds]), looks[name]))
    _label_ends(axes, ends, figure_height_in=figure.get_figheight())
    plain_ticks(axes.xaxis, *axes.get_xlim())
    plain_ticks(axes.yaxis, *axes.get_ylim())
    axes.set_xlabel("training seconds (logarithmic)")
    axes.set_ylabel("validation perplexity (logarithmic)")
    save(figure, folder, stem)
    last = [f"{name} {wording.perplexity(value)}" for name, value, _ in sorted(ends, key=lambda end: end[1])]
    return f"Validation perplexity over training seconds; at the end: {'; '.join(last)}."


def draw_memory(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Peak resident memory of each trial's process: baseline after imports, and what came on top."""
    summaries = {id(row): summary_of(row) for row in rows}
    found = [(row, number(summaries[id(row)]["peak_rss_bytes"]), above_baseline(summaries[id(row)])) for row in rows]
    bars = sorted(
        [(peak, above or 0.0, row) for row, peak, above in found if peak], key=lambda bar: (bar[0], bar[2].model)
    )
    if not bars:
        return ""
    order = [row for *_, row in bars]
    figure, (axes,) = new_figure(_WIDTH_IN, bars_height_in(len(order)))
    mib = 2**20
    for place, (peak, above, _row) in enumerate(bars):
        axes.barh(place, (peak - above) / mib, color="#DDE2E8", edgecolor=COUNTING_COLOUR, lw=0.6)
        axes.barh(place, above / mib, left=(peak - above) / mib, color="#D55E00", edgecolor=COUNTING_COLOUR, lw=0.6)
        axes.annotate(
            f"{wording.size(peak)}, {wording.size(above)} above the baseline",
            (peak / mib, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_xlim(0, max(peak for peak, *_ in bars) / mib * 1.55)
    name_bars(axes, [label_of(row, order) for row in order])
    axes.set_xlabel("peak resident memory, MiB (pale: baseline after imports; dark: beyond it)")
    save(figure, folder, stem)
    shown = [
        f"{label_of(row, order)} {wording.size(peak)} ({wording.size(above)} above baseline)"
        for peak, above, row in bars
    ]
    return f"Bar chart of peak memory, smallest first: {'; '.join(shown)}."


def draw_size(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Test perplexity against the size of the stored model."""
    return _trade_offs(rows, folder, stem, (Cost("model_bytes", "model size (logarithmic)", wording.size, byte_ticks),))


def draw_speed(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Test perplexity against speed: scoring whole texts, and one next token."""
    costs = (
        Cost("eval_tokens_per_s", "scoring, tokens/s: right is faster", wording.count, _count_ticks),
        Cost("next_token_us", "next token, µs: left is faster", wording.rounded, _few_ticks),
    )
    return _trade_offs(rows, folder, stem, costs)


PLOTS: Mapping[str, tuple[str, Drawer]] = {
    "perplexity": ("test perplexity", draw_perplexity),
    "validation": ("validation perplexity over training seconds", draw_validation),
    "memory": ("peak memory", draw_memory),
    "size": ("perplexity against model size", draw_size),
    "speed": ("perplexity against speed", draw_speed),
    "surprisal": ("bits by kind of token", draw_surprisal),
    "calibration": ("reliability curves", draw_calibration),
}


def _trade_offs(rows: Sequence[Row], folder: Path, stem: str, costs: Sequence[Cost]) -> str:
    """A panel for each cost: perplexity against it, both logarithmic, a mark for every model that has both."""
    order = [row for row in ranked(rows) if _finite(row.test_perplexity)]
    if not order:
        return ""
    names = [label_of(row, rows) for row in order]
    summaries = [summary_of(row) for row in order]
    values = [row.test_perplexity or 1.0 for row in order]
    looks = _looks(rows)
    panels_of_dots = []
    for cost in costs:
        found = [_finite(number(summary[cost.key])) for summary in summaries]
        dots = [Dot(n, looks[n], c, v) for n, c, v in zip(names, found, values, strict=True) if c is not None]
        panels_of_dots.append(dots)
    figure, all_named = _panels(costs, panels_of_dots, {name: drawable(name) for name in names})
    if not all_named:
        # numbers need less room; where even they meet, each is still there
        figure, _ = _panels(costs, panels_of_dots, {name: str(n) for n, name in enumerate(names, start=1)}, key=names)
    save(figure, folder, stem)
    shown = [
        f"{name} {wording.perplexity(value)} at {' and '.join(c.show(number(summary[c.key])) for c in costs)}"
        for name, value, summary in zip(names, values, summaries, strict=True)
    ]
    return f"Test perplexity against {' and '.join(cost.title for cost in costs)}: {'; '.join(shown)}."


def _panels(
    costs: Sequence[Cost], dots: Sequence[Sequence[Dot]], labels: Mapping[str, str], *, key: Sequence[str] = ()
) -> tuple[Figure, bool]:
    """The panels side by side, every dot labelled, and whether all labels found room."""
    n_most = max(map(len, dots))
    figure, panels = new_figure(_WIDTH_IN, (4.4 if n_most <= 20 else 6.5) + 0.05 * len(key), len(costs))
    for axes, cost, some in zip(panels, costs, dots, strict=True):
        _scatter(axes, some, cost)
    panels[0].set_ylabel("test perplexity (logarithmic)")
    if key:
        write_key(figure, key)
    fix_layout(figure)
    named = [
        place_labels(
            axes,
            [(dot.cost, dot.perplexity) for dot in some],
            [labels[dot.name] for dot in some],
            [dot.look.colour for dot in some],
        )
        for axes, some in zip(panels, dots, strict=True)
    ]
    return figure, all(named)


def _scatter(axes: Axes, dots: Sequence[Dot], cost: Cost) -> None:
    axes.set_xlabel(cost.title)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if not dots:
        axes.text(0.5, 0.5, "no value", transform=axes.transAxes, ha="center")
        return
    costs, values = [dot.cost for dot in dots], [dot.perplexity for dot in dots]
    margin = max((max(costs) / min(costs)) ** 0.18, 1.4)
    axes.set_xlim(min(costs) / margin, max(costs) * margin)
    axes.set_ylim(min(values) / 1.1, max(values) * 1.1)
    for dot in dots:
        # hollow marks: counting models, in black and white too
        face = "white" if dot.look.colour == COUNTING_COLOUR else dot.look.colour
        axes.plot(
            dot.cost, dot.perplexity, dot.look.marker, color=dot.look.colour, markerfacecolor=face, ms=6.5, mew=1.4
        )
    cost.ticks(axes.xaxis, *axes.get_xlim())
    plain_ticks(axes.yaxis, *axes.get_ylim())
    axes.grid(color="#E6EAEE", lw=0.6)
    axes.set_axisbelow(True)


def _count_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, show=lambda value: wording.count(value, 1), most=4)


def _few_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, most=5)


def _looks(rows: Sequence[Row]) -> dict[str, Style]:
    """A style for each row of a group, the same in every plot of it: colours for neural models, grey for counting.

    Of very many rows only the best have one of their own.
    """
    order = [*ranked(rows), *[row for row in rows if not row.is_ranked]]
    named = {label_of(row, rows) for row in order[:_MAX_NAMED]}
    families = {label_of(row, rows): row.family for row in rows}
    neural = [name for name, family in families.items() if family == "neural" and name in named]
    others = [name for name, family in families.items() if family != "neural" and name in named]
    pale = {name: _PALE for name in families if name not in named}
    return pale | styles(neural) | styles(others, colour=COUNTING_COLOUR)


def _bar(row: Row, order: Sequence[Row]) -> Bar:
    value = _finite(row.test_perplexity) if row.is_ranked else None
    name, interval = label_of(row, order), row.interval
    if value is None:
        why = "infinite" if row.is_ranked else row.status.replace("_", " ").replace("ok", "no perplexity")
        return Bar(name=name, family=row.family, value=None, interval=None, text=why)
    text = wording.perplexity(value)
    if interval is not None:
        text += f"  ({wording.interval(interval.low, interval.high)})"
    return Bar(name=name, family=row.family, value=value, interval=interval, text=text)


def _line(axes: Axes, curve: Sequence[tuple[float, float]], style: Style, alpha: float) -> None:
    times, values = zip(*curve, strict=True)
    # a dense curve would hide under its own markers
    every = max(len(curve) // 8, 1)
    axes.plot(
        times,
        values,
        color=style.colour,
        ls=style.dashes,
        marker=style.marker,
        markevery=every,
        ms=4.5,
        lw=1.5,
        alpha=alpha,
        zorder=1.5 if style is _PALE else 2,
    )


def _label_ends(axes: Axes, ends: Sequence[tuple[str, float, Style]], *, figure_height_in: float) -> None:
    """Names at the right, at the height where each line ends, moved apart where they would touch."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    heights = [(math.log(value) - low) / (high - low) for _, value, _ in ends]
    beside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    gap = 0.16 / (figure_height_in - 0.7)
    for (name, _, look), height, moved in zip(ends, heights, spread(heights, gap, 0, 1), strict=True):
        xy = ([1, 1.03], [height, moved])
        axes.plot(*xy, ls="-", marker=look.marker or "None", markevery=[1], ms=4.5, color=look.colour, lw=0.7, **beside)
        axes.text(1.045, moved, drawable(name), va="center", fontsize=8, **beside)


def _finite_curves(rows: Sequence[Row]) -> list[tuple[Row, list[list[tuple[float, float]]]]]:
    """(seconds, perplexity) of the neural rows, a list per seed; only points that a logarithmic axis can show."""
    found = []
    for row in rows:
        if row.family != "neural":
            continue
        seeds = [
            [
                (p.train_s, p.valid_perplexity.number or 0.0)
                for p in curve
                if p.train_s > 0 and _finite(p.valid_perplexity.number)
            ]
            for _, curve in seed_curves(row)
        ]
        if any(seeds):
            found.append((row, [curve for curve in seeds if curve]))
    return found


def _finite(value: float | None) -> float | None:
    """The value where a logarithmic axis can show it, else None."""
    return value if value is not None and 0 < value < _LARGEST else None


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
