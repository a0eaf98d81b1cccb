"""The benchmark of what a run costs beside measuring: its arithmetic, and the sweep that it asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import run as run_module
from bench.asked import Asked
from bench.records import Parts, TrialRecord
from benchmarks import overhead
from tests.bench.synthetic import failed, ok, trial, write

PARTS = Parts(
    start_and_imports_s=0.4, load_s=0.1, train_s=1.0, validate_s=0.25, test_s=0.5, throughput_s=1.0, profile_s=0.25
)


def records(n: int = 2) -> list[TrialRecord]:
    return [ok(trial(f"ngram:order={i}"), 4.0, changes={"parts": PARTS, "wall_s": 3.6}) for i in range(1, n + 1)]


def test_overhead_is_all_but_training_validating_testing_and_timing() -> None:
    taken = overhead.spent(8.0, records())
    # 1 + 0.25 + 0.5 + 1 + 0.25 measuring; 8 / 2 - 3 beside it:
    # 0.4 + 0.1 + (3.6 - 3 - 0.5) by the trial's clock, 0.4 beyond
    assert (taken.whole_s, taken.measuring_s) == (4.0, 3.0)
    assert taken.overhead_s == pytest.approx(1.0)
    assert (taken.start_s, taken.load_s) == (0.4, 0.1)
    assert (taken.rest_s, taken.runner_s) == (pytest.approx(0.1), pytest.approx(0.4))
    assert overhead.table(taken)[2:5] == [
        "| the whole run, 2 trials | 4,000 |",
        "| of it measuring (training, validating, testing, timing throughput, profile) | 3,000 |",
        "| **overhead** | 1,000 |",
    ]


def test_a_trial_that_did_not_end_well_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="1 of 3 trials have no parts"):
        overhead.spent(8.0, [*records(), failed(trial("mlp"), "killed", "signal 9")])
    with pytest.raises(ValueError, match="0 of 0"):
        overhead.spent(8.0, [])


def test_the_sweep_has_25_small_trials_for_each_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Asked] = []
    monkeypatch.setattr(run_module, "run", lambda asked: found.append(asked) or 0)
    assert run_module.main(["--plan", str(overhead.write_plan(tmp_path, 2))]) == 0
    (asked,) = found
    texts = [corpus.name for corpus in asked.question.corpora]
    assert texts == [str(tmp_path / "t0.txt"), str(tmp_path / "t1.txt")]
    assert all(Path(str(text)).stat().st_size > 10_000 for text in texts)
    # one of the specs has a comma of its own
    assert asked.question.models.count(",") == 5
    assert asked.train_fractions == (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)


def test_the_records_of_the_run_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        write(Path(command[command.index("--out") + 1]), records(3))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    overhead.main(["--texts", "1"])
    assert "| the whole run, 3 trials |" in capsys.readouterr().out


def test_a_run_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 2, "", "warning: a\nerror: no model 'x'\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(RuntimeError, match="the run ended with 2: error: no model 'x'"):
        overhead.measured(1, tmp_path)
    with pytest.raises(SystemExit):
        overhead.main(["--texts", "0"])
