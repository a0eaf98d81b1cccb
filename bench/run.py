"""The command line of a run: `python -m bench.run --models all`.

Exit status: 0 all trials fine; 1 some trial failed (its row says why); 2 bad arguments or input; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.console import Console

from bench import environment, memory, terminal
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Executor
from bench.options import list_of, perplexities, positive, utf8
from bench.plan import Limits, make_plan
from bench.records import FINE, Answer, CorpusSpec, Environment, Question, RunInfo, TrialRecord, TrialSpec
from bench.report import notices
from bench.store import Mode, RunStore, WriteError
from lmzoo.arguments import ListOption, OnceCommand
from lmzoo.errors import LmzooError
from lmzoo.streams import drop_stdout, never_raise_on_output, open_closed_streams

OK, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
DEFAULT_CORPUS = "genesis"
# one: the same on every machine, and beside other load a second thread mostly makes the first one wait
DEFAULT_THREADS = 1
_MIB = 1024 * 1024


class RunError(LmzooError):
    """A run cannot start."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asked for."""

    command: str
    question: Question
    seeds: int
    limits: Limits
    targets: tuple[float, ...]
    out: Path | None
    mode: Mode
    no_text: bool
    debug: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are one line on standard error."""
    open_closed_streams()
    never_raise_on_output("replace")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = command.main(arguments, prog_name="python -m bench.run", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except click.ClickException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except WriteError as error:
        return _complain(str(error), SOME_FAILED)
    except LmzooError as error:
        return _complain(str(error), BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted; trials that were finished are kept", INTERRUPTED)
    except OSError as error:
        # a terminal or pipe that takes no more; records are written before anything is told of them
        drop_stdout()
        where = error.filename or "standard output"
        return _complain(f"{where}: {error.strerror or error}; trials that were finished are kept", SOME_FAILED)
    return int(status or OK)


def _complain(message: str, status: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status


@click.command(cls=OnceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--models",
    cls=ListOption,
    default="all",
    show_default=True,
    help="Model specs, separated by commas, such as unigram,kn5,lstm-scratch:hidden=512; all: lmzoo's own, each once; "
    "peers: installed adapters and compressors; counting: n-grams of several orders and smoothings.",
)
@click.option("--corpus", multiple=True, help="Name or path of a text; may be repeated.  [default: genesis]")
@click.option(
    "--train", multiple=True, help="Path of a training text; with --test.  Repeated: one text, in this order."
)
@click.option("--valid", help="Path of a validation text; without it the last tenth of --train serves.")
@click.option("--test", help="Path of a test text; with --train.")
@click.option(
    "--tokens", cls=ListOption, help="char or word, or both separated by a comma.  [default: the corpus's own]"
)
@click.option("--normalize", help="letters, lower or none.  [default: the corpus's own]")
@click.option("--documents", help="Context policy: file, line, paragraph or running.  [default: by --tokens]")
@click.option(
    "--min-freq", type=click.IntRange(min=1), default=1, show_default=True, help="Rarer training tokens become <unk>."
)
@click.option(
    "--device",
    cls=ListOption,
    default="cpu",
    show_default=True,
    help="cpu, cuda or cuda:N, or several separated by commas.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds of each neural model: 0, 1 …"
)
@click.option(
    "--budget", type=float, callback=positive, help="Seconds of training of each neural model.  [default: 15]"
)
@click.option("--epochs", type=float, callback=positive, help="Epochs of training of each neural model.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Optimiser steps of each neural model.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=DEFAULT_THREADS, show_default=True, help="Threads of every trial."
)
@click.option(
    "--target-ppl",
    multiple=True,
    callback=perplexities,
    help="Validation perplexity to time; may be repeated or a list.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: results/<run-id>]")
@click.option("--resume", is_flag=True, help="Go on in an existing folder: what is finished is not run again.")
@click.option("--force", is_flag=True, help="Move an existing folder aside.")
@click.option("--quick", is_flag=True, help="0.3 s of training for each neural model; everything else the same.")
@click.option(
    "--time-limit",
    type=float,
    callback=positive,
    help="Seconds after which a trial is ended.  [default: 600 + 3 budgets]",
)
@click.option(
    "--memory-limit", type=float, callback=positive, help="MiB of resident memory above which a trial is ended."
)
@click.option("--no-text", is_flag=True, help="No passage of the corpus in the report.")
@click.option("--debug", is_flag=True, help="Show what trials print, and tracebacks.")
@click.pass_obj
def command(arguments: list[str], /, **options: Any) -> int:
    """Train language models on a text, measure them, and compare them."""
    return run(_asked(arguments, options))


def _asked(arguments: list[str], options: dict[str, Any]) -> Asked:
    if options["resume"] and options["force"]:
        raise click.UsageError("--resume and --force exclude each other")
    if options["memory_limit"] is not None and not memory.can_watch():
        raise click.UsageError("--memory-limit needs /proc, which this system does not have")
    memory_limit_mib = options["memory_limit"]
    limits = Limits(
        budget_s=options["budget"],
        epochs=options["epochs"],
        max_steps=options["max_steps"],
        threads=options["threads"],
        time_limit_s=options["time_limit"],
        memory_limit_bytes=None if memory_limit_mib is None else int(memory_limit_mib * _MIB),
        quick=options["quick"],
    )
    devices = list_of(options["device"], "--device")
    question = Question(models=utf8(options["models"]), corpora=tuple(_corpora(options)), devices=tuple(devices))
    return Asked(
        command=environment.command_line("python -m bench.run", [utf8(a) for a in arguments]),
        question=question,
        seeds=options["seeds"],
        limits=limits,
        targets=options["target_ppl"],
        out=options["out"],
        mode="resume" if options["resume"] else "force" if options["force"] else "new",
        no_text=options["no_text"],
        debug=options["debug"],
    )


def _corpora(options: dict[str, Any]) -> list[CorpusSpec]:
    """One for each corpus and tokenizer asked for."""
    train = tuple(map(utf8, options["train"]))
    # one path is written as such, not as a list of one
    parts: dict[str, Any] = {"train": train if len(train) > 1 else train[0]} if train else {}
    parts |= {key: utf8(options[key]) for key in ("valid", "test") if options[key] is not None}
    names: list[str | None] = [utf8(name) for name in options["corpus"]]
    if parts and names:
        raise click.UsageError(f"--corpus and --{next(iter(parts))} exclude each other")
    if parts and not {"train", "test"} <= set(parts):
        raise click.UsageError(f"--train and --test are both needed, got --{' and --'.join(parts)} alone")
    if not parts and not names:
        names = [DEFAULT_CORPUS]
    tokens: list[str | None] = [None] if options["tokens"] is None else [*list_of(options["tokens"], "--tokens")]
    reading: dict[str, Any] = {key: options[key] for key in ("normalize", "documents", "min_freq")}
    return [CorpusSpec(name=name, tokens=kind, **parts, **reading) for name in (names or [None]) for kind in tokens]


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

    store = RunStore(folder, mode=asked.mode, warn=warn)
    store.check()
    answer = ask(asked)
    _warn_of_conditions(asked, warn)
    plan = make_plan(answer, devices=asked.question.devices, seeds=asked.seeds, limits=asked.limits)
    # early enough to think again before minutes are spent
    for notice in (*notices.about_plan(plan), *notices.about_texts(answer.facts)):
        stderr.print(f"warning: {notice}", soft_wrap=True)
    with store:
        reused = [record for trial in plan if (record := store.reusable(trial)) is not None]
        store.set_outdated_aside(plan)
        store.write_run(_run_info(asked, answer, plan, reused, folder, started, tuple(warnings)))
        several = len({facts.tokenizer for facts in answer.facts}) > 1
        view = terminal.ProgressView(stderr, len(plan), name_tokenizers=several)
        for record in reused:
            view.note_reused(record)
        done = {record.trial.trial_id for record in reused}
        remaining = [trial for trial in plan if trial.trial_id not in done]
        records, interrupted = run_trials(executor or LocalExecutor(debug=asked.debug), remaining, store, view)
        if _report(folder, stderr.print):
            rows = terminal.read_summary(folder / "tables" / "summary.csv")
            stdout.print(terminal.comparison_table(rows, stdout.width))
    _show_end(stdout, folder, answer, plan, [*reused, *records], warnings)
    if interrupted:
        return _complain(f"interrupted; finished trials are in {folder}, go on with --resume", INTERRUPTED)
    return OK if all(record.status in FINE for record in [*reused, *records]) else SOME_FAILED


def ask(asked: Asked) -> Answer:
    """Resolve models, texts and devices in a child process, so that nothing heavy is loaded in this one."""
    device = next((device for device in asked.question.devices if device != "cpu"), "cpu")
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "--describe"],
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


def _warn_of_conditions(asked: Asked, warn: Callable[[str], None]) -> None:
    usable = environment.n_cpus_usable()
    if asked.limits.threads > usable:
        warn(f"{asked.limits.threads} threads on {usable} usable CPUs: times will be long and unsteady")


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
        corpora=answer.facts,
        target_perplexities=asked.targets,
        seeds=asked.seeds,
        threads=asked.limits.threads,
        quick=asked.limits.quick,
        no_text=asked.no_text,
        warnings=tuple(map(environment.without_folders, warnings)),
        environment=Environment.model_validate(environment.describe()),
    )


def _report(folder: Path, say: Callable[[str], None]) -> bool:
    """Build the report in a child process, which loads matplotlib; without it what was measured is safe."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.report", str(folder)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment.trial_environment(1, "cpu"),
        check=False,
    )
    if done.returncode:
        say(f"warning: no report, {_last_line(done.stderr)}; build it with: python -m bench.report {_shown(folder)}")
        return False
    # a plot that could not be drawn is told, though the report is there
    for line in done.stderr.splitlines():
        if line.startswith("warning: "):
            say(line)
    return True


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
    for warning in (*notices.of_run(plan, answer.facts, records), *warnings):
        console.print(f"warning: {warning}", soft_wrap=True)
    console.print(f"results in {_shown(folder)}")


def _shown(path: Path | str) -> str:
    """A path as text that any stream can take, also where the locale could not decode it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def end_tidily_on_signals() -> None:
    """Let a polite end (`kill`, `timeout`) be as tidy as Ctrl-C, and let Ctrl-C reach also a job in the background."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    end_tidily_on_signals()
    sys.exit(main())
