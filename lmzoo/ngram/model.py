"""The counting model: n-grams of orders 1 to n behind the scoring interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo import compiled
from lmzoo.errors import InputError, TokenError
from lmzoo.interface import Arrays, Tokens
from lmzoo.ngram.counts import ABSENT, Keys
from lmzoo.ngram.orders import Offsets, Order, Values, find, to_keys
from lmzoo.ngram.smoothing import Table
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Nodes = npt.NDArray[np.int64]
# of each row and each order 1 to n-1, the id of the history of that length; ABSENT where training never had it
NgramState = npt.NDArray[np.int64]

# cells of whole distributions (positions x V) worked on at once
_MAX_CELLS = 8_000_000
# what compiled code saves for each token and each order
_SAVED_NS = 150


class NgramModel:
    """Back-off tables of orders 1 to n.

    Args:
        orders: the n-grams of each order with their probabilities (see `orders.py`).
        details: what is worth knowing of how it was made, as JSON values: smoothing, discounts, fallbacks.
    """

    kind = "ngram"
    kernel_name = "numpy"
    is_adaptive = False
    # many short documents or a long one: what it likes to be handed at once (see `evaluation.py`)
    cells_at_once = 1 << 17

    def __init__(self, vocab: Vocab, orders: Sequence[Order], details: Mapping[str, Any]) -> None:
        self.vocab = vocab
        self.order = len(orders)
        self.context_size: int | None = self.order - 1
        self.details = dict(details)
        # the one smoothing whose scores are no distribution
        self.is_normalized = self.details.get("smoothing") != "sb"
        # how far its sums may be from 1 where figures were rounded; None: what double precision gives
        self.tolerance: float | None = _tolerance(self.details)
        self.orders = tuple(orders)

    @property
    def tables(self) -> tuple[list[Keys], list[Table]]:
        """The packed n-grams of each order (see `counts.py`) and their probabilities (see `smoothing.py`), made anew."""
        tables = [Table(logp_G=order.logp.plain_G, backoff_G=order.backoff.plain_G) for order in self.orders]
        return to_keys(self.orders, len(self.vocab)), tables

    @property
    def n_params(self) -> int:
        """n-grams held, of all orders."""
        return sum(map(len, self.orders))

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> NgramState:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        state = np.full((batch_size, self.order - 1), ABSENT, np.int64)
        if bos:
            state[:, :1] = self.vocab.bos_id
        return state

    def logprobs(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, NgramState]:
        """ln p of each token, float64; the longest n-gram seen decides, each shorter one is reached by its back-off."""
        tokens_BxL = self._checked(tokens_BxL, state)
        if tokens_BxL.shape == (1, 1):
            return self._step(int(tokens_BxL[0, 0]), state)
        logprobs_BxL = self.orders[0].logp[tokens_BxL]
        after = np.empty_like(state)
        for k, nodes_BxL1 in enumerate(self._climb(tokens_BxL, state, logprobs_BxL)):
            after[:, k : k + 1] = nodes_BxL1[:, -1:]
        return logprobs_BxL, after

    def matched_orders(self, tokens_BxL: Tokens, state: NgramState) -> npt.NDArray[np.int8]:
        """The order of the longest n-gram seen in training that ends in each token; 1 for unknown tokens."""
        tokens_BxL = self._checked(tokens_BxL, state)
        orders_BxL: npt.NDArray[np.int8] = np.ones(tokens_BxL.shape, np.int8)
        for order, nodes_BxL1 in enumerate(self._climb(tokens_BxL, state, np.zeros(tokens_BxL.shape)), start=1):
            orders_BxL[nodes_BxL1[:, 1:] != ABSENT] = order
        return orders_BxL

    def next_logprobs(self, state: NgramState) -> Floats:
        """ln p over the whole vocabulary after each row's state, float64 of shape (B, V)."""
        self._check_state(state)
        if len(state) == 1:
            return self._distribution(state[0].tolist())
        return self._distributions(list(state.T), len(state))

    def all_logprobs(self, tokens_BxL: Tokens, state: NgramState) -> Floats:
        """ln p over the whole vocabulary before each token, shape (B, L, V)."""
        tokens_BxL = self._checked(tokens_BxL, state)
        climbed = self._climb(tokens_BxL, state, np.zeros(tokens_BxL.shape))
        histories = [nodes_BxL1[:, :-1].reshape(-1) for nodes_BxL1 in climbed][: self.order - 1]
        out_PxV = np.empty((tokens_BxL.size, len(self.vocab)))
        step = max(_MAX_CELLS // len(self.vocab), 1)
        for start in range(0, len(out_PxV), step):
            rows = slice(start, start + step)
            out_PxV[rows] = self._distributions([h[rows] for h in histories], len(out_PxV[rows]))
        return out_PxV.reshape(*tokens_BxL.shape, len(self.vocab))

    def select(self, state: NgramState, rows: npt.ArrayLike) -> NgramState:
        chosen: NgramState = state[np.asarray(rows)]
        return chosen

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        """The arrays of each order, figures that repeat coded; empty ones are left out."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for number, order in enumerate(self.orders, start=1):
            lean = order.compact()
            parts = {
                "tokens": lean.tokens_G,
                "logp": lean.logp.book,
                "logp_codes": lean.logp.codes_G,
                "backoff": lean.backoff.book,
                "backoff_codes": lean.backoff.codes_G,
            }
            if lean.offsets is not None:
                parts |= {"bases": lean.offsets.bases_B, "within": lean.offsets.within_H1}
            arrays |= {f"{name}{number}": array for name, array in parts.items() if len(array)}
        return {"order": self.order, "details": self.details}, arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> NgramModel:
        """Nothing is computed: the arrays may lie in a mapped file."""
        n_orders = int(options["order"])
        orders = [_order_of(number, n_orders, arrays) for number in range(1, n_orders + 1)]
        _check_lengths(orders, len(vocab))
        return cls(vocab, orders, options["details"])

    def _checked(self, tokens_BxL: Tokens, state: NgramState) -> Tokens:
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        return tokens_BxL

    def _check_state(self, state: NgramState) -> None:
        """Raise `TokenError` for a state that is none of this model's."""
        if not isinstance(state, np.ndarray) or state.ndim != 2 or state.shape[1] != self.order - 1:
            found = f"shape {state.shape}" if isinstance(state, np.ndarray) else type(state).__name__
            raise TokenError(f"a state of order {self.order} has shape (B, {self.order - 1}), got {found}")

    def _climb(self, tokens_BxL: Tokens, state: NgramState, logprobs_BxL: Floats) -> Iterator[Nodes]:
        """For orders 1 to n in turn: the ids of the n-grams that end in each token, those of the state before them.

        Shape (B, L + 1), ABSENT where training never had one; the first column of order n is not known: ABSENT.
        `logprobs_BxL` becomes ln p as the orders so far have it.
        """
        nodes_BxL1 = np.empty((len(tokens_BxL), tokens_BxL.shape[1] + 1), np.int64)
        nodes_BxL1[:, 1:] = tokens_BxL
        nodes_BxL1[:, 0] = state[:, 0] if self.order > 1 else ABSENT
        yield nodes_BxL1
        step_up = _compiled_step_up if compiled.is_worth_it(tokens_BxL.size * self.order, _SAVED_NS) else _step_up
        for number, (below, order) in enumerate(pairwise(self.orders), start=2):
            longer_BxL1 = np.empty_like(nodes_BxL1)
            longer_BxL1[:, 0] = state[:, number - 1] if number < self.order else ABSENT
            step_up(tokens_BxL, nodes_BxL1, longer_BxL1, below, order, logprobs_BxL)
            nodes_BxL1 = longer_BxL1
            yield nodes_BxL1

    def _step(self, token: int, state: NgramState) -> tuple[Floats, NgramState]:
        """`logprobs` of one token of one row without arrays of one element, each of which costs a microsecond."""
        logprob = float(self.orders[0].logp[token])
        nodes = [token]
        for history, (below, order) in zip(state[0].tolist(), pairwise(self.orders), strict=True):
            node = ABSENT
            if history != ABSENT:
                following = _following(below, history)
                tokens_F = order.tokens_G[following]
                # of the array's own type, else the whole array is converted
                at = int(tokens_F.searchsorted(order.tokens_G.dtype.type(token)))
                node = following.start + at if at < len(tokens_F) and tokens_F[at] == token else ABSENT
                logprob = float(order.logp[node]) if node != ABSENT else logprob + float(below.backoff[history])
            nodes.append(node)
        return np.array([[logprob]]), np.array([nodes[: self.order - 1]], np.int64)

    def _distribution(self, histories: Sequence[int]) -> Floats:
        """ln p over the vocabulary after one history, given as its ids at orders 1 to n-1; shape (1, V)."""
        logprobs_V = self.orders[0].logp.plain_G.copy()
        for history, (below, order) in zip(histories, pairwise(self.orders), strict=True):
            if history != ABSENT:
                following = _following(below, history)
                logprobs_V += below.backoff[history]
                logprobs_V[order.tokens_G[following]] = order.logp[following]
        return logprobs_V[None, :]

    def _distributions(self, histories: Sequence[Nodes], n_rows: int) -> Floats:
        """ln p over the vocabulary after each of P histories, given as their ids at orders 1 to n-1; shape (P, V)."""
        logprobs_PxV = np.repeat(self.orders[0].logp.plain_G[None, :], n_rows, axis=0)
        for history_P, (below, order) in zip(histories, pairwise(self.orders), strict=True):
            rows = np.flatnonzero(history_P != ABSENT)
            history = history_P[rows]
            logprobs_PxV[rows] += below.backoff[history][:, None]
            offsets = _offsets(below)
            start, n_following = offsets[history], offsets[history + 1] - offsets[history]
            # the continuations of all rows, one after the other
            place = np.arange(n_following.sum()) - np.repeat(np.cumsum(n_following) - n_following, n_following)
            child = np.repeat(start, n_following) + place
            logprobs_PxV[np.repeat(rows, n_following), order.tokens_G[child]] = order.logp[child]
        return logprobs_PxV


def _offsets(below: Order) -> Offsets:
    """Where the continuations of an order's n-grams start; every order but the highest has them."""
    assert below.offsets is not None
    return below.offsets


def _following(below: Order, history: int) -> slice:
    """The continuations of one history in the next order."""
    offsets = _offsets(below)
    return slice(int(offsets[history]), int(offsets[history + 1]))


def _step_up(
    tokens_BxL: Tokens, shorter_BxL1: Nodes, longer_BxL1: Nodes, below: Order, order: Order, logprobs_BxL: Floats
) -> None:
    """One order up: the n-grams that end in each token, and ln p where there is one or its history backs off."""
    history_BxL = shorter_BxL1[:, :-1]
    is_known_BxL = history_BxL != ABSENT
    history_M, token_M = history_BxL[is_known_BxL], tokens_BxL[is_known_BxL]
    found_M = find(order, _offsets(below), history_M, token_M)
    longer_BxL1[:, 1:] = ABSENT
    longer_BxL1[:, 1:][is_known_BxL] = found_M
    is_found_M = found_M != ABSENT
    logprob_M = logprobs_BxL[is_known_BxL]
    logprob_M[is_found_M] = order.logp[found_M[is_found_M]]
    logprob_M[~is_found_M] += below.backoff[history_M[~is_found_M]]
    logprobs_BxL[is_known_BxL] = logprob_M


def _compiled_step_up(
    tokens_BxL: Tokens, shorter_BxL1: Nodes, longer_BxL1: Nodes, below: Order, order: Order, logprobs_BxL: Floats
) -> None:
    """The same, compiled, on all threads."""
    from lmzoo.compiled.ngrams import climb

    offsets = _offsets(below)
    figures = (order.logp.book, order.logp.codes_G, below.backoff.book, below.backoff.codes_G)
    arrays = (offsets.bases_B, offsets.within_H1, order.tokens_G, *figures)
    n_rows, n_columns = tokens_BxL.shape

    def part(rows: tuple[int, int], columns: tuple[int, int]) -> None:
        climb(tokens_BxL, shorter_BxL1, longer_BxL1, *arrays, logprobs_BxL, rows, columns)

    if n_rows >= n_columns:
        compiled.in_parallel(n_rows, lambda low, high: part((low, high), (0, n_columns)))
    else:
        compiled.in_parallel(n_columns, lambda low, high: part((0, n_rows), (low, high)))


def _order_of(number: int, n_orders: int, arrays: Arrays) -> Order:
    offsets = None
    if number < n_orders:
        offsets = Offsets(bases_B=arrays[f"bases{number}"], within_H1=arrays[f"within{number}"])
    none: npt.NDArray[Any] = np.zeros(0)
    return Order(
        tokens_G=arrays.get(f"tokens{number}", np.zeros(0, np.uint8)),
        offsets=offsets,
        logp=_values_of("logp", number, arrays),
        backoff=_values_of("backoff", number, arrays) if number < n_orders else Values(book=none),
    )


def _values_of(name: str, number: int, arrays: Arrays) -> Values:
    book = arrays.get(f"{name}{number}", np.zeros(0))
    codes_G = arrays.get(f"{name}_codes{number}")
    return Values(book=book) if codes_G is None else Values(book=book, codes_G=codes_G)


def _check_lengths(orders: Sequence[Order], n_symbols: int) -> None:
    """Raise `ValueError` where the arrays of a file do not belong together; cheap, so only ends are looked at."""
    if len(orders[0]) != n_symbols:
        raise ValueError(f"{len(orders[0])} 1-grams, the vocabulary has {n_symbols} symbols")
    for number, order in enumerate(orders, start=1):
        backoffs = len(order) if number < len(orders) else 0
        if len(order.logp) != len(order) or len(order.backoff) != backoffs:
            raise ValueError(f"arrays of order {number} differ in length")
    for number, (below, order) in enumerate(pairwise(orders), start=1):
        offsets = _offsets(below)
        if len(offsets) != len(below) or int(offsets[len(below)]) != len(order):
            raise ValueError(f"order {number} does not lead to all n-grams of the next")


def _tolerance(details: Mapping[str, Any]) -> float | None:
    """An ARPA file rounds every figure to a few digits, a quantised one to a few values."""
    if details.get("bits") is not None:
        return 2e-2
    return 1e-4 if details.get("smoothing") == "arpa" else None
