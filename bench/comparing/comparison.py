"""Two runs side by side: their rows paired, the figures judged, and what else differs between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.comparing.differences import (
    FILE_OPTIONS,
    Difference,
    configuration_differences,
    environment_differences,
)
from bench.comparing.judging import Change, changes_across, changes_of
from bench.comparing.naming import names_of
from bench.comparing.pairing import Couple, Refusal, cut_otherwise, paired, title_of
from bench.report import notices
from bench.report.reading import Run, read_run
from bench.report.rows import Row, rows_of
from lmzoo.errors import InputError

_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What changed, why each row that could not be compared was not, and what to know about either run.

    `names`: what the two runs are called; `rows`: those of the first run.
    """

    names: tuple[str, str]
    runs: tuple[Run, Run]
    rows: Sequence[Row]
    changes: Sequence[Change]
    refusals: Sequence[Refusal]
    configuration: Sequence[Difference]
    environment: Sequence[Difference]
    notices: Sequence[str]


def compare_runs(before: Path, after: Path, asked: Collection[str] = ()) -> Comparison:
    """The changes from one run to another.

    Args:
        asked: keys of figures that are compared beside the usual ones.

    Raises `InputError` where no row of the one can be compared with any of the other.
    """
    runs = read_run(before), read_run(after)
    rows = rows_of(runs[0])
    pairs = paired(rows, rows_of(runs[1]))
    across = cut_otherwise(*pairs.alone)
    compared = changes_across(across)
    refusals = [*pairs.refusals, *_left_alone(pairs.alone, across, compared)]
    if not pairs.couples and not compared:
        told = "; ".join(map(str, refusals[:3])) or "no rows"
        raise InputError(
            f"{before} and {after} have nothing that can be compared: {told}; "
            "give two runs of the same models on the same text"
        )
    first, second = names_of([before, after])
    return Comparison(
        names=(first, second),
        runs=runs,
        rows=rows,
        changes=[*changes_of(pairs.couples, asked), *compared],
        refusals=refusals,
        configuration=configuration_differences(runs),
        environment=environment_differences(runs),
        notices=[*_notices(runs), *_about_files([*pairs.couples, *across])],
    )


def _left_alone(
    alone: tuple[Sequence[Row], Sequence[Row]], across: Sequence[Couple], compared: Sequence[Change]
) -> list[Refusal]:
    """The rows that the other run has nothing to set against, not even under other tokens."""
    done = {id(change.row) for change in compared}
    done |= {id(other) for row, other in across if id(row) in done}
    firsts, seconds = ([row for row in rows if id(row) not in done] for rows in alone)
    return [
        *(Refusal(row=row, title=title_of(row), reason="only in the first run") for row in firsts),
        *(Refusal(row=None, title=title_of(row), reason="only in the second run") for row in seconds),
    ]


def _about_files(pairs: Sequence[Couple]) -> list[str]:
    """That a model of one name is not the same file, or not of the same code, in both runs."""
    found = []
    for row, other in pairs:
        for option, what in FILE_OPTIONS.items():
            hashes = [str(of.trials[0].options.get(option))[:_DIGITS] for of in (row, other)]
            if len(set(hashes)) > 1:
                found.append(f"{row.model}: the runs differ in {what}: sha256 {hashes[0]}… and {hashes[1]}…")
    return list(dict.fromkeys(found))


def _notices(runs: tuple[Run, Run]) -> list[str]:
    """The conditions that each run was made under, as its own report tells them."""
    found = []
    for which, run in zip(("first", "second"), runs, strict=True):
        told = (
            *run.warnings,
            *notices.about_plan(run.info.plan),
            *notices.about_load(run.records),
            *notices.about_devices(run.records),
        )
        found += [f"{which} run: {notice}" for notice in told]
    return found
