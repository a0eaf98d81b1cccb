"""The n-grams of one order, all of them or block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.columns import Column, Room, parts_of
from lmzoo.ngram.runs import Grams, Runs, token_type

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


@dataclass(kw_only=True, eq=False)
class Level:
    """All n-grams of one order, G of them, those of a history side by side and by rising token.

    At order 1 there is one for each symbol, seen or not, and its id is the symbol's.  The histories are the H n-grams
    one order below; at order 1 the one empty history, 0.

    Attributes:
        tokens_G: the last token of each.
        starts_H1: where the continuations of each history start, and the end of the last.
        counts_G: how often each was seen.
        suffix_G: the id, one order below, of the n-gram without its first token.
        starts: those whose first token is `<s>`; they are neighbours.
        n_symbols: V.
    """

    tokens_G: Column
    starts_H1: Column
    counts_G: Column
    suffix_G: Column
    starts: slice
    n_symbols: int

    def __len__(self) -> int:
        return len(self.tokens_G)

    @property
    def n_histories(self) -> int:
        return len(self.starts_H1) - 1

    @property
    def starts_G(self) -> npt.NDArray[np.bool_]:
        """Which of them begin with `<s>`."""
        return self.are_starts(slice(0, len(self)))

    def forget(self) -> None:
        """Let go of counts and suffixes, where only the n-grams themselves are still asked for."""
        self.counts_G = self.suffix_G = np.zeros(0, self.counts_G.dtype)

    def are_starts(self, grams: slice) -> npt.NDArray[np.bool_]:
        """Which of some n-grams begin with `<s>`."""
        id_G = np.arange(grams.start, grams.stop)
        return np.asarray((id_G >= self.starts.start) & (id_G < self.starts.stop))

    @cached_property
    def history_G(self) -> Ids:
        """The id of each n-gram's history, one order below; 0 at order 1."""
        return self._whole.history_G

    @cached_property
    def keys_G(self) -> Ids:
        """`history * V + token` of each."""
        return np.asarray(self.history_G * self.n_symbols + self.tokens_G[:])

    @cached_property
    def totals_H(self) -> Floats:
        """How often anything followed each history."""
        return self.sum_by_history(self.counts_G[:])

    def sum_by_history(self, values_G: npt.NDArray[Any]) -> Floats:
        """The values of the n-grams summed over each history; float64 of shape (n_histories,)."""
        return self._whole.sum_by_history(values_G)

    @cached_property
    def _whole(self) -> Block:
        return Block(level=self, first_history=0, starts_H1=self.starts_of(0, self.n_histories))

    def starts_of(self, low: int, high: int) -> Ids:
        """Where the continuations of the histories `low` to `high` start, `high` included."""
        return self.starts_H1[low : high + 1].astype(np.int64)

    def blocks(self, n_at_once: int) -> Iterator[Block]:
        """All n-grams, about so many at a time and never the continuations of one history apart."""
        low = 0
        while low < self.n_histories:
            starts_H1 = self.starts_of(low, min(low + n_at_once, self.n_histories))
            n = max(int(np.searchsorted(starts_H1, starts_H1[0] + n_at_once, side="right")) - 1, 1)
            yield Block(level=self, first_history=low, starts_H1=starts_H1[: n + 1])
            low += n


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """The continuations of some neighbouring histories.  H and G are those of the block."""

    level: Level
    first_history: int
    starts_H1: Ids

    @property
    def n_histories(self) -> int:
        return len(self.starts_H1) - 1

    @property
    def is_lowest(self) -> bool:
        """Whether this is order 1."""
        return self.level.n_histories == 1 and len(self.level) == self.level.n_symbols

    @property
    def grams(self) -> slice:
        """Which n-grams of the order they are."""
        return slice(int(self.starts_H1[0]), int(self.starts_H1[-1]))

    @property
    def histories(self) -> slice:
        """Which n-grams of the order below their histories are."""
        return slice(self.first_history, self.first_history + self.n_histories)

    @property
    def counts_G(self) -> npt.NDArray[Any]:
        """How often each was seen."""
        return self.level.counts_G[self.grams]

    @cached_property
    def history_G(self) -> Ids:
        """The history of each, counted from the block's first."""
        return np.repeat(np.arange(self.n_histories), np.diff(self.starts_H1))

    def sum_by_history(self, values_G: npt.NDArray[Any]) -> Floats:
        """Values of the n-grams summed over each history, from the first on, so that blocks change no digit."""
        return np.bincount(self.history_G, values_G, self.n_histories).astype(np.float64, copy=False)


def level_of_symbols(counts_V: npt.NDArray[Any], bos_id: int) -> Level:
    """Order 1, from how often each symbol occurs as something predicted."""
    n_symbols = len(counts_V)
    return Level(
        tokens_G=np.arange(n_symbols, dtype=token_type(n_symbols)),
        starts_H1=np.array([0, n_symbols], counts_V.dtype),
        counts_G=counts_V,
        suffix_G=np.zeros(n_symbols, counts_V.dtype),
        starts=slice(bos_id, bos_id + 1),
        n_symbols=n_symbols,
    )


def level_of_grams(grams: Grams, below: Level) -> Level:
    """One order up, from all its n-grams."""
    n_symbols = below.n_symbols
    history_G = grams.keys_G // n_symbols
    starts_H1 = np.zeros(len(below) + 1, grams.suffix_G.dtype)
    np.cumsum(np.bincount(history_G, minlength=len(below)), out=starts_H1[1:])
    history_G *= n_symbols
    return Level(
        tokens_G=(grams.keys_G - history_G).astype(token_type(n_symbols)),
        starts_H1=starts_H1,
        counts_G=grams.counts_G,
        suffix_G=grams.suffix_G,
        starts=_after(below.starts, starts_H1),
        n_symbols=n_symbols,
    )


def level_of_runs(runs: Runs, below: Level, room: Room) -> Level:
    """One order up, from runs yet to be merged."""
    n_symbols, n_most = below.n_symbols, runs.bounds_R1[-1]
    tokens_G = room.empty(n_most, token_type(n_symbols))
    counts_G, suffix_G = (room.empty(n_most, column.dtype) for column in (runs.counts_U, runs.suffix_U))
    starts_H1 = room.empty(len(below) + 1, runs.suffix_U.dtype)
    n_grams, n_written = 0, 0
    # as many at once as were sorted at once: the fewer for each run, the smaller the pieces that are read
    for grams in runs.merged((room.n_positions or room.n_grams) // 2 or 1):
        part = slice(n_grams, n_grams + len(grams.keys_G))
        history_G = grams.keys_G // n_symbols
        tokens_G[part] = (grams.keys_G - history_G * n_symbols).astype(tokens_G.dtype)
        counts_G[part], suffix_G[part] = grams.counts_G, grams.suffix_G
        # the starts of all histories up to the last one here are known now
        for some in parts_of(int(history_G[-1]) + 1, room.n_grams, n_written):
            starts_H1[some] = n_grams + np.searchsorted(history_G, np.arange(some.start, some.stop))
            n_written = some.stop
        n_grams = part.stop
    for some in parts_of(len(starts_H1), room.n_grams, n_written):
        starts_H1[some] = np.full(some.stop - some.start, n_grams)
    return Level(
        tokens_G=room.cut(tokens_G, n_grams),
        starts_H1=starts_H1,
        counts_G=room.cut(counts_G, n_grams),
        suffix_G=room.cut(suffix_G, n_grams),
        starts=_after(below.starts, starts_H1),
        n_symbols=n_symbols,
    )


def _after(histories: slice, starts_H1: Column) -> slice:
    """The continuations of some neighbouring histories."""
    first, last = histories.start, histories.stop
    return slice(int(starts_H1[first : first + 1][0]), int(starts_H1[last : last + 1][0]))
