"""CPUs of this machine that one trial has for itself, whoever else runs trials here.

Each CPU has a lock file in the folder for temporary files.  Who holds the lock has the CPU; the system frees it when
the last process that holds it ends, however it ends, so nothing is ever left to clean up.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.executor.protocol import ExecutorError

# how often a trial that waits for its CPUs looks for them
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Slot:
    """CPUs that nobody else has, and the descriptors of their locks; both empty where the system cannot pin."""

    cpus: tuple[int, ...] = ()
    locks: tuple[int, ...] = ()

    def popen(self, *arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that runs on these CPUs alone.

        It holds the locks too: where its parent is killed, its CPUs are free once it has ended as well.
        """
        if not self.cpus or sys.platform != "linux":
            return subprocess.Popen(*arguments, **options)
        # the affinity is this thread's alone, and a new process takes it from the thread that starts it
        usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cpus)
        try:
            return subprocess.Popen(*arguments, **(options | {"pass_fds": self.locks}))
        finally:
            os.sched_setaffinity(0, usable)


def can_pin() -> bool:
    """Whether this system has CPU affinity and file locks that end with their holder."""
    return sys.platform == "linux"


@contextlib.contextmanager
def hold_cpus(n: int, folder: Path | None = None) -> Iterator[Slot]:
    """Wait for `n` CPUs of this process's affinity that no other trial holds, and hold them.

    `folder`: where the lock files are, by default the one for temporary files.  Raises `ExecutorError` where `n` CPUs
    can never be had.
    """
    if not can_pin():
        yield Slot()
        return
    usable = sorted(os.sched_getaffinity(0))
    if n > len(usable):
        raise ExecutorError(
            f"{n} threads asked, but Ray's node may use {len(usable)} CPUs; "
            f"start Ray there with --num-cpus={len(usable)} or ask for fewer --threads"
        )
    folder = folder or Path(tempfile.gettempdir())
    while (slot := try_to_hold(n, usable, folder)) is None:
        time.sleep(_LOOK_EVERY_S)
    try:
        yield slot
    finally:
        _release(slot.locks)


def try_to_hold(n: int, cpus: list[int], folder: Path) -> Slot | None:
    """`n` of `cpus` whose locks are free now, or None: all or nothing, so that no two wait for each other."""
    held: dict[int, int] = {}
    for cpu in cpus:
        if len(held) == n:
            break
        lock = _try_lock(folder / f"lmzoo-cpu-{cpu}.lock")
        if lock is not None:
            held[cpu] = lock
    if len(held) < n:
        _release(held.values())
        return None
    return Slot(cpus=tuple(held), locks=tuple(held.values()))


def _release(locks: Any) -> None:
    for lock in locks:
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    """The descriptor of a file whose lock is held from now on, or None where another holds it."""
    import fcntl

    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _opened(path: Path) -> int:
    """The file of a lock, made where it is not there; another user's will do, since nothing is written."""
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644))
