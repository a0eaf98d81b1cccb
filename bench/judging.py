"""What changed between two rows that were measured alike, and whether it is more than noise.

**Perplexities** are judged by the paired test over the blocks of the test text that both rows share.  Of a network with
one seed that holds for the two trained models alone: blocks do not tell how another training would have ended.

**Times, rates and sizes**: the quartiles of one process say nothing of how it differs from the next, which on a machine
under changing load may be twofold.  They are judged where both rows have several processes (a seed is one), by a test
over these; otherwise the figure and its ratio are shown and not judged.  Nor is a time where something else kept the
machine busy, or one that was given as a budget.  No test sees what disturbs all processes of one run alike.

Each kind of tests is corrected for their number (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.records import Repeats, TrialRecord
from bench.report import notices, wording
from bench.report.across import Unit, bits_of, pieces_of, pieces_test
from bench.report.rows import Number, Row
from bench.report.sheets import above_baseline, number
from bench.report.tables import summary_of
from bench.stats import PairTest, Verdict, holm, paired_test, unpaired_test

Judgement = Literal["better", "worse", "within noise", "not judged", "same"]

ABOVE_BASELINE = "above_baseline"
_UNITS: Sequence[Unit] = ("byte", "char")
_FROM_VERDICT: Mapping[Verdict, Judgement] = {"a": "worse", "b": "better", "~": "within noise"}

ONE_SEED = "one seed"
ONE_PROCESS = "one process"
BUSY = "busy machine"
BY_BUDGET = "set by the budget"
NO_TEST = "no paired test"
NO_RATIO = "no ratio"
# what stands under the tables for each judgement and remark that is in them
LEGEND: Mapping[str, str] = {
    "better": "the second run's figure is better by more than noise",
    "worse": "the second run's figure is worse by more than noise",
    "within noise": "the tests find no difference: perplexities are tested over the blocks of the test text, all else "
    "over processes (one a seed), both corrected for the number of tests (Holm)",
    "same": "equal to the last digit",
    ONE_SEED: "what was judged are these two trained models; another seed or, under a budget of seconds, a busier "
    "machine may make as much of a difference",
    ONE_PROCESS: "not judged, since nothing tells how one process differs from the next; --seeds 5 gives each network "
    "five (counting models run once)",
    BUSY: "something else kept the machine or the device busy during one of the runs: times are not judged, and "
    "perplexities under a budget of seconds may be worse for that alone",
    BY_BUDGET: "the seconds of training were given, not measured",
    NO_TEST: "the runs share no blocks of the test text that a test could be made of",
    NO_RATIO: "a figure of 0 has no ratio to another",
}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A cost or a speed: how it is shown, what it is in the record of one process, and which direction is better.

    `is_time`: a busy machine changes it.
    """

    name: str
    key: str
    show: Callable[[float | None], str]
    of: Callable[[TrialRecord], Number | None]
    lower_is_better: bool = True
    is_time: bool = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure of one row in both runs.  `remark`: why it is not judged, or what its judgement does not hold for."""

    row: Row
    metric: str
    before: float | None
    after: float | None
    judgement: Judgement
    remark: str
    show: Callable[[float | None], str]

    @property
    def ratio(self) -> float | None:
        """The second run's figure by the first one's."""
        if not self.before or self.after is None or not math.isfinite(self.before):
            return None
        return self.after / self.before


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """A figure of a pair of rows before it is judged: by a test, or by a judgement that needs none."""

    a: Row
    b: Row
    name: str
    before: float | None
    after: float | None
    show: Callable[[float | None], str]
    test: PairTest | None = None
    untested: Judgement = "not judged"
    remark: str = ""


def changes_of(couples: Sequence[tuple[Row, Row]]) -> list[Change]:
    """The figures of each pair of rows, judged; those of a row stand together."""
    changes = [
        *_judged([_perplexity(a, b) for a, b in couples]),
        *_judged([cost for a, b in couples for cost in _costs(a, b)]),
    ]
    # sorting keeps the order of what has the same place
    place = {id(a): n for n, (a, _) in enumerate(couples)}
    return sorted(changes, key=lambda change: place[id(change.row)])


def changes_across(couples: Sequence[tuple[Row, Row]]) -> list[Change]:
    """The bits of each pair of rows that cut one text in different ways, where both have bits per one unit."""
    figures = [figure for a, b in couples if (figure := _bits(a, b)) is not None]
    return list(_judged(figures))


def _bits(a: Row, b: Row) -> _Figure | None:
    """Bits per byte, or per character, tested over the pieces of text that both rows share."""
    for unit in _UNITS:
        before, after = bits_of(a, unit), bits_of(b, unit)
        if before is None or after is None:
            continue
        of_a, of_b = pieces_of(a, unit), pieces_of(b, unit)
        test = pieces_test(of_a, of_b) if of_a is not None and of_b is not None else None
        return _Figure(
            a=a,
            b=b,
            name=f"bits/{unit}, {a.group.tokenizer} and {b.group.tokenizer}",
            before=before,
            after=after,
            show=wording.perplexity,
            test=test,
            remark=", ".join(_doubts(a, b)) if test else NO_TEST,
        )
    return None


def _judged(figures: Sequence[_Figure]) -> Iterator[Change]:
    """The figures with their judgements, the tests among them corrected together."""
    corrected = holm([figure.test.p if figure.test else None for figure in figures])
    for figure, p in zip(figures, corrected, strict=True):
        judgement = figure.untested
        if figure.test is not None and p is not None:
            judgement = _FROM_VERDICT[figure.test.verdict(p)]
        yield Change(
            row=figure.a,
            metric=figure.name,
            before=figure.before,
            after=figure.after,
            judgement=judgement,
            # doubts are about a difference
            remark="" if judgement == "within noise" else figure.remark,
            show=figure.show,
        )


def _perplexity(a: Row, b: Row) -> _Figure:
    """Test perplexity, tested over the blocks that both rows share."""
    is_same = a.test_perplexity == b.test_perplexity
    test = None if is_same else _paired(a, b)
    return _Figure(
        a=a,
        b=b,
        name="test perplexity",
        before=a.test_perplexity,
        after=b.test_perplexity,
        show=wording.perplexity,
        test=test,
        untested="same" if is_same else "not judged",
        remark="" if is_same else ", ".join(_doubts(a, b)) if test else NO_TEST,
    )


def _paired(a: Row, b: Row) -> PairTest | None:
    """The test over the blocks that both share; None where they were cut otherwise, or are too few."""
    if not (a.is_measured_alike and b.is_measured_alike) or a.block_tokens != b.block_tokens:
        return None
    test = paired_test(a.block_nats_SxB, b.block_nats_SxB, np.array(a.block_tokens, np.float64))
    return test if test.p is not None else None


def _doubts(a: Row, b: Row) -> Iterator[str]:
    """What the blocks of the test text cannot tell: how another training would have ended."""
    if a.family == "neural" and min(len(a.fine), len(b.fine)) == 1:
        yield ONE_SEED
    if _has_budget(a, b) and (_is_busy(a) or _is_busy(b)):
        yield BUSY


def _costs(a: Row, b: Row) -> Iterator[_Figure]:
    for metric in METRICS:
        before, after = _shown(a, metric), _shown(b, metric)
        if before is None and after is None:
            continue
        is_same, remark = before == after, _obstacle(metric, a, b)
        yield _Figure(
            a=a,
            b=b,
            name=metric.name,
            before=before,
            after=after,
            show=metric.show,
            test=None if is_same or remark else _unpaired(metric, a, b),
            untested="same" if is_same else "not judged",
            remark="" if is_same else remark,
        )


def _obstacle(metric: Metric, a: Row, b: Row) -> str:
    """Why a figure cannot be judged; empty where it can."""
    values = [_of_processes(row, metric) for row in (a, b)]
    if metric.key == "train_s" and _has_budget(a, b):
        return BY_BUDGET
    if min(map(len, values)) < 2:
        return ONE_PROCESS
    if metric.is_time and (_is_busy(a) or _is_busy(b)):
        return BUSY
    return "" if min(map(min, values)) > 0 else NO_RATIO


def _unpaired(metric: Metric, a: Row, b: Row) -> PairTest:
    """The test over processes.  Logarithms, since what disturbs a process does so by a share of its time."""
    sign = 1 if metric.lower_is_better else -1
    logs = [[sign * math.log(value) for value in _of_processes(row, metric)] for row in (a, b)]
    return unpaired_test(*logs)


def _of_processes(row: Row, metric: Metric) -> list[float]:
    """A row's values of a metric, one for each seed that has one."""
    return [float(value) for record in row.fine if (value := metric.of(record)) is not None]


def _shown(row: Row, metric: Metric) -> float | None:
    """A row's value of a metric, as the report joins its seeds; memory is what came on top of the imports."""
    summary = summary_of(row)
    return above_baseline(summary) if metric.key == ABOVE_BASELINE else number(summary[metric.key])


def _has_budget(a: Row, b: Row) -> bool:
    """Whether seconds said how long either row was trained; counting models never have any."""
    return any(trial.budget_s is not None for row in (a, b) for trial in row.trials)


def _is_busy(row: Row) -> bool:
    return bool(notices.about_load(row.fine) or notices.about_devices(row.fine))


def _median(repeats: Repeats | None) -> Number | None:
    return None if repeats is None else repeats.median


def _above_baseline(record: TrialRecord) -> Number | None:
    return max(record.memory.peak_rss_bytes - record.memory.baseline_rss_bytes, 0) if record.memory else None


METRICS: Sequence[Metric] = (
    Metric(
        name="scoring tokens/s",
        key="eval_tokens_per_s",
        show=wording.count,
        of=lambda record: _median(record.measured.eval_tokens_per_s) if record.measured else None,
        lower_is_better=False,
        is_time=True,
    ),
    Metric(
        name="next token, µs",
        key="next_token_us",
        show=wording.rounded,
        of=lambda record: _median(record.measured.next_token_us) if record.measured else None,
        is_time=True,
    ),
    Metric(name="training", key="train_s", show=wording.seconds, of=lambda record: record.train_s, is_time=True),
    Metric(name="memory above baseline", key=ABOVE_BASELINE, show=wording.size, of=_above_baseline),
    Metric(
        name="model size",
        key="model_bytes",
        show=wording.size,
        of=lambda record: record.measured.model_bytes.number if record.measured else None,
    ),
)
