"""What it takes to tell the white space that documents begin and end with, which words drop."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

import numpy as np
import numpy.typing as npt

from lmzoo.segments import Segments

BLANKS = b" \t\n"
_BLANKS = np.frombuffer(BLANKS, np.uint8)
_RUN = re.compile(rb"[ \t\n]*")
_NO_ENDS, _NO_TEXT = (b"", b""), (b"",)
# each sign of an end is one of three, or the end is over
_NATS_A_SIGN = math.log(len(BLANKS) + 1)


class Ends:
    """A code for the ends of documents that learns as it goes: each is coded after those before it.

    As long as all documents begin and end alike nothing is paid.  From then on one that was seen c times among n costs
    ln((n + 1) / c), and a new one ln(n + 1) and its signs.  Documents of white space alone are told apart by having no
    tokens, and have a count of their own.
    """

    def __init__(self) -> None:
        self._seen: tuple[Counter[tuple[bytes, ...]], Counter[tuple[bytes, ...]]] = (Counter(), Counter())
        # summed anew for each document they would take as long as there are different ends
        self._n_seen = [0, 0]

    def nats_of(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Nats of each segment's ends, in their order."""
        nats_S = np.zeros(len(segments))
        if self._are_bare(segments):
            n_empty = int((segments.bytes_S == 0).sum())
            self._note(False, _NO_ENDS, len(segments) - n_empty)
            self._note(True, _NO_TEXT, n_empty)
            return nats_S
        bounds = segments.bounds_S1.tolist()
        for s, (start, end) in enumerate(itertools.pairwise(bounds)):
            nats_S[s] = self._nats(*_ends_of(segments.data, start, end - 1))
        return nats_S

    def _are_bare(self, segments: Segments) -> bool:
        """Whether neither these segments nor those before begin or end with white space."""
        if any(set(counts) - {_NO_ENDS, _NO_TEXT} for counts in self._seen):
            return False
        data, has_text_S = np.frombuffer(segments.data, np.uint8), segments.bytes_S > 0
        places = (segments.bounds_S1[:-1][has_text_S], segments.bounds_S1[1:][has_text_S] - 2)
        return not any(np.isin(data[places_S], _BLANKS).any() for places_S in places)

    def _note(self, has_no_text: bool, ends: tuple[bytes, ...], n: int) -> None:
        self._seen[has_no_text][ends] += n
        self._n_seen[has_no_text] += n

    def _nats(self, *ends: bytes) -> float:
        has_no_text = len(ends) == 1
        n, n_same = self._n_seen[has_no_text], self._seen[has_no_text][ends]
        self._note(has_no_text, ends, 1)
        if n == n_same:
            return 0.0
        return math.log((n + 1) / n_same) if n_same else math.log(n + 1) + _NATS_A_SIGN * (sum(map(len, ends)) + 2)


def _ends_of(data: bytes, start: int, end: int) -> tuple[bytes, ...]:
    """The white space before and behind a text; all of it where there is nothing else."""
    found = _RUN.match(data, start, end)
    assert found is not None
    if found.end() == end:
        return (found[0],)
    last = end
    while data[last - 1] in BLANKS:
        last -= 1
    return found[0], data[last:end]
