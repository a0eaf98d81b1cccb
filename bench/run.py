"""The command line of a run: `python -m bench.run --models all`.

Exit status: 0 all trials fine; 1 some trial failed (its row says why), or something could not be written; 2 bad
arguments or input; 130 interrupted (Ctrl-C, SIGTERM or SIGHUP).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.asked import asked_of
from bench.ending import end_tidily_on_signals
from bench.options import fractions, perplexities, positive
from bench.plan import MAX_TRIALS
from bench.running import BAD_INPUT, INTERRUPTED, OK, SOME_FAILED, complain, run
from bench.store import WriteError
from bench.sweep import with_plan
from lmzoo.arguments import ListOption, OnceCommand
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID, INVALID
from lmzoo.errors import LmzooError
from lmzoo.normalizers import NORMALIZERS
from lmzoo.streams import drop_stdout, never_raise_on_output, open_closed_streams
from lmzoo.tokenizers import TOKENIZER_KINDS

# one: the same on every machine, and beside other load a second thread mostly makes the first one wait
DEFAULT_THREADS = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are one line on standard error."""
    open_closed_streams()
    never_raise_on_output("replace")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = command.main(arguments, prog_name="python -m bench.run", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except click.ClickException as error:
        return complain(error.format_message(), BAD_INPUT)
    except WriteError as error:
        return complain(str(error), SOME_FAILED)
    except LmzooError as error:
        return complain(str(error), BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return complain("interrupted; trials that were finished are kept", INTERRUPTED)
    except OSError as error:
        # a terminal or pipe that takes no more; records are written before anything is told of them
        drop_stdout()
        where = error.filename or "standard output"
        return complain(f"{where}: {error.strerror or error}; trials that were finished are kept", SOME_FAILED)
    return int(status or OK)


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
@click.option(
    "--corpus",
    multiple=True,
    help="Name of a corpus, or path of a file, of a folder, or a quoted pattern; may be repeated.  [default: genesis]",
)
@click.option("--train", multiple=True, help="Path of a training text; with --test.  Repeated: read in this order.")
@click.option("--valid", help="Path of a validation text; without it the last tenth of --train serves.")
@click.option("--test", help="Path of a test text; with --train.")
@click.option(
    "--tokens",
    cls=ListOption,
    help=f"How text is cut, one or several separated by commas: {', '.join(TOKENIZER_KINDS)}.  "
    "[default: the corpus's own]",
)
@click.option(
    "--normalize",
    help=f"{', '.join(sorted(NORMALIZERS))}, or several in turn, such as nfc+lower.  [default: the corpus's own]",
)
@click.option(
    "--encoding",
    default=DEFAULT_ENCODING,
    show_default=True,
    help="What the bytes of texts of one's own are: utf-8, utf-16, latin-1, gb18030 …",
)
@click.option(
    "--invalid",
    type=click.Choice(INVALID),
    default=DEFAULT_INVALID,
    show_default=True,
    help="Bytes that the encoding does not have: an error, or replaced by U+FFFD.",
)
@click.option("--documents", help="Context policy: file, line, paragraph or running.  [default: by --tokens]")
@click.option(
    "--min-freq", type=click.IntRange(min=1), default=1, show_default=True, help="Rarer training tokens become <unk>."
)
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
@click.option(
    "--budget", type=float, callback=positive, help="Seconds of training of each neural model.  [default: 15]"
)
@click.option("--epochs", type=float, callback=positive, help="Epochs of training of each neural model.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Optimiser steps of each neural model.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=DEFAULT_THREADS, show_default=True, help="Threads of every trial."
)
@click.option(
    "--target-ppl",
    multiple=True,
    callback=perplexities,
    help="Validation perplexity to time; may be repeated or a list.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: results/<run-id>]")
@click.option("--resume", is_flag=True, help="Go on in an existing folder: what is finished is not run again.")
@click.option("--force", is_flag=True, help="Move an existing folder aside.")
@click.option("--quick", is_flag=True, help="0.3 s of training for each neural model; everything else the same.")
@click.option(
    "--time-limit",
    type=float,
    callback=positive,
    help="Seconds after which a trial is ended.  [default: 600 + 3 budgets]",
)
@click.option(
    "--memory-limit", type=float, callback=positive, help="MiB of resident memory above which a trial is ended."
)
@click.option(
    "--executor",
    default="local",
    show_default=True,
    help="Where trials run: local, one at a time on this machine; ray, side by side on a Ray cluster that is running.",
)
@click.option("--no-text", is_flag=True, help="No passage of the corpus in the report.")
@click.option("--debug", is_flag=True, help="Show what trials print, and tracebacks.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Train language models on a text, measure them, and compare them."""
    return run(asked_of(ctx.obj, with_plan(ctx, options)))


if __name__ == "__main__":
    end_tidily_on_signals()
    sys.exit(main())
