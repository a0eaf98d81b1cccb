"""The commands: options and their help.  Whatever loads numpy is imported inside, so that `--help` answers at once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lmzoo.arguments import OnceGroup
from lmzoo.cli.outputs import require_checkpoint, require_output
from lmzoo.cli.rows import Rows
from lmzoo.cli.scoring import STDIN, read_input, score_files, star
from lmzoo.cli.stopping import held_back
from lmzoo.cli.whole import require_files, train_on_all
from lmzoo.errors import DivergedError, StoppedError, UnknownModelError, did_you_mean
from lmzoo.text import NORMALIZERS, TOKENIZERS

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus
    from lmzoo.interface import LanguageModel

CHECK_FAILED = 1

# from this share of test lines on, found in the training text, figures say little about new text
_NOTABLE_OVERLAP = 0.05

# what `check` trains a spec on
_CHECK_CORPUS = "genesis"

Command = TypeVar("Command", bound=Callable[..., Any])

_MAIN_EXAMPLES = """\b
Examples:
  python -m lmzoo train trigram book.txt -o book.lm
  python -m lmzoo train kn5 --corpus genesis --tokens word -o genesis.lm
  cat letter.txt | python -m lmzoo score book.lm
  python -m lmzoo generate book.lm --prompt "in the " --length 80
  python -m lmzoo next book.lm "in the " --k 5

\b
Exit status: 0 fine, 1 a check failed, 2 bad arguments or input, 130 Ctrl-C, 143 SIGTERM.
"""

_TRAIN_EXAMPLES = """\b
Examples:
  python -m lmzoo train trigram book.txt -o book.lm
  python -m lmzoo train ngram:order=4,smoothing=addk book.txt --tokens word -o book.lm
  python -m lmzoo train lstm-cudnn:hidden=128 --corpus timemachine --budget 60 -o lstm.lm
  python -m lmzoo train lstm-scratch book.txt --budget 3600 --checkpoint lstm.ckpt --resume -o lstm.lm
  python -m lmzoo train kn5 --train a.txt --test b.txt --tokens word -o kn5.lm
  python -m lmzoo train kn5 news-*.txt --all --tokens word --max-memory 1G -o news.lm
"""

_SCORE_EXAMPLES = """\b
Examples:
  python -m lmzoo score book.lm chapter1.txt chapter2.txt
  cat letter.txt | python -m lmzoo score book.lm --per-token | head
  python -m lmzoo score book.lm --json-lines letter.txt > scores.jsonl
"""

_TOKENS_HELP = (
    f"How text is cut: {' or '.join(sorted(TOKENIZERS))} (default: the corpus's own, else char). Words stand between "
    "spaces, tabs and line ends. A literal <s>, </s> or <unk> in the text is never the internal symbol: as characters "
    "it is spelled out like anything else; as words it is kept as a token of its own with a backslash before it, and "
    "counted. Only ptb and wikitext-2 use <unk> on purpose: there it is the vocabulary's <unk>."
)


@click.group(cls=OnceGroup, epilog=_MAIN_EXAMPLES, context_settings={"max_content_width": 110})
def cli() -> None:
    """Train language models, score and generate text with them."""


@cli.command(epilog="\b\nExample:\n  python -m lmzoo models")
def models() -> None:
    """List the models: name, description, and why one cannot run here."""
    from lmzoo.registry import all_entries

    rows = Rows(("name", "description", "not here because"))
    for name, entry in all_entries().items():
        rows.write(name, entry.description, entry.missing())


@cli.command(epilog="\b\nExample:\n  python -m lmzoo corpora")
def corpora() -> None:
    """List the corpora: name, licence, and the file or address each would come from.  Asks no network."""
    from lmzoo.sources import SOURCES

    rows = Rows(("name", "description", "licence", "from"))
    for source in SOURCES.values():
        rows.write(source.name, source.description, source.licence, source.origin)


def text_options(command: Command) -> Command:
    """The options that say what is read, and how."""
    for option in (
        click.option("--documents", metavar="POLICY", help=_DOCUMENTS_HELP),
        click.option("--min-freq", default=1, show_default=True, metavar="N", help="Rarer tokens become <unk>."),
        click.option(
            "--normalize",
            metavar="NAME",
            help=f"Rewriting of the text: {', '.join(sorted(NORMALIZERS))} (default: the corpus's own, else none).",
        ),
        click.option("--tokens", metavar="KIND", help=_TOKENS_HELP),
        click.option("--test", metavar="FILE", help="Test text of one's own; goes with --train."),
        click.option("--valid", metavar="FILE", help="Validation text (default: the last tenth of the training text)."),
        click.option("--train", multiple=True, metavar="FILE", help=_TRAIN_HELP),
        click.option("--corpus", metavar="NAME", help="A corpus by name; see: python -m lmzoo corpora."),
    ):
        command = option(command)
    return command


_TRAIN_HELP = (
    "Training text of one's own; goes with --test.  Several, each behind a --train, are one text, one after the other."
)
_DOCUMENTS_HELP = (
    "How text is cut into documents, each scored from a fresh start: file, line, paragraph or running "
    "(default: line for words, file for characters)."
)


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
    """Train the model SPEC on TEXT (a UTF-8 file), or on a named corpus, and write it to a file.

    SPEC is a name, then options after a colon: trigram, or lstm-cudnn:hidden=128,lr=0.5.

    Several TEXT files are read as one text, one after the other.  It is cut 80/10/10, and the first part is trained on;
    with --all nothing is cut off.
    """
    from lmzoo import driver, storage
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
    inputs = _files_read(texts, **options)
    require_output(output, inputs)
    require_checkpoint(spec, output, inputs, **lasting)
    if is_all:
        train_on_all(spec, texts, output, **options)
        return
    corpus = corpus_of(texts, **options)
    _note_oddities(corpus)
    model = _trained_model(spec, corpus, output, **limits, **(lasting if lasting["checkpoint"] else {}))
    storage.save(model, output)
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


def _files_read(texts: Sequence[str], **options: Any) -> list[str]:
    given = [options.get(name) for name in ("train", "valid", "test")]
    return [*texts, *(name for value in given for name in ([value] if isinstance(value, str) else value or ()))]


def _with_memory(spec: str, max_memory: str | None) -> str:
    """The spec with a bound on memory, one more of its options."""
    return spec if max_memory is None else f"{spec}{',' if ':' in spec else ':'}max_memory={max_memory}"


def corpus_of(
    texts: Sequence[str],
    *,
    corpus: str | None,
    train: Sequence[str],
    valid: str | None,
    test: str | None,
    **reading: Any,
) -> Corpus:
    """The corpus that `text_options` and TEXT files name."""
    from lmzoo.corpus import corpus_from_texts, load_corpus
    from lmzoo.sources import is_named
    from lmzoo.text import joined_name, read_joined

    given = [bool(texts), corpus is not None, any((train, valid, test))]
    if sum(given) != 1:
        raise click.UsageError("give one of: a TEXT file, --corpus NAME, or --train and --test files")
    if given[2] and not (train and test):
        raise click.UsageError("--train and --test go together; --valid is optional")
    require_files(texts)
    if len(texts) > 1:
        return corpus_from_texts({"whole": read_joined(texts)}, name=joined_name(texts), **_given(reading))
    if texts:
        # a file is asked for here, even one that is named like a corpus
        corpus = str(Path(texts[0]).absolute()) if is_named(texts[0]) else texts[0]
    return load_corpus(corpus, train=train or None, valid=valid, test=test, **reading)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are given."""
    return {name: value for name, value in options.items() if value is not None}


def _note_oddities(corpus: Corpus) -> None:
    if corpus.n_markers:
        click.echo(f"note: {corpus.n_markers} literal <s>, </s> or <unk> in the text are kept as words", err=True)
    if corpus.test_overlap >= _NOTABLE_OVERLAP:
        click.echo(f"warning: {corpus.test_overlap:.1%} of the test lines stand in the training text", err=True)


def _trained(spec: str, model: LanguageModel[Any], corpus: Corpus, output: str) -> str:
    from lmzoo.evaluation import evaluate

    tally = evaluate(model, corpus.valid)
    quality = f"validation perplexity {tally.perplexity:.6g}" if tally.is_normalized else "no perplexity by nature"
    if tally.is_normalized and tally.n_oov:
        # n/a where nothing else is left
        rest = f"{tally.perplexity_no_oov:.6g}" if tally.n_oov < tally.n_tokens else "n/a"
        quality += f" (without OOV {rest}; {tally.n_oov / tally.n_tokens:.2%} of the tokens are OOV)"
    size = f"{corpus.train.n_tokens} training tokens, {len(corpus.vocab)} symbols"
    return f"{spec}: {size}, {quality}, written to {output}{star(model)}"


@cli.command(epilog=_SCORE_EXAMPLES)
@click.argument("model")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--per-token", is_flag=True, help="A row per token instead of per document.")
@click.option("--json-lines", is_flag=True, help="A JSON object a line instead of tab-separated values.")
@click.option(
    "--documents",
    metavar="POLICY",
    help="file, line, paragraph or running (default: line where the model predicts line ends, else file).",
)
def score(model: str, files: tuple[str, ...], documents: str | None, per_token: bool, json_lines: bool) -> None:
    """Score FILEs (or standard input) with a MODEL file: ln p of every document, totals on standard error."""
    from lmzoo.storage import load

    names = files or (STDIN,)
    score_files(load(model), names, documents=documents, per_token=per_token, json_lines=json_lines)


@cli.command(epilog="\b\nExample:\n  printf 'recognise speech\\nwreck a nice beach\\n' | python -m lmzoo rank book.lm")
@click.argument("model")
@click.argument("file", default=STDIN, metavar="[FILE]")
@click.option("--json-lines", is_flag=True, help="A JSON object a line instead of tab-separated values.")
def rank(model: str, file: str, json_lines: bool) -> None:
    """Sort the lines of FILE (or standard input), the most probable first, with ln p.  Blank lines are skipped."""
    from lmzoo import sampling
    from lmzoo.storage import load

    loaded = load(model)
    candidates = [line for line in read_input(file).split("\n") if line.strip(" \t")]
    rows = Rows(("logprob", "text"), json_lines=json_lines)
    for text, logprob in sampling.rank(loaded, candidates):
        rows.write(logprob, text)


@cli.command(name="next", epilog='\b\nExample:\n  python -m lmzoo next book.lm "in the " --k 5')
@click.argument("model")
@click.argument("context", default="")
@click.option("--k", default=10, show_default=True, type=click.IntRange(min=1), help="How many.")
def next_(model: str, context: str, k: int) -> None:
    """List the most probable symbols after CONTEXT with ln p."""
    from lmzoo.sampling import top_k
    from lmzoo.storage import load

    rows = Rows(("logprob", "token"))
    for token, logprob in top_k(load(model), context, k):
        rows.write(logprob, token)


@cli.command(epilog='\b\nExample:\n  python -m lmzoo generate book.lm --prompt "in the " --length 80 --temperature 0.8')
@click.argument("model")
@click.option("--prompt", default="", help="Text to go on from.")
@click.option("--length", default=50, show_default=True, type=click.IntRange(min=0), help="Tokens to add, at most.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Same seed, same text.")
@click.option("--temperature", default=1.0, show_default=True, help="Below 1 tamer, above 1 wilder; 0: the likeliest.")
@click.option("--top-k", type=click.IntRange(min=1), help="Draw among the k most probable symbols only.")
@click.option(
    "--top-p", type=float, metavar="P", help="Draw among the fewest symbols with this much of the probability (of K's)."
)
def generate(model: str, **options: Any) -> None:
    """Write text as the MODEL would go on."""
    from lmzoo.sampling import sample
    from lmzoo.storage import load

    click.echo(sample(load(model), **options))


@cli.command(epilog="\b\nExamples:\n  python -m lmzoo check book.lm\n  python -m lmzoo check lstm-scratch:hidden=8")
@click.argument("model", metavar="MODEL|SPEC")
@click.option("--budget", type=float, metavar="SECONDS", help="For a SPEC: seconds of training before the checks.")
def check(model: str, budget: float | None) -> None:
    """Check that a model file, or a model trained here from SPEC, keeps the contract.  Exit status 1 if it fails."""
    import lmzoo

    if Path(model).is_file():
        results = lmzoo.check_language_model(lmzoo.load(model))
    else:
        _require_known(model)
        trained = lmzoo.train(model, lmzoo.load_corpus(_CHECK_CORPUS), budget=budget)
        results = lmzoo.check_language_model(trained, spec=model)
    rows = Rows(("status", "check", "message"))
    for result in results:
        rows.write(result.status, result.name, result.message)
    counts = Counter(result.status for result in results)
    click.echo(", ".join(f"{n} {status}" for status, n in sorted(counts.items())), err=True)
    if counts["failed"]:
        sys.stdout.flush()
        raise click.exceptions.Exit(CHECK_FAILED)


def _require_known(spec: str) -> None:
    from lmzoo.registry import all_entries
    from lmzoo.spec import parse_spec

    name = parse_spec(spec).name
    if name not in all_entries():
        raise UnknownModelError(
            f"no model file and no model {spec!r}.{did_you_mean(name, all_entries())} List them: python -m lmzoo models"
        )
