"""The same passage as each model sees it: colours by bits, and what is told of a token under the pointer or in focus.

Every sign that could turn or break the text around it (controls, marks of direction) is spelt out; letters of any
script stay as they are, and in their order.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from bench.profiled import LONGEST, Passage
from bench.report import wording
from bench.report.answer import label_of
from bench.report.profiles import chosen, profiles_of, with_profile
from bench.report.rows import Row

# bits from which on a token has the next darker shade
LEVELS: Sequence[float] = (0.5, 1, 2, 4, 6, 9, 13)
IMPOSSIBLE = "never"
# models side by side, and all of a report's together, so that the page stays small; in one of more texts there are none
MOST_SHOWN = 12
_MOST_IN_ALL, _FEWEST, _MOST_TEXTS = 48, 3, 16
_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}
_MARKS_OF_DIRECTION = "\u200e\u200f\u061c"
_CONTEXT = 18


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A token as one model sees it.

    `level` is the name of its shade; `told` what stands beside it: probability, bits, order, the likeliest tokens.
    """

    text: str
    level: str
    told: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class View:
    """A passage as one model sees it."""

    name: str
    perplexity: str
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Passages:
    """All views of a passage; `tokens` name each token for whoever points at it."""

    views: Sequence[View]
    tokens: Sequence[str]
    separator: str
    legend: Sequence[tuple[str, str]]


def passage_of(row: Row) -> Passage | None:
    """That of the first seed that has one."""
    return next((profile.passage for profile in profiles_of(row) if profile.passage is not None), None)


def sharing(rows: Sequence[Row]) -> list[tuple[Row, Passage]]:
    """The ranked rows, best first, whose passage is that of the best one."""
    found = [(row, passage) for row in with_profile(rows) if (passage := passage_of(row)) is not None]
    return [(row, passage) for row, passage in found if _is_same(passage, found[0][1])]


def _is_same(a: Passage, b: Passage) -> bool:
    return (a.start, a.tokens) == (b.start, b.tokens)


def most_shown(n_texts: int) -> int:
    """How many models are shown side by side in a report of so many texts."""
    if n_texts > _MOST_TEXTS:
        return 0
    return min(max(_MOST_IN_ALL // max(n_texts, 1), _FEWEST), MOST_SHOWN)


def views_of(rows: Sequence[Row], most: int) -> Passages | None:
    """The passage of a group as its models see it, at most so many of them; None where no record has one."""
    shared = sharing(rows)
    if not shared or not most:
        return None
    passages = {id(row): passage for row, passage in shared}
    shown = chosen([row for row, _ in shared], most)
    first = shared[0][1]
    return Passages(
        views=[
            View(
                name=label_of(row, rows),
                perplexity=wording.perplexity(row.test_perplexity),
                cells=[_cell(passages[id(row)], at) for at in range(len(first.tokens))],
            )
            for row in shown
        ],
        tokens=[_called(first, at) for at in range(len(first.tokens))],
        separator=first.separator,
        legend=_legend(),
    )


def readable(text: str) -> str:
    """A text whose controls and marks of direction are spelt out; line ends too."""
    return "".join(sign if _is_plain(sign) else wording.spelt(sign) for sign in text)


def called(token: str) -> str:
    """A token by itself: white space has a sign, a lone mark a circle to sit on."""
    if token and unicodedata.combining(token[0]):
        return f"◌{readable(token)}"
    return "".join(_SIGNS.get(sign, sign if _is_plain(sign) else wording.spelt(sign)) for sign in token)


def in_its_place(passage: Passage, at: int) -> str:
    """A token between brackets, with a little of what stands around it."""
    before = passage.separator.join(passage.tokens[max(at - _CONTEXT, 0) : at])
    after = passage.separator.join(passage.tokens[at + 1 : at + 1 + _CONTEXT])
    separator = passage.separator
    around = [readable(part.replace("\n", " ")) for part in (before[-_CONTEXT:], after[:_CONTEXT])]
    return wording.isolated(f"{around[0]}{separator}[{called(passage.tokens[at])}]{separator}{around[1]}")


def choices_in_words(passage: Passage, at: int, most: int = 5) -> str:
    """The likeliest tokens with their probabilities: `e 41 %, n 20 %`."""
    some = list(zip(passage.choices[at], passage.choices_p[at], strict=True))[:most]
    return ", ".join(f"{wording.isolated(called(token))} {percent(p)}" for token, p in some)


def percent(p: float) -> str:
    """A probability in per cent, with two digits; the smallest as a power of ten."""
    return "0 %" if p == 0 else f"{wording.rounded(100 * p, 2)} %" if p >= 1e-5 else f"{100 * p:.0e} %"


def probability(nats: float | None) -> float:
    return 0.0 if nats is None else math.exp(-nats)


def _cell(passage: Passage, at: int) -> Cell:
    nats, token = passage.nats[at], passage.tokens[at]
    bits = math.inf if nats is None else nats / math.log(2)
    told = [percent(probability(nats)), f"{wording.rounded(bits, 2)} bits"]
    if passage.model_orders:
        order = passage.model_orders[at]
        told.append(f"matched {order} token{'s' * (order != 1)}")
    if passage.choices[at]:
        told.append(f"likeliest: {choices_in_words(passage, at)}")
    kind = "oov" if at in passage.unknown else "end" if at in passage.ends else ""
    return Cell(text=_set(token, kind), level=_level(bits), told="\n".join(told), kind=kind)


def _set(token: str, kind: str) -> str:
    """How a token stands in the passage: a line end is seen, and it ends the line."""
    if kind == "end":
        return f"{token}\n"
    return "".join("↵\n" if sign == "\n" else sign if _is_plain(sign) else wording.spelt(sign) for sign in token)


def _called(passage: Passage, at: int) -> str:
    """What a token is, whoever predicts it."""
    name = wording.isolated(called(passage.tokens[at]))
    if at in passage.unknown:
        name += ", out of vocabulary: scored as <unk>"
    if at in passage.ends:
        name += ", end of the document"
    # under <unk>, the training text may have it all the same
    if passage.orders and at not in passage.unknown:
        name += f" · the training text has {_match(passage.orders[at])}"
    return name


def _match(order: int) -> str:
    if order < 2:
        return "this token, but not behind the one before" if order else "no such token"
    return f"the last {order}{' or more' if order == LONGEST else ''} tokens together"


def _level(bits: float) -> str:
    return IMPOSSIBLE if math.isinf(bits) else f"b{sum(bits >= low for low in LEVELS)}"


def _legend() -> list[tuple[str, str]]:
    """Each shade and the bits that it stands for."""
    names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(LEVELS)]
    bits = [f"below {LEVELS[0]:g}", *names, f"{LEVELS[-1]:g} or more", "impossible"]
    return list(zip([*(f"b{n}" for n in range(len(LEVELS) + 1)), IMPOSSIBLE], bits, strict=True))


def _is_plain(sign: str) -> bool:
    if sign in _MARKS_OF_DIRECTION or unicodedata.bidirectional(sign) in wording.DIRECTING:
        return False
    return unicodedata.category(sign) not in ("Cc", "Cs", "Zl", "Zp")
