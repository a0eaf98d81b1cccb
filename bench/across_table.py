"""The last table of a run with several tokenizers or vocabularies: on the scale of the text, which they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from rich.table import Table

from bench.absent import why_absent
from bench.records import CorpusFacts, TrialRecord
from bench.report.wording import TEXT_ITSELF
from bench.terminal import MOST_ROWS, as_number, as_short, rows_of_csv

Cells = Mapping[str, str]
# what two rows share that were measured on the same text
_TEXT = ("corpus", "normalize", "documents", "train_fraction")
_TOKENS = ("tokenizer", "vocab_fingerprint")
_UNITS = {"byte": "Bits per byte", "char": "Bits per character"}


def across_tables(summary: Path, records: Sequence[TrialRecord] = ()) -> list[Table]:
    """A table for each text of `tables/summary.csv` whose models have no ranking by perplexity in common.

    `records`: those that know why figures are missing.
    """
    texts: dict[tuple[str, ...], list[Cells]] = {}
    for row in rows_of_csv(summary):
        texts.setdefault(tuple(row[key] for key in _TEXT), []).append(row)
    beside = summary.with_name("across.csv")
    contests = rows_of_csv(beside) if beside.exists() else []
    return [_table(rows, contests, _of_text(records, text)) for text, rows in texts.items() if _is_worth_a_table(rows)]


def _is_worth_a_table(rows: Sequence[Cells]) -> bool:
    """As the report has it: several vocabularies, or a code of what the tokens do not tell."""
    has_code_alone = any(_is_code(row) and row["status"] == "ok" and not row["test_perplexity"] for row in rows)
    return has_code_alone or len({row["vocab_fingerprint"] for row in rows} - {""}) > 1


def _of_text(records: Sequence[TrialRecord], text: tuple[str, ...]) -> list[TrialRecord]:
    return [r for r in records if r.corpus is not None and _text_of(r.corpus, r.trial.train_fraction) == text]


def _text_of(facts: CorpusFacts, train_fraction: float) -> tuple[str, ...]:
    return facts.name, facts.normalize, facts.documents, str(train_fraction)


def _table(rows: Sequence[Cells], contests: Sequence[Cells], records: Sequence[TrialRecord]) -> Table:
    unit = "byte" if any(row["bits_per_byte"] for row in rows) else "char"
    key = f"bits_per_{unit}"
    order = sorted(rows, key=lambda row: (row["status"] != "ok", as_number(row[key])))
    verdicts = {_sides(contest): contest["verdict"] for contest in contests}
    several_devices = len({row["device"] for row in rows}) > 1
    notes = []
    ties = ["~" if verdicts.get(_pair(row, order[0])) == "~" else "" for row in order[:MOST_ROWS]]
    if any(ties):
        notes.append("~ no significant difference from the best")
    # of characters, why they and not bytes too
    for name in ("byte", "char")[: 1 if unit == "byte" else 2]:
        notes += why_absent(records, f"bits/{name}", attrgetter(f"bits_per_{name}"))
    if len(order) > MOST_ROWS:
        notes.append(f"{len(order) - MOST_ROWS} more rows are in report.md and tables/summary.csv")
    title = f"{_UNITS[unit]} of {order[0]['corpus']}, best first"
    table = Table(title=title, caption="\n".join(notes) or None, caption_justify="left")
    for name in ("model", "tokens"):
        table.add_column(name, overflow="fold")
    for name in (f"bits/{unit}", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for row, tie in zip(order, ties, strict=False):
        star = "*" if row["is_adaptive"] == "true" else ""
        figure = as_short(row[key]) if row["status"] == "ok" else row["status"]
        where = f" on {row['device']}" if several_devices else ""
        table.add_row(f"{row['model']}{star}{where}", _tokens_of(row), f"{tie} {figure}".lstrip(), _interval(row, key))
    return table


def _is_code(row: Cells) -> bool:
    return row["family"] == "coder"


def _tokens_of(row: Cells) -> str:
    return TEXT_ITSELF if _is_code(row) else row["tokenizer"]


def _interval(row: Cells, key: str) -> str:
    low, high = row[f"{key}_low"], row[f"{key}_high"]
    return f"{as_short(low)} to {as_short(high)}" if low and high else "n/a"


_Contest = tuple[tuple[str, ...], str, frozenset[tuple[str, ...]]]


def _pair(one: Cells, other: Cells) -> _Contest:
    devices = {one["device"], other["device"]} - {"cpu"}
    sides = (tuple(row[key] for key in ("model", *_TOKENS)) for row in (one, other))
    return tuple(one[key] for key in _TEXT), devices.pop() if len(devices) == 1 else "cpu", frozenset(sides)


def _sides(contest: Cells) -> _Contest:
    sides = (tuple(contest[f"{key}_{side}"] for key in ("model", *_TOKENS)) for side in ("a", "b"))
    return tuple(contest[key] for key in _TEXT), contest["device"], frozenset(sides)
