"""A run's folder: what is in it, and that nothing finished is lost or overwritten.

Every file appears whole or not at all.  A folder belongs to one run at a time (where the system can lock a folder).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from pydantic import BaseModel, ValidationError

from bench.environment import file_name, without_folders
from bench.records import SCHEMA_VERSION, RunInfo, TrialRecord, TrialSpec
from lmzoo.errors import LmzooError
from lmzoo.files import replacing

Mode = Literal["new", "resume", "force"]
RUN_FILE = "run.json"
TRIALS = "trials"


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
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise StoreError(f"{self.folder} is a file; give a folder that is not there yet with --out")
        os.close(self._locked_folder())
        if self._mode == "new":
            raise StoreError(
                f"{self.folder} exists already; go on with --resume, replace it with --force, or use --out"
            )
        if self._mode == "resume":
            self._check_version()

    def __enter__(self) -> RunStore:
        self.check()
        if self._mode == "force" and self.folder.exists():
            self._move_aside()
        try:
            (self.folder / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"cannot make {self.folder}: {error.strerror or error}") from error
        self._lock = self._locked_folder()
        return self

    def _move_aside(self) -> None:
        folder = self.folder.resolve()
        if Path.cwd().is_relative_to(folder):
            raise StoreError(f"cannot move {self.folder} aside: it is the current folder; use another --out")
        try:
            folder.rename(_free_name(folder, "old"))
        except OSError as error:
            raise StoreError(
                f"cannot move {self.folder} aside: {error.strerror or error}; use another --out"
            ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_run(self, info: RunInfo) -> None:
        published = info.model_copy(update={"plan": tuple(map(published_trial, info.plan))})
        self._write(self.folder / RUN_FILE, published)

    def write_record(self, record: TrialRecord) -> None:
        """Write a trial's record; one that is there already is set aside, never overwritten."""
        path = self._record_path(record.trial)
        if path.exists():
            path.rename(_free_name(path, "before"))
        reason = None if record.reason is None else without_folders(record.reason)
        self._write(path, record.model_copy(update={"trial": published_trial(record.trial), "reason": reason}))

    def reusable(self, trial: TrialSpec) -> TrialRecord | None:
        """The stored record of the same work, or None.  A corrupt one is set aside with a warning.

        A trial that was killed from outside says nothing of its model and runs again.
        """
        path = self._record_path(trial)
        if not path.exists():
            return None
        try:
            record = TrialRecord.model_validate_json(path.read_bytes())
        except (ValidationError, OSError):
            aside = path.with_name(path.name + ".bad")
            if aside.exists():
                aside = _free_name(aside, "old")
            path.rename(aside)
            self._warn(f"{TRIALS}/{path.name} cannot be read; it is now {aside.name}, and its trial runs again")
            return None
        is_same = record.trial.content_key == trial.content_key and not _ran_into_another_limit(record, trial)
        return record if is_same and record.status != "killed" else None

    def set_outdated_aside(self, plan: Sequence[TrialSpec]) -> None:
        """Set aside records of trials of the plan that were made of other content (another text, option or code).

        Two records of one trial would be taken for two seeds.  Records of trials outside the plan stay.
        """
        current = {trial.trial_id for trial in plan}
        planned = {_without_key(trial_id) for trial_id in current}
        for path in sorted((self.folder / TRIALS).glob("*.json")):
            if path.stem not in current and _without_key(path.stem) in planned:
                path.rename(_free_name(path, "outdated"))
                self._warn(f"{TRIALS}/{path.name} is of another text, option or code: set aside, its trial runs again")

    def _record_path(self, trial: TrialSpec) -> Path:
        return self.folder / TRIALS / f"{trial.trial_id}.json"

    def _check_version(self) -> None:
        """A run written by a newer version is not touched; one whose `run.json` cannot be read starts afresh."""
        try:
            version = _SchemaVersion.model_validate_json((self.folder / RUN_FILE).read_bytes()).schema_version
        except FileNotFoundError:
            return
        except (ValidationError, OSError):
            self._warn(f"{RUN_FILE} cannot be read; the run starts afresh")
            return
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.folder} has schema version {version}, this version reads up to {SCHEMA_VERSION}; upgrade lmzoo"
            )

    def _locked_folder(self) -> int:
        """A descriptor of the folder that holds its lock; the system frees it when the process ends."""
        try:
            import fcntl
        except ImportError:
            # no such locks on this system; an open file stands in for the descriptor
            return os.open(os.devnull, os.O_RDONLY)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"{self.folder} is in use by another run; wait for it or use another --out") from error
        return descriptor

    def _write(self, path: Path, content: BaseModel) -> None:
        try:
            write_atomically(path, content.model_dump_json(indent=1).encode() + b"\n")
        except OSError as error:
            where = path.relative_to(self.folder)
            raise WriteError(
                f"cannot write {where}: {error.strerror or error}; what was finished is safe, go on with --resume"
            ) from error


class _SchemaVersion(BaseModel):
    schema_version: int


def _ran_into_another_limit(record: TrialRecord, trial: TrialSpec) -> bool:
    """Whether a record tells of a limit that is no longer the same."""
    if record.status == "timed_out":
        return record.trial.time_limit_s != trial.time_limit_s
    return record.status == "out_of_memory" and record.trial.memory_limit_bytes != trial.memory_limit_bytes


def published_trial(trial: TrialSpec) -> TrialSpec:
    """A trial as it may be written: paths cut to file names."""
    corpus = trial.corpus
    names = {key: _cut(getattr(corpus, key)) for key in ("name", "train", "valid", "test")}
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


def _free_name(path: Path, word: str) -> Path:
    """`path.word-N` with the least N from 1 that is not there."""
    n = 1
    while (candidate := path.with_name(f"{path.name}.{word}-{n}")).exists():
        n += 1
    return candidate
