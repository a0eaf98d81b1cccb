"""The n-grams of a stretch of text, sorted, and many such runs merged into one.

A text that is sorted at once is one run.  A longer one is cut into stretches; each leaves its distinct n-grams in
order, and a merge of all runs numbers the n-grams of the whole text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.columns import Column, Room

Keys = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.signedinteger[Any]]
Counts = npt.NDArray[np.signedinteger[Any]]

ABSENT = -1

# leading bits that keys are laid out by at most, as a number
_MOST_GROUPS = 1 << 16


class Grams(NamedTuple):
    """Some distinct n-grams, sorted: packed keys, counts, and ids one order below of those without the first token."""

    keys_G: Keys
    counts_G: Counts
    suffix_G: Nodes


def node_type(n_positions: int) -> type[np.signedinteger[Any]]:
    """The type of ids and counts in a text of so many tokens: nothing there is numbered higher."""
    return np.int32 if n_positions <= np.iinfo(np.int32).max else np.int64


def token_type(n_symbols: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every id of a vocabulary."""
    return next(t for t in (np.uint8, np.uint16, np.uint32) if n_symbols - 1 <= np.iinfo(t).max)


def count_stretch(
    tokens_N: Nodes, history_N: Nodes, shorter_N: Nodes, is_first_N: npt.NDArray[np.bool_], shape: tuple[int, int]
) -> tuple[Grams, Keys]:
    """The n-grams that end in a stretch of text, and the places where they end, n-gram by n-gram.

    Args:
        tokens_N: the text.
        history_N, shorter_N: the n-grams one order below that end before and at each place.
        is_first_N: where a document starts; nothing but `<s>` itself ends there.
        shape: how many histories there are, and symbols.
    """
    n_histories, n_symbols = shape
    keys_N = history_N.astype(np.int64)
    keys_N *= n_symbols
    keys_N += tokens_N
    is_outside_N = (history_N == ABSENT) | is_first_N
    # behind all others: a few too many are sorted sooner than the right ones are picked out
    none = n_histories * n_symbols
    keys_N[is_outside_N] = none
    n_ends = len(keys_N) - int(np.count_nonzero(is_outside_N))
    sorted_N, place_N = sorted_with_places(keys_N, none)
    sorted_M, place_M = sorted_N[:n_ends], place_N[:n_ends]
    new_G = np.flatnonzero(_is_new(sorted_M))
    counts_G = np.empty(len(new_G), history_N.dtype)
    np.subtract(new_G[1:], new_G[:-1], out=counts_G[:-1], casting="same_kind")
    counts_G[-1:] = n_ends - new_G[-1:]
    grams = Grams(keys_G=sorted_M[new_G], counts_G=counts_G, suffix_G=shorter_N[place_M[new_G]])
    return grams, place_M


def nodes_at(grams: Grams, place_M: Keys, n_positions: int) -> Nodes:
    """At each position of a stretch the n-gram that ends there, or `ABSENT`."""
    dtype = grams.suffix_G.dtype
    nodes_N = np.full(n_positions, ABSENT, dtype)
    nodes_N[place_M] = np.repeat(np.arange(len(grams.keys_G), dtype=dtype), grams.counts_G)
    return nodes_N


def sorted_with_places(keys_M: Keys, most: int) -> tuple[Keys, Keys]:
    """Keys up to `most` in order, and the place of each before; the array given is used up.

    Key and place are sorted as one number, three times as fast as sorting places by key.  Where both do not fit, keys
    are first laid out by their leading bits, and what is left of them fits.
    """
    n_bits = len(keys_M).bit_length()
    n_left = 63 - n_bits
    n_groups = (most >> n_left) + 1
    if n_groups > _MOST_GROUPS:
        place_M = np.argsort(keys_M, kind="stable")
        return keys_M[place_M], place_M
    if n_groups == 1:
        keys_M <<= n_bits
        keys_M |= np.arange(len(keys_M), dtype=node_type(len(keys_M)))
        keys_M.sort()
        place_M = keys_M & ((1 << n_bits) - 1)
        keys_M >>= n_bits
        return keys_M, place_M
    # numbers of one byte or two are sorted by counting them
    leading_M = (keys_M >> n_left).astype(np.min_scalar_type(n_groups - 1))
    place_M = np.argsort(leading_M, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(leading_M, minlength=n_groups)))).tolist()
    del leading_M
    sorted_M = keys_M[place_M]
    for group, (start, end) in enumerate(pairwise(bounds)):
        part = sorted_M[start:end]
        part &= (1 << n_left) - 1
        part <<= n_bits
        part |= place_M[start:end]
        part.sort()
        np.bitwise_and(part, (1 << n_bits) - 1, out=place_M[start:end])
        part >>= n_bits
        part |= group << n_left
    return sorted_M, place_M


def _is_new(sorted_M: Keys) -> npt.NDArray[np.bool_]:
    """Whether each of some sorted keys differs from the one before it."""
    is_new_M = np.ones(len(sorted_M), np.bool_)
    np.not_equal(sorted_M[1:], sorted_M[:-1], out=is_new_M[1:])
    return is_new_M


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """The n-grams of all stretches, run after run, and the number that each gets in the merge."""

    keys_U: Column
    counts_U: Column
    suffix_U: Column
    number_U: Column
    bounds_R1: list[int]

    @classmethod
    def empty(cls, n_positions: int, room: Room) -> Runs:
        dtype = node_type(n_positions)
        counts_U, suffix_U, number_U = (room.empty(n_positions, dtype) for _ in range(3))
        return cls(
            keys_U=room.empty(n_positions, np.int64),
            counts_U=counts_U,
            suffix_U=suffix_U,
            number_U=number_U,
            bounds_R1=[0],
        )

    def append(self, grams: Grams) -> None:
        start = self.bounds_R1[-1]
        part = slice(start, start + len(grams.keys_G))
        self.keys_U[part], self.counts_U[part], self.suffix_U[part] = grams
        self.bounds_R1.append(part.stop)

    def numbers(self, run: int) -> Nodes:
        """The number of each n-gram of one run in the merge, and `ABSENT` at the end."""
        return np.append(self.number_U[self.bounds_R1[run] : self.bounds_R1[run + 1]], self.number_U.dtype.type(ABSENT))

    def merged(self, n_at_once: int) -> Iterator[Grams]:
        """All n-grams in order, each once, its counts summed, some at a time; `number_U` is filled on the way."""
        n_each = max(n_at_once // max(len(self.bounds_R1) - 1, 1), 1)
        cursors = [_Cursor(self, *bounds, n_each) for bounds in zip(self.bounds_R1, self.bounds_R1[1:], strict=False)]
        n_before = 0
        while cursors := [cursor for cursor in cursors if cursor.has_more()]:
            # what is beyond the least of the last keys in sight may still come from that run
            bound = min(int(cursor.keys[-1]) for cursor in cursors)
            parts = [cursor.take(bound) for cursor in cursors]
            grams, number_M = _merge([part for part, _ in parts], n_before)
            for (_, place), number in zip(parts, _split_like(number_M, [p for _, p in parts]), strict=True):
                self.number_U[place] = number
            n_before += len(grams.keys_G)
            yield grams


class _Cursor:
    """How far the merge has come in one run, and what of it is in sight."""

    def __init__(self, runs: Runs, start: int, end: int, n_at_once: int) -> None:
        self._runs, self._end, self._n_at_once = runs, end, n_at_once
        self._next = start
        self.keys: Keys = np.zeros(0, np.int64)

    def has_more(self) -> bool:
        """Whether anything is left; if so, something of it is in sight."""
        if not len(self.keys):
            self.keys = self._runs.keys_U[self._next : min(self._next + self._n_at_once, self._end)]
        return len(self.keys) > 0

    def take(self, bound: int) -> tuple[Grams, slice]:
        """What is in sight up to a key, and where it lies in the runs."""
        n = int(np.searchsorted(self.keys, bound, side="right"))
        place = slice(self._next, self._next + n)
        taken, self.keys = self.keys[:n], self.keys[n:]
        self._next += n
        return Grams(taken, self._runs.counts_U[place], self._runs.suffix_U[place]), place


def _merge(parts: Sequence[Grams], n_before: int) -> tuple[Grams, Nodes]:
    """Some sorted n-grams of several runs as one, and the number of each of them, counted from `n_before`."""
    keys_M, counts_M, suffix_M = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    # stable: made of sorted stretches, which that sort makes use of
    by_key_M = np.argsort(keys_M, kind="stable")
    sorted_M = keys_M[by_key_M]
    is_new_M = _is_new(sorted_M)
    new_G = np.flatnonzero(is_new_M)
    number_M = np.empty(len(keys_M), suffix_M.dtype)
    number_M[by_key_M] = np.cumsum(is_new_M, dtype=number_M.dtype) + (n_before - 1)
    grams = Grams(
        keys_G=sorted_M[new_G],
        counts_G=np.add.reduceat(counts_M[by_key_M], new_G),
        suffix_G=suffix_M[by_key_M[new_G]],
    )
    return grams, number_M


def _split_like(values: Nodes, places: Sequence[slice]) -> Iterator[Nodes]:
    start = 0
    for place in places:
        end = start + place.stop - place.start
        yield values[start:end]
        start = end
