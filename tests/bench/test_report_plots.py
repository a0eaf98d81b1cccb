"""Plots: all there, whatever the rows are; every point named; nothing else lost with one that fails."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from bench.report import plots
from bench.report.build import build_report
from bench.report.drawing import drawable, spread, style_sheet
from bench.report.reading import read_run
from bench.report.rows import groups_of, ranked, rows_of
from bench.report.scaling import series_of
from tests.bench.synthetic import curve, ok, trial, usual, write

STEMS = ("perplexity", "validation", "memory", "size", "speed")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run."""
    folder = write(tmp_path_factory.mktemp("run"), usual())
    assert build_report(folder) == []
    return folder


def markdown_of(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def test_labels_that_cannot_be_drawn_are_spelled_out() -> None:
    assert drawable("kn5") == "kn5"
    assert drawable("שלום") == "\\u05e9\\u05dc\\u05d5\\u05dd"
    assert len(drawable("x" * 500)) < 50


@pytest.mark.whole
def test_all_plots_are_there_in_both_forms(drawn: Path) -> None:
    for stem in STEMS:
        png, svg = ((drawn / "plots" / f"{stem}.{ending}").read_bytes() for ending in ("png", "svg"))
        assert png.startswith(b"\x89PNG")
        assert svg.startswith(b"<?xml")


@pytest.mark.whole
@pytest.mark.parametrize("n_models", [1, 50])
def test_any_number_of_models(tmp_path: Path, n_models: int) -> None:
    models = [f"lstm-cudnn:hidden={n}" for n in range(n_models)]
    write(tmp_path, [ok(trial(model), 4 + n / 9, levels=[9.0, 5 + n / 9]) for n, model in enumerate(models)])
    assert build_report(tmp_path) == []
    assert all(model in markdown_of(tmp_path) for model in models)
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


@pytest.mark.whole
def test_rows_without_a_finite_value_are_still_a_picture(tmp_path: Path) -> None:
    records = [ok(trial(name), 4.0, infinite_blocks=9, levels=[float("inf")]) for name in ("kn5", "mlp")]
    write(tmp_path, records)
    assert build_report(tmp_path) == []
    assert (tmp_path / "plots" / "perplexity.png").read_bytes().startswith(b"\x89PNG")
    assert "inf" in markdown_of(tmp_path)


@pytest.mark.whole
def test_enormous_perplexities_are_still_a_picture(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("kn5"), 4.0), ok(trial("mlp"), 1e40, levels=[1e200, 1e40]), ok(trial("rnn"), 1e250)])
    assert build_report(tmp_path) == []
    assert max(map(len, markdown_of(tmp_path).split())) < 80


@pytest.mark.whole
def test_a_plot_that_fails_loses_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("no ink")

    monkeypatch.setattr(plots, "PLOTS", {**plots.PLOTS, "memory": ("memory", broken)})
    write(tmp_path, [ok(trial("kn5"), 4.4)])
    assert build_report(tmp_path) == ["plot memory could not be drawn: RuntimeError: no ink"]
    assert "kn5" in markdown_of(tmp_path)
    assert "memory.png" not in markdown_of(tmp_path)
    assert (tmp_path / "tables" / "summary.csv").is_file()


@pytest.mark.parametrize(("library", "lost"), [("matplotlib", "no plots"), ("jinja2", "no report.html")])
def test_a_missing_library_costs_only_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, lost: str
) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else find(name))
    write(tmp_path, [ok(trial("kn5"), 4.4)])
    assert build_report(tmp_path) == [f"{lost}: {library} is not installed: python -m pip install 'lmzoo[plots]'"]
    assert "kn5" in markdown_of(tmp_path)
    assert (tmp_path / "tables" / "summary.csv").is_file()


@pytest.mark.whole
def test_curves_that_start_at_zero_seconds_can_be_drawn(tmp_path: Path) -> None:
    points = curve([9.0, 5.0])
    start = points[0].model_copy(update={"train_s": 0.0})
    write(tmp_path, [ok(trial("mlp"), 5.0, changes={"curve": (start, *points)})])
    figures, warnings = plots.draw_all(tmp_path, series_of(groups_of(rows_of(read_run(tmp_path)))))
    assert warnings == []
    assert "validation" in {figure.stem for figure in figures}


def texts_in(svg: Path) -> list[str]:
    """What is written in a plot: letters are outlines there, the text itself stands in a comment."""
    return re.findall(r"<!-- (.*?) -->", svg.read_text(encoding="utf-8"))


@pytest.mark.whole
@pytest.mark.parametrize(("n_models", "step", "is_numbered"), [(3, 1.0, False), (17, 0.001, True), (30, 0.001, True)])
def test_every_point_is_named_or_has_a_number_with_a_key(
    tmp_path: Path, n_models: int, step: float, is_numbered: bool
) -> None:
    names = [f"ngram:order={n},x" for n in range(n_models)]
    records = [ok(trial(name, family="counting"), 4 + n * step) for n, name in enumerate(names)]
    write(tmp_path, records)
    with style_sheet():
        rows = rows_of(read_run(tmp_path))
        plots.draw_speed(rows, tmp_path, "speed")
    texts = texts_in(tmp_path / "speed.svg")
    key = " ".join(" ".join(texts).split())
    for place, row in enumerate(ranked(rows), start=1):
        if is_numbered:
            # a number in each of both panels, and the name it stands for
            assert texts.count(str(place)) >= 2
            assert f"{place} {row.model}" in key
        else:
            assert texts.count(row.model) == 2


def test_labels_are_moved_apart_in_their_order() -> None:
    moved = spread([0.5, 0.5, 0.51, 0.9], 0.1, 0, 1)
    assert moved == sorted(moved)
    assert all(b - a >= 0.09 for a, b in itertools.pairwise(moved))
    assert min(moved) >= 0
    assert max(moved) <= 1
