"""How plots look: fonts, colours, marks and numbers on axes."""

from __future__ import annotations

import itertools
import logging
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report import wording
from lmzoo.files import replacing
from lmzoo.fonts import cjk_font

# Okabe and Ito (2008), told apart with every common colour vision (yellow is left out, too pale on white), and three of
# Tol's muted scheme (2021)
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#332288"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES: Sequence[Any] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
COUNTING_COLOUR = "#5A6472"
INK = "#20262E"
_DPI = 120
_MAX_LABEL = 34
# of a name whose like are beside it, before what tells it from them
_HEAD = 10
_LATIN_FONT = "DejaVu Sans"
_MONO_FONT = "DejaVu Sans Mono"
# signs of the key's small type in a line, across the figures' width
_KEY_SIGNS = 135
_TICK_DIGITS: Sequence[Sequence[float]] = (
    *((1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 5, 6, 8)),
    *((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)),
)

_BYTE_DIGITS: Sequence[Sequence[float]] = (
    (1, 10, 100),
    (1, 2, 5, 10, 20, 30, 40, 50, 70, 100, 150, 200, 300, 500, 700),
    [digit * ten for ten in (1, 10, 100) for digit in (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)],
)

Show = Callable[[float], str]


@dataclass(frozen=True)
class Style:
    """Colour, marker and dashes of a model; each alone tells neighbours apart, so black and white will do.

    `label`: its name among those that have a style, as figures can show it.
    """

    colour: str
    marker: str
    dashes: Any
    label: str = ""


@contextmanager
def style_sheet() -> Iterator[None]:
    """Settings under which every figure is drawn, whatever the user's own matplotlib settings are."""
    settings: dict[str, Any] = {
        "backend": "agg",
        "font.family": [_LATIN_FONT, *([font] if (font := cjk_font()) else [])],
        "font.size": 9,
        # a $ in a model's name is a $
        "text.parse_math": False,
        # hinted small letters run into each other: "rn" would read as "m"
        "text.hinting": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#8A94A0",
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "hatch.linewidth": 0.6,
        "svg.hashsalt": "lmzoo",
        "svg.fonttype": "path",
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in settings.items():
            matplotlib.rcParams[name] = value  # type: ignore[index]
        yield


def new_figure(width_in: float, height_in: float, n_columns: int = 1, n_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure on the Agg canvas (no display is looked for) and its axes, row by row."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(n_rows, n_columns, n + 1) for n in range(n_rows * n_columns)]


def fix_layout(figure: Figure) -> None:
    """Lay the figure out once and for all; what is written into it from here on finds its final place."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def write_key(figure: Figure, names: Sequence[str]) -> None:
    """Below everything, what the numbers in the figure stand for: `1 kn5   2 bigram`, in columns."""
    entries = [f"{n} {name}" for n, name in enumerate(drawable_names(names), start=1)]
    width = max(map(len, entries)) + 2
    per_line = max(_KEY_SIGNS // width, 1)
    padded = [entry.ljust(width) for entry in entries]
    lines = ["".join(padded[start : start + per_line]).rstrip() for start in range(0, len(padded), per_line)]
    font = [_MONO_FONT, *([cjk] if (cjk := cjk_font()) else [])]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7, fontfamily=font)


def save(figure: Figure, folder: Path, stem: str) -> None:
    """PNG and SVG, without dates or versions in them, so that equal records give equal files."""
    fix_layout(figure)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{stem}.svg") as file:
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    with replacing(folder / f"{stem}.png") as file:
        figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})


def styles(names: Sequence[str], *, colour: str | None = None) -> dict[str, Style]:
    """A style for each name; the three parts have lengths without a common divisor, so combinations repeat late.

    With `colour`, all have that one, and are told apart by their markers.
    """
    return {
        name: Style(colour or COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)], DASHES[n % len(DASHES)], label)
        for n, (name, label) in enumerate(zip(names, drawable_names(names), strict=True))
    }


def drawable(text: str) -> str:
    """A name as the fonts here can draw it: shortened in its middle, signs without glyph as escapes.

    Right-to-left signs are escaped too: matplotlib neither orders nor joins them, and would print another name.
    """
    if len(text) > _MAX_LABEL:
        half = (_MAX_LABEL - 1) // 2
        text = f"{text[: half + 6]}…{text[-(half - 6) :]}"
    return "".join(sign if _has_glyph(sign) else wording.spelt(sign) for sign in text)


def drawable_names(names: Sequence[str]) -> list[str]:
    """The same for names that stand together: what is shortened to the same is cut where they are alike instead."""
    labels = list(map(drawable, names))
    for label in {one for one in labels if labels.count(one) > 1}:
        places = [n for n, one in enumerate(labels) if one == label]
        signs = zip(*(names[n] for n in places), strict=False)
        alike = sum(1 for _ in itertools.takewhile(lambda same: len(set(same)) == 1, signs))
        # the option in which they differ is shown from its name on
        start = max(names[places[0]].rfind(sign, 0, alike) + 1 for sign in ":,+") or alike
        for n in places:
            labels[n] = drawable(f"{names[n][:_HEAD]}…{names[n][start : start + _MAX_LABEL - _HEAD - 1]}")
    # what differs far behind, or not at all, has a number
    return [f"{one} ({n})" if labels.count(one) > 1 else one for n, one in enumerate(labels, start=1)]


def plain_ticks(axis: Axis, low: float, high: float, *, show: Show = "{:,g}".format, most: int = 8) -> None:
    """Plain numbers on a logarithmic axis, at most so many of them between `low` and `high`."""
    ticks = next(
        (found for digits in _TICK_DIGITS if len(found := _decades(digits, 10.0, low, high)) <= most),
        _decades((1,), 100.0, low, high),
    )
    _set_ticks(axis, ticks, show)


def byte_ticks(axis: Axis, low: float, high: float) -> None:
    """The same for bytes: 1, 10 and 100 of each binary unit, or finer where that leaves less than two."""
    several = [_decades(digits, 1024.0, low, high) for digits in _BYTE_DIGITS]
    ticks = next((found for found in several if len(found) > 1), several[-1])
    _set_ticks(axis, ticks, lambda value: wording.size(value, 2).replace(".0 ", " "))


def _decades(digits: Sequence[float], base: float, low: float, high: float) -> list[float]:
    return [d * base**e for e in range(-9, 16) for d in digits if low <= d * base**e <= high]


def _set_ticks(axis: Axis, ticks: Sequence[float], show: Show) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: show(value)))


def _has_glyph(sign: str) -> bool:
    if unicodedata.bidirectional(sign) in ("R", "AL", "AN") or not sign.isprintable():
        return False
    return any(ord(sign) in glyphs for glyphs in _glyphs())


@cache
def _glyphs() -> tuple[frozenset[int], ...]:
    names = [_LATIN_FONT, *([font] if (font := cjk_font()) else [])]
    # matplotlib logs a line about each font that it cannot find
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    return tuple(frozenset(font_manager.get_font(font_manager.findfont(name)).get_charmap()) for name in names)
