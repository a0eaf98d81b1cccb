"""Rows on standard output: tab-separated with a header, or a JSON object a line."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Value = str | int | float | None
Command = TypeVar("Command", bound=Callable[..., Any])

_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPES = str.maketrans(_ESCAPED)
_UNESCAPES = {escaped: char for char, escaped in _ESCAPED.items()}

json_lines_option = click.option(
    "--json-lines", is_flag=True, help="A JSON object a line instead of tab-separated values."
)


class Rows:
    """Writes rows of the same columns; they wait in the buffer of standard output until `flush`.

    Tab-separated: a missing value is an empty cell, an infinite one `inf`, and backslash, tab and line ends inside a
    text are written as a backslash and a letter.  JSON: missing and infinite values are null; the column `reason` says
    why.  A header comes before the first row, so that a command that fails before it has written nothing.
    """

    def __init__(self, columns: Sequence[str], *, json_lines: bool = False) -> None:
        self._columns = columns
        self._json_lines = json_lines
        self._has_header = json_lines

    def write(self, *values: Value) -> None:
        if self._json_lines:
            row = {name: _finite(value) for name, value in zip(self._columns, values, strict=True)}
            put_line(json.dumps(row, ensure_ascii=False, allow_nan=False))
        else:
            self._write_header()
            put_line("\t".join(_cell(value) for _, value in zip(self._columns, values, strict=True)))

    def flush(self) -> None:
        """Hand over what was written, and at least the header."""
        self._write_header()
        sys.stdout.flush()

    def _write_header(self) -> None:
        if not self._has_header:
            self._has_header = True
            put_line("\t".join(self._columns))


def unescaped(cell: str) -> str:
    """The text of a tab-separated cell."""
    return re.sub(r"\\[\\tnr]", lambda found: _UNESCAPES[found[0]], cell)


def put_line(text: str) -> None:
    """Write a line to standard output as it is; a text may hold what looks like a terminal's codes."""
    sys.stdout.write(text + "\n")


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value).translate(_ESCAPES)
