"""Where a command writes: looked at before any work, not after hours of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from lmzoo.errors import StorageError
from lmzoo.files import require_writable


def require_output(output: str, inputs: Iterable[str | Path], *, is_written: bool = True) -> None:
    """Raise `StorageError` where nothing can be written, and `click.UsageError` for a file that is read as well."""
    path = Path(output)
    if not output or path.is_dir():
        raise StorageError(f"cannot write {output!r}: give the name of a file")
    if not path.parent.is_dir():
        raise StorageError(f"cannot write {output}: there is no folder {path.parent}")
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise click.UsageError(f"{output} is read and would be overwritten; give another name to write to")
    if is_written:
        require_writable(path)


def require_checkpoint(
    spec: str,
    output: str,
    inputs: Sequence[str | Path],
    *,
    checkpoint: str | None,
    checkpoint_every: float | None,
    resume: bool,
) -> None:
    """The same for the checkpoint of a training, and `InputError` where its options do not go together."""
    from lmzoo.driver import require_checkpoints
    from lmzoo.spec import parse_spec

    if checkpoint is not None:
        if os.path.realpath(checkpoint) == os.path.realpath(output):
            raise click.UsageError(f"model and checkpoint are two files, got {output} for both")
        require_output(checkpoint, inputs, is_written=not (resume and Path(checkpoint).is_file()))
    path = None if checkpoint is None else Path(checkpoint)
    require_checkpoints(parse_spec(spec), path, every_s=checkpoint_every, resume=resume)
