"""How much of what stands before and at a token the training text has: the longest n-gram that ends there.

It is a property of the two texts, the same for every model, and what an n-gram model without cut-offs matches.  Only
the n-grams of the test text are looked for, each by 64 bits; two are taken for one in fewer than one text of 100,000.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bench.profiled import LONGEST
from lmzoo.corpus import Split

Ids = npt.NDArray[np.integer]
Keys = npt.NDArray[np.uint64]
Orders = npt.NDArray[np.int64]

# longer texts are not searched: it would take more than a few seconds
MOST_TRAIN_TOKENS, MOST_TEST_TOKENS = 10_000_000, 2_000_000
# tokens of the training text at a time
_BLOCK = 1 << 19
# odd, so that multiplying by it loses nothing
_FACTOR = np.array([0x9E3779B97F4A7C15], np.uint64)


def longest_matches(train: Split, test: Split, counts_V: npt.NDArray[np.int64]) -> Orders:
    """For each test token the most tokens, up to it, that stand together in some document of the training text.

    `<s>` counts as a token before a document's first.  0: the token itself never occurs; so is it for tokens that are
    out of vocabulary, whatever became `<unk>` in training.

    Args:
        counts_V: how often each symbol occurs in the training text.
    """
    numbers_V = np.random.default_rng(0).integers(0, 1 << 64, len(test.vocab), np.uint64)
    keys_of_order = _keys_by_order(test, numbers_V)
    wanted = [np.unique(keys_P) for _, keys_P in keys_of_order]
    is_seen = [np.zeros(len(keys_K), np.bool_) for keys_K in wanted]
    for start in range(0, train.n_tokens, _BLOCK):
        _look(train, numbers_V, np.arange(start, min(start + _BLOCK, train.n_tokens)), wanted, is_seen)
    orders_N = np.minimum(counts_V[test.ids_N], 1).astype(np.int64)
    orders_N[test.oov_M] = 0
    for order in range(2, LONGEST + 1):
        places_P, keys_P = keys_of_order[order - 1]
        is_found_P = is_seen[order - 1][np.searchsorted(wanted[order - 1], keys_P)]
        # what is found was found at every order below
        orders_N[places_P[is_found_P & (orders_N[places_P] == order - 1)]] = order
    return orders_N


def _keys_by_order(split: Split, numbers_V: Keys) -> list[tuple[Ids, Keys]]:
    """For orders 1 to `LONGEST`: the places where an n-gram of that order ends, and its key."""
    places_P = np.arange(split.n_tokens)
    starts_P = _starts(split, places_P)
    keys_P = numbers_V[split.ids_N]
    found: list[tuple[Ids, Keys]] = [(places_P, keys_P)]
    for order in range(2, LONGEST + 1):
        is_there_P = places_P - starts_P >= order - 2
        places_P, starts_P, keys_P = places_P[is_there_P], starts_P[is_there_P], keys_P[is_there_P]
        keys_P = _longer(split, numbers_V, places_P, starts_P, keys_P, order)
        found.append((places_P, keys_P))
    return found


def _look(
    split: Split, numbers_V: Keys, places_P: Ids, wanted: list[Keys], is_seen: list[npt.NDArray[np.bool_]]
) -> None:
    """Mark which of the wanted n-grams of each order end at some places; only where one does can a longer one."""
    starts_P = _starts(split, places_P)
    keys_P = numbers_V[split.ids_N[places_P]]
    for order in range(1, LONGEST + 1):
        if order > 1:
            is_there_P = places_P - starts_P >= order - 2
            places_P, starts_P, keys_P = places_P[is_there_P], starts_P[is_there_P], keys_P[is_there_P]
            keys_P = _longer(split, numbers_V, places_P, starts_P, keys_P, order)
        wanted_K = wanted[order - 1]
        if not len(wanted_K) or not len(places_P):
            return
        at_P = np.minimum(np.searchsorted(wanted_K, keys_P), len(wanted_K) - 1)
        is_wanted_P = wanted_K[at_P] == keys_P
        is_seen[order - 1][at_P[is_wanted_P]] = True
        places_P, starts_P, keys_P = places_P[is_wanted_P], starts_P[is_wanted_P], keys_P[is_wanted_P]


def _starts(split: Split, places_P: Ids) -> Ids:
    """Where the document of each place starts."""
    starts: Ids = split.starts_D1[np.searchsorted(split.starts_D1, places_P, side="right") - 1]
    return starts


def _longer(split: Split, numbers_V: Keys, places_P: Ids, starts_P: Ids, keys_P: Keys, order: int) -> Keys:
    """The keys with one token more in front, which is `<s>` before a document's first."""
    before_P = places_P - (order - 1)
    tokens_P = np.where(before_P < starts_P, split.vocab.bos_id, split.ids_N[np.maximum(before_P, 0)])
    # numbers of 64 bits go round
    keys: Keys = keys_P + numbers_V[tokens_P] * _FACTOR ** np.uint64(order - 1)
    return keys
