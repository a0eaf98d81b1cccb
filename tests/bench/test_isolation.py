"""What a trial measures of itself is the same whoever started it and whatever ran before."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lmzoo
from bench import environment, learned, measure, memory, throughput
from bench.environment import THREAD_VARIABLES, trial_environment
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended
from bench.measure import Trial
from bench.records import CorpusSpec, TrialRecord, TrialSpec
from tests.bench.stubs import MIB, make_trial
from tests.bench.test_throughput import CORPUS, Clock, Uniform

PARENT_MIB, BEFORE_MIB, HELD_MIB = 300, 300, 200
# allocators round up, and pages of shared libraries are resident now and then
TOLERANCE_MIB = 10

# a worker whose models hold so much more than they need, by name
HOLDING = f"""
import sys
from bench import measure, throughput, worker

def holding(spec, vocab, *, device):
    trainer = real(spec, vocab, device=device)
    trainer.held = bytearray({{"bigram": {BEFORE_MIB}, "trigram": {HELD_MIB}}}.get(spec.name, 0) * {MIB})
    trainer.held[::4096] = b"x" * len(trainer.held[::4096])
    return trainer

real, measure.create_trainer = measure.create_trainer, holding
throughput.REPEAT_S = 0.001
sys.exit(worker.main([]))
"""
# a worker that looks at its variables before it does anything
ASKING = """
import os, sys
at_start = dict(os.environ)
assert not {"numpy", "torch", "numba"} & set(sys.modules)
from bench import environment, measure, throughput, worker
throughput.REPEAT_S = 0.001
describe = environment.describe
threads = {name: at_start.get(name, "") for name in environment.THREAD_VARIABLES}
environment.describe = lambda *a, **k: describe(*a, **k) | {"thread_variables": threads}
sys.exit(worker.main([]))
"""

needs_proc = pytest.mark.skipif(not memory.can_watch(), reason="this system has no /proc")


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusSpec:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the log\n" * 60, encoding="utf-8")
    return CorpusSpec(name=str(path))


def records(script: str, *trials: TrialSpec) -> Iterator[TrialRecord]:
    for event in LocalExecutor([sys.executable, "-c", script]).run(trials):
        if isinstance(event, Ended):
            assert event.record.status == "ok", event.record.reason
            yield event.record


def peaks_mib(record: TrialRecord) -> tuple[float, float]:
    """The peak and the baseline."""
    assert record.memory is not None
    return record.memory.peak_rss_bytes / MIB, record.memory.baseline_rss_bytes / MIB


@pytest.mark.whole
@needs_proc
def test_a_trials_memory_is_its_own(corpus: CorpusSpec) -> None:
    first, again, held = (make_trial(model, corpus=corpus) for model in ("unigram", "unigram", "trigram"))
    (alone,) = records(HOLDING, first)
    in_the_parent = bytearray(PARENT_MIB * MIB)
    in_the_parent[::4096] = b"x" * len(in_the_parent[::4096])
    before, beside, larger = records(HOLDING, make_trial("bigram", corpus=corpus), again, held)
    peak_mib, baseline_mib = peaks_mib(alone)
    assert 0 < baseline_mib <= peak_mib < 90
    assert peaks_mib(before)[0] > BEFORE_MIB
    # whatever the parent holds, and whatever the trial before held
    assert peaks_mib(beside) == pytest.approx((peak_mib, baseline_mib), abs=TOLERANCE_MIB)
    # what a trial itself holds is seen to the last megabytes, and not in its baseline
    assert peaks_mib(larger)[0] - peak_mib == pytest.approx(HELD_MIB, abs=TOLERANCE_MIB)
    assert peaks_mib(larger)[1] == pytest.approx(baseline_mib, abs=TOLERANCE_MIB)
    # a trial in the parent's own process would have the parent's mark
    assert memory.peak_rss_bytes() / MIB > PARENT_MIB > peaks_mib(beside)[0]


def test_threads_are_set_before_any_library_loads_and_affinity_is_recorded(corpus: CorpusSpec) -> None:
    trial = make_trial(corpus=corpus, threads=3)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    try:
        if allowed:
            # what a trial may use is inherited from whoever starts it
            os.sched_setaffinity(0, {min(allowed)})
        (record,) = records(ASKING, trial)
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)
    assert record.environment is not None
    assert record.environment.thread_variables == dict.fromkeys(THREAD_VARIABLES, "3")
    if allowed:
        assert record.environment.n_cpus_usable == 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_cpus_that_may_not_be_used_are_not_counted() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert environment.n_cpus_usable() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.torch
@pytest.mark.parametrize("threads", [1, 2])
def test_torch_computes_on_as_many_threads_as_the_trial_has(
    corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    torch = pytest.importorskip("torch")
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)
    Trial(make_trial(corpus=corpus, threads=threads), lambda: 0.0, lambda _: None).run()
    assert told == [threads]


@pytest.mark.parametrize(("device", "seen"), [("cpu", ""), ("cuda", "0,1"), ("cuda:1", "0,1")])
def test_cuda_is_seen_by_the_trials_that_use_it_alone(device: str, seen: str) -> None:
    variables = trial_environment(1, device, inherited={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert variables["CUDA_VISIBLE_DEVICES"] == seen


class TestOrder:
    """When memory is looked at: the baseline after the imports, peaks from there on, without the copy for the file."""

    @pytest.fixture
    def order(self, corpus: CorpusSpec, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        seen: list[str] = []

        def noting(module: Any, name: str, note: str) -> None:
            action = getattr(module, name)

            def noted(*arguments: Any, **options: Any) -> Any:
                seen.append(note)
                return action(*arguments, **options)

            monkeypatch.setattr(module, name, noted)

        monkeypatch.setattr(throughput, "REPEAT_S", 0.001)
        noting(measure.importlib, "import_module", "import")
        noting(measure.memory, "reset_device_peaks", "peaks begin")
        noting(measure.memory, "rss_bytes", "baseline")
        noting(measure, "read_corpus", "read")
        noting(measure, "create_trainer", "make")
        noting(measure, "token_nats", "score")
        noting(measure, "scoring_rates", "time")
        noting(measure.memory, "device_peaks_bytes", "peaks end")
        noting(learned.storage, "to_bytes", "serialise")
        Trial(make_trial(corpus=corpus), lambda: 0.0, lambda _: None).run()
        return seen

    def test_it_is_imports_baseline_work_peak_file(self, order: list[str]) -> None:
        assert order.index("import") < order.index("peaks begin") < order.index("baseline") < order.index("read")
        # what is timed comes before what is scored, so that nothing is known already
        wanted = ["read", "make", "time", "score", "peaks end", "serialise"]
        assert [note for note in order if note in wanted] == wanted


def test_model_bytes_are_those_of_its_file(corpus: CorpusSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)
    record = Trial(make_trial(corpus=corpus), lambda: 0.0, lambda _: None).run()
    assert record.measured is not None
    text = lmzoo.load_corpus(str(corpus.name))
    path = lmzoo.save(lmzoo.train("unigram", text), tmp_path / "model.lm")
    assert record.measured.model_bytes.value == path.stat().st_size


class Watching(Uniform):
    """A model that notices whether allocations are traced while it is timed."""

    was_traced = False

    def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
        Watching.was_traced |= tracemalloc.is_tracing()
        return super().logprobs(tokens_BxL, state)


def test_memory_is_never_traced_while_time_is_taken() -> None:
    clock = Clock()
    Watching.was_traced = False
    throughput.scoring_rates(Watching(CORPUS.vocab, clock), CORPUS.test, new_watch=clock.watch)
    throughput.next_token_microseconds(Watching(CORPUS.vocab, clock), CORPUS.test, new_watch=clock.watch)
    assert not Watching.was_traced


def test_what_a_record_says_of_the_machine_is_all_there() -> None:
    found = environment.describe()
    assert {
        "git_commit",
        "git_dirty",
        "cpu_model",
        "n_cpus_usable",
        "load_1min",
        "versions",
        "thread_variables",
    } <= set(found)
    assert {"lmzoo", "numpy", "pydantic"} <= set(found["versions"])
