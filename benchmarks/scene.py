"""Runs to inject faults into, and what is looked at afterwards: nothing lost, nothing half, nobody left behind."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.sealed import read_json, read_record
from benchmarks import stand_in
from lmzoo.errors import LmzooError

ROOT = Path(__file__).parents[1]
MODELS = ("unigram", "bigram", "trigram", "kn5")
_TIMEOUT_S = 120.0
_GONE_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.01
_MARK = "LMZOO_FAULTS"
# how a whole file ends, by its suffix; without one of these endings it was cut
_ENDINGS = {".csv": b"\n", ".md": b"\n", ".html": b"</html>\n", ".svg": b"</svg>\n", ".png": b"IEND\xaeB`\x82"}

# a record's bytes, and the file that they lie in: one that was made again has another
Finished = Mapping[str, tuple[bytes, int, int]]


@dataclass(kw_only=True)
class Outcome:
    """What became of the runs that one kind of fault was injected into.

    finished: trials that were finished before the fault; lost: those that changed or are gone; wrong: whatever else is
    not as promised (a status, a traceback, a run that cannot be completed, a process left behind).
    """

    fault: str
    injected: int = 0
    finished: int = 0
    lost: int = 0
    reused: int = 0
    half: int = 0
    wrong: list[str] = field(default_factory=list)

    def require(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.wrong.append(otherwise)


class Scene:
    """A folder with a small text, and runs on it.  `real`: with the real workers instead of stand-ins."""

    def __init__(self, folder: Path, *, real: bool = False, with_report: bool = True, seed: int = 0) -> None:
        self.folder = folder
        self.text = folder / "text.txt"
        self.text.write_text("".join(f"the cat sat on mat {i}\n" for i in range(200)), encoding="utf-8")
        self.random = random.Random(seed)
        self.sources = ROOT
        self.variables: dict[str, str] = {}
        self._real = real
        self._mark = secrets.token_hex(8)
        if not with_report:
            self.variables[stand_in.NO_REPORT] = "1"
        self._whole_s: float | None = None
        self._n = 0

    def new_out(self) -> Path:
        """The folder of a run, not there yet."""
        self._n += 1
        return self.folder / f"run-{self._n}"

    def start(self, out: Path, *options: str, models: tuple[str, ...] = MODELS) -> subprocess.Popen[bytes]:
        """A run that has begun; what it says goes to a file beside its folder."""
        runner = ("-m", "bench.run") if self._real else (str(self.sources / "benchmarks" / "stand_in.py"), "run")
        arguments = ("--models", ",".join(models), "--corpus", str(self.text), "--out", str(out), *options)
        variables = os.environ | {"PYTHONPATH": str(self.sources), _MARK: self._mark} | self.variables
        with (self.folder / f"{out.name}.err").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, *runner, *arguments],
                env=variables,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes]) -> int:
        return process.wait(_TIMEOUT_S)

    def run(self, out: Path, *options: str, models: tuple[str, ...] = MODELS) -> int:
        return self.finish(self.start(out, *options, models=models))

    def said(self, out: Path) -> str:
        return (self.folder / f"{out.name}.err").read_text(encoding="utf-8", errors="replace")

    def moments(self, n: int) -> list[float]:
        """Seconds after the start of a run, spread at random over its whole life."""
        if self._whole_s is None:
            before = time.monotonic()
            self.run(self.new_out())
            self._whole_s = time.monotonic() - before
        return [(i + self.random.random()) / n * self._whole_s for i in range(n)]

    def complete(self, outcome: Outcome, out: Path, before: Finished, models: tuple[str, ...] = MODELS) -> None:
        """Go on with a run after a fault, and look whether all is as if there had been none."""
        self.note_state(outcome, out)
        status = self.run(out, "--resume", models=models)
        outcome.require(status == 0, f"{out.name}: status {status} after --resume: {self.said(out)[-300:]}")
        after = finished(out)
        outcome.finished += len(before)
        outcome.lost += sum(after.get(name) != record for name, record in before.items())
        outcome.require(len(after) == len(models), f"{out.name}: {len(after)} records of {len(models)}")
        outcome.require(not list(out.rglob(".*.tmp")), f"{out.name}: leftovers")
        if stand_in.NO_REPORT not in self.variables:
            outcome.require(_n_rows(out) == len(models), f"{out.name}: the table is not complete")
        self.note_state(outcome, out)

    def note_state(self, outcome: Outcome, out: Path) -> None:
        """Half files under the names of whole ones, processes left behind, tracebacks."""
        outcome.half += len(half_files(out))
        outcome.require("Traceback" not in self.said(out), f"{out.name}: a traceback")
        outcome.require(not self.left_behind(), f"{out.name}: processes left behind")

    def left_behind(self) -> list[int]:
        """Processes of this scene's runs that are still there a little after their runner is gone."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        while (found := list(processes_with(f"{_MARK}={self._mark}"))) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return found

    def worker(self) -> int | None:
        """The process that runs a trial at the moment, or None."""
        workers = ([str(self.sources / "benchmarks" / "stand_in.py").encode()], [b"-m", b"bench.worker"])
        for pid in processes_with(f"{_MARK}={self._mark}"):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:-1] in workers:
                    return pid
        return None


def processes_with(variable: str) -> list[int]:
    """Processes that have an environment variable of this value; none where there is no /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def wait_until(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait so long, or until the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def wait_for_record(process: subprocess.Popen[bytes], out: Path, n: int = 1) -> None:
    """Wait until a run has so many records, or ends."""
    while process.poll() is None and len(finished(out)) < n:
        time.sleep(_LOOK_EVERY_S)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the runner alone, at once; what it started is left to itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def finished(out: Path) -> Finished:
    """The records of a run that went well, by name."""
    found = {}
    for path in sorted((out / "trials").glob("*.json")):
        with contextlib.suppress(OSError, LmzooError):
            if read_record(path).status == "ok":
                found[path.name] = (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def half_files(out: Path) -> list[str]:
    """Files of a run that bear their names and are not whole."""
    found = []
    for path in sorted(out.rglob("*")):
        if path.name.startswith(".") or path.is_dir() or ".json." in path.name:
            continue
        if path.suffix == ".json":
            try:
                read_record(path) if path.parent.name == "trials" else read_json(path)
            except LmzooError:
                found.append(path.name)
        elif not path.read_bytes().endswith(_ENDINGS[path.suffix]):
            found.append(path.name)
    return found


def errors_in(said: str) -> list[str]:
    return re.findall(r"^error: .*$", said, re.MULTILINE)


def _n_rows(out: Path) -> int:
    try:
        with (out / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
            return sum(row["status"] == "ok" for row in csv.DictReader(file))
    except OSError:
        return 0
