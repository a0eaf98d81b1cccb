"""Cutting text into words and numbering them, compiled: the twin of `lmzoo.tokens.number_words`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]

# FNV-1a, 64 bits (Fowler, Noll & Vo), and the 64-bit golden ratio, which spreads it over the table (Knuth, vol. 3, 6.4)
_OFFSET_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LF = 10
_SEPARATORS = (32, 10, 9)
# slots of the first table, as a power of two; it doubles whenever it is half full
_FIRST_BITS = 14


def number_words(data_N: Bytes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Numbers of the words and LFs of UTF-8 bytes, and where different words first start and end: `bounds_Kx2`."""
    bits = _FIRST_BITS
    numbers_T = np.empty(_count(data_N), np.int32)
    hashes_K = np.empty(1 << (bits - 1), np.uint64)
    bounds_Kx2 = np.empty((1 << (bits - 1), 2), np.int64)
    slots = np.zeros(1 << bits, np.int32)
    at = n_tokens = n_words = 0
    while True:
        at, n_tokens, n_words = _number(
            data_N, at, numbers_T, n_tokens, slots, np.uint64(64 - bits), hashes_K, bounds_Kx2, n_words
        )
        if at == len(data_N):
            return numbers_T, bounds_Kx2[:n_words].copy()
        bits += 1
        slots = np.zeros(1 << bits, np.int32)
        _fill(slots, np.uint64(64 - bits), hashes_K)
        hashes_K = np.concatenate((hashes_K, np.empty_like(hashes_K)))
        bounds_Kx2 = np.concatenate((bounds_Kx2, np.empty_like(bounds_Kx2)))


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
def _number(
    data_N: Any,
    at: int,
    numbers_T: Any,
    n_tokens: int,
    slots: Any,
    shift: Any,
    hashes_K: Any,
    bounds_Kx2: Any,
    n_words: int,
) -> tuple[int, int, int]:
    """Go on from byte `at` to the end, or until there is no room for another word: byte, tokens and words reached.

    `slots`: open addressing, linear probing; a slot holds the number of a word or 0.
    """
    while at < len(data_N) and n_words < len(hashes_K):
        if data_N[at] == _LF:
            numbers_T[n_tokens] = 0
            n_tokens += 1
        if data_N[at] in _SEPARATORS:
            at += 1
            continue
        start, key = at, _OFFSET_BASIS
        while at < len(data_N) and data_N[at] not in _SEPARATORS:
            key = (key ^ np.uint64(data_N[at])) * _PRIME
            at += 1
        slot = np.int64((key * _GOLDEN) >> shift)
        while True:
            k = slots[slot] - 1
            if k < 0:
                k = n_words
                hashes_K[k], bounds_Kx2[k, 0], bounds_Kx2[k, 1] = key, start, at
                n_words += 1
                slots[slot] = n_words
                break
            # written out here: calling a function would cost as much as all the rest
            if hashes_K[k] == key and bounds_Kx2[k, 1] - bounds_Kx2[k, 0] == at - start:
                first, n_same = bounds_Kx2[k, 0], 0
                while n_same < at - start and data_N[first + n_same] == data_N[start + n_same]:
                    n_same += 1
                if n_same == at - start:
                    break
            slot = (slot + 1) & (len(slots) - 1)
        numbers_T[n_tokens] = k + 1
        n_tokens += 1
    return at, n_tokens, n_words


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill(slots: Any, shift: Any, hashes_K: Any) -> None:
    """Put different words, given by their hashes, into an empty table."""
    for k in range(len(hashes_K)):
        slot = np.int64((hashes_K[k] * _GOLDEN) >> shift)
        while slots[slot] != 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = k + 1
