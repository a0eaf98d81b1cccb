"""python -m bench.report DIR...: rebuild the report of runs from their stored records."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from bench import lifeline
from bench.report import wording
from bench.report.build import build_report
from bench.store import CANNOT_WRITE
from lmzoo.errors import LmzooError
from lmzoo.streams import leaving_when_output_fails, never_raise_on_output, open_closed_streams

_NO_RUN = 2


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--runner", type=int, hidden=True, help="Process id of the run that waits for the report.")
def main(folders: tuple[Path, ...], runner: int | None) -> None:
    """Rebuild tables, plots, report.md and report.html of each run in DIR from its records.

    Exit status: 0 done; 1 a file cannot be written; 2 no run.
    """
    never_raise_on_output()
    if runner is not None:
        # a report of records that a later run adds to must not be written over that run's own
        lifeline.end_with_parent(runner)
    # figures are drawn without a display; a backend left over from elsewhere could keep matplotlib from loading
    os.environ.pop("MPLBACKEND", None)
    for folder in folders:
        try:
            warnings = build_report(folder)
        except LmzooError as error:
            _end(str(error), _NO_RUN)
        except OSError as error:
            where = "" if error.filename is None else f"{Path(error.filename).name}: "
            _end(f"the report cannot be written: {where}{error.strerror or error}", CANNOT_WRITE)
        for warning in warnings:
            click.echo(f"warning: {wording.plain(warning)}", err=True)
        with leaving_when_output_fails():
            click.echo(f"{folder / 'report.html'}")


def _end(message: str, status: int) -> NoReturn:
    click.echo(f"error: {wording.plain(message)}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    open_closed_streams()
    # help is written there too
    with leaving_when_output_fails():
        main(prog_name="python -m bench.report")
