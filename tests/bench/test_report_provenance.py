"""What the report tells of the plan, which a command line may leave to a file or to defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.plan import QUICK_BUDGET_S
from bench.records import TrialRecord
from bench.report import plots
from bench.report.build import build_report
from tests.bench.synthetic import ENVIRONMENT, ok, trial, write


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are tested here, and plots take most of a report's time."""
    monkeypatch.setattr(plots, "PLOTS", {})


def asked_in(folder: Path, records: list[TrialRecord], **changes: Any) -> dict[str, str]:
    """What the report's provenance says was asked, by the words before it."""
    write(folder, records, **changes)
    build_report(folder)
    table = (
        (folder / "report.md")
        .read_text(encoding="utf-8")
        .split("## Provenance")[1]
        .split("what was asked")[1]
        .split("models:")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {row[0]: row[1] for row in rows[2:]}


def test_the_provenance_tells_what_was_asked(tmp_path: Path) -> None:
    limits = {"time_limit_s": 645.0, "memory_limit_bytes": 512 * 2**20}
    networks = [ok(trial("mlp", seed=seed, budget_s=15.0, **limits), 5.0) for seed in range(2)]
    records = [ok(trial("kn5", time_limit_s=600.0), 4.4), *networks]
    found = asked_in(
        tmp_path, records, executor="ray", threads=2, target_perplexities=(5.5,), command="… --plan a.toml"
    )
    assert found == {
        "trials": "3",
        "models": "kn5, mlp",
        "devices": "cpu",
        "training of each network": "15 s",
        "seeds of each network": "2 (0, 1)",
        "fractions of the training text": "1",
        "targets given": "perplexity 5.5",
        "executor": "ray",
        "threads per trial": "2",
        "time limit of each trial": "600 s; of networks 645 s",
        "memory limit of each trial": "none; of networks 512 MiB",
    }


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ({"budget_s": QUICK_BUDGET_S, "quick": True}, "0.3 s (--quick)"),
        ({"max_steps": 1_200_000}, "1,200,000 steps"),
        ({"epochs": 2.5, "max_steps": 20}, "2.5 epochs or 20 steps"),
    ],
)
def test_the_provenance_tells_how_long_networks_were_trained(
    tmp_path: Path, lengths: dict[str, Any], told: str
) -> None:
    assert asked_in(tmp_path, [ok(trial("mlp", **lengths), 5.0)])["training of each network"] == told


def test_without_networks_nothing_is_said_of_their_training(tmp_path: Path) -> None:
    found = asked_in(tmp_path, [ok(trial("kn5"), 4.4)])
    assert found["training of each network"] == found["seeds of each network"] == "n/a"


def test_each_model_comes_with_what_it_is_and_the_options_that_it_had(tmp_path: Path) -> None:
    options = {"hidden": 8, "lr": 0.5, "tie": True, "locked": False, "dropout": 0.0, "bits": None, "adapt": "none"}
    seeds = [ok(trial("mlp:tie=true", seed=seed, options=options), 5.0) for seed in (0, 1)]
    told = {"kn5": "interpolated | modified Kneser-Ney"}
    text = report_in(tmp_path, [ok(trial("kn5", options={"order": 5}), 4.4), *seeds], descriptions=told)
    table = text.split("## Provenance")[1].split("models:\n")[1].split("run and machine")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert rows == [
        "| kn5 | interpolated \\| modified Kneser-Ney | order=5 |",
        "| mlp:tie=true |  | hidden=8, lr=0.5, tie |",
    ]


def report_in(folder: Path, records: list[TrialRecord], **changes: Any) -> str:
    write(folder, records, **changes)
    build_report(folder)
    return (folder / "report.md").read_text(encoding="utf-8")


def test_the_command_stands_right_under_the_title_ready_to_be_copied(tmp_path: Path) -> None:
    command = "python -m bench.run --models 'kn5,a`b``c' --out a_b"
    head = report_in(tmp_path, [ok(trial("kn5"), 4.4)], command=command).split("\n## ")[0]
    # the fence is longer than any run of backticks inside
    assert head.splitlines() == ["# Language models compared: a-run", "", "```", command, "```"]
    head = report_in(tmp_path, [ok(trial("kn5"), 4.4)], command="a ``` b").split("\n## ")[0]
    assert head.splitlines()[2:5] == ["````", "a ``` b", "````"]


def test_what_was_reused_is_named(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), *[ok(trial("mlp", seed=seed), 5.0) for seed in (0, 1)]]
    reused = tuple(record.trial.trial_id for record in records[1:])
    assert "| reused records | 2 of 3: mlp |" in report_in(tmp_path, records, reused=reused)
    assert "| reused records | 0 of 3 |" in report_in(tmp_path, records)


def test_trials_of_other_machines_and_other_code_are_told(tmp_path: Path) -> None:
    elsewhere = ENVIRONMENT.model_copy(update={"cpu_model": "another processor", "gpu": "an accelerator"})
    changed = ENVIRONMENT.model_copy(update={"git_dirty": True})
    records = [
        ok(trial("kn5"), 4.4),
        *[ok(trial(name), 5.0, changes={"environment": elsewhere}) for name in ("mlp", "rnn")],
        ok(trial("gru"), 5.5, changes={"environment": changed}),
    ]
    text = report_in(tmp_path, records).split("run and machine")[1]
    assert "| machine | a processor, 2 cores usable, 8.00 GiB memory |" in text
    assert "| machine of mlp, rnn | another processor, 2 cores usable, 8.00 GiB memory |" in text
    assert "| GPU of mlp, rnn | an accelerator |" in text
    assert "| code of gru | git 0123456789abcdef with uncommitted changes |" in text
    assert "libraries of" not in text
    assert "| thread variables of the trials | OMP_NUM_THREADS=2 |" in text
