"""A run's folder: what is in it, and that nothing finished is lost or overwritten.

Every file appears whole or not at all.  A folder belongs to one run at a time (where the system can lock a folder).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from bench.environment import file_name, publishable, without_folders
from bench.records import SCHEMA_VERSION, RunInfo, TrialRecord, TrialSpec
from bench.sealed import read_json, read_record, schema_version, sealed
from lmzoo.errors import CorruptFileError, LmzooError, NewerFileError
from lmzoo.files import remove_leftovers, replacing, sync_folder

Mode = Literal["new", "resume", "force"]
RUN_FILE = "run.json"
TRIALS = "trials"
# nobody takes longer to write one file of a run
_ABANDONED_S = 3600.0
# the exit status of a command that could not write what it made
CANNOT_WRITE = 1
_FOLDERS = (".", TRIALS, "tables", "plots")
# what a report consists of
_REPORT = ("report.md", "report.html", "report.json", "tables", "plots")


class StoreError(LmzooError):
    """A run's folder cannot be used: it is there already, in use, newer than this version, or not writable."""


class WriteError(StoreError):
    """A file of a run cannot be written (disk full, read-only …)."""


class RunStore:
    """One run's folder; a context manager that holds it locked.

    `mode`: `new` refuses an existing folder, `resume` goes on in it, `force` moves it aside.
    """

    def __init__(self, folder: Path, *, mode: Mode = "new", warn: Callable[[str], None] = lambda _: None) -> None:
        self.folder = folder
        self._mode = mode
        self._warn = warn
        self._lock: int | None = None

    def check(self) -> None:
        """Raise `StoreError` unless the folder may be used this way; change nothing."""
        if not os.path.lexists(self.folder):
            return
        if not self.folder.is_dir():
            raise StoreError(f"{self.folder} is a file; give a folder that is not there yet with --out")
        os.close(self._locked_folder())
        if self._mode == "new":
            raise self._exists()
        if self._mode == "resume":
            self._check_is_run()
            self._check_version()

    def __enter__(self) -> RunStore:
        self.check()
        moved = self._move_aside() if self._mode == "force" and self.folder.exists() else None
        try:
            self._take_folder()
        except OSError as error:
            self._unlock()
            raise WriteError(f"cannot make {self.folder}: {error.strerror or error}") from error
        finally:
            if moved is not None:
                os.close(moved)
        return self

    def _take_folder(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.folder.mkdir(exist_ok=self._mode == "resume")
        except FileExistsError as error:
            # another run has made it since it was looked for
            raise self._exists() from error
        self._lock = self._locked_folder()
        (self.folder / TRIALS).mkdir(exist_ok=True)
        for name in _FOLDERS:
            remove_leftovers(self.folder / name)
        # a record in a folder whose own name is lost by a crash would be lost with it
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def _exists(self) -> StoreError:
        return StoreError(f"{self.folder} exists already; go on with --resume, replace it with --force, or use --out")

    def _move_aside(self) -> int:
        """Give the folder another name, locked meanwhile, so that no run that has it loses it; return that lock."""
        # a link is moved and not what it leads to
        folder = self.folder.absolute()
        if Path.cwd().is_relative_to(folder.resolve()):
            raise StoreError(f"cannot move {self.folder} aside: it is the current folder; use another --out")
        lock = self._locked_folder()
        try:
            folder.rename(_free_name(folder, "old"))
        except OSError as error:
            os.close(lock)
            raise StoreError(
                f"cannot move {self.folder} aside: {error.strerror or error}; use another --out"
            ) from error
        return lock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_run(self, info: RunInfo) -> None:
        published = info.model_copy(update={"plan": tuple(map(published_trial, info.plan))})
        path = self.folder / RUN_FILE
        if os.path.lexists(path) and not _is_regular(path):
            self._set_aside(path, "bad")
        self._write(path, published.model_dump_json(indent=1).encode() + b"\n")

    def write_record(self, record: TrialRecord) -> None:
        """Write a trial's record; one that is there already is set aside, never overwritten."""
        path = self._record_path(record.trial)
        if os.path.lexists(path):
            self._set_aside(path, "before")
        self._write(path, sealed(published_record(record)))

    def reusable(self, trial: TrialSpec) -> TrialRecord | None:
        """The stored record of the same work, or None.  A corrupt one is set aside with a warning.

        A trial that was killed from outside, or that failed before it had read its text, says nothing of its model
        and runs again.
        """
        path = self._record_path(trial)
        try:
            record = read_record(path)
        except FileNotFoundError:
            return None
        except NewerFileError as error:
            raise self._newer(error) from error
        except CorruptFileError:
            aside = self._set_aside(path, "bad")
            self._warn(f"{TRIALS}/{path.name} cannot be read; it is now {aside.name}, and its trial runs again")
            return None
        return record if _tells_of(record, trial) else None

    def set_outdated_aside(self, plan: Sequence[TrialSpec]) -> None:
        """Set aside records of trials of the plan that were made of other content (another text, option or code).

        Two records of one trial would be taken for two seeds.  Records of trials outside the plan stay.
        """
        current = {trial.trial_id for trial in plan}
        planned = {_without_key(trial_id) for trial_id in current}
        for path in sorted((self.folder / TRIALS).glob("*.json")):
            if path.stem not in current and _without_key(path.stem) in planned:
                self._set_aside(path, "outdated")
                self._warn(f"{TRIALS}/{path.name} is of another text, option or code: set aside, its trial runs again")

    def _record_path(self, trial: TrialSpec) -> Path:
        return self.folder / TRIALS / f"{trial.trial_id}.json"

    def _set_aside(self, path: Path, word: str) -> Path:
        """Give what lies where something else belongs another name, whatever it is; nothing is ever removed."""
        aside = path.with_name(f"{path.name}.bad") if word == "bad" else _free_name(path, word)
        if os.path.lexists(aside):
            aside = _free_name(aside, "old")
        try:
            path.rename(aside)
        except OSError as error:
            raise WriteError(f"cannot set {path.name} aside: {error.strerror or error}") from error
        return aside

    def _check_is_run(self) -> None:
        """Raise `StoreError` for a folder of something else, whose files would be taken for an old report."""
        if any(os.path.lexists(self.folder / name) for name in (RUN_FILE, TRIALS)):
            return
        foreign = next((name for name in _REPORT if os.path.lexists(self.folder / name)), None)
        if foreign is not None:
            raise StoreError(
                f"{self.folder} is no run that could be gone on with: it has {foreign}, which would be overwritten, "
                f"and no {RUN_FILE}; use another --out"
            )

    def _check_version(self) -> None:
        """A run of which a newer version wrote any part is not touched.

        One whose `run.json` cannot be read starts afresh.
        """
        run_file = self.folder / RUN_FILE
        for path in (run_file, *sorted((self.folder / TRIALS).glob("*.json"))):
            try:
                version = schema_version(read_json(path))
            except FileNotFoundError:
                continue
            except CorruptFileError:
                version = 0
            if version > SCHEMA_VERSION:
                raise self._newer(f"{path.name} has schema {version}, this version reads up to {SCHEMA_VERSION}")
            if path is run_file and version < 1:
                self._warn(f"{RUN_FILE} cannot be read; the run starts afresh")

    def _newer(self, what: NewerFileError | str) -> StoreError:
        return StoreError(f"{self.folder} was written by a newer version: {what}; upgrade lmzoo or use another --out")

    def _locked_folder(self) -> int:
        """A descriptor of the folder that holds its lock; the system frees it when the process ends."""
        try:
            import fcntl
        except ImportError:
            # no such locks on this system; an open file stands in for the descriptor
            return os.open(os.devnull, os.O_RDONLY)
        try:
            descriptor = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be opened: {error.strerror or error}; use another --out") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise self._in_use() from error
        except OSError as error:
            self._warn(f"{self.folder} cannot be locked here ({error.strerror}): let no other run use it meanwhile")
        if not self._is_at(descriptor):
            os.close(descriptor)
            raise self._in_use()
        return descriptor

    def _in_use(self) -> StoreError:
        return StoreError(f"{self.folder} is in use by another run; wait for it or use another --out")

    def _is_at(self, descriptor: int) -> bool:
        """Whether the folder's name still means the folder of a descriptor: it may have been moved or removed."""
        if os.name == "nt":
            return True
        try:
            return os.path.samestat(os.stat(self.folder), os.fstat(descriptor))  # noqa: PTH116
        except OSError:
            return False

    def _write(self, path: Path, data: bytes) -> None:
        where = path.relative_to(self.folder)
        if self._lock is not None and not self._is_at(self._lock):
            # what lies there now belongs to somebody else
            raise WriteError(f"cannot write {where}: {self.folder} was moved or removed; start the run again")
        try:
            write_atomically(path, data)
        except OSError as error:
            raise WriteError(
                f"cannot write {where}: {error.strerror or error}; what was finished is safe, go on with --resume"
            ) from error


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _tells_of(record: TrialRecord, trial: TrialSpec) -> bool:
    """Whether a record is of exactly this work, and of nothing but the work."""
    if record.trial.content_key != trial.content_key or record.status == "killed":
        return False
    if record.corpus is None and record.status == "failed":
        return False
    if record.corpus is not None and record.corpus.sha256 != trial.corpus_sha256:
        return False
    return not _ran_into_another_limit(record, trial)


def _ran_into_another_limit(record: TrialRecord, trial: TrialSpec) -> bool:
    """Whether a record tells of a limit that is no longer the same."""
    if record.status == "timed_out":
        return record.trial.time_limit_s != trial.time_limit_s
    return record.status == "out_of_memory" and record.trial.memory_limit_bytes != trial.memory_limit_bytes


def published_record(record: TrialRecord) -> TrialRecord:
    """A record as it may be written and shown: no folders, and messages on one line."""
    changes = {
        "trial": published_trial(record.trial),
        "reason": None if record.reason is None else publishable(record.reason),
        # two that named the same file in different folders are one
        "warnings": tuple(dict.fromkeys(map(publishable, record.warnings))),
    }
    return record.model_copy(update=changes)


def published_trial(trial: TrialSpec) -> TrialSpec:
    """A trial as it may be written: paths cut to file names."""
    corpus = trial.corpus
    names = {key: _cut(getattr(corpus, key)) for key in ("name", "train", "valid", "test")}
    # as the tokenizer of a file calls itself
    names["tokens"] = corpus.tokens and without_folders(corpus.tokens)
    return trial.model_copy(update={"corpus": corpus.model_copy(update=names), "spec": without_folders(trial.spec)})


def _cut(path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    if path is None or isinstance(path, str):
        return path and file_name(path)
    return tuple(map(file_name, path))


def _without_key(trial_id: str) -> str:
    return trial_id.rpartition("-")[0]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all, and survives a crash once it is there."""
    with replacing(path) as file:
        written = 0
        while written < len(data):
            written += os.write(file.fileno(), data[written:])


def remove_abandoned(folder: Path, now_s: float) -> None:
    """Remove what a report that was killed left; another one may be at work, but none on one file for so long."""
    for name in _FOLDERS:
        # of a folder that cannot be written to, what is to be written there will tell
        with contextlib.suppress(OSError):
            remove_leftovers(folder / name, before_s=now_s - _ABANDONED_S)


def write_text(path: Path, text: str) -> None:
    """The same for text, in UTF-8; half surrogates, which that cannot hold, are spelt out."""
    write_atomically(path, text.encode("utf-8", "backslashreplace"))


def _free_name(path: Path, word: str) -> Path:
    """`path.word-N` with the least N from 1 that is not there."""
    n = 1
    while os.path.lexists(candidate := path.with_name(f"{path.name}.{word}-{n}")):
        n += 1
    return candidate
