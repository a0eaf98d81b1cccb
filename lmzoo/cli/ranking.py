"""`rank`: n-best lists in, the same lists out with the most probable text first."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lmzoo.cli.flowing import STDIN, emptied_reason, lines_of, spoken, tell_replaced
from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows, json_lines_option, unescaped
from lmzoo.cli.scoring import logprob_reason
from lmzoo.cli.texts import decoding_options
from lmzoo.errors import InputError, TextError, named
from lmzoo.inputs import is_text

if TYPE_CHECKING:
    from lmzoo.decoding import Invalid
    from lmzoo.interface import LanguageModel

_EXAMPLES = """\b
Examples:
  printf 'to recognize a speech\\nto wreck a nice beach\\n' | python -m lmzoo rank book.lm
  python -m lmzoo rank book.lm decoder.nbest --format nbest --weight 0.7 --best
"""
_FORMAT_HELP = (
    "What FILE holds: lines (a text a line, a blank line between two lists), nbest (id ||| text ||| … ||| score), tsv "
    "(a header with the columns text and, if there are any, id and score) or json (an object a line with these keys)."
)
_WEIGHT_HELP = "Rank by score + W ln p, the score being what FILE gives to each text; without it by ln p alone."
_BONUS_HELP = "With --weight: so much more for each token, since every token more costs probability."


class Candidate(NamedTuple):
    """A text of a list and the score that it came with."""

    list_id: str
    text: str
    score: float | None


class Standing(NamedTuple):
    """A candidate, ln p of its text, what it is ranked by, and what is wrong with any of it."""

    candidate: Candidate
    logprob: float
    total: float
    reason: str | None


@cli.command(epilog=_EXAMPLES)
@click.argument("model")
@click.argument("file", default=STDIN, metavar="[FILE]")
@click.option("--format", "layout", default="lines", show_default=True, metavar="NAME", help=_FORMAT_HELP)
@click.option("--weight", type=float, metavar="W", help=_WEIGHT_HELP)
@click.option("--bonus", type=float, metavar="B", help=_BONUS_HELP)
@click.option("--best", is_flag=True, help="Write the winner of each list only.")
@json_lines_option
@decoding_options
def rank(
    model: str,
    file: str,
    layout: str,
    weight: float | None,
    bonus: float | None,
    best: bool,
    json_lines: bool,
    encoding: str,
    invalid: Invalid,
) -> None:
    """Sort the texts of FILE (or standard input), the most probable of each list first, with ln p.

    MODEL is a model file, or a spec such as kenlm:lm.arpa.  A list is written as soon as it is whole.
    """
    from lmzoo.cli.opening import open_model
    from lmzoo.decoding import Decoding

    decoding = Decoding(encoding=encoding, invalid=invalid)
    if not is_text(file):
        raise click.UsageError(f"no file {file!r}; texts are read from a file or from standard input")
    if bonus is not None and weight is None:
        raise click.UsageError("--bonus goes with --weight")
    for name, value in (("--weight", weight), ("--bonus", bonus)):
        if value is not None and not math.isfinite(value):
            raise click.UsageError(f"{name} is a finite number, got {value}")
    read = named(layout, LAYOUTS, "format of lists")
    standing = _Standings(open_model(model), weight, bonus or 0.0)
    scores = () if weight is None else ("score", "total")
    rows = Rows(("logprob", "text", "list", "rank", *scores, "reason"), json_lines=json_lines)
    n_missing = 0
    for candidates in _lists(read(lines_of(file, decoding), spoken(file))):
        ranked = standing.ranked(candidates)
        n_missing += sum(math.isnan(s.logprob) for s in ranked)
        for place, (candidate, logprob, total, reason) in enumerate(ranked[:1] if best else ranked, start=1):
            added = () if weight is None else (candidate.score, total)
            rows.write(logprob, candidate.text, candidate.list_id, place, *added, reason)
        rows.flush()
    rows.flush()
    tell_replaced(decoding)
    if standing.n_emptied:
        click.echo(f"note: {standing.n_emptied} texts are ranked as empty, see the column reason", err=True)
    if n_missing:
        raise click.ClickException(f"the model gives {n_missing} texts what is no number; they stand last")


class _Standings:
    """Ranks lists by what one model, and the scores that came with them, say."""

    def __init__(self, model: LanguageModel[Any], weight: float | None, bonus: float) -> None:
        self._model, self._weight, self._bonus = model, weight, bonus
        self.n_emptied = 0

    def ranked(self, candidates: Sequence[Candidate]) -> list[Standing]:
        """The best first; of equals the first stays first, and what is no number comes last."""
        from lmzoo.sampling import text_logprobs

        logprobs = text_logprobs(self._model, [c.text for c in candidates])
        standings = [
            Standing(c, p, self._total(c, p), self._reason(c, p)) for c, p in zip(candidates, logprobs, strict=True)
        ]
        return sorted(standings, key=lambda s: (math.isnan(s.total), -s.total))

    def _reason(self, candidate: Candidate, logprob: float) -> str | None:
        emptied = emptied_reason(candidate.text, self._model.vocab.normalizer)
        self.n_emptied += emptied is not None
        return emptied or logprob_reason(logprob)

    def _total(self, candidate: Candidate, logprob: float) -> float:
        if self._weight is None:
            return logprob
        if candidate.score is None:
            raise InputError(f"--weight adds to a score, and {candidate.text!r} came without one")
        n_tokens = len(self._model.vocab.encode(candidate.text))
        # 0 times -inf is no number: a weight of 0 asks nothing of the model
        weighted = self._weight * logprob if self._weight else 0.0
        return candidate.score + weighted + self._bonus * n_tokens


def _lists(candidates: Iterator[Candidate]) -> Iterator[list[Candidate]]:
    """Candidates of one id side by side.  Raises `InputError` for an id that comes again later."""
    seen: set[str] = set()
    for list_id, group in itertools.groupby(candidates, key=lambda c: c.list_id):
        if list_id in seen:
            raise InputError(f"list {list_id!r} goes on after another one; sort the lines by their lists first")
        seen.add(list_id)
        yield list(group)


def _from_lines(lines: Iterator[str], source: str) -> Iterator[Candidate]:
    number, is_between = 0, True
    for line in lines:
        if not line.strip(" \t"):
            is_between = True
            continue
        number += is_between
        is_between = False
        yield Candidate(str(number), line, None)


def _from_nbest(lines: Iterator[str], source: str) -> Iterator[Candidate]:
    for number, line in enumerate(lines, start=1):
        fields = [field.strip(" \t") for field in line.split("|||")]
        if len(fields) == 1 and not fields[0]:
            continue
        if len(fields) < 2:
            raise TextError(
                f"line {number} of {source} is {line!r:.60}, expected id ||| text ||| score; other layouts: --format"
            )
        yield Candidate(fields[0], fields[1], _score(fields[-1], number, source) if len(fields) > 2 else None)


def _from_tsv(lines: Iterator[str], source: str) -> Iterator[Candidate]:
    header = next(lines, "").split("\t")
    if "text" not in header:
        raise TextError(f"the header of {source} has no column text, got {', '.join(header)!r:.80}")
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise TextError(f"line {number} of {source} has {len(cells)} cells, its header has {len(header)}")
        yield _candidate(dict(zip(header, map(unescaped, cells), strict=True)), number, source)


def _from_json(lines: Iterator[str], source: str) -> Iterator[Candidate]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise TextError(f"line {number} of {source} is no JSON object: {error}") from error
        if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
            raise TextError(f"line {number} of {source} is no JSON object with a text under the key text")
        yield _candidate(row, number, source)


def _candidate(row: Mapping[str, object], number: int, source: str) -> Candidate:
    """A candidate of named cells; `list` is what the rows of this command call the id."""
    score = row.get("score")
    return Candidate(
        list_id=str(row.get("id", row.get("list", "1"))),
        text=str(row["text"]),
        score=None if score in (None, "") else _score(score, number, source),
    )


def _score(text: object, number: int, source: str) -> float:
    try:
        score = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise TextError(f"the score on line {number} of {source} is no finite number, got {text!r:.60}")
    return score


LAYOUTS: Mapping[str, Callable[[Iterator[str], str], Iterator[Candidate]]] = {
    "lines": _from_lines,
    "nbest": _from_nbest,
    "tsv": _from_tsv,
    "json": _from_json,
}
