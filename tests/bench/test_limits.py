"""Whatever a worker does to its streams, its limits or its children, the runner stays small and the trial has a row."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from bench import ending, lifeline
from bench.executor import local, output
from bench.executor.protocol import Ended, Moved
from bench.records import SoFar, TrialRecord
from tests.bench.stubs import MIB, N_LINES_OF_FLOOD, make_trial, run_all

ROOT = Path(__file__).parents[2]
# a few lines wait in the queue, and each is parsed
MOST_HELD_BYTES = 24 * MIB


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_LEAVE_S", 0.3)


def record_of(model: str, **changes: object) -> TrialRecord:
    events = run_all([make_trial(model, **changes)])
    (ended,) = [event for event in events if isinstance(event, Ended)]
    return ended.record


@pytest.mark.whole
@pytest.mark.parametrize(("model", "status"), [("stuck", "timed_out"), ("shot", "killed")])
def test_what_was_measured_before_the_end_is_kept(model: str, status: str) -> None:
    # enough for a worker to start, also beside other load
    record = record_of(model, time_limit_s=3.0 if status == "timed_out" else 60.0)
    assert record.status == status
    assert [(point.train_s, point.valid_perplexity.value) for point in record.curve] == [(0.25, 9.0)]
    assert record.train_s == 0.25


@pytest.mark.parametrize("model", ["floods", "endless"])
def test_a_flood_of_output_is_read_in_bounded_memory(model: str) -> None:
    tracemalloc.start()
    try:
        events = run_all([make_trial(model)])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert events[-1].record.status == "ok"
    assert sum(isinstance(event, Moved) for event in events) == (N_LINES_OF_FLOOD if model == "floods" else 0)
    assert peak_bytes < MOST_HELD_BYTES


def test_an_event_without_end_ends_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (output, local):
        monkeypatch.setattr(module, "LONGEST_EVENT_BYTES", 2 * MIB)
    record = record_of("unended")
    assert (record.status, record.reason) == ("failed", "the worker wrote a line of more than 2 MiB")


def test_a_worker_that_closes_its_output_and_stays_is_a_row() -> None:
    record = record_of("mute")
    assert (record.status, record.reason) == ("failed", "the worker closed its output but did not end")


def test_a_worker_that_lingers_after_its_record_is_ended() -> None:
    assert record_of("lingers").status == "ok"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_worker_that_died_is_noticed_though_its_child_holds_the_output() -> None:
    record = record_of("orphans", time_limit_s=30.0)
    assert (record.status, record.reason) == ("killed", "signal 9 (SIGKILL)")
    assert record.wall_s < 20


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_machine_that_starts_no_more_processes_costs_a_row(number: int) -> None:
    def refuse(*_: object, **__: object) -> subprocess.Popen[bytes]:
        raise OSError(number, os.strerror(number))

    (_, ended) = local.LocalExecutor(popen=refuse).run([make_trial("good")])
    assert isinstance(ended, Ended)
    assert (ended.record.status, ended.record.reason) == (
        "failed",
        f"no worker could be started: {os.strerror(number)}",
    )


ORPHAN = """
import os, sys, threading
from bench import lifeline
lifeline.end_with_input()
child = os.fork()
if child == 0:
    threading.Event().wait()
print(child, flush=True)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no sessions")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_ends_with_its_parent_and_so_does_a_grandchild() -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ORPHAN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.stdin.close()
        # both hold the pipe: it ends when both are gone
        assert process.stdout.read() == b""
    assert process.returncode == -signal.SIGKILL


def test_a_child_whose_parent_was_gone_before_it_looked_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "getpgrp", lambda: -1)
    monkeypatch.setattr(os, "_exit", ended.append)
    lifeline._wait_for_end_of(parent=-1)
    assert ended == [lifeline.ORPHANED]


@pytest.fixture
def _handlers() -> object:
    before = {number: signal.getsignal(number) for number in ending.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize("number", ending.SIGNALS)
def test_a_signal_waits_until_a_record_is_written(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    ending.end_tidily_on_signals()
    done = []

    def write() -> None:
        with ending.held():
            signal.raise_signal(number)
            done.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["written"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert [ending.interrupted_status() for _ in range(2)] == [128 + number, 128 + signal.SIGINT]
    with ending.held():
        done.append("an old signal ends nothing more")


@pytest.mark.usefixtures("_handlers")
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_nohup_is_respected() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending.end_tidily_on_signals()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_what_a_trial_tells_of_itself_fits_its_record() -> None:
    assert set(SoFar.model_fields) <= set(TrialRecord.model_fields)
