"""The four CSV tables.  Columns and their order are part of the public surface: more may be appended, none renamed.

Numbers are written in full (`repr`), infinite as `inf`, truth as `true` or `false`; what is missing is an empty cell.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from bench.records import CorpusFacts, CurvePoint, Figure, Measured, RunInfo, TallyRecord, TrialRecord
from bench.report.excess import excess_of
from bench.report.rows import Group, Number, Pair, Row, geometric_mean, mean, median, typical
from bench.stats import Crossing, first_crossing
from bench.store import write_text

Cell = str | bool | Number | None

GROUP_COLUMNS = ("corpus", "normalize", "tokenizer", "documents", "train_fraction")
SUMMARY_COLUMNS = (
    *("model", *GROUP_COLUMNS, "device", "status", "reason", "reused", "n_seeds"),
    *("test_perplexity", "test_perplexity_low", "test_perplexity_high", "test_perplexity_no_oov", "valid_perplexity"),
    *("bits_per_char", "bits_per_byte", "top1_accuracy", "n_tokens", "n_oov", "n_params", "model_bytes"),
    *("train_s", "wall_s", "train_tokens_per_s", "eval_tokens_per_s", "next_token_us", "next_token_us_p99"),
    *("peak_rss_bytes", "baseline_rss_bytes", "peak_device_bytes", "peak_device_reserved_bytes"),
    *("is_adaptive", "vocab_fingerprint", "kernel", "threads", "rules_version"),
    *("cpu_joules", "device_joules", "energy_source", "excess_nats_per_token"),
    *("test_perplexity_no_oov_low", "test_perplexity_no_oov_high"),
    *("bits_per_char_low", "bits_per_char_high", "bits_per_byte_low", "bits_per_byte_high"),
    *("family", "vocabulary_of"),
)
TARGET_COLUMNS = (
    *("model", *GROUP_COLUMNS, "device", "seed", "target_name", "target_perplexity"),
    *("reached", "after_s", "by_s", "train_tokens", "after_wall_s", "by_wall_s"),
)
CURVE_COLUMNS = (
    *("model", *GROUP_COLUMNS, "device", "seed"),
    *("train_s", "wall_s", "train_tokens", "valid_perplexity"),
)
SIGNIFICANCE_COLUMNS = (
    *(*GROUP_COLUMNS, "device", "model_a", "model_b"),
    *("diff_nats_per_token", "low", "high", "p_holm", "verdict"),
)

# how the values of several seeds become one, by column: first where they come from, then how they are joined
_PERPLEXITIES: Mapping[str, Callable[[Measured], Figure]] = {
    "test_perplexity_no_oov": lambda m: m.test.perplexity_no_oov,
    "valid_perplexity": lambda m: m.valid.perplexity,
}
_MEANS: Mapping[str, Callable[[Measured], Figure]] = {
    "bits_per_char": lambda m: m.test.bits_per_char,
    "bits_per_byte": lambda m: m.test.bits_per_byte,
    "top1_accuracy": lambda m: m.top1_accuracy,
}
_MEDIANS: dict[str, Callable[[Measured], Number | None]] = {
    "n_params": lambda m: m.n_params,
    "model_bytes": lambda m: _whole(m.model_bytes.number),
}
_RATES: dict[str, Callable[[Measured], Number | None]] = {
    "train_tokens_per_s": lambda m: m.train_tokens_per_s,
    "eval_tokens_per_s": lambda m: m.eval_tokens_per_s.median if m.eval_tokens_per_s else None,
    "next_token_us": lambda m: m.next_token_us.median if m.next_token_us else None,
    "next_token_us_p99": lambda m: m.next_token_us_p99,
}
# what a failed trial leaves behind too
_TIMES: dict[str, Callable[[TrialRecord], Number | None]] = {
    "train_s": lambda r: r.train_s,
    "wall_s": lambda r: r.wall_s,
}
_OTHER_COSTS: dict[str, Callable[[TrialRecord], Number | None]] = {
    "peak_rss_bytes": lambda r: r.memory.peak_rss_bytes if r.memory else None,
    "baseline_rss_bytes": lambda r: r.memory.baseline_rss_bytes if r.memory else None,
    "peak_device_bytes": lambda r: r.memory.peak_device_bytes if r.memory else None,
    "peak_device_reserved_bytes": lambda r: r.memory.peak_device_reserved_bytes if r.memory else None,
    "cpu_joules": lambda r: r.energy.cpu_joules.number if r.energy else None,
    "device_joules": lambda r: r.energy.device_joules.number if r.energy else None,
}


def number(cell: Cell) -> float | None:
    """A cell of the summary as a number; None for what is no number."""
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None


def above_baseline(summary: Mapping[str, Cell]) -> float | None:
    """What a trial needed beyond its imports, in bytes."""
    peak, baseline = number(summary["peak_rss_bytes"]), number(summary["baseline_rss_bytes"])
    return None if peak is None or baseline is None else max(peak - baseline, 0)


_FIGURES: Mapping[str, Callable[[Measured], Figure]] = {
    "test_perplexity": lambda m: m.test.perplexity,
    **_PERPLEXITIES,
    **_MEANS,
}


def of_process(record: TrialRecord, column: str) -> Number | None:
    """A figure of one process, under the name of its column in `summary.csv`."""
    if (of_record := (_TIMES | _OTHER_COSTS).get(column)) is not None:
        return of_record(record)
    if record.measured is None:
        return None
    if (figure := _FIGURES.get(column)) is not None:
        return figure(record.measured).number
    return (_MEDIANS | _RATES)[column](record.measured)


def summary_of(row: Row) -> dict[str, Cell]:
    """One row of `summary.csv` by column."""
    costs_from = row.fine or row.records
    tallies = [m.test for m in row.measured]
    facts = [record.corpus for record in row.records if record.corpus]
    excess = excess_of(row)
    return {
        **row_columns(row),
        "status": row.status,
        "reason": _one_line(row.reason) or None,
        "reused": row.is_reused,
        "n_seeds": len(row.fine),
        "test_perplexity": row.test_perplexity,
        "n_tokens": _token_count(tallies, facts, "n_tokens", "n_test_tokens"),
        "n_oov": _token_count(tallies, facts, "n_oov", "n_test_oov"),
        "is_adaptive": row.is_adaptive,
        "family": row.family or None,
        "vocabulary_of": row.group.vocabulary_of or None,
        "vocab_fingerprint": row.group.vocab_fingerprint or None,
        "kernel": " / ".join(sorted({m.kernel for m in row.measured})) or None,
        "threads": row.trials[0].threads if row.trials else None,
        "rules_version": row.group.rules_version,
        "energy_source": " / ".join(dict.fromkeys(source for record in costs_from for source in _sources(record)))
        or None,
        "excess_nats_per_token": excess.nats if excess else None,
        **_intervals(row),
        **{name: geometric_mean(of(m).number for m in row.measured) for name, of in _PERPLEXITIES.items()},
        **{name: mean(of(m).number for m in row.measured) for name, of in _MEANS.items()},
        **{name: median(value(m) for m in row.measured) for name, value in _MEDIANS.items()},
        **{name: typical(rate(m) for m in row.measured) for name, rate in _RATES.items()},
        **{name: typical(time(record) for record in costs_from) for name, time in _TIMES.items()},
        **{name: median(cost(record) for record in costs_from) for name, cost in _OTHER_COSTS.items()},
    }


def _intervals(row: Row) -> dict[str, Cell]:
    """Both ends of each 95 % interval."""
    intervals = {
        "test_perplexity": row.interval,
        "test_perplexity_no_oov": row.interval_no_oov,
        "bits_per_char": row.interval_bits_per_char,
        "bits_per_byte": row.interval_bits_per_byte,
    }
    return {
        f"{name}_{end}": getattr(interval, end) if interval else None
        for name, interval in intervals.items()
        for end in ("low", "high")
    }


def targets_of(rows: Sequence[Row], given: Sequence[float]) -> list[tuple[Row, int, str, float, Crossing]]:
    """When each seed of each row of one group reached each target: (row, seed, target name, perplexity, crossing).

    Targets that were given hold for every model; those of the counting models, for the neural ones.
    """
    counting = counting_levels(rows)
    found = []
    for row in filter(lambda row: row.is_trained, rows):
        targets = {f"ppl={level!r}": level for level in given}
        if row.family == "neural":
            targets |= counting
        for seed, curve in seed_curves(row):
            found += [(row, seed, name, level, first_crossing(curve, level)) for name, level in targets.items()]
    return found


def counting_levels(rows: Iterable[Row]) -> dict[str, float]:
    """The last validation perplexity of each counting model of one group; an infinite one is no target."""
    levels = {}
    for row in rows:
        if row.family == "counting" and row.is_ranked:
            level = geometric_mean(record.curve[-1].valid_perplexity.number for record in row.fine if record.curve)
            if level is not None and math.isfinite(level):
                levels[row.model] = level
    return levels


def seed_curves(row: Row) -> list[tuple[int, tuple[CurvePoint, ...]]]:
    """Each seed's curve, failed seeds included; one that left no record has no points."""
    curves = {record.trial.trial_id: record.curve for record in row.records}
    return [(trial.seed, curves.get(trial.trial_id, ())) for trial in row.trials]


def write_tables(folder: Path, info: RunInfo, groups: Mapping[Group, Sequence[Row]], pairs: Sequence[Pair]) -> None:
    """Write the four tables into `folder`, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for members in groups.values() for row in members]
    given = info.target_perplexities
    tables: dict[str, tuple[Sequence[str], Iterable[Mapping[str, Cell]]]] = {
        "summary": (SUMMARY_COLUMNS, map(summary_of, rows)),
        "curves": (CURVE_COLUMNS, _curve_rows(rows)),
        "targets": (TARGET_COLUMNS, (_target_row(*t) for some in groups.values() for t in targets_of(some, given))),
        "significance": (SIGNIFICANCE_COLUMNS, map(_pair_row, pairs)),
    }
    for name, (columns, cells) in tables.items():
        write_csv(folder / f"{name}.csv", columns, cells, even_empty=True)


def write_csv(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Cell]], *, even_empty: bool = False
) -> None:
    """Write a table; one without rows is no file, not even that of an earlier report, unless `even_empty`."""
    lines = list(rows)
    if lines or even_empty:
        write_text(path, to_csv(columns, lines))
    else:
        path.unlink(missing_ok=True)


def to_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """CSV with LF line ends, columns in the order given."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row[column]) for column in columns] for row in rows)
    return out.getvalue()


def _curve_rows(rows: Iterable[Row]) -> Iterable[dict[str, Cell]]:
    for row in rows:
        for seed, curve in seed_curves(row):
            for point in curve:
                yield {
                    **row_columns(row),
                    "seed": seed,
                    "train_s": point.train_s,
                    "wall_s": point.wall_s,
                    "train_tokens": point.train_tokens,
                    "valid_perplexity": point.valid_perplexity.number,
                }


def _target_row(row: Row, seed: int, name: str, perplexity: float, crossing: Crossing) -> dict[str, Cell]:
    return {
        **row_columns(row),
        "seed": seed,
        "target_name": name,
        "target_perplexity": perplexity,
        "reached": crossing.reached,
        "after_s": crossing.after_s,
        "by_s": crossing.by_s,
        "train_tokens": crossing.train_tokens,
        "after_wall_s": crossing.after_wall_s,
        "by_wall_s": crossing.by_wall_s,
    }


def _pair_row(pair: Pair) -> dict[str, Cell]:
    return {
        **_group_columns(pair.group),
        "device": pair.device,
        "model_a": pair.a.model,
        "model_b": pair.b.model,
        "diff_nats_per_token": pair.test.diff,
        "low": pair.test.low,
        "high": pair.test.high,
        "p_holm": pair.p_holm,
        "verdict": pair.verdict,
    }


def row_columns(row: Row) -> dict[str, Cell]:
    return {"model": row.model, **_group_columns(row.group), "device": row.device}


def _group_columns(group: Group) -> dict[str, Cell]:
    return {name: getattr(group, name) for name in GROUP_COLUMNS}


def _token_count(
    tallies: Sequence[TallyRecord], facts: Sequence[CorpusFacts], scored: str, planned: str
) -> Number | None:
    """Tokens that were scored; where nothing was, those that the corpus holds."""
    counts = [getattr(t, scored) for t in tallies] or [getattr(f, planned) for f in facts]
    return median(counts)


def _sources(record: TrialRecord) -> list[str]:
    """Which counters told what a training cost."""
    return [] if record.energy is None else [s for s in (record.energy.cpu_source, record.energy.device_source) if s]


def _whole(value: float | None) -> Number | None:
    """Bytes come as float from the schema's figures; a whole number of them reads better."""
    return int(value) if value is not None and math.isfinite(value) and value == int(value) else value


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(float(cell)) if isinstance(cell, float) else str(cell)


def _one_line(text: str) -> str:
    return " ".join(text.split())
