"""Looking n-grams up, compiled: the twin of `lmzoo.ngram.model.NgramModel`'s loop over orders."""

from __future__ import annotations

from typing import Any

from numba import njit

_SHIFT = 6


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def climb(
    tokens_BxL: Any,
    shorter_BxL1: Any,
    longer_BxL1: Any,
    bases_B: Any,
    within_H1: Any,
    tokens_G: Any,
    logp_book: Any,
    logp_codes_G: Any,
    backoff_book: Any,
    backoff_codes_H: Any,
    logprobs_BxL: Any,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    """One order up, for a rectangle of tokens: n-grams found (-1: none) and ln p as this order has it.

    `shorter_BxL1[b, t]` is the n-gram one order below that ends before token t: the history of token t.
    """
    is_logp_coded, is_backoff_coded = len(logp_codes_G) > 0, len(backoff_codes_H) > 0
    for b in range(rows[0], rows[1]):
        for t in range(columns[0], columns[1]):
            history = shorter_BxL1[b, t]
            found = -1
            if history >= 0:
                token = tokens_BxL[b, t]
                low = bases_B[history >> _SHIFT] + within_H1[history]
                size = bases_B[(history + 1) >> _SHIFT] + within_H1[history + 1] - low
                if size > 0:
                    while size > 1:
                        half = size >> 1
                        low = low + half if tokens_G[low + half] <= token else low
                        size -= half
                    if tokens_G[low] == token:
                        found = low
                if found >= 0:
                    logprobs_BxL[b, t] = logp_book[logp_codes_G[found]] if is_logp_coded else logp_book[found]
                elif is_backoff_coded:
                    logprobs_BxL[b, t] += backoff_book[backoff_codes_H[history]]
                else:
                    logprobs_BxL[b, t] += backoff_book[history]
            longer_BxL1[b, t + 1] = found
