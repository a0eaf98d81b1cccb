"""Memory: a process's own high-water mark, neither its parent's nor that of its imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import memory

MIB = 1024 * 1024
HELD_MIB = 200
# allocators round up and the interpreter needs a little of its own
TOLERANCE_MIB = 10

HOLD = f"""
import os
from bench import memory
baseline = memory.rss_bytes()
held = bytearray({HELD_MIB * MIB})
held[::4096] = b"x" * len(held[::4096])
print(memory.peak_rss_bytes() - baseline)
"""

SPAWN_WHILE_LARGE = f"""
import subprocess, sys
held = bytearray({HELD_MIB * MIB})
held[::4096] = b"x" * len(held[::4096])
child = "from bench import memory; print(memory.peak_rss_bytes())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout)
"""

needs_proc = pytest.mark.skipif(not memory.can_watch(), reason="this system has no /proc")


def printed(script: str) -> int:
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


@needs_proc
def test_200_mib_held_are_200_mib_above_the_baseline() -> None:
    assert printed(HOLD) / MIB == pytest.approx(HELD_MIB, abs=TOLERANCE_MIB)


@needs_proc
def test_the_peak_is_not_inherited_from_the_parent() -> None:
    assert printed(SPAWN_WHILE_LARGE) < HELD_MIB / 2 * MIB


@needs_proc
def test_the_peak_is_never_below_what_is_resident() -> None:
    resident = memory.rss_bytes()
    assert resident is not None
    assert memory.peak_rss_bytes() >= resident > MIB


@needs_proc
def test_another_way_of_asking_gives_the_same_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    from_proc = memory.peak_rss_bytes()
    monkeypatch.setattr(memory, "_proc_status_bytes", lambda *_: None)
    # the kernel's two counters differ by a few pages, a wrong unit by a factor of 1024
    assert memory.peak_rss_bytes() == pytest.approx(from_proc, rel=0.5)


def test_a_process_that_is_not_there_has_no_memory() -> None:
    assert memory.rss_bytes(2**30) is None


def test_a_cpu_has_no_device_memory_rather_than_0() -> None:
    memory.reset_device_peaks("cpu")
    assert memory.device_peaks_bytes("cpu") == (None, None)
