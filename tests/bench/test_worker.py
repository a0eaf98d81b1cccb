"""The worker as a process: light for counting models, deaf to what models print, gone when its runner is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.environment import trial_environment
from bench.records import Answer, CorpusSpec, Question, TrialRecord, TrialSpec
from tests.bench.stubs import MIB, make_trial

# a small counting trial needs neither of these
HEAVY = {"torch", "pandas", "numba", "matplotlib", "nltk", "rich", "click"}
MOST_RSS_BYTES = 90 * MIB

RUN_AND_LIST_MODULES = """
import sys
from bench import worker
status = worker.main([])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(status)
"""

PRINTING_MODEL = """
import os, sys
from bench import measure, worker

def noisy_trainer(*arguments, **options):
    print('{"event": "record", "record": {}}')
    os.write(1, b"written past Python")
    return real(*arguments, **options)

real, measure.create_trainer = measure.create_trainer, noisy_trainer
sys.exit(worker.main([]))
"""


def run_worker(
    trial: TrialSpec, *command: str, keep_open: bool = True
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    with subprocess.Popen(
        [sys.executable, *(command or ("-m", "bench.worker"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=trial_environment(1, "cpu"),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(trial.model_dump_json() + "\n")
        process.stdin.flush()
        if not keep_open:
            process.stdin.close()
        output, errors = process.stdout.read(), process.stderr.read()
        process.wait()
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    return done, [json.loads(line) for line in output.splitlines()]


def record_of(events: list[dict[str, Any]]) -> TrialRecord:
    assert [event["event"] for event in events].count("record") == 1
    return TrialRecord.model_validate(events[-1]["record"])


@pytest.mark.whole
@pytest.mark.parametrize("corpus", ["genesis", "timemachine"])
@pytest.mark.parametrize("model", ["unigram", "trigram"])
def test_a_counting_trial_loads_nothing_heavy_and_stays_small(
    model: str, corpus: str, request: pytest.FixtureRequest
) -> None:
    if corpus != "genesis":
        request.getfixturevalue("data_folder")
    trial = make_trial(model, corpus=CorpusSpec(name=corpus))
    done, events = run_worker(trial, "-c", RUN_AND_LIST_MODULES)
    record = record_of(events)
    assert record.status == "ok"
    assert not HEAVY & set(done.stderr.splitlines()[-1].split())
    assert record.memory is not None
    assert 0 < record.memory.baseline_rss_bytes < record.memory.peak_rss_bytes < MOST_RSS_BYTES


@pytest.mark.whole
@pytest.mark.usefixtures("data_folder")
def test_order_3_on_penn_treebank_takes_no_more_than_kenlm() -> None:
    _, events = run_worker(make_trial("trigram", corpus=CorpusSpec(name="ptb")))
    record = record_of(events)
    assert record.memory is not None
    # the whole trial: reading, counting, scoring and timing; `lmplz` takes 279 MB for the model alone
    assert record.memory.peak_rss_bytes - record.memory.baseline_rss_bytes < 279 * MIB


@pytest.mark.whole
def test_the_time_machine_stays_small_too(data_folder: Path) -> None:
    trial = make_trial("trigram", corpus=CorpusSpec(name="timemachine"))
    _, events = run_worker(trial)
    record = record_of(events)
    assert record.memory is not None
    assert record.memory.peak_rss_bytes < MOST_RSS_BYTES
    assert record.corpus is not None
    # 173,428 characters in all three parts
    assert record.corpus.n_train_tokens + record.corpus.n_valid_tokens + record.corpus.n_test_tokens == 173_428


@pytest.fixture
def small(tmp_path: Path) -> CorpusSpec:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\n" * 50, encoding="utf-8")
    return CorpusSpec(name=str(path))


@pytest.mark.whole
def test_what_a_model_prints_corrupts_nothing(small: CorpusSpec) -> None:
    done, events = run_worker(make_trial("unigram", corpus=small), "-c", PRINTING_MODEL)
    assert record_of(events).status == "ok"
    assert "written past Python" in done.stderr


def test_a_worker_ends_when_its_runner_is_gone(small: CorpusSpec) -> None:
    done, events = run_worker(make_trial("unigram", corpus=small), keep_open=False)
    assert done.returncode == 3
    assert not [event for event in events if event["event"] == "record"]


@pytest.mark.whole
def test_the_environment_of_a_trial_is_in_its_record(small: CorpusSpec) -> None:
    done, events = run_worker(make_trial("unigram", corpus=small))
    record = record_of(events)
    assert done.returncode == 0
    assert record.environment is not None
    assert record.environment.thread_variables["OMP_NUM_THREADS"] == "1"
    assert record.parts is not None
    parts = [value for name, value in record.parts.model_dump().items() if name != "compile_s"]
    # the parts are inside the whole; process start is known to 0.01 s
    assert sum(parts) <= record.wall_s + 0.02


def describe(question: Question) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "--describe", str(os.getpid())],
        input=question.model_dump_json(),
        capture_output=True,
        text=True,
        check=True,
        env=trial_environment(1, "cpu"),
    )
    return Answer.model_validate_json(done.stdout)


def test_a_question_is_answered_with_every_choice_made(small: CorpusSpec) -> None:
    answer = describe(Question(models="unigram,ngram:order=4", corpora=(small,), devices=("cpu",)))
    assert answer.error is None
    assert [model.model for model in answer.models] == ["unigram", "ngram:order=4"]
    assert answer.models[1].options["smoothing"] == "mkn"
    assert (answer.corpora[0].tokens, answer.corpora[0].documents) == ("char", "file")
    assert answer.facts[0].n_train_tokens > 0
