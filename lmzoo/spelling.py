"""What an out-of-vocabulary token costs: its spelling, by the characters of the training text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

# a character never seen in training is charged a code point chosen uniformly among all of Unicode
_N_CODE_POINTS = 0x110000
# different tokens looked at together
_BLOCK_TOKENS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """What an out-of-vocabulary token is charged for bits per character: its spelling by a character unigram.

    The characters of the training text with add-one smoothing, a mark that ends a token, and an escape to a code point
    chosen uniformly for characters never seen.  Where all tokens are single characters, `counts` are those of the
    characters that are no symbols, and there is no mark (`n_ends` 0).
    """

    counts: Mapping[str, int]
    n_ends: int

    @cached_property
    def _total(self) -> int:
        has_end = 1 if self.n_ends else 0
        return sum(self.counts.values()) + self.n_ends + len(self.counts) + has_end + 1

    def nats(self, token: str) -> float:
        """Code length of one token's spelling in nats."""
        cells = [self.counts.get(c, 0) + 1 for c in token]
        unseen = sum(c not in self.counts for c in token)
        if self.n_ends:
            cells.append(self.n_ends + 1)
        return float(len(cells) * np.log(self._total) - np.log(cells).sum() + unseen * np.log(_N_CODE_POINTS))

    def to_header(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "n_ends": self.n_ends}


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a text; lone surrogates pass."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def spelling_of(different: Sequence[str], counts_K: npt.NDArray[np.int64], *, has_ends: bool) -> Spelling:
    """The spelling of a text from its different tokens and how often each occurs; `has_ends`: tokens vary in length."""
    # untouched memory takes no room
    counts_C = np.zeros(_N_CODE_POINTS, np.int64)
    for start in range(0, len(different), _BLOCK_TOKENS):
        block = different[start : start + _BLOCK_TOKENS]
        times = np.repeat(counts_K[start : start + _BLOCK_TOKENS], [len(token) for token in block])
        # whole numbers, exact in float64
        found = np.bincount(code_points("".join(block)), times)
        counts_C[: len(found)] += found.astype(np.int64)
    codes = np.flatnonzero(counts_C)
    return Spelling(
        counts=dict(zip(map(chr, codes.tolist()), counts_C[codes].tolist(), strict=True)),
        n_ends=int(counts_K.sum()) if has_ends else 0,
    )
