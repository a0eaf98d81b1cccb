"""How long networks were trained, and what limits trials had, in words."""

from __future__ import annotations

from collections.abc import Iterable

from bench.records import TrialSpec
from bench.report import wording


def networks_of(plan: Iterable[TrialSpec]) -> list[TrialSpec]:
    """The trials whose model is trained step by step."""
    return [trial for trial in plan if trial.family == "neural"]


def length_of(trial: TrialSpec) -> str:
    """How long a network is trained; of several limits, the one that is reached first ends it."""
    steps = None if trial.max_steps is None else f"{trial.max_steps:,}"
    given = {"s": _brief(trial.budget_s), "epochs": _brief(trial.epochs), "steps": steps}
    return " or ".join(f"{value} {unit}" for unit, value in given.items() if value is not None)


def _brief(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def time_limit(trial: TrialSpec) -> str:
    """After how long it is ended, if ever."""
    return "none" if trial.time_limit_s is None else wording.seconds(trial.time_limit_s)


def memory_limit(trial: TrialSpec) -> str:
    """At what memory it is ended, if at any."""
    return "none" if trial.memory_limit_bytes is None else wording.size(trial.memory_limit_bytes)
