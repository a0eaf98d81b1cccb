"""`score`: texts in, what a model makes of every document or token out, as soon as a document is whole."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.flowing import STDIN, documents_of, emptied_reason, spoken, tell_replaced, text_blocks
from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows, json_lines_option
from lmzoo.cli.texts import decoding_options
from lmzoo.errors import LmzooError, TooShortError
from lmzoo.inputs import require_read_once

if TYPE_CHECKING:
    from lmzoo.corpus import Split
    from lmzoo.decoding import Decoding, Invalid
    from lmzoo.ends import Ends
    from lmzoo.evaluation import Nats
    from lmzoo.inputs import File
    from lmzoo.interface import LanguageModel
    from lmzoo.parts import Policy
    from lmzoo.tally import Tally

_DOCUMENT_COLUMNS = ("file", "document", "tokens", "oov", "logprob", "perplexity", "perplexity_no_oov", "bits_per_char")
_TOKEN_COLUMNS = ("file", "document", "position", "token", "logprob", "oov", "matched_order")
# behind those of the figures
_LAST_COLUMNS = ("reason", "line")

_SCORE_EXAMPLES = """\b
Examples:
  python -m lmzoo score book.lm chapter1.txt chapter2.txt
  cat letter.txt | python -m lmzoo score book.lm --per-token | head
  tail -f messages.log | python -m lmzoo score book.lm --documents line
  python -m lmzoo score book.lm --json-lines letter.txt > scores.jsonl
"""


@cli.command(epilog=_SCORE_EXAMPLES)
@click.argument("model")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--per-token/--per-document", help="A row per token, or per document (the default).")
@json_lines_option
@click.option("--text", "with_text", is_flag=True, help="The text of each document too, in a last column.")
@click.option(
    "--documents",
    metavar="POLICY",
    help="file, line, paragraph or running (default: line where the model predicts line ends, else file).",
)
@decoding_options
def score(
    model: str,
    files: tuple[str, ...],
    documents: str | None,
    per_token: bool,
    with_text: bool,
    json_lines: bool,
    encoding: str,
    invalid: Invalid,
) -> None:
    """Score FILEs (or standard input) with a MODEL: ln p of every document, totals on standard error.

    MODEL is a model file, or a spec such as kenlm:lm.arpa.  Lines and paragraphs are scored as they arrive and are not
    kept, so a pipe may be endless; under file and running a text is one document and has to be read to its end.
    """
    from lmzoo.cli.opening import open_model
    from lmzoo.decoding import Decoding

    if with_text and per_token:
        raise click.UsageError("--text is of documents; a row of --per-token has its token")
    score_files(
        open_model(model),
        files or (STDIN,),
        documents=documents,
        per_token=per_token,
        with_text=with_text,
        json_lines=json_lines,
        decoding=Decoding(encoding=encoding, invalid=invalid),
    )


def score_files(
    model: LanguageModel[Any],
    names: Sequence[str],
    *,
    documents: str | None,
    per_token: bool,
    with_text: bool,
    json_lines: bool,
    decoding: Decoding,
) -> None:
    """Write a row per document or token to standard output and the totals to standard error."""
    scoring = _Scoring(model, documents, per_token=per_token, with_text=with_text, json_lines=json_lines)
    n_unreadable = 0
    texts = list(_texts_of(names))
    require_read_once([file for _, file in texts if not isinstance(file, LmzooError)])
    for name, file in texts:
        try:
            scoring.score(name, file, decoding)
        except LmzooError as error:
            if len(texts) == 1 and name == STDIN and isinstance(error, TooShortError):
                scoring.tell_nothing(str(error))
                continue
            if len(texts) == 1:
                scoring.tell_totals()
                raise
            scoring.tell(name, str(error))
            n_unreadable += not isinstance(error, TooShortError)
        except KeyboardInterrupt:
            # how an endless pipe is left
            scoring.tell_totals()
            raise
    scoring.tell_totals()
    tell_replaced(decoding)
    if n_unreadable:
        raise click.ClickException(f"{n_unreadable} of {len(texts)} files could not be scored to their ends")
    if math.isnan(scoring.total.nll_nats):
        raise click.ClickException("the model gave a token NaN (not a number); see the column reason")


def _texts_of(names: Sequence[str]) -> Iterator[tuple[str, File | LmzooError]]:
    """What rows call each text, and its file; of a name that stands for none, what is wrong with it."""
    from lmzoo.inputs import files_of

    if names.count(STDIN) > 1:
        files_of(names)
    for name in names:
        try:
            files = files_of(name)
        except LmzooError as error:
            yield name, error
            continue
        # a folder or a pattern is called by what is in it
        yield from ((name if len(files) == 1 else str(file), file) for file in files)


class _Scoring:
    """Rows and totals of one model over several texts."""

    def __init__(
        self, model: LanguageModel[Any], documents: str | None, *, per_token: bool, with_text: bool, json_lines: bool
    ) -> None:
        from lmzoo.ends import Ends
        from lmzoo.tally import Tally

        self.total, self.n_documents = Tally(), 0
        self._ends = Ends()
        self._model, self._policy, self._per_token = model, policy_for(model, documents), per_token
        self._figures = _TOKEN_COLUMNS if per_token else _DOCUMENT_COLUMNS
        self._columns = (*self._figures, *_LAST_COLUMNS, *(("text",) if with_text else ()))
        self._with_text = with_text
        self._rows = Rows(self._columns, json_lines=json_lines)

    def score(self, name: str, file: File | LmzooError, decoding: Decoding) -> None:
        """Score one text.  Raises `TooShortError` for one without tokens, `TextError` where it cannot be read."""
        if isinstance(file, LmzooError):
            raise file
        n_before = 0
        for split, lines in _splits(self._model, name, text_blocks(file, decoding), self._policy, self._ends):
            for tally in self._score(split, lines, n_before):
                self.total, self.n_documents = self.total + tally, self.n_documents + 1
            n_before += len(split)
            # what comes next may be long in coming
            self._rows.flush()

    def tell(self, name: str, reason: str) -> None:
        """A row that says why there is none for a text, or no more."""
        n_figures = len(self._figures)
        self._rows.write(name, *[None] * (n_figures - 1), reason, *[None] * (len(self._columns) - n_figures - 1))

    def tell_nothing(self, note: str) -> None:
        """No rows, and why."""
        self._rows.flush()
        click.echo(f"note: {note}; nothing is scored", err=True)

    def tell_totals(self) -> None:
        """What all documents so far come to, on standard error."""
        if self.n_documents:
            click.echo(_summary(self.total, self.n_documents) + star(self._model), err=True)

    def _score(self, split: Split, lines: Sequence[int], n_before: int) -> Iterator[Tally]:
        """The Tally of every document, whose rows are written on the way."""
        from lmzoo.evaluation import document_tallies

        nats_N = _nats_alone(self._model, split)
        oov = set(split.oov_M.tolist()) if self._per_token else set()
        tallies = document_tallies(self._model, split, nats_N)
        for d, tally in enumerate(tallies if split.lossless else _known_one_by_one(tallies, split)):
            if self._per_token:
                self._write_tokens(split, d, n_before + d + 1, lines[d], nats_N, oov)
            else:
                text = split[d].text if self._with_text or split.documents == "file" else ""
                reason = emptied_reason(text, self._model.vocab.normalizer) or _reason(tally)
                last = (reason, lines[d], text) if self._with_text else (reason, lines[d])
                self._rows.write(split.name, n_before + d + 1, *_figures(tally), *last)
            yield tally

    def _write_tokens(self, split: Split, d: int, number: int, line: int, nats_N: Nats, oov: set[int]) -> None:
        from lmzoo.interface import matched_orders

        start, end = split.starts_D1[d : d + 2].tolist()
        orders_1xL = matched_orders(self._model, split.ids_N[None, start:end], self._model.initial_state())
        for i in range(start, end):
            token, logprob = self._model.vocab.tokens[split.ids_N[i]], -float(nats_N[i])
            order = None if orders_1xL is None else int(orders_1xL[0, i - start])
            self._rows.write(
                split.name, number, i - start + 1, token, logprob, int(i in oov), order, logprob_reason(logprob), line
            )


def policy_for(model: LanguageModel[Any], documents: str | None = None) -> Policy:
    """How a text is cut into documents: as asked, else as the model's training text was."""
    from lmzoo.interface import policy_of
    from lmzoo.parts import named_policy

    return policy_of(model) if documents is None else named_policy(documents)


def _splits(
    model: LanguageModel[Any], name: str, blocks: Iterator[str], policy: Policy, ends: Ends
) -> Iterator[tuple[Split, list[int]]]:
    """A text encoded for a model, batch by batch, and on which line each document starts.

    Raises `TooShortError` at its end where there were no tokens.
    """
    from lmzoo.corpus import encode_split
    from lmzoo.normalizers import named_normalizer

    n_tokens = n_blank = n_emptied = 0
    for batch in documents_of(blocks, policy, named_normalizer(model.vocab.normalizer)):
        split = encode_split(name, batch.segments, model.vocab, policy, ends=ends)
        n_tokens, n_blank, n_emptied = n_tokens + split.n_tokens, n_blank + batch.n_blank, n_emptied + batch.n_emptied
        if split.n_tokens:
            yield split, batch.lines
    if not n_tokens:
        why = f": {model.vocab.normalizer} leaves nothing of its text" if n_emptied else ""
        raise TooShortError(f"{spoken(name)} has 0 tokens, at least 1 is needed{why}")
    if n_blank:
        click.echo(f"note: {n_blank} blank lines of {spoken(name)} are skipped", err=True)
    if n_emptied:
        what = spoken(name) if policy == "file" else f"{n_emptied} lines of {spoken(name)}, which are skipped"
        click.echo(f"note: {model.vocab.normalizer} leaves nothing of {what}", err=True)


def _nats_alone(model: LanguageModel[Any], split: Split) -> Nats:
    """-ln p of every token, to the last bit the same whatever else stands in the split.

    A network's last digits depend on how many texts lie side by side, and how many do depends on how a pipe happens to
    be filled.
    """
    from lmzoo.evaluation import token_nats

    is_exact_in_batches = hasattr(model, "sequence_logprobs")
    return token_nats(model, split, batch_size=None if is_exact_in_batches else 1)


def _known_one_by_one(tallies: Sequence[Tally], split: Split) -> Iterator[Tally]:
    """Tallies of documents some of which the tokens do not give back: each is judged by itself, not by its batch."""
    from lmzoo.normalizers import named_normalizer

    normalizer, tokenizer = named_normalizer(split.vocab.normalizer), split.vocab.cutter
    for tally, document in zip(tallies, split, strict=True):
        text = normalizer.apply(document.text)
        is_known = tally.n_chars > 0 and tokenizer.loses_nothing(text)
        yield dataclasses.replace(tally, chars_known=is_known, bytes_known=is_known and normalizer.lossless)


def read_split(
    model: LanguageModel[Any], name: str, documents: str | None = None, decoding: Decoding | None = None
) -> Split:
    """A file, or standard input, encoded for a model as a whole; by default cut as its training text was."""
    from lmzoo.corpus import encode_split
    from lmzoo.normalizers import named_normalizer
    from lmzoo.parts import cut_segments

    policy = policy_for(model, documents)
    segments, _ = cut_segments("".join(text_blocks(name, decoding)), policy, named_normalizer(model.vocab.normalizer))
    split = encode_split(name, segments, model.vocab, policy)
    if not split.n_tokens:
        raise TooShortError(f"{spoken(name)} has 0 tokens, at least 1 is needed")
    return split


def star(model: LanguageModel[Any]) -> str:
    """What sets the figures of an adaptive model apart, or nothing."""
    return " * (adaptive: the model learns from the text it scores)" if model.is_adaptive else ""


def logprob_reason(logprob: float) -> str | None:
    """Why an ln p is missing or infinite, or None."""
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
    n_tokens, n_oov, _, perplexity, no_oov, bits_per_char = _figures(tally)
    shown = [
        ("perplexity", perplexity),
        ("without OOV", no_oov),
        ("bits per character", bits_per_char),
        ("bits per byte", tally.bits_per_byte if tally.is_normalized else None),
    ]
    figures = [
        f"{name} {'n/a' if value is None or math.isnan(value) else format(value, '.6g')}" for name, value in shown
    ]
    counts = f"documents {n_documents}, tokens {n_tokens}, OOV {n_oov}"
    reason = _reason(tally)
    return ", ".join((counts, *figures)) + (f" ({reason})" if reason else "")
