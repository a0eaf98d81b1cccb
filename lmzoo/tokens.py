"""Tokens as numbers: each text is cut into tokens once, and each different token is looked at once.

What a token is worth (its id, its spelling, whether it reads like a marker) is then asked of the different ones alone.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo import compiled
from lmzoo.ends import Ends
from lmzoo.normalizers import Normalizer
from lmzoo.segments import Segments, blocks
from lmzoo.tokenizers import Tokenizer, pieces_of
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS

_LF, _SPACE = 10, 32
_SEPARATOR = re.compile(rb"[ \t\n]")
_N_CODE_POINTS = 0x110000
# tokens or bytes worked on at a time, where temporary arrays are several times as large
_BLOCK = 1 << 16
# how much faster the compiled loop cuts a text into words
_SAVED_NS_PER_BYTE = 12


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of segments: `numbers_T` is 0 where a segment ends, k where `different[k - 1]` stands.

    `chars_S` are the characters of each segment, its end not included.  `lossless`: the tokens give back every segment
    but for white space at its ends, and `ends_nats_S` are what it costs to tell that.
    """

    numbers_T: npt.NDArray[np.integer]
    different: list[str]
    chars_S: npt.NDArray[np.int64]
    ends_nats_S: npt.NDArray[np.float64]
    lossless: bool

    @property
    def n_segments(self) -> int:
        return len(self.chars_S)

    @cached_property
    def counts_K(self) -> npt.NDArray[np.int64]:
        """How often each different token occurs."""
        counts_K1 = np.zeros(len(self.different) + 1, np.int64)
        # a block is at least as long as the counts, or adding these up would take longer than counting
        for block in _blocks_of(self.numbers_T, max(_BLOCK, len(counts_K1))):
            counts_K1 += np.bincount(block, minlength=len(counts_K1))
        return counts_K1[1:]


def tokens_of(segments: Segments, tokenizer: Tokenizer, ends: Ends | None = None) -> Tokens:
    """The tokens of normalised segments; `ends` codes the white space that they drop there, where that is asked for."""
    ends_nats_S = np.zeros(len(segments)) if ends is None or tokenizer.is_lossless else ends.nats_of(segments)
    if tokenizer.name == "word":
        return Tokens(*_number_words(segments), segments.chars_S, ends_nats_S, _are_single_spaced(segments))
    if tokenizer.is_single:
        number = _number_bytes if tokenizer.name == "byte" else _number_chars
        return Tokens(*number(segments), segments.chars_S, ends_nats_S, lossless=True)
    numbers_T, different, lossless = _number_any(segments, tokenizer)
    return Tokens(numbers_T, different, segments.chars_S, ends_nats_S, lossless)


def normalized(segments: Segments, normalizer: Normalizer) -> Segments:
    """The segments as a normaliser rewrites them."""
    if normalizer.lossless:
        return segments
    if segments.n_inner_ends:
        return Segments.of(map(normalizer.apply, segments))
    return Segments.lines_of(normalizer.apply_by_line(segments.text))


def taken(
    table: npt.NDArray[np.int32], numbers_T: npt.NDArray[np.integer], *, in_place: bool = False
) -> npt.NDArray[np.int32]:
    """`table[numbers_T]` without numpy's copy of the numbers as int64; `in_place`: where they stand, if they fit."""
    is_same = in_place and numbers_T.dtype == table.dtype and numbers_T.flags.writeable
    values_T: npt.NDArray[Any] = numbers_T if is_same else np.empty(len(numbers_T), table.dtype)

    def take(first: int, end: int) -> None:
        for start in range(first * _BLOCK, min(end * _BLOCK, len(numbers_T)), _BLOCK):
            part = slice(start, start + _BLOCK)
            np.take(table, numbers_T[part], out=values_T[part], mode="clip")

    compiled.in_parallel(-(-len(numbers_T) // _BLOCK), take)
    return values_T


def _blocks_of(array: npt.NDArray[Any], n: int = _BLOCK) -> Iterable[npt.NDArray[Any]]:
    return (array[i : i + n] for i in range(0, len(array), n))


def _number_any(segments: Segments, tokenizer: Tokenizer) -> tuple[npt.NDArray[np.int32], list[str], bool]:
    """Tokens of a tokenizer that is known by what it does alone, some texts at a time; whether they lose nothing."""
    numbers: defaultdict[str, int] = defaultdict(itertools.count(1).__next__)
    numbers_T = array("i")
    lossless = True
    for batch in _batches(_pieces(segments, tokenizer)):
        texts = [text for text, _ in batch]
        split = tokenizer.split_many(texts) if tokenizer.split_many else map(tokenizer.split, texts)
        for (text, is_end), tokens in zip(batch, split, strict=True):
            numbers_T.extend(map(numbers.__getitem__, tokens))
            if is_end:
                numbers_T.append(0)
            lossless = lossless and tokenizer.gives_back(text, tokens)
    return np.frombuffer(numbers_T, np.int32), list(numbers), lossless


def _pieces(segments: Segments, tokenizer: Tokenizer) -> Iterator[tuple[str, bool]]:
    """Segments, and whether they end there: long ones come in pieces, where no white space gets lost by that."""
    places = tokenizer.places if tokenizer.is_lossless else None
    for segment in segments:
        *firsts, last = pieces_of(segment, places, _BLOCK)
        yield from ((piece, False) for piece in firsts)
        yield last, True


def _batches(pieces: Iterable[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
    batch: list[tuple[str, bool]] = []
    n_chars = 0
    for piece in pieces:
        batch.append(piece)
        n_chars += len(piece[0])
        if n_chars >= _BLOCK or len(batch) >= _BLOCK:
            yield batch
            batch, n_chars = [], 0
    yield batch


def _are_single_spaced(segments: Segments) -> bool:
    has_others = segments.n_inner_ends or segments.data.find(b"\t", segments.start, segments.end) >= 0
    if not has_others and not _has_two_spaces(np.frombuffer(segments.view, np.uint8)):
        return True
    return not any(gap in text.strip(" \t\n") for text in segments for gap in ("\t", "\n", "  "))


def _has_two_spaces(data_N: npt.NDArray[np.uint8]) -> bool:
    # bytes.find takes ten times as long where nearly every word has one space behind it
    for start in range(0, len(data_N), _BLOCK):
        is_space = data_N[start : start + _BLOCK + 1] == _SPACE
        if (is_space[1:] & is_space[:-1]).any():
            return True
    return False


def _number_words(segments: Segments) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Words of all segments, with a 0 for the end of each segment but none for the line ends inside one."""
    numbers_T, words = number_words(segments.data, segments.start, segments.end)
    if segments.n_inner_ends:
        ends = np.flatnonzero(np.frombuffer(segments.view, np.uint8) == _LF) + segments.start
        is_inner = np.ones(len(ends), bool)
        is_inner[np.searchsorted(ends, segments.bounds_S1[1:] - 1)] = False
        keep_T = np.ones(len(numbers_T), bool)
        keep_T[np.flatnonzero(numbers_T == 0)[is_inner]] = False
        numbers_T = numbers_T[keep_T]
    return numbers_T, words


def number_words(data: bytes, start: int = 0, end: int | None = None) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Number the words of `data[start:end]`, UTF-8 that ends with a separator, in the order of their first places.

    Words stand between ASCII spaces, tabs and line ends.  Returns a number for each word and 0 for each LF, and the
    different words: number k is that of the k-th.
    """
    end = len(data) if end is None else end
    if compiled.is_worth_it(end - start, _SAVED_NS_PER_BYTE):
        from lmzoo.compiled.words import number_words as number_words_compiled

        numbers_T, bounds_Kx2 = number_words_compiled(np.frombuffer(data, np.uint8)[start:end])
        different: list[str] = []
        for block_Bx2 in _blocks_of(bounds_Kx2 + start):
            bounds = zip(*block_Bx2.T.tolist(), strict=True)
            different += [data[a:b].decode("utf-8", "surrogatepass") for a, b in bounds]
        return numbers_T, different
    # what stands between two separators is no word
    numbers = defaultdict(itertools.count(1).__next__, {b"\n": 0, b"": -1})
    pieces = [np.zeros(0, np.int32)]
    for a, b in blocks(data, start, end, _SEPARATOR):
        words = data[a:b].replace(b"\t", b" ").replace(b"\n", b" \n ").split(b" ")
        found = np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))
        pieces.append(found[found >= 0])
    return np.concatenate(pieces), [word.decode("utf-8", "surrogatepass") for word, k in numbers.items() if k > 0]


def _number_chars(segments: Segments) -> tuple[npt.NDArray[np.integer], list[str]]:
    """Characters of all segments, numbered by code point, with a 0 for the end of each segment."""
    numbers_T, seen_K = _number_codes(lambda: _code_points(segments), segments, segments.chars_S, _N_CODE_POINTS)
    return numbers_T, [chr(code) for code in seen_K.tolist()]


def _number_bytes(segments: Segments) -> tuple[npt.NDArray[np.integer], list[str]]:
    """Bytes of all segments, numbered in turn, with a 0 for the end of each segment."""
    data_N = np.frombuffer(segments.view, np.uint8)
    numbers_T, seen_K = _number_codes(lambda: _blocks_of(data_N), segments, segments.bytes_S, len(BYTE_SYMBOLS))
    return numbers_T, [BYTE_SYMBOLS[byte] for byte in seen_K.tolist()]


def _number_codes(
    codes: Callable[[], Iterable[npt.NDArray[np.integer]]],
    segments: Segments,
    sizes_S: npt.NDArray[np.int64],
    n_codes: int,
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """Numbers of the codes of segments with their LFs, block by block, and the code of each number from 1 on."""
    is_seen = np.zeros(n_codes, bool)
    for block in codes():
        is_seen[block] = True
    # the LFs behind segments are no tokens
    is_seen[_LF] = segments.n_inner_ends > 0
    seen_K = np.flatnonzero(is_seen)
    table: npt.NDArray[np.integer] = np.zeros(max(int(seen_K.max(initial=0)), _LF) + 1, np.min_scalar_type(len(seen_K)))
    table[seen_K] = np.arange(1, len(seen_K) + 1)
    ends_S = np.cumsum(sizes_S + 1) - 1
    numbers_T = np.empty(int(ends_S[-1]) + 1 if len(segments) else 0, table.dtype)
    n = 0
    for block in codes():
        np.take(table, block, out=numbers_T[n : n + len(block)], mode="clip")
        n += len(block)
    numbers_T[ends_S] = 0
    return numbers_T, seen_K


def _code_points(segments: Segments) -> Iterator[npt.NDArray[np.integer]]:
    """The code points of all segments with their LFs, piece by piece."""
    data, start, end = segments.data, segments.start, segments.end
    while start < end:
        stop = min(start + _BLOCK, end)
        while stop < end and data[stop] & 0xC0 == 0x80:
            stop += 1
        piece = data[start:stop]
        if piece.isascii():
            yield np.frombuffer(piece, np.uint8)
        else:
            text = piece.decode("utf-8", "surrogatepass")
            yield np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        start = stop
