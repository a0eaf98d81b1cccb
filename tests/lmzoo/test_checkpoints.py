"""Checkpoints: which training a file is of, when it is written, and whose time that takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo import checkpoints, driver, registry, storage
from lmzoo.budget import Budget, Stopwatch
from lmzoo.checkpoints import Checkpoint
from lmzoo.driver import LastingTraining, train
from lmzoo.errors import (
    CorruptFileError,
    ForeignFileError,
    InputError,
    NewerFileError,
    SpecError,
    StoppedError,
    StorageError,
    TrainingMismatchError,
)
from lmzoo.interface import Progress

from .toy import Clock, FixedModel, ScriptedTrainer, corpus_of

CORPUS = corpus_of("a" * 20, "aaaa")
IDENTITY = {"model": "toy", "lr": 0.5, "seed": 0, "budget of seconds": None}


@pytest.fixture(autouse=True)
def _toy_kind(monkeypatch):
    monkeypatch.setitem(registry.STORED_KINDS, "toy", f"{FixedModel.__module__}:FixedModel")


class LastingTrainer(ScriptedTrainer):
    """One that goes on with the probabilities it had not come to."""

    n_done = 0

    def steps(self, train, valid, rng, budget) -> Iterator[Progress]:
        skipped = self.n_done
        self.symbol_probabilities = self.symbol_probabilities[skipped:]
        for progress in super().steps(train, valid, rng, Budget()):
            self.n_done = skipped + progress.steps
            budget.note(steps_done=self.n_done, epochs_done=self.n_done / 7)
            yield Progress(tokens=10 * self.n_done, steps=self.n_done, loss_nats=progress.loss_nats)
            if budget.is_spent:
                return

    def checkpoint(self) -> tuple[dict[str, Any], Mapping[str, Any]]:
        return {"n_done": self.n_done}, {"p": self.model.logprobs_V}

    def resume(self, facts, arrays) -> None:
        self.n_done = facts["n_done"]
        self.model.logprobs_V = np.array(arrays["p"])


def lasting(path, probabilities, *, every_s=math.inf, stop=lambda: False, **limits):
    """A training on a clock that only its steps move, one second each."""
    clock = Clock()
    trainer = LastingTrainer(CORPUS.vocab, clock, probabilities, 1.0)
    budget = Budget(watch=Stopwatch(clock), **limits)
    return LastingTraining(trainer, CORPUS, budget, path=path, identity=IDENTITY, every_s=every_s, stop=stop), clock


def stop_at(step):
    """What asks a training to stop after a step."""
    asked = iter(range(1, step + 1))
    return lambda: next(asked) == step


class TestWhen:
    @pytest.mark.parametrize(("every_s", "wanted"), [(0, [1, 2, 3, 4, 5, 6, 7, 7]), (2.5, [3, 6, 7]), (100, [7])])
    def test_after_so_many_seconds_and_at_the_end(self, tmp_path, monkeypatch, every_s, wanted):
        written = []
        monkeypatch.setattr(checkpoints, "write", lambda checkpoint, path: written.append(checkpoint.facts["steps"]))
        training, _ = lasting(tmp_path / "x", [0.5] * 7, every_s=every_s, steps=7)
        list(training.run())
        assert written == wanted

    def test_writing_is_not_charged(self, tmp_path, monkeypatch):
        training, clock = lasting(tmp_path / "x", [0.5] * 5, every_s=0, seconds=5.0)

        def slow(checkpoint, path):
            clock.now_s += 1000.0

        monkeypatch.setattr(checkpoints, "write", slow)
        list(training)
        assert training.progress.steps == 5
        assert training.budget.watch.elapsed_s == 5.0

    def test_a_stop_writes_one_and_ends_it(self, tmp_path):
        training, _ = lasting(tmp_path / "x", [0.5] * 9, stop=stop_at(4), steps=9)
        with pytest.raises(StoppedError, match=r"stopped after step 4; .*x goes on from there") as caught:
            list(training.run())
        assert caught.value.step == 4
        assert checkpoints.read(tmp_path / "x").facts["steps"] == 4


class TestGoingOn:
    PROBABILITIES = (0.3, 0.9, 0.6, 0.5, 0.4, 0.2)

    def after(self, path, n_steps, **limits):
        """A training that was stopped after some steps and goes on."""
        first, _ = lasting(path, list(self.PROBABILITIES), stop=stop_at(n_steps), **limits)
        with pytest.raises(StoppedError):
            list(first)
        second, _ = lasting(path, list(self.PROBABILITIES), **limits)
        second.resume()
        return second

    @pytest.mark.parametrize("n_steps", range(1, 7))
    def test_the_clock_goes_on_and_the_budget_is_one(self, tmp_path, n_steps):
        training = self.after(tmp_path / "x", n_steps, seconds=6.0)
        assert training.budget.watch.elapsed_s == n_steps
        assert (training.budget.steps_done, training.budget.epochs_done) == (n_steps, n_steps / 7)
        list(training)
        assert training.budget.watch.elapsed_s == 6.0
        assert training.progress.tokens == 60

    @pytest.mark.parametrize("n_steps", range(1, 7))
    def test_the_best_weights_are_kept_across_the_end(self, tmp_path, n_steps):
        training = self.after(tmp_path / "x", n_steps, seconds=6.0)
        list(training)
        # validated after each step; when it is stopped the step that was just done is not yet
        wanted = max(p for step, p in enumerate(self.PROBABILITIES, 1) if step != n_steps or n_steps == 6)
        assert math.exp(training.model.logprobs_V[CORPUS.vocab.token_to_id["a"]]) == pytest.approx(wanted)

    def test_validations_go_on_where_they_were(self, tmp_path):
        training = self.after(tmp_path / "x", 5, steps=6)
        # the mark after 4 s lies below 5 s: the fifth step is validated as soon as there is another
        assert [v.train_s for v in training] == [6.0]


class TestWhose:
    def written(self, path, **changes):
        checkpoints.write(Checkpoint(identity={**IDENTITY, **changes}, facts={}, arrays={}), path)
        return checkpoints.read(path)

    def test_the_same_is_gone_on_with(self, tmp_path):
        assert checkpoints.require_same(self.written(tmp_path / "x"), IDENTITY, tmp_path / "x") is None

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"lr": 0.25}, "x is of a training with lr 0.25, this one has 0.5; give what it was started with"),
            ({"seed": 3}, "a training with seed 3, this one has 0"),
            ({"model": "mlp"}, "a training with model mlp, this one has toy"),
            ({"budget of seconds": 9.0}, "a training with budget of seconds 9.0, this one has none"),
            ({"extra": 1}, "a training with extra 1, this one has none"),
        ],
    )
    def test_another_is_named(self, tmp_path, changes, message):
        with pytest.raises(TrainingMismatchError, match=message):
            checkpoints.require_same(self.written(tmp_path / "x", **changes), IDENTITY, tmp_path / "x")

    def test_one_that_lacks_an_item_is_another(self, tmp_path):
        without = {name: value for name, value in IDENTITY.items() if name != "lr"}
        with pytest.raises(TrainingMismatchError, match=r"with lr 0\.5, this one has none"):
            checkpoints.require_same(self.written(tmp_path / "x"), without, tmp_path / "x")


@pytest.mark.torch
class TestTrain:
    SPEC = "rnn-scratch:hidden=4,batch_size=2,num_steps=3"
    TEXT = "abcd" * 20

    def checkpoint(self, path, **options):
        train(self.SPEC, corpus_of(self.TEXT, "abc"), max_steps=3, checkpoint=path, **options)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"spec": SPEC + ",lr=0.5"}, "lr 0.004, this one has 0.5"),
            ({"spec": SPEC.replace("rnn", "gru")}, "model rnn-scratch, this one has gru-scratch"),
            ({"seed": 1}, "seed 0, this one has 1"),
            ({"max_steps": 4}, "budget of steps 3, this one has 4"),
            ({"corpus": corpus_of("abcd" * 21, "abc")}, "corpus sha256"),
            ({"corpus": corpus_of(TEXT, "abd")}, "corpus sha256"),
            ({"corpus": corpus_of(TEXT, "abc", documents="paragraph")}, "vocabulary|documents"),
        ],
    )
    def test_any_other_training_is_refused(self, tmp_path, change, message):
        path = tmp_path / "x"
        self.checkpoint(path)
        given = {"spec": self.SPEC, "corpus": corpus_of(self.TEXT, "abc"), "max_steps": 3, **change}
        before = path.read_bytes()
        with pytest.raises(TrainingMismatchError, match=message) as caught:
            train(given.pop("spec"), given.pop("corpus"), checkpoint=path, resume=True, **given)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == before

    def test_a_file_that_is_there_is_lost_only_on_request(self, tmp_path):
        path = tmp_path / "x"
        self.checkpoint(path, resume=True)  # where it is not there, that is a start
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"x is there already; go on from it with resume=True \(--resume\)"):
            self.checkpoint(path)
        assert path.read_bytes() == before

    def test_damage_is_noticed(self, tmp_path):
        path = tmp_path / "x"
        self.checkpoint(path)
        whole = path.read_bytes()
        cases = {
            CorruptFileError: [whole[:-9], whole[:40], whole[:4], whole[:-50] + b"x" + whole[-49:]],
            ForeignFileError: [b"", b"x" * 99, storage.to_bytes(FixedModel(CORPUS.vocab, {"a": 1.0}))],
            NewerFileError: [whole.replace(b'"format": 1', b'"format": 2', 1)],
        }
        for error, contents in cases.items():
            for content in contents:
                path.write_bytes(content)
                with pytest.raises(error, match="x "):
                    self.checkpoint(path, resume=True)
                assert path.read_bytes() == content

    def test_it_is_no_model(self, tmp_path):
        self.checkpoint(tmp_path / "x")
        with pytest.raises(ForeignFileError, match="it is a checkpoint: finish its training with --resume"):
            lmzoo.load(tmp_path / "x")

    def test_a_place_that_cannot_be_written_is_named_before_any_work(self, tmp_path, monkeypatch):
        monkeypatch.setattr(driver, "create_trainer", None)
        with pytest.raises(StorageError, match="cannot write"):
            self.checkpoint(tmp_path / "none" / "x")

    def test_a_folder_is_no_checkpoint(self, tmp_path):
        with pytest.raises(StorageError, match="no regular file"):
            self.checkpoint(tmp_path, resume=True)


class TestOptions:
    @pytest.mark.parametrize("option", [{"resume": True}, {"checkpoint_every": 3.0}, {"stop": bool}])
    def test_they_are_about_a_checkpoint(self, option):
        (name,) = option
        with pytest.raises(InputError, match=f"{name} is about a checkpoint, and none is given"):
            train("rnn-scratch", CORPUS, **option)

    @pytest.mark.parametrize("every_s", [-1.0, math.nan])
    def test_seconds_are_not_negative(self, tmp_path, every_s):
        with pytest.raises(InputError, match="checkpoint_every must be at least 0 seconds"):
            train("rnn-scratch", CORPUS, checkpoint=tmp_path / "x", checkpoint_every=every_s)

    def test_a_counting_model_has_none(self, tmp_path):
        with pytest.raises(SpecError, match="trigram counts its text once and has no checkpoints"):
            train("trigram", CORPUS, checkpoint=tmp_path / "x")

    @pytest.mark.torch
    def test_nor_has_a_mixture(self, tmp_path):
        with pytest.raises(SpecError, match="mixture has no checkpoints: they are for networks trained by themselves"):
            train("mixture:unigram+mlp", CORPUS, checkpoint=tmp_path / "x")
