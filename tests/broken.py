"""Models with one fault each; the table in `mutants.py` says which check catches which."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import TokenError
from lmzoo.interface import Arrays, LogProbs, Tokens
from lmzoo.vocab import Vocab
from tests.bigram import AddKBigram, State

# --- the interface


class NoSize(AddKBigram):
    context_size = -1


class Flat(AddKBigram):
    def next_logprobs(self, state: State) -> LogProbs:
        answer = super().next_logprobs(state)
        return answer[0] if len(answer) == 1 else answer


class AddsStart(AddKBigram):
    """Takes no tokens for a new document."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        return answer, after if tokens_BxL.shape[1] else self.initial_state(len(state))


class IgnoresStrides(AddKBigram):
    """Reads the buffer of a strided array as if it had no gaps."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        if tokens_BxL.base is not None and not tokens_BxL.flags.forc:
            base = tokens_BxL.base
            tokens_BxL = np.ascontiguousarray(base.T if base.ndim == 2 else base).reshape(-1)[: tokens_BxL.size]
            tokens_BxL = tokens_BxL.reshape(len(state), -1)
        return super().logprobs(tokens_BxL, state)


class Scribbles(AddKBigram):
    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer = super().logprobs(tokens_BxL, state)
        if tokens_BxL.flags.writeable and tokens_BxL.size:
            tokens_BxL[0, -1] = 0
        return answer


class Wraps(AddKBigram):
    """Cuts ids to 32 bits before it looks at them, so that 2**32 becomes `<unk>`."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        is_integer = isinstance(tokens_BxL, np.ndarray) and tokens_BxL.dtype == np.int64
        return super().logprobs(tokens_BxL.astype(np.int32) if is_integer else tokens_BxL, state)


class CountsFromEnd(AddKBigram):
    """-1 is its last symbol."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        is_integer = np.issubdtype(tokens_BxL.dtype, np.integer)
        return super().logprobs(
            np.where(tokens_BxL == -1, len(self.vocab) - 1, tokens_BxL) if is_integer else tokens_BxL, state
        )


class Mute(AddKBigram):
    """Refuses bad ids without saying which are good."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        if tokens_BxL.size and np.issubdtype(tokens_BxL.dtype, np.integer) and tokens_BxL.max() >= len(self.vocab):
            raise TokenError(f"bad token {tokens_BxL.max()}")
        return super().logprobs(tokens_BxL, state)


class LooksUpFirst(AddKBigram):
    """Uses ids before it looks at them."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        if np.issubdtype(tokens_BxL.dtype, np.integer):
            self.p_HxV[0][tokens_BxL]
        return super().logprobs(tokens_BxL, state)


class Rounds(AddKBigram):
    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        return super().logprobs(np.asarray(tokens_BxL).astype(np.int64), state)


class Flattens(AddKBigram):
    """Takes a list of ids for a text of one row."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        return super().logprobs(tokens_BxL[None, :] if np.ndim(tokens_BxL) == 1 else tokens_BxL, state)


class Broadcasts(AddKBigram):
    """Uses the state of one row for all."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        is_one = np.ndim(tokens_BxL) == 2 and len(state) == 1
        return super().logprobs(tokens_BxL, np.repeat(state, len(tokens_BxL)) if is_one else state)


# --- probability


class Densities(AddKBigram):
    """Its surest entries are densities, not probabilities: above 1.  At least it says that they are no distribution."""

    is_normalized = False

    def _ln(self, p: npt.NDArray[np.float64]) -> LogProbs:
        return super()._ln(np.where(p == self.p_HxV.max(), 1.5, p))


class NanAfterUnknown(AddKBigram):
    """NaN for what comes after `<unk>`."""

    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        holed = p_HxV.copy()
        holed[0] = np.nan
        super().__init__(vocab, holed)


class Leaks(AddKBigram):
    """Loses a millionth of the mass after `<unk>`, both ways of asking alike."""

    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        leaky = p_HxV.copy()
        leaky[0] *= 1 - 1e-6
        super().__init__(vocab, leaky)


class LeaksInNull(AddKBigram):
    """Loses a millionth of the mass in the null context."""

    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        leaky = p_HxV.copy()
        leaky[-1] *= 1 - 1e-6
        super().__init__(vocab, leaky)


class LeaksWhenLong(AddKBigram):
    """Loses a millionth of the mass after a piece of more than three tokens.  State: the last id, plus H after such."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        n_histories = len(self.p_HxV)
        answer, after = super().logprobs(tokens_BxL, state % n_histories)
        is_long = (state >= n_histories) | (tokens_BxL.shape[1] > 3)
        return np.where(
            (state >= n_histories)[:, None], answer + np.log1p(-1e-6), answer
        ), after + n_histories * is_long

    def next_logprobs(self, state: State) -> LogProbs:
        answer = super().next_logprobs(state % len(self.p_HxV))
        return np.where((state >= len(self.p_HxV))[:, None], answer + np.log1p(-1e-6), answer)


class Optimist(AddKBigram):
    """Claims more for the text it is given than it says beforehand."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        return answer + 1e-3 * (tokens_BxL == 0), after


class StaleDistributions(AddKBigram):
    """`all_logprobs` answers the distribution after each token instead of before it."""

    def all_logprobs(self, tokens_BxL: Tokens, state: State) -> LogProbs:
        return self._ln(self.p_HxV[tokens_BxL])


class Greedy(AddKBigram):
    """Scores a text of two symbols too well; longer and shorter ones right."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        return (answer * 0.9 if tokens_BxL.shape[1:] == (2,) else answer), after


class PredictsStart(AddKBigram):
    """Gives `<s>` a share of the mass."""

    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        shared = p_HxV * 0.9
        shared[:, vocab.bos_id] = 1 - shared.sum(axis=1)
        super().__init__(vocab, shared)


# --- causality, state, batch


class Clairvoyant(AddKBigram):
    """The last token colours all answers before it, by less than any tolerance."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        return answer - 1e-13 * (tokens_BxL[:, -1:] if tokens_BxL.size else 0), after


class SeesPadding(AddKBigram):
    """A text that ends in one symbol over and over is scored as if it were all padding."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        is_padded = tokens_BxL.shape[1] > 20 and bool((tokens_BxL[:, -9:] == tokens_BxL[:, -1:]).all())
        return (answer * 1.5 if is_padded else answer), after


class ColdChunks(AddKBigram):
    """Forgets the history at the start of every piece but the first."""

    context_size = None

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        is_start = (state == self.vocab.bos_id) | (state == len(self.vocab))
        cold = np.where(is_start, state, len(self.vocab)) if np.shape(tokens_BxL)[1:] > (1,) else state
        return super().logprobs(tokens_BxL, cold) if np.size(tokens_BxL) else (np.zeros(tokens_BxL.shape), state)


class LosesItsClass(AddKBigram):
    """Two classes, whether something precedes; of what comes before the piece it knows nothing."""

    n_context_classes = 2

    def context_classes(self, tokens_BxL: Tokens, state: State) -> npt.NDArray[np.int64]:
        n_rows, n_tokens = tokens_BxL.shape
        return np.repeat(np.minimum(np.arange(n_tokens + 1), 1)[None], n_rows, axis=0)


class UncountedClass(AddKBigram):
    """Says two classes and has a third."""

    n_context_classes = 2

    def context_classes(self, tokens_BxL: Tokens, state: State) -> npt.NDArray[np.int64]:
        return np.full((len(tokens_BxL), tokens_BxL.shape[1] + 1), 2)


class WearsOut(AddKBigram):
    """Counts its tokens, and after a thousand of them answers NaN.  State: the last id plus H times their number."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        n_histories = len(self.p_HxV)
        answer, after = super().logprobs(tokens_BxL, state % n_histories)
        n_BxL = (state // n_histories)[:, None] + np.arange(tokens_BxL.shape[1])
        return self._worn(answer, n_BxL), after + n_histories * (state // n_histories + tokens_BxL.shape[1])

    def next_logprobs(self, state: State) -> LogProbs:
        n_histories = len(self.p_HxV)
        return self._worn(super().next_logprobs(state % n_histories), (state // n_histories)[:, None])

    def _worn(self, answer: LogProbs, n_tokens: npt.NDArray[Any]) -> LogProbs:
        return np.where(n_tokens >= 1000, np.nan, answer)


class FadesAway(WearsOut):
    """Loses a little of all probabilities with each token, from the hundredth on."""

    def _worn(self, answer: LogProbs, n_tokens: npt.NDArray[Any]) -> LogProbs:
        return answer - 1e-9 * np.maximum(n_tokens - 100, 0)


class OverwritesState(AddKBigram):
    """Writes the new state into the old one."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        state[:] = after
        return answer, state


class Learns(AddKBigram):
    """Becomes a little surer of all it is asked, though it says that it is not adaptive."""

    n_calls = 0

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        self.n_calls += 1
        answer, after = super().logprobs(tokens_BxL, state)
        return answer * (1 + 1e-12 * self.n_calls), after


class LooksFurther(AddKBigram):
    """Remembers whether the token before the last was odd, though it says that it looks one token back.

    State: the last id plus H where the one before it was odd.
    """

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        n_histories = len(self.p_HxV)
        answer, after = super().logprobs(tokens_BxL, state % n_histories)
        texts_BxL = np.concatenate([(state % n_histories)[:, None], tokens_BxL], axis=1)
        odd_BxL = np.concatenate([(state >= n_histories)[:, None], texts_BxL[:, :-1] % 2 == 1], axis=1)
        before_BxL = odd_BxL[:, :-1]
        sharper = self._sharpened(texts_BxL[:, :-1])
        sharp = np.take_along_axis(sharper, tokens_BxL[:, :, None], axis=2)[:, :, 0]
        return np.where(before_BxL, sharp, answer), after + n_histories * odd_BxL[:, -1]

    def next_logprobs(self, state: State) -> LogProbs:
        history_B = state % len(self.p_HxV)
        is_odd = (state >= len(self.p_HxV))[:, None]
        return np.where(is_odd, self._sharpened(history_B), super().next_logprobs(history_B))

    def _sharpened(self, history: State) -> LogProbs:
        squares = self.p_HxV[history] ** 2
        return self._ln(squares / squares.sum(axis=-1, keepdims=True))


class MixesRows(AddKBigram):
    """The first row's history serves as that of the second."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        if len(tokens_BxL) == 2:
            answer[1] = answer[0]
        return answer, after


class LastRowShort(AddKBigram):
    """In a batch of seven, the last row is scored by its place, not by its text."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        if tokens_BxL.shape == (7, 9):
            answer[-1] *= 1.5
        return answer, after


class SelectsWrongly(AddKBigram):
    def select(self, state: State, rows: npt.ArrayLike) -> State:
        return np.asarray(state[np.sort(np.asarray(rows))])


# --- sampling


class Moody(AddKBigram):
    """Another distribution at every call; a seed of the caller's has no hold on it."""

    n_calls = 0

    def next_logprobs(self, state: State) -> LogProbs:
        self.n_calls += 1
        return super().next_logprobs((state + self.n_calls) % len(self.p_HxV))


class DrawsGlobally(AddKBigram):
    def next_logprobs(self, state: State) -> LogProbs:
        random.random()
        return super().next_logprobs(state)


class Tires(AddKBigram):
    """Right for its first calls, uniform later."""

    n_calls = 0

    def next_logprobs(self, state: State) -> LogProbs:
        self.n_calls += 1
        answer = super().next_logprobs(state)
        if self.n_calls > 60:
            answer = np.where(np.isneginf(answer), answer, -np.log(self.vocab.n_predictable))
        return answer


class Drifts(AddKBigram):
    """A text of many single tokens ends in another state than the same text at once.

    State: the last id plus H for each piece that was scored so far.
    """

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        n_histories = len(self.p_HxV)
        answer, after = super().logprobs(tokens_BxL, state % n_histories)
        return answer, after + (state // n_histories + 1) * n_histories

    def next_logprobs(self, state: State) -> LogProbs:
        n_pieces = state // len(self.p_HxV)
        answer = super().next_logprobs(state % len(self.p_HxV))
        reversed_BxV = np.where(np.isneginf(answer), answer, np.log1p(-np.exp(answer)))
        return np.where((n_pieces == 5)[:, None], reversed_BxV, answer)


# --- persistence


class SavesHalf(AddKBigram):
    """Keeps three digits in its file."""

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {"p": self.p_HxV.astype(np.float16).astype(np.float64)}


class Blank(AddKBigram):
    """Makes a model of nothing when its file holds no arrays."""

    kind = "blank"

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> AddKBigram:
        n_symbols = len(vocab)
        return cls(vocab, arrays.get("p", np.full((n_symbols + 1, n_symbols), 1 / n_symbols)))


# --- accounting


class CountsStart(Vocab):
    """Counts `<s>` among the symbols that can be predicted."""

    @property
    def n_predictable(self) -> int:
        return len(self.tokens)


class MisreadsVocabulary(AddKBigram):
    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        super().__init__(CountsStart.from_header(vocab.to_header()), p_HxV)


class ScoresByBatch(AddKBigram):
    """In batches of four, which only scoring a corpus makes, each token costs less."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        answer, after = super().logprobs(tokens_BxL, state)
        return (answer * 0.99 if len(tokens_BxL) == 4 else answer), after
