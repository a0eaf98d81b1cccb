"""The plots of a report, one set per group of comparable rows.  What has no finite value is drawn as "no value"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.report import content, wording
from bench.report.across import Across
from bench.report.across_plot import draw_across
from bench.report.answer import label_of
from bench.report.bars import Bar, bars_height_in, draw_bars, name_bars
from bench.report.curves_plot import draw_tokens, draw_validation
from bench.report.drawing import COUNTING_COLOUR, new_figure, plain_ticks, save, style_sheet
from bench.report.front import LARGEST
from bench.report.matrix_plot import draw_matrix
from bench.report.profile_plots import draw_calibration, draw_surprisal
from bench.report.rows import Group, Pair, Row, ranked, ranked_first
from bench.report.scaling import Series
from bench.report.scaling_plot import draw_scaling
from bench.report.sheets import MATRIX, MAX_MATRIX
from bench.report.tables import above_baseline, number, summary_of
from bench.report.trade_offs_plot import draw_size, draw_speed

_WIDTH_IN = 8.4
# of more texts than this, all plots would make a page that nobody reads to its end
_MOST_IN_FULL = 3
_ALWAYS = ("scaling", "perplexity", "validation")

Drawer = Callable[[Sequence[Row], Path, str], str]
# what it is of, the stem of its files, its title, and what draws it
_Plot = tuple[Group, str, str, Callable[[Path, str], str]]


def draw_all(
    folder: Path,
    several: Sequence[Series],
    across: Sequence[Across] = (),
    pairs: Mapping[Group, Sequence[Pair]] | None = None,
) -> tuple[list[content.Figure], list[str]]:
    """Draw every plot of each text: the figures that came out, and a warning for each that did not."""
    figures, warnings = [], []
    for group, stem, title, draw in [*_across_plots(across), *_plots_of_texts(several, pairs or {})]:
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


def _plots_of_texts(several: Sequence[Series], pairs: Mapping[Group, Sequence[Pair]]) -> Iterator[_Plot]:
    is_brief = len(several) > _MOST_IN_FULL
    for place, series in enumerate(several, start=1):
        for name, (title, draw) in _plots_of(series, pairs.get(series.whole, ())).items():
            if name in _ALWAYS or not is_brief:
                yield series.whole, _stem(name, place), title, draw


def _stem(name: str, place: int) -> str:
    return name if place == 1 else f"{name}-{place}"


def _plots_of(series: Series, pairs: Sequence[Pair]) -> Mapping[str, tuple[str, Callable[[Path, str], str]]]:
    """The plots of the largest fraction, and before them, where there are several, one over all."""
    rows = series.groups[series.whole]
    found: dict[str, tuple[str, Callable[[Path, str], str]]] = {}
    if series.is_several:
        found["scaling"] = ("more training text", partial(draw_scaling, series))
    found |= {name: (title, partial(draw, rows)) for name, (title, draw) in PLOTS.items()}
    if len(ranked(rows)) > MAX_MATRIX:
        found[MATRIX] = ("differences between all models", partial(draw_matrix, rows, pairs))
    return found


def draw_perplexity(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Bars from 1 (certainty) on a logarithmic axis, best on top, with 95 % intervals."""
    order = ranked_first(rows)
    bars = [_bar(row, order) for row in order]
    high = max([end for bar in bars if bar.value for end in _ends(bar)], default=10.0)
    figure, (axes,) = new_figure(_WIDTH_IN, bars_height_in(len(order)))
    axes.set_xscale("log")
    axes.set_xlim(1, max(high, 1.5) ** 1.05)
    axes.set_xlabel("test perplexity, lower is better (logarithmic; lines are 95 % intervals)")
    draw_bars(axes, bars, 1.0)
    plain_ticks(axes.xaxis, *axes.get_xlim())
    save(figure, folder, stem)
    shown = [f"{bar.name} {wording.perplexity(bar.value) if bar.value else 'no value'}" for bar in bars]
    return f"Bar chart of test perplexity with 95 % intervals, best first: {'; '.join(shown)}."


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
    name_bars(axes, [label_of(row, rows) for row in order])
    axes.set_xlabel("peak resident memory, MiB (pale: baseline after imports; dark: beyond it)")
    save(figure, folder, stem)
    shown = [
        f"{label_of(row, rows)} {wording.size(peak)} ({wording.size(above)} above baseline)"
        for peak, above, row in bars
    ]
    return f"Bar chart of peak memory, smallest first: {'; '.join(shown)}."


PLOTS: Mapping[str, tuple[str, Drawer]] = {
    "perplexity": ("test perplexity", draw_perplexity),
    "validation": ("validation perplexity over training seconds", draw_validation),
    "tokens": ("validation perplexity over training tokens", draw_tokens),
    "memory": ("peak memory", draw_memory),
    "size": ("perplexity against model size and memory", draw_size),
    "speed": ("perplexity against speed", draw_speed),
    "surprisal": ("bits by kind of token", draw_surprisal),
    "calibration": ("reliability curves", draw_calibration),
}


def _ends(bar: Bar) -> Iterator[float]:
    yield bar.value or 0.0
    if bar.interval is not None and bar.interval.high < LARGEST:
        yield bar.interval.high


def _bar(row: Row, order: Sequence[Row]) -> Bar:
    value = row.test_perplexity if row.is_ranked else None
    name, interval = label_of(row, order), row.interval
    if value is None or not 0 < value < LARGEST:
        why = "infinite" if row.is_ranked else row.status_in_words.replace("ok", "no perplexity")
        return Bar(name=name, family=row.family, value=None, interval=None, text=why)
    text = wording.perplexity(value)
    if interval is not None:
        text += f"  ({wording.interval(interval.low, interval.high)})"
    return Bar(name=name, family=row.family, value=value, interval=interval, text=text)
