"""A comparison or a history on a terminal, or as lines where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from bench.comparing.comparison import Comparison
from bench.comparing.gate import Check
from bench.comparing.history import History, Line
from bench.comparing.pages import change_sheets, differences_sheet, legend, line_sheets, reading, runs_sheet
from bench.report import wording
from bench.report.sheets import Sheet

# where no terminal says how wide it is, no cell is cut
_WIDTH_WITHOUT_TERMINAL = 160
# the first line of a table; the blanks and the line of each column
_LEFT_LINE = 1
_BORDER = 3
# runs of a history that stand side by side
_RUNS_A_TABLE = 5
_JUSTIFY: dict[str, Literal["left", "right"]] = {"l": "left", "n": "left", "r": "right"}


class Screen:
    """Standard output: tables as wide as it is, texts as they are but for signs that would steer a terminal."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
        self._console = Console(markup=False, emoji=False, highlight=False, width=width)

    def say(self, text: str) -> None:
        """A line, however long."""
        self._console.print(wording.plain(text), soft_wrap=True)

    def say_each(self, word: str, lines: Iterable[str]) -> None:
        """Lines that start with a word."""
        for line in lines:
            self.say(f"{word}: {line}")

    def has_room(self, sheet: Sheet) -> bool:
        """Whether a sheet can stand as a table whose names, figures and words are whole."""
        return self._widths(sheet) is not None

    def table(self, sheet: Sheet) -> None:
        """A sheet with its notes, or where it has no room a line for each cell; its caption is left to what stands
        above it."""
        widths = self._widths(sheet)
        if widths is None:
            self._lines(sheet)
        else:
            table = Table()
            for header, letter, width in zip(sheet.headers, sheet.align, widths, strict=True):
                table.add_column(header, justify=_JUSTIFY[letter], width=width)
            for row in sheet.rows:
                table.add_row(*map(wording.plain, row))
            self._console.print(table)
        for note in sheet.notes:
            self.say(note)

    def _widths(self, sheet: Sheet) -> list[int] | None:
        """How wide each column is: names and figures stay on a line, other cells go on in the next one after a word.

        None where that is too wide.
        """
        columns = [list(map(wording.plain, cells)) for cells in zip(sheet.headers, *sheet.rows, strict=True)]
        widths = [max(map(cell_len, column)) for column in columns]
        words = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns]
        least = [
            word if letter == "l" else width for word, width, letter in zip(words, widths, sheet.align, strict=True)
        ]
        room = self._console.width - _LEFT_LINE - _BORDER * len(columns)
        if sum(least) > room:
            return None
        while sum(widths) > room:
            widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=widths.__getitem__)
            widths[widest] -= 1
        return widths

    def _lines(self, sheet: Sheet) -> None:
        """What a row is about, up to its first figure, and below it a line for each other cell."""
        n_names = max(sheet.align.find("r"), 1)
        for row in sheet.rows:
            cells = [f"{header}: {cell}" for header, cell in zip(sheet.headers, row, strict=True)]
            self.say(", ".join(cells[:n_names]))
            for cell in cells[n_names:]:
                self._console.print(f"  {wording.plain(cell)}", soft_wrap=True)


def show_comparison(screen: Screen, comparison: Comparison, checks: Sequence[Check]) -> None:
    """Tables of figures, what their words mean, what was not compared, what else differs, and thresholds last."""
    for title, sheet in change_sheets(comparison):
        screen.say(f"On {title}:")
        screen.table(sheet)
    for line in legend(comparison.changes):
        screen.say(line)
    screen.say_each("not compared", map(str, comparison.refusals))
    for what, differences in (("configuration", comparison.configuration), ("environment", comparison.environment)):
        sheet = differences_sheet(what, differences)
        if sheet.rows:
            screen.table(sheet)
        else:
            screen.say(sheet.caption)
    screen.say_each("warning", comparison.notices)
    for check in checks:
        screen.say_each("failed" if check.failures else "passed", check.failures or [check.sentence])


def show_history(screen: Screen, history: History, warnings: Sequence[str]) -> None:
    """The runs by their numbers, then a table for each text."""
    screen.say("Runs, oldest first:")
    screen.table(runs_sheet(history.entries))
    for title, lines in history.by_text.items():
        screen.say(f"{history.metric.name} on {title}, by run:")
        for sheet in _with_room(screen, history, lines):
            screen.table(sheet)
    for line in reading(history):
        screen.say(line)
    screen.say_each("left out", history.left_out)
    screen.say_each("warning", [*history.notices, *warnings])


def _with_room(screen: Screen, history: History, lines: Sequence[Line]) -> list[Sheet]:
    """The figures of a text in as few tables as there is room for; where there is none at all, in one."""
    for per_table in range(_RUNS_A_TABLE, 0, -1):
        sheets = line_sheets(history, lines, per_table)
        if all(map(screen.has_room, sheets)):
            return sheets
    return line_sheets(history, lines)
