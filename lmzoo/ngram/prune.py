"""Smaller models: n-grams taken out by count or by what they matter, the rest still summing to 1.

What is kept keeps its probability; the back-off of every history is computed anew, so that the model stays a
distribution whatever was taken out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError
from lmzoo.ngram.counts import ABSENT, Counts, Keys
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.smoothing import Table
from lmzoo.ngram.trie import from_keys

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# below this much, nothing is left but rounding
_NOTHING = 1e-12
# the search for a number of bytes ends within this share of them, or after so many rounds
_SPARE = 0.01
_SIZE_ROUNDS = 8
# n-grams looked up together
_PIECE = 1 << 16
# what a file holds besides arrays, vocabulary and options: the places of the arrays, alignment, the checksum
_HEADER_BYTES = 2048


def largest_sum(model: NgramModel) -> float:
    """The largest sum of the probabilities of all symbols after any history that is held."""
    keys, tables = model.tables
    n_symbols = len(model.vocab)
    sums_H = np.exp(tables[0].logp_G).sum(keepdims=True)
    largest = float(sums_H[0])
    for order, words in enumerate(_words(keys, n_symbols)[1:], start=2):
        n_histories = len(keys[order - 2])
        history_G = keys[order - 1] // n_symbols
        lower_G = np.exp(_last_logp(model, words[:, 1:]))
        with np.errstate(over="ignore"):
            seen_H = np.bincount(history_G, np.exp(tables[order - 1].logp_G), n_histories)
            # what the shorter history gives to the others, were its own sum 1
            rest_H = np.maximum(1 - np.bincount(history_G, lower_G, n_histories), 0.0)
            sums_H = seen_H + np.exp(tables[order - 2].backoff_G) * rest_H
        largest = max(largest, float(sums_H.max(initial=0.0)))
    return largest


def renormalized(model: NgramModel) -> NgramModel:
    """The model with every back-off computed anew from the probabilities, so that each history sums to 1."""
    return _without(model, [np.ones(end - start, np.bool_) for start, end in pairwise(model.trie.bounds)])


def prune_by_count(model: NgramModel, counts: Sequence[Counts], least: Sequence[int]) -> NgramModel:
    """Keep n-grams seen at least so often; `least` has a number for each order, the last one for all above.

    Single symbols are always kept, and so is every history of what is kept.
    """
    wanted = [count_G >= least[min(k, len(least) - 1)] for k, count_G in enumerate(counts)]
    return _without(model, wanted)


def prune_by_entropy(model: NgramModel, threshold: float) -> NgramModel:
    """Take out n-grams whose removal raises the model's own perplexity by less than `threshold` (Stolcke 1998).

    The relative rise of each n-gram is computed as if it alone were taken out.
    """
    return _without(model, [np.expm1(rise_G) >= threshold for rise_G in entropy_rises(model)])


def prune_to_size(model: NgramModel, max_ngrams: int) -> NgramModel:
    """Take out the n-grams that matter least (Stolcke 1998) until at most `max_ngrams` are left, symbols included.

    Raises `InputError` if the symbols alone are more.
    """
    if len(model.vocab) > max_ngrams:
        raise InputError(f"max_ngrams={max_ngrams} is less than the vocabulary's {len(model.vocab)} symbols")
    return model if model.n_params <= max_ngrams else _to_size(model, entropy_rises(model), max_ngrams)


def prune_to_bytes(
    model: NgramModel, max_bytes: int, finish: Callable[[NgramModel], NgramModel] = lambda model: model
) -> NgramModel:
    """Take out the n-grams that matter least until the file of the model, once finished, has at most `max_bytes`.

    `finish` is what else is done to make it small.  Raises `InputError` if the symbols alone take more.
    """
    best = finish(model)
    if model_bytes(best) <= max_bytes:
        return best
    rises = entropy_rises(model)
    low, low_bytes, high, high_bytes = len(model.vocab), 0, model.n_params, model_bytes(best)
    best = finish(_to_size(model, rises, low))
    low_bytes = model_bytes(best)
    if low_bytes > max_bytes:
        raise InputError(f"max_bytes={max_bytes} is less than the symbols alone may take, {low_bytes} bytes")
    # bytes follow n-grams nearly in a straight line, so few rounds are enough
    aim = max_bytes * (1 - _SPARE / 2)
    for _ in range(_SIZE_ROUNDS):
        wanted = low + int((high - low) * (aim - low_bytes) / (high_bytes - low_bytes))
        if wanted in (low, high) or low_bytes >= max_bytes * (1 - _SPARE):
            break
        tried = finish(_to_size(model, rises, wanted))
        size = model_bytes(tried)
        if size > max_bytes:
            high, high_bytes = wanted, size
        else:
            low, low_bytes, best = wanted, size, tried
    return best


def model_bytes(model: NgramModel) -> int:
    """Bytes of the model's file, rather too many than too few: its arrays, its vocabulary, and what names them."""
    options, arrays = model.to_parts()
    header = json.dumps([model.vocab.to_header(), options])
    return len(header) + sum(array.nbytes for array in arrays.values()) + _HEADER_BYTES


def _to_size(model: NgramModel, rises: Sequence[Floats], max_ngrams: int) -> NgramModel:
    keys, n_symbols = model.trie.packed_keys(), len(model.vocab)
    ladder = np.sort(np.concatenate(rises[1:]))
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        n_kept = sum(int(mask.sum()) for mask in _with_histories(keys, [r > ladder[middle] for r in rises], n_symbols))
        low, high = (low, middle) if n_kept <= max_ngrams else (middle + 1, high)
    return _without(model, [rise_G > ladder[low] for rise_G in rises])


def entropy_rises(model: NgramModel) -> list[Floats]:
    """Of each order: nats of relative entropy between the model and the model without one n-gram (Stolcke 1998, eq. 5).

    Infinite for single symbols, which are never taken out.
    """
    keys, tables = model.tables
    n_symbols = len(model.vocab)
    rises = [np.full(n_symbols, np.inf)]
    for order, words in enumerate(_words(keys, n_symbols)[1:], start=2):
        history_G = keys[order - 1] // n_symbols
        n_histories = len(keys[order - 2])
        p_G = np.exp(tables[order - 1].logp_G)
        lower_G = np.exp(_last_logp(model, words[:, 1:]))
        rest_H = 1 - np.bincount(history_G, p_G, n_histories)
        lower_rest_H = 1 - np.bincount(history_G, lower_G, n_histories)
        rest_G = np.maximum(rest_H[history_G], _NOTHING)
        lower_rest_G = np.maximum(lower_rest_H[history_G], _NOTHING)
        new_backoff_G = np.log(rest_G + p_G) - np.log(lower_rest_G + lower_G)
        change_G = p_G * (np.log(lower_G) + new_backoff_G - np.log(p_G))
        change_G += rest_G * (new_backoff_G - np.log(rest_G) + np.log(lower_rest_G))
        rises.append(np.maximum(-np.exp(_history_logp(model, words[:, :-1])) * change_G, 0.0))
    return rises


def _history_logp(model: NgramModel, words_GxK: npt.NDArray[np.int64]) -> Floats:
    """ln p of running into each history; `<s>` as often as documents start in training."""
    if not len(words_GxK):
        return np.zeros(0)
    logp_GxK, _ = model.logprobs(words_GxK, model.initial_state(len(words_GxK), bos=False))
    counts_V = model.vocab.counts_V
    n_starts, n_tokens = max(int(counts_V[model.vocab.bos_id]), 1), max(int(counts_V.sum()), 2)
    starts_G = words_GxK[:, 0] == model.vocab.bos_id
    logp_GxK[starts_G, 0] = np.log(n_starts / n_tokens)
    return np.asarray(logp_GxK.sum(axis=1))


def _last_logp(model: NgramModel, words_GxK: npt.NDArray[np.int64]) -> Floats:
    """ln p of the last of each row of words after those before it."""
    logp_G = np.empty(len(words_GxK))
    for start in range(0, len(words_GxK), _PIECE):
        piece_PxK = words_GxK[start : start + _PIECE]
        logp_PxK, _ = model.logprobs(piece_PxK, model.initial_state(len(piece_PxK), bos=False))
        logp_G[start : start + _PIECE] = logp_PxK[:, -1]
    return logp_G


def _words(keys: Sequence[Keys], n_symbols: int) -> list[npt.NDArray[np.int64]]:
    """The tokens of every n-gram, order by order, each (G, order)."""
    words = [keys[0][:, None]]
    for keys_G in keys[1:]:
        words.append(np.column_stack((words[-1][keys_G // n_symbols], keys_G % n_symbols)))
    return words


def _with_histories(keys: Sequence[Keys], wanted: Sequence[Mask], n_symbols: int) -> list[Mask]:
    """What is wanted and every history of it; all single symbols."""
    kept = [np.ones(len(keys[0]), np.bool_), *(mask.copy() for mask in wanted[1:])]
    for below, mask, keys_G in zip(kept[-2::-1], kept[::-1], keys[::-1], strict=False):
        below[keys_G[mask] // n_symbols] = True
    return kept


def _without(model: NgramModel, wanted: Sequence[Mask]) -> NgramModel:
    """The model of the n-grams that are wanted, and of their histories."""
    keys, tables = model.tables
    n_symbols = len(model.vocab)
    kept = _with_histories(keys, wanted, n_symbols)
    words = _words(keys, n_symbols)
    new_keys: list[Keys] = []
    new_tables: list[Table] = []
    renumbered = np.zeros(1, np.int64)
    for order, (keys_G, table, mask) in enumerate(zip(keys, tables, kept, strict=True), start=1):
        history_G, token_G = keys_G[mask] // n_symbols, keys_G[mask] % n_symbols
        history_G = renumbered[history_G] if order > 1 else history_G
        logp_G = table.logp_G[mask]
        if order > 1:
            lower = NgramModel(model.vocab, from_keys(new_keys, new_tables, n_symbols), {})
            lower_G = np.exp(_last_logp(lower, words[order - 1][mask][:, 1:]))
            new_tables[-1] = Table(
                logp_G=new_tables[-1].logp_G,
                backoff_G=_backoff(np.exp(logp_G), lower_G, history_G, len(new_keys[-1])),
            )
        new_keys.append(history_G * n_symbols + token_G)
        new_tables.append(Table(logp_G=logp_G, backoff_G=np.zeros(len(logp_G))))
        renumbered = np.where(mask, np.cumsum(mask) - 1, ABSENT)
    new_tables[-1] = Table(logp_G=new_tables[-1].logp_G, backoff_G=np.zeros(0))
    details = {**model.details, "ngrams_before_pruning": [len(k) for k in keys]}
    return NgramModel(model.vocab, from_keys(new_keys, new_tables, n_symbols), details)


def _backoff(p_G: Floats, lower_G: Floats, history_G: Keys, n_histories: int) -> Floats:
    """ln of what a history has left over what the order below has left; 0 where nothing followed or nothing is left."""
    rest_H = 1 - np.bincount(history_G, p_G, n_histories)
    lower_rest_H = 1 - np.bincount(history_G, lower_G, n_histories)
    has_rest_H = (np.bincount(history_G, minlength=n_histories) > 0) & (rest_H > _NOTHING) & (lower_rest_H > _NOTHING)
    ratio_H = np.divide(rest_H, lower_rest_H, out=np.ones(n_histories), where=has_rest_H)
    return np.asarray(np.log(ratio_H))
