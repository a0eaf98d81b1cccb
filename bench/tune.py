"""The command line of a search: `python -m bench.tune --model lstm-scratch --search-seconds 600`.

Exit status: 0 there is a recipe; 1 no attempt was complete, or something could not be written; 2 bad arguments or
input; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP, with the best recipe so far written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.ending import end_tidily_on_signals
from bench.entry import status_of
from bench.options import folder_options, limit_options, positive, text_options, training_options
from bench.plan import MAX_TRIALS
from bench.tuning.asked import PROGRAM, search_asked
from bench.tuning.searching import list_space, run_search
from lmzoo.arguments import ListOption, OnceCommand


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are one line on standard error."""
    return status_of(command, PROGRAM, arguments, unit="attempts")


@click.command(cls=OnceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--model",
    required=True,
    cls=ListOption,
    help="Spec of the model, such as lstm-scratch or ngram:order=5; the options in it are held fixed.",
)
@click.option(
    "--search-seconds",
    type=float,
    callback=positive,
    default=600.0,
    show_default=True,
    help="Seconds that the whole search may take, those before --resume included.",
)
@click.option("--trials", type=click.IntRange(min=1, max=MAX_TRIALS), help="Configurations to try at most.")
@click.option("--fix", cls=ListOption, help="More options to hold fixed, such as hidden=512,layers=1.")
@click.option("--search", cls=ListOption, help="Search these options alone, such as lr,hidden.  [default: all]")
@click.option("--list-space", "lists_space", is_flag=True, help="Show what would be searched, and end.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search itself.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=MAX_TRIALS),
    default=1,
    show_default=True,
    help="Trainings of each configuration, with the seeds 0, 1 …; their geometric mean counts.",
)
@text_options
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@training_options
@limit_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the search.  [default: results/tune-<id>]")
@folder_options
@click.option("--debug", is_flag=True, help="Show what trainings print, and tracebacks.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Search for the options with which a model learns a text best, by validation text alone."""
    asked = search_asked(ctx.obj, options)
    return list_space(asked) if options["lists_space"] else run_search(asked)


if __name__ == "__main__":
    end_tidily_on_signals()
    sys.exit(main())
