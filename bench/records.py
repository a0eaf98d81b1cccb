"""The schema of everything that a run writes.  Other modules of the harness exchange only these.

JSON holds no NaN and no infinity: a value that does not exist or is infinite is null with a reason beside it
(`Figure`).  A record names its schema and the rules of measuring that it was made under; neither is ever changed in
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# 1: the first.  2: blocks by character, byte and out-of-vocabulary token; agreement of devices; energy; schedule.
# Records of an older schema are read; what they do not hold is missing.
SCHEMA_VERSION = 2
RULES_VERSION = 1

Status = Literal["ok", "diverged", "out_of_memory", "timed_out", "killed", "failed", "invalid", "refused"]
# a model that has no perplexity by nature, and one that was measured, are no failures
FINE: tuple[Status, ...] = ("ok", "refused")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Figure(_Record):
    """A number, or why there is none.  `infinite`: the value is infinity, which JSON cannot hold."""

    value: float | None = None
    infinite: bool = False
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Figure:
        if self.value is None and not self.reason:
            raise ValueError("a figure without a value needs a reason")
        return self

    @property
    def number(self) -> float | None:
        """The value, `inf`, or None where there is none."""
        return math.inf if self.infinite else self.value

    @classmethod
    def of(cls, value: float | None, reason: str | None = None) -> Figure:
        """A figure of any float; infinite and NaN ones become null with a reason."""
        if value is None:
            return cls(reason=reason or "not measured")
        if math.isnan(value):
            return cls(reason=reason or "not a number")
        if math.isinf(value):
            return cls(infinite=True, reason=reason or "infinite")
        return cls(value=value)


class CorpusSpec(_Record):
    """Which text, and how it is read; None: the corpus's own default.  Paths stay in memory, never in a report."""

    name: str | None = None
    train: str | tuple[str, ...] | None = Field(default=None, description="several files are one text, in this order")
    valid: str | None = None
    test: str | None = None
    tokens: str | None = None
    normalize: str | None = None
    documents: str | None = None
    min_freq: int = 1


class CorpusFacts(_Record):
    """What was read: the proof that two trials saw the same text under the same policy."""

    name: str
    normalize: str
    tokenizer: str
    documents: str
    min_freq: int
    sha256: str
    vocab_fingerprint: str
    n_symbols: int = Field(description="predictable symbols: a uniform model's perplexity")
    n_train_tokens: int
    n_valid_tokens: int
    n_test_tokens: int
    n_test_oov: int
    n_train_documents: int
    n_test_documents: int
    n_blank_lines: int
    n_markers: int
    test_overlap: float = Field(description="share of test lines found verbatim in the training text, 0 to 1")
    entropy_nats: float | None = Field(
        default=None, description="nats per token of the source that the text was drawn from, where that is known"
    )


class TrialSpec(_Record):
    """One trial: a model on a corpus on a device with a seed, and its limits.  `trial_id` names its file."""

    trial_id: str
    content_key: str = Field(description="hash of everything that decides the result; equal keys may reuse a record")
    model: str = Field(description="the spec as typed, absolute paths cut to the file name")
    spec: str = Field(description="the spec that the worker parses")
    options: dict[str, str | int | float | bool | None] = Field(description="every resolved option")
    family: Literal["counting", "neural", "coder"]
    corpus: CorpusSpec
    corpus_sha256: str
    code_sha256: str | None = Field(default=None, description="of the sources that planned it; None before schema 2")
    train_fraction: float = 1.0
    device: str = "cpu"
    seed: int = 0
    budget_s: float | None = None
    epochs: float | None = None
    max_steps: int | None = None
    threads: int = 1
    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    quick: bool = False


class Question(_Record):
    """What a run asks before it starts: which models, texts and devices."""

    models: str = Field(description="the text of --models")
    corpora: tuple[CorpusSpec, ...]
    devices: tuple[str, ...]
    is_elsewhere: bool = Field(default=False, description="trials run on other machines: devices are not looked for")


class ModelFacts(_Record):
    """A model that can run here, resolved."""

    model: str
    spec: str
    options: dict[str, str | int | float | bool | None]
    family: Literal["counting", "neural", "coder"]


class Answer(_Record):
    """What can run here.  `error`: why the run cannot start, one line; everything else is then empty."""

    error: str | None = None
    models: tuple[ModelFacts, ...] = ()
    unavailable: dict[str, str] = Field(default_factory=dict)
    corpora: tuple[CorpusSpec, ...] = Field(default=(), description="as asked, every choice made")
    facts: tuple[CorpusFacts, ...] = Field(default=(), description="one for each of `corpora`")
    default_budget_s: float = 0.0


class TallyRecord(_Record):
    """The sums of one scored split and what follows from them."""

    nll_nats: Figure
    n_tokens: int
    n_chars: int
    n_bytes: int
    n_oov: int
    n_zero: int
    perplexity: Figure
    perplexity_no_oov: Figure
    bits_per_char: Figure
    bits_per_byte: Figure


class ScheduleChange(_Record):
    """Where a schedule of the training changed: which, to what, after which optimiser step and training second."""

    schedule: str
    value: str
    step: int
    train_s: float


class CurvePoint(_Record):
    """One validation of the schedule, on the first 100,000 validation tokens."""

    train_s: float
    wall_s: float
    train_tokens: int
    valid_perplexity: Figure


class Repeats(_Record):
    """Raw values of one repeated measurement, with the unit in the name of the field that holds it."""

    values: tuple[float, ...]
    median: float
    low_quartile: float
    high_quartile: float
    unstable: bool = Field(description="the interquartile range is over 10 % of the median")


class Memory(_Record):
    """Bytes of the trial's own process; device figures are null on a CPU, never 0."""

    peak_rss_bytes: int
    baseline_rss_bytes: int
    peak_device_bytes: int | None = None
    peak_device_reserved_bytes: int | None = None


class Energy(_Record):
    """Joules that the machine's own counters tell of one training, validations included; absent ones have a reason.

    A counter counts for the whole processor or device, whoever uses it; beside other load there is no figure.
    """

    cpu_joules: Figure
    cpu_source: str | None = None
    device_joules: Figure
    device_source: str | None = None
    seconds: float = Field(description="wall-clock seconds that the counters cover")


class Parts(_Record):
    """Where the wall clock went, in seconds."""

    start_and_imports_s: float
    load_s: float
    train_s: float
    compile_s: float | None = None
    validate_s: float
    test_s: float
    throughput_s: float


class Environment(_Record):
    """The machine and the software, without any name of user, host or folder."""

    python: str
    platform: str
    cpu_model: str
    n_cpus_usable: int
    n_cpus: int | None = Field(default=None, description="CPUs of the whole machine, whose load `load_1min` is")
    load_1min: float | None
    memory_total_bytes: int | None
    versions: dict[str, str]
    thread_variables: dict[str, str]
    git_commit: str | None = None
    git_dirty: bool | None = None
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    device_shared: bool | None = Field(default=None, description="another process used the device meanwhile")


_BLOCK_FIELDS = tuple(f"block_{of}" for of in ("nats", "chars", "bytes", "spelling_nats", "known_nats", "known_tokens"))


def _sum_of(values: Iterable[float | None]) -> float:
    """The exact sum, rounded once; infinite where a value is null."""
    return math.fsum(math.inf if value is None else value for value in values)


class Measured(_Record):
    """What a trial that reached its end measured."""

    test: TallyRecord
    valid: TallyRecord
    top1_accuracy: Figure
    block_nats: tuple[float | None, ...] = Field(description="nats of each block of the test part; null: infinite")
    block_tokens: tuple[int, ...]
    # a value for each block, in the order of `block_nats`; empty in records of schema 1
    block_chars: tuple[float, ...] = Field(default=(), description="characters; empty where nothing is divided by them")
    block_bytes: tuple[float, ...] = Field(default=(), description="bytes; empty where nothing is divided by them")
    block_spelling_nats: tuple[float, ...] = Field(default=(), description="what spelling its OOV tokens costs")
    block_known_nats: tuple[float | None, ...] = Field(default=(), description="nats without OOV; null: infinite")
    block_known_tokens: tuple[int, ...] = Field(default=(), description="tokens that are in the vocabulary")
    device_agreement: Figure = Field(
        default=Figure(reason="not measured"),
        description="largest difference of ln p, over a fixed sample, of the model on its device and loaded on the CPU",
    )
    n_params: int | None
    model_bytes: Figure
    train_tokens: int
    train_tokens_per_s: float
    eval_tokens_per_s: Repeats
    next_token_us: Repeats = Field(description="microseconds from a state to the next token's distribution and state")
    next_token_us_p99: float
    kernel: str
    kept: str = Field(description="whose weights were scored: 'last', or 'best validation at N s'")

    @model_validator(mode="after")
    def _blocks_add_up(self) -> Measured:
        """What was altered or half written shows: the blocks are the test text, in every unit that they have."""
        lengths = {name: len(getattr(self, name)) for name in _BLOCK_FIELDS}
        wanted = len(self.block_tokens)
        uneven = [name for name, n in lengths.items() if n != wanted and (n or name == "block_nats")]
        if uneven:
            raise ValueError(f"{wanted} blocks have tokens, but {uneven[0]} holds {lengths[uneven[0]]} values")
        for name, got, want, tolerance in self._sums():
            # an infinite sum equals only an infinite one
            if got != want and not abs(got - want) <= tolerance * abs(want):
                raise ValueError(f"{name}: the blocks' sum is {got!r}, that of the test text is {want!r}")
        return self

    def _sums(self) -> Iterator[tuple[str, float, float, float]]:
        """Each sum over the blocks with what the tally says of it, and the relative difference allowed."""
        test = self.test
        nats = _sum_of(self.block_nats)
        yield "tokens", sum(self.block_tokens), test.n_tokens, 0.0
        if test.nll_nats.number is not None:
            yield "nats", nats, test.nll_nats.number, 1e-9
        if self.block_chars:
            yield "characters", _sum_of(self.block_chars), test.n_chars, 1e-6
        if self.block_bytes:
            yield "bytes", _sum_of(self.block_bytes), test.n_bytes, 1e-6
        if self.block_known_tokens:
            yield "known tokens", sum(self.block_known_tokens), test.n_tokens - test.n_oov, 0.0
        if self.block_known_nats and test.perplexity_no_oov.value is not None:
            n_known = test.n_tokens - test.n_oov
            yield "known nats", _sum_of(self.block_known_nats), n_known * math.log(test.perplexity_no_oov.value), 1e-9
        for size, bits in ((test.n_chars, test.bits_per_char.value), (test.n_bytes, test.bits_per_byte.value)):
            if self.block_spelling_nats and bits is not None:
                yield "spelling", nats + _sum_of(self.block_spelling_nats), bits * size * math.log(2), 1e-9


class SoFar(_Record):
    """What a trial had measured when it told of it: all that is left of one that is stopped later."""

    corpus: CorpusFacts | None = None
    curve: tuple[CurvePoint, ...] = ()
    parts: Parts | None = None
    train_s: float | None = None
    is_adaptive: bool = False
    schedule: tuple[ScheduleChange, ...] = ()
    warnings: tuple[str, ...] = ()


class TrialRecord(_Record):
    """What one trial gave.  A failure has a status, a reason, and whatever was measured before it."""

    schema_version: int = SCHEMA_VERSION
    rules_version: int = RULES_VERSION
    trial: TrialSpec
    status: Status
    reason: str | None = None
    corpus: CorpusFacts | None = None
    curve: tuple[CurvePoint, ...] = ()
    measured: Measured | None = None
    memory: Memory | None = None
    parts: Parts | None = None
    train_s: float | None = None
    wall_s: float
    energy: Energy | None = None
    schedule: tuple[ScheduleChange, ...] = ()
    attempts: int = Field(default=1, description="2: its first worker was lost, and the trial was begun anew")
    is_adaptive: bool = False
    warnings: tuple[str, ...] = ()
    environment: Environment | None = None
    started_utc: str
    sha256: str | None = Field(
        default=None, description="of everything else in its file: set where that is written, None in memory"
    )

    @model_validator(mode="after")
    def _failure_has_reason(self) -> TrialRecord:
        if self.status != "ok" and not self.reason:
            raise ValueError(f"a trial with status {self.status!r} needs a reason")
        if self.status == "ok" and self.measured is None:
            raise ValueError("a trial with status 'ok' holds what it measured")
        return self


class RunInfo(_Record):
    """`run.json`: what was asked, and what could not run here and why."""

    schema_version: int = SCHEMA_VERSION
    rules_version: int = RULES_VERSION
    run_id: str
    command: str
    started_utc: str
    plan: tuple[TrialSpec, ...]
    reused: tuple[str, ...] = Field(default=(), description="trial ids whose record was there already")
    unavailable: dict[str, str] = Field(
        default_factory=dict, description="models that cannot run here, with the reason"
    )
    corpora: tuple[CorpusFacts, ...]
    target_perplexities: tuple[float, ...] = ()
    seeds: int = 1
    train_fractions: tuple[float, ...] = (1.0,)
    executor: str = "local"
    threads: int = 1
    quick: bool = False
    no_text: bool = False
    warnings: tuple[str, ...] = ()
    environment: Environment
