"""What the script for a GPU makes of two runs' records: each rule holds, is broken, or has nothing to see."""

from __future__ import annotations

from typing import Any

import pytest

from bench.records import Energy, Figure, Memory, Parts, TrialRecord
from benchmarks.gpu_rules import _EXACT, _WIDE, _WIDER, checks
from tests.bench.synthetic import ENVIRONMENT, curve, failed, ok, trial

MIB = 2**20
SECONDS = {_EXACT: 1.0, _WIDE: 2.0, _WIDER: 5.0}


def record(model: str, *, measures: dict[str, Any] | None = None, **changes: Any) -> TrialRecord:
    values: dict[str, Any] = {
        "train_s": SECONDS[model],
        "memory": Memory(
            peak_rss_bytes=MIB, baseline_rss_bytes=MIB, peak_device_bytes=90 * MIB, peak_device_reserved_bytes=96 * MIB
        ),
        "parts": Parts(start_and_imports_s=1, load_s=1, train_s=1, validate_s=1, test_s=1, throughput_s=0.8),
        "environment": ENVIRONMENT.model_copy(update={"device_shared": False}),
        "energy": Energy(cpu_joules=Figure(reason="none"), device_joules=Figure(value=30.0), seconds=1.0),
    }
    measures = {"n_params": 20 * MIB, "device_agreement": Figure(value=1e-6)} | (measures or {})
    return ok(trial(model, device="cuda"), 4.0, changes=values | changes, measures=measures)


def told(changed: dict[str, Any] | None = None, errors: list[str] | None = None) -> dict[str, bool | None]:
    """What is said of two runs in the second of which the deterministic trial is changed so."""
    first = {model: record(model) for model in SECONDS}
    second = {**first, _EXACT: record(_EXACT, **(changed or {}))}
    return {check.rule: check.holds for check in checks(first, second, errors or [])}


def test_on_a_good_device_every_rule_holds() -> None:
    found = told(errors=["warning: a quick run", "trial 1", "trial 1"])
    assert len(found) == 10
    assert set(found.values()) == {True}


@pytest.mark.parametrize(
    ("broken", "changed"),
    [
        ("weights are inside", {"measures": {"n_params": 23 * MIB}}),
        (
            "a peak does not depend",
            {"memory": Memory(peak_rss_bytes=1, baseline_rss_bytes=1, peak_device_bytes=93 * MIB,
                              peak_device_reserved_bytes=96 * MIB)},
        ),
        ("device and CPU agree", {"measures": {"device_agreement": Figure(value=2e-4)}}),
        ("device and CPU agree", {"measures": {"device_agreement": Figure(reason="not measured")}}),
        ("deterministic", {"curve": curve([4.1])}),
        ("no warning is repeated", {"warnings": ("weights are not compact",) * 2}),
        ("the parts explain", {"wall_s": 7.0}),
        ("nobody else", {"environment": ENVIRONMENT.model_copy(update={"device_shared": True})}),
        (
            "energy",
            {"energy": Energy(cpu_joules=Figure(reason="none"), device_joules=Figure(value=0.0), seconds=1.0)},
        ),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_alone(broken: str, changed: dict[str, Any]) -> None:
    found = told(changed)
    assert [rule for rule, holds in found.items() if not holds] == [rule for rule in found if rule.startswith(broken)]


def test_a_warning_that_a_run_repeats_is_told() -> None:
    assert told(errors=["UserWarning: weights"] * 2)["no warning is repeated"] is False


def test_widths_that_take_the_same_time_are_told() -> None:
    records = {model: record(model, train_s=1.0) for model in SECONDS}
    (rule,) = [check for check in checks(records, records, []) if check.rule == "twice the units take longer"]
    assert rule.holds is False
    assert str(rule) == ("BROKEN  twice the units take longer: 16.67 ms a step with 1024 units, 16.67 with 2048")


def test_a_failed_trial_ends_it() -> None:
    records = {model: record(model) for model in SECONDS}
    records[_WIDE] = failed(trial(_WIDE), "out_of_memory", "2 GiB")
    (only,) = checks(records, records, [])
    assert (only.holds, only.said) == (False, f"{_WIDE}: 2 GiB; {_WIDE}: 2 GiB")


def test_what_only_a_gpu_has_is_not_seen_on_a_cpu() -> None:
    nothing = {
        "memory": Memory(peak_rss_bytes=1, baseline_rss_bytes=1),
        "environment": ENVIRONMENT,
        "energy": Energy(cpu_joules=Figure(reason="none"), device_joules=Figure(reason="the CPU"), seconds=1.0),
        "measures": {"device_agreement": Figure(reason="the CPU")},
    }
    records = {model: record(model, **nothing) for model in SECONDS}
    found = {check.rule: check.holds for check in checks(records, records, [])}
    assert sum(holds is None for holds in found.values()) == 5
    assert False not in found.values()
