"""One trial in this process: what it measures, and how each kind of failure becomes a record."""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import measure, throughput
from bench.energy import EnergyMeter
from bench.measure import Moment, Trial, classify
from bench.records import CorpusSpec, TrialRecord
from lmzoo.budget import Budget
from lmzoo.errors import DivergedError, SpecError
from lmzoo.interface import Progress
from lmzoo.markov import MarkovConfig, MarkovSource
from tests.bench.stubs import make_trial
from tests.bench.test_agreement import OnDevice
from tests.bench.test_throughput import Clock, Uniform

TEXT = "the cat sat on the mat and the dog sat on the log\n" * 60


@pytest.fixture(autouse=True)
def short_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of speed are shown in test_throughput.py; here they only have to be there."""
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusSpec:
    path = tmp_path / "a text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return CorpusSpec(name=str(path))


def run(corpus: CorpusSpec, model: str = "unigram", **changes: Any) -> TrialRecord:
    return Trial(make_trial(model, corpus=corpus, **changes), lambda: 1.0, lambda _: None).run()


class FakeTrainer:
    """Trains nothing: each step runs `action`, which may raise."""

    def __init__(self, model: Any, action: Callable[[int], None], n_steps: int) -> None:
        self.model = model
        self._action = action
        self._n_steps = n_steps

    def steps(self, train: Any, valid: Any, rng: Any, budget: Budget) -> Iterator[Progress]:
        for step in range(1, self._n_steps + 1):
            self._action(step)
            budget.note(steps_done=step, epochs_done=0.0)
            yield Progress(tokens=step, steps=step)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Callable[..., None]:
    """Let the next trial train a fake; the training clock is the test's."""

    def install(
        model: type[Uniform] = Uniform, action: Callable[[int], None] = lambda _: None, n_steps: int = 1, **limits: Any
    ) -> None:
        def create(spec: Any, vocab: Any, *, device: str) -> FakeTrainer:
            return FakeTrainer(model(vocab, clock), action, n_steps)

        monkeypatch.setattr(measure, "create_trainer", create)
        monkeypatch.setattr(measure, "budget_for", lambda *_, **__: Budget(watch=clock.watch(), **limits))

    return install


def test_a_uniform_model_has_as_many_choices_as_symbols(corpus: CorpusSpec, fake: Callable[..., None]) -> None:
    fake()
    record = run(corpus)
    assert record.status == "ok"
    assert record.measured is not None
    assert record.corpus is not None
    test = record.measured.test
    assert test.perplexity.value == pytest.approx(record.corpus.n_symbols, rel=1e-12)
    assert test.n_tokens == record.corpus.n_test_tokens == sum(record.measured.block_tokens)
    nats = [nats for nats in record.measured.block_nats if nats is not None]
    # the blocks cover the text, each token once
    assert sum(nats) == pytest.approx(test.nll_nats.value, rel=1e-12)
    assert record.measured.valid.n_tokens == record.corpus.n_valid_tokens


def test_white_space_that_words_drop_is_charged_in_bits_and_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "indented.txt"
    lines = [" " * (n * n % 7) + "the cat sat" for n in range(400)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    record = run(CorpusSpec(name=str(path), tokens="word", documents="line", normalize="none"), "unigram")
    assert (record.status, record.reason) == ("ok", None)
    assert record.measured is not None
    test = record.measured.test
    bits, nats = test.bits_per_byte.value, test.nll_nats.value
    assert bits is not None
    assert nats is not None
    assert test.n_oov == 0
    charged = sum(record.measured.block_spelling_nats)
    assert charged > 10
    assert bits * test.n_bytes * math.log(2) == pytest.approx(nats + charged)
    # what is written is read again
    assert TrialRecord.model_validate_json(record.model_dump_json()) == record


def test_a_counting_trial_has_every_figure(corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    # as in a process of its own: here another test may have loaded numba, which makes it pay for less
    monkeypatch.setenv("LMZOO_COMPILED", "0")
    record = run(corpus, "trigram")
    assert record.measured is not None
    assert record.parts is not None
    assert record.memory is not None
    assert [point.train_tokens for point in record.curve] == [record.measured.train_tokens]
    assert record.measured.kernel == "numpy"
    assert record.measured.kept == "last"
    assert record.measured.model_bytes.value is not None
    assert record.measured.n_params is not None
    assert len(record.measured.eval_tokens_per_s.values) >= 5
    assert record.memory.peak_device_bytes is None
    assert 0 <= (record.measured.top1_accuracy.value or -1) <= 1
    assert TrialRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize(("off_nats", "n_warnings"), [(1e-6, 0), (1e-3, 1)])
def test_a_device_that_computes_something_else_is_told_of(
    corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch, off_nats: float, n_warnings: int
) -> None:
    monkeypatch.setattr(measure.memory, "reset_device_peaks", lambda device: None)
    monkeypatch.setattr(measure.memory, "device_peaks_bytes", lambda device: (1000, 2000))
    create = measure.create_trainer

    class OffTrainer:
        def __init__(self, trainer: Any) -> None:
            self.trainer, self.steps = trainer, trainer.steps

        @property
        def model(self) -> Any:
            return OnDevice(self.trainer.model, off_nats)

    monkeypatch.setattr(measure, "create_trainer", lambda *a, **k: OffTrainer(create(*a, **k)))
    record = run(corpus, "unigram", device="cuda:0")
    assert record.measured is not None
    assert record.measured.device_agreement.number == pytest.approx(off_nats, abs=1e-12)
    assert [warning.partition(" differ")[0] for warning in record.warnings] == ["cuda:0 and the CPU"] * n_warnings
    assert record.memory is not None
    assert (record.memory.peak_device_bytes, record.memory.peak_device_reserved_bytes) == (1000, 2000)


def test_energy_is_that_of_the_training_alone(
    corpus: CorpusSpec, fake: Callable[..., None], clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, proc = tmp_path / "powercap" / "intel-rapl:0", tmp_path / "proc"
    domain.mkdir(parents=True)
    proc.mkdir()
    for name, value in {"name": "package-0", "energy_uj": "0", "max_energy_range_uj": "262143328850"}.items():
        (domain / name).write_text(value)

    class Burning(Uniform):
        """Every call costs a joule, in training and out of it."""

        def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
            burn(1)
            return super().logprobs(tokens_BxL, state)

    def burn(joules: int) -> None:
        now_uj = int((domain / "energy_uj").read_text()) + joules * 10**6
        (domain / "energy_uj").write_text(str(now_uj))

    def train(_: int) -> None:
        burn(100)
        clock.now_s += 1.0

    (proc / "stat").write_text("cpu  0 0 0 0\n")
    meter = functools.partial(
        EnergyMeter, powercap=domain.parent, proc=proc, own_cpu_s=lambda: clock.now_s, watch=clock.watch()
    )
    monkeypatch.setattr(measure, "EnergyMeter", meter)
    fake(Burning, action=train, n_steps=3, seconds=100.0)
    record = run(corpus)
    assert record.energy is not None
    # three steps, and four validations of one chunk and a start each; what is timed and scored afterwards is not in it
    assert record.energy.cpu_joules.value == pytest.approx(300, abs=20)
    assert record.energy.cpu_source == "RAPL packages"
    assert record.energy.device_joules.reason == "trained on the CPU"
    assert int((domain / "energy_uj").read_text()) > 400 * 10**6


def test_impossible_tokens_make_an_infinite_perplexity_and_no_failure(tmp_path: Path) -> None:
    paths = {part: tmp_path / f"{part}.txt" for part in ("train", "valid", "test")}
    for part, text in {"train": "abc" * 50, "valid": "abc" * 10, "test": "abcacb" * 10}.items():
        paths[part].write_text(text, encoding="utf-8")
    spec = CorpusSpec(**{part: str(path) for part, path in paths.items()})
    record = run(spec, "ngram", spec="ngram:order=2,smoothing=mle")
    assert (record.status, record.reason) == ("ok", None)
    assert record.measured is not None
    figure = record.measured.test.perplexity
    # a-c, c-b and b-a never occur in training: 3 of each 6 tokens, but for the first a after the start
    assert (figure.value, figure.infinite, figure.reason) == (None, True, "29 tokens of probability zero")
    assert record.measured.test.n_zero == 29
    assert None in record.measured.block_nats


class Raw(Uniform):
    """Raw scores in place of ln p."""

    def next_logprobs(self, state: int) -> Any:
        return np.zeros((state, len(self.vocab)))


class Backoff(Uniform):
    """No distribution, and it says so."""

    is_normalized = False


def test_scores_that_are_no_distribution_are_invalid(corpus: CorpusSpec, fake: Callable[..., None]) -> None:
    fake(Raw)
    record = run(corpus)
    assert record.status == "invalid"
    assert record.reason is not None
    assert record.reason.startswith("probability.")


class Steep(Uniform):
    """Its two ways to be asked differ a little."""

    def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
        logprobs_BxL, state = super().logprobs(tokens_BxL, state)
        return logprobs_BxL - 0.01, state


@pytest.mark.parametrize(("family", "is_advised"), [("neural", True), ("counting", False)])
def test_a_network_whose_rounding_decides_is_told_what_helps(
    corpus: CorpusSpec, fake: Callable[..., None], family: str, is_advised: bool
) -> None:
    fake(Steep)
    record = run(corpus, family=family)
    assert record.status == "invalid"
    assert ("try a lower lr" in (record.reason or "")) == is_advised


def test_a_model_that_has_no_perplexity_is_refused_not_failed(corpus: CorpusSpec, fake: Callable[..., None]) -> None:
    fake(Backoff)
    record = run(corpus)
    assert (record.status, record.measured) == ("refused", None)
    assert "no perplexity" in (record.reason or "")


@pytest.mark.whole
@pytest.mark.torch
@pytest.mark.parametrize("limits", [{"max_steps": 1}, {"max_steps": 40}, {"budget_s": 30.0}])
@pytest.mark.parametrize("cell", ["rnn-scratch:activation=relu", "lstm-scratch:", "gru-cudnn:", "mlp:", "transformer:"])
def test_a_learning_rate_beyond_all_reason_is_a_divergence(
    corpus: CorpusSpec, cell: str, limits: dict[str, float]
) -> None:
    """Never another status, whether a loss, the last weights or a validation tell; and no NaN in what is written."""
    spec = f"{cell},hidden=8,batch_size=8,lr=1e38,clip=0,optimizer=sgd,schedule=constant".replace(":,", ":")
    record = run(corpus, spec, **limits)
    assert record.status == "diverged"
    assert re.fullmatch(r"step \d+: the loss or a gradient is not finite", record.reason or "")
    assert not record.warnings
    # what its schedule did until then is known
    assert [(change.value, change.step) for change in record.schedule] == [("constant", 0)]
    json.dumps(record.model_dump(mode="json"), allow_nan=False)


@pytest.mark.torch
def test_a_text_shorter_than_a_batch_is_in_the_record(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_text("a cat sat on a mat", encoding="utf-8")
    record = run(CorpusSpec(name=str(path)), "mlp:hidden=4", max_steps=2)
    assert record.status == "ok"
    (warning,) = record.warnings
    assert "does not fill a batch of 256 (batch_size); batches of at most 15 are used" in warning


def test_a_diverged_trial_says_where_and_keeps_its_curve(
    corpus: CorpusSpec, fake: Callable[..., None], clock: Clock
) -> None:
    def diverge(step: int) -> None:
        clock.now_s += 0.25
        if step == 3:
            raise DivergedError(step)

    fake(action=diverge, n_steps=5, seconds=10.0)
    record = run(corpus)
    assert (record.status, record.reason) == ("diverged", "step 3: the loss or a gradient is not finite")
    assert [point.train_s for point in record.curve] == [0.25, 0.5]
    assert record.train_s == 0.75


def test_validation_is_not_charged_and_training_is(corpus: CorpusSpec, fake: Callable[..., None], clock: Clock) -> None:
    def train(_: int) -> None:
        clock.now_s += 1.0

    # scoring a token takes Uniform its time on the same clock; only the steps count
    fake(action=train, n_steps=4, seconds=100.0)
    record = run(corpus)
    assert record.train_s == 4.0
    assert [point.train_s for point in record.curve] == [1.0, 2.0, 3.0, 4.0, 4.0]
    assert [point.train_tokens for point in record.curve] == [1, 2, 3, 4, 4]
    assert clock.now_s > 5.0


def test_progress_tells_the_share_of_the_budget(corpus: CorpusSpec, fake: Callable[..., None], clock: Clock) -> None:
    def train(_: int) -> None:
        clock.now_s += 1.0

    fake(action=train, n_steps=2, seconds=4.0)
    moments: list[Moment] = []
    Trial(make_trial(corpus=corpus), lambda: clock.now_s, moments.append).run()
    training = [moment for moment in moments if moment.phase == "training"]
    # one when the step is done, one after its validation; at last the closing validation
    assert [moment.share for moment in training] == [0.25, 0.25, 0.5, 0.5, 0.5]
    assert [moment.phase for moment in moments if moment.phase != "training"] == ["loading", "timing", "scoring"]


def test_a_warning_is_kept_once(corpus: CorpusSpec, fake: Callable[..., None]) -> None:
    def warn(_: int) -> None:
        warnings.warn("weights are not compact", stacklevel=1)

    fake(action=warn, n_steps=3)
    assert run(corpus).warnings == ("weights are not compact",)


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (DivergedError(7), "diverged", "step 7: the loss or a gradient is not finite"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (OutOfMemoryError("CUDA out of memory.\nTried 2 GiB"), "out_of_memory", None),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "out_of_memory", None),
        (RuntimeError("shapes\n  differ"), "failed", "RuntimeError: shapes differ"),
        (KeyError("x"), "failed", "KeyError: 'x'"),
        (SpecError("got 3, wanted 4"), "failed", "got 3, wanted 4"),
        (OSError("no file a.txt"), "failed", "OSError: no file a.txt"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_exception_is_a_status_and_one_line(error: Exception, status: str, reason: str | None) -> None:
    found, said = classify(error)
    assert found == status
    assert "\n" not in said
    assert reason is None or said == reason


def test_an_exception_ends_the_trial_with_a_record(corpus: CorpusSpec, fake: Callable[..., None]) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError("1 / 0")

    fake(action=fail)
    logged: list[BaseException] = []
    record = Trial(make_trial(corpus=corpus), lambda: 0.0, lambda _: None, logged.append).run()
    assert (record.status, record.reason) == ("failed", "ZeroDivisionError: 1 / 0")
    assert record.corpus is not None
    assert [type(error) for error in logged] == [ZeroDivisionError]


@pytest.mark.whole
def test_a_fraction_of_the_training_text_is_learned_from_and_the_rest_stays(corpus: CorpusSpec) -> None:
    whole, part = (run(corpus, "trigram", train_fraction=fraction) for fraction in (1.0, 0.25))
    assert whole.corpus is not None
    assert part.corpus is not None
    assert part.corpus.n_train_tokens == math.ceil(0.25 * whole.corpus.n_train_tokens)
    assert part.measured is not None
    assert part.measured.train_tokens == part.corpus.n_train_tokens
    # nothing else differs
    same = part.corpus.model_copy(update={"n_train_tokens": whole.corpus.n_train_tokens})
    assert same == whole.corpus


def test_a_fraction_that_leaves_nothing_is_a_failed_trial(corpus: CorpusSpec) -> None:
    record = run(corpus, train_fraction=1e-6)
    assert (record.status, record.measured) == ("failed", None)
    assert "is less than one token; take a larger fraction or more text" in (record.reason or "")


def test_the_entropy_of_a_known_source_is_in_the_record() -> None:
    record = run(CorpusSpec(name="markov:order=1,symbols=5,length=3000"), "bigram")
    known = MarkovSource.of(MarkovConfig(order=1, symbols=5)).entropy_nats
    assert record.corpus is not None
    assert record.corpus.entropy_nats == known
