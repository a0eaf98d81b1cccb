"""What a search shows: progress while it works, a line for each attempt, the best at its end."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from bench.executor.protocol import Event, Moved
from bench.records import CorpusFacts, CorpusSpec
from bench.terminal import state_text
from bench.tuning.attempts import Attempt, Search, best_of, changed_options, ranking
from bench.tuning.spaces import Space, Value, shown_value

# validation tokens below which the best of some configurations is the best by chance
_FEW_TOKENS = 1000
# attempts in the table of the best
_BEST_SHOWN = 5
_PERCENT = 100


class SearchView:
    """Shows a search on standard error: a bar on a terminal, and a line for each attempt."""

    def __init__(self, console: Console, search_seconds: float) -> None:
        self._console = console
        self._search_seconds = search_seconds
        self._bars: Progress | None = None
        self._state = ""

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show a bar of the search's seconds meanwhile, on a terminal."""
        if not self._console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[state]}"))
        with Progress(*columns, console=self._console, transient=True) as bars:
            self._bars = bars
            bars.add_task("searching", total=self._search_seconds, state="")
            try:
                yield
            finally:
                self._bars = None

    def moved(self, number: int, event: Event, used_s: float) -> None:
        """A training got on."""
        if self._bars is not None and isinstance(event, Moved):
            task = self._bars.task_ids[0]
            self._bars.update(task, completed=used_s, state=f"attempt {number}: {state_text(event)}")

    def tried(self, attempt: Attempt, attempts: Sequence[Attempt]) -> None:
        """An attempt is over; `attempts`: all so far, this one among them."""
        self._console.print(attempt_line(attempt, attempts), soft_wrap=True)

    def there_already(self, attempts: Sequence[Attempt]) -> None:
        if attempts:
            best = best_of(attempts)
            of_best = "none of them complete" if best is None else f"the best has {_perplexity(best)}"
            self._console.print(f"{len(attempts)} attempts are there already, {of_best}", soft_wrap=True)


def attempt_line(attempt: Attempt, attempts: Sequence[Attempt]) -> str:
    """An attempt in a line: its number, what it changes, what came of it, whether it is the best so far."""
    what = _changes(attempt, attempts) or "the recipe as it is"
    if attempt.outcome != "complete":
        return f"[{attempt.number}] {what}: {attempt.outcome}, {attempt.reason}"
    best = best_of(a for a in attempts if a.number <= attempt.number)
    mark = ", the best so far" if best is attempt and attempt.number else ""
    return f"[{attempt.number}] {what}: validation perplexity {_perplexity(attempt)}{mark}"


def best_table(attempts: Sequence[Attempt]) -> Table:
    """The best attempts, each with what it changes of the recipe that the search started from."""
    table = Table(title=f"The best of {len(attempts)} configurations, by validation perplexity")
    for name, justify in (("attempt", "right"), ("valid ppl", "right"), ("options", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for attempt in ranking(attempts)[:_BEST_SHOWN]:
        table.add_row(str(attempt.number), _perplexity(attempt), _changes(attempt, attempts) or "the recipe as it is")
    if any(attempt.is_adaptive for attempt in attempts):
        table.caption = "*: adaptive, learns from the text that it scores"
    return table


def few_tokens(facts: CorpusFacts) -> str | None:
    """That a validation text is too short to choose by, or None."""
    if facts.n_valid_tokens >= _FEW_TOKENS:
        return None
    return (
        f"{_tokens(facts.n_valid_tokens)} of validation text in {facts.name}: what is best on so few is best by "
        "chance; give more with --valid"
    )


def chosen_on_line(attempts: Sequence[Attempt]) -> str:
    """How much text the best was chosen on, and how much of it no model knows."""
    best = best_of(attempts)
    valid = best.trainings[0].valid if best is not None and best.trainings else None
    assert valid is not None, "what is complete was scored"
    return f"chosen on {_tokens(valid.n_tokens)} of validation text, {valid.n_oov:,} of them out of vocabulary"


def importance_line(shares: Mapping[str, float]) -> str | None:
    """What mattered most, or None where nobody can say."""
    if not shares:
        return None
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return "what mattered (PED-ANOVA): " + ", ".join(f"{name} {share * _PERCENT:.0f} %" for name, share in ranked)


def use_line(model: str, search: Search, corpus: CorpusSpec) -> str:
    """The command that trains the best and reads the test text, with the same text and limits."""
    asked = search.asked
    train = (corpus.train,) if isinstance(corpus.train, str) else corpus.train or ()
    options: list[tuple[str, str | int | float | None]] = [("--models", model), ("--corpus", corpus.name)]
    options += [("--train", path) for path in train]
    options += [("--valid", corpus.valid), ("--test", "YOUR-TEST-TEXT" if train else None)]
    for name in ("tokens", "normalize", "documents", "min_freq", "encoding", "invalid"):
        options.append((f"--{name.replace('_', '-')}", _unless_default(corpus, name)))
    options += [("--budget", asked.budget_s), ("--epochs", asked.epochs), ("--max-steps", asked.max_steps)]
    options += [("--device", None if asked.device == "cpu" else asked.device)]
    given = [part for option, value in options if value is not None for part in (option, _typed(value))]
    return " ".join(map(shlex.quote, ["python", "-m", "bench.run", *given]))


def _unless_default(corpus: CorpusSpec, name: str) -> str | int | None:
    value: str | int | None = getattr(corpus, name)
    return None if value == CorpusSpec.model_fields[name].default else value


def _typed(value: str | int | float) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def space_table(model: str, space: Space, default: Mapping[str, Value]) -> Table:
    """What would be searched."""
    table = Table(title=f"What is searched for {model}")
    for name in ("option", "default", "values"):
        table.add_column(name, overflow="fold")
    for name, dimension in space.items():
        table.add_row(name, shown_value(default[name]), str(dimension))
    return table


def _changes(attempt: Attempt, attempts: Sequence[Attempt]) -> str:
    first = next((a.options for a in attempts if a.number == 0), {})
    return " ".join(f"{name}={shown_value(value)}" for name, value in changed_options(attempt, first).items())


def _tokens(n_tokens: int) -> str:
    return f"{n_tokens:,} token{'' if n_tokens == 1 else 's'}"


def _perplexity(attempt: Attempt) -> str:
    value = attempt.valid_perplexity
    shown = "n/a" if value is None else f"{value:.4g}" if math.isfinite(value) else "inf"
    return f"{shown}*" if attempt.is_adaptive else shown
