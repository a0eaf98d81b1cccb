"""The committed runs: what people read in them is what their records give today."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bench.report import plots
from bench.report.build import build_report
from bench.report.reading import read_run

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
OF_GENESIS = ("reference", "ablation", "fractions")
RUNS = sorted(path.parent for path in REFERENCE.rglob("run.json"))


def words_of(report: Path) -> list[str]:
    """The lines of a report but its pictures, and the headings that these may be alone under."""
    lines = report.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("![", "#"))]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_committed_report_is_what_the_records_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    copy = tmp_path / "run"
    shutil.copytree(run / "trials", copy / "trials")
    shutil.copy(run / "run.json", copy)
    assert build_report(copy) == []
    # rounded figures, which do not depend on the processor; where they differ: python -m bench.report, and commit
    assert words_of(copy / "report.md") == words_of(run / "report.md")
    # no picture is left over from an earlier version
    text = (run / "report.md").read_text(encoding="utf-8")
    assert {path.stem for path in (run / "plots").iterdir()} == set(re.findall(r"\(plots/(\w+)\.png\)", text))


def test_the_index_leads_to_every_run() -> None:
    index = (REFERENCE.parent / "README.md").read_text(encoding="utf-8")
    linked = {REFERENCE.parent / path for path in re.findall(r"\((reference/[^)]*)report\.md\)", index)}
    assert linked == set(RUNS)


def test_only_genesis_is_shown_in_words() -> None:
    for run in RUNS:
        shown = [path.name for path in (run / "tables").glob("*.csv") if path.name in ("passage.csv", "samples.csv")]
        info = read_run(run).info
        assert not shown or [facts.name for facts in info.corpora] == ["genesis"], run
        assert info.no_text == (run.name not in OF_GENESIS)
