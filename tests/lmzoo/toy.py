"""Small models and trainers whose every figure can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Corpus, Split, corpus_from_texts, encode_split
from lmzoo.interface import Progress
from lmzoo.parts import Policy
from lmzoo.vocab import Vocab, build_vocab


class UniformModel:
    """Every predictable symbol is as likely as any other, whatever came before.  The state counts the tokens read."""

    context_size = 0
    is_normalized = True
    is_adaptive = False

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> npt.NDArray[np.int64]:
        return np.zeros(batch_size, np.int64)

    def logprobs(self, tokens_BxL: npt.NDArray[Any], state: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        return np.full(tokens_BxL.shape, -math.log(self.vocab.n_predictable)), state + tokens_BxL.shape[1]

    def next_logprobs(self, state: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        logprobs_BxV = np.full((len(state), len(self.vocab)), -math.log(self.vocab.n_predictable))
        logprobs_BxV[:, self.vocab.bos_id] = -np.inf
        return logprobs_BxV


class HistoryModel(UniformModel):
    """What comes next depends on every token before it and on its place.  The state: how many there were, their sum."""

    context_size = None
    _N_STATES = 211

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab)
        logits_SxV = 2.0 * np.sin(0.37 * np.arange(self._N_STATES)[:, None] + 1.7 * np.arange(len(vocab))[None, :])
        logits_SxV[:, vocab.bos_id] = -np.inf
        self._logprobs_SxV = logits_SxV - np.log(np.exp(logits_SxV).sum(axis=1, keepdims=True))

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> npt.NDArray[np.int64]:
        return np.tile(np.array([0, 1 if bos else 2]), (batch_size, 1))

    def next_logprobs(self, state: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return self._logprobs_SxV[state[:, 1] % self._N_STATES]

    def logprobs(self, tokens_BxL: npt.NDArray[Any], state: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        places_BxL = state[:, :1] + np.arange(tokens_BxL.shape[1])
        terms_BxL = (tokens_BxL.astype(np.int64) + 7) * (places_BxL % 13 + 1)
        sums_BxL = state[:, 1:] + np.cumsum(terms_BxL, axis=1)
        before_BxL = (sums_BxL - terms_BxL) % self._N_STATES
        last = np.stack([state[:, 0] + tokens_BxL.shape[1], state[:, 1] + terms_BxL.sum(axis=1)], axis=1)
        return self._logprobs_SxV[before_BxL, tokens_BxL], last


class FixedModel(UniformModel):
    """The same given probability for a symbol, whatever came before; 0 where none is given.  Can be saved."""

    kind = "toy"

    def __init__(self, vocab: Vocab, probabilities: Mapping[str, float]) -> None:
        super().__init__(vocab)
        self.probabilities = dict(probabilities)
        p_V = np.array([probabilities.get(token, 0.0) for token in vocab.tokens])
        with np.errstate(divide="ignore"):
            self.logprobs_V = np.log(p_V)

    def logprobs(self, tokens_BxL: npt.NDArray[Any], state: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        return self.logprobs_V[tokens_BxL], state + tokens_BxL.shape[1]

    def next_logprobs(self, state: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.tile(self.logprobs_V, (len(state), 1))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        return {"probabilities": self.probabilities}, {"logprobs_V": self.logprobs_V, "empty": np.zeros((0, 3))}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> FixedModel:
        model = cls(vocab, options["probabilities"])
        model.logprobs_V = arrays["logprobs_V"]
        return model


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class ScriptedTrainer:
    """One step of `step_s` seconds for each probability given: after step i the model gives `a` the i-th of them."""

    def __init__(self, vocab: Vocab, clock: Clock, symbol_probabilities: list[float], step_s: float) -> None:
        self.vocab = vocab
        self.clock = clock
        self.symbol_probabilities = symbol_probabilities
        self.step_s = step_s
        self.model = self._model(0.5)
        self.draws: list[float] = []

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        for step, p in enumerate(self.symbol_probabilities, start=1):
            self.clock.now_s += self.step_s
            self.draws.append(rng.random())
            self.model = self._model(p)
            budget.note(steps_done=step, epochs_done=0.0)
            yield Progress(tokens=10 * step, steps=step, loss_nats=-math.log(p))
            if budget.is_spent:
                return

    def _model(self, p: float) -> FixedModel:
        return FixedModel(self.vocab, {"a": p, "<unk>": 1.0 - p})


def split_of(text: str, *, documents: Policy = "file", tokens: str = "char", vocab: Vocab | None = None) -> Split:
    """A text as a split under its own vocabulary, one segment a line unless a file is one document."""
    segments = [text] if documents == "file" else text.removesuffix("\n").split("\n")
    if vocab is None:
        vocab = build_vocab(segments, tokenizer=tokens, has_eos=documents != "file")
    return encode_split("test", segments, vocab, documents)


def corpus_of(train: str, test: str, **options: Any) -> Corpus:
    """A corpus whose validation text is its test text."""
    return corpus_from_texts({"train": train, "valid": test, "test": test}, **options)
