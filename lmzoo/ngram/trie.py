"""How a counting model lies in memory and in its file: all n-grams as the nodes of one tree, in a few flat arrays.

Nodes are numbered order by order, and within an order by history: so the continuations of a node lie side by side, and
those of the next node follow.  A node needs no key and no pointer: only its last token, its ln p and, where it can be a
history, its back-off and where its continuations start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.files import release_pages
from lmzoo.ngram.config import MAX_ORDER
from lmzoo.ngram.counts import ABSENT, Keys
from lmzoo.ngram.runs import token_type
from lmzoo.ngram.smoothing import Table

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.unsignedinteger[Any]]

# of so many nodes the first has its start stored whole, the others what is added
BLOCK = 64
SHIFT = 6
# most different values that two bytes can tell apart
_MOST_CODED = 1 << 16
# values looked at together
_PIECE = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """A number for each of G nodes: `plain_G` itself, or `book_OxC[row, codes_G]` where they are few.

    The book has a row for all orders, or one for each.
    """

    plain_G: Floats
    codes_G: Unsigned
    book_OxC: Floats

    def __len__(self) -> int:
        return len(self.codes_G) or len(self.plain_G)

    def of(self, order: int, nodes: Any) -> Any:
        """The numbers of nodes (an id, ids or a slice) of one order."""
        if not len(self.codes_G):
            return self.plain_G[nodes]
        return self.book_OxC[order - 1 if len(self.book_OxC) > 1 else 0, self.codes_G[nodes]]

    def compact(self) -> Values:
        """The same to the last bit, coded where two bytes and a book take less than eight bytes each."""
        n_values = len(self.plain_G)
        if len(self.codes_G) or n_values < _MOST_CODED // 8:
            return self
        # piece by piece: the array may lie in a file larger than memory
        pieces = [slice(start, start + _PIECE) for start in range(0, n_values, _PIECE)]
        book = np.zeros(0)
        for piece in pieces:
            book = np.union1d(book, self.plain_G[piece])
            release_pages(self.plain_G)
            if len(book) > min(_MOST_CODED, n_values // 2):
                return self
        codes_G = np.empty(n_values, np.uint16)
        for piece in pieces:
            codes_G[piece] = np.searchsorted(book, self.plain_G[piece])
            release_pages(self.plain_G)
        return replace(plain(np.zeros(0)), codes_G=codes_G, book_OxC=book[None, :])


def plain(values_G: Floats) -> Values:
    """Numbers as they are."""
    return Values(plain_G=values_G, codes_G=np.zeros(0, np.uint16), book_OxC=np.zeros((1, 0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Starts:
    """Where the continuations of each node start; those of the last node end where the nodes do.

    Of a single symbol in `first_V1`; of node V + i, a longer history: `bases_B[i // 64] + within_H1[i]`.
    """

    first_V1: Ids
    bases_B: Ids
    within_H1: Unsigned

    def of(self, order: int, nodes: Any) -> Any:
        """The start of each of the nodes (an id or ids), all of one order; or of the node after the last of it."""
        if order == 1:
            return self.first_V1[nodes]
        longer = nodes - (len(self.first_V1) - 1)
        return self.bases_B[longer >> SHIFT] + self.within_H1[longer]

    def of_one(self, order: int, node: int) -> int:
        """The same of one node, as Python's own number."""
        if order == 1:
            return int(self.first_V1.item(node))
        longer = node - (len(self.first_V1) - 1)
        return int(self.bases_B.item(longer >> SHIFT)) + int(self.within_H1.item(longer))

    @classmethod
    def following(cls, n_following_H: Iterable[npt.NDArray[np.integer[Any]]], n_symbols: int) -> Starts:
        """From how many continuations each node has, order by order up to the last but one."""
        counts = [np.zeros(0, np.int64), *n_following_H]
        starts_H1 = n_symbols + np.concatenate(([0], np.cumsum(np.concatenate(counts), dtype=np.int64)))
        bases_B, within_H1 = packed(starts_H1[n_symbols:])
        narrow_H1 = within_H1.astype(distance_type(int(within_H1.max(initial=0))))
        return cls(first_V1=starts_H1[: n_symbols + 1].copy(), bases_B=bases_B, within_H1=narrow_H1)


def packed(starts_H: npt.NDArray[np.integer[Any]]) -> tuple[Ids, Ids]:
    """Of rising starts every 64th, and what each is beyond the last such one."""
    bases_B = starts_H[::BLOCK].astype(np.int64)
    return bases_B, starts_H - np.repeat(bases_B, BLOCK)[: len(starts_H)]


def distance_type(most: int) -> type[np.unsignedinteger[Any]]:
    """The type of distances up to `most`: one for nearly all models, so that compiled code is made once."""
    return np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32


@dataclass(frozen=True, kw_only=True, eq=False)
class Trie:
    """The n-grams of orders 1 to n, G in all, H of them below the highest order.

    Attributes:
        bounds: order k are the nodes `bounds[k - 1]` to `bounds[k] - 1`; order 1 has one for each symbol, by id.
        tokens_G: the last token of each, rising within a history, in the smallest type that holds the vocabulary.
        starts: of the continuations of each of the H nodes.
        logp: ln p of the last token after the others, for all G.
        backoff: what is added when a token never followed, for the H nodes.
    """

    bounds: tuple[int, ...]
    tokens_G: Unsigned
    starts: Starts
    logp: Values
    backoff: Values

    @property
    def order(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_symbols(self) -> int:
        return self.bounds[1]

    @property
    def has_its_codes(self) -> bool:
        """Whether every code has its value in the book."""
        return all(
            not len(values.codes_G) or int(values.codes_G.max()) < values.book_OxC.shape[1]
            for values in (self.logp, self.backoff)
        )

    def following(self, order: int, node: int) -> slice:
        """The continuations of a node of this order below the highest."""
        return slice(self.starts.of_one(order, node), self.starts.of_one(order, node + 1))

    def n_following(self, order: int) -> Ids:
        """How many continuations each node of an order below the highest has."""
        nodes = np.arange(self.bounds[order - 1], self.bounds[order] + 1)
        return np.asarray(np.diff(self.starts.of(order, nodes)))

    def find(self, order: int, history_M: Ids, token_M: npt.NDArray[np.integer[Any]]) -> Ids:
        """The node of each history, one of this order, and token, or `ABSENT`: by bisection in all at once."""
        at_M = self.starts.of(order, history_M)
        # ids rise within a history, so at most `token` of them stand before it; frequent tokens have low ids
        size_M = np.minimum(self.starts.of(order, history_M + 1) - at_M, token_M + 1)
        some = np.flatnonzero(size_M > 0)
        open_A = np.flatnonzero(size_M > 1)
        while len(open_A):
            half_A = size_M[open_A] >> 1
            middle_A = at_M[open_A] + half_A
            is_right_A = self.tokens_G[middle_A] <= token_M[open_A]
            at_M[open_A[is_right_A]] = middle_A[is_right_A]
            size_M[open_A] -= half_A
            open_A = open_A[size_M[open_A] > 1]
        found_M = np.full(len(history_M), ABSENT, np.int64)
        is_it = self.tokens_G[at_M[some]] == token_M[some]
        found_M[some[is_it]] = at_M[some[is_it]]
        return found_M

    def packed_keys(self) -> list[Keys]:
        """The packed keys of every order (see `counts.py`)."""
        keys = [np.arange(self.n_symbols)]
        for order in range(1, self.order):
            tokens_G = self.tokens_G[self.bounds[order] : self.bounds[order + 1]]
            history_G = np.repeat(np.arange(len(keys[-1])), self.n_following(order))
            keys.append(history_G * self.n_symbols + tokens_G)
        return keys

    def tables(self) -> list[Table]:
        """The figures of every order (see `smoothing.py`)."""
        tables = []
        for order, (start, end) in enumerate(pairwise(self.bounds), start=1):
            backoff_G = np.zeros(0) if order == self.order else self.backoff.of(order, slice(start, end))
            tables.append(Table(logp_G=self.logp.of(order, slice(start, end)), backoff_G=backoff_G))
        return tables

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """What compiled code takes, read-only so that arrays of a mapped file are of the same type."""
        starts = self.starts
        values = [(v.plain_G, v.codes_G, v.book_OxC) for v in (self.logp, self.backoff)]
        arrays = (self.tokens_G, starts.first_V1, starts.bases_B, starts.within_H1, *values[0], *values[1])
        return tuple(_read_only(array) for array in arrays)

    def compact(self) -> Trie:
        """The same in fewer bytes where figures repeat."""
        return replace(self, logp=self.logp.compact(), backoff=self.backoff.compact())


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def from_keys(keys: Sequence[Keys], tables: Sequence[Table], n_symbols: int) -> Trie:
    """From packed keys (see `counts.py`), sorted, and the tables of every order (see `smoothing.py`)."""
    sizes = [len(keys_G) for keys_G in keys]
    n_following = [np.bincount(above // n_symbols, minlength=len(keys_G)) for keys_G, above in pairwise(keys)]
    return Trie(
        bounds=(0, *np.cumsum(sizes).tolist()),
        tokens_G=np.concatenate([(keys_G % n_symbols).astype(token_type(n_symbols)) for keys_G in keys]),
        starts=Starts.following(n_following or [np.zeros(n_symbols, np.int64)], n_symbols),
        logp=plain(np.concatenate([table.logp_G for table in tables])),
        backoff=plain(np.concatenate([np.zeros(0), *(table.backoff_G for table in tables[:-1])])),
    )


def check_lengths(trie: Trie, n_symbols: int) -> None:
    """Raise `ValueError` where the arrays of a file do not belong together; cheap, so only their ends are looked at."""
    bounds, starts = trie.bounds, trie.starts
    n_histories = bounds[-2]
    n_longer = max(n_histories - n_symbols, 0)
    if len(bounds) > MAX_ORDER + 1:
        raise ValueError(f"order {len(bounds) - 1}, {MAX_ORDER} is the highest")
    if bounds[:2] != (0, n_symbols) or list(bounds) != sorted(bounds):
        raise ValueError(f"nodes of {bounds} for {n_symbols} symbols")
    arrays: Sequence[Sized] = (
        trie.tokens_G,
        trie.logp,
        trie.backoff,
        starts.first_V1,
        starts.within_H1,
        starts.bases_B,
    )
    lengths = tuple(map(len, arrays))
    wanted = (bounds[-1], bounds[-1], n_histories, n_symbols + 1, n_longer + 1, n_longer // BLOCK + 1)
    if lengths != wanted:
        raise ValueError(f"arrays of {lengths} elements for nodes of {bounds}")
    for order in range(1, trie.order):
        if int(starts.of(order, bounds[order])) != bounds[order + 1]:
            raise ValueError(f"order {order} does not lead to all n-grams of the next")
