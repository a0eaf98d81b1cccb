"""Trials on this machine, one at a time, each in a fresh interpreter.

A trial that hangs, eats memory or is killed becomes a record with that status; the next one starts clean.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any

from pydantic import ValidationError

from bench import memory
from bench.environment import trial_environment, without_folders
from bench.executor.protocol import Ended, Event, Moved, Started
from bench.records import Status, TrialRecord, TrialSpec
from lmzoo.budget import Stopwatch

WORKER = (sys.executable, "-m", "bench.worker")
# how often limits are looked at
_LOOK_EVERY_S = 0.05
_STDERR_LINES_KEPT = 20
# a worker that has given its record has nothing left to do
_LEAVE_S = 5.0
_MIB = 1024 * 1024


class LocalExecutor:
    """Runs each trial with `command`, which reads a trial as JSON and writes events (see `bench/worker.py`)."""

    def __init__(self, command: Sequence[str] = WORKER, *, debug: bool = False) -> None:
        self._command = [*command, *(["--debug"] if debug else [])]
        self._debug = debug

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial in trials:
            yield Started(trial=trial)
            with contextlib.closing(_Child(self._command, trial, echo=self._debug)) as child:
                yield from child.events()


class _Child:
    """One worker process: its output is read by threads, its limits are watched here."""

    def __init__(self, command: Sequence[str], trial: TrialSpec, *, echo: bool) -> None:
        self._trial = trial
        self._echo = echo
        self._watch = Stopwatch()
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self._has_record = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=trial_environment(trial.threads, trial.device),
            encoding="utf-8",
            errors="replace",
            # Ctrl-C in the terminal reaches the runner alone, which then ends its child
            start_new_session=sys.platform != "win32",
        )
        # None: the worker closed its standard output
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._last_errors: deque[str] = deque(maxlen=_STDERR_LINES_KEPT)
        self._readers = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def events(self) -> Iterator[Event]:
        """The worker's progress, and at last its record or the one that says why there is none."""
        with self._watch.running():
            self._send_trial()
            while True:
                record = self._past_limit()
                if record is not None:
                    break
                try:
                    line = self._lines.get(timeout=_LOOK_EVERY_S)
                except queue.Empty:
                    continue
                if line is None:
                    record = self._without_record()
                    break
                event = _parse_event(line)
                if event.get("event") == "progress":
                    yield self._moved(event)
                elif event.get("event") == "record" and (record := self._read_record(event)) is not None:
                    break
            yield Ended(record=record)

    def close(self) -> None:
        """End the process, politely once its input is closed, by force after that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_LEAVE_S if self._has_record else 0)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=_LEAVE_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _kill(self) -> None:
        """Kill the worker and whatever it has started; all are in a session of their own."""
        if sys.platform == "win32":
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send_trial(self) -> None:
        assert self._process.stdin is not None
        # a worker that died at once is noticed when its output ends
        with contextlib.suppress(OSError):
            self._process.stdin.write(self._trial.model_dump_json() + "\n")
            self._process.stdin.flush()

    def _read_events(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self, stream: IO[str]) -> None:
        for line in stream:
            if line.strip():
                self._last_errors.append(line.strip())
            if self._echo:
                sys.stderr.write(line)

    def _past_limit(self) -> TrialRecord | None:
        """The record of a trial that went past its time or memory, or None."""
        time_limit_s, limit_bytes = self._trial.time_limit_s, self._trial.memory_limit_bytes
        if time_limit_s is not None and self._watch.elapsed_s > time_limit_s:
            return self._failure("timed_out", f"not done after {time_limit_s:g} s (--time-limit)")
        if limit_bytes is not None and (rss_bytes := memory.rss_bytes(self._process.pid) or 0) > limit_bytes:
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
        self._readers[1].join(timeout=_LEAVE_S)
        said = self._last_errors[-1] if self._last_errors else "it said nothing"
        return self._failure("failed", f"the worker ended with status {code} and no record: {without_folders(said)}")

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
        return TrialRecord(
            trial=self._trial,
            status=status,
            reason=reason,
            wall_s=self._watch.elapsed_s,
            started_utc=self._started_utc,
        )


def _parse_event(line: str) -> dict[str, Any]:
    """An event, or an empty one for a line that is none: what is no event is no reason to end a trial."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
