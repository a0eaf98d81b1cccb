"""Models whose figures take a few bits: ln p of each order rounded to a small book, back-offs to a large one.

Rounded probabilities alone would sum to a little more or less than 1, and a sum above 1 passes for a better perplexity.
So they are rounded such that no history gives away more than there is, and its back-off is computed anew from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError
from lmzoo.ngram.config import LEAST_BITS, MOST_BITS, WITHOUT_MASS
from lmzoo.ngram.counts import Keys
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import renormalized
from lmzoo.ngram.trie import Values, plain

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_BITS_OF_TWO_BYTES = 16
# back-offs have two bytes, which would tell more apart, but then the books of small models weigh too much
_LEAST_STEPS, _MOST_STEPS = 1 << 10, 1 << 12
_ROUNDS = 20


def quantize(model: NgramModel, bits: int = 8) -> NgramModel:
    """The model with every ln p rounded to one of 2^bits values an order, back-offs to one of up to 4096.

    What it loses in perplexity has to be measured.  Raises `InputError`.
    """
    if not LEAST_BITS <= bits <= MOST_BITS:
        raise InputError(f"bits must be {LEAST_BITS} to {MOST_BITS}, got {bits}")
    details = {**model.details, "bits": bits}
    keys, tables = model.tables
    logp = _rounded_probabilities(keys, [table.logp_G for table in tables], bits)
    backoffs = [table.backoff_G for table in tables[:-1]]
    if model.details.get("smoothing") not in WITHOUT_MASS:
        orders = range(1, model.order + 1)
        bounds = model.trie.bounds
        logps = [logp.of(k, slice(bounds[k - 1], bounds[k])) for k in orders]
        whole = NgramModel(model.vocab, replace(model.trie, logp=plain(np.concatenate(logps))), details)
        backoffs = [table.backoff_G for table in renormalized(whole).trie.tables()[:-1]]
    return NgramModel(model.vocab, replace(model.trie, logp=logp, backoff=_rounded_backoffs(backoffs)), details)


def _rounded_probabilities(keys: Sequence[Keys], logps: Sequence[Floats], bits: int) -> Values:
    """To the nearest value of the book, or the next below where a history would give away more than 1.

    Single symbols have nothing to hand down, so their book is moved until they sum to 1.
    """
    n_symbols = len(keys[0])
    books, codes = [], []
    for order, (keys_G, logp_G) in enumerate(zip(keys, logps, strict=True), start=1):
        book = _book(logp_G, np.exp(logp_G), 1 << bits)
        nearest_G = _nearest(logp_G, book)
        if order == 1:
            book = book - np.log(np.exp(book[nearest_G]).sum() / np.exp(logp_G).sum())
        history_G = keys_G // n_symbols
        sum_H = np.bincount(history_G, np.exp(book[nearest_G]), minlength=1)
        below_G = np.maximum(np.searchsorted(book, logp_G, side="right") - 1, 0)
        codes.append(np.where((sum_H[history_G] > 1) & (order > 1), below_G, nearest_G))
        books.append(book)
    return _values(books, codes, bits)


def _rounded_backoffs(backoffs: Sequence[Floats]) -> Values:
    """To the next lower of even steps: a history's sum falls short of 1 by less than a step, and never exceeds it."""
    books = [_even_book(values_G) for values_G in backoffs]
    codes = [np.searchsorted(book, values_G, "right") - 1 for values_G, book in zip(backoffs, books, strict=True)]
    return _values(books, codes, _BITS_OF_TWO_BYTES)


def _even_book(values_G: Floats) -> Floats:
    distinct = np.unique(values_G)
    n_steps = min(max(len(distinct) // 4, _LEAST_STEPS), _MOST_STEPS)
    if len(distinct) <= n_steps:
        return distinct
    finite = distinct[np.isfinite(distinct)]
    special = distinct[np.isneginf(distinct) | (distinct == 0)]
    return np.unique(np.concatenate((special, np.linspace(finite[0], finite[-1], n_steps - len(special)))))


def _values(books: Sequence[Floats], codes: Sequence[Codes], bits: int) -> Values:
    book_OxC = np.zeros((max(len(books), 1), max(map(len, books), default=0)))
    for row, book in enumerate(books):
        book_OxC[row, : len(book)] = book
    dtype: type[np.unsignedinteger[Any]] = np.uint8 if bits <= 8 else np.uint16
    codes_G = np.concatenate([np.zeros(0, np.int64), *codes]).astype(dtype)
    return Values(plain_G=np.zeros(0), codes_G=codes_G, book_OxC=book_OxC)


def _book(values_G: Floats, weights_G: Floats, n_codes: int) -> Floats:
    """At most so many values, rising: of least weighted squared error (Lloyd 1982), the least of all among them.

    What means something of its own, impossible or nothing to add, is among them exactly.
    """
    is_special_G = np.isneginf(values_G) | (values_G == 0)
    special = np.unique(values_G[is_special_G])
    by_value = np.argsort(values_G[~is_special_G])
    rest_M, weight_M = values_G[~is_special_G][by_value], weights_G[~is_special_G][by_value]
    distinct = np.unique(rest_M)
    n_centers = n_codes - len(special) - 1
    if len(distinct) <= n_centers:
        return np.unique(np.concatenate((special, distinct)))
    # where errors of the least sum put their centers: as dense as the cube root of what they weigh (Panter & Dite 1951)
    dense_M = np.cumsum(np.cbrt(weight_M))
    at = np.searchsorted(dense_M, np.linspace(0, dense_M[-1], n_centers))
    centers = np.unique(rest_M[np.minimum(at, len(rest_M) - 1)])
    weight_before, sum_before = (np.concatenate(([0.0], np.cumsum(w))) for w in (weight_M, weight_M * rest_M))
    for _ in range(_ROUNDS):
        edges = np.searchsorted(rest_M, (centers[1:] + centers[:-1]) / 2)
        bounds = np.concatenate(([0], edges, [len(rest_M)]))
        weight, total = weight_before[bounds], sum_before[bounds]
        has_any = np.diff(weight) > 0
        centers = np.unique(np.diff(total)[has_any] / np.diff(weight)[has_any])
    return np.unique(np.concatenate((special, rest_M[:1], centers)))


def _nearest(values_G: Floats, book: Floats) -> Codes:
    """The place of the nearest value in the book."""
    middles = np.where(np.isneginf(book[:-1]), np.finfo(np.float64).min, (book[1:] + book[:-1]) / 2)
    return np.searchsorted(middles, values_G).astype(np.int64)
