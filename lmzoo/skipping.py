"""n-grams that pass over tokens: what followed the last but one, whatever stood between (Ney, Essen & Kneser 1994;
Goodman 2001, section 5).

They know less than plain n-grams, and other things: they are of use inside a mixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError, OptionValueError, TokenError, described, require_whole
from lmzoo.interface import Arrays, Classes, Progress, Tokens
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
# the last ids of each row, the newest last; _NOTHING before a document
SkipState = Ids

_NOTHING = -1
_ABSENT = -1
_MOST_BACK = 32
_BACK = re.compile(r"[0-9]{1,3}(/[0-9]{1,3})*")


@dataclass(frozen=True, kw_only=True)
class SkipConfig:
    """An n-gram model with gaps.

    Attributes:
        back: which tokens are the context, counted back from the one that is predicted; where a context was never seen
            the last of these is left out first.  2/3: the last but one, and the one before it.
    """

    back: str = "2/3"

    def __post_init__(self) -> None:
        places = self.places if _BACK.fullmatch(str(self.back)) else []
        if not places or len(set(places)) < len(places) or not all(1 <= o <= _MOST_BACK for o in places):
            raise OptionValueError(f"back is different numbers from 1 to {_MOST_BACK} such as 2/3, got {self.back}")

    @property
    def places(self) -> list[int]:
        """`back` as numbers."""
        return [int(part) for part in str(self.back).split("/")]


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """What followed contexts of some length.

    Attributes:
        contexts_C: of each context `shorter * (V + 1) + token + 1`, ascending; its number is its place.
        grams_G: of each token that followed `context * V + token`, ascending.
        own_G: the probability that a token keeps after its context is discounted.
        handed_C: the probability that a context hands to the shorter one.
    """

    contexts_C: Ids
    grams_G: Ids
    own_G: Floats
    handed_C: Floats


class SkipModel:
    """Interpolated absolute discounting, a context's tokens taken in the order of `back`, down to uniform.

    With c(w) of N tokens after a context of T kinds, p(w) = max(c(w) - D, 0) / N + D T / N p'(w); D = n1 / (n1 + 2 n2)
    from the counts of counts of the length (Ney, Essen & Kneser 1994, eq. 26).

    Args:
        levels: for contexts of 0, 1, … tokens.
    """

    kind = "skip"
    is_normalized = True
    is_adaptive = False
    kernel_name = "numpy"
    # many short documents or a long one (see `evaluation.py`)
    cells_at_once = 1 << 17

    def __init__(self, vocab: Vocab, config: SkipConfig, levels: Sequence[Level]) -> None:
        self.vocab = vocab
        self.config = config
        self.levels = list(levels)
        self.context_size: int | None = max(config.places)
        self.n_context_classes = len(self.levels)
        self._uniform_V = np.full(len(vocab), 1 / vocab.n_predictable)
        self._uniform_V[vocab.bos_id] = 0.0

    @property
    def n_params(self) -> int:
        """Contexts with tokens that followed, of all lengths."""
        return sum(len(level.grams_G) for level in self.levels)

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> SkipState:
        require_whole(batch_size, "batch_size", 1)
        state = np.full((batch_size, max(self.config.places)), _NOTHING, np.int64)
        if bos:
            state[:, -1] = self.vocab.bos_id
        return state

    def logprobs(self, tokens_BxL: Tokens, state: SkipState) -> tuple[Floats, SkipState]:
        """ln p of each token, float64."""
        known = self._read(tokens_BxL, state)
        n_columns = tokens_BxL.shape[1]
        tokens_M = known[:, known.shape[1] - n_columns :].reshape(-1)
        p_M = self._uniform_V[tokens_M]
        for level, context_M in zip(self.levels, self._contexts(known, n_columns), strict=True):
            gram_M = _find(
                level.grams_G, np.where(context_M == _ABSENT, _ABSENT, context_M * self._n_symbols + tokens_M)
            )
            own_M = np.where(gram_M == _ABSENT, 0.0, level.own_G[gram_M])
            p_M = np.where(context_M == _ABSENT, p_M, own_M + level.handed_C[context_M] * p_M)
        with np.errstate(divide="ignore"):
            return np.log(p_M).reshape(tokens_BxL.shape), known[:, n_columns:]

    def next_logprobs(self, state: SkipState) -> Floats:
        """ln p over the whole vocabulary, float64 of shape (B, V)."""
        self._check_state(state)
        p_BxV = np.repeat(self._uniform_V[None, :], len(state), axis=0)
        # of what comes next nothing is known
        known = np.concatenate((state, np.zeros((len(state), 1), np.int64)), axis=1)
        for level, context_B in zip(self.levels, self._contexts(known, 1), strict=True):
            for p_V, context in zip(p_BxV, context_B.tolist(), strict=True):
                if context != _ABSENT:
                    bounds = np.searchsorted(level.grams_G, np.array([context, context + 1]) * self._n_symbols)
                    followed = slice(*bounds.tolist())
                    p_V *= level.handed_C[context]
                    p_V[level.grams_G[followed] % self._n_symbols] += level.own_G[followed]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(p_BxV))

    def context_classes(self, tokens_BxL: Tokens, state: SkipState) -> Classes:
        """How many tokens of the context training saw together, shape (B, L + 1); see `interface.py`."""
        known = self._read(tokens_BxL, state)
        n_columns = tokens_BxL.shape[1] + 1
        asked = np.concatenate((known, np.zeros((len(known), 1), np.int64)), axis=1)
        longer = self._contexts(asked, n_columns)[1:]
        n_known_M = np.sum([context_M != _ABSENT for context_M in longer], axis=0)
        return np.asarray(n_known_M).reshape(len(known), n_columns)

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        arrays = {f"{n}/{name}": array for n, level in enumerate(self.levels) for name, array in vars(level).items()}
        return vars(self.config).copy(), arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> SkipModel:
        config = SkipConfig(**options)
        names = Level.__dataclass_fields__
        levels = [Level(**{name: arrays[f"{n}/{name}"] for name in names}) for n in range(len(config.places) + 1)]
        for level in levels:
            if len(level.own_G) != len(level.grams_G) or len(level.handed_C) != len(level.contexts_C):
                raise ValueError(f"{len(level.grams_G)} n-grams with {len(level.own_G)} figures")
        return cls(vocab, config, levels)

    @property
    def _n_symbols(self) -> int:
        return len(self.vocab)

    def _read(self, tokens_BxL: Tokens, state: SkipState) -> Ids:
        """What stands before and then the tokens.  Raises `TokenError` where they do not go together."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        return np.concatenate((state, tokens_BxL), axis=1, dtype=np.int64)

    def _check_state(self, state: SkipState) -> None:
        """Raise `TokenError` for a state that is none of this model's."""
        width = max(self.config.places)
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (len(state), width):
            raise TokenError(f"a state is ids of shape (B, {width}), got {described(state)}")

    def _contexts(self, known: Ids, n_columns: int) -> list[Ids]:
        """The contexts of the last columns, row after row, for each length; _ABSENT where training never had one."""
        first = known.shape[1] - n_columns
        context_M = np.zeros(len(known) * n_columns, np.int64)
        found = [context_M]
        for level, back in zip(self.levels[1:], self.config.places, strict=True):
            tokens_M = known[:, first - back : known.shape[1] - back].reshape(-1)
            keys_M = context_M * (self._n_symbols + 1) + tokens_M + 1
            context_M = _find(level.contexts_C, np.where(context_M == _ABSENT, _ABSENT, keys_M))
            found.append(context_M)
        return found


def _find(keys: Ids, wanted_M: Ids) -> Ids:
    """The places of numbers among ascending ones, _ABSENT where they are not."""
    if not len(keys):
        return np.full(len(wanted_M), _ABSENT)
    place_M = np.minimum(np.searchsorted(keys, wanted_M), len(keys) - 1)
    return np.where(keys[place_M] == wanted_M, place_M, _ABSENT)


def count(split: Split, config: SkipConfig) -> list[Level]:
    """What followed which contexts in a text, for contexts of 0, 1, … tokens."""
    n_symbols = len(split.vocab)
    place_N = np.arange(split.n_tokens) - np.repeat(split.starts_D1[:-1], np.diff(split.starts_D1))
    is_predicted_N = split.ids_N != split.vocab.bos_id
    tokens_N = split.ids_N.astype(np.int64)
    context_N = np.zeros(split.n_tokens, np.int64)
    contexts_C = np.zeros(1, np.int64)
    levels = [_level(contexts_C, context_N[is_predicted_N], tokens_N[is_predicted_N], n_symbols)]
    for back in config.places:
        before_N = np.full(split.n_tokens, _NOTHING)
        before_N[back:] = tokens_N[: split.n_tokens - back] if back < split.n_tokens else before_N[back:]
        # before the first token of a document there is <s>, and before that nothing
        before_N = np.where(place_N >= back, before_N, np.where(place_N == back - 1, split.vocab.bos_id, _NOTHING))
        contexts_C, context_N = np.unique(context_N * (n_symbols + 1) + before_N + 1, return_inverse=True)
        levels.append(_level(contexts_C, context_N[is_predicted_N], tokens_N[is_predicted_N], n_symbols))
    return levels


def _level(contexts_C: Ids, context_M: Ids, tokens_M: Ids, n_symbols: int) -> Level:
    grams_G, counts_G = np.unique(context_M * n_symbols + tokens_M, return_counts=True)
    history_G = grams_G // n_symbols
    totals_C = np.bincount(context_M, minlength=len(contexts_C))
    kinds_C = np.bincount(history_G, minlength=len(contexts_C))
    once, twice = int((counts_G == 1).sum()), int((counts_G == 2).sum())
    # a text without tokens seen once says nothing of what is new in another
    discount = once / (once + 2 * twice) if once and twice else 0.5
    # a context that only <s> followed hands everything on
    handed_C = np.where(totals_C > 0, discount * kinds_C / np.maximum(totals_C, 1), 1.0)
    own_G = (counts_G - discount) / totals_C[history_G]
    return Level(contexts_C=contexts_C, grams_G=grams_G, own_G=own_G, handed_C=handed_C)


class SkipTrainer:
    """Counts the training text once."""

    def __init__(self, config: SkipConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self._vocab = vocab
        self._model: SkipModel | None = None

    @property
    def model(self) -> SkipModel:
        if self._model is None:
            raise LmzooError("nothing was counted yet; run steps() first")
        return self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Count, and yield once, at the end."""
        self._model = SkipModel(self._vocab, self.config, count(train, self.config))
        yield Progress(tokens=train.n_tokens)
