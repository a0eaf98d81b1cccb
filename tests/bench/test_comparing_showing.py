"""Comparisons and histories on terminals of any width: nothing is cut, nothing is ambiguous."""

from __future__ import annotations

import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bench.comparing import showing
from bench.report import wording
from tests.bench.calling import called
from tests.bench.synthetic import facts, failed, ok, trial, write

pytestmark = pytest.mark.plain

# alike in all that a narrow column would show
NAMES = ("ngram:order=3,smoothing=kneser-ney", "ngram:order=3,smoothing=kneser-nex")
WIDTHS = (1, 20, 40, 60, 80, 100, 160)


def runs(tmp_path: Path, n_runs: int) -> list[Path]:
    return [
        write(
            tmp_path / f"run-{n}",
            [ok(trial(name, max_steps=50 + n), 4.4 + n / 10) for name in NAMES],
            started_utc=f"2026-01-{n + 1:02}T00:00:00Z",
        )
        for n in range(n_runs)
    ]


def shown(folders: list[Path], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(showing, "_WIDTH_WITHOUT_TERMINAL", width)
    done = called(*folders)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_runs", [2, 7])
def test_names_figures_and_headers_are_whole_at_any_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, n_runs: int
) -> None:
    folders = runs(tmp_path, n_runs)
    wide, text = shown(folders, 500, monkeypatch), shown(folders, width, monkeypatch)
    assert "…" not in text
    for name in NAMES:
        assert name in text
    figures = {cell.strip() for line in wide.splitlines() for cell in line.split("│")[2:-1] if cell.strip()}
    words = {word for cell in figures for word in cell.split()}
    assert not {word for word in words if word not in text}
    tables = [line for line in text.splitlines() if line[:1] in "┏┃┡│└"]
    assert not [line for line in tables if len(line) > max(width, 1)]


def test_what_has_no_room_as_a_table_is_a_line_for_each_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(runs(tmp_path, 2), 20, monkeypatch).splitlines()
    start = lines.index(f"model: {NAMES[0]}, device: cpu, figure: test perplexity")
    assert [line.split(":")[0] for line in lines[start + 1 : start + 5]] == [
        "  before",
        "  after",
        "  ratio",
        "  judgement",
    ]
    assert lines[lines.index("configuration: training of each network") + 1] == "  first run: 50 steps"
    history = shown(runs(tmp_path, 3), 20, monkeypatch).splitlines()
    start = history.index(f"model: {NAMES[0]}")
    assert [line.split(":")[0] for line in history[start + 1 : start + 4]] == ["  1", "  2", "  3"]


def test_tables_of_a_history_have_as_many_runs_as_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = runs(tmp_path, 6)
    for width, per_table in ((160, 4), (80, 1)):
        text = shown(folders, width, monkeypatch)
        cells = [line.split("│")[2:-1] for line in text.splitlines() if line.startswith(f"│ {NAMES[0]}")]
        assert max(map(len, cells)) == per_table
        assert sum(map(len, cells)) == len(folders)


def test_a_text_has_columns_for_the_runs_that_have_it(tmp_path: Path) -> None:
    texts = facts("one"), facts("other")
    first, second = ([ok(trial("kn5", corpus=text), 4.4, corpus=text)] for text in texts)
    broken = [failed(trial("mlp", corpus=texts[1]), "diverged", "at step 3", corpus=texts[1])]
    on_days = [first, second, first, [*second, *broken]]
    folders = [
        write(tmp_path / f"run-{n}", records, started_utc=f"2026-01-0{n}T00:00:00Z")
        for n, records in enumerate(on_days, start=1)
    ]
    done = called(*folders)
    tables = [line.split("┃")[2:-1] for line in done.stdout.splitlines() if line.startswith("┃ model")]
    assert [[cell.strip() for cell in cells] for cells in tables] == [["1", "3"], ["2", "4"]]
    (absent,) = [line for line in done.stdout.splitlines() if line.startswith("│ mlp")]
    assert [cell.strip() for cell in absent.split("│")[2:-1]] == ["-", "diverged"]
    assert "- stands where a run does not have the model on the text." in done.stdout
    # no dash, nothing to say of dashes
    assert "- stands where" not in called(*folders[:3]).stdout


# what overrides, embeds and isolates, in either direction, and what ends it
DIRECTING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(text=st.text(st.sampled_from([*DIRECTING, "a", "א", " ", "\x1b"])))
def test_no_sign_in_a_terminals_line_turns_what_stands_beside_it(text: str) -> None:
    plain = wording.plain(text)
    assert wording.plain(plain) == plain
    # what is left isolates, and is closed
    outside = re.sub("\u2068[^\u2066-\u2069]*\u2069", "", plain)
    assert not set(outside) & {*DIRECTING, "\x1b"}
    assert not set(plain) & set(DIRECTING[:7])
    # a name that needs none of this is as it was
    assert wording.plain(wording.isolated(text.replace("\x1b", ""))).count("\u2068") <= 1


TURNING = "at step 3\u202e no"


@pytest.mark.parametrize("name", ["nlp\u202eevil", "\u2068אב", "אב\u2069"])
def test_what_records_say_turns_no_line_of_a_terminal_or_a_page(tmp_path: Path, name: str) -> None:
    broken = failed(trial(name), "diverged", TURNING)
    on_days = [[ok(trial("kn5"), 4.4), ok(trial(name), 5.0)], [ok(trial("kn5"), 4.4), broken], [ok(trial("kn5"), 4.4)]]
    folders = [
        write(tmp_path / f"{n}\u202e", records, started_utc=f"2026-01-0{n}T00:00:00Z")
        for n, records in enumerate(on_days, start=1)
    ]
    empty = tmp_path / "no\u202e"
    empty.mkdir()
    for some in (folders[:2], [*folders, empty]):
        done = called(*some, "--html", tmp_path / "x.html")
        assert "\u202e" not in done.stdout
        assert "at step 3\\u202e no" in done.stdout
        page = (tmp_path / "x.html").read_text(encoding="utf-8")
        bullets = re.findall("<li>(.*?)</li>", page, re.DOTALL)
        assert [one for one in bullets if TURNING in one or "\u202e" in one]
        for one in bullets:
            assert "\u202e" not in re.sub("\u2068[^\u2066-\u2069]*\u2069", "", one)
