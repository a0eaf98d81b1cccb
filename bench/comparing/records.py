"""What `--json` writes: a comparison or a history as records, which hold no text that they do not need.

As in all records, a figure that does not exist or is infinite is null with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from bench.comparing.comparison import Comparison
from bench.comparing.differences import Difference
from bench.comparing.gate import Check
from bench.comparing.history import History, Line, Point
from bench.comparing.judging import Change, Judgement
from bench.records import Figure, Recorded, Status
from bench.report.reading import Run
from bench.report.rows import Row

SCHEMA_VERSION = 1


class RunRecord(Recorded):
    """A run by its name and what identifies it."""

    name: str
    run_id: str
    started_utc: str
    command: str
    git_commit: str | None
    rules_version: int


class PlaceRecord(Recorded):
    """The row that figures are of."""

    model: str
    device: str
    corpus: str
    normalize: str
    tokenizer: str
    documents: str
    train_fraction: float


class ChangeRecord(Recorded):
    """A figure in both runs.  `metric`: its column of `summary.csv`; `ratio`: the second by the first."""

    row: PlaceRecord
    metric: str
    before: Figure
    after: Figure
    ratio: Figure
    judgement: Judgement
    remark: str


class DifferenceRecord(Recorded):
    what: str
    before: str
    after: str


class RefusalRecord(Recorded):
    row: str
    reason: str


class CheckRecord(Recorded):
    """What a threshold of `--fail-on` found; `rows_left_out`: those without the figure in the first run.

    `rows_allowed_noise`, `rows_allowed_missing`: those that passed by `--allow-noise` and `--allow-missing` alone.
    """

    threshold: str
    metric: str
    rows_compared: int
    rows_left_out: int
    rows_allowed_noise: int
    rows_allowed_missing: int
    failures: tuple[str, ...]


class ComparisonRecord(Recorded):
    kind: Literal["comparison"] = "comparison"
    schema_version: int = SCHEMA_VERSION
    before: RunRecord
    after: RunRecord
    changes: tuple[ChangeRecord, ...]
    not_compared: tuple[RefusalRecord, ...]
    configuration: tuple[DifferenceRecord, ...]
    environment: tuple[DifferenceRecord, ...]
    warnings: tuple[str, ...]
    checks: tuple[CheckRecord, ...]


class PointRecord(Recorded):
    """A row in one run.  `run`: the run's place in the history, from 0; `breaks`: why it does not go on from before.

    `low`, `high`: what stands in brackets behind the value; null where nothing does, and for an end that is infinite.
    """

    run: int
    status: Status
    value: Figure
    low: float | None
    high: float | None
    breaks: str | None


class LineRecord(Recorded):
    row: PlaceRecord
    points: tuple[PointRecord, ...]


class HistoryRecord(Recorded):
    kind: Literal["history"] = "history"
    schema_version: int = SCHEMA_VERSION
    metric: str
    lower_is_better: bool
    runs: tuple[RunRecord, ...]
    lines: tuple[LineRecord, ...]
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]


def comparison_record(comparison: Comparison, checks: Sequence[Check]) -> ComparisonRecord:
    before, after = (_run(name, run) for name, run in zip(comparison.names, comparison.runs, strict=True))
    return ComparisonRecord(
        before=before,
        after=after,
        changes=tuple(map(_change, comparison.changes)),
        not_compared=tuple(RefusalRecord(row=r.title, reason=r.reason) for r in comparison.refusals),
        configuration=tuple(map(_difference, comparison.configuration)),
        environment=tuple(map(_difference, comparison.environment)),
        warnings=tuple(comparison.notices),
        checks=tuple(map(_check, checks)),
    )


def history_record(history: History) -> HistoryRecord:
    return HistoryRecord(
        metric=history.metric.key,
        lower_is_better=history.metric.lower_is_better,
        runs=tuple(_run(entry.name, entry.run) for entry in history.entries),
        lines=tuple(map(_line, history.lines)),
        left_out=tuple(history.left_out),
        warnings=tuple(history.notices),
    )


def _run(name: str, run: Run) -> RunRecord:
    info = run.info
    return RunRecord(
        name=name,
        run_id=info.run_id,
        started_utc=info.started_utc,
        command=info.command,
        git_commit=info.environment.git_commit,
        rules_version=info.rules_version,
    )


def _place(row: Row) -> PlaceRecord:
    group = {name: getattr(row.group, name) for name in ("corpus", "normalize", "tokenizer", "documents")}
    return PlaceRecord(model=row.model, device=row.device, train_fraction=row.group.train_fraction, **group)


def _change(change: Change) -> ChangeRecord:
    missing = "this run has no such figure"
    return ChangeRecord(
        row=_place(change.row),
        metric=change.key,
        before=Figure.of(change.before, None if change.before is not None else missing),
        after=Figure.of(change.after, None if change.after is not None else missing),
        ratio=Figure.of(change.ratio, None if change.ratio is not None else "there is no ratio of these"),
        judgement=change.judgement,
        remark=change.remark,
    )


def _difference(difference: Difference) -> DifferenceRecord:
    return DifferenceRecord(what=difference.what, before=difference.before, after=difference.after)


def _check(check: Check) -> CheckRecord:
    return CheckRecord(
        threshold=check.threshold.text,
        metric=check.threshold.metric.key,
        rows_compared=check.n_compared,
        rows_left_out=check.n_left_out,
        rows_allowed_noise=check.n_noise,
        rows_allowed_missing=check.n_missing,
        failures=tuple(check.failures),
    )


def _line(line: Line) -> LineRecord:
    points = tuple(_point(place, point) for place, point in enumerate(line.points) if point)
    return LineRecord(row=_place(line.row), points=points)


def _point(place: int, point: Point) -> PointRecord:
    low, high = (end if math.isfinite(end) else None for end in point.span) if point.span else (None, None)
    return PointRecord(
        run=place,
        status=point.row.status,
        value=Figure.of(point.value, point.reason or None),
        low=low,
        high=high,
        breaks=point.breaks or None,
    )
