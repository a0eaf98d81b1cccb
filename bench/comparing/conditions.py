"""The conditions that runs were made under: what to know before their figures are believed, on which machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.comparing.naming import few_of, shortened
from bench.records import Environment
from bench.report import notices
from bench.report.provenance import corpora_of, uncommitted
from bench.report.reading import Run


def conditions_of(names: Sequence[str], runs: Iterable[Run]) -> list[str]:
    """What each run's own report warns of, the gravest first; what several runs share stands once, with their names."""
    found: dict[str, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        for notice in _notices(run):
            found.setdefault(notice, []).append(name)
    return [f"{few_of(list(dict.fromkeys(named)))}: {notice}" for notice, named in found.items()]


def machines_of(run: Run) -> list[Environment]:
    """Where the trials ran; where no record tells, where the run was started."""
    return [record.environment for record in run.records if record.environment] or [run.info.environment]


def processors_of(run: Run) -> str:
    return ", ".join(dict.fromkeys(machine.cpu_model for machine in machines_of(run)))


def commit_of(machine: Environment) -> str | None:
    """The commit of the code that ran there, shortened; None where it is not known."""
    if machine.git_commit is None:
        return None
    return f"{shortened(machine.git_commit)}{uncommitted(machine)}"


def _notices(run: Run) -> tuple[str, ...]:
    return (
        *notices.below_source(run.records),
        *notices.about_plan(run.info.plan),
        *notices.about_texts(corpora_of(run)),
        *notices.about_load(run.records),
        *notices.about_devices(run.records),
        *run.info.warnings,
        *run.warnings,
    )
