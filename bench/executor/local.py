"""Trials on this machine, one at a time, each in a fresh interpreter.

A trial that hangs, eats memory or is killed becomes a record with that status; the next one starts clean.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from bench import memory
from bench.environment import trial_environment
from bench.executor.output import LONGEST_EVENT_BYTES, Errors, Events, TooLongError
from bench.executor.protocol import Ended, Event, Moved, Started
from bench.records import SoFar, Status, TrialRecord, TrialSpec
from lmzoo.budget import Stopwatch

WORKER = (sys.executable, "-m", "bench.worker")
# how often limits are looked at
_LOOK_EVERY_S = 0.05
# a worker that has given its record has nothing left to do
_LEAVE_S = 5.0
_MIB = 1024 * 1024


class LocalExecutor:
    """Runs each trial with `command`, which reads a trial as JSON and writes events (see `bench/worker.py`).

    `popen`: what starts the process, called like `subprocess.Popen`.
    """

    def __init__(
        self,
        command: Sequence[str] = WORKER,
        *,
        debug: bool = False,
        popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> None:
        self._command = [*command, *(["--debug"] if debug else [])]
        self._debug = debug
        self._popen = popen

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> str | None:
        """This machine is here; what it cannot do is looked for when models, texts and devices are."""
        return None

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial in trials:
            yield Started(trial=trial)
            try:
                child = _Child(self._command, trial, self._popen, echo=self._debug)
            except OSError as error:
                # a command that is not there stays an error of the run
                if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                    raise
                yield Ended(record=_never_started(trial, error))
                continue
            with contextlib.closing(child):
                yield from child.events()


class _Child:
    """One worker process: its output is read by threads, its limits are watched here."""

    def __init__(
        self, command: Sequence[str], trial: TrialSpec, popen: Callable[..., subprocess.Popen[bytes]], *, echo: bool
    ) -> None:
        self._trial = trial
        self._watch = Stopwatch()
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self._so_far = SoFar()
        self._has_record = False
        self._ended_at_s: float | None = None
        self._memory_looked_at_s = -math.inf
        self._process = popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=trial_environment(trial.threads, trial.device),
            # Ctrl-C in the terminal reaches the runner alone, which then ends its child
            start_new_session=sys.platform != "win32",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input = self._process.stdin
        self._events = Events(self._process.stdout)
        self._errors = Errors(self._process.stderr, echo=echo)

    def events(self) -> Iterator[Event]:
        """The worker's progress, and at last its record or the one that says why there is none."""
        with self._watch.running():
            self._send_trial()
            while (record := self._past_limit()) is None:
                try:
                    line = self._events.next(_LOOK_EVERY_S)
                except queue.Empty:
                    if not self._is_gone():
                        continue
                    line = None
                except TooLongError:
                    reason = f"the worker wrote a line of more than {LONGEST_EVENT_BYTES // _MIB} MiB"
                    record = self._failure("failed", reason)
                    break
                if line is None:
                    record = self._without_record()
                    break
                event = _parse_event(line)
                if event.get("event") == "progress":
                    yield self._moved(event)
                elif (record := self._noted(event)) is not None:
                    break
            yield Ended(record=record)

    def close(self) -> None:
        """End the process, politely once its input is closed, by force after that, with all that it started."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(timeout=_LEAVE_S if self._has_record else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._kill_all()
        self._events.close(_LEAVE_S)
        self._errors.close(_LEAVE_S)

    def _is_gone(self) -> bool:
        """Whether the worker ended and nothing more can come of it, though its output is still open.

        What it started may hold the output: that is ended with it.  What fled into another session is waited for a
        little, as what the worker wrote last may still be on its way.
        """
        if self._process.poll() is None:
            return False
        if self._ended_at_s is None:
            self._ended_at_s = self._watch.elapsed_s
            self._kill_all()
        return self._watch.elapsed_s - self._ended_at_s > _LEAVE_S

    def _kill_all(self) -> None:
        """Kill whatever is left of the worker's session: itself and what it started."""
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _send_trial(self) -> None:
        # a worker that died at once is noticed when its output ends
        with contextlib.suppress(OSError):
            self._input.write(self._trial.model_dump_json().encode() + b"\n")
            self._input.flush()

    def _noted(self, event: dict[str, Any]) -> TrialRecord | None:
        """The record, where the event brings it; what was measured so far is kept in case that none comes."""
        if event.get("event") == "record":
            return self._read_record(event)
        if event.get("event") == "so_far":
            # what does not fit is no more than what was never told
            with contextlib.suppress(ValidationError):
                self._so_far = SoFar.model_validate(event.get("so_far"))
        return None

    def _past_limit(self) -> TrialRecord | None:
        """The record of a trial that went past its time or memory, or None."""
        time_limit_s, limit_bytes = self._trial.time_limit_s, self._trial.memory_limit_bytes
        now_s = self._watch.elapsed_s
        if time_limit_s is not None and now_s > time_limit_s:
            return self._failure("timed_out", f"not done after {time_limit_s:g} s (--time-limit)")
        if limit_bytes is None or now_s - self._memory_looked_at_s < _LOOK_EVERY_S:
            return None
        self._memory_looked_at_s = now_s
        if (rss_bytes := memory.rss_bytes(self._process.pid) or 0) > limit_bytes:
            reason = f"{rss_bytes / _MIB:.0f} MiB resident, {limit_bytes / _MIB:g} MiB allowed (--memory-limit)"
            return self._failure("out_of_memory", reason)
        return None

    def _without_record(self) -> TrialRecord:
        """The record of a worker that closed its output without one."""
        try:
            code = self._process.wait(timeout=_LEAVE_S)
        except subprocess.TimeoutExpired:
            return self._failure("failed", "the worker closed its output but did not end")
        if code < 0:
            return self._failure("killed", _signal_name(-code))
        self._kill_all()
        said = self._errors.last_line(_LEAVE_S)
        return self._failure("failed", f"the worker ended with status {code} and no record: {said}")

    def _read_record(self, event: dict[str, Any]) -> TrialRecord | None:
        try:
            record = TrialRecord.model_validate(event.get("record"))
        except ValidationError as error:
            return self._failure("failed", f"the worker's record does not fit the schema: {error.errors()[0]['msg']}")
        self._has_record = True
        return record

    def _moved(self, event: dict[str, Any]) -> Moved:
        return Moved(
            trial=self._trial,
            phase=str(event.get("phase", "")),
            train_s=float(event.get("train_s") or 0.0),
            share=event.get("share"),
            perplexity=event.get("perplexity"),
        )

    def _failure(self, status: Status, reason: str) -> TrialRecord:
        """The record of a trial that gave none itself, with whatever it told before."""
        return TrialRecord(
            trial=self._trial,
            status=status,
            reason=reason,
            wall_s=self._watch.elapsed_s,
            started_utc=self._started_utc,
            **dict(self._so_far),
        )


def _never_started(trial: TrialSpec, error: OSError) -> TrialRecord:
    """No process or no memory was left at that moment; the next trial may find some."""
    started_utc = datetime.now(UTC).isoformat(timespec="seconds")
    reason = f"no worker could be started: {error.strerror}"
    return TrialRecord(trial=trial, status="failed", reason=reason, wall_s=0.0, started_utc=started_utc)


def _parse_event(line: bytes) -> dict[str, Any]:
    """An event, or an empty one for a line that is none: what is no event is no reason to end a trial."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
