"""The tables of the report, rounded for reading, one group at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.records import FINE, Figure, Measured
from bench.report import wording
from bench.report.answer import label_of, share_below, test_of, times_to_targets, verdicts_of
from bench.report.front import MEMORY, MODEL_SIZE, NEXT_TOKEN, SCORING, front_notes
from bench.report.reasons import REASONS, reason_of
from bench.report.rows import Pair, Row, ranked, ranked_first, typical
from bench.report.tables import Cell, summary_of, targets_of
from bench.report.tables import above_baseline as above_baseline
from bench.report.tables import number as number

# a wider matrix than this is not readable: a picture takes its place, or a list of ties where it could not be drawn
MAX_MATRIX = 14
MATRIX = "significance"
_MAX_TARGETS = 6
_SIGNS = {"better": "+", "worse": "-", "~": "~"}


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table as text.  `align` has a letter a column: `l`, `r`, `n`, a model's name, or `s`, one of the signs + - ~.

    `notes` stand under it.
    """

    caption: str
    headers: Sequence[str]
    align: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


_PARTS = {
    "start_and_imports_s": "start, imports",
    "load_s": "load the text",
    "train_s": "train",
    "compile_s": "of it, compile",
    "validate_s": "validate",
    "test_s": "test",
    "throughput_s": "throughput",
    "profile_s": "profile",
}

Part = tuple[str, tuple[str, ...], list[Sheet]]
Column = tuple[str, Callable[[Mapping[str, Cell]], str]]


def sheets_of(rows: Sequence[Row], pairs: Sequence[Pair], given: Sequence[float]) -> list[Part]:
    """The parts of a group's report: title, stems of the plots that belong to it, tables."""
    summaries = {id(row): summary_of(row) for row in rows}
    order = ranked_first(rows)
    parts: list[Part] = [("Ranking", ("perplexity",), [_ranking(order, summaries, pairs)])]
    parts.append(("Speed to perplexity", ("validation", "tokens"), _speed_to_targets(order, given)))
    costed = [row for row in order if row.records]
    columns = [*_speed_columns(rows), *_energy_columns(summaries.values())]
    fronts = front_notes(rows, (SCORING, NEXT_TOKEN))
    seconds = [*_plain("cost in time", costed, rows, summaries, columns, fronts), *_wall_clock(costed, rows)]
    parts.append(("Seconds and throughput", ("speed",), seconds))
    sizes = _plain("bytes", costed, rows, summaries, _memory_columns(rows), front_notes(rows, (MODEL_SIZE, MEMORY)))
    parts.append(("Memory and size", ("memory", "size"), sizes))
    parts.append(("Which differences are more than noise", (MATRIX,), _significance(rows, pairs)))
    return parts


def _column(name: str, key: str, show: Callable[[float | None], str]) -> Column:
    return name, lambda summary: show(number(summary[key]))


def _with_interval(name: str, key: str, digits: int = 3) -> Column:
    def cell(summary: Mapping[str, Cell]) -> str:
        value, low, high = (number(summary[f"{key}{end}"]) for end in ("", "_low", "_high"))
        return wording.with_interval(value, low, high, digits)

    return name, cell


# both in a cell: the table is wide enough
_NEXT_TOKEN = "next token, µs (p99)"


def _with_percentile(median_us: float | None, p99_us: float | None) -> str:
    return wording.rounded(median_us) + (f" ({wording.rounded(p99_us)})" if p99_us is not None else "")


_QUALITY: Sequence[Column] = (
    ("95 % interval", lambda s: wording.interval(number(s["test_perplexity_low"]), number(s["test_perplexity_high"]))),
    _with_interval("bits/char", "bits_per_char"),
    _with_interval("bits/byte", "bits_per_byte"),
    _column("top-1", "top1_accuracy", wording.percent),
    _column("size", "model_bytes", wording.size),
    _column("training", "train_s", wording.seconds),
    _column("tokens/s", "eval_tokens_per_s", wording.count),
    (_NEXT_TOKEN, lambda s: _with_percentile(number(s["next_token_us"]), number(s["next_token_us_p99"]))),
    _column("peak memory", "peak_rss_bytes", wording.size),
)


# both where some test token is out of vocabulary
_WITHOUT_OOV = _with_interval("without OOV", "test_perplexity_no_oov", digits=4)
_OOV: Column = ("OOV", lambda summary: wording.percent(_oov(summary)))
_WITH_REASON: Mapping[str, Callable[[Measured], Figure | None]] = {
    "test perplexity": REASONS["test_perplexity"],
    _WITHOUT_OOV[0]: REASONS["test_perplexity_no_oov"],
    "95 % interval": REASONS["interval"],
    "bits/char": REASONS["bits_per_char"],
    "bits/byte": REASONS["bits_per_byte"],
    "top-1": REASONS["top1_accuracy"],
    "size": REASONS["model_bytes"],
    "training": REASONS["train_s"],
    "tokens/s": REASONS["eval_tokens_per_s"],
    _NEXT_TOKEN: REASONS["next_token_us"],
}


def _ranking(order: Sequence[Row], summaries: Mapping[int, Mapping[str, Cell]], pairs: Sequence[Pair]) -> Sheet:
    """All rows, those without a rank last, with the reason."""
    has_oov = any(_oov(summary) for summary in summaries.values())
    beside = [_WITHOUT_OOV] if has_oov else []
    columns = [*_QUALITY, *([_OOV] if has_oov else [])]
    has_failures = not all(row.is_ranked for row in order)
    against = against_first(order, pairs)
    rows = []
    for place, row in enumerate(order, start=1):
        summary = summaries[id(row)]
        rows.append(
            [
                str(place) if row.is_ranked else "",
                label_of(row, order),
                wording.perplexity(row.test_perplexity) if row.is_ranked else _status(row),
                *[show(summary) for _, show in beside],
                against[place - 1],
                *[show(summary) for _, show in columns],
                *([_why_not_ranked(row)] if has_failures else []),
            ]
        )
    names = [[name for name, _ in part] for part in (beside, columns)]
    why = ("why not ranked",) if has_failures else ()
    headers = ("#", "model", "test perplexity", *names[0], "against best", *names[1], *why)
    return Sheet(
        caption="ranked by test perplexity",
        headers=headers,
        align="rnr" + "r" * len(beside) + "l" + "r" * len(columns) + "l" * len(why),
        rows=rows,
        notes=[*_impossible(order), *_reasons(order, headers)],
    )


def against_first(order: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    """How each row fares against the first: `best`, `~`, `worse`; n/a where the two could not be tested."""
    of_best = verdicts_of(order[0], pairs)
    turned = {"better": "worse", "worse": "better", "~": "~"}
    found = [turned.get(of_best.get((row.model, row.device), ""), wording.NOT_AVAILABLE) for row in order]
    return ["best", *found[1:]] if order[0].is_ranked else found


def _status(row: Row) -> str:
    return row.status_in_words if row.status != "ok" else wording.NOT_AVAILABLE


def _why_not_ranked(row: Row) -> str:
    """The reason of a row without a rank, and what its seeds reached that did not fail."""
    if row.is_ranked:
        return ""
    others = f"; the others reached {wording.perplexity(row.test_perplexity)}" if row.test_perplexity else ""
    why = reason_of(row, "test_perplexity") if row.status in FINE else row.reason or row.status_in_words
    return f"{why}{others}"


def _oov(summary: Mapping[str, Cell]) -> float | None:
    """Share of the test tokens that are out of vocabulary."""
    n_oov, n_tokens = number(summary["n_oov"]), number(summary["n_tokens"])
    return None if n_oov is None or not n_tokens else n_oov / n_tokens


def _reasons(order: Sequence[Row], headers: Sequence[str]) -> list[str]:
    """Why a figure of a column is missing: each reason once, with the models where it is not that of all."""
    found: dict[tuple[str, str], list[str]] = {}
    measured = [row for row in order if row.measured]
    for row in measured:
        for name, of in ((name, of) for name, of in _WITH_REASON.items() if name in headers):
            for figure in filter(None, map(of, row.measured)):
                models = found.setdefault((name, figure.reason or ""), []) if figure.number is None else []
                if label_of(row, order) not in models:
                    models.append(label_of(row, order))
    return [
        f"{name} n/a{'' if len(models) == len(measured) else f' ({wording.named(models)})'}: {reason}"
        for (name, reason), models in found.items()
    ]


def _impossible(order: Sequence[Row]) -> list[str]:
    """How many test tokens each model of infinite perplexity held for impossible."""
    return [
        f"{wording.isolated(label_of(row, order))} inf: "
        f"{max(m.test.n_zero for m in row.measured):,} zero-probability tokens"
        for row in order
        if row.is_ranked and row.test_perplexity == math.inf
    ]


def _speed_to_targets(order: Sequence[Row], given: Sequence[float]) -> list[Sheet]:
    found = targets_of(order, given)
    times = times_to_targets(order, given)
    levels = {name: level for _, _, name, level, _ in found}
    names = shown_targets(levels)
    rows = []
    for row in order:
        cells = [_time_cell(times.get((row.model, row.device, name))) for name in names]
        if any(cell != wording.NOT_AVAILABLE for cell in cells):
            rows.append((label_of(row, order), *cells))
    if not rows:
        return []
    headers = ("model", *[f"{name} ({wording.perplexity(levels[name])})" for name in names])
    caption = "training seconds until the validation perplexity was at or below a target (after: the validation before)"
    return [Sheet(caption=caption, headers=headers, align="n" + "r" * len(names), rows=rows)]


def shown_targets(levels: Mapping[str, float]) -> list[str]:
    """Easiest first.  Of very many: those given, models as they come before those with options, in each the hardest
    first and then whatever is farthest from all that are there.
    """
    shown: list[str] = []
    tiers = [[name for name in levels if _tier(name) == tier] for tier in range(3)]
    for tier in tiers:
        left = sorted(tier, key=lambda name: (levels[name], name))
        while left and len(shown) < _MAX_TARGETS:
            shown.append(max(left, key=lambda name: min((_apart(levels[name], levels[n]) for n in shown), default=0)))
            left.remove(shown[-1])
    return sorted(shown, key=lambda name: (-levels[name], name))


def _tier(name: str) -> int:
    return 0 if name.startswith("ppl=") else 2 if ":" in name else 1


def _apart(a: float, b: float) -> float:
    return abs(math.log(a / b))


def _time_cell(bracket: tuple[float, float] | None) -> str:
    if bracket is None:
        return wording.NOT_AVAILABLE
    after_s, by_s = bracket
    if not math.isfinite(by_s):
        return wording.NOT_REACHED
    return f"{wording.seconds(by_s)} (after {wording.rounded(after_s)})"


def _plain(
    caption: str,
    rows: Sequence[Row],
    among: Sequence[Row],
    summaries: Mapping[int, Mapping[str, Cell]],
    columns: Sequence[Column],
    notes: Sequence[str] = (),
) -> list[Sheet]:
    """A table with a line per row, named as among all of its group, and a column per figure."""
    if not rows:
        return []
    lines = [(label_of(row, among), *[show(summaries[id(row)]) for _, show in columns]) for row in rows]
    headers = ("model", *[name for name, _ in columns])
    return [Sheet(caption=caption, headers=headers, align="n" + "r" * len(columns), rows=lines, notes=notes)]


def _speed_columns(rows: Sequence[Row]) -> list[Column]:
    unstable = {
        (row.model, row.device, key)
        for row in rows
        for m in row.measured
        for key, repeats in (("eval_tokens_per_s", m.eval_tokens_per_s), ("next_token_us", m.next_token_us))
        if repeats is not None and repeats.unstable
    }

    def marked(key: str, show: Callable[[float | None], str]) -> Callable[[Mapping[str, Cell]], str]:
        def cell(summary: Mapping[str, Cell]) -> str:
            note = " (unstable)" if (summary["model"], summary["device"], key) in unstable else ""
            return show(number(summary[key])) + note

        return cell

    return [
        _column("training", "train_s", wording.seconds),
        _column("wall clock", "wall_s", wording.seconds),
        _column("training tokens/s", "train_tokens_per_s", wording.count),
        ("scoring tokens/s", marked("eval_tokens_per_s", wording.count)),
        ("next token, µs", marked("next_token_us", wording.rounded)),
        _column("p99, µs", "next_token_us_p99", wording.rounded),
        ("kernel", lambda summary: str(summary["kernel"] or wording.NOT_AVAILABLE)),
    ]


def _energy_columns(summaries: Iterable[Mapping[str, Cell]]) -> list[Column]:
    """What the trainings cost in joules, where the counters of the machine told of any."""
    names = {"cpu_joules": "processor, J", "device_joules": "device, J"}
    found = list(summaries)
    columns = [
        _column(name, key, wording.rounded)
        for key, name in names.items()
        if any(number(summary[key]) is not None for summary in found)
    ]
    if columns:
        columns.append(("counted by", lambda summary: str(summary["energy_source"] or wording.NOT_AVAILABLE)))
    return columns


def _wall_clock(rows: Sequence[Row], among: Sequence[Row]) -> list[Sheet]:
    """Where the seconds of the wall clock went."""
    lines = []
    for row in rows:
        parts = [record.parts for record in (row.fine or row.records) if record.parts]
        if parts:
            seconds = [typical(getattr(part, name) for part in parts) for name in _PARTS]
            lines.append((label_of(row, among), *map(wording.seconds, seconds)))
    if not lines:
        return []
    headers = ("model", *_PARTS.values())
    align = "n" + "r" * len(_PARTS)
    return [
        Sheet(
            caption="where the wall clock went (training includes compiling)", headers=headers, align=align, rows=lines
        )
    ]


def _memory_columns(rows: Sequence[Row]) -> list[Column]:
    columns = [
        _column("model size", "model_bytes", wording.size),
        _column("parameters", "n_params", wording.count),
        _column("peak", "peak_rss_bytes", wording.size),
        _column("baseline after imports", "baseline_rss_bytes", wording.size),
        ("peak less baseline", lambda s: wording.size(above_baseline(s))),
    ]
    if any(row.device != "cpu" for row in rows):
        columns.append(_column("device peak allocated", "peak_device_bytes", wording.size))
        columns.append(_column("device peak reserved", "peak_device_reserved_bytes", wording.size))
    return columns


def _significance(among: Sequence[Row], pairs: Sequence[Pair]) -> list[Sheet]:
    if not pairs:
        return []
    order = ranked(among)
    verdicts = [verdicts_of(row, pairs) for row in order]
    names = [label_of(row, among) for row in order]
    if len(order) > MAX_MATRIX:
        return [_ties(order, names, verdicts)]
    rows = [
        (str(place), name, *[_sign(seen.get((other.model, other.device), ""), row, other, pairs) for other in order])
        for place, (row, name, seen) in enumerate(zip(order, names, verdicts, strict=True), start=1)
    ]
    headers = ("#", "model", *[str(place) for place in range(1, len(order) + 1)])
    notes = ["the differences, their intervals and corrected p of all pairs: tables/significance.csv"]
    caption = (
        "+ the model of this line is better than that of the column, and by how much its perplexity is below that; "
        "- worse, and by how much it is above; ~ no significant difference"
    )
    return [Sheet(caption=caption, headers=headers, align="rn" + "s" * len(order), rows=rows, notes=notes)]


def _sign(verdict: str, row: Row, other: Row, pairs: Sequence[Pair]) -> str:
    """Whether a row is better than another and, where that can be said, by what share of the other's perplexity."""
    sign = _SIGNS.get(verdict, "")
    found = test_of(row, other, pairs)
    if sign in ("", "~") or found is None or found[0] is None or not math.isfinite(found[0]):
        return sign
    return f"{sign} {wording.rounded(100 * abs(share_below(found[0])), 2)} %"


def _ties(order: Sequence[Row], names: Sequence[str], verdicts: Sequence[Mapping[tuple[str, str], str]]) -> Sheet:
    rows = []
    for place, (name, seen) in enumerate(zip(names, verdicts, strict=True), start=1):
        ties = [str(n) for n, other in enumerate(order, start=1) if seen.get((other.model, other.device)) == "~"]
        rows.append((str(place), name, ", ".join(ties) or "none"))
    return Sheet(
        caption="no significant difference from", headers=("#", "model", "ties with #"), align="rnl", rows=rows
    )
