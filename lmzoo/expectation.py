"""What a model costs on average on text from a known source: exact, by going through all contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError, NotNormalizedError
from lmzoo.interface import LanguageModel
from lmzoo.markov import MarkovSource

# joint probabilities of a context and its next symbol that are gone through
MAX_STRINGS = 1 << 24
# contexts that the model is asked about at a time
_CONTEXTS_AT_ONCE = 1 << 12


def expected_nats(model: LanguageModel[Any], source: MarkovSource, *, length: int | None = None) -> float:
    """The expected nats per token of a model on text of the source: infinite where it holds a symbol for impossible.

    Without `length` far from any start; with it over documents of so many symbols, each scored after `<s>`.  A symbol
    that the model's vocabulary lacks is scored as `<unk>`, as everywhere.

    Raises `InputError` for a model that looks back without limit, that learns from what it scores, or whose contexts
    are too many, and `NotNormalizedError` for scores that are no distribution.
    """
    size = _size_of_contexts(model, source)
    if length is None:
        return _nats_after(model, source, size, bos=False)
    if length < 1:
        raise InputError(f"documents have at least 1 symbol, got length {length}")
    first = [_nats_after(model, source, n_before, bos=True) for n_before in range(min(size, length))]
    far = _nats_after(model, source, size, bos=False) if length > size else 0.0
    return (sum(first) + (length - len(first)) * far) / length


def _size_of_contexts(model: LanguageModel[Any], source: MarkovSource) -> int:
    """How many symbols decide what the source does next and what the model expects, neither `<s>` nor any before."""
    name = type(model).__name__
    if model.context_size is None:
        raise InputError(
            f"{name} looks back to the start of its document, so its contexts cannot all be gone through; "
            "score a long sample instead"
        )
    if model.is_adaptive:
        raise InputError(f"{name} learns from the text it scores, so that no context has one cost; score a long sample")
    if not model.is_normalized:
        raise NotNormalizedError(f"the scores of {name} do not sum to 1, so their expectation means nothing")
    size = max(source.order, model.context_size)
    if (size + 1) * np.log(source.symbols) > np.log(MAX_STRINGS):
        raise InputError(
            f"{source.symbols} symbols and {size} of context make {source.symbols}**{size + 1} strings, "
            f"at most {MAX_STRINGS:,} can be gone through; take fewer symbols or a shorter context"
        )
    return size


def _nats_after(model: LanguageModel[Any], source: MarkovSource, n_before: int, *, bos: bool) -> float:
    """Expected nats of the symbol after so many others: from the start of a document (`bos`), or anywhere."""
    ids_V = model.vocab.encode(source.alphabet)
    joint_RxV = source.joint_of(n_before + 1).reshape(-1, source.symbols)
    total = 0.0
    for first in range(0, len(joint_RxV), _CONTEXTS_AT_ONCE):
        part_RxV = joint_RxV[first : first + _CONTEXTS_AT_ONCE]
        symbols_RxL = _strings(np.arange(first, first + len(part_RxV)), source.symbols, n_before)
        _, state = model.logprobs(ids_V[symbols_RxL], model.initial_state(len(part_RxV), bos=bos))
        logprobs_RxV = np.asarray(model.next_logprobs(state), np.float64)[:, ids_V]
        is_there_RxV = part_RxV > 0
        total -= float(part_RxV[is_there_RxV] @ logprobs_RxV[is_there_RxV])
    return total


def _strings(numbers_R: npt.NDArray[np.int64], n_symbols: int, length: int) -> npt.NDArray[np.int64]:
    """Strings of symbols from their numbers in base V, first symbol first: shape (R, L)."""
    powers = n_symbols ** np.arange(length - 1, -1, -1, dtype=np.int64)
    return numbers_R[:, None] // powers % n_symbols
