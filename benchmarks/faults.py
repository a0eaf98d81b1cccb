"""Faults injected into real runs, and what they cost: `python -m benchmarks.faults` prints the table of docs/faults.md.

Moments are random and spread over the whole life of a run: start, questions, trials, writing, report.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from bench.records import RunInfo
from bench.store import RunStore, StoreError
from benchmarks import stand_in
from benchmarks.scene import (
    MODELS,
    ROOT,
    Outcome,
    Scene,
    errors_in,
    finished,
    kill,
    wait_for_record,
    wait_until,
)

_KIB = 1024
_DISK_KIB = 1024
_AT_ONCE_S = 0.02
_TRIES = 500
# a clock that is never twice the same way off; every process of a run starts with it
_JUMPING_CLOCK = """
import datetime, random, time
real = time.time
time.time = lambda: real() + random.uniform(-86400, 86400)

class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(max(time.time(), 0), tz)

datetime.datetime = Jumping
"""


def _kill_at_moments(scene: Scene, outcome: Outcome, n: int) -> None:
    """So many runs, each killed at a moment of its own and then gone on with."""
    for moment_s in scene.moments(n):
        out = scene.new_out()
        process = scene.start(out)
        wait_until(process, moment_s)
        kill(process)
        scene.complete(outcome, out, finished(out))


def killed_runner(scene: Scene, n: int) -> Outcome:
    outcome = Outcome(fault="the runner is killed (SIGKILL)", injected=n)
    _kill_at_moments(scene, outcome, n)
    return outcome


def killed_worker(scene: Scene, n: int) -> Outcome:
    outcome = Outcome(fault="a worker is killed (SIGKILL)")
    for i in range(n):
        out = scene.new_out()
        process = scene.start(out)
        wait_for_record(process, out, i % len(MODELS))
        while (worker := scene.worker()) is None and process.poll() is None:
            wait_until(process, _AT_ONCE_S)
        wait_until(process, scene.random.random() * stand_in.TRIAL_S)
        before = finished(out)
        if worker is not None:
            # it may have given its record meanwhile
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                outcome.injected += 1
        outcome.require(scene.finish(process) in (0, 1), f"{out.name}: status {process.returncode}")
        outcome.require(len(finished(out)) >= len(MODELS) - 1, f"{out.name}: another trial failed too")
        scene.complete(outcome, out, before)
    return outcome


def signalled(scene: Scene, n: int) -> Outcome:
    """Statuses: 130; that of the signal where the runner was still loading; 0 where it was done already."""
    outcome = Outcome(fault="SIGINT, SIGTERM or SIGHUP")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for moment_s in scene.moments(n):
            out = scene.new_out()
            process = scene.start(out)
            wait_until(process, moment_s)
            before = finished(out)
            process.send_signal(number)
            status = scene.finish(process)
            outcome.require(status in (130, 0, -number), f"{number.name}: status {status}")
            outcome.require(status != -number or not out.exists(), f"{number.name}: died in the middle")
            outcome.injected += 1
            _forget_interrupted_import(scene, out, status)
            scene.complete(outcome, out, before)
    return outcome


def _forget_interrupted_import(scene: Scene, out: Path, status: int) -> None:
    """An interruption before the runner has loaded is Python's own, and shown as such."""
    if status == -signal.SIGINT and not out.exists():
        (scene.folder / f"{out.name}.err").write_bytes(b"")


def damaged_records(scene: Scene, n: int) -> Outcome:
    """Every record of a finished run cut, altered or replaced by something else."""
    outcome = Outcome(fault="a record is cut, altered or no regular file")
    out = scene.new_out()
    scene.run(out)
    whole = finished(out)
    outcome.finished = len(whole)
    plan = RunInfo.model_validate_json((out / "run.json").read_bytes()).plan
    for trial in plan:
        path = out / "trials" / f"{trial.trial_id}.json"
        data = whole[path.name][0]
        for damage in _damages(data, n, scene):
            path.unlink()
            damage(path)
            outcome.injected += 1
            try:
                with RunStore(out, mode="resume") as store:
                    outcome.reused += store.reusable(trial) is not None
                outcome.require(not os.path.lexists(path), f"{path.name} was left in its place")
            except StoreError as error:
                # the digit was that of its schema: what may be a newer version's is never moved
                outcome.require("newer version" in str(error), str(error))
            path.write_bytes(data)
    shutil.rmtree(out / "trials")
    return outcome


def _damages(data: bytes, n: int, scene: Scene) -> Iterator[Callable[[Path], object]]:
    for length in (0, 1, len(data) // 2, len(data) - 3, *(scene.random.randrange(len(data) - 2) for _ in range(n))):
        yield partial(Path.write_bytes, data=data[:length])
    for i in scene.random.sample([i for i, byte in enumerate(data) if chr(byte).isdigit()], n):
        other = str((int(chr(data[i])) + scene.random.randint(1, 9)) % 10).encode()
        altered = data[:i] + other + data[i + 1 :]
        # the last of seventeen digits may be another and the number the same
        if _json_of(altered) != _json_of(data):
            yield partial(Path.write_bytes, data=altered)
    for bad in (data * 2, bytes(len(data))):
        yield partial(Path.write_bytes, data=bad)
    yield Path.mkdir
    yield os.mkfifo
    for target in (Path("nowhere"), scene.text):
        yield partial(Path.symlink_to, target=target)


def _json_of(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def cut_run_file(scene: Scene, n: int) -> Outcome:
    outcome = Outcome(fault="run.json is cut", injected=n)
    out = scene.new_out()
    scene.run(out)
    for _ in range(n):
        path = out / "run.json"
        path.write_bytes(path.read_bytes()[: scene.random.randrange(path.stat().st_size - 2)])
        before = finished(out)
        outcome.require(scene.run(out, "--resume") == 0, f"not resumed: {scene.said(out)[-300:]}")
        scene.complete(outcome, out, before)
    return outcome


def full_disk(scene: Scene, n: int) -> Outcome:
    """A disk of 1 MiB, full from a random moment on but for a random rest.  Raises `CannotMountError`."""
    outcome = Outcome(fault=f"the disk ({_DISK_KIB} KiB) is full", injected=n)
    for moment_s in scene.moments(n):
        with _disk(scene) as disk:
            out = disk / "run"
            process = scene.start(out)
            wait_until(process, moment_s)
            _fill(disk, leaving_kib=scene.random.choice((0, 0, 4, 8, 12, 16, 64)))
            status = scene.finish(process)
            errors = errors_in(scene.said(out))
            outcome.require((status, len(errors)) in ((0, 0), (1, 1)), f"status {status}: {scene.said(out)[-300:]}")
            before = finished(out)
            scene.note_state(outcome, out)
            (disk / "filler").unlink()
            scene.complete(outcome, out, before)
            (scene.folder / "run.err").unlink()
    return outcome


def unwritable_folder(scene: Scene, n: int) -> Outcome:
    """The folder is removed, moved, or its disk made read-only in the middle.  Raises `CannotMountError`."""
    outcome = Outcome(fault="the folder is removed, moved or read-only")
    for moment_s in scene.moments(n):
        for what in ("removed", "moved", "read-only"):
            with _disk(scene) as disk:
                out = disk / "run"
                process = scene.start(out)
                wait_until(process, moment_s)
                before = finished(out)
                _take_away(out, disk, what)
                status = scene.finish(process)
                # nothing to complain of where the run was done, or had not yet looked for its folder
                outcome.require(status in (0, 1), f"{what}: status {status}: {scene.said(out)[-300:]}")
                outcome.injected += 1
                if what == "read-only":
                    _mount("-o", "remount,rw", str(disk))
                    scene.complete(outcome, out, before)
                elif what == "moved" and (disk / "moved").exists():
                    outcome.finished += len(before)
                    outcome.lost += sum(finished(disk / "moved").get(name) != was for name, was in before.items())
                scene.note_state(outcome, out)
                (scene.folder / "run.err").unlink()
    return outcome


def _take_away(out: Path, disk: Path, what: str) -> None:
    if what == "read-only":
        _make_read_only(disk)
    elif out.exists() and what == "moved":
        out.rename(disk / "moved")
    else:
        shutil.rmtree(out, ignore_errors=True)


def _make_read_only(disk: Path) -> None:
    """A disk refuses while a file on it is being written."""
    for _ in range(_TRIES):
        with contextlib.suppress(CannotMountError):
            _mount("-o", "remount,ro", str(disk))
            return
        time.sleep(_AT_ONCE_S)
    raise CannotMountError("the disk is never at rest")


def two_runs(scene: Scene, n: int) -> Outcome:
    """Two runs into one folder, started within milliseconds of each other or one in the middle of the other."""
    outcome = Outcome(fault="two runs into one folder at once", injected=n)
    for i in range(n):
        out, first_way, second_way = scene.new_out(), *(scene.random.choice(("--resume", "--force")) for _ in range(2))
        first = scene.start(out, *([first_way] if i % 3 else []))
        if i % 2:
            wait_for_record(first, out)
        else:
            wait_until(first, scene.random.random() * _AT_ONCE_S)
        before = finished(out)
        second = scene.start(out, *([second_way] if i % 3 else []))
        statuses = sorted([scene.finish(first), scene.finish(second)])
        outcome.require(statuses == [0, 2], f"{first_way} and {second_way}: statuses {statuses}")
        outcome.require(len(errors_in(scene.said(out))) == 1, f"not one error: {scene.said(out)[-300:]}")
        scene.complete(outcome, out, before)
    return outcome


def changed_meanwhile(scene: Scene, n: int) -> Outcome:
    """The text or the code changes while a trial of the run is under way.  Needs a scene with the real workers."""
    outcome = Outcome(fault="the text or the code changes between plan and trial", injected=2 * n)
    models = ("unigram", "bigram")
    copy = scene.folder / "sources"
    for package in ("lmzoo", "bench", "benchmarks"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    scene.sources = copy
    for i, changed in enumerate([scene.text, copy / "lmzoo" / "tally.py"] * n):
        out = scene.new_out()
        process = scene.start(out, models=models)
        wait_for_record(process, out)
        old = finished(out)
        with changed.open("a", encoding="utf-8") as file:
            file.write(f"# {i}\n")
        outcome.require(scene.finish(process) == 1, f"{changed.name}: status {process.returncode}")
        outcome.require(len(finished(out)) == 1, f"{changed.name}: a trial of other content counts as good")
        # all is of another content now, so nothing may be used again
        scene.complete(outcome, out, {}, models)
        outcome.finished += len(old)
        outcome.reused += sum(finished(out).get(name) == record for name, record in old.items())
        kept = {path.read_bytes() for path in (out / "trials").iterdir()}
        outcome.lost += sum(record[0] not in kept for record in old.values())
    scene.sources = ROOT
    return outcome


def jumping_clock(scene: Scene, n: int) -> Outcome:
    outcome = Outcome(fault="the clock jumps by up to a day at every look", injected=n)
    folder = scene.folder / "clock"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_JUMPING_CLOCK, encoding="utf-8")
    scene.variables["PYTHONPATH"] = os.pathsep.join([str(folder), str(scene.sources)])
    _kill_at_moments(scene, outcome, n)
    del scene.variables["PYTHONPATH"]
    return outcome


class CannotMountError(Exception):
    """No file system can be mounted here."""


@contextlib.contextmanager
def _disk(scene: Scene) -> Iterator[Path]:
    """A small disk of its own.  Raises `CannotMountError`."""
    folder = scene.folder / "disk"
    folder.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={_DISK_KIB}k", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        # also where what was started on it has not ended
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotMountError(f"mount cannot be started: {error.strerror}") from error
    if done.returncode:
        raise CannotMountError(f"no disk can be mounted here: {done.stderr.strip()}")


def _fill(disk: Path, *, leaving_kib: int) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(_KIB))
    size = (disk / "filler").stat().st_size
    os.truncate(disk / "filler", max(size - leaving_kib * _KIB, 0))


FAULTS: Sequence[tuple[Callable[[Scene, int], Outcome], int]] = (
    (killed_runner, 50),
    (killed_worker, 20),
    (signalled, 10),
    (damaged_records, 50),
    (cut_run_file, 5),
    (full_disk, 20),
    (unwritable_folder, 5),
    (two_runs, 20),
    (changed_meanwhile, 2),
    (jumping_clock, 5),
)
HEADER = (
    "| fault | injected | finished before it | finished and lost | wrongly reused | half files | anything else |\n"
    "|:---|---:|---:|---:|---:|---:|:---|"
)


def row_of(outcome: Outcome) -> str:
    numbers = (outcome.injected, outcome.finished, outcome.lost, outcome.reused, outcome.half)
    wrong = "nothing" if not outcome.wrong else f"{len(outcome.wrong)}: {outcome.wrong[0]}"
    return f"| {outcome.fault} | {' | '.join(map(str, numbers))} | {' '.join(wrong.split())} |"


@click.command()
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Of the faults; at least one.")
@click.option("--only", help="Name of one kind of fault, such as killed_runner.")
@click.option("--real", is_flag=True, help="Real workers everywhere, not only where the model matters: slow.")
def main(share: float, only: str | None, real: bool) -> None:
    """Inject faults into runs and print what they cost; exit status 1 where it is anything."""
    is_clean = True
    click.echo(HEADER)
    for inject, n in FAULTS:
        if only not in (None, inject.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            scene = Scene(Path(folder), real=real or inject is changed_meanwhile)
            try:
                outcome = inject(scene, max(round(n * share), 1))
            except CannotMountError as error:
                click.echo(f"| {inject.__name__} | 0 | | | | | skipped: {error} |")
                continue
        click.echo(row_of(outcome))
        is_clean = is_clean and not (outcome.lost or outcome.reused or outcome.half or outcome.wrong)
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
