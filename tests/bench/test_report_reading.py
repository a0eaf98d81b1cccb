"""What a run's folder holds, read: each planned trial is a row, whatever lies where its record belongs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.records import TrialRecord
from bench.report import plots
from bench.report.__main__ import main as report_command
from bench.report.reading import NOT_RUN, OF_ANOTHER, UNREADABLE, read_run
from bench.sealed import sealed
from lmzoo.errors import InputError
from tests.bench.synthetic import ok, trial, write

RECORDS = [ok(trial(name), 5.0) for name in ("kn5", "bigram")]


def path_of(folder: Path, record: TrialRecord) -> Path:
    return folder / "trials" / f"{record.trial.trial_id}.json"


def changed(record: TrialRecord, **changes: object) -> TrialRecord:
    return record.model_copy(update={"trial": record.trial.model_copy(update=changes)})


def of_the_other_trial(folder: Path) -> None:
    shutil.copy(path_of(folder, RECORDS[0]), path_of(folder, RECORDS[1]))


def of_other_content(folder: Path) -> None:
    path_of(folder, RECORDS[1]).write_bytes(sealed(changed(RECORDS[1], content_key="other", options={"order": 3})))


def of_another_name(folder: Path) -> None:
    path_of(folder, RECORDS[1]).write_bytes(sealed(changed(RECORDS[1], trial_id="other")))


@pytest.mark.parametrize("put", [of_the_other_trial, of_other_content, of_another_name])
def test_a_record_that_is_not_of_the_trial_of_its_name_is_a_reason_and_never_a_figure(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    put(write(tmp_path, RECORDS))
    run = read_run(tmp_path)
    assert run.records == (RECORDS[0],)
    assert [(missing.trial, missing.reason) for missing in run.missing] == [(RECORDS[1].trial, OF_ANOTHER)]


def test_a_second_file_of_one_trial_does_not_vanish(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    shutil.copy(path_of(tmp_path, RECORDS[0]), tmp_path / "trials" / "copy.json")
    run = read_run(tmp_path)
    assert run.records == tuple(RECORDS)
    assert [(missing.trial_id, missing.reason) for missing in run.missing] == [("copy", OF_ANOTHER)]


def test_a_plan_names_each_trial_once(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    data = json.loads((tmp_path / "run.json").read_bytes())
    data["plan"] *= 2
    (tmp_path / "run.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match=r"the plan has \S+ 2 times"):
        read_run(tmp_path)


@pytest.mark.parametrize("what", ["gone", "a file"])
def test_without_the_folder_of_its_records_a_report_stays_as_it_is(tmp_path: Path, what: str) -> None:
    write(tmp_path, RECORDS)
    (tmp_path / "trials").rename(tmp_path / "moved")
    if what == "a file":
        (tmp_path / "trials").write_bytes(b"")
    (tmp_path / "report.md").write_text("a good report", encoding="utf-8")
    result = CliRunner().invoke(report_command, [str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "trials, the folder with the records of its 2 trials" in result.stderr
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == "a good report"


def test_a_folder_without_records_is_a_run_of_which_nothing_finished(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    for record in RECORDS:
        path_of(tmp_path, record).unlink()
    assert [missing.reason for missing in read_run(tmp_path).missing] == [NOT_RUN, NOT_RUN]


def test_the_terminal_tells_of_records_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    write(tmp_path, RECORDS)
    cut = path_of(tmp_path, RECORDS[1])
    cut.write_bytes(cut.read_bytes()[:100])
    result = CliRunner().invoke(report_command, [str(tmp_path)])
    assert result.exit_code == 0
    assert f"warning: trials/{cut.name}: {UNREADABLE}\n" in result.stderr


def test_a_report_removes_what_a_killed_one_left_an_hour_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    (write(tmp_path, RECORDS) / "plots").mkdir()
    old, new = (tmp_path / "plots" / f".{digit * 16}.tmp" for digit in "ab")
    old.write_bytes(b"")
    new.write_bytes(b"")
    an_hour_ago = time.time() - 3700
    os.utime(old, (an_hour_ago, an_hour_ago))
    assert CliRunner().invoke(report_command, [str(tmp_path)]).exit_code == 0
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.skipif(os.name == "nt", reason="links take rights there")
def test_a_report_that_is_a_circle_of_links_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    write(tmp_path, RECORDS)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "report.md").symlink_to("loop")
    result = CliRunner().invoke(report_command, [str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the report cannot be written: report.md: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.whole
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no such device")
@pytest.mark.parametrize(
    ("arguments", "status", "lines"), [("--help > /dev/full", 1, 1), ("no-such-run >&-", 2, 1), ("--help >&-", 0, 0)]
)
def test_an_output_that_takes_nothing_is_no_traceback(arguments: str, status: int, lines: int) -> None:
    done = subprocess.run(
        f"{sys.executable} -m bench.report {arguments}", shell=True, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (status, lines), done.stderr
    assert done.stderr.startswith("error: " if lines else "")
