"""Texts as they are named: a file, a folder, a pattern such as `news-*.txt`, or `-` for standard input."""

from __future__ import annotations

import glob
import itertools
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BufferedIOBase
from pathlib import Path
from typing import Protocol, cast

from lmzoo.errors import InputError, TextError, require_kind

# a file called so is named ./- or given as a Path
STDIN = "-"


class StandardInput:
    """What `-` names."""

    def __str__(self) -> str:
        return "standard input"


# as it is named, and as it is opened
Name = str | Path
File = Path | StandardInput


class Watcher(Protocol):
    """Is told how many bytes of a file were read since it was told last."""

    def __call__(self, n_bytes: int, /) -> None: ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell of all that is read within the block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def names_of(names: Name | Sequence[Name]) -> Sequence[Name]:
    """One name or several as several."""
    several = [names] if isinstance(names, str | Path) else names
    require_kind(several, Sequence, "a text", "named by a str or a Path, or several by a list of them")
    for name in several:
        require_kind(name, (str, Path), "a text", "named by a str or a Path")
    return several


def is_text(name: Name) -> bool:
    """Whether a name is that of a text: something is there, or it is a pattern or standard input."""
    return name == STDIN or _is_there(name) or _is_pattern(name)


def _is_there(name: Name) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # longer than the system allows, or with a NUL
        return False


def _is_pattern(name: Name) -> bool:
    return isinstance(name, str) and glob.has_magic(name) and "\0" not in name


def files_of(names: Name | Sequence[Name]) -> list[File]:
    """The files that names stand for, in their order.

    A folder is all files in it and in its folders, sorted by their paths, without hidden ones; a pattern is what it
    matches, sorted likewise.  What is there is never a pattern.

    Raises `TextError` for a folder without files and a pattern that matches nothing; `InputError` for standard input
    named twice, which can be read once.  A file that is not there is an error when it is read.
    """
    names = names_of(names)
    if sum(name == STDIN for name in names) > 1:
        raise InputError("standard input (-) is named twice, and can be read only once")
    files = [file for name in names for file in _files_of(name)]
    require_read_once(files)
    return files


def require_read_once(files: Sequence[File]) -> None:
    """Raise `InputError` for a pipe that is named twice, which would be waited for without end."""
    pipes = [file for file in files if isinstance(file, Path) and _is_pipe(file)]
    for i, pipe in enumerate(pipes):
        if any(pipe.samefile(other) for other in pipes[:i]):
            raise InputError(f"the pipe {pipe} is named twice, and can be read only once")


def _is_pipe(file: Path) -> bool:
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except (OSError, ValueError):  # told of where it is read
        return False


def _files_of(name: Name) -> list[File]:
    if name == STDIN:
        return [StandardInput()]
    if not _is_there(name) and _is_pattern(name):
        found = sorted(glob.glob(str(name), recursive=True))  # noqa: PTH207
        if not found:
            raise TextError(f"no file matches {str(name)!r}")
        return [file for path in found for file in _files_of(Path(path))]
    if not name:
        raise TextError("cannot read '': the name of a text is empty")
    path = Path(name)
    return list(_files_in(path)) if _is_there(path) and path.is_dir() else [path]


def _files_in(folder: Path) -> Iterator[Path]:
    found = sorted(_walk(folder, set()), key=lambda path: path.relative_to(folder).parts)
    if not found:
        raise TextError(f"no file in the folder {folder} (hidden ones do not count)")
    return iter(found)


def _walk(folder: Path, above: set[Path]) -> Iterator[Path]:
    """Files below a folder.  Pipes and devices are none; a link back to a folder above is not followed again."""
    real = folder.resolve()
    if real in above:
        return
    with reading(folder):
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    for entry in entries:
        with reading(entry):
            mode = entry.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(entry, above | {real})
        elif stat.S_ISREG(mode):
            yield entry


def joined_name(names: Name | Sequence[Name]) -> str:
    """What a text of one or more names is called: the first one's last part, and how many more there are."""
    names = names_of(names)
    name = "stdin" if names[0] == STDIN else Path(names[0]).name or Path(names[0]).resolve().name or "text"
    return name if len(names) == 1 else f"{name}+{len(names) - 1} more"


def size_bytes(files: Sequence[File]) -> int | None:
    """How many bytes files have; None where that is not known before they are read."""
    total = 0
    for file in files:
        if isinstance(file, StandardInput):
            return None
        try:
            status = file.stat()
        except (OSError, ValueError):  # told of where it is read
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


def can_be_read_again(file: File) -> bool:
    """Not so for standard input, a pipe or a device; what is not there has an error of its own."""
    if isinstance(file, StandardInput):
        return False
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except (OSError, ValueError):
        return True


@contextmanager
def reading(file: File) -> Iterator[None]:
    """What the system refuses is a `TextError`."""
    try:
        yield
    except OSError as error:
        raise TextError(f"cannot read {file}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise TextError(f"cannot read {str(file)!r}: {error}") from error


def file_of(name: Name | File) -> File:
    """The file of this name, or standard input."""
    if name == STDIN:
        return StandardInput()
    return Path(name) if isinstance(name, str) else name


def chunks_of(file: File, chunk_bytes: int) -> Iterator[bytes]:
    """The bytes of a file in chunks of at most `chunk_bytes`, as they come.  Raises `TextError`."""
    watcher = _watcher.get()
    with reading(file), _opened(file) as opened:
        # read1 gives what is there, however little, instead of waiting for as much as was asked for
        while chunk := opened.read1(chunk_bytes):
            if watcher is not None:
                watcher(len(chunk))
            yield chunk


@contextmanager
def _opened(file: File) -> Iterator[BufferedIOBase]:
    if isinstance(file, StandardInput):
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    with file.open("rb") as opened:
        yield opened


def peeked(chunks: Iterator[bytes], needs_more: Callable[[bytes], bool]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, as few chunks of them as will do, and all chunks as they are."""
    first: list[bytes] = []
    while needs_more(b"".join(first)) and (chunk := next(chunks, b"")):
        first.append(chunk)
    return b"".join(first), itertools.chain(first, chunks)
