"""CPUs that one trial has for itself: locks that end with their holder, and processes that stay on their CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.executor.protocol import ExecutorError
from bench.executor.slots import Slot, can_pin, hold_cpus, try_to_hold

pytestmark = pytest.mark.skipif(not can_pin(), reason="this system has no CPU affinity")

SHOW_AFFINITY = "import os; print(*sorted(os.sched_getaffinity(0)))"
WAIT_FOR_INPUT = "import sys; print('here', flush=True); sys.stdin.read()"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[list[Slot]]:
    """Slots that a test holds, let go at its end."""
    slots: list[Slot] = []
    yield slots
    for slot in slots:
        for lock in slot.locks:
            os.close(lock)


def test_no_cpu_is_held_twice_and_all_or_none_are_given(tmp_path: Path, held: list[Slot]) -> None:
    for n, cpus in ((2, (0, 1)), (1, (2,))):
        slot = try_to_hold(n, [0, 1, 2, 3], tmp_path)
        assert slot is not None
        assert slot.cpus == cpus
        held.append(slot)
    assert try_to_hold(2, [0, 1, 2, 3], tmp_path) is None
    # what the refused one had taken in passing is free again
    last = try_to_hold(1, [0, 1, 2, 3], tmp_path)
    assert last is not None
    assert last.cpus == (3,)
    held.append(last)
    assert try_to_hold(1, [0, 1, 2, 3], tmp_path) is None


def test_a_process_runs_on_its_cpus_and_this_one_goes_on_as_before(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with hold_cpus(1, tmp_path) as slot, slot.popen([sys.executable, "-c", SHOW_AFFINITY], stdout=subprocess.PIPE) as p:
        assert tuple(map(int, p.communicate()[0].split())) == slot.cpus
        assert len(slot.cpus) == 1
        assert set(slot.cpus) <= before
    assert os.sched_getaffinity(0) == before


def test_a_cpu_is_free_once_its_holder_and_the_trial_have_ended(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:1]
    slot = try_to_hold(1, cpus, tmp_path)
    assert slot is not None
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with slot.popen([sys.executable, "-c", WAIT_FOR_INPUT], **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # as if the holder had been killed: its descriptors are gone, its trial still runs
        os.close(slot.locks[0])
        assert try_to_hold(1, cpus, tmp_path) is None
        process.communicate()
    again = try_to_hold(1, cpus, tmp_path)
    assert again is not None
    os.close(again.locks[0])


def test_more_cpus_than_there_are_is_an_error_not_a_wait_without_end(tmp_path: Path) -> None:
    n = len(os.sched_getaffinity(0))
    with (
        pytest.raises(ExecutorError, match=rf"{n + 1} threads asked, but Ray's node may use {n} CPUs"),
        hold_cpus(n + 1, tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.touch()
    (tmp_path / "lmzoo-cpu-0.lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        try_to_hold(1, [0], tmp_path)
