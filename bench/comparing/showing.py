"""A comparison or a history on a terminal, or as lines where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table

from bench.comparing.comparison import Comparison
from bench.comparing.gate import Check
from bench.comparing.history import History
from bench.comparing.pages import change_sheets, differences_sheet, legend, line_sheets, reading, runs_sheet
from bench.report import wording
from bench.report.sheets import Sheet

# where no terminal says how wide it is, no cell is cut
_WIDTH_WITHOUT_TERMINAL = 160
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

    def table(self, sheet: Sheet) -> None:
        """A sheet with its notes; its caption is left to what stands above it."""
        table = Table()
        for header, letter in zip(sheet.headers, sheet.align, strict=True):
            table.add_column(header, justify=_JUSTIFY[letter])
        for row in sheet.rows:
            table.add_row(*map(wording.plain, row))
        self._console.print(table)
        for note in sheet.notes:
            self.say(note)


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
        for sheet in line_sheets(history, lines, _RUNS_A_TABLE):
            screen.table(sheet)
    for line in reading(history):
        screen.say(line)
    screen.say_each("left out", history.left_out)
    screen.say_each("warning", [*history.notices, *warnings])
