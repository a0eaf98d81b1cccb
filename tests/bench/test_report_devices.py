"""What a report says of energy and of devices, and that it is silent where nothing was counted."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from bench.records import Energy, Figure, TrialRecord
from bench.report import notices, plots
from bench.report.build import build_report
from tests.bench.synthetic import ENVIRONMENT, ok, trial, write


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are tested here, and plots take most of a report's time."""
    monkeypatch.setattr(plots, "PLOTS", {})


def costing(model: str, cpu: float | None, gpu: float | None = None, **changes: Any) -> TrialRecord:
    energy = Energy(
        cpu_joules=Figure.of(cpu, "the machine was shared"),
        cpu_source=None if cpu is None else "RAPL packages",
        device_joules=Figure.of(gpu, "trained on the CPU"),
        device_source=None if gpu is None else "NVML",
        seconds=3.0,
    )
    return ok(trial(model, **changes), 4.4, changes={"energy": energy})


def report_of(folder: Path, *records: TrialRecord) -> tuple[str, list[dict[str, str]]]:
    """The report's words and the rows of its summary."""
    write(folder, records)
    build_report(folder)
    with (folder / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
        return (folder / "report.md").read_text(encoding="utf-8"), list(csv.DictReader(file))


def energy_of(row: dict[str, str]) -> tuple[str, str, str]:
    return row["cpu_joules"], row["device_joules"], row["energy_source"]


def test_joules_stand_in_the_table_of_costs(tmp_path: Path) -> None:
    seeds = [costing("mlp", joules, seed=seed) for seed, joules in enumerate((40.0, 50.0, 70.0))]
    text, rows = report_of(tmp_path, costing("kn5", 12.5), *seeds)
    # the median of the seeds
    assert [energy_of(row) for row in rows] == [("12.5", "", "RAPL packages"), ("50.0", "", "RAPL packages")]
    heading = next(line for line in text.splitlines() if "processor, J" in line)
    assert "counted by" in heading
    assert "device, J" not in heading
    (line,) = [line for line in text.splitlines() if line.startswith("| kn5") and "12.5" in line]
    assert "RAPL packages" in line


def test_joules_of_a_device_are_labelled_too(tmp_path: Path) -> None:
    text, rows = report_of(tmp_path, costing("mlp", 8.0, 90.0, device="cuda"), costing("kn5", None))
    assert sorted(map(energy_of, rows)) == [("", "", ""), ("8.0", "90.0", "RAPL packages / NVML")]
    assert "device, J" in text


def test_where_nothing_was_counted_nothing_is_shown(tmp_path: Path) -> None:
    text, rows = report_of(tmp_path, costing("kn5", None), ok(trial("mlp"), 4.0))
    assert [energy_of(row) for row in rows] == [("", "", "")] * 2
    assert ", J" not in text
    assert "counted by" not in text


def test_a_shared_device_is_a_warning(tmp_path: Path) -> None:
    shared = ENVIRONMENT.model_copy(update={"device_shared": True})
    alone = ENVIRONMENT.model_copy(update={"device_shared": False})
    records = [
        ok(trial("mlp", device="cuda", seed=seed), 4.4, changes={"environment": environment})
        for seed, environment in enumerate((shared, alone, shared))
    ]
    assert notices.about_devices([records[1], ok(trial("kn5"), 4.4)]) == []
    text, _ = report_of(tmp_path, *records)
    warnings = text.partition("## Warnings")[2].partition("## Provenance")[0]
    assert warnings.count("another process used cuda during mlp:") == 1
