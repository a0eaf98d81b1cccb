"""Checks of training: repeatable, able to learn, undisturbed by scoring, blind to held-out text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lmzoo.conformance.subject import BrokenLawError, NotApplicableError, Subject, checks_of, require
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.driver import Training, budget_for
from lmzoo.evaluation import evaluate
from lmzoo.interface import LanguageModel, Progress
from lmzoo.registry import create_trainer
from lmzoo.spec import Spec, parse_spec

_CYCLE = "abcdefgh"
_TRAIN_LAPS, _HELD_OUT_LAPS = 300, 8
_FEW_STEPS = 4
# a gradient trainer has so many steps to learn the cycle, and is looked at every so often
_MOST_STEPS, _STEPS_BETWEEN_LOOKS = 600, 20


def same_seed_same_model(subject: Subject) -> None:
    """Two trainings from one seed end in the same model, equal to the last bit."""
    corpus = _corpus()
    first, second = (_answers(_trained(subject, corpus), corpus) for _ in range(2))
    require(np.array_equal(first, second), "two trainings with seed 0 gave different models")


def learns_a_cycle(subject: Subject) -> None:
    """Text in which each symbol follows from the one before is learned; a model without context learns its symbols."""
    corpus = _corpus()
    perplexity = wanted = np.inf
    for model in _looks(subject, corpus):
        # without context nothing is better than the number of letters; with any, half of that is easy
        wanted = corpus.vocab.n_predictable if model.context_size == 0 else len(_CYCLE) / 2
        perplexity = float(np.exp(evaluate(model, corpus.test).nats_per_token))
        if perplexity < wanted:
            return
    letters = f"a cycle of {len(_CYCLE)} letters"
    raise BrokenLawError(f"perplexity on {letters} is {perplexity:.4g} after training, below {wanted:g} is wanted")


def scoring_changes_nothing(subject: Subject) -> None:
    """Scoring the model between the steps of its training does not alter what it becomes."""
    corpus = _corpus()
    undisturbed = _answers(_trained(subject, corpus), corpus)
    disturbed = _answers(_trained(subject, corpus, between=lambda model: _answers(model, corpus)), corpus)
    require(np.array_equal(undisturbed, disturbed), "a model that was scored while it was trained became another model")


def vocabulary_from_train_only(subject: Subject) -> None:
    """Symbols that only held-out text has are not in the model's vocabulary, and are counted nowhere."""
    for extra in ("", "xyz" * 9):
        corpus = _corpus(held_out_extra=extra)
        vocab = _trained(subject, corpus).vocab
        surplus = sorted(set(vocab.tokens) - set(_corpus().vocab.tokens))
        require(not surplus, f"the model's vocabulary has {surplus}, which only held-out text has")
        require(
            vocab.fingerprint == corpus.vocab.fingerprint,
            "the model's vocabulary is not that of the corpus it was trained on",
        )
        require(
            np.array_equal(vocab.counts_V, corpus.vocab.counts_V), "the vocabulary's counts are not the training text's"
        )


def _corpus(*, held_out_extra: str = "") -> Corpus:
    held_out = _CYCLE * _HELD_OUT_LAPS + held_out_extra
    return corpus_from_texts({"train": _CYCLE * _TRAIN_LAPS, "valid": held_out, "test": held_out}, name="cycle")


def _spec(subject: Subject) -> Spec:
    if subject.spec is None:
        raise NotApplicableError("no spec was given to train by")
    return parse_spec(subject.spec) if isinstance(subject.spec, str) else subject.spec


def _training(subject: Subject, corpus: Corpus, n_steps: int) -> Training:
    spec = _spec(subject)
    limits = budget_for(spec, max_steps=n_steps)
    return Training(create_trainer(spec, corpus.vocab), corpus, limits, seed=0)


def _trained(
    subject: Subject, corpus: Corpus, *, between: Callable[[LanguageModel[Any]], object] | None = None
) -> LanguageModel[Any]:
    """A model after a few steps; `between` is called with it after each."""
    training = _training(subject, corpus, _FEW_STEPS)
    for _ in _quietly(training):
        if between is not None:
            between(training.trainer.model)
    return training.model


def _quietly(training: Training) -> Iterator[Progress]:
    """The yields of a training, without its warnings: that a text is so short and regular is meant here."""
    steps = training.run()
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            progress = next(steps, None)
        if progress is None:
            return
        yield progress


def _looks(subject: Subject, corpus: Corpus) -> Iterator[LanguageModel[Any]]:
    """The model in training, every few steps and at the end."""
    training = _training(subject, corpus, _MOST_STEPS)
    for i, _ in enumerate(_quietly(training), start=1):
        if i % _STEPS_BETWEEN_LOOKS == 0:
            yield training.trainer.model
    yield training.model


def _answers(model: LanguageModel[Any], corpus: Corpus) -> np.ndarray[Any, np.dtype[Any]]:
    """What a model says of the held-out text and after it."""
    logprobs_1xL, state = model.logprobs(corpus.test.ids_N[None, :], model.initial_state())
    return np.concatenate([np.asarray(logprobs_1xL)[0], np.asarray(model.next_logprobs(state))[0]])


CHECKS = checks_of(
    "training", (same_seed_same_model, learns_a_cycle, scoring_changes_nothing, vocabulary_from_train_only)
)
