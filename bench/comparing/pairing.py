"""Which row of one run stands against which of another, and why some stand against none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.across import text_of
from bench.report.rows import Group, Row

# what must be equal for two rows to be compared, with the words that say so
_MUST_AGREE = {
    "sha256": "another text",
    "vocab_fingerprint": "another vocabulary",
    "documents": "another cut into documents",
    "normalize": "another normaliser",
    "tokenizer": "another tokenizer",
    "rules_version": "another version of the rules of measuring",
}

Couple = tuple[Row, Row]
Place = tuple[str, str, str, str, str, str, float]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A row that is not compared, and why.  `row`: that of the first run; None where only the second has it."""

    row: Row | None
    title: str
    reason: str

    def __str__(self) -> str:
        return f"{self.title}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The rows of two runs: those that were measured alike, those of the same place that were not, and the others.

    `alone`: rows without a counterpart, of the first run and of the second.
    """

    couples: Sequence[Couple]
    refusals: Sequence[Refusal]
    alone: tuple[Sequence[Row], Sequence[Row]]


def paired(rows: Sequence[Row], others: Sequence[Row]) -> Paired:
    """Each row of the first run with its counterpart in the second."""
    couples, alone, refusals, left = [], [], [], list(others)
    for row in rows:
        other = _counterpart(row, left)
        if other is None:
            alone.append(row)
            continue
        left.remove(other)
        if why := _refusal(row, other):
            refusals.append(Refusal(row=row, title=title_of(row), reason=why))
        else:
            couples.append((row, other))
    return Paired(couples=couples, refusals=refusals, alone=(alone, left))


def cut_otherwise(rows: Sequence[Row], others: Sequence[Row]) -> list[Couple]:
    """Rows of one model, device and text that the two runs cut into other tokens; each row once."""
    found, left = [], list(others)
    for row in rows:
        same = (other for other in left if _on_text(other) == _on_text(row))
        if (other := next(same, None)) is not None:
            left.remove(other)
            found.append((row, other))
    return found


def title_of(row: Row) -> str:
    return f"{row.model} on {row.device}, {row.group.title}"


def place_of(row: Row) -> Place:
    """Where a row stands in its run: what a reader would take for the same row of another run."""
    group = row.group
    return (
        row.model,
        row.device,
        group.corpus,
        group.normalize,
        group.tokenizer,
        group.documents,
        group.train_fraction,
    )


def unlike(a: Group, b: Group) -> list[str]:
    """What keeps rows of two groups from being compared, in words; empty where nothing does."""
    return [words for key, words in _MUST_AGREE.items() if getattr(a, key) != getattr(b, key)]


def _on_text(row: Row) -> tuple[str, str, Group]:
    return row.model, row.device, text_of(row.group)


def _counterpart(row: Row, others: Sequence[Row]) -> Row | None:
    """The row of another run in the same place; of several, as texts may share a file name, that of the same text."""
    found = [other for other in others if place_of(other) == place_of(row)]
    return next((other for other in found if other.group.sha256 == row.group.sha256), found[0] if found else None)


def _refusal(a: Row, b: Row) -> str | None:
    """Why two rows of one place cannot be compared, or None."""
    for row, which in ((a, "first"), (b, "second")):
        if row.status != "ok":
            return f"{row.status} in the {which} run{f' ({row.reason})' if row.reason else ''}"
    differing = unlike(a.group, b.group)
    return f"the second run has {' and '.join(differing)}" if differing else None
