"""How a counting model lies in memory and in its file: for each order three arrays and a small index.

The n-grams of an order are grouped by their history, an n-gram one order below, and named by their place.  So an n-gram
needs no key: its last token, its ln p, its back-off, and where its own continuations start in the next order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.ngram.counts import Keys
from lmzoo.ngram.smoothing import Table

Floats = npt.NDArray[np.float64]
Unsigned = npt.NDArray[np.unsignedinteger[Any]]

# histories between two starts that are stored whole; those between are stored as what is added
BLOCK = 64
_SHIFT = 6
_NO_CODES = np.zeros(0, np.uint16)
# most different values that two bytes can tell apart
_MOST_CODED = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Offsets:
    """Where the continuations of each of H histories start: `bases_B[h // 64] + within_H1[h]`; the end is the last."""

    bases_B: npt.NDArray[np.int64]
    within_H1: Unsigned

    def __len__(self) -> int:
        return len(self.within_H1) - 1

    def __getitem__(self, histories: Any) -> Any:
        return self.bases_B[histories >> _SHIFT] + self.within_H1[histories]

    @property
    def following_H(self) -> npt.NDArray[np.int64]:
        """How many continuations each history has."""
        return np.asarray(np.diff(self[np.arange(len(self.within_H1))]))

    @classmethod
    def following(cls, n_following_H: npt.NDArray[np.integer[Any]]) -> Offsets:
        """From how many continuations each history has."""
        starts_H1 = np.concatenate(([0], np.cumsum(n_following_H, dtype=np.int64)))
        bases_B = np.ascontiguousarray(starts_H1[::BLOCK])
        within_H1 = starts_H1 - np.repeat(bases_B, BLOCK)[: len(starts_H1)]
        # one type for most models, so that compiled code is made once
        dtype = np.uint16 if int(within_H1.max(initial=0)) <= np.iinfo(np.uint16).max else np.uint32
        return cls(bases_B=bases_B, within_H1=within_H1.astype(dtype))


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """G numbers: `book` itself, or `book[codes_G]` where they were few or were made few."""

    book: Floats
    codes_G: Unsigned = field(default_factory=lambda: _NO_CODES)

    @property
    def is_coded(self) -> bool:
        return len(self.codes_G) > 0

    def __len__(self) -> int:
        return len(self.codes_G) or len(self.book)

    def __getitem__(self, ids: Any) -> Any:
        return self.book[self.codes_G[ids]] if self.is_coded else self.book[ids]

    @property
    def plain_G(self) -> Floats:
        """All of them as float64."""
        return self.book[self.codes_G] if self.is_coded else self.book

    def compact(self) -> Values:
        """The same to the last bit, coded where two bytes and a book take less than eight bytes each."""
        if self.is_coded or len(self.book) < _MOST_CODED // 8:
            return self
        book = np.unique(self.book)
        if len(book) > min(_MOST_CODED, len(self.book) // 2):
            return self
        return Values(book=book, codes_G=np.searchsorted(book, self.book).astype(np.uint16))


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """All n-grams of one order, G of them; of order 1 one for each symbol, in the order of ids.

    Attributes:
        tokens_G: the last token of each, rising within a history, in the smallest type that holds the vocabulary.
        offsets: where the continuations of each start in the next order; None at the highest.
        logp: ln p of the last token after the others.
        backoff: what is added when a token never followed; none at the highest order.
    """

    tokens_G: Unsigned
    offsets: Offsets | None
    logp: Values
    backoff: Values

    def __len__(self) -> int:
        return len(self.tokens_G)

    @property
    def n_bytes(self) -> int:
        """Bytes of its arrays as they lie here."""
        arrays = [self.tokens_G, *_parts(self.logp), *_parts(self.backoff)]
        if self.offsets is not None:
            arrays += [self.offsets.bases_B, self.offsets.within_H1]
        return sum(array.nbytes for array in arrays)

    def compact(self) -> Order:
        """The same in fewer bytes where figures repeat."""
        return Order(
            tokens_G=self.tokens_G, offsets=self.offsets, logp=self.logp.compact(), backoff=self.backoff.compact()
        )


def _parts(values: Values) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return values.book, values.codes_G


def token_type(n_symbols: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every id of a vocabulary."""
    return next(t for t in (np.uint8, np.uint16, np.uint32) if n_symbols - 1 <= np.iinfo(t).max)


def from_keys(keys: Sequence[Keys], tables: Sequence[Table], n_symbols: int) -> list[Order]:
    """From packed keys (see `counts.py`), sorted, and the tables of every order (see `smoothing.py`)."""
    offsets: list[Offsets | None] = [
        Offsets.following(np.bincount(above // n_symbols, minlength=len(keys_G))) for keys_G, above in pairwise(keys)
    ]
    return [
        Order(
            tokens_G=(keys_G % n_symbols).astype(token_type(n_symbols)),
            offsets=offset,
            logp=Values(book=table.logp_G),
            backoff=Values(book=table.backoff_G),
        )
        for keys_G, table, offset in zip(keys, tables, [*offsets, None], strict=True)
    ]


def to_keys(orders: Sequence[Order], n_symbols: int) -> list[Keys]:
    """The packed keys of every order."""
    keys = [np.arange(n_symbols)]
    for below, order in pairwise(orders):
        assert below.offsets is not None
        history_G = np.repeat(np.arange(len(below)), below.offsets.following_H)
        keys.append(history_G * n_symbols + order.tokens_G)
    return keys


def find(order: Order, offsets: Offsets, history_M: npt.NDArray[np.int64], token_M: Any) -> npt.NDArray[np.int64]:
    """The n-gram of each history, none absent, and token, or -1: by bisection in all histories at once."""
    at_M = offsets[history_M]
    size_M = offsets[history_M + 1] - at_M
    has_any_M = size_M > 0
    open_A = np.flatnonzero(size_M > 1)
    while len(open_A):
        half_A = size_M[open_A] >> 1
        middle_A = at_M[open_A] + half_A
        is_right_A = order.tokens_G[middle_A] <= token_M[open_A]
        at_M[open_A[is_right_A]] = middle_A[is_right_A]
        size_M[open_A] -= half_A
        open_A = open_A[size_M[open_A] > 1]
    found_M = np.full(len(history_M), -1, np.int64)
    some = np.flatnonzero(has_any_M)
    is_it = order.tokens_G[at_M[some]] == token_M[some]
    found_M[some[is_it]] = at_M[some[is_it]]
    return found_M
