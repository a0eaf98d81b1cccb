"""Counting n-grams: sort packed keys, one order on top of the other.

An n-gram of order k is packed as `history * V + token`, where `history` is the id of its first k-1 tokens at order k-1.
Sorted keys number the n-grams of order k, so the continuations of a history lie side by side, and each key fits in
int64 whatever the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split

Keys = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int32]

ABSENT = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """All n-grams of one order, G of them, in the order of their keys.

    At order 1 there is one for each symbol, seen or not, and its id is the symbol's.  `suffix_G` is the id, one order
    below, of the n-gram without its first token; `starts_G` marks those whose first token is `<s>`.  The histories are
    the `n_histories` n-grams one order below; at order 1 the one empty history, 0.
    """

    keys_G: Keys
    counts_G: Counts
    suffix_G: Nodes
    starts_G: npt.NDArray[np.bool_]
    n_histories: int
    n_symbols: int

    @cached_property
    def history_G(self) -> Keys:
        """The id of each n-gram's history, one order below; 0 at order 1."""
        return self.keys_G // self.n_symbols

    def sum_by_history(self, values_G: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The values of the n-grams summed over each history; float64 of shape (n_histories,)."""
        return np.bincount(self.history_G, values_G, self.n_histories).astype(np.float64, copy=False)

    @cached_property
    def totals_H(self) -> npt.NDArray[np.float64]:
        """How often anything followed each history."""
        return self.sum_by_history(self.counts_G)


def count_ngrams(split: Split, order: int) -> list[Level]:
    """Count the n-grams of orders 1 to `order` in every document, `<s>` before its first token.

    `<s>` itself is context only: its own count is 0.
    """
    n_symbols = len(split.vocab)
    stream_N, place_N = stream_of(split)
    counts_V = np.bincount(stream_N, minlength=n_symbols).astype(np.int64)
    counts_V[split.vocab.bos_id] = 0
    symbols = np.arange(n_symbols)
    levels = [
        Level(
            keys_G=symbols,
            counts_G=counts_V,
            suffix_G=np.zeros(n_symbols, np.int32),
            starts_G=symbols == split.vocab.bos_id,
            n_histories=1,
            n_symbols=n_symbols,
        )
    ]
    nodes_N = stream_N
    for k in range(2, order + 1):
        level, nodes_N = _count_level(stream_N, nodes_N, place_N >= k - 1, levels[-1], n_symbols)
        levels.append(level)
    return levels


def stream_of(split: Split) -> tuple[Nodes, npt.NDArray[np.int64]]:
    """All documents, each after its `<s>`, and the place of each token in its document (`<s>` is at 0)."""
    lengths_D = split.lengths_D
    at_D = split.starts_D1[:-1] + np.arange(len(lengths_D))
    stream_N = np.insert(split.ids_N, split.starts_D1[:-1], split.vocab.bos_id)
    place_N = np.arange(len(stream_N)) - np.repeat(at_D, lengths_D + 1)
    return stream_N, place_N


def _count_level(
    stream_N: Nodes, shorter_N: Nodes, is_inside_N: npt.NDArray[np.bool_], below: Level, n_symbols: int
) -> tuple[Level, Nodes]:
    """The n-grams one order above `below`, and the id of the one that ends at each position (`ABSENT` at starts)."""
    ends_M = np.flatnonzero(is_inside_N)
    keys_M = shorter_N[ends_M - 1].astype(np.int64) * n_symbols + stream_N[ends_M]
    sorted_M, by_key = _sorted(keys_M)
    is_first_M = np.empty(len(sorted_M), np.bool_)
    is_first_M[:1] = True
    np.not_equal(sorted_M[1:], sorted_M[:-1], out=is_first_M[1:])
    first_G = np.flatnonzero(is_first_M)
    keys_G = sorted_M[first_G]
    nodes_N = np.full(len(stream_N), ABSENT, np.int32)
    nodes_N[ends_M[by_key]] = np.cumsum(is_first_M, dtype=np.int32) - 1
    level = Level(
        keys_G=keys_G,
        counts_G=np.diff(first_G, append=len(sorted_M)),
        suffix_G=shorter_N[ends_M[by_key[first_G]]],
        starts_G=below.starts_G[keys_G // n_symbols],
        n_histories=len(below.keys_G),
        n_symbols=n_symbols,
    )
    return level, nodes_N


def _sorted(keys_M: Keys) -> tuple[Keys, Keys]:
    """The keys in order and the place of each before.

    Key and place are sorted as one number where both fit: three times as fast as sorting places by key.
    """
    n_bits = len(keys_M).bit_length()
    if not len(keys_M) or int(keys_M.max()) >> (63 - n_bits):
        by_key = np.argsort(keys_M)
        return keys_M[by_key], by_key
    packed_M = (keys_M << n_bits) | np.arange(len(keys_M))
    packed_M.sort()
    return packed_M >> n_bits, packed_M & ((1 << n_bits) - 1)


def continuation_counts(levels: Sequence[Level]) -> list[Counts]:
    """Counts as Kneser-Ney takes them: at the highest order plain ones; below, how many different tokens stand before.

    What starts with `<s>` has nothing before it and keeps its plain count (Chen & Goodman 1998, section 4.1.6).
    """
    adjusted = []
    for level, above in pairwise(levels):
        before_G = np.bincount(above.suffix_G, minlength=len(level.keys_G))
        adjusted.append(np.where(level.starts_G, level.counts_G, before_G))
    return [*adjusted, levels[-1].counts_G]


def find_ngrams(split: Split, levels: Sequence[Level]) -> list[Nodes]:
    """For each order the id of the n-gram that ends at each place of another text's stream, or `ABSENT`.

    Places are those of `stream_of`; at order 1 the ids are the tokens' own.
    """
    stream_N, place_N = stream_of(split)
    nodes = [stream_N]
    for k, level in enumerate(levels[1:], start=2):
        ends_M = np.flatnonzero((place_N >= k - 1) & (np.roll(nodes[-1], 1) != ABSENT))
        wanted_M = nodes[-1][ends_M - 1].astype(np.int64) * level.n_symbols + stream_N[ends_M]
        at_M = np.minimum(np.searchsorted(level.keys_G, wanted_M), max(len(level.keys_G) - 1, 0))
        nodes_N = np.full(len(stream_N), ABSENT, np.int32)
        if len(level.keys_G):
            nodes_N[ends_M] = np.where(level.keys_G[at_M] == wanted_M, at_M, ABSENT)
        nodes.append(nodes_N)
    return nodes


def counts_of_counts(counts_G: Counts, up_to: int = 4) -> list[int]:
    """How many n-grams have count 1, 2, … `up_to`."""
    few = counts_G[(counts_G > 0) & (counts_G <= up_to)]
    return [int(n) for n in np.bincount(few, minlength=up_to + 1)[1:]]
