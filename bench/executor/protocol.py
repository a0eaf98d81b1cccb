"""What an executor is: something that runs trials somewhere and tells what happens."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.records import TrialRecord, TrialSpec
from lmzoo.errors import LmzooError


class ExecutorError(LmzooError):
    """Trials cannot run where they were to run: nothing is there, or nothing that is large enough."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A trial began."""

    trial: TrialSpec


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A trial got on: phase, training seconds, share of its budget (None: it has no limit), latest perplexity."""

    trial: TrialSpec
    phase: str
    train_s: float
    share: float | None
    perplexity: float | None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A trial has its record, whatever became of it."""

    record: TrialRecord


Event = Started | Moved | Ended


class Executor(Protocol):
    """Runs trials; every trial ends with exactly one `Ended`.

    Closing the generator, or an exception thrown into it, ends what runs; a trial that was cut off so gives no record.
    """

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> str | None:
        """Where trials will run, in words, unless it is this machine.  Nothing has been written yet.

        `devices`: those that were asked for, also where no trial of the plan uses them.  Raises `ExecutorError` unless
        there is a place where each trial can run, and one that has each device.
        """

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]: ...
