"""What a language model is and what a trainer is; the only things that models and tools share.

Shapes: B rows of a batch, L tokens, V symbols of the vocabulary (`<s>` among them).  numpy in, numpy out, natural logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import InputError, described
from lmzoo.parts import Policy
from lmzoo.vocab import Vocab

State = TypeVar("State")
Tokens = npt.NDArray[np.integer[Any]]
LogProbs = npt.NDArray[np.floating[Any]]
Orders = npt.NDArray[np.integer[Any]]
Classes = npt.NDArray[np.integer[Any]]
Arrays = Mapping[str, npt.NDArray[Any]]


class LanguageModel(Protocol[State]):
    """A distribution over the next token given the tokens before it.

    Attributes:
        vocab: the symbols it predicts.
        context_size: how many tokens back it looks; None: all of them (recurrent).
        is_normalized: its scores sum to 1; where not, a perplexity is refused.
        is_adaptive: it learns from the text it scores; its rows are starred.
        cells_at_once (optional): how many tokens, rows x columns, `logprobs` is best handed at a time.
        device (optional): where it computes; its `move_to(device)` takes it elsewhere.
        documents (optional): how its training text was cut, where its having a `</s>` does not tell.
        file_bytes (optional): of a model that stays in the file it was read from, what that takes.
        n_context_classes (optional): into how many classes its `context_classes(tokens, state)` sorts contexts.

    `State` is an opaque value: never changed, forked for free by keeping it.
    """

    vocab: Vocab
    context_size: int | None
    is_normalized: bool
    is_adaptive: bool

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> State:
        """The state before the first token of a document (`bos`), or in the null context."""
        ...

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        """ln p(token | history) of each given token, shape (B, L), and the state after the last one.

        Raises `TokenError` for ids of the wrong type, shape or range.
        """
        ...

    def next_logprobs(self, state: State) -> LogProbs:
        """ln p(. | history), shape (B, V); -inf for `<s>`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a training stands: tokens consumed and optimiser steps done so far, the latest loss in nats per token."""

    tokens: int
    steps: int = 0
    loss_nats: float | None = None


class Trainer(Protocol):
    """What is trained here; a model read from a file has none."""

    @property
    def model(self) -> LanguageModel[Any]:
        """The model, fit to be scored whenever `steps` has yielded."""
        ...

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Learn.  A gradient trainer yields after every step or at least every 0.1 s, a counting trainer once at
        its end.

        At each yield the device is idle.  `valid` serves to stop, to choose options and to fit a few weights of
        smoothing; no count and no gradient comes from it.  Raises `DivergedError` at the first loss that is not finite.
        """
        ...


class Coder(Protocol):
    """A compressor as a yardstick: the length of a code, no distribution over next tokens, and so no conformance.

    It learns from all that it codes, and its rows are starred.
    `cumulative_nats(train, test, ends)` (optional): the nats up to each of these bytes of what it codes, which ascend,
    and last those of all of it.
    """

    def nll_nats(self, train: Split, test: Split) -> float:
        """The nats of the test text's code, given the training text (`lmzoo/coding.py` says which text that is)."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A trainer that can go on in another process where it stood after a step, with the same outcome."""

    def checkpoint(self) -> tuple[dict[str, Any], Arrays]:
        """All that decides what follows the last step, as JSON values and arrays of its own."""
        ...

    def resume(self, facts: Mapping[str, Any], arrays: Arrays) -> None:
        """Have `steps` go on from what `checkpoint` gave.

        Raises `LookupError`, `TypeError` or `ValueError` for parts that are not of such a trainer.
        """
        ...


@runtime_checkable
class Storable(Protocol):
    """A model that `storage.save` can write: a kind known to the registry, JSON values and arrays.

    Its class has `from_parts(vocab, options, arrays)`, the inverse of `to_parts`.
    """

    kind: str
    vocab: Vocab

    def to_parts(self) -> tuple[dict[str, Any], Arrays]: ...


_REQUIRED = ("vocab", "context_size", "is_normalized", "is_adaptive", "initial_state", "logprobs", "next_logprobs")


def require_model(model: object) -> None:
    """Raise `InputError` for what has not all that a `LanguageModel` has."""
    lacking = [name for name in _REQUIRED if not hasattr(model, name)]
    if lacking:
        raise InputError(
            f"model is a language model, as lmzoo.load and lmzoo.train give one, got {described(model)}, "
            f"which has no {lacking[0]}"
        )


def all_logprobs(model: LanguageModel[State], tokens_BxL: Tokens, state: State) -> LogProbs:
    """ln p(. | history) before each given token, shape (B, L, V): the model's own method, or one token at a time."""
    own = getattr(model, "all_logprobs", None)
    if own is not None:
        return own(tokens_BxL, state)  # type: ignore[no-any-return]
    rows = []
    for t in range(tokens_BxL.shape[1]):
        rows.append(model.next_logprobs(state))
        _, state = model.logprobs(tokens_BxL[:, t : t + 1], state)
    return np.stack(rows, axis=1) if rows else np.zeros((*tokens_BxL.shape, len(model.vocab)))


def matched_orders(model: LanguageModel[State], tokens_BxL: Tokens, state: State) -> Orders | None:
    """The order of the n-gram that matched each token, shape (B, L); None for models that have no such thing."""
    own = getattr(model, "matched_orders", None)
    return None if own is None else own(tokens_BxL, state)


def n_context_classes(model: LanguageModel[Any]) -> int:
    """Into how many classes a model sorts what is known before a token; 1 for those that do not."""
    return int(getattr(model, "n_context_classes", 1))


def context_classes(model: LanguageModel[State], tokens_BxL: Tokens, state: State) -> Classes:
    """The class of what precedes each token, and of what precedes the next: shape (B, L + 1).

    It tells how much a model knows of a context, the least first, such as how many of the last tokens it saw together
    in training.  It depends on nothing that comes later.  0 for models of one class.
    """
    if n_context_classes(model) == 1:
        return np.zeros((tokens_BxL.shape[0], tokens_BxL.shape[1] + 1), np.int64)
    return model.context_classes(tokens_BxL, state)  # type: ignore[attr-defined,no-any-return]


def select(model: LanguageModel[State], state: State, rows: npt.ArrayLike) -> State:
    """The state of some rows of a batch: the model's own method, or numpy indexing where the state is an array.

    Raises `TypeError` where a model has no such way, and `InputError` for rows as `checked_rows` does.
    """
    own = getattr(model, "select", None)
    if own is not None:
        return own(state, rows)  # type: ignore[no-any-return]
    if isinstance(state, np.ndarray):
        return state[checked_rows(rows, len(state))]  # type: ignore[no-any-return]
    raise TypeError(f"{type(model).__name__} has no select() and its state is no array")


def checked_rows(rows: npt.ArrayLike, n_rows: int) -> npt.NDArray[np.integer[Any]]:
    """Numbers of rows as an array.  Raises `InputError` for none, and for what is no number from 0 to n_rows - 1."""
    rows_R = np.asarray(rows)
    is_list = rows_R.ndim == 1 and rows_R.size > 0 and np.issubdtype(rows_R.dtype, np.integer)
    if not is_list or rows_R.min() < 0 or rows_R.max() >= n_rows:
        raise InputError(f"rows are a list of one or more numbers from 0 to {n_rows - 1}, got {described(rows)}")
    return rows_R


def sequence_logprobs(
    model: LanguageModel[Any], ids_N: Tokens, starts_D1: npt.NDArray[np.int64]
) -> npt.NDArray[np.floating[Any]] | None:
    """ln p of every token of documents laid end to end, each from its start, shape (N,): a model's own way to do so.

    Document d is `ids_N[starts_D1[d]:starts_D1[d + 1]]`.  None for a model that has no such way, or none that pays.
    """
    own = getattr(model, "sequence_logprobs", None)
    return None if own is None else own(ids_N, starts_D1)


def cumulative_nats(coder: Coder, train: Split, test: Split, ends: Sequence[int]) -> Sequence[float] | None:
    """The nats of a test text up to each of some bytes, and of all of it; None for a coder that cannot tell."""
    own = getattr(coder, "cumulative_nats", None)
    return None if own is None else own(train, test, ends)


def policy_of(model: LanguageModel[Any]) -> Policy:
    """How a text is cut for a model where nothing else is asked: as its training text was."""
    own: Policy | None = getattr(model, "documents", None)
    return own or ("file" if model.vocab.eos_id is None else "line")


def device_of(model: LanguageModel[Any]) -> str:
    """Where a model computes: cpu, unless it says otherwise."""
    return str(getattr(model, "device", "cpu"))


def move(model: LanguageModel[Any], device: str) -> None:
    """Have a model compute on a device; one that knows no device stays as it is."""
    own = getattr(model, "move_to", None)
    if own is not None:
        own(device)


def has_finite_weights(model: LanguageModel[Any]) -> bool:
    """Whether all numbers of a model are finite; so are those of a model that cannot be stored."""
    arrays = model.to_parts()[1].values() if isinstance(model, Storable) else ()
    return all(bool(np.isfinite(array).all()) for array in arrays)
