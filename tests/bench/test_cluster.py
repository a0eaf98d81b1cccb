"""The same plan on a cluster: two Ray nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import asked, environment, running
from bench import run as run_module
from bench.describe import answer
from bench.executor.cluster import RayExecutor, _Head
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Event, Executor, ExecutorError, Moved, Started
from bench.plan import Limits, make_plan
from bench.records import CorpusSpec, Question, Status, TrialRecord, TrialSpec
from benchmarks.cluster import seconds_per_trial
from lmzoo.budget import Stopwatch
from tests.bench import stubs
from tests.bench.clusters import two_nodes
from tests.bench.stubs import make_record, make_trial

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")

ROOT = Path(__file__).resolve().parents[2]
STUB = (sys.executable, stubs.__file__)
# measured anew by every run: clocks, memory, the machine
OF_THE_MOMENT = {"wall_s", "train_s", "started_utc", "parts", "memory", "environment", "energy", "warnings"}
CLOCKED = {"train_s", "wall_s", "train_tokens_per_s", "eval_tokens_per_s", "next_token_us", "next_token_us_p99"}
# a process that was killed is gone as soon as the system has looked after it
GONE_S = 10.0
HEAVY = """
import sys
from bench.executor.cluster import RayExecutor
from tests.bench.stubs import make_record, make_trial
executor = RayExecutor(sys.argv[1:])
executor.check([make_trial("good")])
print(*[type(event).__name__ for event in executor.run([make_trial("good")])])
# Ray itself loads pyarrow where it is installed, and that numpy
ours = {"torch", "pandas", "matplotlib", "numba", "nltk"} | (set() if "pyarrow" in sys.modules else {"numpy"})
print(*ours & set(sys.modules))
"""


class TestWithoutACluster:
    """What cannot be is one line, exit status 2, and nothing is written."""

    @pytest.fixture
    def said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
        monkeypatch.chdir(tmp_path)

        def run(*arguments: str) -> str:
            assert run_module.main(["--models", "unigram", *arguments]) == 2
            output, errors = capsys.readouterr()
            assert output == ""
            assert errors.count("\n") == 1
            assert not list(tmp_path.iterdir())
            return errors

        return run

    def test_an_unknown_executor_names_the_close_match(self, said: Any) -> None:
        assert said("--executor", "rya") == "error: no executor 'rya'. Did you mean 'ray'? There are: local, ray\n"

    def test_a_missing_library_names_what_installs_it(self, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        assert "python -m pip install 'lmzoo[ray]'" in said("--executor", "ray")

    def test_no_cluster_names_what_starts_one(self, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def nothing_found(_: str) -> str:
            raise ConnectionError("nothing found")

        services = SimpleNamespace(canonicalize_bootstrap_address=nothing_found)
        private = SimpleNamespace(services=services, worker=SimpleNamespace())
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(_private=private))
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        assert "no Ray cluster is running here; start one with: ray start --head" in said("--executor", "ray")

    @needs_ray
    @pytest.mark.parametrize(
        ("address", "why"),
        [
            ("127.0.0.1:9", "does not answer; start one with: ray start --head"),
            ("ray://127.0.0.1:9", "a Ray client streams no events; run on a node, as host:port"),
            ("local", "no Ray cluster is running here"),
            ("nonsense", "RAY_ADDRESS=nonsense: "),
        ],
    )
    def test_an_address_without_a_cluster(
        self, address: str, why: str, said: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert why in said("--executor", "ray")


def test_a_head_is_lost_after_half_a_minute_of_silence() -> None:
    clock = iter([0.0, 0.0, *[float(second) for second in (4, 10, 20, 39, 60, 70, 99, 100)]])
    watch = Stopwatch(lambda: next(clock))
    with socket.create_server(("127.0.0.1", 0)) as server, watch.running():
        head = _Head(f"127.0.0.1:{server.getsockname()[1]}", watch)
        # at 4 s it is too early to look again; at 10 s it answers
        for _ in range(2):
            head.look()
        assert head.answers
        server.close()
        # silent at 20 s and 39 s: 29 s since it answered, which it may do again
        for _ in range(2):
            head.look()
        assert not head.answers
        assert not head.is_lost
        head.look()
        assert head.is_lost


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with two_nodes() as cluster:
        yield cluster


def deterministic_plan() -> list[TrialSpec]:
    """A counting model on an embedded text: what a network learns is decided in the process that a node starts too."""
    corpora = (CorpusSpec(name="genesis", tokens="char"),)
    found = answer(Question(models="unigram", corpora=corpora, devices=("cpu",)))
    assert found.error is None
    return make_plan(found, devices=["cpu"], seeds=1, limits=Limits())


def content_of(executor: Executor, trials: list[TrialSpec]) -> dict[str, Any]:
    """What records hold but for what the moment decides, by trial."""
    records = [event.record for event in executor.run(trials) if isinstance(event, Ended)]
    contents = {}
    for record in records:
        content = record.model_dump(mode="json", exclude=OF_THE_MOMENT)
        for part in (content["measured"], *content["curve"], *content["schedule"]):
            for name in CLOCKED & set(part):
                del part[name]
        contents[record.trial.trial_id] = content
    return contents


def is_gone(pid: int) -> bool:
    """Whether a process has ended, a zombie that nobody has waited for included; it is given a moment."""
    until = time.monotonic() + GONE_S
    while time.monotonic() < until:
        try:
            state = (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            )
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def parent_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[1])


def ended(events: list[Any]) -> dict[str, TrialRecord]:
    return {event.record.trial.trial_id: event.record for event in events if isinstance(event, Ended)}


@needs_ray
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
class TestOnACluster:
    @pytest.mark.whole
    def test_records_are_those_of_a_local_run(self, nodes: Any) -> None:
        trials = deterministic_plan()
        contents = content_of(RayExecutor(), trials)
        assert {content["status"] for content in contents.values()} == {"ok"}
        assert contents == content_of(LocalExecutor(), trials)

    @pytest.mark.whole
    @pytest.mark.skipif(environment.n_cpus_usable() < 2, reason="two trials need a CPU each")
    def test_a_node_that_dies_loses_no_trial(self, nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Three trials on two nodes with a CPU each; the one whose node is killed is begun anew on the other."""
        monkeypatch.chdir(tmp_path)
        (node,) = nodes.worker_nodes
        raylet = node.all_processes["raylet"][0].process.pid
        trials = [make_trial(model, trial_id=name) for model, name in (("waits", "a"), ("waits", "b"), ("good", "c"))]
        events, lost, on_node = [], "", {}
        for event in RayExecutor(STUB).run(trials):
            events.append(event)
            if isinstance(event, Moved) and not lost:
                trial_pid, watcher_pid = map(int, event.phase.split())
                on_node[parent_of(watcher_pid)] = (event.trial.trial_id, trial_pid)
                # both run at one time, each on a node of its own
                if len(on_node) == 2:
                    lost, lost_pid = on_node[raylet]
                    nodes.remove_node(node, allow_graceful=False)
                    assert is_gone(lost_pid)
                    (tmp_path / "go").touch()
        records = ended(events)
        assert {name: (record.status, record.attempts) for name, record in records.items()} == {
            name: ("ok", 2 if name == lost else 1) for name in "abc"
        }
        assert sorted(event.trial.trial_id for event in events if isinstance(event, Started)) == ["a", "b", "c"]

    @pytest.mark.whole
    def test_a_worker_lost_twice_is_a_row_that_says_so(self, nodes: Any) -> None:
        events, pids = [], []
        for event in RayExecutor(STUB).run([make_trial("waits")]):
            events.append(event)
            if isinstance(event, Moved):
                trial_pid, watcher_pid = map(int, event.phase.split())
                pids.append(trial_pid)
                os.kill(watcher_pid, signal.SIGKILL)
        (record,) = ended(events).values()
        assert (record.status, record.attempts) == ("killed", 2)
        assert record.reason == "its Ray worker was killed (begun anew after its Ray worker was killed)"
        assert [type(event) for event in events] == [Started, Moved, Moved, Ended]
        assert all(map(is_gone, pids))

    @pytest.mark.whole
    def test_closing_ends_what_runs(self, nodes: Any) -> None:
        events = RayExecutor(STUB).run([make_trial("waits", trial_id=f"waits-{i}") for i in range(4)])
        pid = next(int(event.phase.split()[0]) for event in events if isinstance(event, Moved))
        events.close()
        assert is_gone(pid)

    def test_what_no_node_has_is_refused(self, nodes: Any) -> None:
        executor = RayExecutor(STUB)
        assert executor.check([make_trial("unigram")], ["cpu"]) == f"the Ray cluster at {nodes.address}"
        with pytest.raises(ExecutorError, match="--device cuda: no node of the cluster has a GPU"):
            executor.check([make_trial("unigram")], ["cuda"])
        with pytest.raises(ExecutorError, match="no node of the cluster has 2 CPUs, which each trial of unigram asks"):
            executor.check([make_trial("unigram", threads=2)])

    @pytest.mark.whole
    def test_a_node_with_other_code_gives_a_row_that_says_so(self, nodes: Any) -> None:
        (record,) = ended(list(RayExecutor(STUB).run([make_trial("good", code_sha256="0" * 64)]))).values()
        assert record.status == "failed"
        assert record.reason is not None
        assert record.reason.startswith("the code of lmzoo and bench here (sha256 ")
        assert "is not the run's (000000000000…): install the same version" in record.reason

    @pytest.mark.whole
    def test_a_node_that_does_not_understand_what_it_was_sent_gives_a_row_that_says_so(self, nodes: Any) -> None:
        # such as an older version would find: not the worker that it knows
        executor = RayExecutor(("no-such-worker",))
        (record,) = ended(list(executor.run([make_trial("good")]))).values()
        assert record.status == "failed"
        assert record.reason is not None
        assert record.reason.startswith("its node could not begin it (")
        assert record.reason.endswith("is the same version of lmzoo and bench installed there?")

    @pytest.mark.whole
    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("RAY_AUTH_TOKEN", "0" * 64, "the one found is another"),
            ("RAY_AUTH_TOKEN_PATH", "nowhere", "none was found"),
            ("RAY_AUTH_MODE", "disabled", "RAY_AUTH_MODE is disabled"),
        ],
    )
    def test_without_its_token_a_cluster_refuses_in_one_line(
        self, name: str, value: str, why: str, nodes: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
    ) -> None:
        from ray._private.authentication_test_utils import reset_auth_token_state

        monkeypatch.setenv(name, value)
        reset_auth_token_state()
        mode = os.environ.get("RAY_AUTH_MODE")
        with pytest.raises(ExecutorError, match=f"wants its token, but {why}; put the head's token into ~/.ray"):
            RayExecutor(STUB).check([make_trial("unigram")])
        assert os.environ.get("RAY_AUTH_MODE") == mode
        assert capfd.readouterr() == ("", "")
        monkeypatch.undo()
        reset_auth_token_state()

    @pytest.mark.whole
    def test_the_runner_loads_no_numerical_library(self, nodes: Any) -> None:
        command = [sys.executable, "-c", HEAVY, *STUB]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.stdout.splitlines() == ["Started Ended", ""], done.stderr
        assert done.stderr == ""


class _Elsewhere(stubs.InstantExecutor):
    """Trials that run in a place with a name, on devices of which it has one."""

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> str:
        if "cuda" in devices:
            raise ExecutorError("no GPU in nowhere:6379")
        return "a cluster at nowhere:6379"


class TestWhereTrialsRun:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(asked.EXECUTORS, "ray", _Elsewhere)
        monkeypatch.setattr(running, "_report", lambda *_: False)

    def test_is_told_once_and_written_nowhere(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run_module.main(["--models", "unigram", "--executor", "ray", "--out", "out"]) == 0
        output, errors = capsys.readouterr()
        assert errors.startswith("trials run on a cluster at nowhere:6379\n")
        assert (output + errors).count("nowhere") == 1
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"nowhere" in path.read_bytes()]

    def test_a_named_device_is_looked_for_though_no_trial_uses_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = ["--models", "unigram", "--executor", "ray", "--device", "cpu,cuda", "--out", "out"]
        assert run_module.main(command) == 2
        assert capsys.readouterr() == ("", "error: no GPU in nowhere:6379\n")
        assert not list(tmp_path.iterdir())


class _AllAtOnce:
    """An executor whose trials have their records already."""

    def __init__(self, *statuses: Status) -> None:
        self._statuses = statuses

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> None:
        """Nothing is asked for."""

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial, status in zip(trials, self._statuses, strict=True):
            yield Ended(record=make_record(trial).model_copy(update={"status": status, "reason": "for a test"}))


def test_the_benchmark_counts_seconds_by_trial_and_no_failed_ones() -> None:
    trials = [make_trial("a"), make_trial("b")]
    # 3 s and 10 s on the clock: 7 s for two trials
    watch = Stopwatch(iter([3.0, 10.0]).__next__)
    assert seconds_per_trial(_AllAtOnce("ok", "ok"), trials, watch) == 3.5
    with pytest.raises(RuntimeError, match="1 of 2 trials failed: for a test"):
        seconds_per_trial(_AllAtOnce("ok", "killed"), trials, Stopwatch())
