"""A stored trial is used again when, and only when, everything that decides its result is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import environment, measure
from bench.describe import corpus_facts, read_corpus
from bench.measure import Moment, Trial
from bench.plan import content_key
from bench.records import CorpusFacts, CorpusSpec, SoFar, TrialRecord, TrialSpec
from bench.store import RunStore
from tests.bench.stubs import make_record, make_trial

# every field of a trial, and values that it may have: one that is new here has to be put into one of the two
DECIDING: dict[str, st.SearchStrategy[Any]] = {
    "model": st.text(max_size=5),
    "options": st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.none(), max_size=2),
    "family": st.sampled_from(["counting", "neural"]),
    "train_fraction": st.floats(0.1, 1),
    "device": st.sampled_from(["cpu", "cuda", "cuda:1"]),
    "seed": st.integers(0, 9),
    "budget_s": st.none() | st.floats(1, 99),
    "epochs": st.none() | st.floats(1, 99),
    "max_steps": st.none() | st.integers(1, 99),
    "threads": st.integers(1, 9),
    "with_text": st.booleans(),
}
NOT_DECIDING: dict[str, st.SearchStrategy[Any]] = {
    # names
    "trial_id": st.text(max_size=5),
    "content_key": st.text(max_size=5),
    # the options are what it comes to
    "spec": st.text(max_size=5),
    # the text is known by the facts that are read from it, the code by its hash
    "corpus": st.builds(CorpusSpec, name=st.text(max_size=5)),
    "corpus_sha256": st.text(max_size=5),
    "code_sha256": st.none() | st.text(max_size=5),
    # limits that a trial kept, or tells of; and how the budget came about
    "quick": st.booleans(),
    "time_limit_s": st.none() | st.floats(1, 99),
    "memory_limit_bytes": st.none() | st.integers(1, 99),
}
FACTS = CorpusFacts(
    **{"name": "text", "normalize": "none", "tokenizer": "char", "documents": "file", "min_freq": 1, "n_symbols": 3},
    **{"sha256": "1" * 64, "vocab_fingerprint": "2" * 16, "test_overlap": 0.0, "vocabulary_of": "kenlm:a.arpa"},
    **{name: 1 for name in CorpusFacts.model_fields if name.startswith("n_") and name != "n_symbols"},
)


def key_of(trial: TrialSpec, facts: CorpusFacts = FACTS, code: str = "code") -> str:
    return content_key(trial, facts, code)


def test_every_field_of_a_trial_is_known_to_decide_or_not() -> None:
    assert DECIDING.keys() | NOT_DECIDING.keys() == TrialSpec.model_fields.keys()
    assert not DECIDING.keys() & NOT_DECIDING.keys()


@given(data=st.data(), name=st.sampled_from(sorted(DECIDING)))
def test_what_decides_a_result_is_in_the_key(data: st.DataObject, name: str) -> None:
    one, other = (make_trial(**{name: data.draw(DECIDING[name])}) for _ in range(2))
    assert (key_of(one) == key_of(other)) == (one == other)


@pytest.mark.whole
@given(data=st.data(), name=st.sampled_from(sorted(NOT_DECIDING)))
def test_what_does_not_is_not(data: st.DataObject, name: str) -> None:
    trial = make_trial()
    assert key_of(trial.model_copy(update={name: data.draw(NOT_DECIDING[name])})) == key_of(trial)


@pytest.mark.parametrize("name", CorpusFacts.model_fields)
def test_every_fact_of_a_text_is_in_the_key(name: str) -> None:
    value = getattr(FACTS, name)
    is_text = isinstance(value, str) or CorpusFacts.model_fields[name].annotation == str | None
    other = f"{value}x" if is_text else (value or 0) + 1
    assert key_of(make_trial(), FACTS.model_copy(update={name: other})) != key_of(make_trial())


def test_the_code_is_in_the_key() -> None:
    assert key_of(make_trial(), code="other code") != key_of(make_trial())


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"the cat sat on mat {i}\n" for i in range(60)), encoding="utf-8")
    return path


def run(trial: TrialSpec, **options: Any) -> TrialRecord:
    return Trial(trial, lambda: 1.0, lambda _: None, **options).run()


def is_reused(record: TrialRecord, folder: Path) -> bool:
    with RunStore(folder, mode="resume") as store:
        store.write_record(record)
        return store.reusable(record.trial) is not None


def test_a_text_that_changed_after_the_plan_is_not_measured(text: Path, tmp_path: Path) -> None:
    trial = make_trial(corpus=CorpusSpec(name=str(text)))
    with text.open("a", encoding="utf-8") as file:
        file.write("one line more\n")
    record = run(trial)
    assert record.status == "failed"
    assert record.reason is not None
    assert record.reason.startswith("the text has changed since the run began (its sha256 is now ")
    assert record.reason.endswith("start the run again with --resume")
    # also once the text is again what it was
    assert not is_reused(record, tmp_path / "run")


@pytest.mark.whole
def test_code_that_changed_after_the_plan_measures_nothing(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial(corpus=CorpusSpec(name=str(text)), code_sha256=environment.code_sha256())
    assert run(trial).status == "ok"
    monkeypatch.setattr(environment, "code_sha256", lambda: "0" * 64)
    record = run(trial)
    assert (record.status, record.measured) == ("failed", None)
    assert record.reason is not None
    assert record.reason.startswith("the code of lmzoo and bench here (sha256 000000000000…) is not the run's (")
    assert record.reason.endswith("start the run again with --resume")
    # also once the code is again what it was
    assert not is_reused(record, tmp_path / "run")


def test_a_failure_before_the_text_was_read_says_nothing_of_the_model(text: Path, tmp_path: Path) -> None:
    failed = make_record(make_trial()).model_copy(update={"status": "failed", "reason": "no such file"})
    assert not is_reused(failed, tmp_path / "run")
    corpus = CorpusSpec(name=str(text))
    trial = make_trial(corpus=corpus)
    read = corpus_facts(read_corpus(corpus))
    after = failed.model_copy(update={"trial": trial, "corpus": read, "measured": None})
    assert is_reused(after, tmp_path / "run")


@pytest.mark.whole
def test_what_is_measured_is_told_as_soon_as_it_is(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[SoFar] = []
    monkeypatch.setattr(measure, "quick_check", lambda _: [])
    moments: list[Moment] = []
    trial = make_trial(corpus=CorpusSpec(name=str(text)))
    record = Trial(trial, lambda: 1.0, moments.append, keep=told.append).run()
    assert record.status == "ok"
    assert [len(so_far.curve) for so_far in told] == [0, 1]
    assert (told[0].corpus, told[-1].curve) == (record.corpus, record.curve)
    assert record.parts is not None
    assert told[-1].parts is not None
    assert told[-1].parts.train_s == told[-1].train_s == record.train_s == record.parts.train_s
