"""Plots: all there, whatever the rows are; every point named; nothing else lost with one that fails."""

from __future__ import annotations

import importlib.util
import itertools
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from bench.records import Memory, TrialRecord
from bench.report import plots
from bench.report.build import build_report
from bench.report.curves_plot import SECONDS, Bracket, brackets_of, draw_validation, lanes_of, lines_of
from bench.report.drawing import drawable, drawable_names, fix_layout, new_figure, style_sheet, styles
from bench.report.labels import place_labels, size_px, spread
from bench.report.reading import read_run
from bench.report.rows import Row, groups_of, ranked, rows_of
from bench.report.scaling import series_of
from tests.bench.synthetic import curve, facts, ok, trial, usual, write

STEMS = ("perplexity", "validation", "tokens", "memory", "size", "speed")


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


def test_names_that_differ_are_drawn_so_however_long_they_are() -> None:
    names = [f"lstm-scratch:hidden={n},layers=2,dropout=0.25,tied=true,clip=1.0" for n in (128, 129)]
    assert drawable_names(["kn5", *names]) == [
        "kn5",
        "lstm-scrat…hidden=128,layers=2,dro",
        "lstm-scrat…hidden=129,layers=2,dro",
    ]
    # far behind, or not at all
    assert len(set(drawable_names(["x" * 50 + end for end in ("a", "b")]))) == 2
    assert len(set(drawable_names(["a" * 90, "a" * 90]))) == 2
    many = [f"mlp:{'layers=2,' * 9}lr=0.{n}" for n in range(40)]
    assert len(set(drawable_names(many))) == 40
    assert max(map(len, drawable_names(many))) < 45


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


def test_models_are_told_apart_by_colour_and_without_it() -> None:
    looks = list(styles([f"lstm:hidden={n}" for n in range(16)]).values())
    # neighbours and strangers alike: in colour, and by mark and dashes in black and white
    assert len({(look.colour, look.marker) for look in looks}) == 16
    assert len({(look.marker, str(look.dashes)) for look in looks}) == 16
    # the usual run has eight networks
    assert len({look.colour for look in looks[:8]}) == 8


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_found_room_cover_neither_each_other_nor_a_point(seed: int) -> None:
    drawn = random.Random(seed)
    points = [(drawn.random(), drawn.random()) for _ in range(14)]
    names = [f"a model {n}" for n in range(14)]
    with style_sheet():
        figure, (axes,) = new_figure(8, 4)
        fix_layout(figure)
        assert place_labels(axes, points, names, ["black"] * 14)
        boxes = [text.get_window_extent() for text in axes.texts]
    marks = axes.transData.transform(points)
    assert [text.get_text() for text in axes.texts] == names
    for a, b in itertools.combinations(boxes, 2):
        assert not a.overlaps(b)
    assert not any(box.contains(*mark) for box in boxes for mark in marks)


def test_labels_without_room_are_told_of_and_written_all_the_same() -> None:
    with style_sheet():
        figure, (axes,) = new_figure(2, 1)
        fix_layout(figure)
        assert not place_labels(axes, [(0.5, 0.5)] * 9, ["a rather long name"] * 9, ["black"] * 9)
    assert len(axes.texts) == 9


def test_a_label_takes_the_room_that_its_letters_do() -> None:
    with style_sheet():
        assert size_px("mmmm", 100)[0] > 2 * size_px("iiii", 100)[0] > 0
        assert size_px(" ", 100)[0] > 0


def rows_in(folder: Path, records: list[TrialRecord]) -> list[Row]:
    return rows_of(read_run(write(folder, records)))


def test_brackets_are_those_of_the_table(tmp_path: Path) -> None:
    counting = [ok(trial("kn5"), 5.0, levels=[5.0]), ok(trial("bigram"), 9.0, levels=[9.0])]
    networks = [
        ok(trial("mlp", seed=seed), 4.0, levels=levels)
        for seed, levels in enumerate([[20.0, 8.0, 6.0, 4.0], [20.0, 9.5, 8.0, 4.5], [20.0, 19.0, 4.0, 3.0]])
    ]
    rows = rows_in(tmp_path, [*counting, *networks, ok(trial("rnn"), 9.0, levels=[20.0, 10.0])])
    found = brackets_of(lines_of(rows, SECONDS), rows, {"kn5": 5.0, "bigram": 9.0})
    times = [0.25 * 2 ** (k / 4) for k in range(4)]
    # medians over three seeds; the rnn came to neither
    assert [(one.level, one.after, one.by) for one in found] == [
        (5.0, times[2], times[3]),
        (9.0, times[1], times[2]),
    ]


@given(
    spans=st.lists(
        st.tuples(st.floats(0.0, 50.0), st.floats(0.1, 20.0)).map(lambda pair: (pair[0], pair[0] + pair[1])),
        max_size=8,
    )
)
def test_brackets_in_one_lane_do_not_touch(spans: list[tuple[float, float]]) -> None:
    look = styles(["a"])["a"]
    several = [Bracket(level=5.0, after=after, by=by, look=look) for after, by in spans]
    placed = lanes_of(several, 0.05)
    assert len(placed) == len(several)
    for lane in {lane for *_, lane in placed}:
        ends = sorted((start, one.by) for one, start, of_lane in placed if of_lane == lane)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ends))


@pytest.mark.whole
def test_curves_tell_their_ends_and_levels_in_words(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, usual(seeds=3))
    with style_sheet():
        alt = draw_validation(rows, tmp_path, "validation")
    # the median of three seeds is the second's: 4.36 x 1.02 + 0.02, times 1 + 4 exp(-23 / 11)
    assert "(median of the seeds); at the end: " in alt
    assert "lstm-cudnn 6.675" in alt
    assert "levels of the counting models: kn5 4.488; trigram 6.732; bigram 9.690; unigram 17.34." in alt
    texts = texts_in(tmp_path / "validation.svg")
    assert {"kn5", "trigram", "bigram", "unigram", "lstm-cudnn", "mlp"} <= set(texts)


@pytest.mark.whole
@pytest.mark.parametrize(("n_models", "is_drawn"), [(14, False), (15, True)])
def test_many_pairs_are_a_picture_in_place_of_a_list(tmp_path: Path, n_models: int, is_drawn: bool) -> None:
    records = [ok(trial(f"ngram:order={n}", family="counting"), 4 + n / 2) for n in range(1, n_models)]
    write(tmp_path, [*records, ok(trial("kn5"), 4.5)])
    assert build_report(tmp_path) == []
    part = markdown_of(tmp_path).split("## Which differences are more than noise")[1].split("\n## ")[0]
    assert ("(plots/significance.png)" in part) == is_drawn
    assert ("| # | model |" in part) != is_drawn
    if is_drawn:
        # kn5 and the first of the others are alike
        assert "best first; no significant difference from: 1 " in part
        assert re.search(r"kn5: [12];", part)


@pytest.mark.whole
def test_a_picture_of_pairs_that_fails_leaves_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("no ink")

    monkeypatch.setattr(plots, "PLOTS", {})
    monkeypatch.setattr(plots, "draw_matrix", broken)
    write(tmp_path, [ok(trial(f"ngram:order={n}", family="counting"), 4 + n / 2) for n in range(15)])
    assert build_report(tmp_path) == ["plot significance could not be drawn: RuntimeError: no ink"]
    assert "no significant difference from:" in markdown_of(tmp_path)


@pytest.mark.whole
def test_a_run_of_many_texts_draws_what_each_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(_rows: object, _folder: Path, stem: str) -> str:
        drawn.append(stem)
        return ""

    monkeypatch.setattr(plots, "PLOTS", {name: (name, noted) for name in ("perplexity", "validation", "speed")})
    texts = [facts(f"text {n}", sha256=f"{n:02x}" * 32) for n in range(4)]
    for n_texts in (3, 4):
        drawn.clear()
        write(tmp_path / str(n_texts), [ok(trial(one.name, corpus=one), 4.4, corpus=one) for one in texts[:n_texts]])
        build_report(tmp_path / str(n_texts))
        assert len(drawn) == (9 if n_texts == 3 else 8)
        assert any("speed" in stem for stem in drawn) == (n_texts == 3)


@pytest.mark.whole
def test_figures_have_a_light_ground_of_their_own(drawn: Path) -> None:
    for stem in STEMS:
        pixels = imread(drawn / "plots" / f"{stem}.png")
        # white and opaque: a dark page shows a card, and not dark words on a dark ground
        assert pixels[0, 0].tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.whole
def test_each_device_has_its_panels(tmp_path: Path) -> None:
    memory = Memory(peak_rss_bytes=2**30, baseline_rss_bytes=2**29, peak_device_bytes=2**27)
    records = [ok(trial("kn5"), 4.4), *[ok(trial("mlp", seed=n), 5.0) for n in (0, 1)]]
    records.append(ok(trial("mlp", device="cuda"), 5.0, changes={"memory": memory}))
    rows = rows_in(tmp_path, records)
    with style_sheet():
        alt = plots.PLOTS["size"][1](rows, tmp_path, "size")
    assert "against model size on cpu: kn5" in alt
    assert "against model size on cuda: kn5" in alt
    assert "against peak memory above the baseline on cpu: kn5 4." in alt
    assert "against peak memory of the device on cuda: mlp" in alt
    assert "at 128 MiB. Pareto front: mlp." in alt


@pytest.mark.whole
def test_what_is_far_above_the_others_is_named_and_does_not_squeeze_them(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0), ok(trial("diverged"), 1e40)])
    with style_sheet():
        alt = plots.PLOTS["size"][1](rows, tmp_path, "size")
    texts = texts_in(tmp_path / "size.svg")
    assert texts.count("far above: diverged") == 2
    assert "1e+10" not in texts
    assert re.search(r"; diverged \S+e\+39 at 39\.1 KiB\. Pareto front: kn5\.", alt)
