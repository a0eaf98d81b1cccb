"""What a command line asks for: its options as one value, checked for what contradicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench import environment, memory
from bench.executor.cluster import RayExecutor
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Executor
from bench.options import list_of, utf8
from bench.plan import Limits
from bench.records import CorpusSpec, Question
from bench.store import Mode
from lmzoo.errors import did_you_mean

DEFAULT_CORPUS = "genesis"
# where trials can run
EXECUTORS: dict[str, Callable[..., Executor]] = {"local": LocalExecutor, "ray": RayExecutor}
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asked for."""

    command: str
    question: Question
    seeds: int
    train_fractions: tuple[float, ...]
    limits: Limits
    targets: tuple[float, ...]
    out: Path | None
    mode: Mode
    no_text: bool
    debug: bool
    executor: str = "local"


def asked_of(arguments: list[str], options: dict[str, Any]) -> Asked:
    """The options of a command line, those of its plan among them, as one value.

    Raises `UsageError` for what contradicts or cannot be.
    """
    refuse_contradictions(options)
    executor = _executor(options["executor"])
    if executor == "local":
        refuse_what_this_machine_lacks(options["threads"], options["memory_limit"])
    limits = limits_of(options, quick=options["quick"])
    devices = list_of(options["device"], "--device")
    corpora = tuple(corpus for own in options["corpora"] for corpus in corpora_of({**options, **own}))
    question = Question(
        models=utf8(options["models"]),
        corpora=corpora,
        devices=tuple(devices),
        is_elsewhere=executor != "local",
    )
    return Asked(
        command=environment.command_line("python -m bench.run", [utf8(a) for a in arguments]),
        question=question,
        seeds=options["seeds"],
        train_fractions=options["train_fractions"],
        limits=limits,
        targets=options["target_ppl"],
        out=options["out"],
        mode=mode_of(options),
        no_text=options["no_text"],
        debug=options["debug"],
        executor=executor,
    )


def limits_of(options: Mapping[str, Any], *, quick: bool = False) -> Limits:
    """What bounds each trial."""
    memory_limit_mib = options["memory_limit"]
    return Limits(
        budget_s=options["budget"],
        epochs=options["epochs"],
        max_steps=options["max_steps"],
        threads=options["threads"],
        time_limit_s=options["time_limit"],
        memory_limit_bytes=None if memory_limit_mib is None else int(memory_limit_mib * _MIB),
        quick=quick,
    )


def mode_of(options: Mapping[str, Any]) -> Mode:
    """What becomes of a folder that is there."""
    return "resume" if options["resume"] else "force" if options["force"] else "new"


def refuse_contradictions(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for options of which one makes the other void."""
    if options["resume"] and options["force"]:
        raise click.UsageError("--resume and --force exclude each other")
    budget_s, time_limit_s = options["budget"], options["time_limit"]
    if budget_s is not None and time_limit_s is not None and time_limit_s <= budget_s:
        raise click.UsageError(
            f"--time-limit {time_limit_s:g} would end every trial before its --budget of {budget_s:g} s; "
            "loading, validating and testing come on top of it"
        )


def refuse_what_this_machine_lacks(threads: int, memory_limit_mib: float | None) -> None:
    """Raise `UsageError` for more threads or memory than there are."""
    usable = environment.n_cpus_usable()
    if threads > usable:
        raise click.UsageError(
            f"--threads {threads}: {usable} CPUs are usable here, and threads that wait for one another "
            f"tell nothing of the time; give at most {usable}"
        )
    if memory_limit_mib is None:
        return
    if not memory.can_watch():
        raise click.UsageError("--memory-limit needs /proc, which this system does not have")
    total_bytes = environment.memory_total_bytes()
    if total_bytes is not None and memory_limit_mib * _MIB > total_bytes:
        raise click.UsageError(
            f"--memory-limit {memory_limit_mib:g} MiB: this machine has {total_bytes // _MIB} MiB; give less"
        )


def _executor(name: str) -> str:
    if name not in EXECUTORS:
        close = did_you_mean(name, EXECUTORS)
        raise click.UsageError(f"no executor {name!r}.{close} There are: {', '.join(EXECUTORS)}")
    return name


def corpora_of(options: Mapping[str, Any], *, with_test: bool = True) -> list[CorpusSpec]:
    """One for each corpus and tokenizer asked for; without `with_test` a test text may be named, and stays unread."""
    train = tuple(map(utf8, options["train"]))
    # one path is written as such, not as a list of one
    parts: dict[str, Any] = {"train": train if len(train) > 1 else train[0]} if train else {}
    parts |= {key: utf8(options[key]) for key in ("valid", "test") if options[key] is not None}
    names: list[str | None] = [utf8(name) for name in options["corpus"]]
    if parts and names:
        raise click.UsageError(f"--corpus and --{next(iter(parts))} exclude each other")
    needed = ("train", "test") if with_test else ("train",)
    if parts and not set(needed) <= set(parts):
        wanted = "--train and --test are both needed" if with_test else "--train is needed"
        raise click.UsageError(f"{wanted}, got --{' and --'.join(parts)} alone")
    if not with_test:
        parts.pop("test", None)
    if not parts and not names:
        names = [DEFAULT_CORPUS]
    tokens: list[str | None] = [None] if options["tokens"] is None else [*list_of(options["tokens"], "--tokens")]
    reading: dict[str, Any] = {
        key: options[key] for key in ("normalize", "documents", "min_freq", "encoding", "invalid")
    }
    reading["with_test"] = with_test
    return [CorpusSpec(name=name, tokens=kind, **parts, **reading) for name in (names or [None]) for kind in tokens]
