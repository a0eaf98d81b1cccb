"""What tokens of different kinds cost: sums of nats by frequency, by place in the document, by longest match.

Every test token is in one bucket of each, so that each adds up to the test text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bench.profiled import LONGEST, Bucket
from lmzoo.corpus import Split
from lmzoo.evaluation import Nats

Counts = npt.NDArray[np.int64]

# of counts in the training text, and of places in a document: the least value of each bucket
_COUNTS: Sequence[int] = (0, 1, 2, *(10**n for n in range(1, 19)))
_PLACES: Sequence[int] = tuple(2**n for n in range(63))
_ORDERS: Sequence[int] = tuple(range(LONGEST + 1))
# tokens counted at a time
_BLOCK = 1 << 20


def counts_in(split: Split) -> Counts:
    """How often each symbol of its vocabulary occurs in a text, shape (V,)."""
    counts_V = np.zeros(len(split.vocab), np.int64)
    for start in range(0, split.n_tokens, max(_BLOCK, len(counts_V))):
        block = split.ids_N[start : start + max(_BLOCK, len(counts_V))]
        counts_V += np.bincount(block, minlength=len(counts_V))
    return counts_V


def by_frequency(split: Split, nats_N: Nats, counts_V: Counts) -> tuple[Bucket, ...]:
    """By how often each token occurs in the training text: out of vocabulary, never, once, 2-9, 10-99 and so on."""
    values_N = counts_V[split.ids_N]
    values_N[split.oov_M] = -1
    return _buckets(values_N, nats_N, _COUNTS)


def by_position(split: Split, nats_N: Nats) -> tuple[Bucket, ...]:
    """By the place in the document, 1, 2-3, 4-7, 8-15 and so on."""
    places_N = np.arange(1, split.n_tokens + 1) - np.repeat(split.starts_D1[:-1], split.lengths_D)
    return _buckets(places_N, nats_N, _PLACES)


def by_order(nats_N: Nats, orders_N: Counts) -> tuple[Bucket, ...]:
    """By the longest n-gram of the training text that ends in the token; the last has longer ones too."""
    return _buckets(orders_N, nats_N, _ORDERS)


def _buckets(values_N: Counts, nats_N: Nats, lows: Sequence[int]) -> tuple[Bucket, ...]:
    """The buckets that have tokens, least values first; values below all are those that have none."""
    numbers_N = np.searchsorted(lows, values_N, side="right")
    n_tokens = np.bincount(numbers_N, minlength=len(lows) + 1).tolist()
    # what is infinite makes its own bucket so, and no other
    nats = np.bincount(numbers_N, weights=nats_N, minlength=len(lows) + 1).tolist()
    highs = [low - 1 for low in lows[1:]]
    bounds = [(None, None), *zip(lows, [*highs, None], strict=True)]
    return tuple(
        Bucket(low=low, high=high, n_tokens=n, nats=sum_nats if math.isfinite(sum_nats) else None)
        for (low, high), n, sum_nats in zip(bounds, n_tokens, nats, strict=True)
        if n
    )
