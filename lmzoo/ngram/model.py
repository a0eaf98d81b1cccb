"""The counting model: tables of n-grams behind the scoring interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError, TokenError
from lmzoo.interface import Arrays, Tokens
from lmzoo.ngram.counts import ABSENT, Keys
from lmzoo.ngram.smoothing import Table
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Nodes = npt.NDArray[np.int64]
# of each row and each order 1 to n-1, the id of the history of that length; ABSENT where training never had it
NgramState = npt.NDArray[np.int64]

# cells of whole distributions (positions x V) worked on at once
_MAX_CELLS = 8_000_000


class NgramModel:
    """Back-off tables of orders 1 to n.

    Args:
        keys: of each order, sorted (see `counts.py`); of order 1, one for each symbol.
        tables: ln p and back-off of each order (see `smoothing.py`).
        details: what is worth knowing of how it was made, as JSON values: smoothing, discounts, fallbacks.
    """

    kind = "ngram"
    kernel_name = "numpy"
    is_adaptive = False

    def __init__(self, vocab: Vocab, keys: Sequence[Keys], tables: Sequence[Table], details: Mapping[str, Any]) -> None:
        self.vocab = vocab
        self.order = len(tables)
        self.context_size: int | None = self.order - 1
        self.details = dict(details)
        # the one smoothing whose scores are no distribution
        self.is_normalized = self.details.get("smoothing") != "sb"
        # an ARPA file rounds every figure to a few digits; None: what double precision gives
        self.tolerance: float | None = 1e-4 if self.details.get("smoothing") == "arpa" else None
        self._keys = list(keys)
        self._tables = list(tables)

    @property
    def tables(self) -> tuple[Sequence[Keys], Sequence[Table]]:
        """The n-grams of each order and their probabilities: see `counts.py` and `smoothing.py`."""
        return self._keys, self._tables

    @property
    def n_params(self) -> int:
        """n-grams held, of all orders."""
        return sum(map(len, self._keys))

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
        logprobs_BxL, _, state = self._walk(tokens_BxL, state)
        return logprobs_BxL, state

    def matched_orders(self, tokens_BxL: Tokens, state: NgramState) -> npt.NDArray[np.int8]:
        """The order of the longest n-gram seen in training that ends in each token; 1 for unknown tokens."""
        return self._walk(tokens_BxL, state)[1]

    def next_logprobs(self, state: NgramState) -> Floats:
        """ln p over the whole vocabulary after each row's state, float64 of shape (B, V)."""
        self._check_state(state)
        if len(state) == 1:
            return self._distribution(state[0].tolist())
        return self._distributions(list(state.T), len(state))

    def all_logprobs(self, tokens_BxL: Tokens, state: NgramState) -> Floats:
        """ln p over the whole vocabulary before each token, shape (B, L, V)."""
        tokens_BxL = self._checked(tokens_BxL, state)
        histories = [nodes[:, :-1].reshape(-1) for nodes in self._climb(tokens_BxL, state)][: self.order - 1]
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
        """Of each order above 1 the tokens and how many follow each history: a third of the bytes of keys."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for order, table in enumerate(self._tables, start=1):
            arrays |= {f"logp{order}": table.logp_G, f"backoff{order}": table.backoff_G}
        for order, (starts, tokens_G) in enumerate(self._continuations, start=2):
            arrays |= {f"tokens{order}": _smallest(tokens_G), f"following{order}": _smallest(np.diff(starts))}
        return {"order": self.order, "details": self.details}, arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> NgramModel:
        orders = range(1, int(options["order"]) + 1)
        tables = [Table(logp_G=arrays[f"logp{k}"], backoff_G=arrays[f"backoff{k}"]) for k in orders]
        keys = [np.arange(len(vocab))]
        for k in orders[1:]:
            history_G = np.repeat(np.arange(len(keys[-1])), arrays[f"following{k}"])
            keys.append(history_G * len(vocab) + arrays[f"tokens{k}"])
        return cls(vocab, keys, tables, options["details"])

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

    def _walk(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, npt.NDArray[np.int8], NgramState]:
        """ln p and matched order of each token, and the state after the last."""
        tokens_BxL = self._checked(tokens_BxL, state)
        logprobs_BxL = self._tables[0].logp_G[tokens_BxL]
        orders_BxL: npt.NDArray[np.int8] = np.ones(tokens_BxL.shape, np.int8)
        after = np.empty_like(state)
        climbed = self._climb(tokens_BxL, state)
        shorter = next(climbed)
        for order, nodes in enumerate(climbed, start=2):
            after[:, order - 2] = shorter[:, -1]
            history = shorter[:, :-1]
            is_found = nodes[:, 1:] != ABSENT
            backed_off = np.nonzero(~is_found & (history != ABSENT))
            found = np.nonzero(is_found)
            logprobs_BxL[backed_off] += self._tables[order - 2].backoff_G[history[backed_off]]
            logprobs_BxL[found] = self._tables[order - 1].logp_G[nodes[:, 1:][found]]
            orders_BxL[found] = order
            shorter = nodes
        return logprobs_BxL, orders_BxL, after

    def _step(self, token: int, state: NgramState) -> tuple[Floats, NgramState]:
        """`logprobs` of one token of one row without arrays of one element, each of which costs a microsecond."""
        logprob = float(self._tables[0].logp_G[token])
        nodes = [token]
        for order, history in enumerate(state[0].tolist(), start=2):
            keys_G = self._keys[order - 1]
            node = ABSENT
            if history != ABSENT:
                wanted = history * len(self.vocab) + token
                at = int(keys_G.searchsorted(wanted))
                node = at if at < len(keys_G) and keys_G[at] == wanted else ABSENT
                backoff = self._tables[order - 2].backoff_G[history]
                logprob = float(self._tables[order - 1].logp_G[node]) if node != ABSENT else logprob + float(backoff)
            nodes.append(node)
        return np.array([[logprob]]), np.array([nodes[: self.order - 1]], np.int64)

    def _climb(self, tokens_BxL: Tokens, state: NgramState) -> Iterator[Nodes]:
        """For orders 1 to n in turn: the ids of the n-grams that end in each token, those of the state before them.

        Shape (B, L + 1); ABSENT where training never had one.  The first column of order n is not known: ABSENT.
        """
        nodes = np.empty((len(tokens_BxL), tokens_BxL.shape[1] + 1), np.int64)
        nodes[:, 1:] = tokens_BxL
        nodes[:, 0] = state[:, 0] if self.order > 1 else ABSENT
        yield nodes
        for order, keys_G in enumerate(self._keys[1:], start=2):
            longer = np.full(nodes.shape, ABSENT, np.int64)
            if order < self.order:
                longer[:, 0] = state[:, order - 1]
            rows, columns = np.nonzero(nodes[:, :-1] != ABSENT)
            if len(rows) and len(keys_G):
                wanted = nodes[rows, columns] * len(self.vocab) + tokens_BxL[rows, columns]
                at = np.minimum(np.searchsorted(keys_G, wanted), len(keys_G) - 1)
                longer[rows, columns + 1] = np.where(keys_G[at] == wanted, at, ABSENT)
            nodes = longer
            yield nodes

    @cached_property
    def _continuations(self) -> list[tuple[Nodes, npt.NDArray[np.int32]]]:
        """Of orders 1 to n-1: where the continuations of each history start in the next order, and their tokens."""
        n_symbols = len(self.vocab)
        continuations = []
        for keys_G, above in pairwise(self._keys):
            n_following = np.bincount(above // n_symbols, minlength=len(keys_G))
            starts = np.concatenate(([0], np.cumsum(n_following)))
            continuations.append((starts, (above % n_symbols).astype(np.int32)))
        return continuations

    def _distribution(self, histories: Sequence[int]) -> Floats:
        """ln p over the vocabulary after one history, given as its ids at orders 1 to n-1; shape (1, V)."""
        logprobs_V = self._tables[0].logp_G.copy()
        for history, (starts, tokens_G), (table, above) in zip(
            histories, self._continuations, pairwise(self._tables), strict=True
        ):
            if history != ABSENT:
                following = slice(starts[history], starts[history + 1])
                logprobs_V += table.backoff_G[history]
                logprobs_V[tokens_G[following]] = above.logp_G[following]
        return logprobs_V[None, :]

    def _distributions(self, histories: Sequence[Nodes], n_rows: int) -> Floats:
        """ln p over the vocabulary after each of P histories, given as their ids at orders 1 to n-1; shape (P, V)."""
        logprobs_PxV = np.repeat(self._tables[0].logp_G[None, :], n_rows, axis=0)
        for history_P, (starts, tokens_G), (table, above) in zip(
            histories, self._continuations, pairwise(self._tables), strict=True
        ):
            rows = np.flatnonzero(history_P != ABSENT)
            history = history_P[rows]
            logprobs_PxV[rows] += table.backoff_G[history][:, None]
            start, n_following = starts[history], starts[history + 1] - starts[history]
            # the continuations of all rows, one after the other
            offset = np.arange(n_following.sum()) - np.repeat(np.cumsum(n_following) - n_following, n_following)
            child = np.repeat(start, n_following) + offset
            logprobs_PxV[np.repeat(rows, n_following), tokens_G[child]] = above.logp_G[child]
        return logprobs_PxV


def _smallest(values: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The same numbers, none below 0, in the smallest type that holds them."""
    most = int(values.max(initial=0))
    dtype = next(t for t in (np.uint8, np.uint16, np.uint32) if most <= np.iinfo(t).max)
    return values.astype(dtype)
