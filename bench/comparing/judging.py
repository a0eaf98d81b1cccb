"""What changed between two rows that were measured alike, and whether it is more than noise.

**Perplexities and bits** are judged by the paired test over the blocks of the test text that both rows share.  Of a
network with one seed that holds for the two trained models alone: blocks do not tell how another training would have
ended.

**All else** (times, rates, sizes): the quartiles of one process say nothing of how it differs from the next, which on a
machine under changing load may be twofold.  They are judged where both rows have several processes (a seed is one), by
a test over these; otherwise the figure and its ratio are shown and not judged.  Nor is a time where something else kept
the machine busy, or one that was given as a budget.  No test sees what disturbs all processes of one run alike.

Each kind of tests is corrected for their number (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.comparing.metrics import METRICS, Blocks, Metric, Show
from bench.comparing.pairing import UNITS, Couple, shared_unit
from bench.report import notices
from bench.report.across import bits_of, pieces_test
from bench.report.rows import Row
from bench.stats import PairTest, Verdict, holm, unpaired_test

Judgement = Literal["better", "worse", "within noise", "not judged", "same"]

_FROM_VERDICT: Mapping[Verdict, Judgement] = {"a": "worse", "b": "better", "~": "within noise"}

ONE_SEED = "one seed"
ONE_PROCESS = "one process"
BUSY = "busy machine"
BY_BUDGET = "set by the budget"
NO_TEST = "no paired test"
NO_RATIO = "no ratio"
MISSING = "in one run only"
# what stands under the tables for each judgement and remark that is in them
LEGEND: Mapping[str, str] = {
    "better": "the second run's figure is better by more than noise, or infinite no longer",
    "worse": "the second run's figure is worse by more than noise, or has become infinite",
    "within noise": "the tests find no difference: perplexities and bits are tested over the blocks of the test text, "
    "all else over processes (one a seed), both corrected for the number of tests (Holm)",
    "same": "equal to the last digit",
    ONE_SEED: "what was judged are these two trained models; another seed or, under a budget of seconds, a busier "
    "machine may make as much of a difference",
    ONE_PROCESS: "not judged, since nothing tells how one process differs from the next; --seeds 5 gives each network "
    "five (counting models, and those that are read, run once)",
    BUSY: "something else kept the machine or the device busy during one of the runs: times are not judged, and "
    "perplexities under a budget of seconds may be worse for that alone",
    BY_BUDGET: "the seconds of training were given, not measured",
    NO_TEST: "the runs share no blocks of the test text that a test could be made of",
    NO_RATIO: "a figure that is 0 or infinite has no ratio to another",
    MISSING: "one of the runs has no such figure",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure of one row in both runs.  `remark`: why it is not judged, or what its judgement does not hold for."""

    row: Row
    key: str
    metric: str
    before: float | None
    after: float | None
    judgement: Judgement
    remark: str
    show: Show
    lower_is_better: bool

    @property
    def ratio(self) -> float | None:
        """The second run's figure by the first one's."""
        if not self.before or self.after is None or not math.isfinite(self.before):
            return None
        return self.after / self.before


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """A figure of a row in both runs before it is judged: by a test, or by a judgement that needs none."""

    row: Row
    metric: Metric
    name: str
    before: float | None
    after: float | None
    test: PairTest | None = None
    untested: Judgement = "not judged"
    remark: str = ""


def changes_of(couples: Sequence[Couple], asked: Collection[str] = ()) -> list[Change]:
    """The figures of each pair of rows, judged; those of a row stand together.

    Args:
        asked: keys of figures that are shown beside the usual ones.
    """
    figures = [
        figure for a, b in couples for metric in _metrics_for(a, b, asked) if (figure := _figure_of(metric, a, b))
    ]
    changes = [
        *_judged([figure for figure in figures if figure.metric.blocks]),
        *_judged([figure for figure in figures if not figure.metric.blocks]),
    ]
    # sorting keeps the order of what has the same place
    place = {id(a): n for n, (a, _) in enumerate(couples)}
    return sorted(changes, key=lambda change: place[id(change.row)])


def changes_across(couples: Sequence[Couple]) -> list[Change]:
    """The bits of each pair of rows that cut one text in different ways, where both have bits per one unit."""
    return list(_judged([figure for a, b in couples if (figure := _bits(a, b)) is not None]))


def _metrics_for(a: Row, b: Row, asked: Collection[str]) -> list[Metric]:
    """The usual figures and those asked for; bits stand for a perplexity that neither has, as of a compressor."""
    keys = set(asked)
    if a.test_perplexity is None and b.test_perplexity is None:
        keys |= {f"bits_per_{unit}" for unit in UNITS if bits_of(a, unit) is not None}
    return [metric for metric in METRICS.values() if metric.is_usual or metric.key in keys]


def _bits(a: Row, b: Row) -> _Figure | None:
    """Bits per byte, or per character, tested over the pieces of text that both rows share."""
    unit = shared_unit(a, b)
    if unit is None:
        return None
    return _figure_of(METRICS[f"bits_per_{unit}"], a, b, f"bits/{unit}, {a.group.tokenizer} and {b.group.tokenizer}")


def _judged(figures: Sequence[_Figure]) -> Iterator[Change]:
    """The figures with their judgements, the tests among them corrected together."""
    corrected = holm([figure.test.p if figure.test else None for figure in figures])
    for figure, p in zip(figures, corrected, strict=True):
        judgement = figure.untested
        if figure.test is not None and p is not None:
            judgement = _FROM_VERDICT[figure.test.verdict(p)]
        yield Change(
            row=figure.row,
            key=figure.metric.key,
            metric=figure.name,
            before=figure.before,
            after=figure.after,
            judgement=judgement,
            # doubts are about a difference
            remark="" if judgement == "within noise" else figure.remark,
            show=figure.metric.show,
            lower_is_better=figure.metric.lower_is_better,
        )


def _figure_of(metric: Metric, a: Row, b: Row, name: str = "") -> _Figure | None:
    """A figure of two rows with the test that it is judged by; None where neither has it.

    Args:
        name: what it is called here, where that is not the metric's own name.
    """
    before, after = metric.value(a), metric.value(b)
    if before is None and after is None:
        return None
    test, remark, untested = None, "", _without_test(metric, before, after)
    if before is None or after is None:
        remark = MISSING
    elif untested == "not judged":
        test, remark = _tested(metric, a, b)
    elif untested != "same":
        remark = ", ".join(_doubts(a, b))
    return _Figure(
        row=a,
        metric=metric,
        name=name or metric.name,
        before=before,
        after=after,
        test=test,
        untested=untested,
        remark=remark,
    )


def _without_test(metric: Metric, before: float | None, after: float | None) -> Judgement:
    """What needs no test: equal figures, and one that is infinite in one run, where something became impossible."""
    if before is None or after is None:
        return "not judged"
    if before == after:
        return "same"
    if math.isinf(before) == math.isinf(after):
        return "not judged"
    return "worse" if math.isinf(after) == metric.lower_is_better else "better"


def _tested(metric: Metric, a: Row, b: Row) -> tuple[PairTest | None, str]:
    """The test of a figure that differs, and a remark: what the test does not tell, or why there is none."""
    if metric.blocks is not None:
        test = _paired(metric.blocks(a), metric.blocks(b))
        return test, ", ".join(_doubts(a, b)) if test else NO_TEST
    if obstacle := _obstacle(metric, a, b):
        return None, obstacle
    return _unpaired(metric, a, b), ""


def _paired(a: Blocks | None, b: Blocks | None) -> PairTest | None:
    """The test over the blocks that both share; None where they were cut otherwise, or are too few."""
    test = pieces_test(a, b) if a is not None and b is not None else None
    return test if test is not None and test.p is not None else None


def _doubts(a: Row, b: Row) -> Iterator[str]:
    """What the blocks of the test text cannot tell: how another training would have ended."""
    if a.family == "neural" and a.is_trained and min(len(a.fine), len(b.fine)) == 1:
        yield ONE_SEED
    if _has_budget(a, b) and (_is_busy(a) or _is_busy(b)):
        yield BUSY


def _obstacle(metric: Metric, a: Row, b: Row) -> str:
    """Why a figure cannot be judged over processes; empty where it can."""
    values = [metric.of_processes(row) for row in (a, b)]
    if metric.key == "train_s" and _has_budget(a, b):
        return BY_BUDGET
    if min(map(len, values)) < 2:
        return ONE_PROCESS
    if metric.is_time and (_is_busy(a) or _is_busy(b)):
        return BUSY
    return "" if all(0 < value < math.inf for of_row in values for value in of_row) else NO_RATIO


def _unpaired(metric: Metric, a: Row, b: Row) -> PairTest:
    """The test over processes.  Logarithms, since what disturbs a process does so by a share of its time."""
    sign = 1 if metric.lower_is_better else -1
    logs = [[sign * math.log(value) for value in metric.of_processes(row)] for row in (a, b)]
    return unpaired_test(*logs)


def _has_budget(a: Row, b: Row) -> bool:
    """Whether seconds said how long either row was trained; counting models never have any."""
    return any(trial.budget_s is not None for row in (a, b) for trial in row.trials)


def _is_busy(row: Row) -> bool:
    return bool(notices.about_load(row.fine) or notices.about_devices(row.fine))
