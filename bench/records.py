"""The schema of everything that a run writes.  Other modules of the harness exchange only these.

JSON holds no NaN and no infinity: a value that does not exist or is infinite is null with a reason beside it
(`Figure`).  A record names its schema and the rules of measuring that it was made under; neither is ever changed in
place.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bench.measured import Figure as Figure
from bench.measured import Measured as Measured
from bench.measured import Recorded as Recorded
from bench.measured import Repeats as Repeats
from bench.measured import TallyRecord as TallyRecord
from bench.recorded import Count, Fraction
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID, Invalid

# 1: the first.  2: blocks by character, byte and out-of-vocabulary token; agreement of devices; energy; schedule.
# 3: compressors and models that are read; blocks that all tokenizers share.
# 4: profiles: tokens by frequency, position and order, confidence, a passage, a sample; the checks of probabilities.
# Records of an older schema are read; what they do not hold is missing.
SCHEMA_VERSION = 4
# 1: the first.  2: a next token is the median of a repeat's calls, no longer their mean.
RULES_VERSION = 2

Family = Literal["counting", "neural", "coder"]
Status = Literal["ok", "diverged", "out_of_memory", "timed_out", "killed", "failed", "invalid", "refused"]
# a model that has no perplexity by nature, and one that was measured, are no failures
FINE: tuple[Status, ...] = ("ok", "refused")


class CorpusSpec(Recorded):
    """Which text, and how it is read; None: the corpus's own default.  Paths stay in memory, never in a report."""

    name: str | None = None
    train: str | tuple[str, ...] | None = Field(default=None, description="several are read in this order")
    valid: str | None = None
    test: str | None = None
    tokens: str | None = None
    normalize: str | None = None
    documents: str | None = None
    min_freq: Count = 1
    encoding: str = DEFAULT_ENCODING
    invalid: Invalid = DEFAULT_INVALID
    with_test: bool = Field(default=True, description="without, a trial ends with the validation text")
    label: str | None = Field(default=None, description="what it is called where another text has the same name")


class CorpusFacts(Recorded):
    """What was read: the proof that two trials saw the same text under the same policy."""

    name: str
    normalize: str
    tokenizer: str
    documents: str
    min_freq: Count
    sha256: str
    vocab_fingerprint: str
    vocabulary_of: str | None = Field(default=None, description="the model that brought this vocabulary, if one did")
    n_symbols: Count = Field(description="predictable symbols: a uniform model's perplexity")
    n_train_tokens: Count
    n_valid_tokens: Count
    n_test_tokens: Count
    n_test_oov: Count
    n_train_documents: Count
    n_test_documents: Count
    n_blank_lines: Count
    n_markers: Count
    n_normalized: Count = Field(default=0, description="characters that normal forms of Unicode changed")
    n_replaced: Count = Field(default=0, description="invalid sequences of bytes that U+FFFD stands for")
    test_overlap: float = Field(description="share of test lines found verbatim in the training text, 0 to 1")
    entropy_nats: float | None = Field(
        default=None, description="nats per token of the source that the text was drawn from, where that is known"
    )


class TrialSpec(Recorded):
    """One trial: a model on a corpus on a device with a seed, and its limits.  `trial_id` names its file."""

    trial_id: str
    content_key: str = Field(description="hash of everything that decides the result; equal keys may reuse a record")
    model: str = Field(description="the spec as typed, absolute paths cut to the file name")
    spec: str = Field(description="the spec that the worker parses")
    options: dict[str, str | int | float | bool | None] = Field(description="every resolved option")
    family: Family
    corpus: CorpusSpec
    corpus_sha256: str
    code_sha256: str | None = Field(default=None, description="of the sources that planned it; None before schema 2")
    train_fraction: Fraction = 1.0
    device: str = "cpu"
    seed: Count = 0
    budget_s: float | None = None
    epochs: float | None = None
    max_steps: Count | None = None
    threads: Count = 1
    time_limit_s: float | None = None
    memory_limit_bytes: Count | None = None
    quick: bool = False
    with_text: bool = Field(default=True, description="whether its record may hold a passage and a sample")


class Question(Recorded):
    """What a run asks before it starts: which models, texts and devices."""

    models: str = Field(description="the text of --models")
    corpora: tuple[CorpusSpec, ...]
    devices: tuple[str, ...]
    is_elsewhere: bool = Field(default=False, description="trials run on other machines: devices are not looked for")


class ModelFacts(Recorded):
    """A model that can run here, resolved."""

    model: str
    spec: str
    options: dict[str, str | int | float | bool | None]
    family: Family
    description: str = Field(default="", description="what the model is, in a few words")
    is_read: bool = Field(default=False, description="from a file: nothing is trained, and nothing depends on a seed")


class Answer(Recorded):
    """What can run here.  `error`: why the run cannot start, one line; everything else is then empty."""

    error: str | None = None
    models: tuple[ModelFacts, ...] = ()
    unavailable: dict[str, str] = Field(default_factory=dict)
    corpora: tuple[CorpusSpec, ...] = Field(default=(), description="as asked, every choice made")
    facts: tuple[CorpusFacts, ...] = Field(default=(), description="one for each of `corpora`")
    default_budget_s: float = 0.0


class ScheduleChange(Recorded):
    """Where a schedule of the training changed: which, to what, after which optimiser step and training second."""

    schedule: str
    value: str
    step: Count
    train_s: float


class CurvePoint(Recorded):
    """One validation of the schedule, on the first 100,000 validation tokens."""

    train_s: float
    wall_s: float
    train_tokens: Count
    valid_perplexity: Figure


class Memory(Recorded):
    """Bytes of the trial's own process; device figures are null on a CPU, never 0."""

    peak_rss_bytes: Count
    baseline_rss_bytes: Count
    peak_device_bytes: Count | None = None
    peak_device_reserved_bytes: Count | None = None


class Energy(Recorded):
    """Joules that the machine's own counters tell of one training, validations included; absent ones have a reason.

    A counter counts for the whole processor or device, whoever uses it; beside other load there is no figure.
    """

    cpu_joules: Figure
    cpu_source: str | None = None
    device_joules: Figure
    device_source: str | None = None
    seconds: float = Field(description="wall-clock seconds that the counters cover")


class Parts(Recorded):
    """Where the wall clock went, in seconds."""

    start_and_imports_s: float
    load_s: float
    train_s: float | None = Field(description="None: nothing was trained")
    compile_s: float | None = None
    validate_s: float
    test_s: float
    throughput_s: float
    profile_s: float = 0.0


class Environment(Recorded):
    """The machine and the software, without any name of user, host or folder."""

    python: str
    platform: str
    cpu_model: str
    n_cpus_usable: Count
    n_cpus: Count | None = Field(default=None, description="CPUs of the whole machine, whose load `load_1min` is")
    load_1min: float | None
    memory_total_bytes: Count | None
    versions: dict[str, str]
    thread_variables: dict[str, str]
    git_commit: str | None = None
    git_dirty: bool | None = None
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    device_shared: bool | None = Field(default=None, description="another process used the device meanwhile")


class SoFar(Recorded):
    """What a trial had measured when it told of it: all that is left of one that is stopped later."""

    corpus: CorpusFacts | None = None
    curve: tuple[CurvePoint, ...] = ()
    parts: Parts | None = None
    train_s: float | None = None
    is_adaptive: bool = False
    schedule: tuple[ScheduleChange, ...] = ()
    warnings: tuple[str, ...] = ()


class TrialRecord(Recorded):
    """What one trial gave.  A failure has a status, a reason, and whatever was measured before it."""

    schema_version: Count = SCHEMA_VERSION
    rules_version: Count = RULES_VERSION
    trial: TrialSpec
    status: Status
    reason: str | None = None
    corpus: CorpusFacts | None = None
    curve: tuple[CurvePoint, ...] = ()
    measured: Measured | None = None
    valid: TallyRecord | None = Field(default=None, description="of a trial that ends with the validation text")
    memory: Memory | None = None
    parts: Parts | None = None
    train_s: float | None = None
    wall_s: float
    energy: Energy | None = None
    schedule: tuple[ScheduleChange, ...] = ()
    attempts: Count = Field(default=1, description="2: its first worker was lost, and the trial was begun anew")
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
        if self.status == "ok" and self.measured is None and self.valid is None:
            raise ValueError("a trial with status 'ok' holds what it measured")
        return self

    @model_validator(mode="after")
    def _measured_what_was_read(self) -> TrialRecord:
        if self.corpus is None or self.measured is None:
            return self
        test = self.measured.test
        for name, got, want in (
            ("tokens", test.n_tokens, self.corpus.n_test_tokens),
            ("tokens out of vocabulary", test.n_oov, self.corpus.n_test_oov),
        ):
            if got != want:
                raise ValueError(f"{got} {name} were scored, but the test text that was read has {want}")
        return self


class RunInfo(Recorded):
    """`run.json`: what was asked, and what could not run here and why."""

    schema_version: Count = SCHEMA_VERSION
    rules_version: Count = RULES_VERSION
    run_id: str
    command: str
    started_utc: str
    plan: tuple[TrialSpec, ...]
    reused: tuple[str, ...] = Field(default=(), description="trial ids whose record was there already")
    unavailable: dict[str, str] = Field(
        default_factory=dict, description="models that cannot run here, with the reason"
    )
    descriptions: dict[str, str] = Field(default_factory=dict, description="what each model is, by its name")
    corpora: tuple[CorpusFacts, ...]
    target_perplexities: tuple[Annotated[float, Field(gt=0)], ...] = ()
    seeds: Count = 1
    train_fractions: tuple[Fraction, ...] = (1.0,)
    executor: str = "local"
    threads: Count = 1
    quick: bool = False
    no_text: bool = False
    warnings: tuple[str, ...] = ()
    environment: Environment

    @model_validator(mode="after")
    def _trials_have_names_of_their_own(self) -> RunInfo:
        counts = Counter(trial.trial_id for trial in self.plan)
        if twice := next((name for name, count in counts.items() if count > 1), None):
            raise ValueError(f"the plan has {twice} {counts[twice]} times; each trial has a trial_id of its own")
        return self
