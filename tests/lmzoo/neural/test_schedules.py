"""Under a budget of seconds it is the machine that decides at which step a schedule changes; the budget is told."""

from __future__ import annotations

import numpy as np
import pytest

import lmzoo
from lmzoo.budget import Budget, Change, Stopwatch
from lmzoo.corpus import Corpus
from lmzoo.registry import create_trainer
from tests.lmzoo.toy import Clock

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SMALL = "hidden=4,batch_size=4,num_steps=6"
STEP_S = 0.125


@pytest.fixture
def corpus() -> Corpus:
    return lmzoo.corpus_from_texts({"train": "abcd" * 60, "valid": "abcdabcd", "test": "abcd"}, tokens="char")


def changes(spec: str, corpus: Corpus, **limits: float) -> list[Change]:
    """What a budget is told of by a training each step of which takes an eighth of a second."""
    clock = Clock()
    budget = Budget(watch=Stopwatch(clock), **limits)  # type: ignore[arg-type]
    trainer = create_trainer(spec, corpus.vocab)
    with budget.watch.running():
        for _ in trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget):
            clock.now_s += STEP_S
    return budget.changes


@pytest.mark.parametrize("limits", [{"seconds": 100 * STEP_S}, {"steps": 100}])
@pytest.mark.parametrize("spec", [f"rnn-cudnn:{SMALL}", "mlp:hidden=4,batch_size=16"])
def test_every_phase_of_the_cosine_is_told_with_its_step(spec: str, limits: dict[str, float], corpus: Corpus) -> None:
    # 0.01 + 0.99 (1 + cos(pi u)) / 2 is at most 1/2 from u = 0.5032 on, 1/4 from 0.6723, 1/8 from 0.7787, 1/16 from
    # 0.8520, 1/32 from 0.9064, 1/64 from 0.9520; the share used is a hundredth after each step
    after = {"rise": 0, "fall": 19, "at most 1/2": 51, "at most 1/4": 68, "at most 1/8": 78}
    after |= {"at most 1/16": 86, "at most 1/32": 91, "at most 1/64": 96}
    assert changes(spec, corpus, **limits) == [
        Change(schedule="learning rate, cosine", value=value, step=step, train_s=step * STEP_S)
        for value, step in after.items()
    ]


def test_a_rate_that_never_changes_is_told_once(corpus: Corpus) -> None:
    found = changes(f"rnn-cudnn:{SMALL},schedule=constant", corpus, seconds=30 * STEP_S)
    assert found == [Change(schedule="learning rate, constant", value="constant", step=0, train_s=0.0)]


def test_weights_of_a_mixture_and_the_rates_of_its_parts_are_told_apart(corpus: Corpus) -> None:
    spec = f"mixture:unigram+rnn-cudnn({SMALL})+rnn-cudnn({SMALL},schedule=constant)"
    found = changes(spec, corpus, seconds=16 * STEP_S)
    parts = {change.schedule for change in found}
    assert parts == {
        f"2: rnn-cudnn:{SMALL}: learning rate, cosine",
        f"3: rnn-cudnn:{SMALL},schedule=constant: learning rate, constant",
        "weights of the mixture",
    }
    weights = [change for change in found if change.schedule == "weights of the mixture"]
    # anew each time another eighth of the budget, two steps, is used, and at the end
    assert [change.step for change in weights] == [1, 3, 5, 7, 9, 11, 13, 15, 16]
    for change in weights:
        assert sum(map(float, change.value.split())) == pytest.approx(1, abs=0.002)


def test_a_training_that_diverges_has_told_until_then(corpus: Corpus) -> None:
    budget = Budget(steps=50)
    spec = f"rnn-scratch:{SMALL},activation=relu,optimizer=sgd,lr=1e6,clip=0"
    trainer = create_trainer(spec, corpus.vocab)
    with pytest.raises(lmzoo.errors.DivergedError):
        list(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget))
    assert [change.value for change in budget.changes] == ["rise"]
