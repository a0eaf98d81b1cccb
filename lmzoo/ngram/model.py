"""The counting model: tables of n-grams behind the scoring interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import TokenError
from lmzoo.interface import Arrays, Tokens
from lmzoo.ngram.counts import ABSENT, Keys
from lmzoo.ngram.smoothing import Table
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids64 = npt.NDArray[np.int64]
# the last n-1 ids of each row, ABSENT where the document (or the null context) has fewer
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
        # where the continuations of each history start and end in the next order
        self._children = [
            np.searchsorted(above, np.arange(len(keys_G) + 1) * len(vocab)) for keys_G, above in pairwise(self._keys)
        ]

    @property
    def tables(self) -> tuple[Sequence[Keys], Sequence[Table]]:
        """The n-grams of each order and their probabilities: see `counts.py` and `smoothing.py`."""
        return self._keys, self._tables

    @property
    def n_params(self) -> int:
        """n-grams held, of all orders."""
        return sum(map(len, self._keys))

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> NgramState:
        state = np.full((batch_size, self.order - 1), ABSENT, np.int64)
        if bos:
            state[:, -1:] = self.vocab.bos_id
        return state

    def logprobs(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, NgramState]:
        """ln p of each token, float64; the longest n-gram seen decides, each shorter one is reached by its back-off."""
        logprobs_BxL, _, state = self._walk(tokens_BxL, state)
        return logprobs_BxL, state

    def matched_orders(self, tokens_BxL: Tokens, state: NgramState) -> npt.NDArray[np.int8]:
        """The order of the longest n-gram seen in training that ends in each token; 1 for unknown tokens."""
        return self._walk(tokens_BxL, state)[1]

    def next_logprobs(self, state: NgramState) -> Floats:
        """ln p over the whole vocabulary after each row's state, float64 of shape (B, V)."""
        return self._distributions([nodes_BxH[:, -1] for nodes_BxH in self._histories(state)], len(state))

    def all_logprobs(self, tokens_BxL: Tokens, state: NgramState) -> Floats:
        """ln p over the whole vocabulary before each token, shape (B, L, V)."""
        tokens_BxL = self._checked(tokens_BxL, state)
        before = np.concatenate((state, tokens_BxL[:, :-1]), axis=1, dtype=np.int64)
        histories = [nodes[:, self.order - 2 :].reshape(-1) for nodes in self._histories(before)]
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
        arrays: dict[str, npt.NDArray[Any]] = {}
        for order, (keys_G, table) in enumerate(zip(self._keys, self._tables, strict=True), start=1):
            arrays |= {f"keys{order}": keys_G, f"logp{order}": table.logp_G, f"backoff{order}": table.backoff_G}
        return {"order": self.order, "details": self.details}, arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> NgramModel:
        orders = range(1, int(options["order"]) + 1)
        tables = [Table(logp_G=arrays[f"logp{k}"], backoff_G=arrays[f"backoff{k}"]) for k in orders]
        return cls(vocab, [arrays[f"keys{k}"] for k in orders], tables, options["details"])

    def _checked(self, tokens_BxL: Tokens, state: NgramState) -> Tokens:
        tokens_BxL = self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        return tokens_BxL

    def _walk(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, npt.NDArray[np.int8], NgramState]:
        """ln p and matched order of each token, and the state after the last."""
        tokens_BxL = self._checked(tokens_BxL, state)
        padded = np.concatenate((state, tokens_BxL), axis=1, dtype=np.int64)
        first = self.order - 1
        logprobs_BxL = self._tables[0].logp_G[tokens_BxL]
        orders_BxL: npt.NDArray[np.int8] = np.ones(tokens_BxL.shape, np.int8)
        shorter = padded
        for order, nodes in enumerate(self._climb(padded), start=2):
            history = shorter[:, first - 1 : -1]
            found = np.nonzero(nodes[:, first:] != ABSENT)
            backed_off = np.nonzero((nodes[:, first:] == ABSENT) & (history != ABSENT))
            logprobs_BxL[backed_off] += self._tables[order - 2].backoff_G[history[backed_off]]
            logprobs_BxL[found] = self._tables[order - 1].logp_G[nodes[:, first:][found]]
            orders_BxL[found] = order
            shorter = nodes
        return logprobs_BxL, orders_BxL, padded[:, padded.shape[1] - first :]

    def _climb(self, padded: Ids64) -> Iterator[Ids64]:
        """For orders 2 to n in turn: the id of the n-gram that ends at each position, or ABSENT."""
        nodes = padded
        for keys_G in self._keys[1:]:
            nodes = self._longer(nodes, padded, keys_G)
            yield nodes

    def _longer(self, shorter: Ids64, padded: Ids64, keys_G: Keys) -> Ids64:
        nodes = np.full(padded.shape, ABSENT, np.int64)
        rows, columns = np.nonzero(shorter[:, :-1] != ABSENT)
        if not len(rows) or not len(keys_G):
            return nodes
        wanted = shorter[rows, columns] * len(self.vocab) + padded[rows, columns + 1]
        at = np.minimum(np.searchsorted(keys_G, wanted), len(keys_G) - 1)
        nodes[rows, columns + 1] = np.where(keys_G[at] == wanted, at, ABSENT)
        return nodes

    def _histories(self, padded: Ids64) -> list[Ids64]:
        """For orders 1 to n-1: the id of the history that ends at each position, or ABSENT."""
        nodes = [padded] if self.order > 1 else []
        for keys_G in self._keys[1:-1]:
            nodes.append(self._longer(nodes[-1], padded, keys_G))
        return nodes

    def _distributions(self, histories: Sequence[Ids64], n_rows: int) -> Floats:
        """ln p over the vocabulary after each of P histories, given as their ids at orders 1 to n-1; shape (P, V)."""
        logprobs_PxV = np.repeat(self._tables[0].logp_G[None, :], n_rows, axis=0)
        levels = zip(self._children, pairwise(self._tables), self._keys[1:], strict=True)
        for history_P, (children, (table, above), keys_G) in zip(histories, levels, strict=True):
            rows = np.flatnonzero(history_P != ABSENT)
            history = history_P[rows]
            logprobs_PxV[rows] += table.backoff_G[history][:, None]
            start, n_children = children[history], children[history + 1] - children[history]
            # the continuations of all rows, one after the other
            offset = np.arange(n_children.sum()) - np.repeat(np.cumsum(n_children) - n_children, n_children)
            child = np.repeat(start, n_children) + offset
            logprobs_PxV[np.repeat(rows, n_children), keys_G[child] % len(self.vocab)] = above.logp_G[child]
        return logprobs_PxV
