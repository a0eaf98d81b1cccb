"""Counting n-grams: sort packed keys, one order on top of the other.

An n-gram of order k is packed as `history * V + token`, where `history` is the id of its first k-1 tokens at order k-1.
Sorted keys number the n-grams of order k, so the continuations of a history lie side by side, and each key fits in
int64 whatever the order.  What is kept of an n-gram is its last token; the keys can be had again from where the
continuations of each history start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import InputError
from lmzoo.ngram.columns import IN_MEMORY, Column, Room, parts_of
from lmzoo.ngram.levels import Level as Level
from lmzoo.ngram.levels import level_of_grams, level_of_runs, level_of_symbols
from lmzoo.ngram.runs import ABSENT as ABSENT
from lmzoo.ngram.runs import Counts as Counts
from lmzoo.ngram.runs import Grams, Runs, count_stretch, node_type, nodes_at
from lmzoo.ngram.runs import Keys as Keys
from lmzoo.ngram.runs import Nodes as Nodes
from lmzoo.vocab import Vocab

# keys are numbers below it
_MOST_KEYS = 1 << 63


def count_ngrams(split: Split, order: int) -> list[Level]:
    """Count the n-grams of orders 1 to `order` in every document, `<s>` before its first token.

    `<s>` itself is context only: its own count is 0.
    """
    return count_levels(stream_of(split)[0], split.vocab, order, IN_MEMORY)


def stream_of(split: Split) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """All documents, each after its `<s>`, and the place of each token in its document (`<s>` is at 0)."""
    lengths_D = split.lengths_D
    at_D = split.starts_D1[:-1] + np.arange(len(lengths_D))
    stream_N = with_starts(split)
    place_N = np.arange(len(stream_N)) - np.repeat(at_D, lengths_D + 1)
    return stream_N, place_N


def with_starts(split: Split) -> npt.NDArray[np.int32]:
    """All documents, each after its `<s>`."""
    return np.insert(split.ids_N, split.starts_D1[:-1], split.vocab.bos_id)


def count_levels(stream_N: Column, vocab: Vocab, order: int, room: Room) -> list[Level]:
    """Count the n-grams of orders 1 to `order` in documents laid end to end, each after its `<s>`."""
    levels = [_symbols(stream_N, vocab, room)]
    shorter_N = stream_N
    for k in range(2, order + 1):
        if len(levels[-1]) * len(vocab) >= _MOST_KEYS:
            raise InputError(
                f"order {k} has {len(levels[-1])} histories and {len(vocab)} symbols, 2^63 pairs of the two or more; "
                f"take a lower order or a larger min_freq"
            )
        level, shorter_N = _one_order_up(stream_N, shorter_N, levels[-1], vocab, room, is_highest=k == order)
        levels.append(level)
    return levels


def _symbols(stream_N: Column, vocab: Vocab, room: Room) -> Level:
    counts_V = np.zeros(len(vocab), np.int64)
    for part in parts_of(len(stream_N), room.n_positions or max(len(stream_N), 1)):
        counts_V += np.bincount(stream_N[part], minlength=len(vocab))
    counts_V[vocab.bos_id] = 0
    return level_of_symbols(counts_V.astype(node_type(len(stream_N))), vocab.bos_id)


def _one_order_up(
    stream_N: Column, shorter_N: Column, below: Level, vocab: Vocab, room: Room, *, is_highest: bool
) -> tuple[Level, Column]:
    """The n-grams one order above `below`, and the id of the one that ends at each position (`ABSENT` at starts).

    Nobody asks for ids of the highest order, so there are none.
    """
    n_positions = len(stream_N)

    def stretch(part: slice) -> tuple[Grams, Keys]:
        tokens_N, here_N = stream_N[part], shorter_N[part]
        history_N = np.empty(len(here_N), node_type(n_positions))
        history_N[1:] = here_N[:-1]
        history_N[:1] = shorter_N[part.start - 1 : part.start] if part.start else ABSENT
        return count_stretch(tokens_N, history_N, here_N, tokens_N == vocab.bos_id, (len(below), len(vocab)))

    if room.n_positions is None or n_positions <= room.n_positions:
        grams, place_M = stretch(slice(0, n_positions))
        all_N = np.zeros(0) if is_highest else nodes_at(grams, place_M, n_positions)
        del place_M
        return level_of_grams(grams, below), all_N
    runs = Runs.empty(n_positions, room)
    nodes_N = room.empty(0 if is_highest else n_positions, node_type(n_positions))
    stretches = list(parts_of(n_positions, room.n_positions))
    for part in stretches:
        grams, place_M = stretch(part)
        runs.append(grams)
        if not is_highest:
            nodes_N[part] = nodes_at(grams, place_M, part.stop - part.start)
    level = level_of_runs(runs, below, room)
    for run, part in enumerate([] if is_highest else stretches):
        # ABSENT is -1, which finds ABSENT at the end
        nodes_N[part] = runs.numbers(run)[nodes_N[part]]
    return level, nodes_N


def continuation_counts(levels: Sequence[Level]) -> list[Counts]:
    """Counts as Kneser-Ney takes them: at the highest order plain ones; below, how many different tokens stand before.

    What starts with `<s>` has nothing before it and keeps its plain count (Chen & Goodman 1998, section 4.1.6).
    """
    return [counts_G[:] for counts_G in each_continuation_counts(levels, IN_MEMORY)]


def each_continuation_counts(levels: Sequence[Level], room: Room) -> Iterator[Column]:
    """The same, order by order, so that none but the latest need be there."""
    for level, above in pairwise(levels):
        yield _tokens_before(level, above, room)
    yield levels[-1].counts_G


def _tokens_before(level: Level, above: Level, room: Room) -> Column:
    """How many different tokens stand before each n-gram, counted in one pass for as many as fit in memory."""
    before_G = room.empty(len(level), level.counts_G.dtype)
    for window in parts_of(len(level), room.n_values or max(len(level), 1)):
        counts_W = np.zeros(window.stop - window.start, level.counts_G.dtype)
        for part in parts_of(len(above), room.n_positions or max(len(above), 1)):
            suffix_G = above.suffix_G[part]
            if len(counts_W) < len(level):
                suffix_G = suffix_G[(suffix_G >= window.start) & (suffix_G < window.stop)] - window.start
            counts_W += np.bincount(suffix_G, minlength=len(counts_W)).astype(counts_W.dtype)
        low, high = (min(max(edge, window.start), window.stop) for edge in (level.starts.start, level.starts.stop))
        counts_W[low - window.start : high - window.start] = level.counts_G[low:high]
        before_G[window] = counts_W
    return before_G


def find_ngrams(split: Split, levels: Sequence[Level]) -> list[Nodes]:
    """For each order the id of the n-gram that ends at each place of another text's stream, or `ABSENT`.

    Places are those of `stream_of`; at order 1 the ids are the tokens' own.
    """
    stream_N, place_N = stream_of(split)
    nodes: list[Nodes] = [stream_N]
    for k, level in enumerate(levels[1:], start=2):
        ends_M = np.flatnonzero((place_N >= k - 1) & (np.roll(nodes[-1], 1) != ABSENT))
        wanted_M = nodes[-1][ends_M - 1].astype(np.int64) * level.n_symbols + stream_N[ends_M]
        at_M = np.minimum(np.searchsorted(level.keys_G, wanted_M), max(len(level) - 1, 0))
        nodes_N = np.full(len(stream_N), ABSENT, node_type(len(level)))
        if len(level):
            nodes_N[ends_M] = np.where(level.keys_G[at_M] == wanted_M, at_M, ABSENT)
        nodes.append(nodes_N)
    return nodes


def counts_of_counts(counts_G: Column, up_to: int = 4, n_at_once: int = 1 << 16) -> list[int]:
    """How many n-grams have count 1, 2, … `up_to`."""
    found = np.zeros(up_to + 2, np.int64)
    for part in parts_of(len(counts_G), n_at_once):
        # what is more frequent shares the last place
        found += np.bincount(np.minimum(counts_G[part], up_to + 1), minlength=up_to + 2)
    return [int(n) for n in found[1 : up_to + 1]]
