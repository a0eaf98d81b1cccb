"""The plot of a history: where a line is drawn, and where what is no value on the scale stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from bench.comparing import history_plot
from bench.comparing.history import history_of
from bench.comparing.history_plot import draw_history
from bench.comparing.metrics import METRICS
from bench.records import TrialRecord
from tests.bench.synthetic import failed, ok, trial, write

pytestmark = pytest.mark.plain

FINE = ok(trial("kn5"), 4.4)
INFINITE = ok(trial("kn5"), 4.4, infinite_blocks=3)
FAILED = failed(trial("kn5"), "diverged", "at step 3")
OTHER = ok(trial("mlp"), 5.0)


def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *runs: TrialRecord | None) -> tuple[Axes, str]:
    """The plot of a model over runs; None for a run without it."""
    folders = [
        write(tmp_path / f"run-{n}", [record or OTHER], started_utc=f"2026-01-0{n}T00:00:00Z")
        for n, record in enumerate(runs, start=1)
    ]
    seen: list[Figure] = []
    monkeypatch.setattr(history_plot, "save", lambda figure, _folder, _stem: seen.append(figure))
    figures, warnings = draw_history(history_of(folders, METRICS["test_perplexity"]), tmp_path / "plots")
    assert warnings == []
    ((_, figure),) = figures.items()
    return seen[0].axes[0], figure.alt


def ways(axes: Axes) -> list[list[int]]:
    """The runs that each line goes through, of the lines that go somewhere."""
    lines = [line for line in axes.lines if line.get_marker() == "None" and len(line.get_xdata()) > 1]
    found = [[round(float(x)) for x in line.get_xdata()] for line in lines]
    return [runs for runs in found if len(set(runs)) > 1]


def signs(axes: Axes) -> list[tuple[str, int, float]]:
    """The signs outside the scale: what, at which run, from which end of the height."""
    notes = [child for child in axes.get_children() if isinstance(child, Annotation)]
    return [(note.get_text(), round(float(note.xy[0])), float(note.xy[1])) for note in notes]


@pytest.mark.parametrize("gap", [INFINITE, FAILED])
def test_no_line_goes_over_a_run_that_has_the_model_without_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: TrialRecord
) -> None:
    axes, _ = drawn(tmp_path, monkeypatch, FINE, FINE, gap, FINE, FINE)
    assert ways(axes) == [[1, 2], [4, 5]]


def test_a_run_without_the_model_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes, _ = drawn(tmp_path, monkeypatch, FINE, None, FINE)
    assert ways(axes) == [[1, 3]]
    assert signs(axes) == []
    assert axes.get_xlabel() == "runs, oldest first (upright lines are intervals)"


def test_what_is_infinite_stands_where_it_is_worse_and_what_failed_where_no_value_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes, alt = drawn(tmp_path, monkeypatch, FINE, INFINITE, FAILED)
    assert signs(axes) == [("∞", 2, 1.0), ("×", 3, 0.0)]
    marks = {round(float(line.get_xdata()[0])): line for line in axes.lines if line.get_zorder() == 4}
    heights = {run: line.get_transform().transform((run, line.get_ydata()[0]))[1] for run, line in marks.items()}
    assert heights[2] > axes.bbox.y1
    assert heights[3] < axes.bbox.y0
    assert "∞ above the plot: infinite" in axes.get_xlabel()
    assert "× below the axis: failed" in axes.get_xlabel()
    assert alt.endswith("in run 1, inf in run 2, no value in run 3.")
