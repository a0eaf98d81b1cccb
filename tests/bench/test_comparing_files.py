"""`--html` and `--json`: what is written, and that nothing else is ever lost for it."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import store
from bench.comparing import files
from bench.comparing.comparison import compare_runs
from bench.comparing.pages import comparison_page
from bench.comparing.records import ComparisonRecord
from bench.records import TrialRecord
from tests.bench.calling import called
from tests.bench.synthetic import failed, ok, trial, usual, write

pytestmark = pytest.mark.plain

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    before = [*usual()[2:5], ok(trial(HOSTILE), 5.0), failed(trial("bad"), "killed", "signal <9>")]
    after = [*usual(seeds=2)[2:6], ok(trial(HOSTILE), 6.0), ok(trial("bad"), 5.0)]
    after.append(ok(trial("ngram", family="counting"), 4.0, infinite_blocks=3))
    return [str(write(tmp_path / "a", before)), str(write(tmp_path / "b", after, threads=2))]


def test_the_page_says_what_the_terminal_says(tmp_path: Path, runs: list[str]) -> None:
    page = tmp_path / "page.html"
    done = called(*runs, "--html", str(page), "--fail-on", "test_perplexity:1%")
    assert done.exit_code == 1
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "&lt;script&gt;alert" in text
    for heading in ("What changed", "Thresholds", "Not compared", "Configuration", "Environment", "Provenance"):
        assert f">{heading}</h2>" in text
    assert "threads per trial" in text
    assert "<li>worse: &lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; on cpu, test perplexity " in text
    assert "signal &lt;9&gt;" in text
    # nothing is looked for outside
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", text)


def test_of_very_many_changes_the_first_are_told(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(level), [ok(trial(f"net{n}"), level) for n in range(15)]) for level in (4.4, 5.0)]
    assert called(*map(str, folders), "--html", str(tmp_path / "x.html")).exit_code == 0
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert (text.count("<li>worse: net"), text.count("<li>and 3 more</li>")) == (12, 1)


def test_the_record_says_what_the_terminal_says(tmp_path: Path, runs: list[str]) -> None:
    path = tmp_path / "record.json"
    done = called(*runs, "--json", str(path), "--fail-on", "test_perplexity:1%")
    record = ComparisonRecord.model_validate_json(path.read_bytes())
    assert (record.before.name, record.after.name) == ("a", "b")
    assert [refusal.row.split(" on ")[0] for refusal in record.not_compared] == ["bad", "ngram"]
    assert ("threads per trial", "1", "2") in [(d.what, d.before, d.after) for d in record.configuration]
    judged = {change.row.model: change for change in record.changes if change.metric == "test_perplexity"}
    assert judged["kn5"].judgement == "same"
    assert judged["kn5"].ratio.value == 1
    # 6 / 5
    assert judged[HOSTILE].ratio.value == pytest.approx(1.2)
    (check,) = record.checks
    assert [f"failed: {failure}" for failure in check.failures] == [
        line for line in done.stdout.splitlines() if line.startswith("failed: ")
    ]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_infinite_figures_are_null_with_a_reason(tmp_path: Path) -> None:
    before = [ok(trial("kn5"), 4.4)]
    folders = [write(tmp_path / "a", before), write(tmp_path / "b", [ok(trial("kn5"), 4.4, infinite_blocks=3)])]
    assert called(*map(str, folders), "--json", str(tmp_path / "r.json")).exit_code == 0
    text = (tmp_path / "r.json").read_text(encoding="utf-8")
    assert "Infinity" not in text
    first = ComparisonRecord.model_validate_json(text).changes[0]
    assert (first.after.infinite, first.ratio.infinite, first.after.value) == (True, True, None)


OPTIONS = pytest.mark.parametrize("option", ["--html", "--json"])


@OPTIONS
def test_an_earlier_comparison_and_an_empty_file_are_written_over(tmp_path: Path, runs: list[str], option: str) -> None:
    path = tmp_path / "out"
    path.touch()
    assert called(*runs, option, str(path)).exit_code == 0
    written = path.read_bytes()
    assert called(*runs, option, str(path)).exit_code == 0
    assert path.read_bytes() == written
    # that of three runs too
    assert called(*runs, str(write(tmp_path / "c", usual()[2:5])), option, str(path)).exit_code == 0
    assert path.read_bytes() != written


@OPTIONS
@pytest.mark.parametrize("content", [b"# notes\n", b"<!DOCTYPE html>\n<html></html>\n", b'{"kind": "other"}', b"[1]"])
def test_anything_else_is_never_written_over(tmp_path: Path, runs: list[str], option: str, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    done = called(*runs, option, str(path))
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert " that bench.compare wrote; give another file" in done.stderr
    assert path.read_bytes() == content


@OPTIONS
def test_a_page_is_no_record_and_a_record_no_page(tmp_path: Path, runs: list[str], option: str) -> None:
    path = tmp_path / "out"
    other = {"--html": "--json", "--json": "--html"}[option]
    assert called(*runs, option, str(path)).exit_code == 0
    assert called(*runs, other, str(path)).exit_code == 2


PLACES: dict[str, Callable[[Path], Path]] = {
    "a folder": lambda folder: folder,
    "in no folder": lambda folder: folder / "nothing" / "out",
    "in a file": lambda folder: folder / "a" / "run.json" / "out",
}


@OPTIONS
@pytest.mark.parametrize("place", sorted(PLACES))
def test_where_nothing_can_be_written_is_told_before_anything_is_read(
    tmp_path: Path, runs: list[str], option: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.compare.compare_runs", None)
    done = called(*runs, option, str(PLACES[place](tmp_path)))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: cannot write ")


def test_one_file_cannot_be_both(tmp_path: Path, runs: list[str]) -> None:
    done = called(*runs, "--html", str(tmp_path / "x"), "--json", str(tmp_path / "a" / ".." / "x"))
    assert done.exit_code == 2
    assert "give two files" in done.stderr
    assert not (tmp_path / "x").exists()


@OPTIONS
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_write_that_ends_in_the_middle_leaves_the_file_as_it_was(
    tmp_path: Path, runs: list[str], option: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    assert called(*runs, option, str(path)).exit_code == 0
    before = path.read_bytes()
    write_bytes = os.write

    def half(descriptor: int, data: bytes) -> int:
        write_bytes(descriptor, data[: len(data) // 2])
        raise error

    monkeypatch.setattr(store.os, "write", half)
    done = called(runs[1], runs[0], option, str(path))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*.tmp"))
    if isinstance(error, OSError):
        assert (done.exit_code, done.stderr) == (1, f"error: cannot write {path}: No space left on device\n")
        # what was found is told all the same
        assert done.stdout == called(runs[1], runs[0]).stdout
    else:
        assert (done.exit_code, done.stderr.strip(), done.stdout) == (130, "error: interrupted", "")


def test_without_room_for_any_file_a_gate_still_tells_its_outcome(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.os, "write", full)
    paths = tmp_path / "out.json", tmp_path / "out.html"
    done = called(runs[0], runs[0], "--json", paths[0], "--html", paths[1], "--fail-on", "test_perplexity:1%")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [f"error: cannot write {path}: No space left on device" for path in paths]
    assert done.stdout.splitlines()[-1].startswith("passed: ")


def test_a_history_is_shown_although_its_plots_find_no_room(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folders = [*runs, str(write(tmp_path / "c", usual()[2:5]))]
    monkeypatch.setattr(files.tempfile, "TemporaryDirectory", full)
    done = called(*folders, "--html", tmp_path / "x.html")
    assert (done.exit_code, done.stdout) == (1, called(*folders).stdout)
    assert done.stderr == f"error: cannot write {tmp_path / 'x.html'}: No space left on device\n"


def test_a_page_without_jinja2_says_what_to_install(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None)
    done = called(*runs, "--html", str(tmp_path / "x.html"))
    assert done.exit_code == 2
    assert "python -m pip install 'lmzoo[plots]'" in done.stderr


def test_a_history_without_matplotlib_is_a_page_without_plots(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = files.importlib.util.find_spec
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    page = tmp_path / "x.html"
    done = called(*runs, str(write(tmp_path / "c", usual()[2:5])), "--html", str(page))
    assert done.exit_code == 0
    assert "warning: no plots: matplotlib is not installed" in done.stdout
    assert "<li>no plots: matplotlib is not installed" in page.read_text(encoding="utf-8")
    assert "<figure>" not in page.read_text(encoding="utf-8")


def test_names_that_steer_a_terminal_are_spelt_out(tmp_path: Path) -> None:
    def records() -> list[TrialRecord]:
        return [ok(trial("kn5"), 4.4), failed(trial("\x1b[2Jmlp\r\n"), "killed", "\x07 bell")]

    folders = [str(write(tmp_path / name, records())) for name in ("a", "b\x1b[31m", "c")]
    for arguments in (folders[:2], folders):
        done = called(*arguments)
        assert done.exit_code == 0
        assert not {"\x1b", "\x07", "\r"} & set(done.stdout)
        assert "\\x1b[2Jmlp" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text on this system")
def test_folders_whose_names_are_no_text_are_compared_and_named(tmp_path: Path) -> None:
    folders = [write(tmp_path / os.fsdecode(name), [ok(trial("kn5"), 4.4)]) for name in (b"caf\xe9", b"\xff", b"c")]
    (tmp_path / os.fsdecode(b"no run \xe9")).mkdir()
    for some in (folders[:2], [*folders, tmp_path / os.fsdecode(b"no run \xe9")]):
        files_of = ["--html", str(tmp_path / "x.html"), "--json", str(tmp_path / "x.json")]
        done = called(*map(str, some), *files_of)
        assert done.exit_code == 0, done.stderr
        assert "caf\ufffd" in (tmp_path / "x.html").read_text(encoding="utf-8")
        assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_files_are_there_although_nobody_reads_the_terminal(tmp_path: Path, runs: list[str]) -> None:
    command: list[Any] = [sys.executable, "-m", "bench.compare", *runs, "--json", tmp_path / "out.json"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"error: standard output: No space left on device\n")
    assert ComparisonRecord.model_validate_json((tmp_path / "out.json").read_bytes()).changes


@pytest.mark.skipif(os.name != "posix", reason="no such shell on this system")
def test_a_closed_output_is_no_error(runs: list[str]) -> None:
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "bench.compare", *runs]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("n_runs", [2, 3])
def test_the_pages_box_filters_by_family_and_promises_no_more(tmp_path: Path, runs: list[str], n_runs: int) -> None:
    some = [*runs, str(write(tmp_path / "c", usual()[2:5]))][:n_runs]
    assert called(*some, "--html", tmp_path / "x.html").exit_code == 0
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert 'data-model="kn5" data-kind="counting"' in text
    assert re.findall(r'data-kind="(\w+)"', text)
    assert 'data-kind=""' not in text
    assert '<option value="neural"></option>' in text
    assert 'placeholder="kn5, neural"' in text
    assert "size&lt;10MB" not in text


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_no_file_is_called_as_standard_output_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    run = write(tmp_path / "run", [ok(trial("kn5"), 4.4)])
    monkeypatch.chdir(tmp_path)
    done = called(run, run, option, "-")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "standard output has the comparison; give the name of a file" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_headline_keeps_remarks_and_says_what_was_asked_differently(tmp_path: Path) -> None:
    def headline(n: int, before: TrialRecord, after: TrialRecord) -> list[str]:
        folder = tmp_path / str(n)
        found = compare_runs(write(folder / "a", [before]), write(folder / "b", [after]))
        section = comparison_page(found, []).sections[0]
        return [*section.paragraphs[2:], *section.bullets]

    few = headline(1, ok(trial("rnn", max_steps=50), 7.45), ok(trial("rnn", max_steps=100), 6.14))
    assert few[0] == "The runs were asked differently: training of each network: from 50 steps to 100 steps."
    assert few[1].startswith("better: rnn on cpu, test perplexity 7.")
    assert few[1].endswith(" (one seed)")
    options = [dict.fromkeys("abcd", n) for n in (1, 2)]
    many = headline(2, *[ok(trial("rnn", options=some), 7.45) for some in options])
    assert many == ["The runs were asked differently: 4 things, see Configuration."]
    assert headline(3, ok(trial("rnn"), 7.45), ok(trial("rnn"), 7.45)) == []
