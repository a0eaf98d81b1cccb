"""What perplexity costs, and the Pareto front: the models that no other beats in perplexity and in cost alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.report import wording
from bench.report.answer import label_of
from bench.report.rows import Row, ranked
from bench.report.tables import Cell, above_baseline, number, summary_of

# beyond it, limits of axes leave the range of floats
LARGEST = 1e100
# of a front in a sentence
_MAX_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A cost of a model: how it and the least of it are called, what it is of a row's summary, how it is shown."""

    name: str
    unit: str
    least: str
    of: Callable[[Mapping[str, Cell]], float | None]
    show: Callable[[float | None], str]
    more_is_better: bool = False


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A model of a device with its perplexity and a cost of it."""

    row: Row
    name: str
    perplexity: float
    cost: float


MODEL_SIZE = Cost(
    name="model size", unit="", least="smallest", of=lambda s: number(s["model_bytes"]), show=wording.size
)
MEMORY = Cost(name="peak memory above the baseline", unit="", least="least", of=above_baseline, show=wording.size)
DEVICE_MEMORY = Cost(
    name="peak memory of the device",
    unit="",
    least="least",
    of=lambda s: number(s["peak_device_bytes"]),
    show=wording.size,
)
SCORING = Cost(
    name="scoring speed",
    unit=" tokens/s",
    least="fastest",
    of=lambda s: number(s["eval_tokens_per_s"]),
    show=wording.count,
    more_is_better=True,
)
NEXT_TOKEN = Cost(
    name="next token", unit=" µs", least="fastest", of=lambda s: number(s["next_token_us"]), show=wording.rounded
)


def devices_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """What there is to choose from on each device: its rows, and those of models that ran on the CPU alone."""
    on_cpu = [row for row in rows if row.device == "cpu"]
    found = []
    for device in sorted({row.device for row in rows}):
        own = [row for row in rows if row.device == device]
        models = {row.model for row in own}
        found.append((device, own if device == "cpu" else [*own, *[row for row in on_cpu if row.model not in models]]))
    return found


def cost_on(device: str, cost: Cost) -> Cost:
    """A model on a device needs the memory of that."""
    return DEVICE_MEMORY if cost is MEMORY and device != "cpu" else cost


def offers_of(rows: Sequence[Row], cost: Cost) -> list[Offer]:
    """The ranked rows that have a cost and a perplexity which logarithmic axes can show, best perplexity first."""
    found = []
    for row in ranked(rows):
        value, perplexity = cost.of(summary_of(row)), row.test_perplexity
        if value is not None and 0 < value < LARGEST and perplexity is not None and perplexity < LARGEST:
            # a panel or a sentence is of one device: names do without it
            found.append(Offer(row=row, name=label_of(row, [row]), perplexity=perplexity, cost=value))
    return found


def front_of(offers: Sequence[Offer], cost: Cost) -> list[Offer]:
    """Those that no other beats in one and equals or beats in the other, cheapest first; equals stand side by side."""
    sign = -1 if cost.more_is_better else 1
    front: list[Offer] = []
    best = math.inf
    for offer in sorted(offers, key=lambda one: (sign * one.cost, one.perplexity, one.name)):
        is_equal = bool(front) and (front[-1].cost, front[-1].perplexity) == (offer.cost, offer.perplexity)
        if offer.perplexity < best or is_equal:
            front.append(offer)
            best = offer.perplexity
    return front


def front_notes(rows: Sequence[Row], costs: Sequence[Cost]) -> list[str]:
    """Which models to choose from under a budget, one sentence for each device and cost."""
    devices = devices_of(rows)
    notes = []
    for device, members in devices:
        where = f" on {device}" if len(devices) > 1 else ""
        for cost in (cost_on(device, cost) for cost in costs):
            offers = offers_of(members, cost)
            if len(offers) > 1:
                notes.append(_note(front_of(offers, cost), cost, where))
    return notes


def _note(front: Sequence[Offer], cost: Cost, where: str) -> str:
    if len(front) == 1:
        return f"{wording.isolated(front[0].name)} is best in both perplexity and {cost.name}{where}"
    shown = [
        f"{wording.isolated(offer.name)} ({wording.perplexity(offer.perplexity)}, {in_words(offer, cost)})"
        for offer in front
    ]
    if len(shown) > _MAX_SHOWN:
        shown = [*shown[: _MAX_SHOWN - 1], f"… {len(shown) - _MAX_SHOWN} more …", shown[-1]]
    return f"Pareto front of perplexity and {cost.name}{where}, {cost.least} first: {', '.join(shown)}"


def in_words(offer: Offer, cost: Cost) -> str:
    return f"{cost.show(offer.cost)}{cost.unit}"
