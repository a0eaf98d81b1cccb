"""The command line of a run: `python -m bench.run --models all`.

Exit status: 0 all trials fine; 1 some trial failed (its row says why), or something could not be written; 2 bad
arguments or input; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.asked import asked_of
from bench.ending import end_tidily_on_signals
from bench.entry import status_of
from bench.options import folder_options, fractions, limit_options, perplexities, text_options, training_options
from bench.plan import MAX_TRIALS
from bench.running import run
from bench.sweep import with_plan
from lmzoo.arguments import ListOption, OnceCommand


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are one line on standard error."""
    return status_of(command, "python -m bench.run", arguments, unit="trials")


@click.command(cls=OnceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--models",
    cls=ListOption,
    default="all",
    show_default=True,
    help="Model specs, separated by commas, such as unigram,kn5,lstm-scratch:hidden=512; all: lmzoo's own, each once; "
    "peers: installed adapters and compressors; counting: n-grams of several orders and smoothings.",
)
@click.option(
    "--plan", type=click.Path(path_type=Path), help="TOML file that has any of these options, and texts one by one."
)
@text_options
@click.option(
    "--train-fractions",
    cls=ListOption,
    default="1",
    show_default=True,
    callback=fractions,
    help="Shares of the training text to train on, such as 1/16,1/4,1; every model is trained on each.",
)
@click.option(
    "--device",
    cls=ListOption,
    default="cpu",
    show_default=True,
    help="cpu, cuda or cuda:N, or several separated by commas.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=MAX_TRIALS),
    default=1,
    show_default=True,
    help="Seeds of each neural model: 0, 1 …",
)
@training_options
@click.option(
    "--target-ppl",
    multiple=True,
    callback=perplexities,
    help="Validation perplexity to time; may be repeated or a list.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: results/<run-id>]")
@folder_options
@click.option("--quick", is_flag=True, help="0.3 s of training for each neural model; everything else the same.")
@limit_options
@click.option(
    "--executor",
    default="local",
    show_default=True,
    help="Where trials run: local, one at a time on this machine; ray, side by side on a Ray cluster that is running.",
)
@click.option("--no-text", is_flag=True, help="No passage of the text and no sample in records and report.")
@click.option("--debug", is_flag=True, help="Show what trials print, and tracebacks.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Train language models on a text, measure them, and compare them."""
    return run(asked_of(ctx.obj, with_plan(ctx, options)))


if __name__ == "__main__":
    end_tidily_on_signals()
    sys.exit(main())
