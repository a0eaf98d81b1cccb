"""Small models and trainers whose every figure can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Corpus, Policy, Split, corpus_from_texts, encode_split
from lmzoo.interface import Progress
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
    """What comes next depends on everything before it: the state is a number that every token changes."""

    context_size = None  # type: ignore[assignment]

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> npt.NDArray[np.int64]:
        return np.full(batch_size, 1 if bos else 2, np.int64)

    def next_logprobs(self, state: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        logits_BxV = 2.0 * np.sin(0.37 * state[:, None] + 1.7 * np.arange(len(self.vocab))[None, :])
        logits_BxV[:, self.vocab.bos_id] = -np.inf
        return logits_BxV - np.log(np.exp(logits_BxV).sum(axis=1, keepdims=True))

    def logprobs(self, tokens_BxL: npt.NDArray[Any], state: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        logprobs_BxL = np.zeros(tokens_BxL.shape)
        for t in range(tokens_BxL.shape[1]):
            tokens_B = tokens_BxL[:, t].astype(np.int64)
            logprobs_BxL[:, t] = self.next_logprobs(state)[np.arange(len(state)), tokens_B]
            state = (state * 31 + tokens_B + 7) % 1009
        return logprobs_BxL, state


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
