"""Trials on the nodes of a Ray cluster that is running already, several at a time (extra `ray`).

Every trial is one task with the CPUs, memory and GPU that the plan gives it; the task starts the same fresh process as
a local run and streams its events back.  ray is loaded when an executor is made, and brings no numerical library.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bench.executor import capacity, token
from bench.executor.node import Errand, files_of, run_here
from bench.executor.protocol import Ended, Event, ExecutorError, Started
from bench.records import Status, TrialRecord, TrialSpec
from lmzoo.budget import Stopwatch
from lmzoo.errors import LmzooError, MissingLibraryError

ADDRESS = "RAY_ADDRESS"
_START = f"start one with: ray start --head --disable-usage-stats (or name one that runs with {ADDRESS})"
_NO_CLUSTER = f"no Ray cluster is running here; {_START}"
# how long a node may take to take a call
_ANSWER_S = 5.0
# one attempt more than the first: what ends two workers in a row is most likely the trial itself
_MAX_ATTEMPTS = 2
# how often nodes are looked at while nothing comes back
_LOOK_EVERY_S = 5.0
# Ray itself ends a process that has had no word from its head for a minute
_HEAD_LOST_S = 30.0
# tasks that were cancelled end at once; a node that does not answer is not waited for longer
_LEAVE_S = 5.0
_LOST = {
    "NodeDiedError": "its node died",
    "WorkerCrashedError": "its Ray worker was killed",
    "LocalRayletDiedError": "Ray ended on this machine",
    "OutOfMemoryError": "its node ran out of memory, and Ray ended it",
    "ObjectLostError": "its record was lost with the node that held it",
    "TaskCancelledError": "somebody cancelled it",
}
# asks the cluster for a trial
_Send = Callable[[TrialSpec], Any]


class RayExecutor:
    """Runs trials on the cluster that `RAY_ADDRESS` names, or on the one that this machine is part of.

    `worker`: the command of a trial's process on the nodes, by default `bench.worker`.  Raises `MissingLibraryError`.
    """

    def __init__(self, worker: Sequence[str] | None = None, *, debug: bool = False) -> None:
        self._ray = _load_ray()
        self._worker = worker
        self._debug = debug

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> str:
        """The cluster's address, in words.  Raises `ExecutorError` where none of its nodes could ever run a trial."""
        with self._connected() as address:
            nodes = self._nodes()
            capacity.check_devices(devices, nodes)
            capacity.check(trials, nodes)
        return f"the Ray cluster at {address}"

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        """The events of all trials as they come, those of several trials mixed."""
        errand = Errand.from_here(self._worker, debug=self._debug)
        # one for all: each new one is told to the head, which may be gone by then
        send = partial(self._send, self._ray.remote(run_here), errand)
        watch = Stopwatch()
        with watch.running(), self._connected() as address:
            flights = [_Flight(trial, watch) for trial in trials]
            try:
                for flight in flights:
                    flight.stream = send(flight.trial)
                yield from self._events(flights, send, _Head(address, watch))
            finally:
                self._cancel(flights)

    def _events(self, flights: Sequence[_Flight], send: _Send, head: _Head) -> Iterator[Event]:
        """What comes back from all trials, until each has its record."""
        while waiting := [flight for flight in flights if flight.stream is not None]:
            head.look()
            if head.is_lost:
                yield from self._give_up(waiting, "the head of the cluster died")
                continue
            streams = {id(flight.stream): flight for flight in waiting}
            ready, _ = self._ray.wait([flight.stream for flight in waiting], num_returns=1, timeout=_LOOK_EVERY_S)
            for stream in ready:
                yield from self._next(streams[id(stream)], send)
            if not ready and head.answers:
                yield from self._give_up(self._stranded(waiting), "no node is left that has what it asks for")

    @contextmanager
    def _connected(self) -> Iterator[str]:
        """Be part of the cluster meanwhile; gives the address of its head."""
        address = self._address()
        # ray takes this signal for itself; the runner has its own way to end
        at_end = signal.getsignal(signal.SIGTERM)
        with token.shown(self._ray, address):
            try:
                self._ray.init(address=address, log_to_driver=self._debug, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
                raise ExecutorError(f"the Ray cluster at {address} cannot be used: {_first_line(error)}") from error
            finally:
                signal.signal(signal.SIGTERM, at_end)
            try:
                yield address
            finally:
                self._ray.shutdown()
                # which gives the signal back to whom it believes to have had it
                signal.signal(signal.SIGTERM, at_end)

    def _address(self) -> str:
        """`host:port` of a cluster that answers; left to itself, ray asks for minutes where none does."""
        named = os.environ.get(ADDRESS)
        if named and named.startswith("ray://"):
            raise ExecutorError(f"{ADDRESS}={named}: a Ray client streams no events; run on a node, as host:port")
        try:
            address: str | None = self._ray._private.services.canonicalize_bootstrap_address(named or "auto")
        except (ConnectionError, ValueError) as error:
            raise ExecutorError(f"{ADDRESS}={named}: {_first_line(error)}" if named else _NO_CLUSTER) from error
        if address is None:
            raise ExecutorError(_NO_CLUSTER)
        if not _answers(address):
            raise ExecutorError(f"the Ray cluster at {address} does not answer; {_START}")
        return address

    def _nodes(self) -> list[capacity.Resources]:
        """What each node that is alive has in all."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _send(self, task: Any, errand: Errand, trial: TrialSpec) -> Any:
        """Ask for a trial; gives the stream of its events."""
        needs = capacity.needs_of(trial)
        task = task.options(
            num_returns="streaming",
            # begun anew here, where it is counted
            max_retries=0,
            num_cpus=needs[capacity.CPU],
            num_gpus=needs.get(capacity.GPU, 0.0),
            memory=needs.get(capacity.MEMORY),
            # trials that share a node share its caches
            scheduling_strategy="SPREAD",
            name=trial.trial_id,
        )
        return task.remote(trial, files_of(trial.corpus), errand)

    def _stranded(self, waiting: Sequence[_Flight]) -> list[_Flight]:
        """Those that wait for a node although none that is left could ever run them."""
        nodes = self._nodes()
        return [flight for flight in waiting if not flight.is_begun and not capacity.fits(flight.trial, nodes)]

    def _give_up(self, flights: Sequence[_Flight], reason: str) -> Iterator[Event]:
        self._cancel(flights)
        for flight in flights:
            yield from flight.end("killed", reason)

    def _next(self, flight: _Flight, send: _Send) -> Iterator[Event]:
        """The next event of a trial; or none, where the trial was begun anew."""
        try:
            event: Event = self._ray.get(next(flight.stream))
        except StopIteration:
            yield from flight.end("failed", "its task ended without a record")
        except self._ray.exceptions.RayTaskError as error:
            yield from flight.end("failed", _refused(getattr(error, "cause", None) or error))
        except self._ray.exceptions.RayError as error:
            what = _LOST.get(type(error).__name__, f"Ray lost it ({type(error).__name__})")
            if flight.attempts < _MAX_ATTEMPTS:
                flight.begin_anew(what)
                flight.stream = send(flight.trial)
                return
            status: Status = "out_of_memory" if type(error).__name__ == "OutOfMemoryError" else "killed"
            yield from flight.end(status, what)
        else:
            yield from flight.told(event)

    def _cancel(self, flights: Sequence[_Flight]) -> None:
        """End tasks that go on by force: their trials' processes see their input closed, and end too."""
        streams = [flight.stream for flight in flights if flight.stream is not None]
        for stream in streams:
            self._ray.cancel(stream, force=True)
        if streams:
            self._ray.wait([stream.completed() for stream in streams], num_returns=len(streams), timeout=_LEAVE_S)


class _Head:
    """Whether the head of the cluster answers: looked at every few seconds, lost after half a minute of silence."""

    def __init__(self, address: str, watch: Stopwatch) -> None:
        self.answers = True
        self._address = address
        self._watch = watch
        self._looked_s = self._answered_s = watch.elapsed_s

    def look(self) -> None:
        now_s = self._watch.elapsed_s
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self.answers = _answers(self._address)
            if self.answers:
                self._answered_s = now_s

    @property
    def is_lost(self) -> bool:
        return self._looked_s - self._answered_s >= _HEAD_LOST_S


class _Flight:
    """A trial on its way: the stream of its task's events, None once it has its record; how often it was begun.

    `watch`: the run's clock.
    """

    def __init__(self, trial: TrialSpec, watch: Stopwatch) -> None:
        self.trial = trial
        self.stream: Any = None
        self.attempts = 1
        self.is_begun = False
        self._is_announced = False
        self._lost = ""
        self._watch = watch
        self._begun_s = watch.elapsed_s
        self._started_utc = _now()

    def told(self, event: Event) -> Iterator[Event]:
        """An event of its task as the runner sees it: one start and one record, however often it was begun."""
        if isinstance(event, Ended):
            self._land()
            yield Ended(record=event.record.model_copy(update={"attempts": self.attempts}))
        elif isinstance(event, Started):
            self.is_begun = True
            self._begun_s, self._started_utc = self._watch.elapsed_s, _now()
            if not self._is_announced:
                self._is_announced = True
                yield event
        else:
            yield event

    def begin_anew(self, lost: str) -> None:
        """Count another attempt after the worker of the one before was lost, and why."""
        self.attempts += 1
        self.is_begun = False
        self._lost = lost

    def end(self, status: Status, reason: str) -> Iterator[Event]:
        """The end of a trial that gave no record itself."""
        if not self._is_announced:
            yield Started(trial=self.trial)
        self._land()
        before = f" (begun anew after {self._lost})" if self._lost else ""
        yield Ended(
            record=TrialRecord(
                trial=self.trial,
                status=status,
                reason=reason + before,
                wall_s=self._watch.elapsed_s - self._begun_s,
                started_utc=self._started_utc,
                attempts=self.attempts,
            )
        )

    def _land(self) -> None:
        self.stream = None


def _load_ray() -> Any:
    # no figure of a run leaves the machine; read when ray is loaded
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingLibraryError(
            "--executor ray needs ray, which is not installed: python -m pip install 'lmzoo[ray]'"
        ) from error
    # otherwise the end of a task that nobody waits for any more is told on standard error when the cluster is left
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # otherwise a node's death is told on standard output, where the table goes, with twenty lines of the node's log
    ray._private.worker.listen_error_messages = lambda *_: None
    return ray


def _answers(address: str) -> bool:
    """Whether something listens at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except OSError:
        return False
    return True


def _refused(error: BaseException) -> str:
    """Why a node gave no record: for a reason of its own, or because it does not understand what it was sent."""
    line = _first_line(error)
    if isinstance(error, LmzooError):
        return line
    return f"its node could not begin it ({line}); is the same version of lmzoo and bench installed there?"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
