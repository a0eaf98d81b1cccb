"""What the fixture `typed` gives, and how the rows of a command are read back."""

from __future__ import annotations

from collections.abc import Callable

Typed = Callable[..., tuple[int, str, str]]


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table with a header as dicts."""
    header, *rows = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]
