"""From levels and their figures to one trie, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.columns import Column, Room, parts_of
from lmzoo.ngram.levels import Level
from lmzoo.ngram.runs import node_type
from lmzoo.ngram.smoothing import Figures
from lmzoo.ngram.trie import BLOCK, Starts, Trie, distance_type, packed, plain


def planted(levels: Sequence[Level], figures: Figures, room: Room) -> Trie:
    """The trie of counted and smoothed n-grams; its arrays are mapped from files where the room is on disk."""
    bounds = (0, *accumulate(map(len, levels)))
    tokens_G = room.empty(bounds[-1], levels[0].tokens_G.dtype)
    for level, (low, high) in zip(levels, pairwise(bounds), strict=True):
        for part in parts_of(high - low, room.n_grams):
            tokens_G[low + part.start : low + part.stop] = level.tokens_G[part]
    return Trie(
        bounds=bounds,
        tokens_G=room.mapped(tokens_G),
        starts=_starts(levels, bounds, room),
        logp=plain(room.mapped(figures.logp_G)),
        backoff=plain(room.mapped(figures.backoff_G)),
    )


def _starts(levels: Sequence[Level], bounds: Sequence[int], room: Room) -> Starts:
    n_symbols, n_nodes = bounds[1], bounds[-1]
    first_V1 = np.full(n_symbols + 1, n_symbols, np.int64)
    if len(levels) > 1:
        first_V1 += levels[1].starts_of(0, n_symbols)
    longer_H1 = room.empty(max(bounds[-2] - n_symbols, 0) + 1, node_type(n_nodes))
    n = 0
    for starts in _starts_of_longer(levels, bounds, room):
        longer_H1[n : n + len(starts)] = starts
        n += len(starts)
    bases_B, within_H1 = _packed(longer_H1, room)
    return Starts(first_V1=first_V1, bases_B=room.mapped(bases_B), within_H1=room.mapped(within_H1))


def _starts_of_longer(levels: Sequence[Level], bounds: Sequence[int], room: Room) -> Iterator[npt.NDArray[Any]]:
    """The node at which the continuations of each node above order 1 start, and the number of nodes."""
    for level, first_node in zip(levels[2:], bounds[2:], strict=False):
        for part in parts_of(level.n_histories, room.n_grams):
            yield first_node + level.starts_H1[part].astype(np.int64)
    yield np.array([bounds[-1]])


def _packed(starts_H1: Column, room: Room) -> tuple[Column, Column]:
    """The starts as a trie has them."""
    n_at_once = max(room.n_grams // BLOCK, 1) * BLOCK
    bases_B = room.empty(-(-len(starts_H1) // BLOCK), np.int64)
    most = 0
    for part in parts_of(len(starts_H1), n_at_once):
        bases_B[part.start // BLOCK : -(-part.stop // BLOCK)], within = packed(starts_H1[part])
        most = max(most, int(within.max(initial=0)))
    within_H1 = room.empty(len(starts_H1), distance_type(most))
    for part in parts_of(len(starts_H1), n_at_once):
        within_H1[part] = packed(starts_H1[part])[1].astype(within_H1.dtype)
    return bases_B, within_H1
