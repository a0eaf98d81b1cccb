"""Training within a budget: the clock, the schedule of validations, and which weights are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmzoo import storage
from lmzoo.budget import Budget
from lmzoo.corpus import Corpus
from lmzoo.errors import CorpusError, InputError, SpecError
from lmzoo.evaluation import evaluate
from lmzoo.interface import LanguageModel, Progress, Storable, Trainer
from lmzoo.registry import create_trainer, family_of
from lmzoo.spec import Spec, parse_spec
from lmzoo.tally import Tally

# validation is scored on its first so many tokens, at the first yield at or after 0.25 s x 2^(k/4)
VALIDATION_TOKENS = 100_000
_FIRST_VALIDATION_S = 0.25
_VALIDATIONS_PER_DOUBLING = 4

DEFAULT_NEURAL_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One scheduled validation: training seconds and tokens so far, and the Tally of the validation head."""

    train_s: float
    train_tokens: int
    valid: Tally
    is_last: bool

    @property
    def perplexity(self) -> float:
        return self.valid.perplexity if self.valid.is_normalized else math.inf


class Training:
    """One training, driven: iterate over its validations, then take `model`.

    Under a budget of seconds the weights of the best validation are kept, otherwise the last ones.  The watch of the
    budget runs only inside the trainer.
    """

    def __init__(self, trainer: Trainer, corpus: Corpus, budget: Budget, *, seed: int = 0) -> None:
        if seed < 0:
            raise InputError(f"seed must be at least 0, got {seed}")
        self.trainer = trainer
        self.budget = budget
        self.progress = Progress(tokens=0)
        self.validations: list[Validation] = []
        self._corpus = corpus
        self._valid_head = corpus.valid.head(VALIDATION_TOKENS)
        self._rng = np.random.default_rng(seed)
        self._best: tuple[float, bytes | None] = (math.inf, None)

    def __iter__(self) -> Iterator[Validation]:
        """Train to the end of the budget, yielding at each scheduled validation; the clock is paused meanwhile."""
        for progress in self.run():
            if self._is_due(progress):
                yield self._validate(is_last=False)
        yield self._validate(is_last=True)

    def run(self) -> Iterator[Progress]:
        """The trainer's own yields, timed."""
        watch = self.budget.watch
        steps = self.trainer.steps(self._corpus.train, self._corpus.valid, self._rng, self.budget)
        while True:
            with watch.running():
                progress = next(steps, None)
            if progress is None:
                return
            self.progress = progress
            yield progress

    @property
    def model(self) -> LanguageModel[Any]:
        """The model whose weights are kept."""
        _, kept = self._best
        return self.trainer.model if kept is None else storage.from_bytes(kept, "the best validation")

    def _is_due(self, progress: Progress) -> bool:
        if self.budget.seconds is None and self.budget.steps is None and self.budget.epochs is None:
            return False  # a counting model is validated once, at its end
        if self.budget.is_spent:
            return False  # the last validation is about to follow
        last_s = self.validations[-1].train_s if self.validations else 0.0
        return self.budget.watch.elapsed_s >= next_validation_s(last_s)

    def _validate(self, *, is_last: bool) -> Validation:
        validation = Validation(
            train_s=self.budget.watch.elapsed_s,
            train_tokens=self.progress.tokens,
            valid=evaluate(self.trainer.model, self._valid_head),
            is_last=is_last,
        )
        self.validations.append(validation)
        if self.budget.seconds is not None and isinstance(self.trainer.model, Storable):
            self._keep_best(validation)
        return validation

    def _keep_best(self, validation: Validation) -> None:
        if validation.perplexity <= self._best[0]:
            # the last weights need no copy: the trainer itself still holds them
            kept = None if validation.is_last else storage.to_bytes(self.trainer.model)
            self._best = (validation.perplexity, kept)


def next_validation_s(elapsed_s: float) -> float:
    """The first scheduled validation after `elapsed_s`: the least 0.25 s x 2^(k/4) above it."""
    if elapsed_s < _FIRST_VALIDATION_S:
        return _FIRST_VALIDATION_S
    # a hair more, so that rounding never gives the mark that was just reached once again
    place = _VALIDATIONS_PER_DOUBLING * math.log2(elapsed_s / _FIRST_VALIDATION_S) + 1e-9
    due_s: float = _FIRST_VALIDATION_S * 2.0 ** ((math.floor(place) + 1) / _VALIDATIONS_PER_DOUBLING)
    return due_s


def budget_for(
    spec: Spec, *, seconds: float | None = None, epochs: float | None = None, max_steps: int | None = None
) -> Budget:
    """The budget of a spec: the limits given, or the model's default where none is (15 s for neural models).

    A counting model counts its text once, whatever the limits.
    """
    given = Budget(seconds=seconds, epochs=epochs, steps=max_steps)
    if family_of(spec) == "counting":
        return Budget()
    if seconds is None and epochs is None and max_steps is None:
        return Budget(seconds=DEFAULT_NEURAL_SECONDS)
    return given


def train(
    spec: Spec | str,
    corpus: Corpus,
    *,
    seed: int = 0,
    budget: float | None = None,
    epochs: float | None = None,
    max_steps: int | None = None,
    device: str = "cpu",
) -> LanguageModel[Any]:
    """Train a model by its spec on `corpus.train`.

    Args:
        spec: such as `"trigram"` or `"lstm-scratch:hidden=512"`.
        budget: seconds of training; with `epochs` and `max_steps`, whichever comes first.  None of them: the default.

    Raises `SpecError`, `UnavailableError`, `DivergedError`.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    if not isinstance(spec, Spec):
        raise SpecError(f"a spec is text such as 'trigram', got {type(spec).__name__}")
    if not isinstance(corpus, Corpus):
        raise CorpusError(f"a model is trained on a Corpus, got {type(corpus).__name__}; make one with load_corpus")
    limits = budget_for(spec, seconds=budget, epochs=epochs, max_steps=max_steps)
    training = Training(create_trainer(spec, corpus.vocab, device=device), corpus, limits, seed=seed)
    for _ in training if limits.seconds is not None else training.run():
        pass
    return training.model
