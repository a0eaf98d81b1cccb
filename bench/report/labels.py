"""Names beside the points and lines of a figure, where they cover neither each other nor what they name.

Call these when limits, scales and layout of the axes are final.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.textpath import TextPath

from bench.report.drawing import INK, Style, drawable

SIZE_PT = 8
# what the mark of a point takes on each side, and how much of a line's height its letters take
_MARK_PX = 6.5
_LEADING = 1.35
# how far a label may be from its point, and in which directions, best first; from 14 on it has a line to its point
_DISTANCES_PX = (9, 15, 24, 36, 52, 72, 96)
_DIRECTIONS_DEG = (0, 180, 35, -35, 145, -145, 90, -90, 65, -65, 115, -115)
_FAR_PX = 14
# how often labels are placed anew where some found no room, and of how many at most
_TRIES = 12
_MOST_TRIED = 20

# lines behind a name are seen, but do not strike it through
_GROUND: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3}

Box = tuple[float, float, float, float]
Pixel = tuple[float, float]


def place_labels(
    axes: Axes,
    points: Sequence[Pixel],
    labels: Sequence[str],
    colours: Sequence[str],
    *,
    line: Sequence[Pixel] = (),
) -> bool:
    """Write a label beside each point where it covers no other label or point; True when all found room.

    Where there is room beside the `line` of corners, it is left free too.  A label without room is written
    nevertheless, at its point's side, over what is there.
    """
    pixels = [(float(x), float(y)) for x, y in axes.transData.transform(points)]
    sizes = [size_px(label, _dpi(axes)) for label in labels]
    inside = axes.get_window_extent()
    room = _Room(
        inside=(inside.x0, inside.y0, inside.x1, inside.y1),
        marks=[_around(pixel, _MARK_PX) for pixel in pixels],
        avoided=_along(axes, line),
    )
    order = list(range(len(labels)))
    best: list[Box | None] = [None] * (len(labels) + 1)
    for _ in range(_TRIES if len(labels) <= _MOST_TRIED else 1):
        boxes = _plan(order, pixels, sizes, room)
        best = min(best, boxes, key=lambda found: found.count(None))
        # whoever comes first has the choice: those that were left without come first in the next try
        lost = [n for n, box in enumerate(boxes) if box is None]
        if not lost:
            break
        order = [*lost, *[n for n in order if n not in lost]]
    for pixel, point, size, box, label, colour in zip(pixels, points, sizes, best, labels, colours, strict=True):
        _write(axes, point, pixel, box or next(_spots(pixel, *size)), label, colour)
    return None not in best


@dataclass(frozen=True)
class _Room:
    """Where labels may be, what they may not cover, and what they cover only where nothing else is left."""

    inside: Box
    marks: Sequence[Box]
    avoided: Sequence[Box]


def _plan(
    order: Sequence[int], pixels: Sequence[Pixel], sizes: Sequence[tuple[float, float]], room: _Room
) -> list[Box | None]:
    """A place for each label, found in this order; None for those that are left without."""
    written: list[Box] = []
    found: list[Box | None] = [None] * len(pixels)
    for n in order:
        box = _place(pixels[n], sizes[n], room, written)
        if box is not None:
            found[n] = box
            written += [box, *_leader(box, pixels[n])]
    return found


def _place(pixel: Pixel, size: tuple[float, float], room: _Room, written: Sequence[Box]) -> Box | None:
    second = None
    for box in _spots(pixel, *size):
        # lines to points may cross marks, which are seen through them, but no words
        is_taken = _hits([box], room.marks) or _hits([box, *_leader(box, pixel)], written)
        if is_taken or not _is_within(box, room.inside):
            continue
        if not _hits([box], room.avoided):
            return box
        second = second or box
    return second


def name_ends(axes: Axes, ends: Sequence[tuple[str, float, Style]], *, figure_height_in: float) -> None:
    """Names at the right, at the height where each line ends, moved apart where they would touch."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    heights = [(math.log(value) - low) / (high - low) for _, value, _ in ends]
    beside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    gap = 0.16 / (figure_height_in - 0.7)
    for (name, _, look), height, moved in zip(ends, heights, spread(heights, gap, 0, 1), strict=True):
        xy = ([1, 1.03], [min(height, 1), moved])
        axes.plot(*xy, ls="-", marker=look.marker, markevery=[1], ms=4.5, color=look.colour, lw=0.7, **beside)
        axes.text(1.045, moved, look.label or drawable(name), va="center", fontsize=SIZE_PT, **beside)


def name_levels(
    axes: Axes, levels: Sequence[tuple[str, float]], lines: Sequence[Sequence[tuple[float, float]]]
) -> None:
    """The name of each horizontal level on it, where it is farthest from all lines and from the names before it.

    A level whose name would cover another's in every place has none.
    """
    inside = axes.get_window_extent()
    seen = [[(float(x), float(y)) for x, y in axes.transData.transform(line)] for line in lines if line]
    written: list[Box] = []
    for name, level in levels:
        width, height = size_px(name, _dpi(axes))
        bottom = float(axes.transData.transform((axes.get_xlim()[0], level))[1]) + 1
        lefts = [inside.x0 + 6 + share * (inside.width - width - 12) for share in (0, 1, 0.25, 0.75, 0.5)]
        boxes = [(left, bottom, left + width, bottom + height) for left in lefts]
        free = [box for box in boxes if not _hits([box], written)]
        if not free:
            continue
        box = max(free, key=lambda box: _clearance(box, seen))
        written.append(box)
        left, bottom = axes.transData.inverted().transform(box[:2])
        axes.text(left, bottom, name, va="bottom", fontsize=SIZE_PT, color="#3C4552", zorder=4, bbox=_GROUND)


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions moved apart to at least `gap`, in their order, inside low..high where there is room."""
    order = sorted(range(len(positions)), key=lambda n: (positions[n], n))
    gap = min(gap, (high - low) / max(len(positions) - 1, 1))
    moved = [min(max(position, low), high) for position in positions]
    # relaxing a few times shares the shift between neighbours instead of pushing everything one way
    for _ in range(200):
        worst = 0.0
        for below, above in itertools.pairwise(order):
            lack = gap - (moved[above] - moved[below])
            if lack > 1e-9:
                worst = max(worst, lack)
                moved[below] -= lack / 2
                moved[above] += lack / 2
        moved = [min(max(position, low), high) for position in moved]
        if worst < gap * 0.02:
            break
    return moved


def size_px(text: str, dpi: float) -> tuple[float, float]:
    """Width and height of a label, in pixels."""
    return (sum(map(_advance_pt, text)) + 3) * dpi / 72, SIZE_PT * _LEADING * dpi / 72


@cache
def _advance_pt(sign: str) -> float:
    """How far a sign moves those behind it; measuring each whole label would take most of a figure's time."""
    widths = [TextPath((0, 0), text, size=SIZE_PT).get_extents().width for text in (f"x{sign}x", "xx")]
    return float(widths[0] - widths[1])


def _dpi(axes: Axes) -> float:
    return float(axes.figure.dpi)


def _spots(pixel: Pixel, width: float, height: float) -> Iterator[Box]:
    """Where the label of a point may stand, best first."""
    for distance, degrees in itertools.product(_DISTANCES_PX, _DIRECTIONS_DEG):
        right, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        is_beside = abs(right) > 0.1
        x = pixel[0] + distance * right + (math.copysign(width / 2, right) if is_beside else 0)
        y = pixel[1] + distance * up + (0 if is_beside else math.copysign(height / 2, up))
        yield (x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _leader(box: Box, pixel: Pixel) -> list[Box]:
    """The line from a label to its point, as small boxes; none where they stand close together."""
    x, y = _nearest(box, pixel)
    length = math.dist((x, y), pixel)
    if length <= _FAR_PX:
        return []
    n_parts = int(length / 4)
    shares = [part / n_parts for part in range(1, n_parts)]
    places = [(x + share * (pixel[0] - x), y + share * (pixel[1] - y)) for share in shares]
    return [_around(place, 1.0) for place in places]


def _along(axes: Axes, line: Sequence[Pixel]) -> list[Box]:
    """A line of right angles, as one thin box for each of its parts."""
    corners = [(float(x), float(y)) for x, y in axes.transData.transform(line)] if line else []
    return [
        (min(x0, x1) - 1.0, min(y0, y1) - 1.0, max(x0, x1) + 1.0, max(y0, y1) + 1.0)
        for (x0, y0), (x1, y1) in itertools.pairwise(corners)
    ]


def _nearest(box: Box, pixel: Pixel) -> Pixel:
    """The place of a box that is nearest to a point."""
    return min(max(pixel[0], box[0]), box[2]), min(max(pixel[1], box[1]), box[3])


def _around(pixel: Pixel, margin: float) -> Box:
    return pixel[0] - margin, pixel[1] - margin, pixel[0] + margin, pixel[1] + margin


def _is_within(box: Box, outer: Box) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _hits(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for a in boxes for b in others)


def _clearance(box: Box, lines: Sequence[Sequence[Pixel]]) -> float:
    """Pixels between a box and the nearest line above or below it; lines are seen at their points."""
    middle = (box[1] + box[3]) / 2
    gaps = [abs(y - middle) for line in lines for x, y in line if box[0] - 10 <= x <= box[2] + 10]
    return min(gaps, default=math.inf)


def _write(axes: Axes, point: tuple[float, float], pixel: Pixel, box: Box, label: str, colour: str) -> None:
    to_points = 72 / _dpi(axes)
    x, y = _nearest(box, pixel)
    is_far = math.dist((x, y), pixel) > _FAR_PX
    width, height = box[2] - box[0], box[3] - box[1]
    # a thin line from the nearest place of the label to its point
    leader = {
        "arrowstyle": "-",
        "color": colour,
        "lw": 0.6,
        "shrinkA": 0,
        "shrinkB": 3,
        "relpos": ((x - box[0]) / width, (y - box[1]) / height),
    }
    axes.annotate(
        label,
        point,
        xytext=(((box[0] + box[2]) / 2 - pixel[0]) * to_points, ((box[1] + box[3]) / 2 - pixel[1]) * to_points),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=SIZE_PT,
        color=INK,
        arrowprops=leader if is_far else None,
        bbox=_GROUND,
    )
