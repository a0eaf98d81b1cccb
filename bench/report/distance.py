"""The table of distances to the source of a text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.report import wording
from bench.report.answer import label_of
from bench.report.excess import Excess, entropy_of, excess_of
from bench.report.rows import Row, ranked
from bench.report.sheets import Sheet


def distance_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Excess nats and bits per token of each ranked row of a group; nothing where its source is not known."""
    entropy_nats = entropy_of(rows)
    found = [(row, excess) for row in ranked(rows) if (excess := excess_of(row)) is not None]
    if entropy_nats is None or not found:
        return []
    source = wording.perplexity(math.exp(entropy_nats))
    return [
        Sheet(
            caption=f"distance to the source of the text, whose perplexity is {source} "
            f"({wording.rounded(entropy_nats, 5)} nats per token)",
            headers=(
                "model",
                "excess nats/token",
                "95 % interval",
                "excess bits/token",
                "perplexity / source's",
            ),
            align="nrrrr",
            rows=[_line(label_of(row, rows), excess) for row, excess in found],
            notes=[
                f"{wording.isolated(label_of(row, rows))} is below the source beyond noise: a fault of measuring, "
                "or test text seen in training"
                for row, excess in found
                if excess.is_below
            ],
        )
    ]


def _line(name: str, excess: Excess) -> tuple[str, ...]:
    low, high = excess.low, excess.high
    return (
        name,
        wording.rounded(excess.nats),
        wording.NOT_AVAILABLE if low is None else f"{wording.rounded(low)} to {wording.rounded(high)}",
        wording.rounded(excess.nats / math.log(2)),
        wording.rounded(math.exp(min(excess.nats, 700.0)) if math.isfinite(excess.nats) else math.inf),
    )
