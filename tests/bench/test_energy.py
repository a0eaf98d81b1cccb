"""Joules are those of the machine's counters, or there are none and the reason is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import energy
from bench.energy import Counter, EnergyMeter, Gpu, machine_cpu_s, packages
from bench.records import Energy
from lmzoo.budget import Stopwatch

RANGE_UJ = 1_000_000_000
TICKS_A_S = 100


class Machine:
    """A machine that the test runs: its counters, its CPU time, its clock."""

    def __init__(self, folder: Path, domains: Sequence[str] = ("package-0", "package-1")) -> None:
        self.powercap, self.proc = folder / "powercap", folder / "proc"
        self.powercap.mkdir()
        self.proc.mkdir()
        self.now_s = self.own_s = self.others_s = 0.0
        for n, name in enumerate(domains):
            self.add_domain(f"intel-rapl:{n}", name)
        self.work()

    def add_domain(self, folder: str, name: str, at_uj: int = 0) -> None:
        domain = self.powercap / folder
        domain.mkdir()
        (domain / "name").write_text(f"{name}\n")
        (domain / "energy_uj").write_text(f"{at_uj}\n")
        (domain / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")

    def work(self, seconds: float = 0.0, *, others_s: float = 0.0, **joules: float) -> None:
        """So many seconds of this process's work, and joules of each domain (`d0`, `d1`)."""
        self.now_s += seconds
        self.own_s += seconds
        self.others_s += others_s
        for name, value in joules.items():
            path = self.powercap / f"intel-rapl:{name[1:]}" / "energy_uj"
            path.write_text(str((int(path.read_text()) + int(value * 1e6)) % RANGE_UJ))
        busy = round((self.own_s + self.others_s) * TICKS_A_S)
        # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice; guests are inside user
        self.proc.joinpath("stat").write_text(f"cpu  {busy} 0 0 999 77 0 0 0 {busy} 0\ncpu0 1 2 3\n")

    def meter(self, device: str = "cpu", **options: Any) -> EnergyMeter:
        return EnergyMeter(
            device,
            powercap=self.powercap,
            proc=self.proc,
            own_cpu_s=lambda: self.own_s,
            watch=Stopwatch(lambda: self.now_s),
            **options,
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(energy.os, "sysconf", lambda name: {"SC_CLK_TCK": TICKS_A_S}[name])
    return Machine(tmp_path)


def measured(meter: EnergyMeter, *work: Callable[[], None]) -> Energy:
    with meter.running():
        for part in work:
            part()
            meter.look()
    found = meter.energy()
    assert found is not None
    return found


def test_the_joules_of_all_packages_are_added(machine: Machine) -> None:
    machine.work(5, d0=1000, d1=1)  # before the training
    meter = machine.meter()
    found = measured(meter, lambda: machine.work(3, d0=40, d1=2.5))
    machine.work(5, d0=1000, d1=1)  # and after it
    assert found.cpu_joules.value == pytest.approx(42.5, abs=1e-9)
    assert (found.cpu_source, found.seconds) == ("RAPL packages", 3.0)
    assert meter.energy() == found
    assert (found.device_joules.value, found.device_source) == (None, None)
    assert found.device_joules.reason == "trained on the CPU"


def test_parts_of_a_package_and_the_platform_are_not_added(machine: Machine) -> None:
    machine.add_domain("intel-rapl:0:0", "core")
    machine.add_domain("intel-rapl:2", "psys")
    machine.add_domain("intel-rapl-mmio:0", "package-0")
    path = machine.powercap / "intel-rapl:0:0" / "energy_uj"
    work = lambda: (machine.work(1, d0=10, d2=50), path.write_text("30000000"))  # noqa: E731
    assert measured(machine.meter(), work).cpu_joules.value == pytest.approx(10)


@given(
    start_uj=st.integers(0, RANGE_UJ - 1),
    grown=st.lists(st.integers(0, RANGE_UJ - 1), max_size=6),
)
def test_a_counter_that_starts_again_loses_nothing(start_uj: int, grown: list[int]) -> None:
    shown = iter([(start_uj + sum(grown[:n])) % RANGE_UJ for n in range(len(grown) + 1)])
    counter = Counter(lambda: next(shown), RANGE_UJ)
    for _ in range(len(grown) + 1):
        counter.look()
    assert counter.total_uj == sum(grown)


def test_long_trainings_are_looked_at_before_a_counter_can_start_again_twice(machine: Machine) -> None:
    # 900 J every 15 s: three rounds of the counter in all
    found = measured(machine.meter(), *[lambda: machine.work(15, d0=900)] * 4)
    assert found.cpu_joules.value == pytest.approx(3600)


@pytest.mark.parametrize(("others_s", "is_refused"), [(0.0, False), (0.5, False), (0.52, True), (30.0, True)])
def test_beside_other_load_there_is_no_figure(machine: Machine, others_s: float, is_refused: bool) -> None:
    machine.work(1, others_s=100)
    found = measured(machine.meter(), lambda: machine.work(10, others_s=others_s, d0=5))
    assert (found.cpu_joules.value is None) == is_refused
    if is_refused:
        assert found.cpu_source is None
        assert found.cpu_joules.reason == (
            f"other processes used the CPU {others_s:.1f} s, this one 10.0 s, and the counters count for all; "
            "at most 5% is allowed"
        )


def test_what_is_too_short_for_the_ticks_has_no_figure(machine: Machine) -> None:
    found = measured(machine.meter(), lambda: machine.work(0.4, d0=5))
    assert found.cpu_joules.reason == "0.40 s are too short to tell what else ran; 0.5 s are needed"


def test_where_nobody_tells_what_else_ran_there_is_no_figure(machine: Machine) -> None:
    (machine.proc / "stat").unlink()
    meter = machine.meter()
    with meter.running():
        machine.now_s += 3
    found = meter.energy()
    assert found is not None
    assert "no /proc/stat" in (found.cpu_joules.reason or "")


def test_guests_are_not_counted_twice_and_idling_is_no_work(machine: Machine) -> None:
    machine.work(2, others_s=1)
    assert machine_cpu_s(machine.proc) == 3.0


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    for root in (tmp_path / "nowhere", tmp_path):
        assert packages(root).reason == (
            "no energy counters (RAPL) here; virtual machines and containers rarely have them"
        )


def test_counters_of_root_alone_are_told_with_the_cure(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def forbidden(path: Path, **options: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", forbidden)
    reason = packages(machine.powercap).reason
    assert reason is not None
    assert "root alone" in reason
    assert "chmod a+r" in reason
    assert str(machine.powercap) not in reason


@pytest.mark.parametrize("shown", ["", "many", "1.5"])
def test_a_counter_that_shows_no_number_is_told(machine: Machine, shown: str) -> None:
    (machine.powercap / "intel-rapl:0" / "energy_uj").write_text(shown)
    assert (packages(machine.powercap).reason or "").startswith("the energy counters (RAPL) make no sense")


def test_a_counter_that_goes_away_meanwhile_is_told(machine: Machine) -> None:
    found = measured(machine.meter(), lambda: (machine.powercap / "intel-rapl:1" / "energy_uj").unlink())
    assert found.cpu_joules.reason == "the counter could not be read: No such file or directory"


def test_a_counter_that_shows_no_number_meanwhile_is_told(machine: Machine) -> None:
    found = measured(machine.meter(), lambda: (machine.powercap / "intel-rapl:0" / "energy_uj").write_text("?"))
    assert (found.cpu_joules.reason or "").startswith("the counter could not be read: invalid literal")


def test_without_a_training_there_is_nothing(machine: Machine) -> None:
    assert machine.meter().energy() is None


@pytest.mark.parametrize(("others_s", "joules"), [(0.0, 7.0), (1.0, None)])
def test_a_training_that_fails_is_counted_like_any_other(
    machine: Machine, others_s: float, joules: float | None
) -> None:
    meter = machine.meter()

    def diverge() -> None:
        machine.work(2, others_s=others_s, d0=7)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measured(meter, diverge)
    found = meter.energy()
    assert found is not None
    assert found.cpu_joules.value == joules


class NvmlError(Exception):
    """Named as the library's own base class is used: `pynvml.NVMLError`."""


class Nvml:
    """pynvml, as far as it is asked."""

    NVMLError = NvmlError

    def __init__(self, *, mig: int | None = None) -> None:
        self.millijoules = 5_000_000
        self.users = [SimpleNamespace(pid=1)]
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self._mig = mig

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in self.broken:
            raise NvmlError("Not Supported")
        return super().__getattribute__(name)

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return "handle"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self.millijoules

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return self.users

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        if self._mig is None:
            raise NvmlError("Not Supported")
        return self._mig, self._mig


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    monkeypatch.setattr(energy, "device_uuid", lambda device: f"of-{device}")
    return Nvml()


def test_a_device_counts_in_millijoules(machine: Machine, nvml: Nvml) -> None:
    def work() -> None:
        nvml.millijoules += 1500
        machine.work(1, d0=2)

    found = measured(machine.meter("cuda:1", nvml=nvml), work)
    assert (found.device_joules.value, found.device_source) == (1.5, "NVML")
    assert found.cpu_joules.value == pytest.approx(2)
    assert nvml.asked == ["GPU-of-cuda:1"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_device_that_others_use_has_no_figure(machine: Machine, nvml: Nvml, when: str) -> None:
    meter = machine.meter("cuda", nvml=nvml)
    other = SimpleNamespace(pid=2)
    if when == "before":
        nvml.users.append(other)
    found = measured(meter, lambda: nvml.users.append(other))
    assert (found.device_joules.value, found.device_source) == (None, None)
    assert "another process computed on the device" in (found.device_joules.reason or "")


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetTotalEnergyConsumption"])
def test_a_device_that_tells_nothing_has_a_reason(machine: Machine, nvml: Nvml, call: str) -> None:
    nvml.broken.add(call)
    found = measured(machine.meter("cuda", nvml=nvml), lambda: machine.work(1))
    assert found.device_joules.reason == "the device tells no energy: Not Supported"


def test_a_device_that_does_not_tell_its_users_has_no_figure(nvml: Nvml) -> None:
    gpu = Gpu("cuda", nvml)
    nvml.broken.add("nvmlDeviceGetComputeRunningProcesses")
    gpu.look_for_others()
    assert gpu.source.figure().reason == "the device does not tell who uses it: Not Supported"


def test_a_part_of_a_device_has_no_counter(nvml: Nvml) -> None:
    assert Gpu("cuda", Nvml(mig=0)).source.figure().value == 0.0
    assert Gpu("cuda", Nvml(mig=1)).source.figure().reason == "a part of a device (MIG) has no counter"


def test_a_device_counter_that_breaks_or_runs_backwards_is_told(machine: Machine, nvml: Nvml) -> None:
    meter = machine.meter("cuda", nvml=nvml)
    found = measured(meter, lambda: setattr(nvml, "millijoules", 1))
    assert found.device_joules.reason == "the counter could not be read: its counter ran backwards"
    meter = machine.meter("cuda", nvml=nvml)
    found = measured(meter, lambda: nvml.broken.add("nvmlDeviceGetTotalEnergyConsumption"))
    assert found.device_joules.reason == "the counter could not be read: Not Supported"


def test_a_library_that_is_not_there_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(energy.importlib.sys.modules, "pynvml", None)  # type: ignore[attr-defined]
    assert Gpu("cuda").source.reason == "nvidia-ml-py is not installed: python -m pip install 'lmzoo[energy]'"


@pytest.mark.gpu
def test_a_gpu_uses_energy() -> None:
    pytest.importorskip("pynvml")
    import torch

    x = torch.randn(4096, 4096, device="cuda")
    meter = EnergyMeter("cuda")
    with meter.running():
        for _ in range(200):
            x = torch.tanh(x @ x)
        torch.cuda.synchronize()
    found = meter.energy()
    assert found is not None
    assert found.device_joules.reason or (found.device_joules.value or 0) > 0
