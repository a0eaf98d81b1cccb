"""Which style each row of a group has, the same in every plot of it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.answer import label_of
from bench.report.drawing import COUNTING_COLOUR, Style, styles
from bench.report.rows import Row, ranked_first

# more lines or dots than this cannot be told apart: the best have a style of their own, the others are pale
_MAX_NAMED = 16
PALE = Style("#C9CFD6", "o", "-")


def looks_of(rows: Sequence[Row]) -> dict[str, Style]:
    """A style for each row's label: colours for neural models, grey for the others; of very many, for the best only."""
    order = ranked_first(rows)
    named = {label_of(row, rows) for row in order[:_MAX_NAMED]}
    families = {label_of(row, rows): row.family for row in rows}
    neural = [name for name, family in families.items() if family == "neural" and name in named]
    others = [name for name, family in families.items() if family != "neural" and name in named]
    pale = {name: PALE for name in families if name not in named}
    return pale | styles(neural) | styles(others, colour=COUNTING_COLOUR)
