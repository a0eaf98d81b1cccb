"""Scoring with a trie of n-grams, compiled: the twin of `NgramModel`'s loop over orders.

Going from the longest history down, most tokens take one look-up where the loop over orders takes one for each order.
A history that is left leads to the longest shorter one by its link.  Sixteen texts advance side by side, so that the
memory answers several at once.

Each function stands in one piece: handing arrays to another counts references, which takes longer than the look-up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_SHIFT = np.uint64(6)
_ONE = np.uint64(1)
# texts that advance together
_SIDE_BY_SIDE = 16
# more than any model has orders
_MOST_BACKOFFS = 64


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def link(
    bounds: Any,
    tokens_G: Any,
    first_V1: Any,
    bases_B: Any,
    within_H1: Any,
    order: int,
    low: int,
    high: int,
    links_G: Any,
    is_broken: Any,
) -> None:
    """For the histories low..high-1, of one order, the links of their continuations: the longest proper suffix held.

    The links of the histories themselves are there already; those of single symbols are -1.  Sets `is_broken[0]` where
    arrays of a damaged file lead to places that are not there, and follows them no further.
    """
    n_symbols = bounds[1]
    for history in range(low, high):
        if history < n_symbols:
            start, end = first_V1[history], first_V1[history + 1]
        else:
            here = np.uint64(history - n_symbols)
            start = bases_B[here >> _SHIFT] + np.int64(within_H1[here])
            end = bases_B[(here + _ONE) >> _SHIFT] + np.int64(within_H1[here + _ONE])
        if start < bounds[order] or end < start or end > bounds[order + 1]:
            is_broken[0] = True
            return
        for node in range(start, end):
            token = np.int64(tokens_G[node])
            if token >= n_symbols:
                is_broken[0] = True
                return
            found = token
            shorter = np.int64(links_G[history])
            while shorter >= 0:
                if shorter < n_symbols:
                    at, size = first_V1[shorter], first_V1[shorter + 1] - first_V1[shorter]
                else:
                    here = np.uint64(shorter - n_symbols)
                    at = bases_B[here >> _SHIFT] + np.int64(within_H1[here])
                    size = bases_B[(here + _ONE) >> _SHIFT] + np.int64(within_H1[here + _ONE]) - at
                size = min(size, token + 1)
                while size > 1:
                    half = size >> 1
                    if tokens_G[at + half] <= token:
                        at += half
                    size -= half
                if size == 1 and tokens_G[at] == token:
                    found = at
                    break
                shorter = np.int64(links_G[shorter])
            links_G[node] = found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def score(
    tokens_BxL: Any,
    lanes_Nx4: Any,
    nodes_N: Any,
    bounds: Any,
    links_G: Any,
    tokens_G: Any,
    first_V1: Any,
    bases_B: Any,
    within_H1: Any,
    logp_G: Any,
    logp_codes_G: Any,
    logp_book_OxC: Any,
    backoff_H: Any,
    backoff_codes_H: Any,
    backoff_book_OxC: Any,
    logprobs_BxL: Any,
    low: int,
    high: int,
) -> None:
    """ln p of the tokens of lanes low..high-1; `nodes_N` are their longest histories before, and become those after.

    A lane is a row, the column it starts at, the first column whose ln p is written, and the end.
    """
    n_symbols = bounds[1]
    n_histories = bounds[len(bounds) - 2]
    has_codes, has_backoff_codes = len(logp_codes_G) > 0, len(backoff_codes_H) > 0
    has_rows, has_backoff_rows = len(logp_book_OxC) > 1, len(backoff_book_OxC) > 1
    backoffs = np.empty(_MOST_BACKOFFS)
    for first in range(low, high, _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, high)
        n_steps = 0
        for lane in range(first, last):
            n_steps = max(n_steps, lanes_Nx4[lane, 3] - lanes_Nx4[lane, 1])
        for step in range(n_steps):
            for lane in range(first, last):
                row, column = lanes_Nx4[lane, 0], lanes_Nx4[lane, 1] + step
                if column >= lanes_Nx4[lane, 3]:
                    continue
                token = np.int64(tokens_BxL[row, column])
                node = nodes_N[lane]
                found = token
                n_left = 0
                while node >= 0:
                    if node < n_symbols:
                        at, size = first_V1[node], first_V1[node + 1] - first_V1[node]
                    else:
                        here = np.uint64(node - n_symbols)
                        at = bases_B[here >> _SHIFT] + np.int64(within_H1[here])
                        size = bases_B[(here + _ONE) >> _SHIFT] + np.int64(within_H1[here + _ONE]) - at
                    # ids rise within a history, so at most `token` stand before it; frequent tokens have low ids
                    size = min(size, token + 1)
                    while size > 1:
                        half = size >> 1
                        if tokens_G[at + half] <= token:
                            at += half
                        size -= half
                    if size == 1 and tokens_G[at] == token:
                        found = at
                        break
                    if has_backoff_codes:
                        book_row = 0
                        while has_backoff_rows and bounds[book_row + 1] <= node:
                            book_row += 1
                        backoffs[n_left] = backoff_book_OxC[book_row, backoff_codes_H[node]]
                    else:
                        backoffs[n_left] = backoff_H[node]
                    n_left += 1
                    node = np.int64(links_G[node])
                if has_codes:
                    book_row = 0
                    while has_rows and bounds[book_row + 1] <= found:
                        book_row += 1
                    logprob = logp_book_OxC[book_row, logp_codes_G[found]]
                else:
                    logprob = logp_G[found]
                # from the shortest history up, as the loop over orders adds them
                for place in range(n_left - 1, -1, -1):
                    logprob += backoffs[place]
                if column >= lanes_Nx4[lane, 2]:
                    logprobs_BxL[row, column] = logprob
                # the highest order is never a history, its suffix is
                nodes_N[lane] = found if found < n_histories else np.int64(links_G[found])
