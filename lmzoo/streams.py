"""The standard streams of a command: open, UTF-8, and quiet once nobody reads them.

Standard output holds results, so where it fails the work is in vain; standard error holds notes, which may be lost.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal


def open_closed_streams() -> None:
    """Where a shell closed a standard stream, Python has none: nothing to read, and nowhere to write."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # open as long as the process lives
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


class _Notes(io.RawIOBase):
    """Writes to a file descriptor what it takes, and drops the rest: its reader left, or the disk is full."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: Any, /) -> int:
        waiting = memoryview(data).cast("B")
        n_bytes = len(waiting)
        try:
            while waiting:
                waiting = waiting[os.write(self._fd, waiting) :]
        except OSError:
            # nobody is left to be told
            pass
        return n_bytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)


def never_fail_on_notes() -> None:
    """Let what cannot be told on standard error be lost, instead of ending the work that it tells of."""
    # one that was put in its place, by a test say, is left alone
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        notes = io.BufferedWriter(_Notes(sys.stderr.fileno()))
        sys.stderr = io.TextIOWrapper(notes, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def speak_utf8() -> None:
    """UTF-8 on every stream, whatever the locale; what cannot be written is escaped instead of raising."""
    _reconfigure(encoding="utf-8", errors="backslashreplace")


def never_raise_on_output(errors: Literal["replace", "backslashreplace"] = "backslashreplace") -> None:
    """Let a character that the console lacks become `?` or an escape instead of ending a finished run."""
    _reconfigure(errors=errors)


def drop_stdout() -> None:
    """Send what is still buffered to nowhere, so that the interpreter does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def leaving_when_output_fails(status: int = 1) -> Iterator[None]:
    """End the program with one line where standard output takes no more (a full disk, a reader that left)."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        drop_stdout()
        sys.stderr.write(f"error: standard output: {error.strerror or error}\n")
        raise SystemExit(status) from error


def _reconfigure(**settings: str) -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(**settings)
