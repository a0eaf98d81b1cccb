"""Steps that nobody waits for, algorithms that give the same bits, gates that are compiled or not."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest

import lmzoo
from lmzoo.budget import Budget, Stopwatch
from lmzoo.corpus import Corpus
from lmzoo.errors import DivergedError, OptionValueError
from lmzoo.registry import create_trainer

torch = pytest.importorskip("torch")

from lmzoo.neural import devices, training  # noqa: E402
from lmzoo.neural.devices import Queue, algorithms, require_deterministic  # noqa: E402
from lmzoo.neural.scratch import ScratchLayer  # noqa: E402
from lmzoo.neural.training import NeuralTrainer  # noqa: E402

pytestmark = pytest.mark.torch

TEXT = "abcd" * 60
SMALL = "hidden=8,batch_size=4,num_steps=6"


@pytest.fixture
def corpus() -> Corpus:
    return lmzoo.corpus_from_texts({"train": TEXT, "valid": "abcdabcd", "test": "abcd"}, tokens="char")


def trained(spec: str, corpus: Corpus, budget: Budget, *, waits: bool) -> tuple[NeuralTrainer, list[int]]:
    """A training on the processor, waiting for every step or queueing as on CUDA, and the steps it yielded at."""
    trainer = create_trainer(spec, corpus.vocab)
    assert isinstance(trainer, NeuralTrainer)
    trainer.waits_for_every_step = waits
    yields = [p.steps for p in trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget)]
    return trainer, yields


def ticking(step_s: float) -> Stopwatch:
    """A watch on which every look takes so long."""
    watch = Stopwatch(itertools.count(0.0, step_s).__next__)
    watch._started = 0.0
    return watch


@pytest.mark.parametrize(
    "spec",
    [
        f"gru-scratch:{SMALL},dropout=0.2",
        "mlp:hidden=8,batch_size=16,optimizer=sgd,lr=0.1",
        f"rnn-scratch:{SMALL},embedding=3,optimizer=sgd,lr=0.1,softmax=sampled,samples=2",
    ],
)
def test_steps_nobody_waits_for_learn_the_same(spec: str, corpus: Corpus) -> None:
    one_by_one, every_step = trained(spec, corpus, Budget(steps=23), waits=True)
    queued, yields = trained(spec, corpus, Budget(steps=23, watch=ticking(1e-4)), waits=False)
    assert every_step == list(range(1, 24))
    # twice as many each time, and the last whatever is left
    assert yields == [1, 3, 7, 15, 23]
    for name, weight in one_by_one.model.network.weights().items():
        assert torch.equal(weight, queued.model.network.weights()[name])


def test_no_more_steps_are_queued_than_take_a_tenth_of_a_second(corpus: Corpus) -> None:
    # adding a step and pacing look at the watch, so that a block of n steps takes 2 looks: 0.2 s, whatever n
    _, yields = trained(f"rnn-scratch:{SMALL}", corpus, Budget(steps=6, watch=ticking(0.2)), waits=False)
    assert yields == [1, 2, 3, 4, 5, 6]


def test_many_short_steps_are_still_waited_for_now_and_then(corpus: Corpus) -> None:
    _, yields = trained(f"rnn-scratch:{SMALL}", corpus, Budget(steps=300, watch=ticking(1e-9)), waits=False)
    assert yields == [1, 3, 7, 15, 31, 63, 127, 191, 255, 300]


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "queued"])
def test_a_divergence_is_that_of_its_step_and_leaves_the_weights_finite(corpus: Corpus, waits: bool) -> None:
    spec = f"rnn-scratch:{SMALL},activation=relu,optimizer=sgd,lr=1e6,clip=0,schedule=constant"
    trainer = create_trainer(spec, corpus.vocab)
    assert isinstance(trainer, NeuralTrainer)
    trainer.waits_for_every_step = waits
    with pytest.raises(DivergedError) as caught:
        list(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=50)))
    assert caught.value.step == 2
    assert all(weight.isfinite().all() for weight in trainer.model.network.weights().values())


def test_the_first_bad_step_of_a_queue_is_named_and_its_gradients_are_silenced() -> None:
    queue = Queue(watch=Stopwatch(), is_waiting=False)
    for loss, norm in ((1.0, 1.0), (2.0, math.inf), (math.nan, 1.0)):
        gradient = torch.tensor([3.0, math.nan if loss == 2.0 else 4.0])
        queue.add(torch.tensor(loss), torch.tensor(norm), [gradient])
        assert gradient.tolist() == ([3.0, 4.0] if loss == 1.0 else [0.0, 0.0])
    with pytest.raises(DivergedError) as caught:
        queue.settle(12)
    # steps 10, 11 and 12 were queued
    assert caught.value.step == 11


def test_a_loss_beyond_any_perplexity_is_a_divergence() -> None:
    queue = Queue(watch=Stopwatch())
    # e^709.8 is the largest float64
    queue.add(torch.tensor(709.0), torch.tensor(1.0), [])
    assert queue.settle(1) == 709.0
    queue.add(torch.tensor(710.0), torch.tensor(1.0), [])
    with pytest.raises(DivergedError):
        queue.settle(2)


def test_deterministic_algorithms_are_asked_for_within_a_step_alone(corpus: Corpus) -> None:
    seen = []
    true_next = training.clip_global_norm

    def spied(*arguments: object) -> object:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return true_next(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "clip_global_norm", spied)
        trainer = create_trainer(f"lstm-scratch:{SMALL},deterministic=true", corpus.vocab)
        for _ in trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=2)):
            assert not torch.are_deterministic_algorithms_enabled()
    assert seen == [True, True]


def test_what_was_deterministic_before_stays_so() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with algorithms(True):
            pass
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_device_in_use_already_cannot_become_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices._CUBLAS_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(OptionValueError, match=f"set {devices._CUBLAS_VARIABLE}=:4096:8"):
        require_deterministic(torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    require_deterministic(torch.device("cuda"))
    assert os.environ[devices._CUBLAS_VARIABLE] == ":4096:8"
    monkeypatch.delenv(devices._CUBLAS_VARIABLE)
    require_deterministic(torch.device("cpu"))
    assert devices._CUBLAS_VARIABLE not in os.environ


def test_a_value_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(OptionValueError, match="deterministic must be true or false, got 1"):
        lmzoo.neural.config.RecurrentConfig(deterministic=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "budget", "is_taken"),
    [
        (f"lstm-scratch:{SMALL}", Budget(steps=500), True),
        (f"gru-scratch:{SMALL}", Budget(seconds=10), True),
        # 240 tokens are 10 batches of 4 x 6
        (f"gru-scratch:{SMALL}", Budget(epochs=50), True),
        (f"gru-scratch:{SMALL}", Budget(), True),
        (f"gru-scratch:{SMALL}", Budget(epochs=49), False),
        (f"gru-scratch:{SMALL}", Budget(steps=499), False),
        (f"gru-scratch:{SMALL}", Budget(seconds=9), False),
        (f"gru-scratch:{SMALL},precision=bfloat16", Budget(steps=500), False),
        (f"rnn-scratch:{SMALL}", Budget(steps=500), False),
        (f"lstm-cudnn:{SMALL}", Budget(steps=500), False),
        ("mlp:hidden=8,batch_size=16", Budget(steps=500), False),
    ],
)
def test_gates_are_compiled_where_the_budget_pays_for_it(
    spec: str, budget: Budget, is_taken: bool, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("LMZOO_COMPILED", raising=False)
    if "bfloat16" in spec:
        monkeypatch.setattr("lmzoo.neural.precision.has_bfloat16", lambda device: True)
    trainer = create_trainer(spec, corpus.vocab)
    assert isinstance(trainer, NeuralTrainer)
    next(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget))
    assert trainer.kernel_name.endswith("+numba") is is_taken
    layers = [m for m in trainer.model.network.modules() if isinstance(m, ScratchLayer)]
    if "bfloat16" not in spec:
        assert all(layer.steps.is_compiled is is_taken for layer in layers)


def test_gates_are_never_compiled_where_that_is_forbidden(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMZOO_COMPILED", "0")
    trainer = create_trainer(f"lstm-scratch:{SMALL}", corpus.vocab)
    next(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=500)))
    assert trainer.kernel_name == "scratch"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm-scratch", "lstm-cudnn", "transformer"])
def test_a_deterministic_training_on_a_gpu_gives_the_same_bits(name: str, corpus: Corpus) -> None:
    spec = f"{name}:hidden=16,batch_size=4,num_steps=6,deterministic=true"
    first, again = (lmzoo.train(spec, corpus, max_steps=20, device="cuda").to_parts()[1] for _ in range(2))
    for weight, array in first.items():
        np.testing.assert_array_equal(array, again[weight])
