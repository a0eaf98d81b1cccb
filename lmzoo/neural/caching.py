"""The neural cache: what followed outputs like the present one is likelier to follow (Grave et al. 2017).

It learns from the text that it scores, so it is adaptive and starred everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lmzoo.corpus import Split
from lmzoo.errors import require_whole
from lmzoo.interface import Arrays, LogProbs, Tokens
from lmzoo.neural.models import RecurrentModel, RecurrentState
from lmzoo.neural.wrapping import WrappedNetwork
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float32]
Wide = npt.NDArray[np.float64]

# without validation text
DEFAULT_SHARE, DEFAULT_SHARPNESS = 0.05, 0.3
_SHARPNESSES = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
_SHARES = tuple(np.linspace(0.0, 0.6, 61).tolist())
# the rates are fitted on so many tokens of validation text at most
FIT_TOKENS = 10_000
# numbers of a product of outputs at once
_MAX_CELLS = 1_000_000


@dataclass(frozen=True, eq=False)
class Remembered:
    """One text: the network's state, and the last M outputs (M, H) with the token that followed each; read-only."""

    state: RecurrentState
    keys_MxH: Floats
    tokens_M: npt.NDArray[np.int64]


CachingState = tuple[Remembered, ...]


class CachingModel(WrappedNetwork[Remembered]):
    """A trained recurrent network with a cache of its own outputs.

    Args:
        share: lambda, the cache's part of the mixture, 0 to 1.
        sharpness: theta, by which products of outputs are multiplied.
    """

    kind = "recurrent-cache"
    row_class = Remembered

    def __init__(self, plain: RecurrentModel, share: float, sharpness: float) -> None:
        super().__init__(plain)
        self.share, self.sharpness = share, sharpness

    def move_to(self, device: str) -> None:
        """Put the network onto a device; the cache stays on the host."""
        self.plain.move_to(device)

    @property
    def details(self) -> dict[str, Any]:
        """The fitted rates, for records."""
        return {"share": self.share, "sharpness": self.sharpness}

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> CachingState:
        """Nothing remembered."""
        require_whole(batch_size, "batch_size", 1)
        state = self.plain.initial_state(1, bos=bos)
        nothing = Remembered(state, np.zeros((0, self.config.hidden), np.float32), np.zeros(0, np.int64))
        return (nothing,) * batch_size

    def logprobs(self, tokens_BxL: Tokens, state: CachingState) -> tuple[LogProbs, CachingState]:
        """ln p of each token, float32 of shape (B, L), and the state after the last one."""
        tokens_BxL = self._checked(tokens_BxL, state)
        out_BxL = np.empty(tokens_BxL.shape, np.float32)
        after = []
        for b, row in enumerate(state):
            plain_L, cached_SxL, next_row = self.both(tokens_BxL[b], row, (self.sharpness,))
            out_BxL[b] = mixed(plain_L, cached_SxL[0], self.share)
            after.append(next_row)
        return out_BxL, tuple(after)

    def next_logprobs(self, state: CachingState) -> LogProbs:
        """ln p over the whole vocabulary, float32 of shape (B, V)."""
        self._check_state(state)
        return np.stack([self._next_V(row) for row in state])

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        options, arrays = self.plain.to_parts()
        return {"config": options, "share": self.share, "sharpness": self.sharpness}, arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> CachingModel:
        """The inverse of `to_parts`, on the CPU."""
        plain = RecurrentModel.from_parts(vocab, options["config"], arrays)
        return cls(plain, float(options["share"]), float(options["sharpness"]))

    def both(self, tokens_L: Tokens, row: Remembered, sharpnesses: Sequence[float]) -> tuple[Wide, Wide, Remembered]:
        """p of each token by the network (L,) and by the cache at each sharpness (S, L; NaN: nothing remembered)."""
        size = self.config.adapt_size
        plain_1xL, state = self.plain.logprobs(tokens_L[None], row.state)
        read_LxH = self._outputs(tokens_L, row.state)
        keys_NxH = np.concatenate((row.keys_MxH, read_LxH))
        tokens_N = np.concatenate((row.tokens_M, tokens_L.astype(np.int64)))
        n_before = len(row.tokens_M)
        cached_SxL = np.empty((len(sharpnesses), len(tokens_L)))
        for at in self._spans(len(tokens_L)):
            first = max(n_before + at.start - size, 0)
            past = slice(first, n_before + at.stop)
            scores_QxP = keys_NxH[n_before + at.start : n_before + at.stop] @ keys_NxH[past].T
            places_P = np.arange(past.start, past.stop)
            own_Qx1 = np.arange(n_before + at.start, n_before + at.stop)[:, None]
            is_past_QxP = (places_P < own_Qx1) & (places_P >= own_Qx1 - size) & (tokens_N[past] != self.vocab.bos_id)
            is_same_QxP = tokens_N[past] == tokens_N[own_Qx1]
            for s, sharpness in enumerate(sharpnesses):
                weight_QxP = _weights(scores_QxP, is_past_QxP, sharpness)
                with np.errstate(invalid="ignore"):
                    cached_SxL[s, at] = (weight_QxP * is_same_QxP).sum(1) / weight_QxP.sum(1)
        after = Remembered(state, keys_NxH[-size:], tokens_N[-size:])
        return np.exp(plain_1xL[0].astype(np.float64)), cached_SxL, after

    def _next_V(self, row: Remembered) -> Floats:
        plain_V: Floats = self.plain.next_logprobs(row.state)[0]
        is_kept_1xM = (row.tokens_M != self.vocab.bos_id)[None]
        if not is_kept_1xM.any():
            return plain_V
        query_1xH = row.state.values_SxKxBxH[0, -1]
        weight_M = _weights(query_1xH @ row.keys_MxH.T, is_kept_1xM, self.sharpness)[0]
        cached_V = np.bincount(row.tokens_M, weight_M, len(self.vocab)) / weight_M.sum()
        return mixed(np.exp(plain_V.astype(np.float64)), cached_V, self.share)

    @torch.inference_mode()
    def _outputs(self, tokens_L: Tokens, state: RecurrentState) -> Floats:
        """What the output layer reads before each token, (L, H)."""
        parts = [hidden[0].cpu().numpy() for hidden, _ in self.plain.histories(tokens_L[None], state)]
        return np.concatenate([np.zeros((0, self.config.hidden), np.float32), *parts])

    def _spans(self, length: int) -> Iterator[slice]:
        size = self.config.adapt_size
        step = max(min(_MAX_CELLS // size, size), 1)
        return (slice(start, min(start + step, length)) for start in range(0, length, step))


def mixed(plain: Wide, cached: Wide, share: float) -> Floats:
    """ln((1 - share) p + share p_cache); the network alone where nothing is remembered (NaN)."""
    with np.errstate(divide="ignore"):
        logs: Wide = np.log(np.where(np.isnan(cached), plain, (1 - share) * plain + share * cached))
    return logs.astype(np.float32)


def fitted(plain: RecurrentModel, valid: Split) -> CachingModel:
    """The network with the rates, of a grid, that make the head of the validation text most probable."""
    head = valid.head(FIT_TOKENS)
    if not head.n_tokens:
        return CachingModel(plain, DEFAULT_SHARE, DEFAULT_SHARPNESS)
    trial = CachingModel(plain, 0.0, 1.0)
    pairs = [trial.both(d.ids_L, trial.initial_state()[0], _SHARPNESSES)[:2] for d in head]
    plain_N, cached_SxN = np.concatenate([p for p, _ in pairs]), np.concatenate([c for _, c in pairs], axis=1)
    nats = {
        (share, sharpness): -float(mixed(plain_N, cached_N, share).sum(dtype=np.float64))
        for sharpness, cached_N in zip(_SHARPNESSES, cached_SxN, strict=True)
        for share in _SHARES
    }
    share, sharpness = min(nats, key=lambda pair: nats[pair])
    return CachingModel(plain, share, sharpness)


def _weights(scores_QxP: Floats, is_past_QxP: npt.NDArray[np.bool_], sharpness: float) -> Wide:
    """exp(theta h_t . h_i) of what is remembered, relative to the largest; 0 elsewhere."""
    logits_QxP = np.where(is_past_QxP, scores_QxP * sharpness, -np.inf).astype(np.float64)
    highest_Qx1 = np.maximum(logits_QxP.max(axis=1, keepdims=True, initial=-np.inf), -1e30)
    return np.asarray(np.exp(logits_QxP - highest_Qx1))
