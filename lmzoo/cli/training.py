"""`train`: a spec and a text in, a model file out."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.keeping import save_or_keep
from lmzoo.cli.outputs import require_checkpoint, require_output
from lmzoo.cli.progress import reading_shown
from lmzoo.cli.scoring import star
from lmzoo.cli.stopping import held_back
from lmzoo.cli.texts import corpus_of, files_read, text_options
from lmzoo.cli.whole import train_on_all
from lmzoo.decoding import replaced_text
from lmzoo.errors import DivergedError, StoppedError

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus
    from lmzoo.interface import LanguageModel

# from this share of test lines on, found in the training text, figures say little about new text
_NOTABLE_OVERLAP = 0.05
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")

_TRAIN_EXAMPLES = """\b
Examples:
  python -m lmzoo train trigram book.txt -o book.lm
  python -m lmzoo train ngram:order=4,smoothing=addk book.txt --tokens word -o book.lm
  python -m lmzoo train lstm-cudnn:hidden=128 --corpus timemachine --budget 60 -o lstm.lm
  python -m lmzoo train lstm-scratch book.txt --budget 3600 --checkpoint lstm.ckpt --resume -o lstm.lm
  python -m lmzoo train kn5 --train a.txt --test b.txt --tokens word -o kn5.lm
  cat *.txt | python -m lmzoo train kn5 - -o all.lm
  python -m lmzoo train kn5 'news-*.txt.gz' --all --tokens word --max-memory 1G -o news.lm
"""
_ALL_HELP = (
    "Train on all of TEXT and cut nothing off.  It is read once, piece by piece, so it may be larger than memory; for "
    "counting models only.  --valid gives a text for what is fitted, where there is anything."
)
_MAX_MEMORY_HELP = (
    "Count in so much memory, such as 200M or 1.5G, and keep the rest in temporary files (under $TMPDIR); the model is "
    "the same.  It bounds what comes on top of the text in memory and, with --all, of the vocabulary alone.  For "
    "counting models."
)
_CHECKPOINT_HELP = (
    "Write where the training of a network stands now and then, and when Ctrl-C or SIGTERM ends it, so that the same "
    "command with --resume goes on from there."
)


@cli.command(epilog=_TRAIN_EXAMPLES)
@click.argument("spec")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the model is written.")
@text_options
@click.option("--all", "is_all", is_flag=True, help=_ALL_HELP)
@click.option("--max-memory", metavar="SIZE", help=_MAX_MEMORY_HELP)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of everything random.")
@click.option("--budget", type=float, metavar="SECONDS", help="Seconds of training (default 15 for neural models).")
@click.option("--epochs", type=float, metavar="N", help="Passes over the training text.")
@click.option("--max-steps", type=int, metavar="N", help="Optimiser steps.")
@click.option("--device", default="cpu", show_default=True, help="Where neural models train: cpu or cuda.")
@click.option("--checkpoint", metavar="FILE", help=_CHECKPOINT_HELP)
@click.option(
    "--checkpoint-every", type=float, metavar="SECONDS", help="Of training, between two checkpoints (default 60)."
)
@click.option("--resume", is_flag=True, help="Go on from --checkpoint, or start where it is not there yet.")
def train(spec: str, texts: tuple[str, ...], output: str, is_all: bool, max_memory: str | None, **options: Any) -> None:
    """Train the model SPEC on TEXT, or on a named corpus, and write it to a file.

    SPEC is a name, then options after a colon: trigram, or lstm-cudnn:hidden=128,lr=0.5.

    A TEXT is a UTF-8 file, packed (.gz, .xz, .zst, .bz2) or not, a folder of files, a quoted pattern such as
    'news-*.txt', or - for standard input.  Several are read one after the other.  They are cut 80/10/10, and the first
    part is trained on; with --all nothing is cut off.
    """
    from lmzoo import driver
    from lmzoo.registry import resolve_config
    from lmzoo.spec import parse_spec

    limits = {name: options.pop(name) for name in ("seed", "budget", "epochs", "max_steps", "device")}
    lasting = {name: options.pop(name) for name in ("checkpoint", "checkpoint_every", "resume")}
    spec = _with_memory(spec, max_memory)
    # faults are found out before hours of training, not after
    resolve_config(spec)
    driver.budget_for(
        parse_spec(spec), seconds=limits["budget"], epochs=limits["epochs"], max_steps=limits["max_steps"]
    )
    files = files_read(texts, **options)
    inputs = [file for file in files if isinstance(file, Path)]
    require_output(output, inputs)
    require_checkpoint(spec, output, inputs, **lasting)
    _check_limits(spec, limits)
    with reading_shown(files):
        if is_all:
            train_on_all(spec, texts, output, **options)
            return
        corpus = corpus_of(texts, **options)
    _note_oddities(corpus)
    model = _trained_model(spec, corpus, output, **limits, **(lasting if lasting["checkpoint"] else {}))
    save_or_keep(model, output, lasting["checkpoint"])
    click.echo(_trained(spec, model, corpus, output), err=True)


def _trained_model(spec: str, corpus: Corpus, output: str, **options: Any) -> LanguageModel[Any]:
    """A model trained; where a checkpoint is kept, a request to end waits until it is written."""
    from lmzoo import driver

    try:
        if not options.get("checkpoint"):
            return driver.train(spec, corpus, **options)
        with held_back() as request:
            try:
                return driver.train(spec, corpus, stop=request, **options)
            except StoppedError as error:
                click.echo(f"{error} with the same command and --resume", err=True)
                request.fulfil()
    except DivergedError as error:
        raise click.ClickException(f"{error}; {output} is not written; a smaller lr, or clip=1, may help") from error
    except OSError as error:
        # not of standard output, to which no training writes
        raise click.ClickException(f"{spec} cannot be trained: {type(error).__name__}: {error}") from error


def _with_memory(spec: str, max_memory: str | None) -> str:
    """The spec with a bound on memory, one more of its options."""
    return spec if max_memory is None else f"{spec}{',' if ':' in spec else ':'}max_memory={max_memory}"


def _check_limits(spec: str, limits: dict[str, Any]) -> None:
    """Raise a `click.UsageError` for a device that there is not, and note what a counting model has no use for."""
    from lmzoo.registry import family_of
    from lmzoo.spec import parse_spec

    if not _DEVICE.fullmatch(limits["device"]):
        raise click.UsageError(f"--device is cpu, cuda or cuda:N, got {limits['device']!r}")
    if family_of(parse_spec(spec)) == "neural":
        return
    unused = [name for name in ("budget", "epochs", "max_steps") if limits[name] is not None]
    given = [f"--{name.replace('_', '-')}" for name in unused] + ["--device"] * (limits["device"] != "cpu")
    if given:
        click.echo(f"note: {', '.join(given)}: of no use here; {spec} counts its text once, on the processor", err=True)


def _note_oddities(corpus: Corpus) -> None:
    if corpus.n_replaced:
        click.echo(f"note: {replaced_text(corpus.n_replaced)}", err=True)
    if corpus.n_normalized:
        click.echo(f"note: {corpus.n_normalized} characters were changed by {corpus.normalize}", err=True)
    if corpus.n_markers:
        click.echo(f"note: {corpus.n_markers} literal <s>, </s> or <unk> in the text are kept as words", err=True)
    if corpus.test_overlap >= _NOTABLE_OVERLAP:
        click.echo(f"warning: {_percent(corpus.test_overlap)} of the test lines stand in the training text", err=True)


def _percent(share: float) -> str:
    """Three digits and a space before the sign, as the harness's reports have it."""
    digits = max(2 - math.floor(math.log10(100 * share)), 0)
    return f"{100 * share:.{digits}f} %"


def _trained(spec: str, model: LanguageModel[Any], corpus: Corpus, output: str) -> str:
    from lmzoo.evaluation import evaluate

    tally = evaluate(model, corpus.valid)
    quality = f"validation perplexity {tally.perplexity:.6g}" if tally.is_normalized else "no perplexity by nature"
    if tally.is_normalized and tally.n_oov:
        # n/a where nothing else is left
        rest = f"{tally.perplexity_no_oov:.6g}" if tally.n_oov < tally.n_tokens else "n/a"
        quality += f" (without OOV {rest}; {_percent(tally.n_oov / tally.n_tokens)} of the tokens are OOV)"
    size = f"{corpus.train.n_tokens} training tokens, {len(corpus.vocab)} symbols"
    return f"{spec}: {size}, {quality}, written to {output}{star(model)}"
