"""Against the amount of training text: the fit by hand arithmetic, the table, the plot, and what stands where."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records import TrialRecord
from bench.report import wording
from bench.report.build import build_report
from bench.report.reading import read_run
from bench.report.rows import groups_of, rows_of
from bench.report.scaling import MEASURES, SCALING_COLUMNS, points_of, series_of, slope_of
from bench.report.tables import targets_of
from bench.stats import power_law
from tests.bench.synthetic import facts, failed, ok, trial, write

FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)


def at(model: str, fraction: float, perplexity: float, *, name: str = "genesis") -> TrialRecord:
    read = facts(name, n_train_tokens=int(160_000 * fraction), sha256=f"{name:x<64}")
    spec = trial(model, corpus=read, train_fraction=fraction)
    return ok(spec.model_copy(update={"trial_id": f"{spec.trial_id}-{name}-{fraction:g}"}), perplexity, corpus=read)


def lost(model: str, fraction: float) -> TrialRecord:
    read = facts(n_train_tokens=int(160_000 * fraction), sha256=f"{'genesis':x<64}")
    spec = trial(model, corpus=read, train_fraction=fraction, trial_id=f"{model}-{fraction:g}")
    return failed(spec, "out_of_memory", "MemoryError", corpus=read)


def usual() -> list[TrialRecord]:
    """Two models at five fractions; the second runs out of memory at the smallest."""
    kn5 = [at("kn5", f, 8 * f**-0.2) for f in FRACTIONS]
    return [*kn5, lost("lstm-cudnn", FRACTIONS[0]), *[at("lstm-cudnn", f, 6 * f**-0.4) for f in FRACTIONS[1:]]]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "tables" / "scaling.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class TestFit:
    def test_three_points_by_hand(self):
        # ln y = 0, 1, 5 at ln x = 0, 1, 2: mean 2, slope (2 + 3) / 2 = 2.5, fitted -0.5, 2, 4.5;
        # residuals 0.5, -1, 0.5 square to 1.5, with one degree of freedom, over 2
        fitted = power_law([(math.exp(x), math.exp(y)) for x, y in ((0, 0), (1, 1), (2, 5))])
        assert fitted.slope == pytest.approx(2.5)
        assert fitted.intercept == pytest.approx(-0.5)
        assert fitted.error == pytest.approx(math.sqrt(1.5 / 2))
        assert fitted.at(math.e) == pytest.approx(math.exp(2))

    @given(st.floats(-2, 2), st.floats(-3, 3), st.integers(3, 9), st.integers(0, 1000))
    def test_it_is_the_least_squares_line(self, slope, intercept, n, seed):
        rng = np.random.default_rng(seed)
        x = np.cumsum(rng.uniform(0.1, 1, n))
        y = intercept + slope * x + rng.normal(0, 0.3, n)
        (wanted, at_0), covariance = np.polyfit(x, y, 1, cov="unscaled")
        residuals = y - wanted * x - at_0
        fitted = power_law(list(zip(np.exp(x).tolist(), np.exp(y).tolist(), strict=True)))
        assert fitted.slope == pytest.approx(wanted, abs=1e-6)
        assert fitted.intercept == pytest.approx(at_0, abs=1e-6)
        assert fitted.error == pytest.approx(math.sqrt(covariance[0, 0] * (residuals @ residuals) / (n - 2)), rel=1e-6)


class TestSeries:
    def test_groups_that_differ_in_the_fraction_alone_belong_together(self, tmp_path):
        records = [*usual(), at("kn5", 1.0, 9.0, name="kjv")]
        several = series_of(groups_of(rows_of(read_run(write(tmp_path, records)))))
        assert [(one.whole.corpus, one.whole.train_fraction, len(one.groups)) for one in several] == [
            ("genesis", 1.0, 5),
            ("kjv", 1.0, 1),
        ]
        kn5 = several[0].lines["kn5", "cpu"]
        assert [row.group.train_fraction for row in kn5] == list(FRACTIONS)
        # the synthetic blocks are noisy by a few thousandths of a nat
        fitted = slope_of(kn5, MEASURES[0])
        assert fitted is not None
        assert fitted.slope == pytest.approx(-0.2, abs=0.01)

    def test_two_points_have_no_slope_and_failures_are_no_points(self, tmp_path):
        records = [lost("kn5", 1 / 4), *[at("kn5", f, 8.0) for f in (1 / 2, 1.0)]]
        (one,) = series_of(groups_of(rows_of(read_run(write(tmp_path, records)))))
        line = one.lines["kn5", "cpu"]
        assert len(line) == 3
        assert [tokens for tokens, _ in points_of(line, MEASURES[0])] == [80_000, 160_000]
        assert slope_of(line, MEASURES[0]) is None

    def test_a_slope_takes_three_points(self, tmp_path):
        for n in (2, 3):
            records = [at("kn5", f, 8 / f) for f in FRACTIONS[-n:]]
            (one,) = series_of(groups_of(rows_of(read_run(write(tmp_path / str(n), records)))))
            assert (slope_of(one.lines["kn5", "cpu"], MEASURES[0]) is None) is (n == 2)

    def test_a_fraction_reads_as_one(self):
        assert list(map(wording.fraction, FRACTIONS)) == ["1/16", "1/8", "1/4", "1/2", "1"]
        assert wording.fraction(1 / 3) == "1/3"
        assert wording.fraction(0.1234567) == "0.123457"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the usual run with its report."""
    folder = write(tmp_path_factory.mktemp("scaling"), usual())
    assert build_report(folder) == []
    return folder


class TestReport:
    @pytest.mark.whole
    def test_scaling_stands_first_and_the_rest_is_about_the_largest_fraction(self, built):
        report = (built / "report.md").read_text(encoding="utf-8")
        titles = [line for line in report.splitlines() if line.startswith("## ")]
        assert titles[:3] == ["## The answer", "## More training text", "## Ranking"]
        assert "## The answer\n\nOn genesis (char, normalised with letters, a document per file):" in report
        (line,) = [line for line in report.splitlines() if line.startswith("| lstm-cudnn | out of memory |")][:1]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 7
        assert float(cells[-1].partition(" ± ")[0]) == pytest.approx(-0.4, abs=0.02)
        assert "- lstm-cudnn at 1/16: out of memory, MemoryError" in report
        assert "1/16 (10.0 k tokens)" in report
        assert (built / "plots" / "scaling.png").is_file()
        assert sorted(path.stem for path in (built / "plots").glob("*.svg")) == [
            *("memory", "perplexity", "scaling", "size", "speed", "tokens", "validation"),
        ]
        # one text, not five
        assert report.count("corpus genesis:") == 1

    def test_the_csv_has_a_row_for_each_model_and_fraction(self, built):
        header = (built / "tables" / "scaling.csv").read_text(encoding="utf-8").splitlines()[0]
        assert header == ",".join(SCALING_COLUMNS)
        rows = table(built)
        assert [(row["model"], float(row["train_fraction"])) for row in rows] == [
            (model, fraction) for model in ("lstm-cudnn", "kn5") for fraction in FRACTIONS
        ]
        assert [row["n_train_tokens"] for row in rows[:5]] == ["10000", "20000", "40000", "80000", "160000"]
        assert (rows[0]["status"], rows[0]["reason"], rows[0]["test_perplexity"]) == (
            "out_of_memory",
            "MemoryError",
            "",
        )
        for row in rows[1:]:
            assert (
                float(row["test_perplexity_low"]) < float(row["test_perplexity"]) < float(row["test_perplexity_high"])
            )
            assert float(row["train_s"]) > 0
            assert int(row["peak_rss_bytes"]) > 0

    def test_targets_come_from_the_counting_models_of_the_same_fraction(self, tmp_path):
        records = [record for f in FRACTIONS for record in (at("kn5", f, 8 * f**-0.2), at("mlp", f, 6.0))]
        groups = groups_of(rows_of(read_run(write(tmp_path, records))))
        found = [level for rows in groups.values() for _, _, _, level, _ in targets_of(rows, ())]
        exact = [r.curve[-1].valid_perplexity.value for r in records if r.trial.model == "kn5"]
        assert found == exact
        assert len(set(found)) == len(FRACTIONS)

    @pytest.mark.whole
    def test_one_fraction_is_a_run_like_any(self, tmp_path):
        build_report(write(tmp_path, [at("kn5", 1.0, 8.0)]))
        assert not (tmp_path / "tables" / "scaling.csv").exists()
        assert not (tmp_path / "plots" / "scaling.png").exists()
        assert "More training text" not in (tmp_path / "report.md").read_text(encoding="utf-8")

    @pytest.mark.whole
    def test_a_run_without_the_whole_text_is_about_its_largest_part(self, tmp_path):
        build_report(write(tmp_path, [at("kn5", f, 8.0) for f in (1 / 4, 1 / 2)]))
        report = (tmp_path / "report.md").read_text(encoding="utf-8")
        assert "1/2 of the training text" in report
        assert "| kn5 |" in report

    @pytest.mark.whole
    def test_where_nothing_finished_twice_there_is_no_plot(self, tmp_path):
        warnings = build_report(write(tmp_path, [lost("kn5", 1 / 2), at("kn5", 1.0, 8.0)]))
        assert warnings == []
        assert not (tmp_path / "plots" / "scaling.png").exists()
        assert "More training text" in (tmp_path / "report.md").read_text(encoding="utf-8")
