"""Perplexity against what a model costs, a panel for each cost and device, with the Pareto front drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from bench.report import wording
from bench.report.answer import label_of
from bench.report.drawing import (
    COUNTING_COLOUR,
    INK,
    Style,
    byte_ticks,
    drawable,
    drawable_names,
    fix_layout,
    new_figure,
    plain_ticks,
    save,
    write_key,
)
from bench.report.front import (
    DEVICE_MEMORY,
    MEMORY,
    MODEL_SIZE,
    NEXT_TOKEN,
    SCORING,
    Cost,
    Offer,
    cost_on,
    devices_of,
    front_of,
    in_words,
    offers_of,
)
from bench.report.labels import place_labels
from bench.report.looks import looks_of
from bench.report.rows import Row

_WIDTH_IN = 8.4
# of a panel, up to so many models
_HEIGHTS_IN = ((10, 3.0), (20, 3.7))
_TALLEST_IN = 5.0
# an axis goes up to so many times the best perplexity
_MOST_TIMES = 1000.0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Models by perplexity and one cost on one device; `device` is empty where the run has one only.

    `beyond` are so far above the others that with them on the axis nothing could be told apart.
    """

    cost: Cost
    device: str
    offers: Sequence[Offer]
    looks: Sequence[Style]
    beyond: Sequence[Offer]

    @property
    def front(self) -> list[Offer]:
        return front_of(self.offers, self.cost)


def draw_size(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Test perplexity against the size of the stored model and against memory; gives back the alt text."""
    return _draw(rows, folder, stem, (MODEL_SIZE, MEMORY))


def draw_speed(rows: Sequence[Row], folder: Path, stem: str) -> str:
    """Test perplexity against speed: scoring whole texts, and one next token."""
    return _draw(rows, folder, stem, (SCORING, NEXT_TOKEN))


def _draw(rows: Sequence[Row], folder: Path, stem: str, costs: Sequence[Cost]) -> str:
    """Nothing is drawn, and the alt text is empty, where no model has a perplexity and a cost."""
    panels = _panels(rows, costs)
    names = list(dict.fromkeys(offer.name for panel in panels for offer in panel.offers))
    if not names:
        return ""
    figure, all_named = _figure(panels, dict(zip(names, drawable_names(names), strict=True)))
    if not all_named:
        # numbers need less room; where even they meet, each is still there
        figure, _ = _figure(panels, {name: str(n) for n, name in enumerate(names, start=1)}, key=names)
    save(figure, folder, stem)
    return " ".join(map(_words, panels))


def _panels(rows: Sequence[Row], costs: Sequence[Cost]) -> list[Panel]:
    """A line of panels for each cost, a column for each device."""
    devices, looks = devices_of(rows), looks_of(rows)
    found = []
    for cost in costs:
        for device, members in devices:
            own = cost_on(device, cost)
            every = offers_of(members, own)
            offers = [offer for offer in every if offer.perplexity <= _MOST_TIMES * every[0].perplexity]
            found.append(
                Panel(
                    cost=own,
                    device=device if len(devices) > 1 else "",
                    offers=offers,
                    looks=[looks[label_of(offer.row, rows)] for offer in offers],
                    beyond=every[len(offers) :],
                )
            )
    return found


def _figure(panels: Sequence[Panel], labels: Mapping[str, str], *, key: Sequence[str] = ()) -> tuple[Figure, bool]:
    """The panels with every mark labelled, and whether all labels found room."""
    n_columns = len({panel.device for panel in panels})
    n_rows = len(panels) // n_columns
    most = max(len(panel.offers) for panel in panels)
    height_in = next((height for n, height in _HEIGHTS_IN if most <= n), _TALLEST_IN)
    figure, several = new_figure(_WIDTH_IN, n_rows * height_in + 0.05 * len(key), n_columns, n_rows)
    for axes, panel in zip(several, panels, strict=True):
        _draw_panel(axes, panel)
    several[0].set_title("dashed: Pareto front", loc="right", fontsize=8)
    if key:
        write_key(figure, key)
    fix_layout(figure)
    named = [
        place_labels(
            axes,
            [(offer.cost, offer.perplexity) for offer in panel.offers],
            [labels[offer.name] for offer in panel.offers],
            [look.colour for look in panel.looks],
            line=_steps(axes, panel),
        )
        for axes, panel in zip(several, panels, strict=True)
        if panel.offers
    ]
    return figure, all(named)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    cost = panel.cost
    side = "right" if cost.more_is_better else "left"
    axes.set_xlabel(f"{cost.name}{f',{cost.unit}' if cost.unit else ''}: {side} is better")
    axes.set_ylabel("test perplexity")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(_title(panel))
    if not panel.offers:
        axes.text(0.5, 0.5, "no value", transform=axes.transAxes, ha="center")
        return
    costs, values = [offer.cost for offer in panel.offers], [offer.perplexity for offer in panel.offers]
    margin = max((max(costs) / min(costs)) ** 0.12, 1.3)
    axes.set_xlim(min(costs) / margin, max(costs) * margin)
    # names find room below the best
    axes.set_ylim(min(values) / 1.2, max(values) * 1.12)
    _draw_front(axes, panel)
    for offer, look in zip(panel.offers, panel.looks, strict=True):
        # hollow marks: counting models, in black and white too
        face = "white" if look.colour == COUNTING_COLOUR else look.colour
        axes.plot(
            offer.cost,
            offer.perplexity,
            look.marker,
            color=look.colour,
            markerfacecolor=face,
            ms=6.5,
            mew=1.4,
            zorder=3,
        )
    _ticks(cost)(axes.xaxis, *axes.get_xlim())
    plain_ticks(axes.yaxis, *axes.get_ylim())
    axes.grid(color="#E6EAEE", lw=0.6)
    axes.set_axisbelow(True)


def _draw_front(axes: Axes, panel: Panel) -> None:
    """The best perplexity to be had at each cost, as steps; models off it are beaten in both."""
    xs, ys = zip(*_steps(axes, panel), strict=True)
    axes.plot(xs, ys, color=INK, lw=1, ls=(0, (4, 2.5)), zorder=1.5)


def _title(panel: Panel) -> str:
    has_others = panel.device != "" and any(offer.row.device != panel.device for offer in panel.offers)
    above = wording.listed([drawable(offer.name) for offer in panel.beyond])
    parts = [f"{panel.device} (hollow: on the cpu)" if has_others else panel.device, above and f"far above: {above}"]
    return "; ".join(filter(None, parts))


def _steps(axes: Axes, panel: Panel) -> list[tuple[float, float]]:
    """The corners of the front's line, from the top of the panel to its dear side."""
    front = panel.front
    dear = axes.get_xlim()[0 if panel.cost.more_is_better else 1]
    worst = axes.get_ylim()[1]
    places = [(front[0].cost, worst)]
    for offer in front:
        places += [(offer.cost, places[-1][1]), (offer.cost, offer.perplexity)]
    return [*places, (dear, places[-1][1])]


def _ticks(cost: Cost) -> Callable[[Axis, float, float], None]:
    if cost in (MODEL_SIZE, MEMORY, DEVICE_MEMORY):
        return byte_ticks
    return _count_ticks if cost is SCORING else _few_ticks


def _count_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, show=lambda value: wording.count(value, 1), most=6)


def _few_ticks(axis: Axis, low: float, high: float) -> None:
    plain_ticks(axis, low, high, most=6)


def _words(panel: Panel) -> str:
    """The alt text of a panel: its models, best first, and its front."""
    where = f" on {panel.device}" if panel.device else ""
    if not panel.offers:
        return f"Test perplexity against {panel.cost.name}{where}: no value."
    every = [*panel.offers, *panel.beyond]
    shown = [f"{one.name} {wording.perplexity(one.perplexity)} at {in_words(one, panel.cost)}" for one in every]
    front = wording.listed([one.name for one in panel.front])
    return f"Test perplexity against {panel.cost.name}{where}: {'; '.join(shown)}. Pareto front: {front}."
