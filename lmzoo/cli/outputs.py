"""Where a command writes: looked at before any work, not after hours of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from lmzoo.errors import StorageError
from lmzoo.files import require_writable


def require_output(output: str, inputs: Iterable[str]) -> None:
    """Raise `StorageError` where nothing can be written, and `click.UsageError` for a file that is read as well."""
    path = Path(output)
    if not output or path.is_dir():
        raise StorageError(f"cannot write {output!r}: give the name of a file")
    if not path.parent.is_dir():
        raise StorageError(f"cannot write {output}: there is no folder {path.parent}")
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise click.UsageError(f"{output} is read and would be overwritten; give another name to write to")
    require_writable(path)
