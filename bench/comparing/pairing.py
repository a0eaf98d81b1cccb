"""Which row of one run stands against which of another, and why some stand against none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from bench.report import wording
from bench.report.across import Unit, bits_of, text_of
from bench.report.rows import Group, Row

# what must be equal for two rows to be compared, with the words that say so
_MUST_AGREE = {
    "sha256": "another text",
    "vocab_fingerprint": "another vocabulary",
    "documents": "another cut into documents",
    "normalize": "another normaliser",
    "tokenizer": "another tokenizer",
    "train_fraction": "another share of the training text",
    "rules_version": "another version of the rules of measuring",
}
UNITS: Sequence[Unit] = ("byte", "char")

Couple = tuple[Row, Row]
Place = tuple[str, str, str, str, str, str, float]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A row that is not compared, and why, in words none of which turns those around it.

    `row`: that of the first run; None where only the second has it.
    """

    row: Row | None
    title: str
    reason: str

    def __str__(self) -> str:
        return f"{self.title}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The rows of two runs: those that were measured alike, those of one text under other tokens, and all others.

    `have_common`: whether any row has a counterpart, compared or refused.
    """

    couples: Sequence[Couple]
    across: Sequence[Couple]
    refusals: Sequence[Refusal]
    have_common: bool


def paired(rows: Sequence[Row], others: Sequence[Row]) -> Paired:
    """Each row of the first run with its counterpart in the second."""
    partners = _partners(rows, others)
    couples: list[Couple] = []
    across: list[Couple] = []
    refusals: list[Refusal] = []
    for row in rows:
        other = partners.get(id(row))
        why = _refusal(row, other) if other is not None else "only in the first run"
        if other is None or why:
            refusals.append(Refusal(row=row, title=title_of(row), reason=why))
        else:
            (across if unlike(row.group, other.group) else couples).append((row, other))
    taken = set(map(id, partners.values()))
    alone = [other for other in others if id(other) not in taken]
    refusals += [Refusal(row=None, title=title_of(other), reason="only in the second run") for other in alone]
    return Paired(couples=couples, across=across, refusals=refusals, have_common=bool(partners))


def title_of(row: Row) -> str:
    """A row in a sentence, none of whose parts turns the words around it."""
    return f"{wording.isolated(row.model)} on {row.device}, {wording.isolated(row.group.title)}"


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


def shared_unit(a: Row, b: Row) -> Unit | None:
    """The unit of text that both rows have bits per; None where there is none."""
    return next((unit for unit in UNITS if bits_of(a, unit) is not None and bits_of(b, unit) is not None), None)


def _on_text(row: Row) -> Hashable:
    return row.model, row.device, text_of(row.group)


# what a row and its counterpart share, the most first: texts may share a name, and one may be read in several ways
_CLOSEST_FIRST: Sequence[Callable[[Row], Hashable]] = (
    lambda row: (place_of(row), row.group),
    lambda row: (place_of(row), row.group.sha256, row.group.vocab_fingerprint),
    lambda row: (place_of(row), row.group.sha256),
    place_of,
    _on_text,
    lambda row: (row.model, row.device, row.group.corpus),
)


def _partners(rows: Sequence[Row], others: Sequence[Row]) -> dict[int, Row]:
    """The counterpart of each row of the first run that has one, by the row's id; each row of the second once."""
    found: dict[int, Row] = {}
    free = list(others)
    for key in _CLOSEST_FIRST:
        waiting: dict[Hashable, list[Row]] = {}
        for other in free:
            waiting.setdefault(key(other), []).append(other)
        for row in rows:
            if id(row) not in found and (alike := waiting.get(key(row))):
                found[id(row)] = alike.pop(0)
        free = [other for alike in waiting.values() for other in alike]
    return found


def _refusal(a: Row, b: Row) -> str:
    """Why a row cannot be compared with its counterpart; empty where it can, be it by bits alone."""
    for row, which in ((a, "first"), (b, "second")):
        if row.status != "ok":
            return f"{row.status} in the {which} run{f' ({wording.isolated(row.reason)})' if row.reason else ''}"
    differing = unlike(a.group, b.group)
    if not differing:
        return ""
    told = f"the second run has {wording.listed(differing)}"
    if a.group.tokenizer == b.group.tokenizer or _on_text(a) != _on_text(b):
        return told
    return "" if shared_unit(a, b) else f"{told}, and no bits per byte or character are known of both"
