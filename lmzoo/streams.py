"""The standard streams of a command: open, UTF-8, and quiet once nobody reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal


def open_closed_streams() -> None:
    """Where a shell closed a standard stream, Python has none: nothing to read, and nowhere to write."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # open as long as the process lives
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


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
