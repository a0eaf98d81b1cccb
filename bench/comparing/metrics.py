"""The figures that runs are compared by: direction, unit, and what tells how far chance alone moves each.

A figure has the name of its column in `summary.csv`, and its value; the one that is no column is memory above the
baseline.  Those that are ratios of sums over the test text are judged over its blocks, all others over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.records import TrialRecord
from bench.report import wording
from bench.report.across import Unit, pieces_of
from bench.report.rows import Row
from bench.report.sheets import above_baseline, number
from bench.report.tables import of_process, summary_of
from bench.stats import Floats

ABOVE_BASELINE = "above_baseline_bytes"

Show = Callable[[float | None], str]
# sums over blocks, a row per seed, and what they are divided by
Blocks = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of a row.

    `blocks`: the sums over blocks of the test text that it is made of, where there are any.  `is_time`: a busy machine
    changes it.  `is_usual`: every comparison shows it, the others are shown where they are asked for.
    """

    key: str
    name: str
    show: Show
    blocks: Callable[[Row], Blocks | None] | None = None
    lower_is_better: bool = True
    is_time: bool = False
    is_usual: bool = False

    def value(self, row: Row) -> float | None:
        """A row's value as the report joins its seeds; None where it has none."""
        summary = summary_of(row)
        return above_baseline(summary) if self.key == ABOVE_BASELINE else number(summary[self.key])

    def of(self, record: TrialRecord) -> float | None:
        """The value of one process."""
        if self.key == ABOVE_BASELINE:
            return above_baseline({name: of_process(record, name) for name in ("peak_rss_bytes", "baseline_rss_bytes")})
        return number(of_process(record, self.key))

    def of_processes(self, row: Row) -> list[float]:
        """The value of each process of a row that has one; a seed is a process."""
        return [value for record in row.fine if (value := self.of(record)) is not None]

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


_QUALITIES = (
    Metric(
        key="test_perplexity",
        name="test perplexity",
        show=wording.perplexity,
        blocks=_tokens,
        is_usual=True,
    ),
    Metric(
        key="test_perplexity_no_oov",
        name="test perplexity without OOV",
        show=wording.perplexity,
        blocks=_known_tokens,
    ),
    Metric(
        key="bits_per_byte",
        name="bits/byte",
        show=wording.perplexity,
        blocks=_pieces("byte"),
    ),
    Metric(
        key="bits_per_char",
        name="bits/char",
        show=wording.perplexity,
        blocks=_pieces("char"),
    ),
    Metric(
        key="valid_perplexity",
        name="validation perplexity",
        show=wording.perplexity,
    ),
    Metric(
        key="top1_accuracy",
        name="top-1 accuracy",
        show=wording.percent,
        lower_is_better=False,
    ),
)
_TIMES = (
    Metric(
        key="eval_tokens_per_s",
        name="scoring tokens/s",
        show=wording.count,
        lower_is_better=False,
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="next_token_us",
        name="next token, µs",
        show=wording.rounded,
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="next_token_us_p99",
        name="next token, 99th percentile, µs",
        show=wording.rounded,
        is_time=True,
    ),
    Metric(
        key="train_s",
        name="training",
        show=wording.seconds,
        is_time=True,
        is_usual=True,
    ),
    Metric(
        key="train_tokens_per_s",
        name="training tokens/s",
        show=wording.count,
        lower_is_better=False,
        is_time=True,
    ),
    Metric(
        key="wall_s",
        name="wall clock",
        show=wording.seconds,
        is_time=True,
    ),
)
_SIZES = (
    Metric(
        key=ABOVE_BASELINE,
        name="memory above baseline",
        show=wording.size,
        is_usual=True,
    ),
    Metric(
        key="peak_rss_bytes",
        name="peak memory",
        show=wording.size,
    ),
    Metric(
        key="peak_device_bytes",
        name="device peak allocated",
        show=wording.size,
    ),
    Metric(
        key="model_bytes",
        name="model size",
        show=wording.size,
        is_usual=True,
    ),
    Metric(key="n_params", name="parameters", show=wording.count),
    Metric(
        key="cpu_joules",
        name="processor, J",
        show=wording.rounded,
    ),
    Metric(
        key="device_joules",
        name="device, J",
        show=wording.rounded,
    ),
)
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in (*_QUALITIES, *_TIMES, *_SIZES)}
