"""Thresholds of `--fail-on`: by how much a figure may get worse, and what of it a comparison shows.

A figure fails where it is worse by more than its threshold, whatever a test says of noise: a gate that lets pass what
its test is too weak to see would let a small text, or many models at once, hide a loss.  A figure that the first run
has and that cannot be compared fails too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.comparing.comparison import Comparison
from bench.comparing.judging import Change
from bench.comparing.metrics import METRICS, Metric, Show
from bench.comparing.naming import counted
from bench.comparing.pairing import title_of
from bench.report import wording
from bench.report.rows import Row
from lmzoo.errors import InputError, named

_NUMBER = r"[0-9.]+(?:e[+-]?[0-9]+)?"
_FORM = re.compile(rf"\s*(?P<key>\w+)\s*:\s*(?:(?P<share>{_NUMBER})\s*%|\+\s*(?P<amount>{_NUMBER}))\s*")


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """How much worse a figure may be: `most` is a share of the first run's, or an amount in the figure's own unit."""

    text: str
    metric: Metric
    most: float
    is_share: bool


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What is no failure: a worsening that the tests find within noise, a figure that cannot be compared."""

    noise: bool = False
    missing: bool = False


@dataclass(frozen=True, kw_only=True)
class Check:
    """A threshold held against a comparison: how many rows had both figures, and a sentence for each failure.

    `n_left_out`: rows without the figure in the first run, as those that failed there: nothing of them can be lost.
    `n_noise`, `n_missing`: those that would have failed, had a worsening within noise, or a missing figure, not been
    allowed.
    """

    threshold: Threshold
    n_compared: int
    n_left_out: int
    n_noise: int
    n_missing: int
    failures: Sequence[str]

    @property
    def sentence(self) -> str:
        """The outcome in a line."""
        told = [f"{counted(self.n_compared, 'row')} compared{'' if self.n_noise else ', none worse by more'}"]
        if self.failures:
            told = [counted(len(self.failures), "failure")]
        told += [f"{what}: allowed" for what in self.allowed]
        if self.n_left_out:
            told.append(f"{counted(self.n_left_out, 'row')} left out, without the figure in the first run")
        return f"--fail-on {self.threshold.text}: {'; '.join(told)}"

    @property
    def allowed(self) -> list[str]:
        """What would have failed and was let pass, where anything was."""
        found = {"worse by more but within noise": self.n_noise, "missing": self.n_missing}
        return [f"{n:,} {what}" for what, n in found.items() if n]


def threshold_of(text: str) -> Threshold:
    """From `test_perplexity:1%`, or `test_perplexity:+0.05`.  Raises `InputError`."""
    match = _FORM.fullmatch(text)
    key = match["key"] if match else text.partition(":")[0].strip()
    # an unknown figure is told before a missing percent sign
    metric = named(key, METRICS, "figure") if key.isidentifier() else None
    most = _number(match["share"] or match["amount"]) if match else None
    if match is None or metric is None or most is None:
        raise InputError(
            f"--fail-on {text!r} is no threshold; write a figure and a share of it, such as test_perplexity:1%, or an "
            "amount in its own unit, such as test_perplexity:+0.05"
        )
    is_share = match["share"] is not None
    return Threshold(text=text.strip(), metric=metric, most=most / 100 if is_share else most, is_share=is_share)


def checked(comparison: Comparison, threshold: Threshold, tolerance: Tolerance) -> Check:
    """What a threshold says of a comparison that has its figure."""
    changes = {id(change.row): change for change in comparison.changes if change.key == threshold.metric.key}
    failures, n_compared, n_left_out, n_noise, n_missing = [], 0, 0, 0, 0
    for row in comparison.rows:
        if row.status != "ok" or threshold.metric.value(row) is None:
            n_left_out += 1
            continue
        change = changes.get(id(row))
        if change is None or change.after is None:
            n_missing += tolerance.missing
            failures += [] if tolerance.missing else [_missing(comparison, row, threshold.metric, change)]
            continue
        n_compared += 1
        if _exceeds(change, threshold):
            is_allowed = tolerance.noise and change.judgement == "within noise"
            n_noise += is_allowed
            failures += [] if is_allowed else [_worse(change, threshold)]
    if not n_compared and not failures and not tolerance.missing:
        failures.append(f"{threshold.metric.key}: no row has it in both runs, so nothing was checked")
    return Check(
        threshold=threshold,
        n_compared=n_compared,
        n_left_out=n_left_out,
        n_noise=n_noise,
        n_missing=n_missing,
        failures=failures,
    )


def loss_of(before: float, after: float, *, lower_is_better: bool) -> float:
    """By how much the second figure is worse, in its own unit; below 0 where it is better."""
    # two infinite figures differ by nothing, and not by NaN
    if before == after:
        return 0.0
    return after - before if lower_is_better else before - after


def share_lost(before: float, after: float, *, lower_is_better: bool) -> float:
    """The same as a share of the first figure; infinite where that is 0 and the second is worse."""
    loss = loss_of(before, after, lower_is_better=lower_is_better)
    if loss <= 0 or not math.isfinite(loss):
        return max(loss, 0.0)
    return loss / abs(before) if before else math.inf


def _exceeds(change: Change, threshold: Threshold) -> bool:
    if change.before is None or change.after is None:
        return False
    lost = share_lost if threshold.is_share else loss_of
    return lost(change.before, change.after, lower_is_better=change.lower_is_better) > threshold.most


def _points(share: float | None) -> str:
    """A difference of two shares, which is no share of either."""
    return wording.percent(share).replace("%", "points")


# how a difference of figures is written, where not as the figures themselves
_AMOUNTS: Mapping[Show, Show] = {wording.percent: _points}


def _worse(change: Change, threshold: Threshold) -> str:
    """The loss in the threshold's own kind, except that there is no share of nothing."""
    before, after = change.before or 0.0, change.after or 0.0
    direction = {"lower_is_better": change.lower_is_better}
    amount = _AMOUNTS.get(change.show, change.show)
    share = share_lost(before, after, **direction)
    is_share = threshold.is_share and math.isfinite(share)
    by = wording.percent(share) if is_share else amount(loss_of(before, after, **direction))
    most = wording.percent(threshold.most) if threshold.is_share else amount(threshold.most)
    remark = f", {change.remark}" if change.remark else ""
    return (
        f"{title_of(change.row)}: {change.metric} went from {change.show(before)} to {change.show(after)}, worse by "
        f"{by}, more than {most} ({change.judgement}{remark})"
    )


def _missing(comparison: Comparison, row: Row, metric: Metric, change: Change | None) -> str:
    if change is not None:
        why = "the second run has no such figure"
    else:
        reasons: Iterator[str] = (refusal.reason for refusal in comparison.refusals if refusal.row is row)
        why = next(reasons, "the second run cuts the text into other tokens, so bits alone are compared")
    return f"{title_of(row)}: {metric.name} {metric.show(metric.value(row))} cannot be compared: {why}"


def _number(text: str) -> float | None:
    """A finite number of at least 0; None for what only looks like one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
