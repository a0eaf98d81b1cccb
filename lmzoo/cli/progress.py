"""How far the reading of a large text is, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from lmzoo.inputs import File, size_bytes, watched_by

# less is read before anybody looks
_LEAST_BYTES = 1 << 25


@contextlib.contextmanager
def reading_shown(files: Sequence[File]) -> Iterator[None]:
    """Show on standard error how many bytes are read within the block, of how many where that is known."""
    total = size_bytes(files)
    if not sys.stderr.isatty() or (total is not None and total < _LEAST_BYTES):
        yield
        return
    # rich takes a while to load
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=total)
        with watched_by(lambda n_bytes: progress.advance(task, n_bytes)):
            yield
