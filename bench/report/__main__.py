"""python -m bench.report DIR...: rebuild the report of runs from their stored records."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from bench.report.build import build_report
from lmzoo.errors import LmzooError
from lmzoo.streams import never_raise_on_output


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
def main(folders: tuple[Path, ...]) -> None:
    """Rebuild tables, plots, report.md and report.html of each run in DIR from its records."""
    never_raise_on_output()
    # figures are drawn without a display; a backend left over from elsewhere could keep matplotlib from loading
    os.environ.pop("MPLBACKEND", None)
    for folder in folders:
        try:
            warnings = build_report(folder)
        except (LmzooError, OSError) as error:
            click.echo(f"error: {' '.join(str(error).split())}", err=True)
            sys.exit(2)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{folder / 'report.html'}")


if __name__ == "__main__":
    main(prog_name="python -m bench.report")
