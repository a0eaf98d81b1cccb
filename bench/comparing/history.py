"""A figure over many runs: for each model and text, its value in one run after the other.

Values that cannot be compared with those of the run before (another text, another version of the rules) start a line of
their own, and it is said which run that is.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.comparing.conditions import conditions_of, processors_of
from bench.comparing.differences import Difference, row_differences
from bench.comparing.metrics import Metric
from bench.comparing.naming import counted, few_of, names_of, shown_path
from bench.comparing.pairing import Place, place_of, unlike
from bench.records import FINE
from bench.report import wording
from bench.report.front import LARGEST
from bench.report.reading import Run, read_run
from bench.report.rows import Group, Row, rows_of
from lmzoo.errors import InputError, LmzooError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run of a history: what it is called, when it started."""

    name: str
    run: Run
    started: datetime

    def __str__(self) -> str:
        return wording.isolated(self.name)

    @property
    def day(self) -> str:
        # strftime writes the year 1 as it is counted, not in four digits
        return self.started.date().isoformat()

    @property
    def time(self) -> str:
        return f"{self.started:%H:%M}"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A row of one run.  `value` is None where it has none, and `reason` says why.

    `breaks`: why it cannot be compared with the point before; empty where it can, and at the first.
    """

    row: Row
    value: float | None
    span: tuple[float, float] | None
    reason: str = ""
    breaks: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One model on one device and text: a point for each run, None where the run has no such row."""

    points: Sequence[Point | None]

    @property
    def row(self) -> Row:
        """The latest row, which stands for the others in what all have alike."""
        return next(point.row for point in reversed(self.points) if point)


@dataclass(frozen=True, kw_only=True)
class History:
    """Runs by their start, the lines over them, why some folders are left out, and what to know of the others."""

    metric: Metric
    entries: Sequence[Entry]
    lines: Sequence[Line]
    left_out: Sequence[str]
    notices: Sequence[str]

    @property
    def by_text(self) -> dict[str, list[Line]]:
        """The lines of each text, by its title."""
        texts: dict[str, list[Line]] = {}
        for line in self.lines:
            texts.setdefault(line.row.group.title, []).append(line)
        return texts


def history_of(folders: Sequence[Path], metric: Metric) -> History:
    """A metric over the runs in these folders, ordered by their start.

    What is there and no run is left out and named.  Raises `InputError` for a path that is not there, where fewer than
    two runs are left, and where none of them has the figure.
    """
    _require_there(folders)
    entries, left_out = _read(folders)
    if len(entries) < 2:
        found = "no run" if not entries else f"one run ({entries[0]})"
        told = f": {'; '.join(left_out)}" if left_out else ""
        raise InputError(f"a history takes at least two runs, and there is {found}{told}")
    lines = [_line(rows, metric) for rows in _rows_by_place(entries)]
    if not any(point and point.value is not None for line in lines for point in line.points):
        raise InputError(f"no run has a {metric.key}; choose another figure with --metric")
    return History(
        metric=metric,
        entries=entries,
        lines=lines,
        left_out=left_out,
        notices=[
            *conditions_of([entry.name for entry in entries], [entry.run for entry in entries]),
            *_breaks(entries, lines),
            *_asked_otherwise(entries, lines),
            *_machines(entries, metric),
        ],
    )


def _require_there(folders: Sequence[Path]) -> None:
    """What a pattern of a shell found is there: a path that is not was mistyped, and its run would be missed."""
    absent = [shown_path(folder) for folder in folders if not _is_there(folder)]
    if absent:
        more = f" (and {counted(len(absent) - 1, 'other path')})" if len(absent) > 1 else ""
        raise InputError(f"{absent[0]} is not there{more}; give folders that python -m bench.run wrote")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    # such as a name that is too long
    except OSError:
        return False


def _read(folders: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """The runs, oldest first, and a line for each folder that is none."""
    kept: dict[str, Path] = {}
    for folder in folders:
        kept.setdefault(os.path.realpath(folder), folder)
    distinct = list(kept.values())
    left_out = ["a folder that is named twice counts once"] if len(distinct) < len(folders) else []
    entries = []
    for name, folder in zip(names_of(distinct), distinct, strict=True):
        try:
            run = read_run(folder)
            entries.append(Entry(name=name, run=run, started=_start_of(run, name)))
        except LmzooError as error:
            left_out.append(" ".join(_without_folder(str(error), folder, name).split()))
    return sorted(entries, key=lambda entry: entry.started), left_out


def _without_folder(message: str, folder: Path, name: str) -> str:
    """A message that names a run instead of its folder: a page may be handed on, and no folder of this machine with it.

    A folder may be `.`, which is a folder only where it stands by itself or starts a path.
    """
    return re.sub(
        rf"(?<![^\s'\"]){re.escape(str(folder))}(?=[\s'\":;/\\]|$)", lambda _: wording.isolated(name), message
    )


def _start_of(run: Run, name: str) -> datetime:
    try:
        started = datetime.fromisoformat(run.info.started_utc)
    except ValueError as error:
        raise InputError(
            f"{wording.isolated(name)} has no place in time: it started at {run.info.started_utc!r}, which is no date"
        ) from error
    return started if started.tzinfo else started.replace(tzinfo=UTC)


def _rows_by_place(entries: Sequence[Entry]) -> list[list[Row | None]]:
    """For each place in any run, its row in every run.

    Rows that share a place in some run, of texts of one name or of a text that was read in two ways, are told apart by
    all that they were measured under but the rules, whose change breaks a line.
    """
    runs = [rows_of(entry.run) for entry in entries]
    counts = [Counter(map(place_of, rows)) for rows in runs]
    shared = {place for count in counts for place, n in count.items() if n > 1}
    found: dict[tuple[Place, Group | None], list[Row | None]] = {}
    for number, rows in enumerate(runs):
        for row in rows:
            place = place_of(row)
            key = place, replace(row.group, rules_version=0) if place in shared else None
            found.setdefault(key, [None] * len(runs))[number] = row
    return list(found.values())


def _line(rows: Sequence[Row | None], metric: Metric) -> Line:
    points: list[Point | None] = []
    before: Row | None = None
    for row in rows:
        if row is None:
            points.append(None)
            continue
        value = metric.value(row) if row.status in FINE else None
        if value is None:
            reason = row.reason or f"it has no {metric.name}"
            points.append(Point(row=row, value=None, span=None, reason=reason))
            continue
        why = unlike(before.group, row.group) if before else []
        points.append(Point(row=row, value=value, span=metric.span(row), breaks=wording.listed(why)))
        before = row
    return Line(points=points)


def has_place(point: Point) -> bool:
    """Whether a point's value can be drawn."""
    return point.value is not None and abs(point.value) < LARGEST


def segments_of(line: Line) -> list[list[tuple[int, Point]]]:
    """The points that can be drawn, with the places of their runs: cut where the line breaks, and where a run has the
    model and no value that can be drawn.  A run without the model is passed over."""
    segments: list[list[tuple[int, Point]]] = [[]]
    for place, point in enumerate(line.points):
        if point is None:
            continue
        if point.breaks or not has_place(point):
            segments.append([])
        if has_place(point):
            segments[-1].append((place, point))
    return [segment for segment in segments if segment]


def _breaks(entries: Sequence[Entry], lines: Sequence[Line]) -> Iterator[str]:
    """Which run breaks which lines, and why: once for all models on a text."""
    models: dict[tuple[int, str, str], list[str]] = {}
    for line in lines:
        for place, point in enumerate(line.points):
            if point and point.breaks:
                models.setdefault((place, line.row.group.title, point.breaks), []).append(line.row.model)
    for (place, title, why), named in sorted(models.items()):
        names = wording.listed([wording.isolated(name) for name in dict.fromkeys(named)])
        yield (
            f"{entries[place]} cannot be compared with what is before it: it has {why}; the lines of {names} on "
            f"{wording.isolated(title)} break there"
        )


def _asked_otherwise(entries: Sequence[Entry], lines: Sequence[Line]) -> Iterator[str]:
    """Which run was asked otherwise than the one before, and of which models; their lines go on all the same."""
    found: dict[tuple[int, int], dict[Difference, list[str]]] = {}
    for line in lines:
        there = [(place, point) for place, point in enumerate(line.points) if point and point.value is not None]
        for (start, before), (end, after) in itertools.pairwise(there):
            if not after.breaks:
                differences = row_differences((entries[start].run, before.row), (entries[end].run, after.row))
                for difference in differences:
                    found.setdefault((end, start), {}).setdefault(difference, []).append(line.row.model)
    for (end, start), changed in sorted(found.items(), key=lambda item: item[0]):
        told = "; ".join(
            f"{difference} ({few_of(list(dict.fromkeys(models)))})" for difference, models in changed.items()
        )
        yield f"{entries[end]} was asked otherwise than {entries[start]}: {told}"


def _machines(entries: Sequence[Entry], metric: Metric) -> Iterator[str]:
    """Where times jump because the processor is another one."""
    if not metric.is_time:
        return
    for before, after in itertools.pairwise(entries):
        models = [processors_of(entry.run) for entry in (before, after)]
        if models[0] != models[1]:
            yield f"{after} was measured on another processor than {before}: {wording.named(models[::-1])}"
