"""From arguments to an exit status, alike for the command lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from bench import ending
from bench.running import BAD_INPUT, OK, SOME_FAILED, complain
from bench.store import WriteError
from lmzoo.errors import LmzooError
from lmzoo.streams import drop_stdout, never_raise_on_output, open_closed_streams


def status_of(command: click.Command, program: str, arguments: Sequence[str] | None, *, unit: str = "") -> int:
    """Run a command line; errors are one line on standard error.

    Args:
        unit: what is kept of work that was stopped: trials, attempts; empty where there is no such thing.
    """
    kept = f"; {unit} that were finished are kept" if unit else ""
    open_closed_streams()
    never_raise_on_output("replace")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = command.main(arguments, prog_name=program, standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except click.ClickException as error:
        return complain(error.format_message(), BAD_INPUT)
    except WriteError as error:
        return complain(str(error), SOME_FAILED)
    except LmzooError as error:
        return complain(str(error), BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return complain(f"interrupted{kept}", ending.interrupted_status())
    except OSError as error:
        # a terminal or pipe that takes no more; what is finished is written before anything is told of it
        drop_stdout()
        where = error.filename or "standard output"
        return complain(f"{where}: {error.strerror or error}{kept}", SOME_FAILED)
    return int(status or OK)
