"""Cutting text into words and numbering them, compiled: the twin of `lmzoo.tokens.number_words`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# FNV-1a, 64 bits (Fowler, Noll & Vo), and the 64-bit golden ratio, which spreads it over the table (Knuth, vol. 3, 6.4)
_OFFSET_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LF = 10
_SEPARATORS = (32, 10, 9)
_FIRST_BITS = 12


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_words(data_N: Any) -> Any:
    """The numbers of the words and LFs of UTF-8 bytes, and where each different word first starts and ends.

    The different words are found in a table with open addressing, at most half full; a slot holds a number or 0.
    """
    numbers_T = np.empty(_count(data_N), np.int32)
    bits = _FIRST_BITS
    slots = np.zeros(1 << bits, np.int32)
    hashes_K = np.empty(1 << (bits - 1), np.uint64)
    starts_K = np.empty(1 << (bits - 1), np.int64)
    ends_K = np.empty(1 << (bits - 1), np.int64)
    n_tokens, n_words, n_bytes = 0, 0, len(data_N)
    at = 0
    while at < n_bytes:
        byte = data_N[at]
        if byte == _LF:
            numbers_T[n_tokens] = 0
            n_tokens += 1
        if byte in _SEPARATORS:
            at += 1
            continue
        start, key = at, _OFFSET_BASIS
        while at < n_bytes and data_N[at] not in _SEPARATORS:
            key = (key ^ np.uint64(data_N[at])) * _PRIME
            at += 1
        slot = _find(slots, bits, hashes_K, starts_K, ends_K, data_N, key, start, at)
        if slots[slot] == 0:
            hashes_K[n_words], starts_K[n_words], ends_K[n_words] = key, start, at
            n_words += 1
            slots[slot] = n_words
        numbers_T[n_tokens] = slots[slot]
        n_tokens += 1
        if n_words == len(hashes_K):
            bits += 1
            slots = _refilled(bits, hashes_K)
            hashes_K, starts_K, ends_K = _doubled(hashes_K), _doubled(starts_K), _doubled(ends_K)
    return numbers_T, starts_K[:n_words], ends_K[:n_words]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count(data_N: Any) -> int:
    """Words and LFs."""
    n, in_word = 0, False
    for byte in data_N:
        is_separator = byte in _SEPARATORS
        n += (byte == _LF) + (not is_separator and not in_word)
        in_word = not is_separator
    return n


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _find(
    slots: Any, bits: int, hashes_K: Any, starts_K: Any, ends_K: Any, data_N: Any, key: Any, start: int, end: int
) -> Any:
    """The slot of the word `data_N[start:end]`, or the free one where it belongs."""
    slot = _first_slot(key, bits)
    while slots[slot] != 0:
        k = slots[slot] - 1
        if hashes_K[k] == key and ends_K[k] - starts_K[k] == end - start:
            first = starts_K[k]
            n = 0
            while n < end - start and data_N[first + n] == data_N[start + n]:
                n += 1
            if n == end - start:
                break
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _first_slot(key: Any, bits: int) -> Any:
    return np.int64((key * _GOLDEN) >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _refilled(bits: int, hashes_K: Any) -> Any:
    """A larger table of the same words."""
    slots = np.zeros(1 << bits, np.int32)
    for k in range(len(hashes_K)):
        slot = _first_slot(hashes_K[k], bits)
        while slots[slot] != 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = k + 1
    return slots


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _doubled(array: Any) -> Any:
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger
