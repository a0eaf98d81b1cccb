"""`score`: texts in, what a model makes of every document or token out."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows
from lmzoo.errors import TooShortError
from lmzoo.normalizers import NORMALIZERS
from lmzoo.reading import decode_bytes, read_text

if TYPE_CHECKING:
    from lmzoo.corpus import Split
    from lmzoo.interface import LanguageModel
    from lmzoo.tally import Tally

STDIN = "-"

_DOCUMENT_COLUMNS = ("file", "document", "tokens", "oov", "logprob", "perplexity", "perplexity_no_oov", "bits_per_char")
_TOKEN_COLUMNS = ("file", "document", "position", "token", "logprob", "oov", "matched_order")


_SCORE_EXAMPLES = """\b
Examples:
  python -m lmzoo score book.lm chapter1.txt chapter2.txt
  cat letter.txt | python -m lmzoo score book.lm --per-token | head
  python -m lmzoo score book.lm --json-lines letter.txt > scores.jsonl
"""


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


def read_input(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    if name == STDIN:
        return decode_bytes(sys.stdin.buffer.read(), "standard input")
    return read_text(Path(name))


def score_files(
    model: LanguageModel[Any], names: Sequence[str], *, documents: str | None, per_token: bool, json_lines: bool
) -> None:
    """Write a row per document or token to standard output and the totals to standard error."""
    from lmzoo.tally import Tally

    splits = [_read(model, name, documents, is_alone=len(names) == 1) for name in names]
    columns = (*(_TOKEN_COLUMNS if per_token else _DOCUMENT_COLUMNS), "reason")
    rows = Rows(columns, json_lines=json_lines)
    total, n_documents = Tally(), 0
    for name, split in zip(names, splits, strict=True):
        if isinstance(split, TooShortError):
            rows.write(name, *[None] * (len(columns) - 2), str(split))
            continue
        for number, tally in enumerate(_score(model, split, rows, per_token=per_token), start=1):
            if not per_token:
                rows.write(split.name, number, *_figures(tally), _reason(tally))
            total, n_documents = total + tally, n_documents + 1
    click.echo(_summary(total, n_documents) + star(model), err=True)


def _read(model: LanguageModel[Any], name: str, documents: str | None, *, is_alone: bool) -> Split | TooShortError:
    """A file encoded, or what is wrong with it where others have to be scored all the same."""
    try:
        return read_split(model, name, documents)
    except TooShortError as error:
        if is_alone:
            raise
        return error


def star(model: LanguageModel[Any]) -> str:
    """What sets the figures of an adaptive model apart, or nothing."""
    return " * (adaptive: the model learns from the text it scores)" if model.is_adaptive else ""


def read_split(model: LanguageModel[Any], name: str, documents: str | None = None) -> Split:
    """A file, or standard input, encoded for a model; by default cut into documents as its training text was."""
    from lmzoo.corpus import encode_split
    from lmzoo.parts import cut_segments, named_policy

    policy = named_policy(documents or ("file" if model.vocab.eos_id is None else "line"))
    segments, n_blank = cut_segments(read_input(name), policy, NORMALIZERS[model.vocab.normalizer])
    split = encode_split(name, segments, model.vocab, policy)
    if not split.n_tokens:
        raise TooShortError(f"{_spoken(name)} has 0 tokens, at least 1 is needed")
    if n_blank:
        click.echo(f"note: {n_blank} blank lines of {_spoken(name)} are skipped", err=True)
    return split


def _spoken(name: str) -> str:
    return "standard input" if name == STDIN else name


def _score(model: LanguageModel[Any], split: Split, rows: Rows, *, per_token: bool) -> Iterator[Tally]:
    """The Tally of every document; with `per_token`, its tokens are written on the way."""
    from lmzoo.evaluation import document_tallies, token_nats
    from lmzoo.interface import matched_orders

    nats_N = token_nats(model, split)
    oov = set(split.oov_M.tolist()) if per_token else set()
    for d, tally in enumerate(document_tallies(model, split, nats_N)):
        start, end = split.starts_D1[d : d + 2].tolist() if per_token else (0, 0)
        orders_1xL = matched_orders(model, split.ids_N[None, start:end], model.initial_state()) if per_token else None
        for i in range(start, end):
            token, logprob = model.vocab.tokens[split.ids_N[i]], -float(nats_N[i])
            order = None if orders_1xL is None else int(orders_1xL[0, i - start])
            rows.write(split.name, d + 1, i - start + 1, token, logprob, int(i in oov), order, _token_reason(logprob))
        yield tally


def _token_reason(logprob: float) -> str | None:
    if math.isnan(logprob):
        return "not a number"
    return "zero probability" if math.isinf(logprob) else None


def _figures(tally: Tally) -> tuple[int, int, float, float | None, float | None, float | None]:
    if not tally.is_normalized:
        return tally.n_tokens, tally.n_oov, -tally.nll_nats, None, None, None
    no_oov = tally.perplexity_no_oov if tally.n_tokens > tally.n_oov else None
    return tally.n_tokens, tally.n_oov, -tally.nll_nats, tally.perplexity, no_oov, tally.bits_per_char


def _reason(tally: Tally) -> str | None:
    """Why some figure is missing or infinite, or None."""
    if not tally.is_normalized:
        return "scores do not sum to 1: no perplexity"
    if math.isnan(tally.nll_nats):
        return "some scores are no numbers"
    if tally.n_zero:
        return f"{tally.n_zero} zero-probability tokens"
    if tally.n_tokens == tally.n_oov:
        return "every token is out of vocabulary"
    return tally.bits_per_char_reason


def _summary(tally: Tally, n_documents: int) -> str:
    n_tokens, n_oov, _, perplexity, no_oov, bits = _figures(tally)
    shown = [("perplexity", perplexity), ("without OOV", no_oov), ("bits per character", bits)]
    figures = [
        f"{name} {'n/a' if value is None or math.isnan(value) else format(value, '.6g')}" for name, value in shown
    ]
    counts = f"documents {n_documents}, tokens {n_tokens}, OOV {n_oov}"
    reason = _reason(tally)
    return ", ".join((counts, *figures)) + (f" ({reason})" if reason else "")
