"""The counting model: n-grams of orders 1 to n behind the scoring interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo import compiled
from lmzoo.errors import CorruptFileError, TokenError, require_whole
from lmzoo.interface import Arrays, Tokens, checked_rows
from lmzoo.ngram.counts import ABSENT, Keys
from lmzoo.ngram.smoothing import Table
from lmzoo.ngram.trie import Starts, Trie, Values, check_lengths
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
# of each row and each order 1 to n-1, the node of the history of that length; ABSENT where training never had it
NgramState = npt.NDArray[np.int64]

# cells of whole distributions (positions x V) worked on at once
_MAX_CELLS = 8_000_000
# what compiled code saves a token for each order above 1, and what a link costs that is made first
_SAVED_NS = 120
_LINK_NS = 40
# tokens of one text that compiled code works through in order; a longer text is cut into several such lanes
_LANE = 1024


class NgramModel:
    """Back-off tables of orders 1 to n.

    Args:
        trie: the n-grams with their probabilities.
        details: what is worth knowing of how it was made, as JSON values: smoothing, discounts, fallbacks.
    """

    kind = "ngram"
    is_adaptive = False
    # many short documents or a long one (see `evaluation.py`)
    cells_at_once = 1 << 17

    def __init__(self, vocab: Vocab, trie: Trie, details: Mapping[str, Any]) -> None:
        self.vocab = vocab
        self.trie = trie
        self.order = trie.order
        self.context_size: int | None = self.order - 1
        self.n_context_classes = self.order
        self.details = dict(details)
        # one smoothing whose scores are no distribution, once there is a shorter history, and files of other toolkits
        is_stupid = self.details.get("smoothing") == "sb" and self.order > 1
        self.is_normalized = not is_stupid and not self.details.get("exceeds_1")
        # how far its sums may be from 1 where figures were rounded; None: what double precision gives
        self.tolerance: float | None = _tolerance(self.details)

    @property
    def kernel_name(self) -> str:
        """What scores long texts: compiled code once it was worth its links, else numpy."""
        return "numba" if self._has_links else "numpy"

    @property
    def tables(self) -> tuple[list[Keys], list[Table]]:
        """The packed n-grams of each order (see `counts.py`) and their figures (see `smoothing.py`), made anew."""
        return self.trie.packed_keys(), self.trie.tables()

    @property
    def n_params(self) -> int:
        """n-grams held, of all orders."""
        return self.trie.bounds[-1]

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> NgramState:
        require_whole(batch_size, "batch_size", 1)
        state = np.full((batch_size, self.order - 1), ABSENT, np.int64)
        if bos:
            state[:, :1] = self.vocab.bos_id
        return state

    def logprobs(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, NgramState]:
        """ln p of each token, float64; the longest n-gram seen decides, each shorter one is reached by its back-off."""
        tokens_BxL = self._checked(tokens_BxL, state)
        if tokens_BxL.shape == (1, 1):
            return self._step(int(tokens_BxL[0, 0]), state)
        if self._is_compiled(tokens_BxL.size):
            return self._score_rows(tokens_BxL, state)
        logprobs_BxL = self.trie.logp.of(1, tokens_BxL)
        after = np.empty_like(state)
        for k, nodes_BxL1 in enumerate(self._climb(tokens_BxL, state, logprobs_BxL)):
            if k < self.order - 1:
                after[:, k] = nodes_BxL1[:, -1]
        return logprobs_BxL, after

    def matched_orders(self, tokens_BxL: Tokens, state: NgramState) -> npt.NDArray[np.int8]:
        """The order of the longest n-gram seen in training that ends in each token; 1 for unknown tokens."""
        tokens_BxL = self._checked(tokens_BxL, state)
        orders_BxL: npt.NDArray[np.int8] = np.ones(tokens_BxL.shape, np.int8)
        for order, nodes_BxL1 in enumerate(self._climb(tokens_BxL, state, np.zeros(tokens_BxL.shape)), start=1):
            orders_BxL[nodes_BxL1[:, 1:] != ABSENT] = order
        return orders_BxL

    def context_classes(self, tokens_BxL: Tokens, state: NgramState) -> npt.NDArray[np.int8]:
        """How many of the last tokens training saw together, n-1 at most, shape (B, L + 1); see `interface.py`."""
        tokens_BxL = self._checked(tokens_BxL, state)
        classes_BxL1 = np.zeros((len(tokens_BxL), tokens_BxL.shape[1] + 1), np.int8)
        if not tokens_BxL.shape[1]:
            lengths = np.arange(1, self.order, dtype=np.int8)
            known_BxH: npt.NDArray[np.int8] = np.where(state == ABSENT, np.int8(0), lengths)
            classes_BxL1[:, 0] = known_BxH.max(axis=1, initial=0)
            return classes_BxL1
        climbed = self._climb(tokens_BxL, state, np.zeros(tokens_BxL.shape))
        for length, nodes_BxL1 in zip(range(1, self.order), climbed, strict=False):
            classes_BxL1[nodes_BxL1 != ABSENT] = length
        return classes_BxL1

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
        self._check_state(state)
        chosen: NgramState = state[checked_rows(rows, len(state))]
        return chosen

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        """The arrays of the trie, figures that repeat coded; empty ones are left out."""
        trie = self.trie.compact()
        arrays = {
            "tokens": trie.tokens_G,
            "first": trie.starts.first_V1,
            "bases": trie.starts.bases_B,
            "within": trie.starts.within_H1,
            **_figures_to_arrays("logp", trie.logp),
            **_figures_to_arrays("backoff", trie.backoff),
        }
        options = {"bounds": list(trie.bounds), "details": self.details}
        return options, {name: array for name, array in arrays.items() if array.size}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> NgramModel:
        """Nothing is computed and little is read: the arrays may lie in a mapped file."""
        trie = Trie(
            bounds=tuple(map(int, options["bounds"])),
            tokens_G=arrays["tokens"],
            starts=Starts(first_V1=arrays["first"], bases_B=arrays["bases"], within_H1=arrays["within"]),
            logp=_figures_from_arrays("logp", arrays),
            backoff=_figures_from_arrays("backoff", arrays),
        )
        check_lengths(trie, len(vocab))
        return cls(vocab, trie, options["details"])

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
        if state.dtype != np.int64 or not self._holds(state):
            raise TokenError("this is no state of this model; get one from initial_state() or logprobs()")

    def _holds(self, state: NgramState) -> bool:
        """Whether every history of a state is a node of its order, or none."""
        lows, highs = self.trie.bounds[:-2], self.trie.bounds[1:-1]
        if len(state) == 1:
            # without arrays of a few elements, each of which costs a microsecond
            nodes = zip(state[0].tolist(), lows, highs, strict=True)
            return all(node == ABSENT or low <= node < high for node, low, high in nodes)
        return bool(((state == ABSENT) | ((state >= lows) & (state < highs))).all())

    def _climb(self, tokens_BxL: Tokens, state: NgramState, logprobs_BxL: Floats) -> Iterator[Ids]:
        """For orders 1 to n in turn: the ids of the n-grams that end in each token, those of the state before them.

        Shape (B, L + 1), ABSENT where training never had one; the first column of order n is not known: ABSENT.
        `logprobs_BxL` becomes ln p as the orders so far have it.
        """
        nodes_BxL1 = np.empty((len(tokens_BxL), tokens_BxL.shape[1] + 1), np.int64)
        nodes_BxL1[:, 1:] = tokens_BxL
        nodes_BxL1[:, 0] = state[:, 0] if self.order > 1 else ABSENT
        yield nodes_BxL1
        for order in range(1, self.order):
            longer_BxL1 = np.full_like(nodes_BxL1, ABSENT)
            if order < self.order - 1:
                longer_BxL1[:, 0] = state[:, order]
            history_BxL = nodes_BxL1[:, :-1]
            is_known_BxL = history_BxL != ABSENT
            history_M = history_BxL[is_known_BxL]
            found_M = self.trie.find(order, history_M, tokens_BxL[is_known_BxL])
            longer_BxL1[:, 1:][is_known_BxL] = found_M
            is_found_M = found_M != ABSENT
            logprob_M = logprobs_BxL[is_known_BxL]
            logprob_M[is_found_M] = self.trie.logp.of(order + 1, found_M[is_found_M])
            logprob_M[~is_found_M] += self.trie.backoff.of(order, history_M[~is_found_M])
            logprobs_BxL[is_known_BxL] = logprob_M
            nodes_BxL1 = longer_BxL1
            yield nodes_BxL1

    def _step(self, token: int, state: NgramState) -> tuple[Floats, NgramState]:
        """`logprobs` of one token of one row without arrays of one element, each of which costs a microsecond."""
        trie = self.trie
        logprob = float(trie.logp.of(1, token))
        nodes = [token]
        # of the arrays' own type, else a whole array is converted
        wanted = trie.tokens_G.dtype.type(token)
        for order, history in enumerate(state[0].tolist(), start=1):
            node = ABSENT
            if history != ABSENT:
                following = trie.following(order, history)
                tokens_F = trie.tokens_G[following]
                at = int(tokens_F.searchsorted(wanted))
                node = following.start + at if at < len(tokens_F) and tokens_F[at] == token else ABSENT
                logprob = (
                    float(trie.logp.of(order + 1, node))
                    if node != ABSENT
                    else logprob + float(trie.backoff.of(order, history))
                )
            nodes.append(node)
        return np.array([[logprob]]), np.array([nodes[: self.order - 1]], np.int64)

    def sequence_logprobs(self, ids_N: Tokens, starts_D1: Ids) -> Floats | None:
        """ln p of the tokens of all documents at once, or None where compiled code does not pay.

        See `interface.sequence_logprobs`.
        """
        if not self._is_compiled(len(ids_N)):
            return None
        ids_1xN = self.vocab.checked(ids_N[None, :])
        lanes = _lanes(0, starts_D1[:-1], starts_D1[1:], self.order - 1)
        nodes_N = np.where(np.isin(lanes[:, 1], starts_D1), self.vocab.bos_id, ABSENT)
        logprobs_N: Floats = self._score(ids_1xN, lanes, nodes_N)[0]
        return logprobs_N

    def _is_compiled(self, n_tokens: int) -> bool:
        """Whether so many tokens are scored by compiled code, its links made first if they are not there."""
        saved_ns = _SAVED_NS * (self.order - 1)
        if not self._has_links:
            # what is left of the gain when the links are paid for
            saved_ns -= _LINK_NS * self.n_params // max(n_tokens, 1)
        return self.order > 1 and compiled.is_worth_it(n_tokens, saved_ns)

    @property
    def _has_links(self) -> bool:
        return "_links_G" in self.__dict__

    @cached_property
    def _links_G(self) -> npt.NDArray[np.signedinteger[Any]]:
        """Of every node the node of its longest proper suffix that is held; -1 for single symbols."""
        from lmzoo.compiled.ngrams import link

        bounds, arrays = self.trie.bounds, self.trie.arrays[:4]
        dtype = np.int32 if bounds[-1] <= np.iinfo(np.int32).max else np.int64
        links_G: npt.NDArray[Any] = np.full(bounds[-1], ABSENT, dtype)
        limits = np.array(bounds)
        is_broken = np.array([not self.trie.has_its_codes])
        for order in range(1, self.order):
            first = bounds[order - 1]

            def share(low: int, high: int, order: int = order, first: int = first) -> None:
                link(limits, *arrays, order, first + low, first + high, links_G, is_broken)

            # compiled code would follow whatever a damaged file says
            if not is_broken[0]:
                compiled.in_parallel(bounds[order] - first, share)
        if is_broken[0]:
            raise CorruptFileError("the model's file is damaged: its arrays lead to places that are not there")
        return links_G

    def _score_rows(self, tokens_BxL: Tokens, state: NgramState) -> tuple[Floats, NgramState]:
        """`logprobs` by compiled code."""
        n_rows, n_columns = tokens_BxL.shape
        first, end = np.zeros(n_rows, np.int64), np.full(n_rows, n_columns)
        lanes = _lanes(np.arange(n_rows), first, end, self.order - 1)
        nodes_N = np.where(lanes[:, 1] == 0, state.max(axis=1)[lanes[:, 0]], ABSENT)
        logprobs_BxL = self._score(tokens_BxL, lanes, nodes_N)
        return logprobs_BxL, self._state_of(nodes_N[lanes[:, 3] == n_columns])

    def _score(self, tokens_BxL: Tokens, lanes_Nx4: Ids, nodes_N: Ids) -> Floats:
        """ln p of tokens by compiled code; `nodes_N` are the longest histories of lanes, before and then after."""
        from lmzoo.compiled.ngrams import score

        logprobs_BxL = np.empty(tokens_BxL.shape)
        links_G, limits = self._links_G, np.array(self.trie.bounds)

        def share(low: int, high: int) -> None:
            score(tokens_BxL, lanes_Nx4, nodes_N, limits, links_G, *self.trie.arrays, logprobs_BxL, low, high)

        compiled.in_parallel(len(lanes_Nx4), share)
        return logprobs_BxL

    def _state_of(self, longest_B: Ids) -> NgramState:
        """The state whose longest histories these are."""
        state = np.full((len(longest_B), self.order - 1), ABSENT, np.int64)
        rows = np.flatnonzero(longest_B != ABSENT)
        while len(rows):
            nodes = longest_B[rows]
            state[rows, np.searchsorted(self.trie.bounds, nodes, side="right") - 1] = nodes
            longest_B = longest_B.copy()
            longest_B[rows] = self._links_G[nodes]
            rows = rows[longest_B[rows] != ABSENT]
        return state

    @cached_property
    def _singles_V(self) -> Floats:
        """ln p of every symbol after no history."""
        return np.asarray(self.trie.logp.of(1, slice(self.trie.n_symbols)))

    def _distribution(self, histories: Sequence[int]) -> Floats:
        """ln p over the vocabulary after one history, given as its nodes at orders 1 to n-1; shape (1, V)."""
        trie = self.trie
        logprobs_V = self._singles_V.copy()
        for order, history in enumerate(histories, start=1):
            if history != ABSENT:
                following = trie.following(order, history)
                logprobs_V += trie.backoff.of(order, history)
                logprobs_V[trie.tokens_G[following]] = trie.logp.of(order + 1, following)
        return logprobs_V[None, :]

    def _distributions(self, histories: Sequence[Ids], n_rows: int) -> Floats:
        """ln p over the vocabulary after each of P histories, given as their nodes at orders 1 to n-1; shape (P, V)."""
        trie = self.trie
        logprobs_PxV = np.repeat(self._singles_V[None, :], n_rows, axis=0)
        for order, history_P in enumerate(histories, start=1):
            rows = np.flatnonzero(history_P != ABSENT)
            history = history_P[rows]
            logprobs_PxV[rows] += trie.backoff.of(order, history)[:, None]
            start = trie.starts.of(order, history)
            n_following = trie.starts.of(order, history + 1) - start
            # the continuations of all rows, one after the other
            place = np.arange(n_following.sum()) - np.repeat(np.cumsum(n_following) - n_following, n_following)
            child = np.repeat(start, n_following) + place
            logprobs_PxV[np.repeat(rows, n_following), trie.tokens_G[child]] = trie.logp.of(order + 1, child)
        return logprobs_PxV


def _lanes(rows_D: npt.ArrayLike, starts_D: Ids, ends_D: Ids, context_size: int) -> Ids:
    """Texts cut for compiled code: row, the column it starts at, the first that it scores, the end; shape (N, 4).

    Where a lane does not start with its text it reads the context before it first.
    """
    n_lanes_D = np.maximum(-(-(ends_D - starts_D) // _LANE), 1)
    place_N = np.arange(n_lanes_D.sum()) - np.repeat(np.cumsum(n_lanes_D) - n_lanes_D, n_lanes_D)
    rows_N, starts_N, ends_N = (np.repeat(v, n_lanes_D) for v in np.broadcast_arrays(rows_D, starts_D, ends_D))
    scored_N = starts_N + place_N * _LANE
    begin_N = np.maximum(scored_N - context_size, starts_N)
    return np.stack((rows_N, begin_N, scored_N, np.minimum(scored_N + _LANE, ends_N)), axis=1)


def _figures_to_arrays(name: str, values: Values) -> dict[str, npt.NDArray[Any]]:
    if len(values.codes_G):
        return {f"{name}_codes": values.codes_G, f"{name}_book": values.book_OxC}
    return {name: values.plain_G}


def _figures_from_arrays(name: str, arrays: Arrays) -> Values:
    plain_G = arrays.get(name, np.zeros(0))
    codes_G = arrays.get(f"{name}_codes", np.zeros(0, np.uint16))
    return Values(plain_G=plain_G, codes_G=codes_G, book_OxC=arrays.get(f"{name}_book", np.zeros((1, 0))))


def _tolerance(details: Mapping[str, Any]) -> float | None:
    """An ARPA file rounds every figure to a few digits, a quantised one to a few values."""
    if details.get("bits") is not None:
        return 2e-2
    return 1e-4 if details.get("smoothing") == "arpa" else None
