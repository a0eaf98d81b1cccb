"""An interpolated bigram (Jelinek and Mercer 1980): p(w | h) = weight * c(h w) / c(h) + (1 - weight) * p(w)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import OptionValueError, TokenError
from lmzoo.interface import Arrays, LogProbs, Progress, Tokens
from lmzoo.registry import ModelEntry
from lmzoo.vocab import Vocab

State = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What can be written behind the colon: `interpolated:weight=0.8`."""

    weight: float = 0.7

    def __post_init__(self) -> None:
        if not 0 <= self.weight < 1:
            raise OptionValueError(f"weight is at least 0 and below 1, got {self.weight}")


class Model:
    """State: the last id of each row, shape (B,); V stands for the null context, after which nothing was ever seen.

    `p_G` is weight * c(h w) / c(h) of the bigram with key h * V + w, `rest_H` what is left for the unigram after h.
    """

    kind = "interpolated"
    context_size, is_normalized, is_adaptive = 1, True, False

    def __init__(self, vocab: Vocab, arrays: Arrays) -> None:
        self.vocab, self.arrays = vocab, arrays
        self.unigram_V, self.rest_H, self.keys_G, self.p_G = (arrays[name] for name in ("unigram", "rest", "keys", "p"))

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> State:
        return np.full(batch_size, self.vocab.bos_id if bos else len(self.vocab), np.int64)

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"{len(tokens_BxL)} rows of tokens, but the state has {len(state)}")
        texts_BxL1 = np.concatenate([state[:, None], tokens_BxL], axis=1)
        histories_BxL = texts_BxL1[:, :-1]
        keys_BxL = histories_BxL * len(self.vocab) + tokens_BxL
        places_BxL = np.searchsorted(self.keys_G[:-1], keys_BxL)
        seen_BxL = np.where(self.keys_G[places_BxL] == keys_BxL, self.p_G[places_BxL], 0.0)
        return _ln(self.rest_H[histories_BxL] * self.unigram_V[tokens_BxL] + seen_BxL), texts_BxL1[:, -1]

    def next_logprobs(self, state: State) -> LogProbs:
        p_BxV = self.rest_H[state][:, None] * self.unigram_V
        for row, history in enumerate(state.tolist()):
            first = history * len(self.vocab)
            seen = slice(*np.searchsorted(self.keys_G, [first, first + len(self.vocab)]))
            p_BxV[row, self.keys_G[seen] - first] += self.p_G[seen]
        return _ln(p_BxV)

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return {}, self.arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> "Model":
        return cls(vocab, arrays)


def _ln(p: npt.NDArray[np.float64]) -> LogProbs:
    with np.errstate(divide="ignore"):  # <s> is never predicted
        return np.log(p)


class Trainer:
    """Counts the training text in one go."""

    model: Model

    def __init__(self, config: Config, vocab: Vocab, device: str) -> None:
        self.config, self.vocab = config, vocab

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        n_symbols = len(self.vocab)
        counts_V = np.bincount(train.ids_N, minlength=n_symbols) + 1.0
        counts_V[self.vocab.bos_id] = 0.0
        histories_N = np.concatenate([[self.vocab.bos_id], train.ids_N[:-1]]).astype(np.int64)
        histories_N[train.starts_D1[:-1][train.lengths_D > 0]] = self.vocab.bos_id
        keys_G, c_G = np.unique(histories_N * n_symbols + train.ids_N, return_counts=True)
        c_H = np.bincount(histories_N, minlength=n_symbols + 1)
        arrays = {
            "unigram": counts_V / counts_V.sum(),
            "rest": np.where(c_H > 0, 1 - self.config.weight, 1.0),
            "keys": keys_G,
            "p": self.config.weight * c_G / c_H[keys_G // n_symbols],
        }
        self.model = Model(self.vocab, arrays)
        yield Progress(tokens=train.n_tokens)


ENTRY = ModelEntry(
    name="interpolated",
    description="a bigram interpolated with a unigram",
    config="interpolated:Config",
    trainer="interpolated:Trainer",
    stored="interpolated:Model",
    family="counting",
)
