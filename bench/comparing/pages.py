"""A comparison or a history as tables and sentences, before they are shown on a terminal or as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.comparing.comparison import Comparison
from bench.comparing.conditions import commit_of, processors_of
from bench.comparing.differences import Difference
from bench.comparing.gate import Check
from bench.comparing.history import Entry, History, Line, Point
from bench.comparing.judging import LEGEND, Change, Judgement
from bench.comparing.naming import counted
from bench.report import wording
from bench.report.answer import label_of
from bench.report.content import Figure, Report, Section
from bench.report.reading import Run
from bench.report.rows import Row
from bench.report.sheets import Sheet

_CHANGE_HEADERS = ("model", "device", "figure", "before", "after", "ratio", "judgement")
_IN_ORDER: Sequence[Judgement] = ("better", "worse", "within noise", "same", "not judged")
# the tables have the others
_MOST_TOLD = 12
# of more there is only the number
_MOST_ASKED = 3


def comparison_page(comparison: Comparison, checks: Sequence[Check]) -> Report:
    """A page about two runs."""
    first, second = map(wording.isolated, comparison.names)
    sections = [
        Section(
            title="What changed",
            paragraphs=(_lead(comparison), _summary(comparison), *_asked(comparison.configuration)),
            bullets=_judged(comparison.changes),
        ),
        *([_verdict(checks)] if checks else []),
        *[Section(title=f"On {title}", sheets=[sheet]) for title, sheet in change_sheets(comparison)],
        *_bullets("Not compared", map(str, comparison.refusals)),
        Section(title="Configuration", sheets=[differences_sheet("configuration", comparison.configuration)]),
        Section(title="Environment", sheets=[differences_sheet("environment", comparison.environment)]),
        *_bullets("Warnings", comparison.notices),
        *_bullets("How to read this", legend(comparison.changes)),
        _provenance(comparison.names, comparison.runs),
    ]
    return Report(
        title=f"Two runs compared: {first} and {second}",
        sections=sections,
        kinds={change.row.model: change.row.kinds for change in comparison.changes},
    )


def history_page(history: History, figures: Mapping[str, Figure], warnings: Sequence[str]) -> Report:
    """A page about many runs; `figures`: the plots that were drawn, by their texts; `warnings`: of the others."""
    better = "lower" if history.metric.lower_is_better else "higher"
    sections = [
        Section(title="Which runs", sheets=[runs_sheet(history.entries)]),
        *[
            Section(
                title=f"On {title}",
                figures=[figures[title]] if title in figures else [],
                sheets=line_sheets(history, lines),
            )
            for title, lines in history.by_text.items()
        ],
        *_bullets("Left out", history.left_out),
        *_bullets("Warnings", [*history.notices, *warnings]),
        Section(title="How to read this", bullets=(f"{history.metric.name}: {better} is better.", *reading(history))),
        _provenance([entry.name for entry in history.entries], [entry.run for entry in history.entries]),
    ]
    return Report(
        title=f"{history.metric.name} over {len(history.entries)} runs",
        sections=sections,
        kinds={name: row.kinds for lines in history.by_text.values() for name, row in _named(lines)},
    )


def change_sheets(comparison: Comparison) -> list[tuple[str, Sheet]]:
    """A table for each text, with the text's title."""
    groups: dict[str, list[Change]] = {}
    for change in comparison.changes:
        groups.setdefault(change.row.group.title, []).append(change)
    return [(title, _change_sheet(members)) for title, members in groups.items()]


def differences_sheet(what: str, differences: Sequence[Difference]) -> Sheet:
    """A short table of what is not the same."""
    rows = [(difference.what, difference.before, difference.after) for difference in differences]
    caption = f"{what}: what differs" if rows else f"{what}: no difference"
    return Sheet(caption=caption, headers=(what, "first run", "second run"), align="lll", rows=rows)


def legend(changes: Sequence[Change]) -> list[str]:
    """What the judgements and remarks mean, of those that are there."""
    found = {word for change in changes for word in (change.judgement, *change.remark.split(", "))}
    return [f"{word}: {meaning}" for word, meaning in LEGEND.items() if word in found]


def runs_sheet(entries: Sequence[Entry]) -> Sheet:
    """The runs of a history by their numbers."""
    rows = [
        (
            str(number),
            entry.name,
            f"{entry.day} {entry.time}",
            _commit(entry.run),
            processors_of(entry.run),
        )
        for number, entry in enumerate(entries, start=1)
    ]
    headers = ("#", "run", "started", "commit", "processor")
    return Sheet(caption="runs, oldest first", headers=headers, align="rllll", rows=rows)


def line_sheets(history: History, lines: Sequence[Line], per_table: int | None = None) -> list[Sheet]:
    """The figure of each model on a text, a column for each run that has the text; `per_table`: of how many a table has
    room."""
    names = [name for name, _ in _named(lines)]
    places = _places_of(lines)
    step = per_table or len(places)
    sheets = []
    for start in range(0, len(places), step):
        some = places[start : start + step]
        rows = [
            (name, *[_cell(history, line.points[n]) for n in some]) for name, line in zip(names, lines, strict=True)
        ]
        sheets.append(
            Sheet(
                caption=f"{history.metric.name}, a column for each run that has the text",
                headers=("model", *[str(place + 1) for place in some]),
                align="n" + "r" * len(some),
                rows=rows,
                notes=_reasons(lines) if some[-1] == places[-1] else (),
            )
        )
    return sheets


def _places_of(lines: Sequence[Line]) -> list[int]:
    """The runs that have the text of these lines."""
    return [place for place, points in enumerate(zip(*(line.points for line in lines), strict=True)) if any(points)]


def reading(history: History) -> list[str]:
    """What stands behind a value's brackets and marks, of those that are there."""
    points = [point for line in history.lines for point in line.points if point]
    told = []
    if any(point.span for point in points):
        what = "95 % intervals" if history.metric.blocks else "the lowest and the highest of several processes"
        told.append(f"Brackets hold {what}.")
    if any(point.breaks for point in points):
        told.append("† stands behind a figure that cannot be compared with the one before it.")
    if any(line.points[place] is None for of in history.by_text.values() for place in _places_of(of) for line in of):
        told.append("- stands where a run does not have the model on the text.")
    return told


def _lead(comparison: Comparison) -> str:
    names = [wording.isolated(name) for name in comparison.names]
    started = [run.info.started_utc for run in comparison.runs]
    return f"From {names[0]} ({started[0]}) to {names[1]} ({started[1]}):"


def _summary(comparison: Comparison) -> str:
    """How many figures changed which way."""
    counts = Counter(change.judgement for change in comparison.changes)
    told = [f"{counts[word]:,} {word}" for word in _IN_ORDER if counts[word]]
    rows = counted(len({id(change.row) for change in comparison.changes}), "row")
    figures = f"Of {counted(len(comparison.changes), 'figure')} of {rows}: {wording.listed(told)}."
    left = len(comparison.refusals)
    rest = [f"{counted(left, 'row')} {'is' if left == 1 else 'are'} not compared."] if left else []
    return " ".join([figures if told else "No figure can be compared.", *rest])


def _asked(configuration: Sequence[Difference]) -> list[str]:
    """That what changed may be what was asked."""
    if not configuration:
        return []
    few = len(configuration) <= _MOST_ASKED
    told = "; ".join(map(str, configuration)) if few else f"{len(configuration):,} things, see Configuration"
    return [f"The runs were asked differently: {told}."]


def _judged(changes: Sequence[Change]) -> list[str]:
    """What is more than noise, the worse first."""
    told = [
        f"{judgement}: {wording.isolated(change.row.model)} on {change.row.device}, {change.metric} "
        f"{change.show(change.before)} to {change.show(change.after)}{_remark(change)}"
        for judgement in ("worse", "better")
        for change in changes
        if change.judgement == judgement
    ]
    more = len(told) - _MOST_TOLD
    return [*told[:_MOST_TOLD], f"and {more:,} more"] if more > 0 else told


def _verdict(checks: Sequence[Check]) -> Section:
    rows = [
        (
            check.threshold.text,
            f"{check.n_compared:,}",
            f"{check.n_left_out:,}",
            "; ".join(check.allowed) or "none",
            "failed" if check.failures else "passed",
        )
        for check in checks
    ]
    sheet = Sheet(
        caption="what may get worse by how much; left out: rows without the figure in the first run",
        headers=("threshold", "rows", "left out", "allowed", "outcome"),
        align="lrrll",
        rows=rows,
    )
    return Section(title="Thresholds", sheets=[sheet], bullets=[one for check in checks for one in check.failures])


def _change_sheet(changes: Sequence[Change]) -> Sheet:
    rows = [
        (
            change.row.model,
            change.row.device,
            change.metric,
            change.show(change.before),
            change.show(change.after),
            wording.rounded(change.ratio),
            f"{change.judgement}{_remark(change)}",
        )
        for change in changes
    ]
    caption = "before: the first run, after: the second, ratio: the second by the first"
    return Sheet(caption=caption, headers=_CHANGE_HEADERS, align="nllrrrl", rows=rows)


def _remark(change: Change) -> str:
    return f" ({change.remark})" if change.remark else ""


def _cell(history: History, point: Point | None) -> str:
    if point is None:
        return "-"
    if point.value is None:
        return point.row.status_in_words if point.row.status != "ok" else wording.NOT_AVAILABLE
    show = history.metric.show
    span = f" ({show(point.span[0])} to {show(point.span[1])})" if point.span else ""
    return f"{show(point.value)}{span}{' †' if point.breaks else ''}"


def _reasons(lines: Sequence[Line]) -> list[str]:
    """Why figures are missing: each reason once, with its models and runs."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for number, point in enumerate(line.points, start=1):
            if point and point.value is None:
                status = "" if point.row.status == "ok" else f"{point.row.status_in_words}, "
                where = f"{wording.isolated(line.row.model)} in run {number}"
                found.setdefault(f"{status}{point.reason}", []).append(where)
    return [f"{wording.listed(where)}: {wording.isolated(reason)}" for reason, where in found.items()]


def _named(lines: Sequence[Line]) -> list[tuple[str, Row]]:
    """The rows that lines stand for, with their names among each other."""
    among = [line.row for line in lines]
    return [(label_of(row, among), row) for row in among]


def _bullets(title: str, bullets: Iterable[str]) -> list[Section]:
    """A section where there is something to say."""
    lines = list(bullets)
    return [Section(title=title, bullets=lines)] if lines else []


def _provenance(names: Sequence[str], runs: Sequence[Run]) -> Section:
    rows = [
        (name, run.info.started_utc, _commit(run), f"version {run.info.rules_version}", run.info.command)
        for name, run in zip(names, runs, strict=True)
    ]
    headers = ("run", "started", "commit", "rules", "command")
    sheet = Sheet(caption="where the runs come from", headers=headers, align="lllll", rows=rows)
    return Section(title="Provenance", sheets=[sheet])


def _commit(run: Run) -> str:
    return commit_of(run.info.environment) or wording.NOT_AVAILABLE
