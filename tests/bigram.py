"""A right model in a few lines: what the conformance checks pass, and what broken models are made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split, corpus_from_texts
from lmzoo.errors import TokenError
from lmzoo.interface import Arrays, LogProbs, Tokens
from lmzoo.vocab import Vocab

State = npt.NDArray[Any]

TEXT = "the cat sat on the mat\nthe dog ate the cat\na dog sat\nthe mat had a cat\nthe end\n" * 4


class AddKBigram:
    """Half an add-k bigram, half the unigram: `p_HxV[h]` is p(. | h), `p_HxV[-1]` that of the null context.

    State: the last id of each row, shape (B,); V stands for the null context.
    """

    kind = "toy"
    context_size: int | None = 1
    is_normalized = True
    is_adaptive = False

    def __init__(self, vocab: Vocab, p_HxV: npt.NDArray[np.float64]) -> None:
        self.vocab, self.p_HxV = vocab, p_HxV

    @classmethod
    def counted(cls, split: Split, k: float = 0.05) -> AddKBigram:
        """Counted from a text; k is added to every count but that of `<s>`."""
        n_symbols, bos_id = len(split.vocab), split.vocab.bos_id
        counts_HxV = np.full((n_symbols + 1, n_symbols), k)
        for document in split:
            np.add.at(counts_HxV, ([bos_id, *document.ids_L[:-1]], document.ids_L), 1)
        counts_HxV[:, bos_id] = 0
        counts_HxV[-1] = counts_HxV[:-1].sum(axis=0)
        p_HxV = counts_HxV / counts_HxV.sum(axis=1, keepdims=True)
        return cls(split.vocab, (p_HxV + p_HxV[-1]) / 2)

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> State:
        return np.full(batch_size, self.vocab.bos_id if bos else len(self.vocab))

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"{len(tokens_BxL)} rows of tokens, but the state has {len(state)}")
        history_BxL1 = np.concatenate([state[:, None], tokens_BxL], axis=1)
        return self._ln(self.p_HxV[history_BxL1[:, :-1], tokens_BxL]), history_BxL1[:, -1]

    def next_logprobs(self, state: State) -> LogProbs:
        return self._ln(self.p_HxV[state])

    def _ln(self, p: npt.NDArray[np.float64]) -> LogProbs:
        with np.errstate(divide="ignore"):
            return np.log(p)

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {"p": self.p_HxV}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> AddKBigram:
        return cls(vocab, arrays["p"])


def toy_split() -> Split:
    """The text that the toys count: 17 symbols, documents with an end."""
    return corpus_from_texts({"whole": TEXT}, tokens="char", documents="line").train
