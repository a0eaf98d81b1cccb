"""A run's folder: files appear whole or not at all, and nothing finished is lost or overwritten."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from bench import environment
from bench.records import SCHEMA_VERSION, CorpusSpec, Environment, RunInfo, TrialRecord
from bench.sealed import read_record
from bench.store import RunStore, StoreError, WriteError, published_record, published_trial, write_atomically
from tests.bench.stubs import make_record, make_trial


def make_info(*models: str) -> RunInfo:
    return RunInfo(
        run_id="test",
        command="python -m bench.run",
        started_utc="2026-01-01T00:00:00+00:00",
        plan=tuple(map(make_trial, models)),
        corpora=(),
        environment=Environment.model_validate(environment.describe()),
    )


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run of one trial."""
    folder = tmp_path / "run"
    with RunStore(folder) as store:
        store.write_run(make_info("good"))
        store.write_record(make_record(make_trial("good")))
    return folder


RECORD = "trials/good-text-char-file-cpu-s0-00000000.json"


def test_what_was_written_is_read_back(folder: Path) -> None:
    assert files(folder) == ["run.json", RECORD]
    with RunStore(folder, mode="resume") as store:
        assert store.reusable(make_trial("good")) == make_record(make_trial("good"))
        assert store.reusable(make_trial("other")) is None
        assert store.reusable(make_trial("good", content_key="f" * 64)) is None


@pytest.mark.parametrize(
    ("status", "changed", "is_reused"),
    [
        ("ok", {"time_limit_s": 9.0, "memory_limit_bytes": 10**9}, True),
        ("timed_out", {}, True),
        ("killed", {}, False),
        ("timed_out", {"memory_limit_bytes": 10**9}, True),
        ("timed_out", {"time_limit_s": 9.0}, False),
        ("out_of_memory", {"time_limit_s": 9.0}, True),
        ("out_of_memory", {"memory_limit_bytes": 10**9}, False),
    ],
)
def test_a_limit_that_ended_a_trial_counts_only_while_it_is_the_same(
    tmp_path: Path, status: str, changed: dict[str, object], is_reused: bool
) -> None:
    trial = make_trial("good")
    with RunStore(tmp_path / "run") as store:
        store.write_record(make_record(trial).model_copy(update={"status": status, "reason": "a limit"}))
        assert (store.reusable(trial.model_copy(update=changed)) is not None) is is_reused


def test_an_existing_folder_is_refused_and_left_alone(folder: Path) -> None:
    before = (folder / RECORD).read_bytes()
    with pytest.raises(StoreError, match=r"exists already; go on with --resume, replace it with --force"):
        RunStore(folder).check()
    assert (files(folder), (folder / RECORD).read_bytes()) == (["run.json", RECORD], before)


def test_force_moves_the_old_folder_aside_each_time_to_a_new_name(folder: Path) -> None:
    for _ in range(2):
        with RunStore(folder, mode="force") as store:
            store.write_run(make_info("new"))
    assert files(folder.with_name("run.old-1")) == ["run.json", RECORD]
    assert files(folder.with_name("run.old-2")) == files(folder) == ["run.json"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text", encoding="utf-8")
    for mode in ("new", "resume", "force"):
        with pytest.raises(StoreError, match="is a file"):
            RunStore(path, mode=mode).check()


def test_two_runs_cannot_share_a_folder(folder: Path) -> None:
    with RunStore(folder, mode="resume"):
        for mode in ("new", "resume", "force"):
            with pytest.raises(StoreError, match="in use by another run"):
                RunStore(folder, mode=mode).check()
    RunStore(folder, mode="resume").check()


@pytest.mark.parametrize("keep", [0, 1, 100])
def test_a_corrupt_record_is_set_aside_with_a_warning(folder: Path, keep: int) -> None:
    path = folder / RECORD
    path.write_bytes(path.read_bytes()[:keep])
    warnings: list[str] = []
    with RunStore(folder, mode="resume", warn=warnings.append) as store:
        assert store.reusable(make_trial("good")) is None
        store.write_record(make_record(make_trial("good")))
    assert len(warnings) == 1
    assert "its trial runs again" in warnings[0]
    assert files(folder) == ["run.json", RECORD, f"{RECORD}.bad"]
    assert (folder / f"{RECORD}.bad").stat().st_size == keep


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema_version": "new"}', b"\xff"])
def test_a_run_file_that_cannot_be_read_starts_afresh(folder: Path, content: bytes) -> None:
    (folder / "run.json").write_bytes(content)
    warnings: list[str] = []
    with RunStore(folder, mode="resume", warn=warnings.append) as store:
        store.write_run(make_info("good"))
    assert warnings == ["run.json cannot be read; the run starts afresh"]
    assert RunInfo.model_validate_json((folder / "run.json").read_bytes()).run_id == "test"


def test_a_newer_run_is_not_touched(folder: Path) -> None:
    info = json.loads((folder / "run.json").read_bytes()) | {"schema_version": SCHEMA_VERSION + 1}
    (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
    with pytest.raises(StoreError, match=f"run.json has schema {SCHEMA_VERSION + 1}, this version reads up to"):
        RunStore(folder, mode="resume").check()


def test_a_record_is_never_overwritten(folder: Path) -> None:
    first = (folder / RECORD).read_bytes()
    with RunStore(folder, mode="resume") as store:
        store.write_record(make_record(make_trial("good")).model_copy(update={"wall_s": 99.0}))
    assert (folder / f"{RECORD}.before-1").read_bytes() == first
    assert TrialRecord.model_validate_json((folder / RECORD).read_bytes()).wall_s == 99.0


def test_records_of_other_content_make_room_and_those_of_other_trials_stay(folder: Path) -> None:
    changed = make_trial("good", trial_id="good-text-char-file-cpu-s0-11111111", content_key="1" * 64)
    warnings: list[str] = []
    with RunStore(folder, mode="resume", warn=warnings.append) as store:
        store.set_outdated_aside([make_trial("other")])
        assert files(folder) == ["run.json", RECORD]
        store.set_outdated_aside([changed])
    assert files(folder) == ["run.json", f"{RECORD}.outdated-1"]
    assert len(warnings) == 1


def test_a_full_disk_is_one_line_and_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (folder / RECORD).read_bytes()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with RunStore(folder, mode="resume") as store:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(WriteError, match=r"^cannot write trials/other.*: No space left on device; .*--resume$"):
            store.write_record(make_record(make_trial("other")))
    assert (files(folder), (folder / RECORD).read_bytes()) == (["run.json", RECORD], first)


def test_a_write_cut_short_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    write_atomically(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_no_path_reaches_a_file(tmp_path: Path) -> None:
    corpus = CorpusSpec(train="/home/jo/my texts/a.txt", valid=r"C:\jo\v.txt", test="/home/jo/b.txt")
    trial = make_trial("good", corpus=corpus, spec="kenlm:/home/jo/model.bin")
    record = make_record(trial).model_copy(update={"status": "failed", "reason": "no /home/jo/x here"})
    with RunStore(tmp_path / "run") as store:
        store.write_run(make_info().model_copy(update={"plan": (trial,)}))
        store.write_record(record)
    for path in (tmp_path / "run").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert "jo" not in text
        assert "a.txt" in text


def test_a_folder_that_cannot_be_moved_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Path, "rename", busy)
    with (
        pytest.raises(StoreError, match=r"cannot move .*run aside: Device or resource busy; use another --out"),
        RunStore(folder, mode="force"),
    ):
        pass
    assert files(folder) == ["run.json", RECORD]


def test_the_current_folder_is_not_moved_aside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    # what is written next would follow the folder to its new name
    with pytest.raises(StoreError, match="it is the current folder"), RunStore(Path(), mode="force"):
        pass
    assert files(folder) == ["run.json", RECORD]


def test_force_moves_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    with RunStore(there) as store:
        store.write_record(make_record(make_trial("good")))
    link.symlink_to(there, target_is_directory=True)
    with RunStore(link, mode="force") as store:
        store.write_record(make_record(make_trial("unigram")))
    assert [path.name for path in (there / "trials").iterdir()] == [f"{make_trial('good').trial_id}.json"]
    assert [path.name for path in (link / "trials").iterdir()] == [f"{make_trial('unigram').trial_id}.json"]
    assert (tmp_path / "link.old-1").readlink() == there


def test_what_a_model_says_is_written_as_it_may_be_published(tmp_path: Path) -> None:
    record = make_record(make_trial("good")).model_copy(
        update={"status": "failed", "reason": "red \x1b[31m at /home/jo/m.bin", "warnings": ("\x07",)}
    )
    with RunStore(tmp_path / "run") as store:
        store.write_record(record)
    written = read_record(tmp_path / "run" / "trials" / f"{record.trial.trial_id}.json")
    assert (written.reason, written.warnings) == ("red \\x1b[31m at m.bin", ("\\x07",))


@pytest.mark.parametrize(
    ("tokens", "written"),
    [("bpe:8000", "bpe:8000"), ("/home/me/my/tokenizer.json", "tokenizer.json"), ("my/own.json", "my/own.json")],
)
def test_a_tokenizer_file_is_written_as_it_calls_itself(tokens: str, written: str) -> None:
    trial = make_trial().model_copy(update={"corpus": CorpusSpec(name="text", tokens=tokens)})
    assert published_trial(trial).corpus.tokens == written


@pytest.mark.parametrize("name", ["report.md", "report.html", "report.json", "tables", "plots"])
def test_a_folder_of_something_else_is_not_gone_on_with(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / name).write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match=rf"is no run that could be gone on with: it has {name}, which would be over"):
        RunStore(folder, mode="resume").check()
    # a run that lost its run.json still has its trials, and goes on
    (folder / "trials").mkdir()
    RunStore(folder, mode="resume").check()


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    RunStore(tmp_path / "empty", mode="resume").check()


def test_warnings_that_differ_in_their_folder_alone_are_one() -> None:
    record = make_record(make_trial("good")).model_copy(
        update={"warnings": ("no /home/jo/a.txt", "no /home/flo/a.txt", "none")}
    )
    assert published_record(record).warnings == ("no a.txt", "none")
