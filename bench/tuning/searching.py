"""A search from what was asked to its recipe: propose, train in fresh processes, keep, until the time is used up."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import ending, environment, terminal
from bench.asked import EXECUTORS
from bench.describe import model_facts
from bench.executor.protocol import Ended, Executor, Moved
from bench.plan import make_plan, training_limits
from bench.records import Answer, Environment, TrialRecord, TrialSpec
from bench.running import OK, SOME_FAILED, ask, complain
from bench.store import StoreError
from bench.tuning import showing
from bench.tuning.asked import SearchAsked
from bench.tuning.attempts import Asked, Attempt, Outcome, Report, Search, best_of, perplexity_of
from bench.tuning.folder import RECIPE_FILE, SearchStore, require_same_search
from bench.tuning.proposing import importances, is_hopeless, propose, require_optuna
from bench.tuning.recipe import recipe_of, spec_of_recipe
from bench.tuning.spaces import Space, Value, space_of, with_options
from lmzoo.budget import Stopwatch
from lmzoo.driver import FIRST_VALIDATION_S, VALIDATIONS_PER_DOUBLING
from lmzoo.errors import SpecError
from lmzoo.registry import resolve_config
from lmzoo.spec import parse_spec

# a share of the budget below which no training is given up: schedules that start alike have not parted yet
_WARM_UP_SHARE = 0.25


def run_search(asked: SearchAsked, executor: Executor | None = None, watch: Stopwatch | None = None) -> int:
    """Search, and leave the best recipe so far, whatever ends it."""
    require_optuna()
    watch = watch or Stopwatch()
    stdout, stderr = terminal.console_on(sys.stdout), terminal.console_on(sys.stderr)
    started = datetime.now(UTC)
    folder = asked.run.out or _new_folder(asked, started)
    store = SearchStore(folder, mode=asked.run.mode, warn=lambda text: stderr.print(f"warning: {text}", soft_wrap=True))
    store.check()
    with watch.running():
        answer = ask(asked.run)
        if len(answer.facts) != 1 or len(answer.models) != 1:
            raise SpecError(f"a search is for one model, got {asked.spec.text!r}")
        default = dict(answer.models[0].options)
        space = space_of(asked.spec, default, only=asked.only)
        now = _search(asked, answer, space, started)
        if (notice := showing.few_tokens(now.corpus)) is not None:
            stderr.print(f"warning: {notice}", soft_wrap=True)
        with store:
            attempts = _gone_on_with(store, now, lambda attempt: _is_of(attempt, asked, answer, space))
            watch.go_on_from(watch.elapsed_s + max((attempt.used_s for attempt in attempts), default=0.0))
            search = _Search(
                asked=asked,
                answer=answer,
                space=space,
                attempts=attempts,
                store=store,
                search=now,
                executor=executor or EXECUTORS["local"](debug=asked.run.debug),
                watch=watch,
                view=showing.SearchView(stderr, asked.search_seconds),
            )
            was_interrupted = search.run()
    best = best_of(attempts)
    if was_interrupted:
        left = "no attempt was complete" if best is None else f"the best so far is in {folder / RECIPE_FILE}"
        return complain(f"interrupted; {left}, go on with --resume", ending.interrupted_status())
    if best is None:
        return complain(f"no attempt was complete, so there is no recipe; {folder} has the reasons", SOME_FAILED)
    _show_end(stdout, attempts, space, folder)
    model = spec_of_recipe(asked.spec, folder / RECIPE_FILE)
    stdout.print(showing.use_line(model, now, answer.corpora[0]), soft_wrap=True)
    return OK


def _show_end(console: Console, attempts: Sequence[Attempt], space: Space, folder: Path) -> None:
    console.print(showing.best_table(attempts))
    if (mattered := showing.importance_line(importances(space, attempts))) is not None:
        console.print(mattered, soft_wrap=True)
    console.print(showing.chosen_on_line(attempts), soft_wrap=True)
    console.print(f"recipe in {folder / RECIPE_FILE}", soft_wrap=True)
    console.print("read the test text once, at the end:", soft_wrap=True)


def list_space(asked: SearchAsked) -> int:
    """Show what would be searched."""
    default = dict(model_facts(asked.spec).options)
    space = space_of(asked.spec, default, only=asked.only)
    terminal.console_on(sys.stdout).print(showing.space_table(asked.spec.text, space, default))
    return OK


def place_of(train_s: float) -> int:
    """Which validation of the schedule is the latest at so many seconds of training, the first being 0."""
    if train_s <= FIRST_VALIDATION_S:
        return 0
    return math.floor(VALIDATIONS_PER_DOUBLING * math.log2(train_s / FIRST_VALIDATION_S) + 1e-9)


class _Search:
    """A search under way; `attempts` grows."""

    def __init__(
        self,
        *,
        asked: SearchAsked,
        answer: Answer,
        space: Space,
        attempts: list[Attempt],
        store: SearchStore,
        search: Search,
        executor: Executor,
        watch: Stopwatch,
        view: showing.SearchView,
    ) -> None:
        self._asked = asked
        self._answer = answer
        self._space = space
        self._attempts = attempts
        self._store = store
        self._search = search
        self._executor = executor
        self._watch = watch
        self._view = view
        self._first = {name: answer.models[0].options[name] for name in space}

    def run(self) -> bool:
        """Attempt after attempt, as long as there is time; whether Ctrl-C ended it."""
        self._view.there_already(self._attempts)
        # what an earlier session could not write, or what somebody put in its place
        self._write_recipe()
        try:
            with self._view.showing():
                while self._has_room() and (options := self._next()) is not None:
                    self._keep(self._attempt(self._number(), options))
        except KeyboardInterrupt:
            return True
        return False

    def _has_room(self) -> bool:
        """Whether another attempt may begin: it should end in time, as long as those before it took on average."""
        most = self._asked.most_trials
        if not self._attempts:
            return True
        complete = [attempt for attempt in self._attempts if attempt.outcome == "complete"]
        seconds = [sum(record.wall_s for record in attempt.trainings) for attempt in complete]
        expected_s = math.fsum(seconds) / len(seconds) if seconds else 0.0
        has_time = self._watch.elapsed_s + expected_s <= self._asked.search_seconds
        return has_time and (most is None or len(self._attempts) < most)

    def _number(self) -> int:
        """The least that no attempt has."""
        taken = {attempt.number for attempt in self._attempts}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _next(self) -> dict[str, Value] | None:
        """What the search starts from, then what optuna proposes; None where there is nothing new."""
        if self._number() == 0:
            return dict(self._first)
        return propose(self._space, self._attempts, seed=self._asked.seed, is_possible=self._is_possible)

    def _is_possible(self, options: Mapping[str, Value]) -> bool:
        try:
            resolve_config(parse_spec(with_options(self._asked.spec, options)))
        except SpecError:
            return False
        return True

    def _attempt(self, number: int, options: dict[str, Value]) -> Attempt:
        """Train with these options, once for each seed."""
        is_first = options == self._first
        text = self._asked.spec.text if is_first else with_options(self._asked.spec, options)
        trials = _trials_of(text, self._asked, self._answer)
        trainings: list[TrialRecord] = []
        reports: list[Report] = []
        reason: str | None = None
        outcome: Outcome = "complete"
        for trial in trials:
            record = self._training(number, trial, reports if not trainings else None)
            if record is None:
                outcome, reason = "pruned", "worse than the median of the others at the same validation"
                break
            trainings.append(record)
            if record.status != "ok":
                outcome, reason = "failed", f"{record.status}, {record.reason}"
                break
        figure = perplexity_of(trainings) if outcome == "complete" else None
        if figure is not None and figure.value is None:
            outcome, reason = "failed", f"its validation perplexity is no number: {figure.reason}"
        return Attempt(
            number=number,
            spec=text,
            options=options,
            outcome=outcome,
            reason=reason and environment.publishable(reason),
            valid_perplexity=None if figure is None else figure.value,
            reports=tuple(reports),
            trainings=tuple(trainings),
            used_s=self._watch.elapsed_s,
        )

    def _training(self, number: int, trial: TrialSpec, reports: list[Report] | None) -> TrialRecord | None:
        """The record of one training; None where it was given up.  `reports` is given the validations on the way."""
        events = self._executor.run([trial])
        with closing(events):
            for event in events:
                self._view.moved(number, event, self._watch.elapsed_s)
                if isinstance(event, Ended):
                    return event.record
                if isinstance(event, Moved) and reports is not None and self._is_given_up(number, event, reports):
                    return None
        raise AssertionError("an executor ends every trial with its record")

    def _is_given_up(self, number: int, event: Moved, reports: list[Report]) -> bool:
        """Note a validation; whether it shows that going on is of no use.

        Only under a budget of seconds, which the clock decides anyway: by steps or epochs a search is the same each
        time.
        """
        budget_s = self._search.asked.budget_s
        if event.perplexity is None or budget_s is None:
            return False
        place = place_of(event.train_s)
        is_new = not reports or (place > reports[-1].place and event.perplexity != reports[-1].perplexity)
        if not is_new:
            return False
        reports.append(Report(place=place, perplexity=event.perplexity))
        others = [attempt for attempt in self._attempts if attempt.number != number]
        return number > 0 and is_hopeless(others, reports, warm_up=place_of(_WARM_UP_SHARE * budget_s))

    def _keep(self, attempt: Attempt) -> None:
        with ending.held():
            self._store.write_attempt(attempt)
            self._attempts.append(attempt)
            self._attempts.sort(key=lambda each: each.number)
            self._write_recipe()
        self._view.tried(attempt, self._attempts)

    def _write_recipe(self) -> None:
        """Let the recipe be the best attempt's; where none is complete there is none."""
        best = best_of(self._attempts)
        if best is None:
            self._store.set_recipe_aside()
            return
        facts = model_facts(parse_spec(best.spec))
        options, found = recipe_of(self._asked.spec, facts, self._attempts, self._search)
        self._store.write_recipe(self._asked.spec.name, options, found)


def _trials_of(text: str, asked: SearchAsked, answer: Answer) -> list[TrialSpec]:
    """The trainings of a configuration, one for each seed."""
    return make_plan(
        answer.model_copy(update={"models": (model_facts(parse_spec(text)),)}),
        devices=(asked.device,),
        seeds=asked.run.seeds,
        limits=asked.run.limits,
    )


def _is_of(attempt: Attempt, asked: SearchAsked, answer: Answer, space: Space) -> bool:
    """Whether an attempt is one of this search: of the same options, and trained as this search would."""
    if set(attempt.options) != set(space):
        return False
    try:
        own = {trial.content_key for trial in _trials_of(attempt.spec, asked, answer)}
    except SpecError:
        return False
    return own >= {record.trial.content_key for record in attempt.trainings}


def _new_folder(asked: SearchAsked, started: datetime) -> Path:
    """`results/tune-<time>-<model>`."""
    name = f"tune-{started:%Y%m%d-%H%M%S}-{environment.safe_name(asked.spec.name)}"
    folder, n = Path("results", name), 1
    while folder.exists():
        n += 1
        folder = Path("results", f"{name}-{n}")
    return folder


def _search(asked: SearchAsked, answer: Answer, space: Space, started: datetime) -> Search:
    limits = asked.run.limits
    budget_s, epochs, max_steps = training_limits(answer.models[0], limits, answer.default_budget_s)
    return Search(
        command=asked.run.command,
        started_utc=started.isoformat(timespec="seconds"),
        asked=Asked(
            model=answer.models[0].model,
            space={name: str(dimension) for name, dimension in space.items()},
            seeds=asked.run.seeds,
            seed=asked.seed,
            device=asked.device,
            threads=limits.threads,
            budget_s=budget_s,
            epochs=epochs,
            max_steps=max_steps,
        ),
        search_seconds=asked.search_seconds,
        most_trials=asked.most_trials,
        corpus=answer.facts[0],
        code_sha256=environment.code_sha256(),
        environment=Environment.model_validate(environment.describe()),
    )


def _gone_on_with(store: SearchStore, now: Search, is_own: Callable[[Attempt], bool]) -> list[Attempt]:
    """The attempts of the search that the folder holds, once it is sure to be this one."""
    before = store.search()
    if before is not None:
        require_same_search(store.folder, before, now)
        if before.code_sha256 != now.code_sha256:
            raise StoreError(
                f"{store.folder} was searched by other code, whose perplexities may differ; begin anew with --force, "
                "or use another --out"
            )
    attempts = store.attempts(is_own)
    store.write_search(now if before is None else now.model_copy(update={"started_utc": before.started_utc}))
    return attempts
