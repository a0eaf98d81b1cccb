"""How far a model is from the source that its text was drawn from, where the entropy of that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report import notices, wording
from bench.report.rows import Row


@dataclass(frozen=True, kw_only=True)
class Excess:
    """Nats per token above the source's entropy, with a 95 % interval; `is_below`: beneath it by more than noise."""

    nats: float
    low: float | None
    high: float | None
    is_below: bool


def entropy_of(rows: Sequence[Row]) -> float | None:
    """Nats per token of the source of a group's text; None where it is not known."""
    known = {record.corpus.entropy_nats for row in rows for record in row.records if record.corpus}
    return known.pop() if len(known) == 1 else None


def excess_of(row: Row) -> Excess | None:
    """The distance of a ranked row; None where the source is not known.  Its test text's chance is in the interval."""
    entropy_nats = entropy_of([row])
    if entropy_nats is None or row.test_perplexity is None or not row.is_ranked:
        return None
    interval = row.interval
    return Excess(
        nats=math.log(row.test_perplexity) - entropy_nats,
        low=math.log(interval.low) - entropy_nats if interval else None,
        high=math.log(interval.high) - entropy_nats if interval else None,
        is_below=any(map(notices.is_below_source, row.fine)),
    )


def nearest_sentence(order: Sequence[Row], name: str) -> list[str]:
    """How far the best ranked row, called `name`, is from the source."""
    entropy_nats, excess = entropy_of(order), excess_of(order[0]) if order else None
    if entropy_nats is None or excess is None:
        return []
    if excess.is_below:
        return [
            f"The perplexity of {name} is BELOW that of the text's source, {_source(entropy_nats)}; see the warnings."
        ]
    source = f"The text was drawn from a source of perplexity {_source(entropy_nats)}"
    if excess.nats <= 0:
        return [f"{source}, which {name} is level with: what it is below that by is within noise."]
    return [
        f"{source}, below which no honest model can be; {name} costs {wording.rounded(excess.nats)} nats per token "
        "more."
    ]


def _source(entropy_nats: float) -> str:
    return wording.perplexity(math.exp(entropy_nats))
