"""The plot across tokenizers and vocabularies: bits per byte, or per character, of all rows of a text."""

from __future__ import annotations

import math
from pathlib import Path

from bench.report import wording
from bench.report.across import Across
from bench.report.answer import label_of
from bench.report.bars import Bar, bars_height_in, draw_bars
from bench.report.drawing import new_figure, save
from bench.report.rows import Row

_WIDTH_IN = 8.4
_ROOM = 1.02


def draw_across(across: Across, folder: Path, stem: str) -> str:
    """Bars from 0, fewest bits on top, with 95 % intervals; gives back the alt text.

    Nothing is drawn, and the alt text is empty, where fewer than two rows have a value.
    """
    bars = [_bar(across, row) for row in across.order]
    ends = [max(bar.value, bar.interval.high if bar.interval else 0.0) for bar in bars if bar.value is not None]
    if len(ends) < 2:
        return ""
    unit = across.unit_in_words
    figure, (axes,) = new_figure(_WIDTH_IN, bars_height_in(len(bars)))
    axes.set_xlim(0, max(ends) * _ROOM)
    axes.set_xlabel(f"{unit} of the test text, lower is better (lines are 95 % intervals; * adaptive)")
    draw_bars(axes, bars, 0.0)
    save(figure, folder, stem)
    shown = [f"{bar.name} {wording.rounded(bar.value) if bar.value is not None else 'no value'}" for bar in bars]
    return f"Bar chart of {unit} with 95 % intervals, fewest first: {'; '.join(shown)}."


def _bar(across: Across, row: Row) -> Bar:
    value, interval = across.value(row), across.interval(row)
    name = f"{label_of(row, across.rows)} ({across.tokens(row)})"
    if value is None or not math.isfinite(value) or value <= 0:
        why = row.status_in_words if row.status != "ok" else f"no {across.unit_in_words}"
        why = "infinite" if value is not None else why
        return Bar(name=name, family=row.family, value=None, interval=None, text=why)
    text = wording.rounded(value)
    if interval is not None:
        text += f"  ({wording.rounded(interval.low)} to {wording.rounded(interval.high)})"
    return Bar(name=name, family=row.family, value=value, interval=interval, text=text)
