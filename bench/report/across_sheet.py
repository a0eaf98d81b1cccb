"""What the report says of a text that was cut in more than one way."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.report import wording
from bench.report.across import Across, figure_of
from bench.report.answer import label_of
from bench.report.rows import Row, typical
from bench.report.sheets import Sheet, number
from bench.report.tables import summary_of


def across_sentence(across: Across) -> str:
    """The winner on the scale that all share, and what cannot be told from it."""
    order = [row for row in across.order if across.value(row) is not None]
    if not order:
        return "No model has a figure that compares across them; the reasons stand under the table."
    best, interval = order[0], across.interval(order[0])
    span = f" (95 % interval {wording.rounded(interval.low)} to {wording.rounded(interval.high)})" if interval else ""
    ties = [across.name(row) for row in order[1:] if across.against_best(row) == "~"]
    told = f"; not significantly different are {wording.listed(ties)}" if ties else ""
    value = wording.rounded(across.value(best))
    return f"{across.name(best)} takes the fewest {across.unit_in_words}, {value}{span}{told}."


def across_sheet(across: Across) -> Sheet:
    """All rows of a text, best first, whatever cut it."""
    rows = []
    for place, row in enumerate(across.order, start=1):
        value, interval = across.value(row), across.interval(row)
        low, high = (interval.low, interval.high) if interval and value is not None else (None, None)
        rows.append(
            (
                str(place) if value is not None else "",
                label_of(row, across.rows),
                across.tokens(row),
                wording.with_interval(value, low, high) if row.status == "ok" else row.status_in_words,
                across.against_best(row) if value is not None else wording.NOT_AVAILABLE,
                wording.count(number(summary_of(row)["n_tokens"])),
                wording.seconds(typical(record.train_s for record in row.fine)),
                wording.size(number(summary_of(row)["model_bytes"])),
            )
        )
    return Sheet(
        caption=f"by {across.unit_in_words} of the test text, every <unk> charged its spelling",
        headers=("#", "model", "tokens", f"bits/{across.unit}", "against best", "test tokens", "training", "size"),
        align="rnlrlrrr",
        rows=rows,
        notes=[*_about_unit(across), *_reasons(across)],
    )


def _about_unit(across: Across) -> list[str]:
    """Why characters and not bytes, where that is so."""
    if across.unit == "byte":
        return []
    reasons = {figure_of(m, "byte").reason for row in across.rows for m in row.measured}
    return [f"not per byte: {reason}" for reason in sorted(filter(None, reasons))]


def _reasons(across: Across) -> list[str]:
    """Why a row that ended well has no figure, and why one is infinite."""
    found: dict[str, list[str]] = {}
    for row in across.order:
        for reason in _reasons_of(across, row):
            found.setdefault(reason, []).append(across.name(row))
    return [f"{wording.listed(names)}: {reason}" for reason, names in found.items()]


def _reasons_of(across: Across, row: Row) -> Sequence[str]:
    if row.status != "ok":
        return [f"{row.status_in_words}{f', {row.reason}' if row.reason else ''}"]
    value = across.value(row)
    if value is not None and math.isfinite(value):
        return []
    return list(dict.fromkeys(figure_of(m, across.unit).reason or "no figure" for m in row.measured))
