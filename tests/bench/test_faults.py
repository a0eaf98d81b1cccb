"""Faults are injected into runs as the script of docs/faults.md does it, only fewer of them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bench import running
from bench.records import SCHEMA_VERSION, TrialRecord
from bench.report import drawing
from bench.report.__main__ import main as report_command
from bench.report.reading import read_run
from bench.run import main as run_command
from bench.sealed import read_record, sealed
from bench.store import RunStore, StoreError, WriteError
from benchmarks import faults
from benchmarks.scene import ROOT, Outcome, Scene, half_files
from benchmarks.stand_in import record_of
from lmzoo.errors import CorruptFileError, InputError, LmzooError, NewerFileError
from tests.bench.stubs import make_record, make_trial
from tests.bench.test_store import RECORD, files, make_info
from tests.bench.test_store import folder as folder


def cost_nothing(outcome: Outcome) -> bool:
    assert outcome.injected > 0
    assert (outcome.lost, outcome.reused, outcome.half, outcome.wrong) == (0, 0, 0, [])
    return True


@pytest.mark.whole
def test_a_damaged_record_is_never_used(tmp_path: Path) -> None:
    assert cost_nothing(faults.damaged_records(Scene(tmp_path, with_report=False), 8))


@pytest.mark.slow
@pytest.mark.parametrize(("inject", "n"), [(faults.killed_runner, 2), (faults.two_runs, 1), (faults.full_disk, 1)])
def test_faults_cost_nothing(tmp_path: Path, inject: Callable[[Scene, int], Outcome], n: int) -> None:
    try:
        assert cost_nothing(inject(Scene(tmp_path, with_report=False), n))
    except faults.CannotMountError as error:
        pytest.skip(str(error))


def test_the_row_of_a_table_says_what_is_wrong() -> None:
    outcome = Outcome(fault="a fault", injected=2, finished=3, lost=1)
    assert faults.row_of(outcome) == "| a fault | 2 | 3 | 1 | 0 | 0 | nothing |"
    outcome.require(False, "a traceback\nwas seen")
    assert faults.row_of(outcome) == "| a fault | 2 | 3 | 1 | 0 | 0 | 1: a traceback was seen |"


def test_the_table_of_the_docs_is_of_this_script_and_shows_no_loss() -> None:
    lines = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    start = lines.index(faults.HEADER.splitlines()[0])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[start + 2 : lines.index("", start)]]
    assert len(rows) == len(faults.FAULTS)
    assert min(int(row[1]) for row in rows) >= 1
    assert {tuple(row[3:]) for row in rows} == {("0", "0", "0", "nothing")}


def test_half_a_file_is_seen(folder: Path) -> None:
    assert half_files(folder) == []
    (folder / RECORD).write_bytes((folder / RECORD).read_bytes()[:-9])
    (folder / "report.md").write_text("cut", encoding="utf-8")
    assert half_files(folder) == ["report.md", Path(RECORD).name]


def test_the_record_of_the_stand_in_fits_the_schema() -> None:
    assert TrialRecord.model_validate(record_of(make_trial().model_dump(mode="json"))).status == "ok"


# what is written to a file's name when everything goes wrong at the Nth call


def test_a_write_that_fails_anywhere_leaves_only_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_failed, is_done = 0, False
    while not is_done:
        folder = tmp_path / f"run-{n_failed}"
        with monkeypatch.context() as patch, contextlib.suppress(WriteError):
            calls = _fail_at_call(patch, n_failed)
            _write_a_run(folder)
            is_done = calls() <= n_failed
        assert half_files(folder) == []
        _write_a_run(folder)
        assert {RECORD, "run.json"} <= set(files(folder))
        assert not [name for name in files(folder) if name.endswith(".tmp")]
        n_failed += 1
    # for each of three files: some pieces, a sync, a new name, and the sync of the folder, which may be refused
    assert n_failed > 3 * 3


def _write_a_run(folder: Path) -> None:
    with RunStore(folder, mode="resume") as store:
        store.write_run(make_info("good", "other"))
        for model in ("good", "other"):
            store.write_record(make_record(make_trial(model)))


def _fail_at_call(patch: pytest.MonkeyPatch, n: int) -> Callable[[], int]:
    """Let the Nth call of the system's writing functions fail; the function tells how many there were."""
    count = 0

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == n + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        return call

    write = os.write
    patch.setattr(os, "write", failing(lambda descriptor, data: write(descriptor, data[:2000])))
    for name in ("fsync", "replace", "rename"):
        patch.setattr(os, name, failing(getattr(os, name)))
    return lambda: count


def test_a_record_survives_a_crash_with_the_folders_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor).st_ino), sync(descriptor)))
    _write_a_run(tmp_path / "run")
    named = [tmp_path, tmp_path / "run", tmp_path / "run" / "trials", tmp_path / "run" / RECORD]
    assert {path.stat().st_ino for path in named} <= set(synced)


def test_a_plot_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, _ = drawing.new_figure(2, 2)
    drawing.save(figure, tmp_path, "plot")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["plot.png", "plot.svg"]
    draw = figure.savefig

    def half(file: object, **options: object) -> None:
        draw(file, **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(figure, "savefig", half)
    with pytest.raises(OSError, match="No space"):
        drawing.save(figure, tmp_path, "plot")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# a report that cannot be written


@pytest.mark.parametrize(("status", "is_raised"), [(1, True), (2, False), (-9, False)])
def test_a_report_without_room_ends_the_run_and_any_other_loss_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, is_raised: bool
) -> None:
    done = subprocess.CompletedProcess([], status, "", "error: report.md: No space left on device\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    said: list[str] = []
    lost = "no report, report.md: No space left on device; build it with: python -m bench.report run"
    with pytest.raises(WriteError, match=lost) if is_raised else contextlib.nullcontext():
        assert not running._report(Path("run"), said.append)
    assert said == ([] if is_raised else [f"warning: {lost}"])


def test_the_command_says_that_its_report_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "report.md"))

    monkeypatch.setattr("bench.report.build.write_text", full)
    monkeypatch.setattr("bench.report.build._draw", lambda *_: ([], []))
    done = CliRunner().invoke(report_command, [str(folder)])
    assert done.exit_code == 1
    assert done.stderr == "error: the report cannot be written: report.md: No space left on device\n"


# seals


@given(position=st.integers(0), digit=st.sampled_from("0123456789"))
def test_any_other_digit_is_noticed(tmp_path_factory: pytest.TempPathFactory, position: int, digit: str) -> None:
    data = sealed(make_record(make_trial("good"))).decode()
    digits = [i for i, character in enumerate(data) if character.isdigit()]
    i = digits[position % len(digits)]
    altered = data[:i] + digit + data[i + 1 :]
    path = tmp_path_factory.mktemp("record") / "record.json"
    path.write_text(altered, encoding="utf-8")
    try:
        is_same = json.loads(altered) == json.loads(data)
    except ValueError:
        is_same = False
    if is_same:
        assert read_record(path) == make_record(make_trial("good"))
        return
    with pytest.raises(LmzooError):
        read_record(path)


def test_the_layout_of_a_record_is_not_sealed(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(sealed(make_record(make_trial("good")))), indent=4), encoding="utf-8")
    assert read_record(path) == make_record(make_trial("good"))


def test_a_seal_cannot_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(make_record(make_trial("good")).model_dump_json(exclude={"sha256"}), encoding="utf-8")
    with pytest.raises(CorruptFileError, match="it was altered"):
        read_record(path)


@pytest.mark.parametrize("version", [None, True, "4", 4.0, -1, 0, 2])
def test_only_schema_1_had_no_seal(tmp_path: Path, version: object) -> None:
    path = tmp_path / "record.json"
    data = json.loads(make_record(make_trial("good")).model_dump_json(exclude={"sha256", "schema_version"}))
    data |= {} if version is None else {"schema_version": version}
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(CorruptFileError, match="it was altered"):
        read_record(path)


def test_an_older_record_without_a_seal_has_to_fit_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    older = make_record(make_trial("good")).model_copy(update={"schema_version": 1})
    path.write_text(older.model_dump_json(exclude={"sha256"}), encoding="utf-8")
    assert read_record(path) == older
    path.write_text('{"schema_version": 1, "status": "ok"}', encoding="utf-8")
    with pytest.raises(CorruptFileError, match=r"record\.json does not fit the schema"):
        read_record(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"schema_version": NaN}'])
def test_what_is_no_record_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"record\.json (is|holds)|content of record\.json"):
        read_record(path)


# what lies where a record belongs


def _replace(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to nowhere":
        path.symlink_to("nowhere")
    else:
        path.symlink_to(path.parents[2] / "elsewhere")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("kind", ["folder", "fifo", "link to nowhere", "link"])
@pytest.mark.parametrize("name", [RECORD, "run.json"])
def test_what_is_no_regular_file_neither_blocks_nor_leads_elsewhere(folder: Path, name: str, kind: str) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_bytes((folder / RECORD).read_bytes())
    _replace(folder / name, kind)
    if name == RECORD:
        assert [missing.reason for missing in read_run(folder).missing] == ["record unreadable"]
    else:
        with pytest.raises(InputError, match="is no run"):
            read_run(folder)
    with RunStore(folder, mode="resume") as store:
        store.write_run(make_info("good"))
        if store.reusable(make_trial("good")) is None:
            store.write_record(make_record(make_trial("good")))
    assert len(read_run(folder).records) == 1
    assert os.path.lexists(folder / f"{name}.bad")
    assert elsewhere.read_bytes() == (folder / RECORD).read_bytes()
    assert not (folder / "nowhere").exists()
    assert not (folder / "trials" / "nowhere").exists()


def test_a_newer_record_is_never_touched(folder: Path) -> None:
    data = json.loads((folder / RECORD).read_bytes()) | {"schema_version": SCHEMA_VERSION + 1, "new": 1}
    (folder / RECORD).write_text(json.dumps(data), encoding="utf-8")
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    with pytest.raises(StoreError, match=f"newer version: good.*json has schema {SCHEMA_VERSION + 1}, .*upgrade lmzoo"):
        RunStore(folder, mode="resume").check()
    with pytest.raises(NewerFileError, match="update lmzoo"):
        read_run(folder)
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_the_command_refuses_a_newer_record_before_it_does_anything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((folder / RECORD).read_bytes()) | {"schema_version": SCHEMA_VERSION + 1}
    (folder / RECORD).write_text(json.dumps(data), encoding="utf-8")
    assert run_command(["--models", "unigram", "--out", str(folder), "--resume"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert files(folder) == ["run.json", RECORD]


def test_a_record_that_became_newer_meanwhile_is_not_touched_either(folder: Path) -> None:
    with RunStore(folder, mode="resume") as store:
        data = json.loads((folder / RECORD).read_bytes()) | {"schema_version": SCHEMA_VERSION + 1}
        (folder / RECORD).write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(StoreError, match="newer version"):
            store.reusable(make_trial("good"))
    assert files(folder) == ["run.json", RECORD]


# whose folder it is


def test_a_folder_that_appeared_since_it_was_looked_for_belongs_to_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(folder)
    monkeypatch.setattr(RunStore, "check", lambda _: None)
    with pytest.raises(StoreError, match="exists already"), RunStore(folder):
        pass
    assert files(folder) == before


def test_a_file_in_the_place_of_the_records_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "trials").touch()
    with pytest.raises(WriteError, match=r"cannot make .*: File exists"), RunStore(tmp_path, mode="resume"):
        pass
    # and the folder is free again
    RunStore(tmp_path, mode="resume").check()


def test_force_moves_no_folder_that_another_run_took_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunStore, "check", lambda _: None)
    with (
        RunStore(folder, mode="resume"),
        pytest.raises(StoreError, match="in use by another run"),
        RunStore(folder, mode="force"),
    ):
        pass
    assert files(folder) == ["run.json", RECORD]


def test_a_lock_on_a_folder_that_was_moved_is_worth_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", lambda *_: folder.rename(folder.with_name("moved")))
    with pytest.raises(StoreError, match="in use by another run"):
        RunStore(folder, mode="resume").check()


def test_a_folder_that_cannot_be_locked_is_used_with_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    warnings: list[str] = []
    with RunStore(folder, mode="resume", warn=warnings.append) as store:
        assert store.reusable(make_trial("good")) is not None
    assert "cannot be locked here (No locks available): let no other run use it meanwhile" in warnings[0]


@pytest.mark.parametrize("what", ["moved", "removed", "replaced"])
def test_nothing_is_written_into_a_folder_that_is_another(folder: Path, what: str) -> None:
    with RunStore(folder, mode="resume") as store:
        folder.rename(folder.with_name("moved"))
        if what == "replaced":
            (folder / "trials").mkdir(parents=True)
        with pytest.raises(WriteError, match="was moved or removed; start the run again"):
            store.write_record(make_record(make_trial("other")))
    assert not (folder.exists() and files(folder))
    assert files(folder.with_name("moved")) == ["run.json", RECORD]


def test_what_a_killed_writer_left_is_removed_and_nothing_else(folder: Path) -> None:
    (folder / "plots").mkdir()
    leftovers = [folder / where / ".0123456789abcdef.tmp" for where in (".", "trials", "plots")]
    others = [folder / ".0123.tmp", folder / "trials" / ".hidden"]
    for path in (*leftovers, *others):
        path.touch()
    with RunStore(folder, mode="resume"):
        assert [path.exists() for path in (*leftovers, *others)] == [False] * 3 + [True] * 2
