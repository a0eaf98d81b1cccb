"""Joules of one training, from the counters that a machine itself keeps: RAPL of the processor, NVML of a GPU.

A counter counts for the whole processor or device, whoever uses it: beside other load there is no figure, but a reason.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environment import device_uuid
from bench.records import Energy, Figure
from lmzoo.budget import Stopwatch

POWERCAP = Path("/sys/class/powercap")
PROC = Path("/proc")
RAPL, NVML = "RAPL packages", "NVML"
# the CPU time of all other processes, relative to that of the trial's own
_MOST_OTHERS = 0.05
# the kernel accounts CPU time in ticks of 10 ms, so that nothing shorter shows whether the machine was shared
_LEAST_S = 0.5
# a counter of RAPL starts again after a minute or more under full load
_LOOK_EVERY_S = 10.0
# whole packages: their parts ("intel-rapl:0:0") are inside them, the platform ("psys") is around them
_DOMAIN = re.compile(r"intel-rapl:\d+")
# of "cpu" in /proc/stat, after user, nice and system: idle and waiting for the disk are no work
_IDLE_FIELDS = slice(3, 5)
_GUEST_FIELDS = slice(8, None)

Reason = str


@dataclass
class Counter:
    """A counter of microjoules.

    Args:
        read: what it shows.  Raises `OSError` where it shows nothing.
        range_uj: where it starts again from 0; None: never.
    """

    read: Callable[[], int]
    range_uj: int | None = None
    total_uj: int = 0
    _shown_uj: int | None = None

    def look(self) -> None:
        """Add what was counted since the last look, which is less than its range."""
        now_uj = self.read()
        if self._shown_uj is not None:
            grown_uj = now_uj - self._shown_uj
            if grown_uj < 0:
                if self.range_uj is None:
                    raise OSError("its counter ran backwards")
                grown_uj += self.range_uj
            self.total_uj += grown_uj
        self._shown_uj = now_uj


class Source:
    """Counters that are read together, and why there is no figure once that is so."""

    def __init__(self, counters: Sequence[Counter], reason: Reason | None = None) -> None:
        self._counters = counters
        self.reason = reason

    def look(self) -> None:
        if self.reason is None:
            try:
                for counter in self._counters:
                    counter.look()
            except (OSError, ValueError) as error:
                self.reason = f"the counter could not be read: {_told(error)}"

    def figure(self) -> Figure:
        """Joules between the first look and the last."""
        if self.reason is not None:
            return Figure(reason=self.reason)
        return Figure.of(sum(counter.total_uj for counter in self._counters) / 1e6)


class EnergyMeter:
    """What a training on `device` costs, while `running()`.

    Args:
        powercap, proc: where the system shows its counters.
        nvml: the module pynvml; None: imported, where it is installed.
        own_cpu_s: CPU seconds of this process so far.
    """

    def __init__(
        self,
        device: str,
        *,
        powercap: Path = POWERCAP,
        proc: Path = PROC,
        nvml: Any = None,
        own_cpu_s: Callable[[], float] | None = None,
        watch: Stopwatch | None = None,
    ) -> None:
        self._cpu = packages(powercap)
        self._gpu = Gpu(device, nvml)
        self._proc = proc
        self._own_cpu_s = own_cpu_s or _own_cpu_s
        self._watch = watch or Stopwatch()
        self._looked_s = 0.0
        self._has_run = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count for the length of a `with` block."""
        self._has_run = True
        self._gpu.look_for_others()
        busy_s, own_s = machine_cpu_s(self._proc), self._own_cpu_s()
        try:
            with self._watch.running():
                self._look()
                yield
        finally:
            self._look()
            self._gpu.look_for_others()
            own_s, now_busy_s = self._own_cpu_s() - own_s, machine_cpu_s(self._proc)
            busy_s = None if busy_s is None or now_busy_s is None else now_busy_s - busy_s
            self._cpu.reason = self._cpu.reason or _doubt(busy_s, own_s, self._watch.elapsed_s)

    def look(self) -> None:
        """Read the counters now and then, before one that has started again could do so twice."""
        if self._watch.elapsed_s - self._looked_s >= _LOOK_EVERY_S:
            self._look()

    def _look(self) -> None:
        self._looked_s = self._watch.elapsed_s
        self._cpu.look()
        self._gpu.source.look()

    def energy(self) -> Energy | None:
        """What was counted; None where nothing ran."""
        if not self._has_run:
            return None
        cpu, device = self._cpu.figure(), self._gpu.source.figure()
        return Energy(
            cpu_joules=cpu,
            cpu_source=None if cpu.value is None else RAPL,
            device_joules=device,
            device_source=None if device.value is None else NVML,
            seconds=self._watch.elapsed_s,
        )


def packages(powercap: Path = POWERCAP) -> Source:
    """The counters of all processor packages."""
    try:
        folders = sorted(folder for folder in powercap.iterdir() if _DOMAIN.fullmatch(folder.name))
        whole = [folder for folder in folders if _text(folder / "name").startswith("package")]
        if not whole:
            raise FileNotFoundError
        counters = [_counter(folder) for folder in whole]
    except FileNotFoundError:
        return Source((), "no energy counters (RAPL) here; virtual machines and containers rarely have them")
    except PermissionError:
        return Source(
            (), "the energy counters (RAPL) may be read by root alone; chmod a+r intel-rapl:*/energy_uj in powercap"
        )
    except (OSError, ValueError) as error:
        return Source((), f"the energy counters (RAPL) make no sense: {_told(error)}")
    return Source(counters)


def _counter(folder: Path) -> Counter:
    def read() -> int:
        return int(_text(folder / "energy_uj"))

    # one that may not be read is known at once
    read()
    return Counter(read, range_uj=int(_text(folder / "max_energy_range_uj")))


def _told(error: Exception) -> str:
    # without the path
    return str(getattr(error, "strerror", None) or error)


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


class Gpu:
    """The counter of a CUDA device, and who else computes there.

    Args:
        nvml: the module pynvml; None: imported, where it is installed.
    """

    def __init__(self, device: str, nvml: Any = None) -> None:
        self.source = Source(())
        self._nvml = nvml
        self._handle: Any = None
        if not device.startswith("cuda"):
            self.source.reason = "trained on the CPU"
            return
        try:
            self._nvml = nvml or importlib.import_module("pynvml")
        except ImportError:
            self.source.reason = "nvidia-ml-py is not installed: python -m pip install 'lmzoo[energy]'"
            return
        try:
            self._nvml.nvmlInit()
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{device_uuid(device)}")
            self._read()
        except (self._nvml.NVMLError, OSError) as error:
            self.source.reason = f"the device tells no energy: {error}"
            return
        self.source = Source(
            [Counter(self._read)], "a part of a device (MIG) has no counter" if self._is_part() else None
        )

    def look_for_others(self) -> None:
        """Refuse a figure where another process computes on the device now."""
        if self.source.reason is None:
            try:
                users = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
            except self._nvml.NVMLError as error:
                self.source.reason = f"the device does not tell who uses it: {error}"
                return
            # inside a container this process may have a foreign number, so that only their count tells
            if len(users) > 1:
                self.source.reason = "another process computed on the device, whose counter counts for all"

    def _read(self) -> int:
        # millijoules since the driver was loaded
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1000
        except self._nvml.NVMLError as error:
            raise OSError(str(error)) from error

    def _is_part(self) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(self._handle)
        except self._nvml.NVMLError:
            return False
        return bool(current)


def machine_cpu_s(proc: Path = PROC) -> float | None:
    """Seconds that all CPUs together have worked since the start; None where the system does not say."""
    try:
        fields = (proc / "stat").read_text(encoding="ascii").splitlines()[0].split()
    except (OSError, IndexError):
        return None
    ticks = [int(field) for field in fields[1:]]
    # guests are in the user's time already
    del ticks[_GUEST_FIELDS], ticks[_IDLE_FIELDS]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _doubt(busy_s: float | None, own_s: float, elapsed_s: float) -> Reason | None:
    """Why the processor's joules are not this process's alone, or cannot be shown to be."""
    if busy_s is None:
        return "the system does not tell what else ran (no /proc/stat)"
    if elapsed_s < _LEAST_S:
        return f"{elapsed_s:.2f} s are too short to tell what else ran; {_LEAST_S:g} s are needed"
    others_s = max(busy_s - own_s, 0.0)
    share = others_s / own_s if own_s > 0 else math.inf
    if share > _MOST_OTHERS:
        return (
            f"other processes used the CPU {others_s:.1f} s, this one {own_s:.1f} s, and the counters count for all; "
            f"at most {_MOST_OTHERS:.0%} is allowed"
        )
    return None
