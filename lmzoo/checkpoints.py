"""Checkpoints: files that a training which was ended goes on from.

One kind of `container.py`'s.  The header holds which training it is, item by item, so that none but the same is ever
gone on with, and where it stood.  A file is replaced as a whole: whenever the process dies, the last one is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo import container
from lmzoo.errors import CorruptFileError, InputError, StorageError, TrainingMismatchError
from lmzoo.files import require_writable, whole_file
from lmzoo.interface import Arrays


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the training goes on without."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        identity: what makes it this training and no other, JSON values by names that are told to people.
        facts: where it stands, JSON values.
        arrays: weights and whatever else is numbers.
    """

    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    arrays: Arrays


def require_free(path: Path, *, resume: bool) -> None:
    """Raise `InputError` for a checkpoint that would be lost, `StorageError` where none can be written."""
    if path.exists() and not resume:
        raise InputError(
            f"{path} is there already; go on from it with resume=True (--resume), or give another name or remove it"
        )
    # where there is one to go on from, a place that takes no more of them is told of when it matters
    if not path.is_file():
        require_writable(path)


def write(checkpoint: Checkpoint, path: Path) -> None:
    """Put a checkpoint in the place of the one before.  Raises `StorageError`."""
    header = {"identity": checkpoint.identity, "facts": checkpoint.facts}
    pieces = container.pieces(container.CHECKPOINT, header, checkpoint.arrays, "a checkpoint")
    with whole_file(path) as file:
        for piece in pieces:
            file.write(piece)


def read(path: Path) -> Checkpoint:
    """A checkpoint from its file.  Raises `ForeignFileError`, `NewerFileError`, `CorruptFileError`, `StorageError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    head = container.read_head(data, str(path), container.CHECKPOINT, cure="give the file that --checkpoint wrote")
    try:
        arrays = container.read_arrays(head)
        identity, facts = dict(head.header["identity"]), dict(head.header["facts"])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, error) from error
    return Checkpoint(identity=identity, facts=facts, arrays=arrays)


def damaged(path: Path, error: Exception) -> CorruptFileError:
    """The error for a file whose checksum is right and whose content is no training's."""
    return CorruptFileError(f"{path} is damaged: its header does not describe a training ({error})")


def require_same(checkpoint: Checkpoint, identity: Mapping[str, Any], path: Path) -> None:
    """Raise `TrainingMismatchError`, naming the first item of `identity` in which the checkpoint's training differs."""
    found = checkpoint.identity
    for name in dict.fromkeys((*identity, *found)):
        if found.get(name) != identity.get(name) or (name in found) != (name in identity):
            raise TrainingMismatchError(
                f"{path} is of a training with {name} {_shown(found, name)}, this one has {_shown(identity, name)}; "
                f"give what it was started with, or start anew with another checkpoint"
            )


def _shown(identity: Mapping[str, Any], name: str) -> str:
    value = identity.get(name)
    if name not in identity or value is None:
        return "none"
    return str(value)
