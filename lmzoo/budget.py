"""How long a model may train, and the one stopwatch that says how long it did."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lmzoo.errors import InputError, require_number, require_whole


class Stopwatch:
    """Seconds spent inside `running()`; paused everywhere else.  `clock` is injected in tests."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._before_s = 0.0
        self._started: float | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the watch run for the length of a `with` block."""
        if self._started is not None:
            raise RuntimeError("the stopwatch is running already")
        self._started = self._clock()
        try:
            yield
        finally:
            self._before_s += self._clock() - self._started
            self._started = None

    def go_on_from(self, elapsed_s: float) -> None:
        """Count on from so many seconds, those of an earlier process among them."""
        self._before_s = elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds so far, the block that is running now included."""
        now = 0.0 if self._started is None else self._clock() - self._started
        return self._before_s + now


@dataclass(frozen=True, kw_only=True)
class Change:
    """A schedule of the training took another value after so many optimiser steps and training seconds."""

    schedule: str
    value: str
    step: int
    train_s: float


@dataclass(kw_only=True)
class Budget:
    """Limits of one training, any of seconds, optimiser steps and epochs; whichever is reached first ends it.

    A trainer tells `note()` where it stands and stops once `is_spent`; schedules follow `used`, and what changes in
    them is told with `note_change()`: under a budget of seconds the machine's speed decides at which step it does.
    """

    seconds: float | None = None
    steps: int | None = None
    epochs: float | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    steps_done: int = 0
    epochs_done: float = 0.0
    changes: list[Change] = field(default_factory=list)
    _part: str = ""

    def __post_init__(self) -> None:
        for name in ("seconds", "steps", "epochs"):
            value = getattr(self, name)
            if value is None:
                continue
            require_number(value, f"{name} of a budget")
            # written so that NaN is refused too
            if not value > 0:
                raise InputError(f"{name} of a budget must be above 0, got {value}")
        if self.steps is not None:
            require_whole(self.steps, "steps of a budget", 1)

    def note(self, *, steps_done: int, epochs_done: float) -> None:
        """Record the optimiser steps and the epochs (fractions count) done so far."""
        self.steps_done, self.epochs_done = steps_done, epochs_done

    def note_change(self, schedule: str, value: str, *, step: int) -> None:
        """Record that a schedule has another value after so many steps, now."""
        name = f"{self._part}: {schedule}" if self._part else schedule
        self.changes.append(Change(schedule=name, value=value, step=step, train_s=self.watch.elapsed_s))

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within a `with` block the changes are those of a part of the model."""
        self._part = name
        try:
            yield
        finally:
            self._part = ""

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits by name; None where there is none."""
        return {"seconds": self.seconds, "steps": self.steps, "epochs": self.epochs}

    @property
    def used(self) -> float:
        """The share of the budget that is used up, 0 to 1; 0 for ever when there is no limit."""
        shares = [
            done / limit
            for done, limit in (
                (self.watch.elapsed_s, self.seconds),
                (self.steps_done, self.steps),
                (self.epochs_done, self.epochs),
            )
            if limit is not None
        ]
        return min(max(shares, default=0.0), 1.0)

    @property
    def is_spent(self) -> bool:
        return self.used >= 1.0
