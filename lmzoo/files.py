"""Writing files that appear whole or not at all, and letting go of those that are mapped."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lmzoo.errors import StorageError

# the names that `replacing` gives
_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write; it takes the place of `path` when the block ends well and leaves nothing otherwise.

    Once it is there it survives a crash.  Raises whatever `OSError` the system has; it names `path`.
    """
    try:
        with _replacing(_linked(path)) as file:
            yield file
    except OSError as error:
        if error.errno is None or not (error.filename is None or _LEFTOVER.fullmatch(Path(error.filename).name)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    # not the name with something added: the name may be as long as the system allows
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _linked(path: Path) -> Path:
    """The file that a link names, or the path itself.  Raises `OSError` for links that lead round in a circle."""
    # Path.resolve answers a circle in another way under each version of Python; here a link is left
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


def sync_folder(folder: Path) -> None:
    """Let a new name in a folder survive a crash of the machine, where the system can say so of a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        # Windows opens no folder, and one may be written to but not read
        return
    try:
        # some network file systems refuse; the file itself is whole and there
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, *, before_s: float = math.inf) -> None:
    """Remove what writers that were killed left in a folder: files that had not got their names yet.

    Where somebody may write meanwhile, only what nobody has written to since `before_s`, in seconds since 1970.
    """
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if _LEFTOVER.fullmatch(path.name) and not path.is_dir() and path.lstat().st_mtime < before_s:
                path.unlink()


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """What the system refuses is a `StorageError`, and no device is ever replaced."""
    try:
        if path.exists() and not path.is_file():
            raise StorageError(f"cannot write {path}: it is there and is no regular file")
        yield
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """The same for a file of a model.  Raises `StorageError`, also for what is there and is no regular file."""
    with _refusals(path), replacing(path) as file:
        yield file


def require_writable(path: Path) -> None:
    """Raise `StorageError` where `whole_file` could not write; nothing is changed."""
    with _refusals(path):
        trial = _linked(path).parent / f".{secrets.token_hex(8)}.tmp"
        with trial.open("xb"):
            pass
        trial.unlink()


def release_pages(array: Any) -> None:
    """Let the memory of an array that lies in a mapped file go; it is read from the file again when it is needed.

    Does nothing for other arrays, for those that can be written to, and where the system has no such call.
    """
    base = None if array.flags.writeable else array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is not None and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, 64 hex digits.  Raises `StorageError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
