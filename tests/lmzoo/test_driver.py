"""Training: whose time is charged, when validation is due, which weights are kept."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo import driver, registry
from lmzoo.budget import Budget, Stopwatch
from lmzoo.driver import Training, budget_for, next_validation_s, train
from lmzoo.errors import CorpusError, DivergedError, InputError, SpecError, UnknownModelError
from lmzoo.spec import parse_spec

from .toy import Clock, FixedModel, ScriptedTrainer, corpus_of

CORPUS = corpus_of("a" * 20, "aaaa")


@pytest.fixture(autouse=True)
def _toy_kind(monkeypatch):
    monkeypatch.setitem(registry.STORED_KINDS, "toy", f"{FixedModel.__module__}:FixedModel")


def scripted(probabilities, *, step_s=1.0, corpus=CORPUS, **limits):
    """A training on a clock that only its steps move, and the clock."""
    clock = Clock()
    trainer = ScriptedTrainer(corpus.vocab, clock, probabilities, step_s)
    return Training(trainer, corpus, Budget(watch=Stopwatch(clock), **limits)), clock


class TestClock:
    def test_validation_is_not_charged(self, monkeypatch):
        training, clock = scripted([0.5] * 16, seconds=16.0)
        evaluate = driver.evaluate

        def slow_evaluate(*args, **kwargs):
            clock.now_s += 1000.0
            return evaluate(*args, **kwargs)

        monkeypatch.setattr(driver, "evaluate", slow_evaluate)
        validations = list(training)
        assert training.budget.watch.elapsed_s == 16.0
        # marks from 4 s on: 4.76 5.66 6.73 8 9.51 11.3 13.5 16
        assert [c.train_s for c in validations] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]
        assert clock.now_s == 16.0 + 1000.0 * len(validations)

    def test_what_the_caller_does_between_validations_is_not_charged(self):
        training, clock = scripted([0.5] * 4, seconds=4.0)
        for _ in training:
            clock.now_s += 50.0
        assert training.budget.watch.elapsed_s == 4.0

    def test_training_is_charged(self):
        slow, _ = scripted([0.5] * 4, step_s=3.0, seconds=100.0)
        assert list(slow)[-1].train_s == 12.0

    def test_the_budget_ends_it(self):
        training, _ = scripted([0.5] * 100, seconds=5.5)
        list(training)
        assert training.progress.steps == 6  # the first step that ends at or after 5.5 s
        training, _ = scripted([0.5] * 100, steps=3)
        list(training)
        assert training.progress.tokens == 30


class TestSchedule:
    def test_it_doubles_every_four(self):
        due_s, schedule = 0.0, []
        for _ in range(9):
            due_s = next_validation_s(due_s)
            schedule.append(due_s)
        assert schedule == pytest.approx([0.25 * 2 ** (k / 4) for k in range(9)])
        assert schedule[4] == pytest.approx(0.5)

    @given(st.floats(0, 1e7))
    def test_it_is_the_next_mark(self, elapsed_s):
        due_s = next_validation_s(elapsed_s)
        k = 4 * math.log2(due_s / 0.25)
        assert k == pytest.approx(round(k), abs=1e-6)
        assert due_s > elapsed_s
        assert due_s == 0.25 or due_s / 2 ** (1 / 4) <= elapsed_s * (1 + 1e-9)

    @given(st.integers(0, 100))
    def test_behind_a_mark_comes_the_next_one(self, k):
        assert next_validation_s(0.25 * 2.0 ** (k / 4)) == pytest.approx(0.25 * 2 ** ((k + 1) / 4), rel=1e-9)

    def test_the_first_yield_at_or_after_a_mark_is_validated(self):
        # steps of 0.2 s; marks 0.25 0.30 0.35 0.42 0.5 0.59 0.71 0.84 1 1.19: each yield from 0.4 on has passed one
        training, _ = scripted([0.5] * 6, step_s=0.2, seconds=1.2)
        validations = list(training)
        assert [c.train_s for c in validations] == pytest.approx([0.4, 0.6, 0.8, 1.0, 1.2])
        assert [c.is_last for c in validations] == [False] * 4 + [True]
        assert [c.train_tokens for c in validations] == [20, 30, 40, 50, 60]

    def test_marks_grow_apart(self):
        training, _ = scripted([0.5] * 400, step_s=0.1, seconds=40.0)
        n_marks = 4 * math.log2(40.0 / 0.25)
        assert len(list(training)) <= n_marks + 2

    def test_without_limits_only_the_end_is_validated(self):
        training, _ = scripted([0.5] * 100)
        assert [c.is_last for c in training] == [True]

    def test_only_the_head_of_the_validation_text_is_scored(self):
        corpus = corpus_of("a" * 20, "a" * 100_500)
        training, _ = scripted([0.5], corpus=corpus)
        assert next(iter(training)).valid.n_tokens == 100_000


class TestKept:
    def p_of(self, training):
        return math.exp(training.model.logprobs_V[CORPUS.vocab.token_to_id["a"]])

    def test_the_best_weights_under_a_budget_of_seconds(self):
        training, _ = scripted([0.3, 0.9, 0.6, 0.2], seconds=4.0)
        assert [c.perplexity for c in training] == pytest.approx([1 / 0.3, 1 / 0.9, 1 / 0.6, 1 / 0.2])
        assert self.p_of(training) == pytest.approx(0.9)

    def test_the_last_weights_where_they_are_the_best(self):
        training, _ = scripted([0.3, 0.6, 0.9], seconds=3.0)
        list(training)
        assert training.model is training.trainer.model
        assert self.p_of(training) == pytest.approx(0.9)

    @pytest.mark.parametrize(("adaptive_from", "kept"), [(0.6, 0.6), (0.3, 0.9), (2.0, 0.9)])
    def test_a_plain_model_never_takes_the_place_of_one_that_becomes_adaptive(self, adaptive_from, kept):
        """Whether it was better or not; among adaptive ones the best is kept, as among plain ones."""
        script = [0.3, 0.9, 0.6]
        training, _ = scripted(script, seconds=3.0)

        def model_of(p):
            model = FixedModel(CORPUS.vocab, {"a": p})
            model.is_adaptive = adaptive_from in script[: script.index(p) + 1]
            return model

        training.trainer._model = model_of
        list(training)
        assert self.p_of(training) == pytest.approx(kept)

    def test_the_best_weights_go_back_to_the_device_they_were_trained_on(self, monkeypatch):
        moved = []
        monkeypatch.setattr(FixedModel, "device", "cuda:1", raising=False)
        monkeypatch.setattr(FixedModel, "move_to", lambda self, device: moved.append((self, device)), raising=False)
        training, _ = scripted([0.9, 0.6], seconds=2.0)
        list(training)
        model = training.model
        assert model is not training.trainer.model
        assert moved == [(model, "cuda:1")]

    @pytest.mark.parametrize("limit", [{"steps": 4}, {"epochs": 1}, {}])
    def test_the_last_weights_otherwise(self, limit):
        training, _ = scripted([0.3, 0.9, 0.6, 0.2], **limit)
        list(training)
        assert self.p_of(training) == pytest.approx(0.2)

    @pytest.mark.parametrize("value", [np.nan, -np.inf, -1e4])
    def test_no_number_is_never_the_best_but_the_end(self, monkeypatch, value):
        """exp(1e4) is no number either."""
        training, _ = scripted([0.3, 0.9, 0.6], seconds=3.0)
        iterator = iter(training)
        next(iterator)
        evaluate = driver.evaluate
        broken = FixedModel(CORPUS.vocab, {"a": 1.0})
        broken.logprobs_V[:] = value
        monkeypatch.setattr(driver, "evaluate", lambda model, split: evaluate(broken, split))
        with pytest.raises(DivergedError, match="diverged at step 2") as caught:
            next(iterator)
        assert math.exp(caught.value.model.logprobs_V[CORPUS.vocab.token_to_id["a"]]) == pytest.approx(0.3)
        assert self.p_of(training) == pytest.approx(0.3)

    def test_scores_that_are_no_distribution_count_as_infinite(self):
        training, _ = scripted([0.3, 0.9], seconds=2.0)
        training.trainer._model = lambda p: unnormalized(p)

        def unnormalized(p):
            model = FixedModel(CORPUS.vocab, {"a": p})
            model.is_normalized = False
            return model

        assert [c.perplexity for c in training] == [math.inf, math.inf]


class TestSeed:
    def test_it_is_the_trainers_generator(self):
        draws = []
        for seed in (3, 3, 4):
            clock = Clock()
            trainer = ScriptedTrainer(CORPUS.vocab, clock, [0.5] * 5, 1.0)
            list(Training(trainer, CORPUS, Budget(steps=5, watch=Stopwatch(clock)), seed=seed))
            draws.append(trainer.draws)
        assert draws[0] == draws[1]
        assert draws[0] != draws[2]

    def test_it_is_not_negative(self):
        with pytest.raises(InputError, match="seed must be at least 0, got -1"):
            train("bigram", CORPUS, seed=-1)


class TestBudgets:
    def test_neural_models_have_a_default_of_15_seconds(self):
        budget = budget_for(parse_spec("lstm-scratch"))
        assert (budget.seconds, budget.steps, budget.epochs) == (15.0, None, None)

    def test_a_given_limit_replaces_it(self):
        budget = budget_for(parse_spec("lstm-scratch"), max_steps=7)
        assert (budget.seconds, budget.steps, budget.epochs) == (None, 7, None)
        budget = budget_for(parse_spec("lstm-scratch"), seconds=2.0, epochs=1.5)
        assert (budget.seconds, budget.steps, budget.epochs) == (2.0, None, 1.5)

    def test_a_counting_model_counts_once_whatever_they_are(self):
        budget = budget_for(parse_spec("trigram"), seconds=1e-9, max_steps=1)
        assert (budget.seconds, budget.steps, budget.epochs) == (None, None, None)

    @pytest.mark.parametrize("spec", ["trigram", "lstm-scratch"])
    def test_an_impossible_limit_is_refused_for_every_model(self, spec):
        with pytest.raises(InputError, match="seconds of a budget must be above 0, got 0"):
            budget_for(parse_spec(spec), seconds=0)
        with pytest.raises(InputError, match="got nan"):
            budget_for(parse_spec(spec), epochs=math.nan)


class TestTrain:
    @pytest.mark.filterwarnings("ignore:order")  # a text as small as this one has no discounts of its own
    def test_a_model_of_the_training_text(self):
        corpus = corpus_of("abababab" * 10, "abab")
        model = train("bigram", corpus)
        assert model.vocab is corpus.vocab
        assert lmzoo.evaluate(model, corpus.test).perplexity < 2.0
        assert lmzoo.top_k(model, "a", 1)[0].token == "b"

    def test_the_test_text_is_never_looked_at(self):
        class NeverLookedAt:
            def __getattribute__(self, name):
                raise AssertionError(f"training asked the test text for its {name}")

        sealed = dataclasses.replace(CORPUS, test=NeverLookedAt())
        assert train("unigram", sealed).vocab is CORPUS.vocab
        assert list(scripted([0.5] * 8, seconds=8.0, corpus=sealed)[0])

    def test_what_is_no_spec_or_no_corpus_is_named(self):
        with pytest.raises(SpecError, match="a spec is text such as 'trigram', got int"):
            train(3, CORPUS)
        with pytest.raises(CorpusError, match="a model is trained on a Corpus, got str; make one with load_corpus"):
            train("trigram", "genesis")
        with pytest.raises(UnknownModelError):
            train("trigrm", CORPUS)
