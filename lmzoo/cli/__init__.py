"""The command line: arguments in, exit status out.

0 fine; 1 a check failed; 2 bad arguments or input, one line `error: …` on standard error; 130 stopped by
Ctrl-C, 143 by SIGTERM.  A reader of standard output that closes the pipe ends the command quietly; notes on standard
error that nobody can be told are lost, and change nothing.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

import click

# each module adds its commands to the group
from lmzoo.cli import (  # noqa: F401
    asking,
    checking,
    completion,
    converting,
    counting,
    describing,
    info,
    listing,
    mixing,
    ranking,
    scoring,
    training,
)
from lmzoo.cli.group import cli
from lmzoo.cli.stopping import SignalledError, stoppable
from lmzoo.errors import LmzooError
from lmzoo.streams import drop_stdout, never_fail_on_notes, open_closed_streams, speak_utf8

PROGRAM = "python -m lmzoo"

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130
# set to anything, errors that nobody foresaw show where they come from
_TRACEBACK = "LMZOO_TRACEBACK"

# and the number of the signal
_SIGNALLED = 128


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status."""
    open_closed_streams()
    speak_utf8()
    never_fail_on_notes()
    # small networks are no faster on more threads, and many times slower beside other load; numpy is not loaded yet
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = _invoke(arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_stdout()
            return OK
        except OSError as error:
            if error.filename is None:
                # what could not be written is still buffered, and would fail again at the interpreter's end
                drop_stdout()
            return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    return status


def _invoke(arguments: Sequence[str]) -> int:
    asked = os.environ.get(completion.VARIABLE)
    if asked:
        return completion.answer(asked)
    try:
        with stoppable():
            return _answered(arguments)
    except LmzooError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory; a counting model can be trained in less with --max-memory")
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SignalledError as stop:
        return _SIGNALLED + stop.signal
    except OSError:
        # of what is written; `run` answers it
        raise
    except Exception as error:
        # of the models of other packages anything may come
        if os.environ.get(_TRACEBACK):
            traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error} (unforeseen; where it comes from is told with {_TRACEBACK}=1)")


def _answered(arguments: Sequence[str]) -> int:
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
