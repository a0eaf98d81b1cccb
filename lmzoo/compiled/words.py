"""Cutting text into words and numbering them, compiled: the twin of `lmzoo.tokens.number_words`."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lmzoo.compiled import in_parallel, n_threads

Bytes = npt.NDArray[np.uint8]

# A word's key is its bytes where these fit, so that two short words of one length and key are one; bytes beyond are
# mixed in as in FNV-1a (Fowler, Noll & Vo).  The 64-bit golden ratio spreads keys over the table (Knuth, vol. 3, 6.4).
_KEY_BYTES = 8
_BYTE_BITS = np.uint64(8)
_PRIME = np.uint64(0x100000001B3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LF = 10
_SEPARATORS = (32, 10, 9)
# slots of the first table, as a power of two; it doubles whenever it is half full
_FIRST_BITS = 14
# a share of a text is at least so long, or a thread would cost more than it saves
_LEAST_BYTES = 1 << 20


def number_words(data_N: Bytes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Numbers of the words and LFs of UTF-8 bytes, and where different words first start and end: `bounds_Kx2`.

    Each thread numbers a share of the text for itself; then the words of all shares are numbered in turn.
    """
    starts = _shares(data_N)
    n_shares = len(starts) - 1
    tokens_S = np.zeros(n_shares + 1, np.int64)
    found: list[Any] = [None] * n_shares

    def count(first: int, end: int) -> None:
        for share in range(first, end):
            tokens_S[share + 1] = _count(data_N[starts[share] : starts[share + 1]])

    def number(first: int, end: int) -> None:
        for share in range(first, end):
            numbers = numbers_T[places_S[share] : places_S[share + 1]]
            found[share] = _number_share(data_N, starts[share], starts[share + 1], numbers)

    in_parallel(n_shares, count)
    places_S = np.cumsum(tokens_S).tolist()
    numbers_T = np.empty(places_S[-1], np.int32)
    in_parallel(n_shares, number)
    if n_shares == 1:
        return numbers_T, found[0][1].copy()
    hashes_J, bounds_Jx2 = (np.concatenate(parts) for parts in zip(*found, strict=True))
    slots, shift = _table(len(hashes_J))
    number_J, first_K = _merge(data_N, hashes_J, bounds_Jx2, slots, shift)
    firsts = np.cumsum([0, *(len(hashes) for hashes, _ in found)]).tolist()

    def renumber(first: int, end: int) -> None:
        for share in range(first, end):
            _renumber(numbers_T[places_S[share] : places_S[share + 1]], number_J[firsts[share] :])

    in_parallel(n_shares, renumber)
    return numbers_T, bounds_Jx2[first_K]


def _shares(data_N: Bytes) -> list[int]:
    """Where the shares of the threads start, each behind a separator, and where the last ends."""
    n_shares = max(min(n_threads(), len(data_N) // _LEAST_BYTES), 1)
    starts = [0]
    for share in range(1, n_shares):
        start = max(len(data_N) * share // n_shares, starts[-1])
        while start < len(data_N) and data_N[start - 1] not in _SEPARATORS:
            start += 1
        starts.append(start)
    return [*starts, len(data_N)]


def _table(n_words: int) -> tuple[npt.NDArray[np.int32], Any]:
    """A table that is at most half full with so many words, and how far a hash is shifted for it."""
    bits = max(int(2 * n_words - 1).bit_length(), 1) if n_words else 1
    return _mapped(1 << bits, np.int32), np.uint64(64 - bits)


def _number_share(
    data_N: Bytes, at: int, end: int, numbers_T: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Number the words and LFs of `data_N[at:end]`: hashes of the different words and their first bounds."""
    bits = _FIRST_BITS
    hashes_K, bounds_Kx2 = _mapped(1 << (bits - 1), np.uint64), _mapped(1 << bits, np.int64).reshape(-1, 2)
    slots = _mapped(1 << bits, np.int32)
    n_tokens = n_words = 0
    while True:
        at, n_tokens, n_words = _number(
            data_N, at, end, numbers_T, n_tokens, slots, np.uint64(64 - bits), hashes_K, bounds_Kx2, n_words
        )
        if at == end:
            return hashes_K[:n_words], bounds_Kx2[:n_words]
        bits += 1
        slots = _mapped(1 << bits, np.int32)
        _fill(slots, np.uint64(64 - bits), hashes_K)
        fewer_hashes, fewer_bounds = hashes_K, bounds_Kx2
        hashes_K, bounds_Kx2 = _mapped(1 << (bits - 1), np.uint64), _mapped(1 << bits, np.int64).reshape(-1, 2)
        hashes_K[: len(fewer_hashes)], bounds_Kx2[: len(fewer_bounds)] = fewer_hashes, fewer_bounds


def _mapped(n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros in memory of their own, which the system has back as soon as they are gone.

    What the allocator gave to a thread and got back may stay with the thread.
    """
    return np.frombuffer(mmap.mmap(-1, n * np.dtype(dtype).itemsize), dtype)


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
    end: int,
    numbers_T: Any,
    n_tokens: int,
    slots: Any,
    shift: Any,
    hashes_K: Any,
    bounds_Kx2: Any,
    n_words: int,
) -> tuple[int, int, int]:
    """Go on from byte `at` to `end`, or until there is no room for another word: byte, tokens and words reached.

    `slots`: open addressing, linear probing; a slot holds the number of a word or 0.
    """
    while at < end and n_words < len(hashes_K):
        if data_N[at] == _LF:
            numbers_T[n_tokens] = 0
            n_tokens += 1
        if data_N[at] in _SEPARATORS:
            at += 1
            continue
        start, key = at, np.uint64(0)
        fits = min(at + _KEY_BYTES, end)
        while at < fits and data_N[at] not in _SEPARATORS:
            key = (key << _BYTE_BITS) | np.uint64(data_N[at])
            at += 1
        while at < end and data_N[at] not in _SEPARATORS:
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
                if at - start <= _KEY_BYTES:
                    break
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge(data_N: Any, hashes_J: Any, bounds_Jx2: Any, slots: Any, shift: Any) -> Any:
    """Number the words of all shares: the number of each, from 1 on, and the place here of each different one."""
    number_J = np.empty(len(hashes_J), np.int32)
    first_K = np.empty(len(hashes_J), np.int64)
    n_words = 0
    for j in range(len(hashes_J)):
        start, size = bounds_Jx2[j, 0], bounds_Jx2[j, 1] - bounds_Jx2[j, 0]
        slot = np.int64((hashes_J[j] * _GOLDEN) >> shift)
        while True:
            k = slots[slot] - 1
            if k < 0:
                k = n_words
                first_K[k] = j
                n_words += 1
                slots[slot] = n_words
                break
            other = first_K[k]
            if hashes_J[other] == hashes_J[j] and bounds_Jx2[other, 1] - bounds_Jx2[other, 0] == size:
                if size <= _KEY_BYTES:
                    break
                first, n_same = bounds_Jx2[other, 0], 0
                while n_same < size and data_N[first + n_same] == data_N[start + n_same]:
                    n_same += 1
                if n_same == size:
                    break
            slot = (slot + 1) & (len(slots) - 1)
        number_J[j] = k + 1
    return number_J, first_K[:n_words]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _renumber(numbers_T: Any, number_J: Any) -> None:
    """Each number k by `number_J[k - 1]`; 0 stays."""
    for t in range(len(numbers_T)):
        if numbers_T[t] != 0:
            numbers_T[t] = number_J[numbers_T[t] - 1]
