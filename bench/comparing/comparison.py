"""Two runs side by side: their rows paired, the figures judged, and what else differs between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.comparing.conditions import conditions_of
from bench.comparing.differences import (
    FILE_OPTIONS,
    Difference,
    configuration_differences,
    environment_differences,
)
from bench.comparing.judging import Change, changes_across, changes_of
from bench.comparing.naming import names_of, shortened
from bench.comparing.pairing import Couple, Refusal, paired
from bench.report import wording
from bench.report.reading import Run, read_run
from bench.report.rows import Row, rows_of
from lmzoo.errors import InputError


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

    Raises `InputError` where the runs have no model on one device and a text of one name in common.
    """
    runs = read_run(before), read_run(after)
    rows = rows_of(runs[0])
    pairs = paired(rows, rows_of(runs[1]))
    if not pairs.have_common:
        told = "; ".join(map(str, pairs.refusals[:3])) or "no rows"
        raise InputError(
            f"{before} and {after} have nothing that can be compared: {told}; "
            "give two runs of the same models on the same text"
        )
    first, second = names_of([before, after])
    return Comparison(
        names=(first, second),
        runs=runs,
        rows=rows,
        changes=[*changes_of(pairs.couples, asked), *changes_across(pairs.across)],
        refusals=pairs.refusals,
        configuration=configuration_differences(runs),
        environment=environment_differences(runs),
        notices=[*conditions_of(("first run", "second run"), runs), *_about_files([*pairs.couples, *pairs.across])],
    )


def _about_files(pairs: Sequence[Couple]) -> list[str]:
    """That a model of one name is not the same file, or not of the same code, in both runs."""
    found = []
    for row, other in pairs:
        for option, what in FILE_OPTIONS.items():
            hashes = [shortened(str(of.trials[0].options.get(option))) for of in (row, other)]
            if len(set(hashes)) > 1:
                found.append(
                    f"{wording.isolated(row.model)}: the runs differ in {what}: sha256 {hashes[0]}… and {hashes[1]}…"
                )
    return list(dict.fromkeys(found))
