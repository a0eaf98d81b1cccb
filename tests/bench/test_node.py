"""What a node does with a trial, without any cluster: the same work as on the runner's machine, or a refusal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.executor import capacity
from bench.executor.node import Errand, files_of, run_here
from bench.executor.protocol import Ended, ExecutorError, Started
from bench.planned import StaleError
from bench.records import CorpusSpec
from tests.bench import stubs
from tests.bench.stubs import make_trial

STUB = (sys.executable, stubs.__file__)
NODES = [
    {"CPU": 8.0, "memory": 16.0 * 2**30, "node:a": 1.0},
    {"CPU": 4.0, "memory": 64.0 * 2**30, "GPU": 2.0},
]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working folder and the variables are put back after each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())


def errand(**changes: Any) -> Errand:
    return replace(Errand.from_here(STUB, debug=False), **changes)


def test_a_trial_has_its_events_and_its_record() -> None:
    events = list(run_here(make_trial("good"), (), errand()))
    assert [type(event) for event in events] == [Started, Ended]
    assert events[-1].record.status == "ok"  # type: ignore[union-attr]


def test_other_code_is_refused_before_anything_runs() -> None:
    with pytest.raises(StaleError, match=r"here \(sha256 \w{12}…\) is not the run's \(abcabcabcabc…\)"):
        next(run_here(make_trial("good", code_sha256="abc" * 21), (), errand()))


def test_a_text_that_is_not_on_the_node_is_named_without_its_folder(tmp_path: Path) -> None:
    here = tmp_path / "a.txt"
    here.touch()
    with pytest.raises(ExecutorError, match=r"^b\.txt is not on the node"):
        next(run_here(make_trial("good"), (str(here), str(tmp_path / "b.txt")), errand()))


def test_a_relative_path_means_the_runners_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "a.txt").touch()
    wanted = errand(folder=str(tmp_path / "runner"))
    assert list(run_here(make_trial("good"), ("a.txt",), wanted))


@pytest.mark.parametrize(
    ("corpus", "files"),
    [
        (CorpusSpec(name="genesis"), ()),
        (CorpusSpec(name="a.txt"), ("a.txt",)),
        (CorpusSpec(name="markov:order=1"), ()),
        (CorpusSpec(train="a.txt", test="b.txt"), ("a.txt", "b.txt")),
        (CorpusSpec(train=("a.txt", "c.txt"), valid="b.txt", test="b.txt"), ("a.txt", "c.txt", "b.txt", "b.txt")),
    ],
)
def test_files_are_what_was_named_by_its_path(corpus: CorpusSpec, files: Sequence[str]) -> None:
    for name in ("genesis", "a.txt", "b.txt", "c.txt"):
        Path(name).touch()
    assert files_of(corpus) == tuple(files)


def test_the_runners_variables_decide_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(stubs.BEHAVIOUR, "good=leaves")
    wanted = errand()
    monkeypatch.setenv(stubs.BEHAVIOUR, "good=raises")
    ended = list(run_here(make_trial("good"), (), wanted))[-1]
    assert ended.record.reason.startswith("the worker ended with status 7")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"threads": 8}, True),
        ({"threads": 9}, False),
        ({"threads": 8, "memory_limit_bytes": 32 * 2**30}, False),
        ({"threads": 4, "memory_limit_bytes": 32 * 2**30}, True),
        ({"threads": 4, "device": "cuda"}, True),
        ({"threads": 5, "device": "cuda"}, False),
    ],
)
def test_a_trial_fits_where_one_node_has_all_that_it_asks_for(changes: dict[str, Any], fits: bool) -> None:
    trial = make_trial("good", **changes)
    assert capacity.fits(trial, NODES) == fits
    if fits:
        capacity.check([trial], NODES)
    else:
        with pytest.raises(ExecutorError, match="no node of the cluster has"):
            capacity.check([trial], NODES)


def test_a_refusal_says_what_was_asked_what_there_is_and_what_to_do() -> None:
    with pytest.raises(ExecutorError) as caught:
        capacity.check([make_trial("kn5", threads=9, memory_limit_bytes=2**20)], NODES)
    assert str(caught.value) == (
        "no node of the cluster has 9 CPUs, 1 MiB of memory, which each trial of kn5 asks for; the largest of 2 has "
        "8 CPUs, 16384 MiB of memory, 0 GPUs; ask for less with --threads, --memory-limit or --device, or let a larger "
        "node join with: ray start --address=…"
    )


def test_a_gpu_by_its_number_is_refused() -> None:
    with pytest.raises(ExecutorError, match="use --device cuda"):
        capacity.check([make_trial("lstm", device="cuda:1")], NODES)


def test_a_device_that_no_node_has_is_refused_whatever_the_trials_use() -> None:
    capacity.check_devices(["cpu", "cuda"], NODES)
    capacity.check_devices(["cpu"], NODES[:1])
    with pytest.raises(ExecutorError, match="--device cuda: no node of the cluster has a GPU that Ray knows of"):
        capacity.check_devices(["cpu", "cuda"], NODES[:1])
