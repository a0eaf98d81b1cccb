"""`next` and `generate`: what a model makes of a context, and how it goes on from a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.flowing import STDIN, lines_of, note_emptied
from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows, json_lines_option
from lmzoo.cli.scoring import logprob_reason

if TYPE_CHECKING:
    from lmzoo.interface import LanguageModel
    from lmzoo.sampling import Continuation

_NEXT_EXAMPLES = """\b
Examples:
  python -m lmzoo next book.lm "in the " --k 5
  cat contexts.txt | python -m lmzoo next book.lm --k 1 --json-lines
  python -m lmzoo next words.lm "in the" --prefix be
"""
_GENERATE_EXAMPLES = """\b
Examples:
  python -m lmzoo generate book.lm --prompt "in the " --length 80 --temperature 0.8
  cat prompts.txt | python -m lmzoo generate book.lm --prompt - --samples 3 --json-lines
"""
# what bytes that are not yet a character are shown as
_HALF_CHARACTER = "\ufffd"


@cli.command(name="next", epilog=_NEXT_EXAMPLES)
@click.argument("model")
@click.argument("context", required=False, metavar="[CONTEXT]")
@click.option("--k", default=10, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--prefix", default="", metavar="TEXT", help="Only symbols that start so: the word being typed.")
@click.option("--all-symbols", is_flag=True, help="<unk> and </s> too, which are left out otherwise.")
@json_lines_option
def next_(model: str, context: str | None, k: int, prefix: str, all_symbols: bool, json_lines: bool) -> None:
    """List the most probable symbols after CONTEXT, or after each line of standard input, with ln p.

    MODEL is a model file, or a spec such as kenlm:lm.arpa.  The column context counts the contexts from 1.  "" is the
    start of a document, as is a standard input without any line.
    """
    from lmzoo.cli.opening import open_model
    from lmzoo.sampling import top_k

    loaded = open_model(model)
    rows = Rows(("logprob", "token", "context", "reason"), json_lines=json_lines)
    for number, text in enumerate(_contexts(context), start=1):
        note_emptied(text, loaded.vocab.normalizer)
        likely = top_k(loaded, text, k, all_symbols=all_symbols, prefix=prefix)
        if not likely:
            click.echo(f"note: no symbol starts with {prefix!r}", err=True)
        for token, logprob in likely:
            rows.write(logprob, token, number, logprob_reason(logprob))
        # whoever asks by the pipe waits for an answer
        rows.flush()
    if context is not None and context != STDIN and not all_symbols:
        _tell_what_is_left_out(loaded, context)


def _contexts(given: str | None) -> Iterator[str]:
    is_empty = True
    for text in _texts_of(STDIN if given is None else given):
        is_empty = False
        yield text
    if is_empty:
        yield ""


def _texts_of(given: str) -> Iterator[str]:
    """What was given, or for `-` the lines of standard input."""
    return lines_of(STDIN) if given == STDIN else iter([given])


def _tell_what_is_left_out(model: LanguageModel[Any], context: str) -> None:
    from lmzoo.markers import EOS, UNK
    from lmzoo.sampling import top_k

    left_out = [
        f"{token} (ln p {logprob:.6g})"
        for token, logprob in top_k(model, context, len(model.vocab))
        if token in (UNK, EOS)
    ]
    click.echo(f"note: left out: {', '.join(left_out)}; --all-symbols lists them too", err=True)


@cli.command(epilog=_GENERATE_EXAMPLES)
@click.argument("model")
@click.option("--prompt", default="", metavar="TEXT", help="Text to go on from; -: each line of standard input.")
@click.option("--length", default=50, show_default=True, type=click.IntRange(min=0), help="Tokens to add, at most.")
@click.option("--stop", metavar="TEXT", help="End before this text, should it come up.")
@click.option(
    "--samples", default=1, show_default=True, type=click.IntRange(min=1), help="Texts a prompt, each of its own seed."
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Same seed, same text; the next sample has the next seed.",
)
@click.option("--temperature", default=1.0, show_default=True, help="Below 1 tamer, above 1 wilder; 0: the likeliest.")
@click.option("--top-k", type=click.IntRange(min=1), help="Draw among the k most probable symbols only.")
@click.option(
    "--top-p", type=float, metavar="P", help="Draw among the fewest symbols with this much of the probability (of K's)."
)
@click.option(
    "--json-lines", is_flag=True, help="A JSON object a text: prompt, seed, text, logprob (of what is added)."
)
def generate(model: str, prompt: str, length: int, samples: int, seed: int, json_lines: bool, **drawing: Any) -> None:
    """Write text as the MODEL would go on, a text a line; several of a model with line ends, a blank line between two.

    MODEL is a model file, or a spec such as hf:folder.  A text ends at --length, at an end of document, or at --stop.
    On a terminal it is shown as it grows.  Of models whose texts have line ends, --json-lines keeps several apart.
    """
    from lmzoo.cli.opening import open_model
    from lmzoo.interface import policy_of
    from lmzoo.sampling import Continuation

    loaded = open_model(model)
    rows = Rows(("prompt", "seed", "text", "logprob", "reason"), json_lines=True) if json_lines else None
    # a text may have several lines
    separator = "\n" if samples > 1 and policy_of(loaded) != "line" else ""
    is_first = True
    for text in _texts_of(prompt):
        note_emptied(text, loaded.vocab.normalizer)
        for number in range(seed, seed + samples):
            written = Continuation(loaded, text, seed=number, **drawing)
            if rows is None:
                sys.stdout.write("" if is_first else separator)
                is_first = False
                _write(written, length, drawing["stop"], is_shown=sys.stdout.isatty())
            else:
                _grow(written, length)
                rows.write(text, number, written.text, written.logprob, logprob_reason(written.logprob))
            sys.stdout.flush()


def _grow(written: Continuation, length: int) -> None:
    for _ in range(length):
        if not written.grow():
            return


def _write(written: Continuation, length: int, stop: str | None, *, is_shown: bool) -> None:
    """Write a text and a line end; where it is shown, token by token."""
    # what may yet turn out to be the start of --stop waits
    n_waiting = len(stop or " ") - 1
    n_shown = 0
    for _ in range(length):
        text = written.text if is_shown else ""
        # so does half a character
        settled = text[n_shown : len(text) - n_waiting].rstrip(_HALF_CHARACTER)
        sys.stdout.write(settled)
        sys.stdout.flush()
        n_shown += len(settled)
        if not written.grow():
            break
    sys.stdout.write(f"{written.text[n_shown:]}\n")
