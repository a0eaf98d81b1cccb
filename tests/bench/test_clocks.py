"""Two clocks: what stands on which."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzoo
from bench import environment, measure, throughput, worker
from bench.measure import Trial
from bench.records import CorpusSpec, TrialRecord
from lmzoo.budget import Budget, Stopwatch
from lmzoo.interface import Progress
from lmzoo.registry import create_trainer
from tests.bench.stubs import make_trial
from tests.bench.test_throughput import SECONDS_A_TOKEN, Clock, Uniform

STEP_S, N_STEPS = 1.0, 4
# what each of these takes on the one clock of a test
READ_S, MAKE_S, COMPILE_S = 1000.0, 300.0, 8.0


@pytest.fixture(autouse=True)
def short_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusSpec:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the log\n" * 60, encoding="utf-8")
    return CorpusSpec(name=str(path))


class Device:
    """Works on its own: what it was given is done, and the clock moved, only when somebody waits for it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queued_s = 0.0

    def launch(self, seconds: float) -> None:
        self.queued_s += seconds

    def wait(self, *_: Any) -> None:
        self.clock.now_s += self.queued_s
        self.queued_s = 0.0


class Compiling:
    """A trainer whose first step compiles, on a device that it waits for before it yields."""

    def __init__(self, vocab: Any, device: Device) -> None:
        self.model = Uniform(vocab, device.clock)
        self.compile_s = COMPILE_S
        self._device = device

    def steps(self, train: Any, valid: Any, rng: Any, budget: Budget) -> Iterator[Progress]:
        self._device.launch(COMPILE_S)
        for step in range(1, N_STEPS + 1):
            self._device.launch(STEP_S)
            self._device.wait()
            budget.note(steps_done=step, epochs_done=0.0)
            yield Progress(tokens=step, steps=step)


@pytest.fixture
def run(corpus: CorpusSpec, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TrialRecord]:
    """One trial in which reading, making a model, compiling and every step take their time on one clock."""

    def taking(action: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def slow(*arguments: Any, **options: Any) -> Any:
            clock.now_s += seconds
            return action(*arguments, **options)

        return slow

    def run_trial() -> TrialRecord:
        device = Device(clock)

        def create(spec: Any, vocab: Any, *, device: str, on: Device = device) -> Compiling:
            return Compiling(vocab, on)

        monkeypatch.setattr(measure, "read_corpus", taking(measure.read_corpus, READ_S))
        monkeypatch.setattr(measure, "create_trainer", taking(create, MAKE_S))
        monkeypatch.setattr(measure, "budget_for", lambda *_, **__: Budget(watch=clock.watch(), seconds=100.0))
        monkeypatch.setattr(measure, "Stopwatch", clock.watch)
        return Trial(make_trial(corpus=corpus), lambda: clock.now_s, lambda _: None).run()

    return run_trial


def test_training_seconds_are_those_of_learning(run: Callable[..., TrialRecord]) -> None:
    """From the first token that the model sees to its last step."""
    record = run()
    assert record.parts is not None
    assert record.train_s == record.parts.train_s == COMPILE_S + N_STEPS * STEP_S
    # compiling is inside, and also given alone
    assert record.parts.compile_s == COMPILE_S
    # evaluations are due at 0.25 s, then at 9.51 s and 11.31 s, and at the end; steps end at 9, 10, 11 and 12 s
    assert [point.train_s for point in record.curve] == [9.0, 10.0, 12.0, 12.0]
    # the other clock went on
    assert [point.wall_s for point in record.curve] == sorted(point.wall_s for point in record.curve)
    assert record.curve[0].wall_s > READ_S + MAKE_S + 9.0
    assert record.wall_s >= READ_S + MAKE_S + record.train_s + record.parts.validate_s + record.parts.test_s
    assert record.corpus is not None
    assert (record.parts.start_and_imports_s, record.parts.load_s) == (MAKE_S, READ_S)
    # the parts explain all of it
    assert sum(v for k, v in record.parts.model_dump().items() if k != "compile_s") == record.wall_s
    # four evaluations of the schedule, whose head is the whole part; it is not scored once more
    assert record.parts.validate_s == pytest.approx(4 * record.corpus.n_valid_tokens * SECONDS_A_TOKEN)


@pytest.mark.torch
class TestNetworksOnADevice:
    """The training loop of the networks, its steps queued as on CUDA, on a device whose seconds the test counts."""

    @pytest.fixture
    def training(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[float, float]]]:
        torch = pytest.importorskip("torch")
        from lmzoo.neural import training

        device, clip = Device(clock), training.clip_global_norm

        def launch(*arguments: Any) -> Any:
            device.launch(0.125)
            return clip(*arguments)

        monkeypatch.setattr(training, "clip_global_norm", launch)
        monkeypatch.setattr(torch.cuda, "synchronize", device.wait)

        def run() -> list[tuple[float, float]]:
            """What is still queued and what the clock says, at each yield."""
            text = lmzoo.corpus_from_texts({"train": "abcd" * 60, "valid": "abcd", "test": "abcd"}, tokens="char")
            trainer: Any = create_trainer("rnn-cudnn:hidden=4,batch_size=4,num_steps=6", text.vocab)
            trainer.waits_for_every_step = False
            budget = Budget(steps=12, watch=Stopwatch(lambda: clock.now_s))
            steps = trainer.steps(text.train, text.valid, np.random.default_rng(0), budget)
            # generators are made of the first step's device, the processor; from then on it is only waited for
            next(steps)
            device.wait()
            trainer._device = torch.device("cuda")
            seen = []
            while True:
                with budget.watch.running():
                    progress = next(steps, None)
                if progress is None:
                    return seen
                seen.append((device.queued_s, budget.watch.elapsed_s))

        return run

    def test_the_device_is_idle_whenever_the_clock_stops(
        self, training: Callable[[], list[tuple[float, float]]]
    ) -> None:
        seen = training()
        assert len(seen) > 2
        assert {queued_s for queued_s, _ in seen} == {0.0}
        # twelve steps but the first, which was waited for by the test
        assert seen[-1][1] == 11 * 0.125

    def test_compiling_is_inside_the_training_and_told_alone(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("torch")
        from lmzoo.neural import training
        from lmzoo.neural.recurrence import Steps

        def prepare(self: Any, is_compiled: bool) -> None:
            clock.now_s += 2.0 if is_compiled else 0.0

        monkeypatch.setattr(training, "can_be_used", lambda: True)
        monkeypatch.setattr(training, "Stopwatch", clock.watch)
        monkeypatch.setattr(Steps, "prepare", prepare)
        text = lmzoo.corpus_from_texts({"train": "abcd" * 60, "valid": "abcd", "test": "abcd"}, tokens="char")
        trainer: Any = create_trainer("lstm-scratch:hidden=4,batch_size=4,num_steps=6", text.vocab)
        budget = Budget(seconds=20.0, watch=clock.watch())
        assert trainer.compile_s is None
        with budget.watch.running():
            next(trainer.steps(text.train, text.valid, np.random.default_rng(0), budget))
        assert trainer.compile_s == 2.0
        assert budget.watch.elapsed_s == 2.0


def sent(corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch, age_s: float) -> TrialRecord:
    """The record that a worker of this age sends."""
    monkeypatch.setattr(environment, "process_age_s", lambda: age_s)
    events = io.StringIO()
    worker._run_trial(make_trial(corpus=corpus).model_dump_json(), events, debug=False)
    return TrialRecord.model_validate(json.loads(events.getvalue().splitlines()[-1])["record"])


def test_the_wall_clock_runs_from_the_start_of_the_process(corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    record = sent(corpus, monkeypatch, age_s=5000.0)
    assert record.parts is not None
    assert record.parts.start_and_imports_s >= 5000
    assert record.wall_s >= sum(v for k, v in record.parts.model_dump().items() if k != "compile_s")
    # a clock that starts with the trial would show seconds
    assert sent(corpus, monkeypatch, age_s=0.0).wall_s < 5000
