"""What more training text is worth: perplexity, seconds and memory of each model against the tokens it learned from.

Groups that differ in the fraction of the training text alone belong together: a series.  The full report is about its
largest fraction; the others are compared here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.report import wording
from bench.report.answer import label_of
from bench.report.rows import Group, Number, Row, ranked_first
from bench.report.sheets import Sheet, number
from bench.report.tables import GROUP_COLUMNS, Cell, summary_of, write_csv
from bench.stats import Slope, power_law

SCALING_COLUMNS = (
    *("model", *GROUP_COLUMNS, "device", "status", "reason", "n_train_tokens"),
    *("test_perplexity", "test_perplexity_low", "test_perplexity_high", "train_s", "peak_rss_bytes"),
)
# a line through two points fits whatever they are
MIN_POINTS = 3


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of the summary that is looked at against the amount of text."""

    key: str
    title: str
    show: Callable[[float | None], str]


MEASURES = (
    Measure(key="test_perplexity", title="test perplexity", show=wording.perplexity),
    Measure(key="train_s", title="training seconds", show=wording.rounded),
    Measure(key="peak_rss_bytes", title="peak memory", show=wording.size),
)


@dataclass(frozen=True, kw_only=True)
class Series:
    """The groups of one text, smallest fraction first.  `whole` is the largest, which the full report is about."""

    groups: Mapping[Group, Sequence[Row]]

    @property
    def whole(self) -> Group:
        return list(self.groups)[-1]

    @property
    def is_several(self) -> bool:
        return len(self.groups) > 1

    @property
    def lines(self) -> Mapping[tuple[str, str], Sequence[Row]]:
        """The rows of each (model, device), smallest fraction first; models in the order of the largest's ranking."""
        last = self.groups[self.whole]
        order = ranked_first(last)
        found: dict[tuple[str, str], list[Row]] = {(row.model, row.device): [] for row in order}
        for rows in self.groups.values():
            for row in rows:
                found.setdefault((row.model, row.device), []).append(row)
        return found


def series_of(groups: Mapping[Group, Sequence[Row]]) -> list[Series]:
    """All groups, in series by text; most have one group only."""
    found: dict[Group, dict[Group, Sequence[Row]]] = {}
    for group, rows in groups.items():
        found.setdefault(replace(group, train_fraction=1.0), {})[group] = rows
    return [
        Series(groups={group: some[group] for group in sorted(some, key=lambda group: group.train_fraction)})
        for some in found.values()
    ]


def scaling_rows(several: Sequence[Series]) -> list[dict[str, Cell]]:
    """The rows of `scaling.csv`: each model at each fraction, of texts with more than one."""
    return [_csv_row(row) for one in several if one.is_several for line in one.lines.values() for row in line]


def write_scaling(folder: Path, several: Sequence[Series]) -> None:
    """Write `scaling.csv` into a folder, where some text has more than one fraction; otherwise there is none."""
    write_csv(folder / "scaling.csv", SCALING_COLUMNS, scaling_rows(several))


def points_of(line: Sequence[Row], measure: Measure) -> list[tuple[float, float]]:
    """(training tokens, value) of the rows of one model that finished; only what a logarithmic axis can show.

    A model that was read learned from no part of the text.
    """
    found = []
    for row in line:
        tokens, value = n_train_tokens(row), number(summary_of(row)[measure.key])
        if row.is_ranked and not row.is_read and tokens and value is not None and 0 < value < math.inf:
            found.append((float(tokens), value))
    return found


def slope_of(line: Sequence[Row], measure: Measure) -> Slope | None:
    """The exponent of the fitted power law; None with fewer than three different amounts of text."""
    points = points_of(line, measure)
    return power_law(points) if len({tokens for tokens, _ in points}) >= MIN_POINTS else None


def n_train_tokens(row: Row) -> Number | None:
    """Tokens of the training text; None where no trial of the row came so far as to read it."""
    return max((record.corpus.n_train_tokens for record in row.records if record.corpus), default=None)


def scaling_sheets(series: Series) -> list[Sheet]:
    """A table for each measure: a line per model, a column per fraction, the fitted slope last."""
    lines = [(label_of(line[-1], series.groups[series.whole]), line) for line in series.lines.values()]
    headers = ("model", *[_header(group, rows) for group, rows in series.groups.items()], "slope")
    return [
        Sheet(
            caption=f"{measure.title} by training tokens; slope: the exponent of the fitted power law, ± one standard "
            "error",
            headers=headers,
            align="n" + "r" * (len(headers) - 1),
            rows=[(name, *_cells(series, line, measure), _slope_text(slope_of(line, measure))) for name, line in lines],
            notes=_failures(lines) if measure is MEASURES[0] else (),
        )
        for measure in MEASURES
    ]


def _header(group: Group, rows: Sequence[Row]) -> str:
    tokens = max((n for row in rows if (n := n_train_tokens(row)) is not None), default=None)
    known = "" if tokens is None else f" ({wording.count(tokens)} tokens)"
    return f"{wording.fraction(group.train_fraction)}{known}"


def _cells(series: Series, line: Sequence[Row], measure: Measure) -> list[str]:
    at = {row.group: row for row in line}
    return [_cell(at.get(group), measure) for group in series.groups]


def _cell(row: Row | None, measure: Measure) -> str:
    if row is None:
        return wording.NOT_AVAILABLE
    if not row.is_ranked:
        return row.status_in_words
    return measure.show(number(summary_of(row)[measure.key]))


def _slope_text(slope: Slope | None) -> str:
    if slope is None:
        return wording.NOT_AVAILABLE
    # + 0.0: what rounds to nothing has no sign
    return f"{round(slope.slope, 3) + 0.0:.3f} ± {slope.error:.3f}"


def _failures(lines: Sequence[tuple[str, Sequence[Row]]]) -> list[str]:
    return [
        f"{wording.isolated(name)} at {wording.fraction(row.group.train_fraction)}: {row.status_in_words}"
        f"{f', {row.reason}' if row.reason else ''}"
        for name, line in lines
        for row in line
        if not row.is_ranked
    ]


def _csv_row(row: Row) -> dict[str, Cell]:
    summary = summary_of(row)
    return {**{key: summary.get(key) for key in SCALING_COLUMNS}, "n_train_tokens": n_train_tokens(row)}
