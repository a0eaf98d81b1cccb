"""The pictures of a corpus card: the most frequent symbols, Zipf's plot, growth of the vocabulary."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from lmzoo.card import Card
from lmzoo.characters import code_of
from lmzoo.cli.cards import shown
from lmzoo.files import whole_file
from lmzoo.fonts import cjk_font

# Okabe and Ito (2008): told apart with every common colour vision
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_FONT = "DejaVu Sans"
_N_BARS = 25
_LONGEST_LABEL = 20
_SETTINGS = {
    "backend": "agg",
    "font.size": 9,
    # a $ in a symbol is a $
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "lmzoo",
    "svg.fonttype": "path",
}
_TITLES = {
    "symbols": "Most frequent symbols",
    "zipf": "Frequency by rank (Zipf)",
    "growth": "Different symbols by tokens read (Heaps)",
}


def save_plots(card: Card, folder: Path) -> list[tuple[str, str]]:
    """Draw each picture as PNG and SVG; gives back their titles and PNG files.  Raises `StorageError`."""
    with _style_sheet():
        for name, figure in _figures(card):
            for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                drawn = io.BytesIO()
                figure.savefig(drawn, format=ending, dpi=120, metadata=metadata)
                with whole_file(folder / f"{name}.{ending}") as file:
                    file.write(drawn.getvalue())
    return [(title, f"{name}.png") for name, title in _TITLES.items()]


def label_of(symbol: str) -> str:
    """A symbol as the fonts can draw it: by its code points where none has a sign for it."""
    seen = _drawable(shown(symbol))
    return seen if len(seen) <= _LONGEST_LABEL else f"{seen[: _LONGEST_LABEL - 1]}…"


def n_without_sign(card: Card) -> int:
    """How many of the symbols drawn no font here has all signs of."""
    return sum(any(ord(c) not in _glyphs() for c in shown(symbol.what)) for symbol in card.symbols[:_N_BARS])


def _drawable(text: str) -> str:
    return "".join(c if ord(c) in _glyphs() else code_of(c) for c in text)


@contextmanager
def _style_sheet() -> Iterator[None]:
    """Settings of its own, whatever the user's are; no display is looked for."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.family"] = _fonts()
        for name, value in _SETTINGS.items():
            matplotlib.rcParams[name] = value  # type: ignore[index]
        yield


def _figures(card: Card) -> Iterator[tuple[str, Figure]]:
    figure, axes = _new_figure(card, "symbols")
    best = card.symbols[:_N_BARS]
    axes.barh(range(len(best)), [s.count for s in best], color=_BLUE)
    axes.set_yticks(range(len(best)), [label_of(s.what) for s in best])
    axes.invert_yaxis()
    axes.set_xlabel("count in the training part")
    yield "symbols", figure

    figure, axes = _new_figure(card, "zipf")
    _curve(axes, card.frequencies, "rank", "count")
    if card.frequencies:
        most, n_ranks = card.frequencies[0][1], card.frequencies[-1][0]
        # as if every symbol occurred as often as the first divided by its rank
        axes.plot([1, n_ranks], [most, most / n_ranks], color=_ORANGE, linestyle="--", label="slope -1")
        axes.legend(frameon=False)
    yield "zipf", figure

    figure, axes = _new_figure(card, "growth")
    _curve(axes, card.growth, "tokens read", "different symbols")
    yield "growth", figure


def _new_figure(card: Card, name: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(_drawable(f"{card.name}: {_TITLES[name]}"))
    return figure, axes


def _curve(axes: Axes, points: Sequence[tuple[int, int]], x: str, y: str) -> None:
    axes.plot([p[0] for p in points], [p[1] for p in points], color=_BLUE, marker="o", markersize=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.set_xlabel(x)
    axes.set_ylabel(y)


@cache
def _fonts() -> list[str]:
    beside = cjk_font()
    return [_FONT] if beside is None else [_FONT, beside]


@cache
def _glyphs() -> frozenset[int]:
    fonts = (font_manager.get_font(font_manager.findfont(name)) for name in _fonts())
    return frozenset(code for font in fonts for code in font.get_charmap())
