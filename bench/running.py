"""A run, from what was asked to its report: resolve, plan, run the trials, show what came of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from bench import ending, environment, terminal
from bench.absent import why_absent
from bench.across_table import across_tables
from bench.asked import EXECUTORS, Asked
from bench.executor.protocol import Ended, Executor
from bench.plan import make_plan
from bench.records import FINE, Answer, Environment, RunInfo, TrialRecord, TrialSpec
from bench.report import notices, wording
from bench.store import CANNOT_WRITE, RunStore, WriteError, published_record
from lmzoo.errors import LmzooError

OK, SOME_FAILED, BAD_INPUT = 0, 1, 2


class RunError(LmzooError):
    """A run cannot start."""


def run(asked: Asked, executor: Executor | None = None) -> int:
    """Resolve, plan, run the trials, and report."""
    stdout, stderr = terminal.console_on(sys.stdout), terminal.console_on(sys.stderr)
    started = datetime.now(UTC)
    folder = asked.out or _new_folder(asked, started)
    warnings: list[str] = []

    def warn(message: str) -> None:
        # the folder is looked at twice: before the texts are read and when it is taken
        if message not in warnings:
            warnings.append(message)
            stderr.print(f"warning: {message}", soft_wrap=True)

    executor = executor or EXECUTORS[asked.executor](debug=asked.debug)
    store = RunStore(folder, mode=asked.mode, warn=warn)
    store.check()
    answer = ask(asked)
    plan = make_plan(
        answer,
        devices=asked.question.devices,
        seeds=asked.seeds,
        limits=asked.limits,
        train_fractions=asked.train_fractions,
        with_text=not asked.no_text,
    )
    # early enough to think again before minutes are spent
    for notice in (*notices.about_plan(plan), *notices.about_texts(answer.facts)):
        stderr.print(f"warning: {notice}", soft_wrap=True)
    where = executor.check(plan, asked.question.devices)
    if where is not None:
        stderr.print(f"trials run on {where}", soft_wrap=True)
    with store:
        reused = [record for trial in plan if (record := store.reusable(trial)) is not None]
        store.set_outdated_aside(plan)
        store.write_run(_run_info(asked, answer, plan, reused, folder, started, tuple(warnings)))
        several = len({facts.tokenizer for facts in answer.facts}) > 1
        view = terminal.ProgressView(stderr, len(plan), name_tokenizers=several)
        view.note_reused(reused)
        done = {record.trial.trial_id for record in reused}
        remaining = [trial for trial in plan if trial.trial_id not in done]
        records, interrupted = run_trials(executor, remaining, store, view)
        if _report(folder, stderr.print):
            _show_tables(stdout, folder / "tables" / "summary.csv", [*reused, *records])
    _show_end(stdout, folder, answer, plan, [*reused, *records], warnings)
    if interrupted:
        left = f"finished trials are in {folder}, go on with --resume"
        return complain(f"interrupted; {left}", ending.interrupted_status())
    return OK if all(record.status in FINE for record in [*reused, *records]) else SOME_FAILED


def ask(asked: Asked) -> Answer:
    """Resolve models, texts and devices in a child process, so that nothing heavy is loaded in this one."""
    device = next((device for device in asked.question.devices if device != "cpu"), "cpu")
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "--describe", str(os.getpid())],
        input=asked.question.model_dump_json() + "\n",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment.trial_environment(asked.limits.threads, device),
        check=False,
    )
    try:
        answer = Answer.model_validate_json(done.stdout)
    except ValidationError as error:
        if asked.debug:
            sys.stderr.write(done.stderr)
        raise RunError(f"models and texts cannot be looked at: {_last_line(done.stderr)}") from error
    if answer.error is not None:
        raise RunError(answer.error)
    return answer


def run_trials(
    executor: Executor, trials: Sequence[TrialSpec], store: RunStore, view: terminal.ProgressView
) -> tuple[list[TrialRecord], bool]:
    """Each trial's record, written the moment it is there; and whether Ctrl-C ended the run."""
    records: list[TrialRecord] = []
    events = executor.run(trials)
    try:
        with view.showing(), closing(events):
            for event in events:
                if isinstance(event, Ended):
                    event = Ended(record=published_record(event.record))
                    with ending.held():
                        store.write_record(event.record)
                        records.append(event.record)
                view.handle(event)
    except KeyboardInterrupt:
        return records, True
    return records, False


def _new_folder(asked: Asked, started: datetime) -> Path:
    """`results/<run-id>`: the time and the first corpus."""
    first = asked.question.corpora[0]
    name = environment.safe_name(environment.text_name(first))
    run_id = f"{started:%Y%m%d-%H%M%S}-{name}"
    folder, n = Path("results", run_id), 1
    while folder.exists():
        n += 1
        folder = Path("results", f"{run_id}-{n}")
    return folder


def _run_info(
    asked: Asked,
    answer: Answer,
    plan: Sequence[TrialSpec],
    reused: Sequence[TrialRecord],
    folder: Path,
    started: datetime,
    warnings: tuple[str, ...],
) -> RunInfo:
    return RunInfo(
        run_id=_shown(Path(os.path.abspath(folder)).name),  # noqa: PTH100
        command=asked.command,
        started_utc=started.isoformat(timespec="seconds"),
        plan=tuple(plan),
        reused=tuple(record.trial.trial_id for record in reused),
        unavailable=answer.unavailable,
        descriptions={model.model: model.description for model in answer.models},
        corpora=answer.facts,
        target_perplexities=asked.targets,
        seeds=asked.seeds,
        train_fractions=asked.train_fractions,
        executor=asked.executor,
        threads=asked.limits.threads,
        quick=asked.limits.quick,
        no_text=asked.no_text,
        warnings=tuple(map(environment.without_folders, warnings)),
        environment=Environment.model_validate(environment.describe()),
    )


def _report(folder: Path, say: Callable[[str], None]) -> bool:
    """Build the report in a child process, which loads matplotlib; without it what was measured is safe.

    Raises `WriteError` where the report has no room or may not be written.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.report", "--runner", str(os.getpid()), str(folder)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment.trial_environment(1, "cpu"),
        check=False,
    )
    if done.returncode:
        why = _last_line(done.stderr).removeprefix("error: ")
        lost = f"no report, {why}; build it with: python -m bench.report {_shown(folder)}"
        if done.returncode == CANNOT_WRITE:
            raise WriteError(lost)
        say(f"warning: {lost}")
        return False
    # a plot that could not be drawn is told, though the report is there
    for line in done.stderr.splitlines():
        if line.startswith("warning: "):
            say(line)
    return True


def _show_tables(console: Console, summary: Path, records: Sequence[TrialRecord]) -> None:
    """The comparison, and what compares across tokenizers; under each why figures are missing."""
    reasons = why_absent(records, "perplexity", attrgetter("perplexity"))
    reasons += why_absent(records, "bits/char", attrgetter("bits_per_char"))
    console.print(terminal.comparison_table(terminal.read_summary(summary), console.width, reasons))
    for table in across_tables(summary, records):
        console.print(table)


def _show_end(
    console: Console,
    folder: Path,
    answer: Answer,
    plan: Sequence[TrialSpec],
    records: Sequence[TrialRecord],
    warnings: Sequence[str],
) -> None:
    for model, reason in answer.unavailable.items():
        console.print(f"not here: {model}: {reason}")
    for warning in (*notices.of_run(plan, answer.facts, records, in_brief=True), *warnings):
        console.print(f"warning: {warning}", soft_wrap=True)
    console.print(f"results in {_shown(folder)}")


def _shown(path: Path | str) -> str:
    """A path as text that any stream can take, also where the locale could not decode it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def complain(message: str, status: int) -> int:
    """One line on standard error; gives back the exit status that goes with it."""
    print(f"error: {wording.plain(message)}", file=sys.stderr)
    return status
