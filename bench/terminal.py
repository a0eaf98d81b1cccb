"""What a run shows: progress while it works, the comparison table at its end.

On a terminal a bar with trial, seconds left and perplexity; elsewhere a line for each finished trial.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from bench.environment import text_name
from bench.executor.protocol import Ended, Event, Moved, Started
from bench.records import FINE, TrialRecord, TrialSpec
from bench.report import wording

# where no terminal says how wide it is, no row of the table is cut
_WIDTH_WITHOUT_TERMINAL = 200
# a column's left line and the blanks beside its text
_BORDER = 3
# a name or a reason longer than this goes on in the next line when there is no room
_FOLDED = 20
_KIB, _MIB = 1024, 1024 * 1024
# of more rows nobody reads all: the report and its tables have them
MOST_ROWS = 40
# trials that are told one by one although nothing is done for them
_FEW = 20
# what tells apart tables of the report
_GROUP = ("corpus", "normalize", "tokenizer", "documents", "train_fraction")


def console_on(stream: TextIO) -> Console:
    """A console that prints texts as they are: brackets in a name are no markup."""
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)


class ProgressView:
    """Shows the events of a run of `n_trials` trials on standard error."""

    def __init__(self, console: Console, n_trials: int, *, name_tokenizers: bool = False) -> None:
        self._console = console
        self._n_trials = n_trials
        self._name_tokenizers = name_tokenizers
        self._n_started = 0
        self._n_ended = 0
        self._bars: Progress | None = None
        # one for each trial that runs, by its id: several may run side by side
        self._tasks: dict[str, TaskID] = {}

    @contextmanager
    def showing(self) -> Iterator[ProgressView]:
        """Show a bar meanwhile, on a terminal."""
        if not self._console.is_terminal:
            yield self
            return
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}"))
        with Progress(*columns, console=self._console, transient=True) as bars:
            self._bars = bars
            yield self
        self._bars = None

    def handle(self, event: Event) -> None:
        if isinstance(event, Started):
            self._start(event.trial)
        elif isinstance(event, Moved):
            self._move(event)
        elif isinstance(event, Ended):
            self._end(event.record)

    def note_reused(self, records: Sequence[TrialRecord]) -> None:
        """Count what is there already; of many only those that did not end well have a line of their own."""
        few = len(records) <= _FEW
        for record in records:
            self._n_started += 1
            self._n_ended += 1
            if few or record.status not in FINE:
                self._line(record, "there already")
        if not few:
            self._console.print(f"{len(records)} of {self._n_trials} trials are there already")

    def _start(self, trial: TrialSpec) -> None:
        self._n_started += 1
        if self._bars is not None:
            what = f"trial {self._n_started}/{self._n_trials} {self._name(trial)}"
            self._tasks[trial.trial_id] = self._bars.add_task(what, total=1.0, state="starting")

    def _move(self, event: Moved) -> None:
        if self._bars is not None and (task := self._tasks.get(event.trial.trial_id)) is not None:
            self._bars.update(task, completed=event.share or 0.0, state=state_text(event))

    def _end(self, record: TrialRecord) -> None:
        self._n_ended += 1
        if self._bars is not None and (task := self._tasks.pop(record.trial.trial_id, None)) is not None:
            self._bars.remove_task(task)
        self._line(record, f"{record.wall_s:.1f} s")

    def _name(self, trial: TrialSpec) -> str:
        return trial_name(trial, name_tokenizer=self._name_tokenizers)

    def _line(self, record: TrialRecord, note: str) -> None:
        width = len(str(self._n_trials))
        where = f"[{self._n_ended:>{width}}/{self._n_trials}]"
        self._console.print(f"{where} {self._name(record.trial)}: {outcome_text(record)} ({note})")


def trial_name(trial: TrialSpec, *, name_tokenizer: bool = False) -> str:
    """Model and text, and what else tells a trial from its neighbours."""
    parts = [trial.model, f"on {text_name(trial.corpus)}"]
    if name_tokenizer and trial.corpus.tokens:
        parts.append(f"({trial.corpus.tokens})")
    if trial.train_fraction != 1:
        parts.append(f"{wording.fraction(trial.train_fraction)} of the training text")
    if trial.device != "cpu":
        parts.append(trial.device)
    if trial.seed:
        parts.append(f"seed {trial.seed}")
    return " ".join(parts)


def outcome_text(record: TrialRecord) -> str:
    """A finished trial in a few words."""
    if record.status != "ok" or record.measured is None:
        return f"{record.status}, {record.reason}"
    figure = record.measured.test.perplexity
    if figure.infinite:
        return f"perplexity inf ({figure.reason})"
    if figure.value is not None:
        return f"perplexity {figure.value:.4g}"
    # a compressor of text that its tokens do not give back
    test = record.measured.test
    for bits, unit in ((test.bits_per_byte, "byte"), (test.bits_per_char, "character")):
        if bits.value is not None:
            return f"{bits.value:.4g} bits per {unit}"
    return f"no perplexity ({figure.reason})"


def state_text(event: Moved) -> str:
    """The current phase, seconds left and perplexity of a running trial."""
    parts = [event.phase]
    if event.share and event.phase == "training":
        parts.append(f"{event.train_s * (1 - event.share) / event.share:.0f} s left")
    if event.perplexity is not None:
        parts.append(f"perplexity {event.perplexity:.4g}")
    return ", ".join(parts)


def read_summary(path: Path) -> list[dict[str, str]]:
    """The rows of `tables/summary.csv`, text by text, the largest share of a training text first.

    Within what is compared the best perplexity comes first, and what has none last.  Beside the columns of the file,
    `tie` is `~` where `significance.csv` next to it tells no difference from the best that it is compared with.
    """
    rows = rows_of_csv(path)
    places = {text: place for place, text in enumerate(dict.fromkeys(_text(row) for row in rows))}
    rows = sorted(
        rows,
        key=lambda row: (
            places[_text(row)],
            -as_number(row["train_fraction"]),
            row["status"] != "ok",
            as_number(row["test_perplexity"]),
        ),
    )
    beside = path.with_name("significance.csv")
    verdicts = {_contest(pair): pair["verdict"] for pair in rows_of_csv(beside)} if beside.exists() else {}
    best: dict[tuple[str | None, ...], dict[str, str]] = {}
    for row in rows:
        first = best.setdefault((*_group(row), row.get("vocab_fingerprint", "")), row)
        row["tie"] = "~" if _verdict(row, first, rows, verdicts) == "~" else ""
    return rows


def rows_of_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a table of the report, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


_Contest = tuple[tuple[str | None, ...], str, frozenset[str]]


def _group(row: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(row.get(name) for name in _GROUP)


def _text(row: Mapping[str, str]) -> tuple[str | None, ...]:
    """What tells a text that was read in one way from others, whatever share of it was learned from."""
    return (*_group(row)[:-1], row.get("vocab_fingerprint", ""))


def _contest(pair: Mapping[str, str]) -> _Contest:
    return _group(pair), pair["device"], frozenset((pair["model_a"], pair["model_b"]))


def _verdict(
    row: Mapping[str, str],
    best: Mapping[str, str],
    rows: Sequence[Mapping[str, str]],
    verdicts: Mapping[_Contest, str],
) -> str | None:
    """What the test of two rows said; None where they were not tested against each other.

    Across devices a row of the CPU stands for its model only where the model did not run on the other device.
    """
    devices = {row["device"], best["device"]} - {"cpu"}
    device = devices.pop() if devices else "cpu"
    for one in (row, best):
        has_own = any(
            (other["model"], other["device"], _group(other)) == (one["model"], device, _group(one)) for other in rows
        )
        if one["device"] != device and has_own:
            return None
    return verdicts.get((_group(row), device, frozenset((row["model"], best["model"]))))


def rows_worth_showing(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """As many rows, in their order, as people read: of more, the best of each text read in one way come first."""
    n_before: Counter[tuple[str, ...]] = Counter()
    places = []
    for row in rows:
        group = tuple(row[key] for key in _GROUP)
        places.append(n_before[group])
        n_before[group] += 1
    shown = sorted(sorted(range(len(rows)), key=places.__getitem__)[:MOST_ROWS])
    return [rows[i] for i in shown]


class _Column(NamedTuple):
    """A column as text.  Figures stand at the right and are never folded."""

    title: str
    cells: Sequence[str]
    is_figure: bool = False

    @property
    def width(self) -> int:
        """Signs that it takes with its border; of long texts, those of one folded line."""
        widest = max(cell_len(text) for text in (*self.title.split("\n"), *self.cells))
        return _BORDER + (widest if self.is_figure else min(widest, _FOLDED))


def comparison_table(
    rows: Sequence[Mapping[str, str]], width: int = _WIDTH_WITHOUT_TERMINAL, reasons: Sequence[str] = ()
) -> Table:
    """The comparison as people read it; columns that are the same for every row stay out.

    Of more than `MOST_ROWS` rows some are left out.  On a terminal narrower than all columns titles take several lines
    and the status is shown where one is not `ok`; if that is not enough, the most wanted figures are shown and the
    others named below.  No figure is cut.  `reasons`: why figures are missing, told below where some are.
    """
    every_row, rows = rows, rows_worth_showing(rows)
    shared = [key for key in (*_GROUP, "device") if len({row[key] for row in rows}) > 1]
    names = [row["model"] + ("*" if row["is_adaptive"].lower() == "true" else "") for row in rows]
    before = [_Column("model", names), *[_Column(key.replace("_", " "), [row[key] for row in rows]) for key in shared]]
    statuses = [row["status"] + (f": {row['reason']}" if row["reason"] else "") for row in rows]
    after = [_Column("status", statuses)]
    has_oov = any(float(row["n_oov"] or 0) > 0 for row in rows)
    wanted = [figure for figure in _FIGURES if has_oov or figure is not _WITHOUT_OOV]
    figures = [
        _Column(_on_a_line(figure.title), [figure.cell(row) for row in rows], is_figure=True) for figure in wanted
    ]
    if 1 + sum(column.width for column in (*before, *figures, *after)) > width:
        figures = [column._replace(title=figure.title) for figure, column in zip(wanted, figures, strict=True)]
        after = after if set(statuses) != {"ok"} else []
    shown = _that_fit(
        figures, [figure.rank for figure in wanted], width - 1 - sum(column.width for column in (*before, *after))
    )
    left_out = [_on_a_line(column.title) for column in figures if column not in shown]
    n_hidden = len(every_row) - len(rows)
    hidden = [f"{n_hidden} of {len(every_row)} rows, the best of each text being here"] if n_hidden else []
    missing = ", ".join([*left_out, *hidden])
    blocks = list(itertools.accumulate(_starts_block(*pair) for pair in itertools.pairwise([*rows[:1], *rows])))
    notes = [_about_ties(several=len(set(blocks)) > 1)] if any(row.get("tie") for row in rows) else []
    notes += reasons
    notes += [f"no room for {missing}: see report.md or tables/summary.csv"] if missing else []
    table = Table(title="Test perplexity, best first", caption="\n".join(notes) or None, caption_justify="left")
    columns = [*before, *shown, *after]
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.is_figure else "left"
        table.add_column(column.title, justify=justify, no_wrap=column.is_figure, overflow="fold")
    for place, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        # what is ranked apart stands apart
        if place and blocks[place] != blocks[place - 1]:
            table.add_section()
        table.add_row(*cells)
    return table


def _starts_block(before: Mapping[str, str], row: Mapping[str, str]) -> bool:
    """Whether two rows that follow each other are not ranked together; what failed may not know its vocabulary."""
    vocabularies = {one.get("vocab_fingerprint", "") for one in (before, row)} - {""}
    return _group(before) != _group(row) or len(vocabularies) > 1


def _about_ties(*, several: bool) -> str:
    best = "the best of the same block, of one text and one vocabulary" if several else "the best"
    return f"~ no significant difference from {best}"


def _on_a_line(title: str) -> str:
    return title.replace("/\n", "/").replace("\n", " ")


def _that_fit(figures: Sequence[_Column], ranks: Sequence[int], width: int) -> list[_Column]:
    """The figures, in their order, that find room: the most wanted are asked first, perplexity is always there."""
    chosen: set[int] = set()
    for place in sorted(range(len(figures)), key=ranks.__getitem__):
        if figures[place].width <= width or not chosen:
            chosen.add(place)
            width -= figures[place].width
    return [figure for place, figure in enumerate(figures) if place in chosen]


def _interval(row: Mapping[str, str]) -> str:
    low, high = row["test_perplexity_low"], row["test_perplexity_high"]
    return f"{as_short(low)} to {as_short(high)}" if low and high else "n/a"


def _peak_mib(row: Mapping[str, str]) -> str:
    return f"{float(row['peak_rss_bytes']) / _MIB:.0f}" if row["peak_rss_bytes"] else "n/a"


def _size_kib(row: Mapping[str, str]) -> str:
    return as_short(str(float(row["model_bytes"]) / _KIB), 3) if row["model_bytes"] else "n/a"


class _Figure(NamedTuple):
    """A column of figures: its title as a narrow terminal folds it, a row's cell in it, and its rank for room."""

    title: str
    cell: Callable[[Mapping[str, str]], str]
    rank: int


# shown where some test token is out of vocabulary
_WITHOUT_OOV = _Figure("without\nOOV", lambda row: as_short(row["test_perplexity_no_oov"]), 1)
_FIGURES = (
    _Figure("perplexity", lambda row: f"{row.get('tie', '')} {as_short(row['test_perplexity'])}".lstrip(), 0),
    _WITHOUT_OOV,
    _Figure("95 %\ninterval", _interval, 2),
    _Figure("bits/\nchar", lambda row: as_short(row["bits_per_char"]), 4),
    _Figure("train s", lambda row: as_short(row["train_s"], 3), 3),
    _Figure("scored\ntokens/s", lambda row: as_short(row["eval_tokens_per_s"], 3), 7),
    _Figure("next\ntoken\nµs", lambda row: as_short(row["next_token_us"], 3), 5),
    _Figure("peak\nMiB", _peak_mib, 8),
    _Figure("size\nKiB", _size_kib, 6),
)


def as_number(text: str) -> float:
    """A cell to sort by: what is missing comes last."""
    return float(text) if text else math.inf


def as_short(text: str, digits: int = 4) -> str:
    """A figure in so many digits, large ones with thousands marked; n/a for an empty cell."""
    if not text:
        return "n/a"
    value = float(text)
    return f"{value:,.0f}" if 10**digits <= abs(value) < math.inf else f"{value:.{digits}g}"
