"""Segments: the texts of one part of a corpus (files, lines or paragraphs), held once, as UTF-8."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_LF = 10
# values asked about together
_BLOCK_VALUES = 1 << 16
_LINE_END = re.compile(b"\n")
# a line without anything but spaces and tabs, behind another
_BLANK_AFTER_FIRST = re.compile(rb"\n[ \t]*\n")
_BLANK_FIRST = re.compile(rb"[ \t]*\n")


class Segments(Sequence[str]):
    """Texts laid end to end in UTF-8, each followed by one LF that is not part of it.

    Segment s is `data[bounds_S1[s] : bounds_S1[s + 1] - 1]`, decoded when it is asked for.  A slice shares the data.
    """

    def __init__(self, data: bytes, bounds_S1: npt.NDArray[np.int64]) -> None:
        self.data = data
        self.bounds_S1 = bounds_S1

    @classmethod
    def of(cls, texts: Iterable[str]) -> Segments:
        """Any texts; lone surrogates pass."""
        pieces = [_encoded(text) for text in texts]
        return cls(
            b"".join(part for piece in pieces for part in (piece, b"\n")),
            np.cumsum([0, *(len(piece) + 1 for piece in pieces)], dtype=np.int64),
        )

    @classmethod
    def lines_of(cls, text: str) -> Segments:
        """The lines of a text, blank ones too; a final line end is optional."""
        data = _encoded(text)
        if data and not data.endswith(b"\n"):
            data += b"\n"
        bounds_S1 = np.zeros(data.count(b"\n") + 1, np.int64)
        np.add(places_where(lambda block: block == _LF, np.frombuffer(data, np.uint8)), 1, out=bounds_S1[1:])
        return cls(data, bounds_S1)

    @classmethod
    def together(cls, several: Sequence[Segments]) -> Segments:
        """All segments of several, in turn; one is given back as it is."""
        if len(several) == 1:
            return several[0]
        lengths_S = [np.diff(segments.bounds_S1) for segments in several]
        bounds_S1 = np.cumsum(np.concatenate([[0], *lengths_S]), dtype=np.int64)
        return cls(b"".join(segments.view for segments in several), bounds_S1)

    def __len__(self) -> int:
        return len(self.bounds_S1) - 1

    @overload
    def __getitem__(self, s: int) -> str: ...
    @overload
    def __getitem__(self, s: slice) -> Segments: ...
    def __getitem__(self, s: int | slice) -> str | Segments:
        if isinstance(s, slice):
            first, last, step = s.indices(len(self))
            if step == 1:
                return Segments(self.data, self.bounds_S1[first : max(first, last) + 1])
            return Segments.of([self[i] for i in range(first, last, step)])
        if not -len(self) <= s < len(self):
            raise IndexError(f"segment {s} of {len(self)}")
        s %= len(self)
        return _decoded(self.data[self.bounds_S1[s] : self.bounds_S1[s + 1] - 1])

    def __iter__(self) -> Iterator[str]:
        return (_decoded(piece) for piece in self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        bounds = self.bounds_S1.tolist()
        return (self.data[a : b - 1] for a, b in itertools.pairwise(bounds))

    @property
    def start(self) -> int:
        """Where the first segment starts in `data`."""
        return int(self.bounds_S1[0])

    @property
    def end(self) -> int:
        """Where the LF of the last segment ends in `data`."""
        return int(self.bounds_S1[-1])

    @property
    def view(self) -> memoryview:
        """The bytes of all segments, their LFs included."""
        return memoryview(self.data)[self.start : self.end]

    @property
    def text(self) -> str:
        """All segments, each with its LF."""
        return _decoded(bytes(self.view))

    @cached_property
    def bytes_S(self) -> npt.NDArray[np.int64]:
        """The UTF-8 bytes of each segment, its LF not included."""
        return np.diff(self.bounds_S1) - 1

    @cached_property
    def chars_S(self) -> npt.NDArray[np.int64]:
        """The characters of each segment, its LF not included."""
        if not len(self) or self.data.isascii():
            return self.bytes_S
        # all bytes of a character but its first are 10xxxxxx; a segment is never empty here, as its LF is counted
        is_first = np.frombuffer(self.view, np.int8) >= -64
        return np.add.reduceat(is_first, self.bounds_S1[:-1] - self.start, dtype=np.int64) - 1

    @cached_property
    def n_inner_ends(self) -> int:
        """LFs inside segments."""
        return self.data.count(b"\n", self.start, self.end) - len(self)

    def have_blanks(self) -> bool:
        """Whether any of these lines is blank: empty or of spaces and tabs alone."""
        if _BLANK_FIRST.match(self.data, self.start, self.end):
            return True
        return _BLANK_AFTER_FIRST.search(self.data, self.start, self.end) is not None

    def where(self, keep_S: npt.NDArray[np.bool_]) -> Segments:
        """The segments that are kept; all of them: these themselves."""
        if keep_S.all():
            return self
        kept = b"".join(piece + b"\n" for piece, keep in zip(self._pieces(), keep_S.tolist(), strict=True) if keep)
        return Segments(kept, np.concatenate(([0], np.cumsum(np.diff(self.bounds_S1)[keep_S]))))

    def joined(self, is_first_S: npt.NDArray[np.bool_]) -> Segments:
        """Longer segments, each made of one that `is_first_S` and of those behind it, LFs between them."""
        return Segments(self.data, np.append(self.bounds_S1[:-1][is_first_S], self.end))

    def lines(self) -> Iterator[str]:
        """All lines, of one segment after the other."""
        return itertools.chain.from_iterable(self._blocks_of_lines())

    def _blocks_of_lines(self) -> Iterator[list[str]]:
        for start, end in blocks(self.data, self.start, self.end, _LINE_END):
            yield _decoded(self.data[start : end - 1]).split("\n")


def places_where(
    holds: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]], values_T: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """The positions where something holds, without an answer for each position at once."""
    blocks_of = [slice(start, start + _BLOCK_VALUES) for start in range(0, len(values_T), _BLOCK_VALUES)]
    # asked twice: many small answers kept until they are joined would leave holes in memory
    places_P = np.empty(sum(np.count_nonzero(holds(values_T[block])) for block in blocks_of), np.int64)
    n = 0
    for block in blocks_of:
        found = np.flatnonzero(holds(values_T[block]))
        np.add(found, block.start, out=places_P[n : n + len(found)])
        n += len(found)
    return places_P


# bytes worked on at a time: more would not stay in the processor's cache
_BLOCK_BYTES = 1 << 14


def blocks(data: bytes, start: int, end: int, separator: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Small pieces of `data[start:end]`, each ending behind a separator, as the last byte of all does."""
    while start < end:
        found = separator.search(data, min(start + _BLOCK_BYTES, end - 1), end)
        stop = end if found is None else found.end()
        yield start, stop
        start = stop


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
