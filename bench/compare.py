"""Two runs side by side: what changed, and whether it is more than noise.

`python -m bench.compare A B` pairs the rows of both runs that were measured on the same text under the same rules, and
marks each figure of B against A: `better`, `worse` or `within noise`.  Perplexities are decided by the paired test over
the blocks of the test text that both runs share (Holm-corrected over all rows), throughputs by whether their quartiles
are apart; a figure that was measured once is shown and not judged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.records import Measured, Repeats
from bench.report import wording
from bench.report.reading import read_run
from bench.report.rows import Row, rows_of
from bench.report.sheets import above_baseline, number
from bench.report.tables import summary_of
from bench.stats import Interval, PairTest, Verdict, holm, paired_test
from lmzoo.errors import InputError, LmzooError
from lmzoo.streams import never_raise_on_output

Judgement = Literal["better", "worse", "within noise", "not judged", "same"]

# where no terminal says how wide it is, no cell is cut
_WIDTH_WITHOUT_TERMINAL = 160
ABOVE_BASELINE = "above_baseline"
_FROM_VERDICT: Mapping[Verdict, Judgement] = {"a": "worse", "b": "better", "~": "within noise"}

# what must be equal for two rows to be compared, with the words that say so
_MUST_AGREE = {
    "sha256": "another text",
    "vocab_fingerprint": "another vocabulary",
    "documents": "another cut into documents",
    "normalize": "another normaliser",
    "tokenizer": "another tokenizer",
    "rules_version": "another version of the rules of measuring",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure of one row in both runs."""

    group: str
    model: str
    device: str
    metric: str
    before: float | None
    after: float | None
    judgement: Judgement
    show: Callable[[float | None], str]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A cost or a speed: how it is shown, which direction is better, and how far one value of it can be trusted."""

    name: str
    key: str
    show: Callable[[float | None], str]
    lower_is_better: bool = True
    repeats: Callable[[Measured], Repeats] | None = None


def compare_runs(before: Path, after: Path) -> tuple[list[Change], list[str]]:
    """The changes from one run to another, and why each row that could not be compared was not.

    Raises `InputError` where no row of the one can be compared with any of the other.
    """
    rows_b = {_place(row): row for row in rows_of(read_run(after))}
    couples, refusals = [], []
    for row in rows_of(read_run(before)):
        other = rows_b.pop(_place(row), None)
        why = _refusal(row, other)
        if other is None or why:
            refusals.append(f"{_title(row)}: {why}")
        else:
            couples.append((row, other))
    refusals += [f"{_title(row)}: only in the second run" for row in rows_b.values()]
    if not couples:
        raise InputError(
            f"{before} and {after} have nothing that can be compared: {'; '.join(refusals[:3]) or 'no rows'}; "
            "give two runs of the same models on the same text"
        )
    perplexities = _perplexities(couples)
    changes = [change for (a, b), first in zip(couples, perplexities, strict=True) for change in (first, *_costs(a, b))]
    return changes, refusals


def _perplexities(couples: Sequence[tuple[Row, Row]]) -> list[Change]:
    """Test perplexity, by paired tests that are corrected together."""
    tests = [_paired(a, b) for a, b in couples]
    corrected = holm([test.p if test else None for test in tests])
    changes = []
    for (a, b), test, p in zip(couples, tests, corrected, strict=True):
        judgement: Judgement = "not judged"
        if a.test_perplexity == b.test_perplexity:
            judgement = "same"
        elif test is not None and p is not None:
            judgement = _FROM_VERDICT[test.verdict(p)]
        changes.append(
            _change(a, "test perplexity", a.test_perplexity, b.test_perplexity, judgement, wording.perplexity)
        )
    return changes


def _paired(a: Row, b: Row) -> PairTest | None:
    """The test over the blocks that both share; None where they were cut otherwise."""
    if not (a.is_measured_alike and b.is_measured_alike) or a.block_tokens != b.block_tokens:
        return None
    return paired_test(a.block_nats_SxB, b.block_nats_SxB, np.array(a.block_tokens, np.float64))


def _costs(a: Row, b: Row) -> Iterator[Change]:
    for metric in METRICS:
        before, after = value_of(a, metric), value_of(b, metric)
        if before is not None or after is not None:
            yield _change(a, metric.name, before, after, judge(metric, a, b), metric.show)


def judge(metric: Metric, a: Row, b: Row) -> Judgement:
    """B against A: decided only where the quartiles of both are apart."""
    if value_of(a, metric) == value_of(b, metric):
        return "same"
    first, second = _quartiles(a, metric), _quartiles(b, metric)
    if first is None or second is None:
        return "not judged"
    if first.low <= second.high and second.low <= first.high:
        return "within noise"
    return "better" if (second.high < first.low) == metric.lower_is_better else "worse"


def value_of(row: Row, metric: Metric) -> float | None:
    """A row's value of a metric; memory is what came on top of the imports."""
    summary = summary_of(row)
    return above_baseline(summary) if metric.key == ABOVE_BASELINE else number(summary[metric.key])


def _quartiles(row: Row, metric: Metric) -> Interval | None:
    found = [metric.repeats(m) for m in row.measured] if metric.repeats else []
    return Interval(min(r.low_quartile for r in found), max(r.high_quartile for r in found)) if found else None


def _change(
    row: Row,
    metric: str,
    before: float | None,
    after: float | None,
    judgement: Judgement,
    show: Callable[[float | None], str],
) -> Change:
    return Change(
        group=row.group.title,
        model=row.model,
        device=row.device,
        metric=metric,
        before=before,
        after=after,
        judgement=judgement,
        show=show,
    )


def _title(row: Row) -> str:
    return f"{row.model} on {row.device}, {row.group.title}"


def _place(row: Row) -> tuple[str, str, str, str, str, str, float]:
    """Where a row stands in its run: what a reader would take for the same row of another run."""
    group = row.group
    return (
        row.model,
        row.device,
        group.corpus,
        group.normalize,
        group.tokenizer,
        group.documents,
        group.train_fraction,
    )


def _refusal(a: Row, b: Row | None) -> str | None:
    """Why two rows cannot be compared, or None."""
    if b is None:
        return "only in the first run"
    for row, which in ((a, "first"), (b, "second")):
        if row.status != "ok":
            return f"{row.status} in the {which} run{f' ({row.reason})' if row.reason else ''}"
    differing = [words for key, words in _MUST_AGREE.items() if getattr(a.group, key) != getattr(b.group, key)]
    return f"the second run has {' and '.join(differing)}" if differing else None


METRICS: Sequence[Metric] = (
    Metric(
        name="scoring tokens/s",
        key="eval_tokens_per_s",
        show=wording.count,
        lower_is_better=False,
        repeats=lambda m: m.eval_tokens_per_s,
    ),
    Metric(name="next token, µs", key="next_token_us", show=wording.rounded, repeats=lambda m: m.next_token_us),
    Metric(name="training", key="train_s", show=wording.seconds),
    Metric(name="memory above baseline", key=ABOVE_BASELINE, show=wording.size),
    Metric(name="model size", key="model_bytes", show=wording.size),
)


def _by_group(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """Changes by the text they were measured on: its corpus, tokenizer and cut into documents."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    return groups


def _table(changes: Sequence[Change]) -> Table:
    table = Table("model", "device", "figure", "before", "after", "judgement")
    for change in changes:
        cells = (change.model, change.device, change.metric, change.show(change.before), change.show(change.after))
        table.add_row(*cells, change.judgement)
    return table


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def main(before: Path, after: Path) -> None:
    """Show what changed from the run in BEFORE to the run in AFTER, and whether it is more than noise."""
    never_raise_on_output()
    try:
        changes, refusals = compare_runs(before, after)
    except LmzooError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    for title, members in _by_group(changes).items():
        console.print(f"On {title}:", soft_wrap=True)
        console.print(_table(members))
    for refusal in refusals:
        click.echo(f"not compared: {refusal}")


if __name__ == "__main__":
    main(prog_name="python -m bench.compare")
