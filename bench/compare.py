"""Two runs side by side: what changed, and whether it is more than noise.

`python -m bench.compare A B` pairs the rows of both runs that were measured on the same text under the same rules, and
judges each figure of B against A (`bench/judging.py` has the rule).  Under the tables stand what the judgements mean,
what was not compared and why, and the conditions of either run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.judging import LEGEND, Change, changes_across, changes_of
from bench.report import notices, wording
from bench.report.across import text_of
from bench.report.reading import Run, read_run
from bench.report.rows import Group, Row, rows_of
from lmzoo.catalogue import PACKAGES_SHA256
from lmzoo.errors import InputError, LmzooError
from lmzoo.streams import leaving_when_output_fails, never_raise_on_output

# where no terminal says how wide it is, no cell is cut
_WIDTH_WITHOUT_TERMINAL = 160
# what must be equal for two rows to be compared, with the words that say so
_MUST_AGREE = {
    "sha256": "another text",
    "vocab_fingerprint": "another vocabulary",
    "documents": "another cut into documents",
    "normalize": "another normaliser",
    "tokenizer": "another tokenizer",
    "rules_version": "another version of the rules of measuring",
}


# what a name stands for, by the options that hold a hash of it
_FILES = {"sha256": "the file or folder that it is read from", PACKAGES_SHA256: "the code of the package it comes from"}
_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What changed, why each row that could not be compared was not, and what to know about either run."""

    changes: Sequence[Change]
    refusals: Sequence[str]
    notices: Sequence[str]


def compare_runs(before: Path, after: Path) -> Comparison:
    """The changes from one run to another.

    Raises `InputError` where no row of the one can be compared with any of the other.
    """
    runs = read_run(before), read_run(after)
    rows_b = rows_of(runs[1])
    couples, alone, refusals = [], [], []
    for row in rows_of(runs[0]):
        other = _counterpart(row, rows_b)
        if other is None:
            alone.append(row)
            continue
        rows_b.remove(other)
        if why := _refusal(row, other):
            refusals.append(f"{_title(row)}: {why}")
        else:
            couples.append((row, other))
    across = _cut_otherwise(alone, rows_b)
    compared = changes_across(across)
    paired = {id(change.row) for change in compared}
    for row, other in across:
        if id(row) in paired:
            alone.remove(row)
            rows_b.remove(other)
    refusals += [f"{_title(row)}: {_refusal(row, None)}" for row in alone]
    refusals += [f"{_title(row)}: only in the second run" for row in rows_b]
    if not couples and not compared:
        raise InputError(
            f"{before} and {after} have nothing that can be compared: {'; '.join(refusals[:3]) or 'no rows'}; "
            "give two runs of the same models on the same text"
        )
    told = [*_notices(runs), *_about_files([*couples, *across])]
    return Comparison(changes=[*changes_of(couples), *compared], refusals=refusals, notices=told)


def _about_files(pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    """That a model of one name is not the same file, or not of the same code, in both runs."""
    found = []
    for row, other in pairs:
        for option, what in _FILES.items():
            hashes = [str(of.trials[0].options.get(option))[:_DIGITS] for of in (row, other)]
            if len(set(hashes)) > 1:
                found.append(f"{row.model}: the runs differ in {what}: sha256 {hashes[0]}… and {hashes[1]}…")
    return list(dict.fromkeys(found))


def _cut_otherwise(rows: Sequence[Row], others: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Rows of one model, device and text that the two runs cut into other tokens; each row once."""
    found, left = [], list(others)
    for row in rows:
        same = (other for other in left if _on_text(other) == _on_text(row))
        if (other := next(same, None)) is not None:
            left.remove(other)
            found.append((row, other))
    return found


def _on_text(row: Row) -> tuple[str, str, Group]:
    return row.model, row.device, text_of(row.group)


def _notices(runs: tuple[Run, Run]) -> list[str]:
    """The conditions that each run was made under, as its own report tells them, and those that differ."""
    found = [
        f"the runs differ in {what}: {' and '.join(values)}"
        for what, value in _CONDITIONS.items()
        if len(values := list(dict.fromkeys(map(value, runs)))) > 1
    ]
    for which, run in zip(("first", "second"), runs, strict=True):
        told = (
            *notices.about_plan(run.info.plan),
            *notices.about_load(run.records),
            *notices.about_devices(run.records),
        )
        found += [f"{which} run: {notice}" for notice in told]
    return found


# what changes times whatever the models do
_CONDITIONS: Mapping[str, Callable[[Run], str]] = {
    "processor": lambda run: run.info.environment.cpu_model,
    "GPU": lambda run: run.info.environment.gpu or "none",
    "threads per trial": lambda run: str(run.info.threads),
    "executor": lambda run: run.info.executor,
}


def _title(row: Row) -> str:
    return f"{row.model} on {row.device}, {row.group.title}"


def _counterpart(row: Row, others: Sequence[Row]) -> Row | None:
    """The row of another run in the same place; of several, as texts may share a file name, that of the same text."""
    found = [other for other in others if _place(other) == _place(row)]
    return next((other for other in found if other.group.sha256 == row.group.sha256), found[0] if found else None)


def _place(row: Row) -> tuple[str, str, str, str, str, str, float]:
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


def _refusal(a: Row, b: Row | None) -> str | None:
    """Why two rows cannot be compared, or None."""
    if b is None:
        return "only in the first run"
    for row, which in ((a, "first"), (b, "second")):
        if row.status != "ok":
            return f"{row.status} in the {which} run{f' ({row.reason})' if row.reason else ''}"
    differing = [words for key, words in _MUST_AGREE.items() if getattr(a.group, key) != getattr(b.group, key)]
    return f"the second run has {' and '.join(differing)}" if differing else None


def _by_group(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """Changes by the text they were measured on: its corpus, tokenizer and cut into documents."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.row.group.title, []).append(change)
    return groups


def _table(changes: Sequence[Change]) -> Table:
    table = Table("model", "device", "figure", "before", "after", "ratio", "judgement")
    for change in changes:
        values = (change.show(change.before), change.show(change.after), wording.rounded(change.ratio))
        remark = f" ({change.remark})" if change.remark else ""
        table.add_row(change.row.model, change.row.device, change.metric, *values, f"{change.judgement}{remark}")
    return table


def _legend(changes: Sequence[Change]) -> list[str]:
    """What the judgements and remarks mean, of those that are there."""
    found = {word for change in changes for word in (change.judgement, *change.remark.split(", "))}
    return [f"{word}: {meaning}" for word, meaning in LEGEND.items() if word in found]


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 the runs were compared, whatever changed; 2 bad arguments, a folder that is no run, or two "
    "runs that have nothing in common.",
)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def main(before: Path, after: Path) -> None:
    """Show what changed from the run in BEFORE to the run in AFTER, and whether it is more than noise."""
    never_raise_on_output()
    try:
        found = compare_runs(before, after)
    except LmzooError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
    with leaving_when_output_fails():
        _show(found)


def _show(found: Comparison) -> None:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    for title, members in _by_group(found.changes).items():
        console.print(f"On {title}:", soft_wrap=True)
        console.print(_table(members))
    for line in _legend(found.changes):
        click.echo(line)
    for refusal in found.refusals:
        click.echo(f"not compared: {refusal}")
    for notice in found.notices:
        click.echo(f"warning: {notice}")


if __name__ == "__main__":
    main(prog_name="python -m bench.compare")
