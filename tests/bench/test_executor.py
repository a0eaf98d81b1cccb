"""Whatever becomes of a trial's process, the trial has one record, and the next one runs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from bench import memory
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Moved, Started
from bench.records import TrialRecord, TrialSpec
from tests.bench.stubs import HELD_MIB, MIB, make_trial, run_all, stub_executor


def record_of(trial: TrialSpec) -> TrialRecord:
    events = run_all([trial])
    assert isinstance(events[0], Started)
    (ended,) = [event for event in events if isinstance(event, Ended)]
    assert events[-1] is ended
    return ended.record


def test_a_good_trial_gives_its_record() -> None:
    record = record_of(make_trial("good"))
    assert (record.status, record.trial.model) == ("ok", "good")


@pytest.mark.parametrize(
    ("model", "status", "reason"),
    [
        ("killed", "killed", "signal 9 (SIGKILL)"),
        ("leaves", "failed", "the worker ended with status 7 and no record: it said nothing"),
        (
            "raises",
            "failed",
            "the worker ended with status 1 and no record: RuntimeError: the model at /secret/folder/model.bin broke",
        ),
        ("half", "failed", "the worker's record does not fit the schema: Field required"),
    ],
)
def test_a_worker_without_a_record_is_a_row_with_a_reason(model: str, status: str, reason: str) -> None:
    record = record_of(make_trial(model))
    assert (record.status, record.reason) == (status, reason)


def test_what_is_no_event_is_passed_over() -> None:
    events = run_all([make_trial("garbage")])
    assert [type(event) for event in events] == [Started, Moved, Ended]
    assert events[1] == Moved(trial=events[1].trial, phase="training", train_s=1.5, share=0.5, perplexity=3.0)
    assert events[2].record.status == "ok"


def test_a_trial_that_hangs_is_ended_at_the_limit_and_the_rest_runs() -> None:
    events = run_all([make_trial("sleeps", time_limit_s=0.5), make_trial("good")])
    records = [event.record for event in events if isinstance(event, Ended)]
    assert [record.status for record in records] == ["timed_out", "ok"]
    assert records[0].reason == "not done after 0.5 s (--time-limit)"
    assert records[0].wall_s >= 0.5


@pytest.mark.skipif(not memory.can_watch(), reason="this system has no /proc")
def test_a_trial_that_takes_too_much_memory_is_ended() -> None:
    record = record_of(make_trial("greedy", memory_limit_bytes=HELD_MIB // 2 * MIB))
    assert record.status == "out_of_memory"
    assert record.reason is not None
    found = re.fullmatch(r"(\d+) MiB resident, 100 MiB allowed \(--memory-limit\)", record.reason)
    assert found is not None
    # rounded to whole MiB
    assert int(found[1]) >= HELD_MIB // 2
    # its baseline is not known, so there is no figure of memory rather than a wrong one
    assert record.memory is None


def test_closing_ends_the_worker_and_leaves_none_behind() -> None:
    events = stub_executor().run([make_trial("sleeps")])
    assert isinstance(next(events), Started)
    events.close()
    assert list(events) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_command_that_is_not_there_is_an_error_of_the_run() -> None:
    with pytest.raises(FileNotFoundError):
        list(LocalExecutor(["/no/such/interpreter"]).run([make_trial()]))


def test_a_worker_that_reads_nothing_is_a_row_too(tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text("import sys; sys.exit('no input wanted')", encoding="utf-8")
    (_, ended) = LocalExecutor([sys.executable, str(script)]).run([make_trial()])
    assert ended.record.reason == "the worker ended with status 1 and no record: no input wanted"
