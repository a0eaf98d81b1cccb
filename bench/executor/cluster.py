"""Trials on the nodes of a Ray cluster that is running already, several at a time (extra `ray`).

Every trial is one task with the CPUs, memory and GPU that the plan gives it; the task starts the same fresh process as
a local run and streams its events back.  ray is loaded when an executor is made, and brings no numerical library.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from bench.environment import without_folders
from bench.executor import capacity
from bench.executor.node import Errand, files_of, run_here
from bench.executor.protocol import Ended, Event, ExecutorError, Started
from bench.records import Status, TrialRecord, TrialSpec
from lmzoo.budget import Stopwatch
from lmzoo.errors import MissingLibraryError

ADDRESS = "RAY_ADDRESS"
_START = f"start one with: ray start --head --disable-usage-stats (or name one that runs with {ADDRESS})"
_NO_CLUSTER = f"no Ray cluster is running here; {_START}"
# how long a node may take to take a call
_ANSWER_S = 5.0
# one attempt more than the first: what ends two workers in a row is most likely the trial itself
_MAX_ATTEMPTS = 2
# how often nodes are looked at while nothing comes back
_LOOK_EVERY_S = 5.0
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


class RayExecutor:
    """Runs trials on the cluster that `RAY_ADDRESS` names, or on the one that this machine is part of.

    `worker`: the command of a trial's process on the nodes, by default `bench.worker`.  Raises `MissingLibraryError`.
    """

    def __init__(self, worker: Sequence[str] | None = None, *, debug: bool = False) -> None:
        self._ray = _load_ray()
        self._worker = worker
        self._debug = debug

    def check(self, trials: Sequence[TrialSpec]) -> None:
        """Raise `ExecutorError` where no cluster is there, or none of its nodes could ever run a trial."""
        with self._connected():
            capacity.check(trials, self._nodes())

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        """The events of all trials as they come, those of several trials mixed."""
        errand = Errand.from_here(self._worker, debug=self._debug)
        watch = Stopwatch()
        with watch.running(), self._connected():
            flights = [_Flight(trial, watch) for trial in trials]
            try:
                for flight in flights:
                    self._send(flight, errand)
                while any(flight.stream is not None for flight in flights):
                    for flight in self._ready([flight for flight in flights if flight.stream is not None]):
                        yield from self._next(flight, errand)
            finally:
                self._cancel([flight.stream for flight in flights if flight.stream is not None])

    @contextmanager
    def _connected(self) -> Iterator[None]:
        address = self._address()
        # ray takes this signal for itself; the runner has its own way to end
        at_end = signal.getsignal(signal.SIGTERM)
        try:
            self._ray.init(address=address, log_to_driver=self._debug, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            raise ExecutorError(f"the Ray cluster at {address} cannot be used: {_first_line(error)}") from error
        finally:
            signal.signal(signal.SIGTERM, at_end)
        try:
            yield
        finally:
            self._ray.shutdown()

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
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
        except OSError as error:
            raise ExecutorError(f"the Ray cluster at {address} does not answer; {_START}") from error
        return address

    def _nodes(self) -> list[capacity.Resources]:
        """What each node that is alive has in all."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _send(self, flight: _Flight, errand: Errand) -> None:
        needs = capacity.needs_of(flight.trial)
        task = self._ray.remote(run_here).options(
            num_returns="streaming",
            # begun anew here, where it is counted
            max_retries=0,
            num_cpus=needs[capacity.CPU],
            num_gpus=needs.get(capacity.GPU, 0.0),
            memory=needs.get(capacity.MEMORY),
            # a node that is full of others' memory traffic measures less well than an idle one
            scheduling_strategy="SPREAD",
            name=flight.trial.trial_id,
        )
        flight.stream = task.remote(flight.trial, files_of(flight.trial.corpus), errand)

    def _ready(self, waiting: Sequence[_Flight]) -> list[_Flight]:
        """Those that have something to tell.  While nothing comes, trials that no node is left for are given up."""
        streams = {id(flight.stream): flight for flight in waiting}
        while True:
            ready, _ = self._ray.wait([flight.stream for flight in waiting], num_returns=1, timeout=_LOOK_EVERY_S)
            if ready:
                return [streams[id(stream)] for stream in ready]
            nodes = self._nodes()
            for flight in waiting:
                flight.is_stranded = not flight.is_begun and not capacity.fits(flight.trial, nodes)
            if stranded := [flight for flight in waiting if flight.is_stranded]:
                return stranded

    def _next(self, flight: _Flight, errand: Errand) -> Iterator[Event]:
        """The next event of a trial; or none, where the trial was begun anew."""
        if flight.is_stranded:
            self._cancel([flight.stream])
            yield from flight.end("killed", "no node is left that has what it asks for")
            return
        try:
            event: Event = self._ray.get(next(flight.stream))
        except StopIteration:
            yield from flight.end("failed", "its task ended without a record")
        except self._ray.exceptions.RayTaskError as error:
            yield from flight.end("failed", _first_line(getattr(error, "cause", None) or error))
        except self._ray.exceptions.RayError as error:
            what = _LOST.get(type(error).__name__, f"Ray lost it ({type(error).__name__})")
            if flight.attempts < _MAX_ATTEMPTS:
                flight.begin_anew(what)
                self._send(flight, errand)
                return
            status: Status = "out_of_memory" if type(error).__name__ == "OutOfMemoryError" else "killed"
            yield from flight.end(status, what)
        else:
            yield from flight.told(event)

    def _cancel(self, streams: Sequence[Any]) -> None:
        """End tasks by force: their trials' processes see their input closed, and end too."""
        for stream in streams:
            self._ray.cancel(stream, force=True)
        if streams:
            self._ray.wait([stream.completed() for stream in streams], num_returns=len(streams), timeout=_LEAVE_S)


class _Flight:
    """A trial on its way: the stream of its task's events, None once it has its record; how often it was begun.

    `watch`: the run's clock.
    """

    def __init__(self, trial: TrialSpec, watch: Stopwatch) -> None:
        self.trial = trial
        self.stream: Any = None
        self.attempts = 1
        self.is_begun = False
        self.is_stranded = False
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
                reason=without_folders(reason + before),
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
    # otherwise a node's death is told on standard output, where the table goes, with twenty lines of the node's log
    ray._private.worker.listen_error_messages = lambda *_: None
    return ray


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
