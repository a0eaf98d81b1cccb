"""The plan: which trials a run has, what names them, and what makes a result reusable."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import plan
from bench.plan import Limits, make_plan
from bench.records import Answer, CorpusFacts, CorpusSpec, ModelFacts, TrialSpec

FACTS: dict[str, Any] = {
    "name": "text",
    "normalize": "none",
    "tokenizer": "char",
    "documents": "file",
    "min_freq": 1,
    "sha256": "ab" * 32,
    "vocab_fingerprint": "cd" * 8,
    "n_symbols": 28,
    "n_train_tokens": 100,
    "n_valid_tokens": 10,
    "n_test_tokens": 10,
    "n_test_oov": 0,
    "n_train_documents": 1,
    "n_test_documents": 1,
    "n_blank_lines": 0,
    "n_markers": 0,
    "test_overlap": 0.0,
}


def model(name: str, family: Any = "neural", **options: Any) -> ModelFacts:
    return ModelFacts(model=name, spec=name, options=options, family=family)


def answer(*models: ModelFacts, corpora: tuple[str, ...] = ("text",), **facts: Any) -> Answer:
    return Answer(
        models=models,
        corpora=tuple(CorpusSpec(name=name) for name in corpora),
        facts=tuple(CorpusFacts(**(FACTS | {"name": name} | facts)) for name in corpora),
        default_budget_s=15.0,
    )


def planned(
    asked: Answer,
    *,
    devices: tuple[str, ...] = ("cpu",),
    seeds: int = 1,
    train_fractions: tuple[float, ...] = (1.0,),
    **limits: Any,
) -> list[TrialSpec]:
    return make_plan(asked, devices=devices, seeds=seeds, limits=Limits(**limits), train_fractions=train_fractions)


def test_counting_models_run_once_and_first_whatever_the_devices_and_seeds() -> None:
    trials = planned(
        answer(model("lstm"), model("kn5", "counting"), corpora=("a", "b")), devices=("cuda", "cpu"), seeds=3
    )
    # 1 counting trial and 2 devices x 3 seeds for each of 2 corpora
    assert [t.model for t in trials] == ["kn5"] * 2 + ["lstm"] * 12
    assert {(t.device, t.seed) for t in trials if t.model == "kn5"} == {("cpu", 0)}
    lstm = [(t.corpus.name, t.device, t.seed) for t in trials if t.model == "lstm"]
    assert lstm == [(c, d, s) for c in ("a", "b") for d in ("cuda", "cpu") for s in range(3)]


def test_every_model_is_planned_on_every_fraction_of_every_text() -> None:
    asked = answer(model("lstm"), model("kn5", "counting"), corpora=("a", "b"))
    trials = planned(asked, seeds=2, train_fractions=(0.25, 1.0))
    kn5 = [(t.corpus.name, t.train_fraction) for t in trials if t.model == "kn5"]
    assert kn5 == [("a", 0.25), ("a", 1.0), ("b", 0.25), ("b", 1.0)]
    assert len(trials) == 4 + 2 * 4
    # what is left of a name without its key tells the fractions apart: neither takes the other for its older self
    assert len({t.trial_id.rpartition("-")[0] for t in trials}) == len({t.content_key for t in trials}) == 12


@given(
    names=st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True),
    corpora=st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True),
    seeds=st.integers(1, 3),
    train_fractions=st.lists(st.floats(0.01, 1), min_size=1, max_size=3, unique=True).map(tuple),
)
def test_trial_ids_are_unique_and_safe_as_file_names(
    names: list[str], corpora: list[str], seeds: int, train_fractions: tuple[float, ...]
) -> None:
    trials = planned(answer(*map(model, names), corpora=tuple(corpora)), seeds=seeds, train_fractions=train_fractions)
    ids = [trial.trial_id for trial in trials]
    # names that are paths to files of one name differ in their options (the file's sha256), not here
    assert len({(t.model, t.corpus.name, t.seed, t.train_fraction) for t in trials}) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,240}", trial_id) for trial_id in ids)


def test_a_plan_of_too_many_trials_is_refused_before_any_is_made() -> None:
    asked = answer(model("lstm"), model("kn5", "counting"), corpora=("a", "b"))
    # 2 texts x 2 fractions x (1 network x 2 devices x 12,500 seeds + 1 counting model)
    with pytest.raises(plan.PlanError, match="100,004 trials are asked for, at most 100,000"):
        planned(asked, devices=("cpu", "cuda"), seeds=12_500, train_fractions=(0.5, 1.0))


def test_a_share_of_less_than_a_token_is_refused() -> None:
    asked = answer(model("kn5", "counting"), n_train_tokens=100)
    assert len(planned(asked, train_fractions=(0.01, 1.0))) == 2
    with pytest.raises(plan.PlanError, match=r"0\.009 of the 100 training tokens of text is less than one token; ask"):
        planned(asked, train_fractions=(0.009, 1.0))


LIMITS = [
    {"budget_s": 7.0},
    {"epochs": 2.0},
    {"max_steps": 9},
    {"threads": 2},
]
DIFFERENT_FACTS = [
    {"sha256": "ef" * 32},
    {"tokenizer": "word"},
    {"normalize": "letters"},
    {"documents": "line"},
    {"min_freq": 2},
    {"vocab_fingerprint": "00" * 8},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_every_limit_of_a_neural_trial_is_in_its_key(limits: dict[str, Any]) -> None:
    asked = answer(model("lstm"))
    assert key_of(planned(asked)) != key_of(planned(asked, **limits))


@pytest.mark.parametrize("facts", DIFFERENT_FACTS, ids=str)
def test_the_text_and_how_it_is_read_are_in_the_key(facts: dict[str, Any]) -> None:
    assert key_of(planned(answer(model("lstm")))) != key_of(planned(answer(model("lstm"), **facts)))


def test_options_seed_device_and_code_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = planned(answer(model("lstm")), devices=("cpu", "cuda"), seeds=2)
    keys = {trial.content_key for trial in trials}
    keys |= {key_of(planned(answer(model("lstm", hidden=512))))}
    monkeypatch.setattr(plan, "code_sha256", lambda: "other code")
    keys |= {key_of(planned(answer(model("lstm"))))}
    assert len(keys) == 4 + 1 + 1


def test_where_a_text_lies_is_not_in_the_key() -> None:
    here, there = answer(model("kn5", "counting")), answer(model("kn5", "counting"))
    there = there.model_copy(update={"corpora": (CorpusSpec(train="/elsewhere/a.txt", test="/elsewhere/b.txt"),)})
    assert key_of(planned(here)) == key_of(planned(there))


def test_the_budget_of_others_and_limits_that_were_kept_leave_a_counting_trial_as_it_was() -> None:
    asked = answer(model("kn5", "counting"))
    other = {"budget_s": 60.0, "time_limit_s": 9.0, "memory_limit_bytes": 10**9}
    assert key_of(planned(asked)) == key_of(planned(asked, **other))


def key_of(trials: list[TrialSpec]) -> str:
    (trial,) = trials
    return trial.content_key


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, (15.0, None, None)),
        ({"quick": True}, (plan.QUICK_BUDGET_S, None, None)),
        ({"budget_s": 3.0, "quick": True}, (3.0, None, None)),
        ({"max_steps": 5}, (None, None, 5)),
        ({"epochs": 0.5, "quick": True}, (None, 0.5, None)),
    ],
    ids=str,
)
def test_seconds_are_the_default_where_nothing_else_ends_training(
    limits: dict[str, Any], wanted: tuple[float | None, float | None, int | None]
) -> None:
    (trial,) = planned(answer(model("lstm")), **limits)
    assert (trial.budget_s, trial.epochs, trial.max_steps) == wanted
    (trial,) = planned(answer(model("kn5", "counting")), **limits)
    assert (trial.budget_s, trial.epochs, trial.max_steps) == (None, None, None)


def test_the_default_time_limit_leaves_room_for_the_budget() -> None:
    (trial,) = planned(answer(model("lstm")), budget_s=1000.0)
    # 600 s for loading, validating and testing, and three times the training
    assert trial.time_limit_s == 600 + 3 * 1000


def test_what_is_read_learns_from_no_share_and_is_tried_on_the_largest() -> None:
    read = model("hf:folder").model_copy(update={"is_read": True})
    trials = planned(answer(read, model("kn5", "counting")), seeds=3, train_fractions=(0.25, 1.0, 0.5))
    assert [(t.model, t.train_fraction) for t in trials if t.model != "kn5"] == [("hf:folder", 1.0)]
    assert [t.train_fraction for t in trials if t.model == "kn5"] == [0.25, 1.0, 0.5]
