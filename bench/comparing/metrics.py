"""The figures that runs are compared by: direction, unit, and what tells how far chance alone moves each.

A figure has the name of its column in `summary.csv`, and its value; the one that is no column is memory above the
baseline.  Those that are ratios of sums over the test text are judged over its blocks, all others over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.measured import Measured
from bench.records import TrialRecord
from bench.report import wording
from bench.report.across import Unit, pieces_of
from bench.report.rows import Number, Row
from bench.report.sheets import above_baseline, number
from bench.report.tables import summary_of
from bench.stats import Floats

ABOVE_BASELINE = "above_baseline_bytes"

Show = Callable[[float | None], str]
# sums over blocks, a row per seed, and what they are divided by
Blocks = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of a row.

    `of`: its value in the record of one process.  `blocks`: the sums over blocks of the test text that it is made of,
    where there are any.  `is_time`: a busy machine changes it.  `is_usual`: every comparison shows it, the others are
    shown where they are asked for.
    """

    key: str
    name: str
    show: Show
    of: Callable[[TrialRecord], Number | None]
    blocks: Callable[[Row], Blocks | None] | None = None
    lower_is_better: bool = True
    is_time: bool = False
    is_usual: bool = False

    def value(self, row: Row) -> float | None:
        """A row's value as the report joins its seeds; None where it has none."""
        summary = summary_of(row)
        return above_baseline(summary) if self.key == ABOVE_BASELINE else number(summary[self.key])

    def of_processes(self, row: Row) -> list[float]:
        """The value of each process of a row that has one; a seed is a process."""
        return [float(value) for record in row.fine if (value := self.of(record)) is not None]

    def span(self, row: Row) -> tuple[float, float] | None:
        """The 95 % interval where the report has one, else the lowest and the highest of several processes."""
        summary = summary_of(row)
        low, high = (number(summary.get(f"{self.key}_{end}")) for end in ("low", "high"))
        if low is not None and high is not None:
            return low, high
        values = self.of_processes(row)
        return (min(values), max(values)) if len(values) > 1 and self.blocks is None else None


def _tokens(row: Row) -> Blocks | None:
    """Nats and tokens."""
    return (row.block_nats_SxB, _sizes(row.block_tokens)) if row.is_measured_alike else None


def _known_tokens(row: Row) -> Blocks | None:
    """Nats and tokens, those that are in the vocabulary."""
    if not any(m.test.n_oov for m in row.measured):
        return _tokens(row)
    if not row.is_measured_alike or not all(m.block_known_tokens for m in row.measured):
        return None
    return row.per_seed("block_known_nats"), _sizes(row.measured[0].block_known_tokens)


def _pieces(unit: Unit) -> Callable[[Row], Blocks | None]:
    """Bits, what spelling unknown tokens costs included, and bytes or characters."""
    return lambda row: pieces_of(row, unit)


def _sizes(of_blocks: Sequence[float]) -> Floats:
    return np.array(of_blocks, np.float64)


def _measured(value: Callable[[Measured], Number | None]) -> Callable[[TrialRecord], Number | None]:
    return lambda record: value(record.measured) if record.measured else None


def _above_baseline(record: TrialRecord) -> Number | None:
    return max(record.memory.peak_rss_bytes - record.memory.baseline_rss_bytes, 0) if record.memory else None


_QUALITIES = (
    Metric(
        key="test_perplexity",
        name="test perplexity",
        show=wording.perplexity,
        of=_measured(lambda m: m.test.perplexity.number),
        blocks=_tokens,
        is_usual=True,
    ),
    Metric(
        key="test_perplexity_no_oov",
        name="test perplexity without OOV",
        show=wording.perplexity,
        of=_measured(lambda m: m.test.perplexity_no_oov.number),
        blocks=_known_tokens,
    ),
    Metric(
        key="bits_per_byte",
        name="bits/byte",
        show=wording.perplexity,
        of=_measured(lambda m: m.test.bits_per_byte.number),
        blocks=_pieces("byte"),
    ),
    Metric(
        key="bits_per_char",
        name="bits/char",
        show=wording.perplexity,
        of=_measured(lambda m: m.test.bits_per_char.number),
        blocks=_pieces("char"),
    ),
    Metric(
        key="valid_perplexity",
        name="validation perplexity",
        show=wording.perplexity,
        of=_measured(lambda m: m.valid.perplexity.number),
    ),
    Metric(
        key="top1_accuracy",
        name="top-1 accuracy",
        show=wording.percent,
        of=_measured(lambda m: m.top1_accuracy.number),
        lower_is_better=False,
    ),
)
_TIMES = (
    Metric(
        key="eval_tokens_per_s",
        name="scoring tokens/s",
        show=wording.count,
        of=_measured(lambda m: m.eval_tokens_per_s.median if m.eval_tokens_per_s else None),
        lower_is_better=False,
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="next_token_us",
        name="next token, µs",
        show=wording.rounded,
        of=_measured(lambda m: m.next_token_us.median if m.next_token_us else None),
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="next_token_us_p99",
        name="next token, 99th percentile, µs",
        show=wording.rounded,
        of=_measured(lambda m: m.next_token_us_p99),
        is_time=True,
    ),
    Metric(
        key="train_s",
        name="training",
        show=wording.seconds,
        of=lambda record: record.train_s,
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="train_tokens_per_s",
        name="training tokens/s",
        show=wording.count,
        of=_measured(lambda m: m.train_tokens_per_s),
        lower_is_better=False,
        is_time=True,
    ),
    Metric(
        key="wall_s",
        name="wall clock",
        show=wording.seconds,
        of=lambda record: record.wall_s,
        is_time=True,
    ),
)
_SIZES = (
    Metric(
        key=ABOVE_BASELINE,
        name="memory above baseline",
        show=wording.size,
        of=_above_baseline,
        is_usual=True,
    ),
    Metric(
        key="peak_rss_bytes",
        name="peak memory",
        show=wording.size,
        of=lambda record: record.memory.peak_rss_bytes if record.memory else None,
    ),
    Metric(
        key="peak_device_bytes",
        name="device peak allocated",
        show=wording.size,
        of=lambda record: record.memory.peak_device_bytes if record.memory else None,
    ),
    Metric(
        key="model_bytes",
        name="model size",
        show=wording.size,
        of=_measured(lambda m: m.model_bytes.number),
        is_usual=True,
    ),
    Metric(key="n_params", name="parameters", show=wording.count, of=_measured(lambda m: m.n_params)),
    Metric(
        key="cpu_joules",
        name="processor, J",
        show=wording.rounded,
        of=lambda record: record.energy.cpu_joules.number if record.energy else None,
    ),
    Metric(
        key="device_joules",
        name="device, J",
        show=wording.rounded,
        of=lambda record: record.energy.device_joules.number if record.energy else None,
    ),
)
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in (*_QUALITIES, *_TIMES, *_SIZES)}
