"""Reports of sweeps: which comparisons have plots, and how many configurations were measured on a test text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.records import TrialRecord
from bench.report import build, plots
from bench.report.build import build_report
from bench.report.reading import read_run
from bench.report.scaling import Series
from bench.report.tried import configurations
from tests.bench.synthetic import facts, failed, ok, trial, write

KJV = facts("kjv", sha256="cd" * 32)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are drawn; nothing is."""
    texts: list[str] = []

    def note(_: Path, several: Sequence[Series], *_others: object) -> tuple[list[object], list[str]]:
        texts.extend(series.whole.corpus for series in several)
        return [], []

    monkeypatch.setattr(plots, "draw_all", note)
    return texts


def on_shares() -> list[TrialRecord]:
    return [
        ok(trial("kn5", corpus=corpus, train_fraction=share, trial_id=f"{corpus.name}-{share}"), 4.4, corpus=corpus)
        for corpus in (facts(), KJV)
        for share in (0.25, 0.5, 1.0)
    ]


def test_of_many_texts_the_first_are_drawn(tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_DRAWN", 1)
    (warning,) = build_report(write(tmp_path, on_shares()))
    assert drawn == ["genesis"]
    assert warning.startswith("plots are there for 1 of 2 texts")
    assert warning in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_few_texts_are_all_drawn(tmp_path: Path, drawn: list[str]) -> None:
    assert build_report(write(tmp_path, on_shares())) == []
    assert drawn == ["genesis", "kjv"]


def test_a_configuration_counts_once_whatever_its_seeds_and_devices(tmp_path: Path) -> None:
    records = [
        *(ok(trial("mlp", seed=seed), 5.0) for seed in range(3)),
        ok(trial("mlp", device="cuda"), 5.0),
        ok(trial("mlp", trial_id="half", train_fraction=0.5), 5.0),
        ok(trial("mlp:hidden=512"), 5.0),
        ok(trial("kn5", corpus=KJV), 4.0, corpus=KJV),
        # what gave no figure has shown nothing of the test text
        failed(trial("bigram"), "killed", "signal 9"),
    ]
    assert configurations(read_run(write(tmp_path, records))) == ["genesis: 3", "kjv: 1"]


def test_what_earlier_runs_measured_counts_too(tmp_path: Path) -> None:
    current = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0)]
    earlier = [
        # of another plan, and in no table: the same model and text with other options
        ok(trial("mlp", trial_id="other", options={"hidden": 512}), 5.0),
        # of another plan, and in the table
        ok(trial("trigram", trial_id="more"), 6.0),
        # measured again since, as the code had changed
        ok(trial("kn5", trial_id="again"), 4.4),
        # another option, set aside
        ok(trial("kn5", trial_id="before", options={"order": 4}), 4.4),
    ]
    write(tmp_path, [*current, *earlier], plan=tuple(record.trial for record in current))
    (tmp_path / "trials" / "again.json").rename(tmp_path / "trials" / "again.json.outdated-1")
    (tmp_path / "trials" / "before.json").rename(tmp_path / "trials" / "before.json.before-1")
    (tmp_path / "trials" / "cut.json.outdated-1").write_text("{", encoding="utf-8")
    run = read_run(tmp_path)
    assert {record.trial.trial_id for record in run.earlier} == {"other", "again", "before"}
    # kn5 and mlp, then mlp and kn5 with other options and trigram
    assert configurations(run) == ["genesis: 2, 5 with earlier runs in this folder"]


def test_the_report_states_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    build_report(write(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0)]))
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| configurations measured on each test text | genesis: 2 |" in text


def test_a_run_without_figures_has_measured_none(tmp_path: Path) -> None:
    assert configurations(read_run(write(tmp_path, [failed(trial("mlp"), "killed", "signal 9")]))) == []
