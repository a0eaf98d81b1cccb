"""One trial, in this process: training, quality, throughput, speed to perplexity, memory.

What a trial gives is a record, whatever happens: a failure is a status with a reason and what was measured before it.
"""

from __future__ import annotations

import importlib
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bench import environment, memory
from bench.agreement import device_agreement, disagreement
from bench.coded import measured_code
from bench.describe import corpus_facts, read_corpus
from bench.energy import EnergyMeter
from bench.learned import Learned, encoded_for, has_same_symbols, trained, was_read
from bench.planned import require_same_code, require_same_packages, require_same_text
from bench.profiling.guesses import guesses_of
from bench.profiling.place import place_of
from bench.profiling.profile import profile_of
from bench.quality import blocks_record, perplexity_figure, tally_record
from bench.records import (
    CorpusFacts,
    CurvePoint,
    Environment,
    Figure,
    Measured,
    Memory,
    Parts,
    ScheduleChange,
    SoFar,
    Status,
    TallyRecord,
    TrialRecord,
    TrialSpec,
)
from bench.throughput import next_token_microseconds, percentile_99, repeats, scoring_rates
from lmzoo.budget import Budget, Stopwatch
from lmzoo.conformance import quick_check
from lmzoo.corpus import Corpus
from lmzoo.driver import Training, Validation, budget_for
from lmzoo.errors import DivergedError, LmzooError
from lmzoo.evaluation import tally_of, token_nats
from lmzoo.interface import Progress
from lmzoo.registry import create_coder, create_trainer, entries_of, is_read, read_model
from lmzoo.spec import parse_spec

# progress is told at most so often
_TOLD_EVERY_S = 0.2
_FOR_PROGRAMMERS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
# what libraries put into their messages when memory runs out without a MemoryError
_OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "DefaultCPUAllocator", "bad allocation")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a trial stands: its phase, training seconds, share of the budget (None: no limit), latest perplexity."""

    phase: str
    train_s: float = 0.0
    share: float | None = None
    perplexity: float | None = None


Tell = Callable[[Moment], None]
# seconds since the trial's process started; never paused
WallClock = Callable[[], float]


class _Told(Training):
    """A training that tells where it stands; the training clock is paused meanwhile."""

    def __init__(self, *args: Any, tell: Tell, wall: WallClock, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tell = tell
        self._wall = wall
        self._last_told_s = -math.inf

    def run(self) -> Iterator[Progress]:
        for progress in super().run():
            if self._wall() - self._last_told_s >= _TOLD_EVERY_S:
                self._last_told_s = self._wall()
                self._tell(self.moment())
            yield progress

    def moment(self) -> Moment:
        has_limit = any(limit is not None for limit in (self.budget.seconds, self.budget.steps, self.budget.epochs))
        perplexity = self.validations[-1].perplexity if self.validations else None
        return Moment(
            phase="training",
            train_s=self.budget.watch.elapsed_s,
            share=self.budget.used if has_limit else None,
            perplexity=perplexity if perplexity is not None and math.isfinite(perplexity) else None,
        )


class Trial:
    """One trial under way; `run()` gives its record and raises nothing but what ends the process.

    `on_error` is told of an exception that nobody foresaw, for a log; `keep` of what is measured so far, whenever more
    is, for a record of a trial that is stopped before it can give its own.
    """

    def __init__(
        self,
        spec: TrialSpec,
        wall: WallClock,
        tell: Tell,
        on_error: Callable[[BaseException], None] | None = None,
        keep: Callable[[SoFar], None] = lambda _: None,
    ) -> None:
        self.spec = spec
        self._wall = wall
        self._tell = tell
        self._on_error = on_error
        self._keep = keep
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self._parts = {name: 0.0 for name in Parts.model_fields if name != "compile_s"}
        self._compile_s: float | None = None
        self._facts: CorpusFacts | None = None
        self._training: _Told | None = None
        self._curve: list[CurvePoint] = []
        self._baseline_rss_bytes = 0
        self._memory: Memory | None = None
        self._valid: TallyRecord | None = None
        self._meter: EnergyMeter | None = None
        self._was_shared: bool | None = None
        self._is_adaptive = False
        self._warnings: list[str] = []

    def run(self) -> TrialRecord:
        """Everything from the imports to the record."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            # said to programmers about their code, not to readers about their figures
            for category in _FOR_PROGRAMMERS:
                warnings.simplefilter("ignore", category)
            warnings.showwarning = self._note_warning
            try:
                status, reason, measured = self._measure()
            except Exception as error:
                status, reason = classify(error)
                measured = None
                if status == "failed" and self._on_error is not None:
                    self._on_error(error)
        return self._record(status, reason, measured)

    def _measure(self) -> tuple[Status, str | None, Measured | None]:
        # before anything is read: a record without facts of a text is of no use to a later run
        require_same_code(self.spec)
        require_same_packages(self.spec)
        self._import_libraries()
        corpus = self._timed("load_s", self._read_corpus)
        self._facts = corpus_facts(corpus)
        require_same_text(self.spec, corpus)
        self._keep(self._so_far())
        if self.spec.family == "coder":
            return "ok", None, self._code(corpus)
        if is_read(self.spec.spec):
            learned, corpus = self._read_model(corpus)
        else:
            learned = self._train(corpus)
        if not learned.model.is_normalized:
            self._memory = self._read_memory()
            return "refused", "its scores do not sum to 1 over the vocabulary, so it has no perplexity", None
        if not self.spec.corpus.with_test:
            self._tell(Moment(phase="scoring"))
            self._valid = tally_record(self._timed("validate_s", lambda: learned.whole_validation(corpus)))
            return "ok", None, None
        measured, n_nan = self._figures(learned, corpus)
        checks = self._timed("test_s", lambda: list(quick_check(learned.model)))
        measured = measured.model_copy(update={"checks": {check.name: check.status for check in checks}})
        failed = next((check for check in checks if check.status == "failed"), None)
        if failed is not None:
            return "invalid", f"{failed.name}: {failed.message}{_advice(self.spec, failed.name)}", measured
        if n_nan:
            return "invalid", f"{n_nan} test tokens have no probability (NaN)", measured
        return "ok", None, measured

    def _read_corpus(self) -> Corpus:
        return read_corpus(self.spec.corpus).with_train_fraction(self.spec.train_fraction)

    def _import_libraries(self) -> None:
        """Load what the model needs before memory's baseline is taken."""
        self._tell(Moment(phase="loading"))
        for entry in entries_of(parse_spec(self.spec.spec)):
            importlib.import_module(entry.module)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(self.spec.threads)
        memory.reset_device_peaks(self.spec.device)
        self._was_shared = environment.is_device_shared(self.spec.device)
        self._meter = EnergyMeter(self.spec.device)
        self._baseline_rss_bytes = memory.rss_bytes() or memory.peak_rss_bytes()
        self._parts["start_and_imports_s"] = self._wall()

    def _code(self, corpus: Corpus) -> Measured:
        """What a compressor needs for the text."""
        self._is_adaptive = True
        coder = self._timed("start_and_imports_s", lambda: create_coder(self.spec.spec))
        self._tell(Moment(phase="scoring"))
        measured = measured_code(coder, corpus, self._timed)
        self._memory = self._read_memory()
        return measured

    def _read_model(self, corpus: Corpus) -> tuple[Learned, Corpus]:
        """A model of a file, and the text as it is scored by that."""
        model = self._timed("load_s", lambda: read_model(self.spec.spec, device=self.spec.device))
        self._is_adaptive = model.is_adaptive
        has_same = has_same_symbols(corpus.vocab, model.vocab)
        corpus = self._timed("load_s", lambda: encoded_for(corpus, model.vocab))
        if not has_same:
            self._facts = corpus_facts(corpus, vocabulary_of=self.spec.model)
        self._keep(self._so_far())
        return was_read(model), corpus

    def _train(self, corpus: Corpus) -> Learned:
        spec = parse_spec(self.spec.spec)
        budget = budget_for(spec, seconds=self.spec.budget_s, epochs=self.spec.epochs, max_steps=self.spec.max_steps)
        # the first network that is made has more of its library loaded
        trainer = self._timed(
            "start_and_imports_s", lambda: create_trainer(spec, corpus.vocab, device=self.spec.device)
        )
        training = _Told(trainer, corpus, budget, seed=self.spec.seed, tell=self._tell_and_look, wall=self._wall)
        self._training = training
        assert self._meter is not None
        before_s = self._wall()
        with self._meter.running():
            for validation in training:
                self._curve.append(self._curve_point(validation))
                self._note_training(before_s)
                self._tell(training.moment())
                self._keep(self._so_far())
        self._note_training(before_s)
        self._compile_s = getattr(trainer, "compile_s", None)
        learned = trained(training)
        self._is_adaptive = learned.model.is_adaptive
        return learned

    def _tell_and_look(self, moment: Moment) -> None:
        assert self._meter is not None
        self._meter.look()
        self._tell(moment)

    def _note_training(self, before_s: float) -> None:
        """Where the wall clock went since `before_s`: into training or into its validations."""
        assert self._training is not None
        train_s = self._training.budget.watch.elapsed_s
        self._parts["train_s"] = train_s
        self._parts["validate_s"] = self._wall() - before_s - train_s

    def _curve_point(self, validation: Validation) -> CurvePoint:
        return CurvePoint(
            train_s=validation.train_s,
            wall_s=self._wall(),
            train_tokens=validation.train_tokens,
            valid_perplexity=perplexity_figure(validation.valid)
            if validation.valid.is_normalized
            else Figure(reason="its scores are no distribution"),
        )

    def _figures(self, learned: Learned, corpus: Corpus) -> tuple[Measured, int]:
        """What is measured of a model, and how many test tokens have NaN for a probability."""
        model = learned.model
        # speed before quality: what a model may remember of the test text speeds up nothing that is timed
        self._tell(Moment(phase="timing"))
        rates = self._timed("throughput_s", lambda: scoring_rates(model, corpus.test))
        calls = self._timed("throughput_s", lambda: next_token_microseconds(model, corpus.test))
        self._tell(Moment(phase="scoring"))
        valid = self._timed("validate_s", lambda: learned.whole_validation(corpus))
        nats_N = self._timed("test_s", lambda: token_nats(model, corpus.test))
        place = place_of(corpus.test) if self.spec.with_text else range(0)
        guesses = self._timed("test_s", lambda: guesses_of(model, corpus.test, place))
        # read before the model is serialised: that copy is the harness's, not the model's
        self._memory = self._read_memory()
        agreement = self._timed("test_s", lambda: device_agreement(model, corpus.test, self.spec.device))
        if (doubt := disagreement(agreement, self.spec.device)) is not None:
            self._warnings.append(doubt)
        tally = tally_of(model, corpus.test, nats_N)
        train_s, train_tokens = self._train_s(), learned.train_tokens
        measured = Measured(
            test=tally_record(tally),
            valid=tally_record(valid),
            top1_accuracy=Figure.of(guesses.top1_accuracy),
            device_agreement=agreement,
            **blocks_record(corpus.test, nats_N, tally),
            n_params=getattr(model, "n_params", None),
            model_bytes=learned.model_bytes(),
            train_tokens=train_tokens,
            train_tokens_per_s=_rate(train_tokens, train_s),
            eval_tokens_per_s=repeats(rates),
            next_token_us=repeats([statistics.median(values) for values in calls]),
            next_token_us_p99=percentile_99([value for values in calls for value in values]),
            profile=self._timed(
                "profile_s",
                lambda: profile_of(model, corpus, nats_N, guesses, place, with_text=self.spec.with_text),
            ),
            kernel=learned.kernel,
            kept=learned.kept,
            absent=dict(learned.absent),
        )
        return measured, int(np.isnan(nats_N).sum())

    def _read_memory(self) -> Memory:
        allocated, reserved = memory.device_peaks_bytes(self.spec.device)
        return Memory(
            peak_rss_bytes=memory.peak_rss_bytes(),
            baseline_rss_bytes=self._baseline_rss_bytes,
            peak_device_bytes=allocated,
            peak_device_reserved_bytes=reserved,
        )

    def _record(self, status: Status, reason: str | None, measured: Measured | None) -> TrialRecord:
        return TrialRecord(
            trial=self.spec,
            status=status,
            reason=reason,
            measured=measured,
            valid=self._valid,
            memory=self._memory or self._read_memory(),
            energy=None if self._meter is None else self._meter.energy(),
            environment=Environment.model_validate(environment.describe(self.spec.device, was_shared=self._was_shared)),
            started_utc=self._started_utc,
            wall_s=self._wall(),
            **dict(self._so_far()),
        )

    def _so_far(self) -> SoFar:
        return SoFar(
            corpus=self._facts,
            curve=tuple(self._curve),
            parts=Parts.model_validate(self._parts | {"compile_s": self._compile_s, "train_s": self._train_s()}),
            train_s=self._train_s(),
            schedule=() if self._training is None else schedule_of(self._training.budget),
            is_adaptive=self._is_adaptive,
            warnings=tuple(self._warnings),
        )

    def _train_s(self) -> float | None:
        """Seconds of training; None where nothing was trained."""
        return None if self._training is None else self._training.budget.watch.elapsed_s

    def _timed(self, part: str, action: Callable[[], Any]) -> Any:
        watch = Stopwatch()
        try:
            with watch.running():
                return action()
        finally:
            self._parts[part] += watch.elapsed_s

    def _note_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        # each once: a library may repeat one at every step
        if text not in self._warnings:
            self._warnings.append(text)


def _advice(spec: TrialSpec, check: str) -> str:
    """What may help a network that breaks a law of probability, where something does."""
    if spec.family != "neural" or check != "probability.two_ways_agree":
        return ""
    return "; rounding decides what so steep states say, as after long training at a high rate: try a lower lr"


def _rate(n_tokens: int | None, seconds: float | None) -> float | None:
    if n_tokens is None or seconds is None:
        return None
    return n_tokens / seconds if seconds > 0 else 0.0


def classify(error: BaseException) -> tuple[Status, str]:
    """The status and the one-line reason of an exception that ended a trial."""
    if isinstance(error, DivergedError):
        return "diverged", f"step {error.step}: the loss or a gradient is not finite"
    text = " ".join(str(error).split())
    name = type(error).__name__
    if isinstance(error, MemoryError) or name == "OutOfMemoryError" or _says_out_of_memory(error, text):
        return "out_of_memory", f"{name}: {text}" if text else name
    if isinstance(error, LmzooError):
        return "failed", text
    return "failed", f"{name}: {text}" if text else name


def _says_out_of_memory(error: BaseException, text: str) -> bool:
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY_WORDS)


def schedule_of(budget: Budget) -> tuple[ScheduleChange, ...]:
    """What a training told its budget of its schedules."""
    return tuple(ScheduleChange.model_validate(vars(change)) for change in budget.changes)
