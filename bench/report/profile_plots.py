"""The plots of profiles: bits per token by kind of token, and reliability curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from bench.profiled import SortedBy
from bench.report import wording
from bench.report.answer import label_of
from bench.report.drawing import COUNTING_COLOUR, INK, Style, drawable, new_figure, save
from bench.report.looks import looks_of
from bench.report.profiles import (
    Bounds,
    Cost,
    calibration_error_of,
    chosen,
    confidences_of,
    costs_of,
    named,
    with_profile,
)
from bench.report.rows import Row

_WIDTH_IN = 8.4
_PANEL_HEIGHT_IN = 3.5
# more lines cannot be told apart
_MOST_LINES = 8
_NAMES_A_LINE = 4
# names of buckets beside each other
_MOST_TICKS = 6
_PANELS: Mapping[SortedBy, str] = {
    "frequency": "times in the training text",
    "position": "place in the document",
    "order": "longest match, tokens",
}
# lines that the alternative text goes through, for each way to sort tokens
_MOST_TOLD = 2
# bins of fewer predictions are mostly chance
_FEW = 10


def draw_surprisal(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """A panel for each way to sort tokens, a line for each of the best models; the alt text, empty without any."""
    shown = chosen(with_profile(rows), _MOST_LINES)
    kinds = [kind for kind in _PANELS if any(_finite(costs_of(row, kind)) for row in shown)]
    if not kinds:
        return ""
    figure, panels = new_figure(_WIDTH_IN, _height_in(len(shown)), len(kinds))
    for axes, kind in zip(panels, kinds, strict=True):
        _draw_kind(axes, kind, [(label_of(row, rows), costs_of(row, kind)) for row in shown], looks_of(rows))
    panels[0].set_ylabel("bits per token, lower is better")
    _legend(panels[0])
    save(figure, folder, stem)
    told = []
    for kind in kinds:
        words = [_in_words(label_of(row, rows), costs_of(row, kind)) for row in shown[:_MOST_TOLD]]
        told.append(f"By {_PANELS[kind]}: {'; '.join(words)}.")
    others = f" The other lines: {wording.listed(names)}." if (names := _names(shown[_MOST_TOLD:], rows)) else ""
    return f"Bits per token. {' '.join(told)}{others}"


def _names(shown: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    return [label_of(row, rows) for row in shown]


def draw_calibration(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """How often the first choice is right over how sure the model was of it; on the diagonal the two agree."""
    shown = chosen(with_profile(rows), _MOST_LINES)
    curves = [(label_of(row, rows), _reliability(row), calibration_error_of(row)) for row in shown]
    if not any(points for _, points, _ in curves):
        return ""
    figure, (axes,) = new_figure(_WIDTH_IN * 0.72, _height_in(len(shown)) + 1.2)
    axes.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=(0, (1, 2)), zorder=1, label="as sure as it is right")
    looks = looks_of(rows)
    for name, points, _ in curves:
        _line(axes, name, points, looks[name])
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("confidence: probability of the most probable token")
    axes.set_ylabel("share of these tokens that came")
    _grid(axes)
    _legend(axes)
    save(figure, folder, stem)
    told = [f"{name} {wording.percent(error)}" for name, _, error in curves]
    return f"Reliability curves of the first choices; expected calibration error: {'; '.join(told)}."


def _draw_kind(
    axes: Axes, kind: SortedBy, lines: Sequence[tuple[str, Mapping[Bounds, Cost]]], looks: Mapping[str, Style]
) -> None:
    """Buckets at equal distances, in their order; what is infinite has no mark."""
    bounds = list(dict.fromkeys(bounds for _, costs in lines for bounds in costs))
    places = {one: place for place, one in enumerate(bounds)}
    for name, costs in lines:
        _line(axes, name, [(places[one], cost.bits) for one, cost in _finite(costs).items()], looks[name])
    every = math.ceil(len(bounds) / _MOST_TICKS)
    axes.set_xticks(range(0, len(bounds), every), [_short(one) for one in bounds[::every]])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(-0.4, len(bounds) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(_PANELS[kind])
    _grid(axes)


def _line(axes: Axes, name: str, points: Sequence[tuple[float, float]], look: Style) -> None:
    # hollow marks: counting models, in black and white too
    face = "white" if look.colour == COUNTING_COLOUR else look.colour
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=look.colour,
        ls=look.dashes,
        marker=look.marker,
        markerfacecolor=face,
        ms=5,
        lw=1.3,
        label=look.label or drawable(name),
        zorder=2,
    )


def _finite(costs: Mapping[Bounds, Cost]) -> dict[Bounds, Cost]:
    return {bounds: cost for bounds, cost in costs.items() if math.isfinite(cost.bits)}


def _reliability(row: Row) -> list[tuple[float, float]]:
    """Mean confidence and accuracy of each bin that has enough predictions."""
    bins = [one for one in confidences_of(row) if one.n_tokens]
    most = max((one.n_tokens for one in bins), default=0)
    # of a short text every bin has few
    enough = [one for one in bins if one.n_tokens >= min(_FEW, most)]
    return [(min(one.p_sum / one.n_tokens, 1.0), one.n_right / one.n_tokens) for one in enough]


def _short(bounds: Bounds) -> str:
    """The least value of a bucket, which is what an axis has room for."""
    low, high = bounds
    if low is None:
        return named(bounds)
    return f"{wording.count(low, 1)}{'+' if high is None else ''}"


def _grid(axes: Axes) -> None:
    axes.grid(color="#E6EAEE", lw=0.6)
    axes.set_axisbelow(True)


def _height_in(n_names: int) -> float:
    return _PANEL_HEIGHT_IN + 0.2 * math.ceil((n_names + 1) / _NAMES_A_LINE)


def _legend(axes: Axes) -> None:
    """The names of the lines, below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure = axes.get_figure()
    assert figure is not None
    figure.legend(
        handles, labels, loc="outside lower center", ncols=_NAMES_A_LINE, fontsize=8, frameon=False, handlelength=3
    )


def _in_words(name: str, costs: Mapping[Bounds, Cost]) -> str:
    return f"{name}: {', '.join(f'{named(bounds)} {wording.rounded(cost.bits)}' for bounds, cost in costs.items())}"
