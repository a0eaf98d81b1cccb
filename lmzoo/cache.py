"""A cache: what was said lately is likely to be said again (Kuhn & De Mori 1990; Jelinek, Merialdo, Roukos & Strauss
1991 for contexts of more than one token).

It learns from the text that it scores, so it is adaptive and starred everywhere; it is of use only inside a mixture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import OptionValueError, TokenError, described, require_whole
from lmzoo.interface import Arrays, Classes, Progress, Tokens, checked_rows
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
# the last ids of each row, the newest last, at most `size` of them
CacheState = Ids

# a state holds so many numbers for each row
_MOST_TOKENS = 1_000_000
_MOST_ORDER = 32
_LEAST_WEIGHT = 1e-200


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """A cache.

    Attributes:
        order: the longest contexts have `order` - 1 tokens; 1 counts single tokens, whatever they followed.
        size: how many tokens back it remembers.
        decay: weight of a token for each token that came after it; 1: all count alike.  Tokens are forgotten once
            they weigh less than 1e-200.
        discount: of the last time that each token followed a context, the share that is handed to shorter contexts.
    """

    order: int = 8
    size: int = 100_000
    decay: float = 0.9998
    discount: float = 0.5

    def __post_init__(self) -> None:
        for name, most in (("order", _MOST_ORDER), ("size", _MOST_TOKENS)):
            if getattr(self, name) < 1:
                raise OptionValueError(f"{name} of a cache must be at least 1, got {getattr(self, name)}")
            if getattr(self, name) > most:
                raise OptionValueError(f"{name} of a cache must be at most {most}, got {getattr(self, name)}")
        if not 0 < self.decay <= 1:
            raise OptionValueError(f"decay of a cache must be above 0 and at most 1, got {self.decay}")
        if not 0 <= self.discount <= 1:
            raise OptionValueError(f"discount of a cache must be 0 to 1, got {self.discount}")


class CacheModel:
    """n-grams of the last tokens of the document itself, those of all orders interpolated down to uniform.

    A token's weight is `decay` to the power of the number of tokens since.  After a context that was followed by w
    with the weights c(w) in sum and l(w) the last time, with N = sum c and T = sum l over all that followed it,

        p(w) = (c(w) - discount l(w)) / N + discount T / N p'(w),

    where p' is that of the context without its first token, and in the end uniform.  With `decay` 1 this is absolute
    discounting (Ney, Essen & Kneser 1994).  Contexts that did not occur leave p' as it is.
    """

    kind = "cache"
    is_normalized = True
    is_adaptive = True
    kernel_name = "numpy"
    n_params = 0
    # every call sorts all that is remembered
    cells_at_once = 1 << 17

    def __init__(self, vocab: Vocab, config: CacheConfig) -> None:
        self.vocab = vocab
        self.config = config
        # what weighs less is not told from 0, and sums of it could not be divided by
        least = math.inf if config.decay == 1 else math.log(_LEAST_WEIGHT) / math.log(config.decay)
        self.n_remembered = int(min(config.size, max(least, 1)))
        self.context_size: int | None = self.n_remembered
        self.n_context_classes = config.order + 1
        self._weights_S = config.decay ** np.arange(self.n_remembered - 1.0, -1.0, -1.0)
        self._uniform_V = np.full(len(vocab), 1 / vocab.n_predictable)
        self._uniform_V[vocab.bos_id] = 0.0

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> CacheState:
        """Nothing remembered: `<s>` is no token of the text."""
        require_whole(batch_size, "batch_size", 1)
        return np.empty((batch_size, 0), np.int64)

    def logprobs(self, tokens_BxL: Tokens, state: CacheState) -> tuple[Floats, CacheState]:
        """ln p of each token, float64."""
        known = self._read(tokens_BxL, state)
        n_before = state.shape[1]
        with np.errstate(divide="ignore"):
            if tokens_BxL.shape[1] == 1:
                picked = [self._distribution(row)[token] for row, token in zip(state, known[:, -1], strict=True)]
                out_BxL = np.log(np.array(picked, np.float64)[:, None])
            else:
                out_BxL = np.log(np.stack([self._probabilities(row, n_before) for row in known]))
        return out_BxL, self._kept(known)

    def next_logprobs(self, state: CacheState) -> Floats:
        """ln p over the whole vocabulary, float64 of shape (B, V)."""
        self._check_state(state)
        with np.errstate(divide="ignore"):
            return np.log(np.stack([self._distribution(row) for row in state]))

    def context_classes(self, tokens_BxL: Tokens, state: CacheState) -> Classes:
        """How many orders of context occurred before, `order` at most, shape (B, L + 1); see `interface.py`."""
        known = self._read(tokens_BxL, state)
        n_before = state.shape[1]
        if not tokens_BxL.shape[1]:
            return np.array([[sum(1 for _ in self._followed(row))] for row in state], np.int64)
        classes_BxL1 = np.zeros((len(known), tokens_BxL.shape[1] + 1), np.int64)
        for row, classes_L1 in zip(known, classes_BxL1, strict=True):
            # whatever the next token is, its context is that
            for past in self._pasts(np.append(row, self.vocab.bos_id), n_before):
                classes_L1[past.places[past.known()] - n_before] += 1
        return classes_BxL1

    def select(self, state: CacheState, rows: npt.ArrayLike) -> CacheState:
        self._check_state(state)
        chosen: CacheState = state[checked_rows(rows, len(state))]
        return chosen

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return vars(self.config).copy(), {}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> CacheModel:
        return cls(vocab, CacheConfig(**options))

    def _read(self, tokens_BxL: Tokens, state: CacheState) -> Ids:
        """What is remembered and then the tokens.  Raises `TokenError` where they do not go together."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        return np.concatenate((state, tokens_BxL), axis=1, dtype=np.int64)

    def _kept(self, known: Ids) -> CacheState:
        return known[:, max(known.shape[1] - self.n_remembered, 0) :]

    def _check_state(self, state: CacheState) -> None:
        """Raise `TokenError` for a state that is none of this model's."""
        is_ids = isinstance(state, np.ndarray) and state.ndim == 2 and state.dtype == np.int64
        if not is_ids or state.shape[1] > self.n_remembered:
            raise TokenError(
                f"the state of a cache is ids of shape (B, up to {self.n_remembered}), got {described(state)}"
            )

    def _distribution(self, row: Ids) -> Floats:
        """p of every symbol after one row's state."""
        p_V = self._uniform_V
        discount = self.config.discount
        weights_N = self._weights_S[len(self._weights_S) - len(row) :]
        for followed in self._followed(row):
            sums_V = np.bincount(row[followed], weights_N[followed], len(self.vocab))
            last_V = np.zeros(len(self.vocab))
            last_V[row[followed]] = weights_N[followed]
            p_V = (sums_V - discount * last_V + discount * last_V.sum() * p_V) / sums_V.sum()
        return p_V

    def _followed(self, row: Ids) -> Iterator[Ids]:
        """For contexts of 0, 1, … of the last tokens, as long as they occurred before: the places that followed."""
        places = np.flatnonzero(row != self.vocab.bos_id)
        for length in range(min(self.config.order, len(row))):
            if length:
                places = places[places >= length]
                places = places[row[places - length] == row[-length]]
            if not len(places):
                return
            yield places

    def _probabilities(self, row: Ids, n_before: int) -> Floats:
        """p of the tokens of a row from `n_before` on: `_distribution` for all of them at once."""
        p_L = self._uniform_V[row[n_before:]]
        discount = self.config.discount
        for past in self._pasts(row, n_before):
            known = past.known()
            totals, last_totals, sums, last = past.weights(known, self.config.decay)
            at = past.places[known] - n_before
            p_L[at] = (sums - discount * last + discount * last_totals * p_L[at]) / totals
        return p_L

    def _pasts(self, row: Ids, n_before: int) -> Iterator[_Past]:
        """What preceded the tokens of a row from `n_before` on, for contexts of 0, 1, … tokens."""
        places, contexts = np.arange(len(row)), np.zeros(len(row), np.int64)
        for length in range(min(self.config.order, self.n_remembered)):
            if length:
                is_far = places >= length
                places, contexts = places[is_far], contexts[is_far]
                _, contexts = np.unique(contexts * len(self.vocab) + row[places - length], return_inverse=True)
            # longer contexts match only where these do: those that nobody asks about or that are alone go
            n_asked_C = np.bincount(contexts, places >= n_before)
            is_used_C = (n_asked_C > 0) & (np.bincount(contexts) > 1)
            is_used = is_used_C[contexts]
            places, contexts = places[is_used], contexts[is_used]
            if not len(places):
                return
            _, grams = np.unique(contexts * len(self.vocab) + row[places], return_inverse=True)
            follows = np.flatnonzero(row[places] != self.vocab.bos_id)
            reach = self.n_remembered - length
            yield _Past(places=places, contexts=contexts, grams=grams, follows=follows, first=n_before, reach=reach)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Past:
    """What preceded the tokens at some places, for contexts of one length.

    Attributes:
        places: in the text, ascending; below, they are called by their number.
        contexts: a number for the tokens before each.
        grams: a number for each context with its token.
        follows: those whose token can be predicted again.
        first: places of the text from here on are asked about.
        reach: how many tokens later a place is still remembered.
    """

    places: Ids
    contexts: Ids
    grams: Ids
    follows: Ids
    first: int
    reach: int

    def known(self) -> Ids:
        """Those asked about whose context was followed by something before."""
        asked = np.flatnonzero(self.places >= self.first)
        known: Ids = asked[self._age(self.contexts, asked) <= self.reach]
        return known

    def weights(self, asked: Ids, decay: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Of the contexts of some places N and T, and of the tokens there c and l (see `CacheModel`)."""
        contexts, grams = self.contexts[self.follows], self.grams[self.follows]
        born = self.places[self.follows] + 1
        gone = born + self.reach
        times = self.places[asked]
        totals = _decayed_sums(contexts, born, gone, self.contexts[asked], times, decay)
        sums = _decayed_sums(grams, born, gone, self.grams[asked], times, decay)
        followed_again = gone.copy()
        by_gram = np.argsort(grams, kind="stable")
        is_same = np.diff(grams[by_gram]) == 0
        followed_again[by_gram[:-1][is_same]] = born[by_gram[1:][is_same]]
        last_gone = np.minimum(gone, followed_again)
        last_totals = _decayed_sums(contexts, born, last_gone, self.contexts[asked], times, decay)
        age = self._age(self.grams, asked)
        is_remembered = age <= self.reach
        last = np.where(is_remembered, decay ** (np.minimum(age, self.reach) - 1.0), 0.0)
        # what rounding leaves of weights that are gone is none
        return totals, last_totals, np.where(is_remembered, sums, 0.0), last

    def _age(self, groups: Ids, asked: Ids) -> Ids:
        """How many tokens before each of some places something last followed that is of its group; many where never."""
        span = int(self.places[-1]) + 1
        keys = np.sort(groups[self.follows] * span + self.places[self.follows])
        wanted = groups[asked] * span + self.places[asked]
        # a key that is of no group stands before all
        keys = np.concatenate(([-2 * span], keys))
        newest = keys[np.searchsorted(keys, wanted) - 1]
        is_same = newest // span == groups[asked]
        return np.where(is_same, wanted - newest, self.reach + 1)


def _decayed_sums(groups: Ids, born: Ids, gone: Ids, asked: Ids, times: Ids, decay: float) -> Floats:
    """For each group asked about at a time, the weights in sum of its members that are born by then and not yet gone.

    A weight is 1 at birth and falls by `decay` with each unit of time.
    """
    span = int(max(gone.max(initial=0), times.max(initial=0))) + 1
    keys = np.concatenate((groups * span + born, groups * span + gone))
    amounts = np.concatenate((np.ones(len(born)), -(decay ** (gone - born).astype(np.float64))))
    order = np.argsort(keys, kind="stable")
    keys, sums = keys[order], amounts[order]
    group, time = keys // span, keys % span
    if decay == 1:
        sums = np.cumsum(sums)
        first = np.searchsorted(keys, group * span)
        sums = sums - np.where(first > 0, sums[first - 1], 0.0)
    else:
        # sums of the last 1, 2, 4, … changes of a group, until they are all of it
        step = 1
        while (is_same := group[step:] == group[:-step]).any():
            faded = decay ** np.where(is_same, time[step:] - time[:-step], 0).astype(np.float64)
            sums[step:] += np.where(is_same, faded * sums[:-step], 0.0)
            step *= 2
    found = np.searchsorted(keys, asked * span + times, side="right") - 1
    if not len(keys):
        return np.zeros(len(asked))
    is_there = (found >= 0) & (group[found] == asked)
    age = np.where(is_there, times - time[found], 0).astype(np.float64)
    return np.where(is_there, sums[found] * decay**age, 0.0)


class CacheTrainer:
    """Nothing to learn: the cache fills as a text is scored."""

    def __init__(self, config: CacheConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self.model = CacheModel(vocab, config)

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Yield once."""
        yield Progress(tokens=0)
