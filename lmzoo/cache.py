"""A cache: what was said lately is likely to be said again (Kuhn & De Mori 1990).

It learns from the text that it scores, so it is adaptive and starred everywhere; it is of use only inside a mixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import OptionValueError, TokenError, described, require_whole
from lmzoo.interface import Arrays, Progress, Tokens, checked_rows
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
# the last ids of each row, the newest last; ABSENT where the document has fewer
CacheState = npt.NDArray[np.int64]

ABSENT = -1
# a state holds so many numbers for each row
_MOST_TOKENS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """A cache.

    Attributes:
        order: 1 counts single tokens; n counts what followed the last n-1 tokens, or fewer where these are new.
        size: how many tokens back it remembers.
        decay: weight of a token for each token that came after it; 1: all count alike.
    """

    order: int = 1
    size: int = 500
    decay: float = 1.0

    def __post_init__(self) -> None:
        for name in ("order", "size"):
            if getattr(self, name) < 1:
                raise OptionValueError(f"{name} of a cache must be at least 1, got {getattr(self, name)}")
        if self.size > _MOST_TOKENS:
            raise OptionValueError(f"size of a cache must be at most {_MOST_TOKENS}, got {self.size}")
        if not 0 < self.decay <= 1:
            raise OptionValueError(f"decay of a cache must be above 0 and at most 1, got {self.decay}")


class CacheModel:
    """Relative frequencies among the last tokens of the document itself; uniform before there are any.

    Of the contexts of n-1, n-2, … 0 tokens the longest decides that occurred before.
    """

    kind = "cache"
    is_normalized = True
    is_adaptive = True
    kernel_name = "numpy"
    n_params = 0

    def __init__(self, vocab: Vocab, config: CacheConfig) -> None:
        self.vocab = vocab
        self.config = config
        self.context_size: int | None = config.size
        ages = np.arange(config.size - 1, -1, -1)
        self._weight_S = config.decay ** ages.astype(np.float64)
        self._uniform_V = np.full(len(vocab), 1 / vocab.n_predictable)
        self._uniform_V[vocab.bos_id] = 0.0

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> CacheState:
        """Nothing remembered: `<s>` is no token of the text."""
        require_whole(batch_size, "batch_size", 1)
        return np.full((batch_size, self.config.size), ABSENT, np.int64)

    def logprobs(self, tokens_BxL: Tokens, state: CacheState) -> tuple[Floats, CacheState]:
        """ln p of each token, float64; -inf for what was not said lately."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        known = np.concatenate((state, tokens_BxL), axis=1, dtype=np.int64)
        size = self.config.size
        out_BxL = np.empty(tokens_BxL.shape)
        with np.errstate(divide="ignore"):
            for b, row in enumerate(known):
                for t, token in enumerate(row[size:].tolist()):
                    out_BxL[b, t] = np.log(self._p_of(token, row[t : t + size]))
        return out_BxL, known[:, known.shape[1] - size :]

    def next_logprobs(self, state: CacheState) -> Floats:
        """ln p over the whole vocabulary, float64 of shape (B, V)."""
        self._check_state(state)
        rows = []
        for row in state:
            weight_S = self._weights(row)
            total = weight_S.sum()
            said = row != ABSENT
            rows.append(
                np.bincount(row[said], weight_S[said], len(self.vocab)) / total if total > 0 else self._uniform_V
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.stack(rows)))

    def select(self, state: CacheState, rows: npt.ArrayLike) -> CacheState:
        self._check_state(state)
        chosen: CacheState = state[checked_rows(rows, len(state))]
        return chosen

    def _check_state(self, state: CacheState) -> None:
        """Raise `TokenError` for a state that is none of this model's."""
        if not isinstance(state, np.ndarray) or state.ndim != 2 or state.shape[1] != self.config.size:
            raise TokenError(f"the state of a cache has shape (B, {self.config.size}), got {described(state)}")

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return vars(self.config).copy(), {}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> CacheModel:
        return cls(vocab, CacheConfig(**options))

    def _p_of(self, token: int, row: CacheState) -> float:
        weight_S = self._weights(row)
        total = weight_S.sum()
        if total > 0:
            return float(weight_S[row == token].sum() / total)
        return float(self._uniform_V[token])

    def _weights(self, row: CacheState) -> Floats:
        """What each remembered token counts for: those that followed the longest context that occurred before.

        `<s>`, where it stands in a text by itself, is never predicted.
        """
        said = (row != ABSENT) & (row != self.vocab.bos_id)
        followed = said
        for back in range(1, min(self.config.order, len(row))):
            # tokens whose `back`-th predecessor is that of the next token
            is_like = np.zeros(len(row), np.bool_)
            is_like[back:] = row[:-back] == row[-back]
            narrower = followed & is_like & (row[-back] != ABSENT)
            if not narrower.any():
                break
            followed = narrower
        return np.where(followed, self._weight_S, 0.0)


class CacheTrainer:
    """Nothing to learn: the cache fills as a text is scored."""

    def __init__(self, config: CacheConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self.model = CacheModel(vocab, config)

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Yield once."""
        yield Progress(tokens=0)
