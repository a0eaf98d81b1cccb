"""The command line: arguments in, exit status out.

0 fine; 1 a check failed; 2 bad arguments or input, one line `error: …` on standard error; 130 stopped by Ctrl-C.
A reader that closes the pipe ends the command quietly.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from lmzoo.cli.commands import cli
from lmzoo.errors import LmzooError

PROGRAM = "python -m lmzoo"

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status."""
    _open_closed_streams()
    _speak_utf8()
    # small networks are no faster on more threads, and many times slower beside other load; numpy is not loaded yet
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = _invoke(arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_stdout()
            return OK
        except OSError as error:
            if error.filename is None:
                # what could not be written is still buffered, and would fail again at the interpreter's end
                _drop_stdout()
            return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    return status


def _invoke(arguments: Sequence[str]) -> int:
    try:
        # not cli.main: it would answer a closed pipe with status 1
        with cli.make_context(PROGRAM, list(arguments) or ["--help"]) as context:
            cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else PROGRAM
        return _fail(f"{error.format_message()} (help: {command} --help)")
    except click.ClickException as error:
        return _fail(error.format_message())
    except LmzooError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return OK


def _fail(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    click.echo(f"warning: {message}", err=True)


def _open_closed_streams() -> None:
    """Where a shell closed a standard stream, Python has none: nothing to read, and nowhere to write."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # open as long as the process lives
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _speak_utf8() -> None:
    """UTF-8 on every stream, whatever the locale; what cannot be written is escaped instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _drop_stdout() -> None:
    """Send what is still buffered to nowhere, so that the interpreter does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
