"""All pairs of models in one picture, where they are too many for a table: which differences are more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.path import Path as Outline

from bench.report.answer import label_of, verdicts_of
from bench.report.drawing import drawable_names, new_figure, save
from bench.report.labels import SIZE_PT, size_px
from bench.report.rows import Pair, Row, ranked

# more cells than these squared cannot be read, and the best are what is asked for
_MOST = 60
# above the cells are their numbers, below them what the signs mean
_TOP_IN = 0.25
_BOTTOM_IN = 0.35
_WIDEST_IN = 6.2
_CELL_IN = 0.25
# blue and orange are told apart with every common colour vision, and by their darkness in black and white
_COLOURS = {"better": "#0072B2", "worse": "#F2B27A", "~": "#E4E8ED"}
_WAVE = Outline(
    [(-1.0, -0.25), (-0.4, 0.85), (0.4, -0.85), (1.0, 0.25)],
    [Outline.MOVETO, Outline.CURVE4, Outline.CURVE4, Outline.CURVE4],
)
_SIGNS = {"better": ("+", "white"), "worse": ("_", "#20262E"), "~": (_WAVE, "#20262E")}


def draw_matrix(rows: Sequence[Row], pairs: Sequence[Pair], folder: Path, stem: str) -> str:
    """A cell for each two ranked rows, the model of its line against that of its column; gives back the alt text."""
    order = ranked(rows)[:_MOST]
    verdicts = [verdicts_of(row, pairs) for row in order]
    if len(order) < 2 or not any(verdicts):
        return ""
    names = [label_of(row, rows) for row in order]
    cells = [[seen.get((other.model, other.device), "") for other in order] for seen in verdicts]
    cell_in = min(_CELL_IN, _WIDEST_IN / len(order))
    labels = [f"{name}  {place}" for place, name in enumerate(drawable_names(names), start=1)]
    font_pt = min(8.0, 72 * cell_in * 0.8)
    names_in = max(size_px(label, 1)[0] for label in labels) * font_pt / SIZE_PT + 0.1
    side_in = cell_in * len(order)
    width_in, height_in = names_in + side_in + 0.1, side_in + _TOP_IN + _BOTTOM_IN
    figure, (axes,) = new_figure(width_in, height_in)
    # cells are squares, so the axes are where they have to be
    figure.set_layout_engine("none")
    axes.set_position((names_in / width_in, _BOTTOM_IN / height_in, side_in / width_in, side_in / height_in))
    for verdict in _COLOURS:
        _draw_cells(axes, cells, verdict, cell_in)
    _name_lines(axes, labels, font_pt)
    save(figure, folder, stem)
    return _words(names, cells, len(ranked(rows)))


def _draw_cells(axes: Axes, cells: Sequence[Sequence[str]], verdict: str, cell_in: float) -> None:
    """Squares in the colour of a verdict, with its sign in each: marks, since these make the smallest files."""
    places = [(x, y) for y, line in enumerate(cells) for x, seen in enumerate(line) if seen == verdict]
    if not places:
        return
    xs, ys = zip(*places, strict=True)
    size_pt = 72 * cell_in
    axes.plot(xs, ys, ls="", marker="s", ms=size_pt * 0.92, color=_COLOURS[verdict], mew=0)
    marker, ink = _SIGNS[verdict]
    axes.plot(
        xs, ys, ls="", marker=marker, ms=size_pt * 0.5, color=ink, markerfacecolor="none", mew=max(size_pt / 14, 0.6)
    )


def _name_lines(axes: Axes, labels: Sequence[str], font_pt: float) -> None:
    """Names with their places at the left, the places alone on top."""
    n_rows = len(labels)
    places = [str(place) for place in range(1, n_rows + 1)]
    axes.set_xlim(-0.5, n_rows - 0.5)
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.set_yticks(range(n_rows), labels, fontsize=font_pt)
    axes.set_xticks(range(n_rows), places, fontsize=min(font_pt, 6.5), rotation=90 if n_rows > 30 else 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("+ the model of the line is better, - worse, ~ no significant difference", fontsize=8, loc="right")


def _words(names: Sequence[str], cells: Sequence[Sequence[str]], n_all: int) -> str:
    """The alt text: whom each model cannot be told from; those before the others are better than they."""
    shown = []
    for place, (name, line) in enumerate(zip(names, cells, strict=True), start=1):
        ties = [str(n) for n, seen in enumerate(line, start=1) if seen == "~"]
        shown.append(f"{place} {name}: {', '.join(ties) or 'none'}")
    some = f", of which the best {len(names)} are shown" if len(names) < n_all else ""
    return (
        f"Matrix of the paired tests of all {n_all} models{some}, best first; no significant difference from: "
        f"{'; '.join(shown)}."
    )
