"""The conformance checks: a right model passes, every check bites, and whatever a model does becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest

from lmzoo import registry, storage
from lmzoo.conformance import CHECKS, QUICK_CHECKS, Check, CheckResult, check_language_model, quick_check, run_check
from lmzoo.conformance.accounting import Uniform
from lmzoo.conformance.subject import Subject
from lmzoo.errors import TokenError
from lmzoo.interface import Arrays, LogProbs, Tokens
from lmzoo.registry import MODELS, ModelEntry
from lmzoo.spec import parse_spec
from lmzoo.vocab import Vocab
from tests import broken
from tests.bigram import AddKBigram, State, toy_split
from tests.mutants import MUTANTS, TOY_ENTRY, TOY_KINDS, Mutant

# every check of every kind of model
pytestmark = pytest.mark.whole

NAMES = frozenset(check.name for check in CHECKS)
# a process of its own for each mutant would cost more than all the rest
SLOW = "persistence.equal_in_fresh_process"


@pytest.fixture(autouse=True)
def _toys_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, path in TOY_KINDS.items():
        monkeypatch.setitem(registry.STORED_KINDS, kind, path)
    monkeypatch.setattr(registry, "all_entries", lambda: {**MODELS, "toy": TOY_ENTRY})


def toy() -> AddKBigram:
    return AddKBigram.counted(toy_split())


def failures(results: list[CheckResult]) -> dict[str, str]:
    return {result.name: result.message for result in results if result.status == "failed"}


def skipped(results: list[CheckResult]) -> set[str]:
    return {result.name for result in results if result.status == "skipped"}


def of_group(group: str) -> set[str]:
    return {check.name for check in CHECKS if check.name.startswith(f"{group}.")}


# --- every check passes a right model and catches a broken one


def test_a_right_model_passes_every_check() -> None:
    results = check_language_model(toy(), "toy")
    assert [result.name for result in results] == [check.name for check in CHECKS]
    assert failures(results) == {}
    assert skipped(results) == {"probability.all_logprobs_agree", "state.classes_of_contexts"}


def test_every_check_has_a_mutant_and_states_its_law() -> None:
    assert {mutant.check for mutant in MUTANTS} == NAMES
    assert len(NAMES) == len(CHECKS)
    assert all(check.law.endswith(".") for check in CHECKS)


@pytest.fixture
def patched(request: pytest.FixtureRequest) -> Iterator[Mutant]:
    mutant: Mutant = request.param
    patches = [mock.patch.object(*patch) for patch in mutant.patches]
    for patch in patches:
        patch.start()
    yield mutant
    for patch in patches:
        patch.stop()


@pytest.mark.parametrize("patched", MUTANTS, ids=lambda m: m.name, indirect=True)
def test_a_mutant_is_caught_by_its_check_and_passes_the_others(patched: Mutant) -> None:
    mutant = patched
    checks = [check for check in CHECKS if check.name != SLOW or mutant.check == SLOW]
    # a fresh model for each: some faults show only after a number of calls
    results = [run_check(check, Subject(mutant.make(), mutant.spec, NAMES)) for check in checks]
    assert set(failures(results)) == {mutant.check} | mutant.also


# --- any vocabulary, any model


def vocab_of(n_symbols: int, *, has_eos: bool) -> Vocab:
    reserved = ("<unk>", "<s>", "</s>") if has_eos else ("<unk>", "<s>")
    # from a range of letters that no normaliser or tokenizer touches
    tokens = (*reserved, *(chr(0x4E00 + i) for i in range(n_symbols - len(reserved))))
    return Vocab(tokens=tokens, counts_V=np.ones(n_symbols, np.int64))


def unigram_over(vocab: Vocab) -> AddKBigram:
    """Falling probabilities in every context; one row of memory stands for all."""
    weights_V = 1 / (3.0 + np.arange(len(vocab)))
    weights_V[vocab.bos_id] = 0
    model = AddKBigram(vocab, np.broadcast_to(weights_V / weights_V.sum(), (len(vocab) + 1, len(vocab))))
    model.kind = "of no file"
    return model


@pytest.mark.parametrize("has_eos", [False, True])
@pytest.mark.parametrize("n_symbols", [3, 4, 100, 101, 10_000])
def test_any_size_of_vocabulary(n_symbols: int, has_eos: bool) -> None:
    results = check_language_model(unigram_over(vocab_of(n_symbols, has_eos=has_eos)))
    assert failures(results) == {}
    too_many = {"probability.strings_sum_to_one"} if n_symbols > 100 else set()
    always = (
        {"probability.all_logprobs_agree", "state.classes_of_contexts"} | of_group("persistence") | of_group("training")
    )
    assert skipped(results) == too_many | always


class WithEverything(AddKBigram):
    """The optional methods as well, and states that are no arrays."""

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> Any:
        return tuple(super().initial_state(batch_size, bos=bos).tolist())

    def logprobs(self, tokens_BxL: Tokens, state: Any) -> tuple[LogProbs, Any]:
        answer, after = super().logprobs(tokens_BxL, np.array(state))
        return answer, tuple(after.tolist())

    def next_logprobs(self, state: Any) -> LogProbs:
        return super().next_logprobs(np.array(state))

    def all_logprobs(self, tokens_BxL: Tokens, state: Any) -> LogProbs:
        return self._ln(self.p_HxV[np.concatenate([np.array(state)[:, None], tokens_BxL], axis=1)[:, :-1]])

    def select(self, state: Any, rows: npt.ArrayLike) -> Any:
        return tuple(state[int(row)] for row in np.asarray(rows))

    n_context_classes = 2

    def context_classes(self, tokens_BxL: Tokens, state: Any) -> npt.NDArray[np.int64]:
        return np.concatenate([np.array(state)[:, None], tokens_BxL], axis=1) % 2


def test_optional_methods_are_checked_where_they_are() -> None:
    results = check_language_model(WithEverything.counted(toy_split()), parse_spec("toy"))
    assert failures(results) == {}
    assert skipped(results) == set()


class OpaqueState(WithEverything):
    # from Python 3.12 on a protocol looks past __getattribute__, so None says there that it has none
    select = to_parts = None  # type: ignore[assignment]
    n_context_classes = 1

    def __getattribute__(self, name: str) -> Any:
        if name in ("select", "all_logprobs", "to_parts"):
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_the_required_methods_are_enough() -> None:
    results = check_language_model(OpaqueState.counted(toy_split()), "toy")
    assert failures(results) == {}
    optional = {"probability.all_logprobs_agree", "state.classes_of_contexts", "batch.selected_rows"} | of_group(
        "persistence"
    )
    assert skipped(results) == optional


class Cache(AddKBigram):
    """Adaptive: half the bigram, half the symbols scored so far.  State: last id and counts, shape (1, 1 + V)."""

    context_size = None
    is_adaptive = True
    kind = "of no file"

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> State:
        assert batch_size == 1, "an adaptive model was asked for a batch"
        return np.concatenate([super().initial_state(1, bos=bos), np.zeros(len(self.vocab), np.int64)])[None, :]

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != 1:
            raise TokenError(f"an adaptive model takes 1 row, got {len(tokens_BxL)}")
        state, answers = state.copy(), []
        for token in tokens_BxL[0].tolist():
            answers.append(self.next_logprobs(state)[0, token])
            state[0, 0] = token
            state[0, 1 + token] += 1
        return np.array([answers], np.float64).reshape(1, -1), state

    def next_logprobs(self, state: State) -> LogProbs:
        p_1xV, counts_1xV = self.p_HxV[state[:, 0]], state[:, 1:].copy()
        counts_1xV[:, self.vocab.bos_id] = 0
        n_seen = counts_1xV.sum()
        return self._ln((p_1xV + counts_1xV / n_seen) / 2 if n_seen else p_1xV)


def test_an_adaptive_model_takes_one_text_at_a_time() -> None:
    results = check_language_model(Cache.counted(toy_split()))
    assert failures(results) == {}
    assert of_group("batch") <= skipped(results)


def test_a_model_that_was_read_from_a_file_passes(tmp_path: Path) -> None:
    model = storage.load(storage.save(toy(), tmp_path / "toy.lm"))
    assert failures(check_language_model(model, "toy")) == {}


class WithoutArrays(AddKBigram):
    """A model that its vocabulary alone determines."""

    kind = "without arrays"

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {}


def test_a_file_without_arrays_cannot_lose_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STORED_KINDS, "without arrays", "tests.broken:Blank")
    check = next(check for check in CHECKS if check.name == "persistence.altered_file")
    result = run_check(check, Subject(WithoutArrays.counted(toy_split())))
    assert result == CheckResult(check.name, "skipped", "the model's file holds no arrays")


@pytest.mark.parametrize(
    ("size", "is_adaptive", "reason"),
    [(None, False, "without limit"), (1, True, "learns from older tokens"), (2001, False, "up to 2000")],
)
def test_a_window_that_cannot_be_checked_is_skipped(size: int | None, is_adaptive: bool, reason: str) -> None:
    model = toy()
    model.context_size, model.is_adaptive = size, is_adaptive
    check = next(check for check in CHECKS if check.name == "state.context_size_is_true")
    result = run_check(check, Subject(model))
    assert result.status == "skipped"
    assert reason in result.message


def test_the_yardstick_of_perplexity_is_a_distribution() -> None:
    assert {result.status for result in quick_check(Uniform(toy().vocab))} == {"passed"}


# --- tolerances


class Single(AddKBigram):
    def _ln(self, p: npt.NDArray[np.float64]) -> LogProbs:
        return super()._ln(p).astype(np.float32)


def with_error(cls: type[AddKBigram], error: float) -> AddKBigram:
    """A model whose probabilities sum to 1 + error."""
    model = cls.counted(toy_split())
    model.p_HxV = model.p_HxV * (1 + error)
    return model


@pytest.mark.parametrize(
    ("cls", "error", "is_right"),
    [(AddKBigram, 1e-10, True), (AddKBigram, 1e-8, False), (Single, 5e-6, True), (Single, 5e-5, False)],
)
def test_the_dtype_of_the_answers_sets_the_tolerance(cls: type[AddKBigram], error: float, is_right: bool) -> None:
    assert ("probability.sums_to_one" not in failures(check_language_model(with_error(cls, error)))) == is_right


def test_a_model_declares_a_coarser_tolerance() -> None:
    model = with_error(AddKBigram, 5e-5)
    assert "probability.sums_to_one" in failures(quick_check(model))
    model.tolerance = 1e-4  # type: ignore[attr-defined]
    assert failures(quick_check(model)) == {}


def test_a_coarse_tolerance_holds_for_tokens_too() -> None:
    subject = Subject(toy())
    assert (subject.tolerance, subject.token_tolerance, subject.total_tolerance) == (1e-9, 1e-9, 1e-9)
    fine, coarse = toy(), toy()
    fine.tolerance, coarse.tolerance = 1e-4, 2e-2  # type: ignore[attr-defined]
    assert (Subject(fine).tolerance, Subject(fine).token_tolerance) == (1e-4, 1e-9)
    assert (Subject(coarse).token_tolerance, Subject(coarse).total_tolerance) == (2e-2, 2e-2)


# --- expected failures


def test_an_expected_failure_carries_its_reason() -> None:
    model = with_error(AddKBigram, 1e-3)
    reason = "its file holds three digits"
    names = ("probability.sums_to_one", "probability.strings_sum_to_one")
    model.expected_failures = dict.fromkeys(names, reason)  # type: ignore[attr-defined]
    results = {result.name: result for result in check_language_model(model)}
    assert failures(list(results.values())) == {}
    for name in names:
        assert results[name].status == "expected"
        assert results[name].message.startswith(f"{reason}: ")


def test_scores_that_are_declared_no_distribution_are_expected_not_to_sum_to_one() -> None:
    model = with_error(AddKBigram, -0.3)
    model.is_normalized, model.kind = False, "of no file"
    results = check_language_model(model)
    assert failures(results) == {}
    expected = {result.name for result in results if result.status == "expected"}
    assert expected == {"probability.sums_to_one", "probability.strings_sum_to_one"}


def test_an_expected_failure_that_passes_is_a_failure() -> None:
    model = toy()
    model.expected_failures = {"state.chunks": "not yet"}  # type: ignore[attr-defined]
    found = failures(check_language_model(model))
    assert found == {"state.chunks": "passed, though declared to fail: not yet"}


# --- a broken model is a result, never an exception


class Raises:
    """Nothing works, not even its attributes."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is\nbroken " + "and more so " * 100)


@pytest.mark.parametrize("make", [lambda: None, int, object, Raises], ids=["None", "int", "object", "Raises"])
def test_whatever_the_model_raises_is_a_failure_in_one_line(make: Callable[[], Any]) -> None:
    results = check_language_model(make())
    assert {result.name for result in results if result.status == "passed"} == set()
    assert all("\n" not in result.message and 0 < len(result.message) <= 300 for result in results)
    assert all(result.status in ("failed", "skipped") for result in results)


def test_a_failure_names_the_exception() -> None:
    check = Check("api.shapes", mock.Mock(side_effect=ZeroDivisionError("by\nzero")))
    assert run_check(check, Subject(toy())) == CheckResult("api.shapes", "failed", "ZeroDivisionError: by zero")


def test_a_spec_that_cannot_be_understood_fails_the_training_checks() -> None:
    found = failures(check_language_model(toy(), "toyy"))
    assert set(found) == of_group("training")
    assert all(message.startswith("UnknownModelError: no model 'toyy'") for message in found.values())


def test_a_spec_that_cannot_run_here_skips_the_training_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ModelEntry(
        name="toy",
        description="needs what nobody has",
        config=TOY_ENTRY.config,
        trainer=TOY_ENTRY.trainer,
        family="counting",
        requires={"no_such_library": "torch"},
    )
    monkeypatch.setattr(registry, "all_entries", lambda: {"toy": entry})
    results = check_language_model(toy(), "toy")
    assert failures(results) == {}
    assert of_group("training") <= skipped(results)


def test_without_a_spec_the_training_checks_are_skipped_with_a_reason() -> None:
    reasons = {result.name: result.message for result in check_language_model(toy()) if result.status == "skipped"}
    assert {reasons[name] for name in of_group("training")} == {"no spec was given to train by"}


def test_a_process_that_cannot_load_the_file_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STORED_KINDS, "toy", "tests.bigram:NoSuchClass")
    check = next(check for check in CHECKS if check.name == SLOW)
    result = run_check(check, Subject(toy()))
    assert result.status == "failed"
    assert "exit 1" in result.message
    assert "NoSuchClass" in result.message


# --- the quick check


def test_the_quick_check_asks_for_probabilities_only() -> None:
    results = quick_check(toy())
    assert [result.name for result in results] == [check.name for check in QUICK_CHECKS]
    assert {result.status for result in results} == {"passed"}
    assert {check.name for check in QUICK_CHECKS} == {
        "probability.never_above_zero",
        "probability.never_nan",
        "probability.sums_to_one",
        "probability.two_ways_agree",
    }


@pytest.mark.parametrize("cls", [broken.Leaks, broken.Optimist, broken.NanAfterUnknown, broken.Densities])
def test_the_quick_check_bites(cls: type[AddKBigram]) -> None:
    assert failures(quick_check(cls.counted(toy_split())))
