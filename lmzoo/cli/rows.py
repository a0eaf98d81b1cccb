"""Rows on standard output: tab-separated with a header, or a JSON object a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import click

Value = str | int | float | None

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Rows:
    """Writes rows of the same columns.

    Tab-separated: a missing value is an empty cell, an infinite one `inf`, and backslash, tab and line ends inside a
    text are written as a backslash and a letter.  JSON: missing and infinite values are null; the column `reason` says
    why.
    """

    def __init__(self, columns: Sequence[str], *, json_lines: bool = False) -> None:
        self._columns = columns
        self._json_lines = json_lines
        if not json_lines:
            click.echo("\t".join(columns))

    def write(self, *values: Value) -> None:
        if self._json_lines:
            row = {name: _finite(value) for name, value in zip(self._columns, values, strict=True)}
            click.echo(json.dumps(row, ensure_ascii=False, allow_nan=False))
        else:
            click.echo("\t".join(map(_cell, values)))


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value).translate(_ESCAPES)
