"""The search for a recipe: what it proposes, keeps, gives up and leaves, whatever ends it."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import lmzoo
from bench import tune
from bench.describe import answer, corpus_facts, model_facts
from bench.executor.protocol import Ended, Event, Moved, Started
from bench.measure import Trial
from bench.records import SCHEMA_VERSION, Answer, CorpusSpec, Figure, TrialRecord, TrialSpec
from bench.sealed import read_sealed
from bench.terminal import console_on
from bench.tuning import searching
from bench.tuning.attempts import Attempt, Report, ranking
from bench.tuning.folder import SearchStore
from bench.tuning.proposing import importances, is_hopeless, propose
from bench.tuning.searching import place_of
from bench.tuning.showing import SearchView, attempt_line, best_table, few_tokens
from bench.tuning.spaces import SPACES, Choice, Numbers, SpaceError, space_of, with_options
from lmzoo.corpus import corpus_from_texts
from lmzoo.driver import next_validation_s
from lmzoo.errors import SpecError
from lmzoo.recipe_files import write_recipe
from lmzoo.registry import MODELS, resolve_config
from lmzoo.spec import parse_spec
from tests.bench.stubs import make_record, make_trial
from tests.bench.synthetic import tally

TEXT = "".join(f"the cat sat on mat {i}\n" for i in range(90))
Outcome = float | str


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


class Told:
    """An executor without processes: what a trial gives is told by a function of its options."""

    def __init__(self, outcome: Callable[[Mapping[str, Any]], Outcome], curve: Sequence[tuple[float, float]] = ()):
        self._outcome = outcome
        self._curve = curve
        self.trials: list[TrialSpec] = []

    def check(self, trials: Sequence[TrialSpec], devices: Sequence[str] = ()) -> str | None:
        return None

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial in trials:
            self.trials.append(trial)
            yield Started(trial=trial)
            outcome = self._outcome(trial.options)
            for train_s, factor in self._curve:
                assert not isinstance(outcome, str)
                yield Moved(trial=trial, phase="training", train_s=train_s, share=0.5, perplexity=outcome * factor)
            yield Ended(record=told_record(trial, outcome))


def told_record(trial: TrialSpec, outcome: Outcome) -> TrialRecord:
    if isinstance(outcome, str):
        return TrialRecord(trial=trial, status="diverged", reason=outcome, wall_s=1.0, started_utc="now")
    record = make_record(trial)
    valid = tally([4 * math.log(outcome)], 4).model_copy(update={"perplexity": Figure.of(outcome)})
    return record.model_copy(update={"measured": None, "valid": valid})


class Here(Told):
    """Trains in this process."""

    def __init__(self) -> None:
        super().__init__(lambda _: 0.0)

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial in trials:
            self.trials.append(trial)
            yield Ended(record=Trial(trial, lambda: 1.0, lambda _: None).run())


@pytest.fixture(autouse=True)
def resolved_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a child process would look up is looked up in this one."""

    def ask(asked: Any) -> Answer:
        found = answer(asked.question)
        assert found.error is None, found.error
        return found

    monkeypatch.setattr(searching, "ask", ask)


@pytest.fixture
def search(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line with an executor of the test's, in the folder `out`."""
    pytest.importorskip("optuna")

    def run(executor: Told, *arguments: str, model: str = "ngram", **_: Any) -> int:
        monkeypatch.setitem(searching.EXECUTORS, "local", lambda **_: executor)
        told = ["--model", model, "--corpus", str(text), "--out", str(tmp_path / "out"), *arguments]
        return tune.main(told)

    return run


def attempts_in(folder: Path) -> list[Attempt]:
    return [read_sealed(path, Attempt) for path in sorted((folder / "trials").glob("*.json"))]


def recipe_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    return found


def by_order(options: Mapping[str, Any]) -> Outcome:
    """The lower the better the closer its order is to 4; every smoothing but mkn adds one."""
    return 2.0 + abs(int(options["order"]) - 4) + (options["smoothing"] != "mkn")


def test_the_first_attempt_is_what_was_given_and_the_recipe_is_the_best(
    search: Callable[..., int], text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = Told(by_order)
    assert search(executor, "--trials", "12") == 0
    attempts = attempts_in(tmp_path / "out")
    assert [attempt.number for attempt in attempts] == list(range(12))
    assert attempts[0].spec == "ngram"
    assert all(a.valid_perplexity == by_order(a.trainings[0].trial.options) for a in attempts)
    best = min(attempts, key=lambda a: a.valid_perplexity or 0)
    recipe = recipe_in(tmp_path / "out")
    assert recipe["options"]["order"] == best.options["order"]
    found = recipe["found"]
    assert (
        found["valid_perplexity"]
        == best.valid_perplexity
        <= found["default_valid_perplexity"]
        == by_order({"order": 5, "smoothing": "mkn"})
    )
    assert (found["n_configurations_tried"], found["n_failed"]) == (12, 0)
    told = capsys.readouterr()
    assert "The best of 12 configurations" in told.out
    (command,) = [line for line in told.out.splitlines() if line.startswith("python -m bench.run")]
    (typed,) = re.findall(r"--models (.*) --corpus", command)
    # the file stands for the options of the best attempt
    assert resolve_config(typed) == resolve_config(best.spec)
    assert "\n[0] the recipe as it is: validation perplexity 3\n[1] " in told.err
    valid = lmzoo.load_corpus(str(text)).valid
    few = f"{valid.n_tokens} tokens of validation text in a text.txt: what is best on so few is best by chance"
    assert told.err.startswith(f"warning: {few}")
    record = attempts[0].trainings[0].valid
    assert record is not None
    assert f"chosen on {record.n_tokens} tokens of validation text, {record.n_oov} of them out of" in told.out
    assert (found["n_valid_tokens"], found["n_valid_oov"]) == (record.n_tokens, record.n_oov)


def test_what_a_recipe_file_says_is_in_the_recipe_that_is_found_from_it(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base.json"
    write_recipe(base, "ngram", {"order": 6, "smoothing": "ad", "interpolated": False, "cutoffs": "1/2"}, {})
    assert search(Told(by_order), "--search", "order", "--trials", "3", model=f"ngram:recipe={base}") == 0
    best = min(attempts_in(tmp_path / "out"), key=lambda a: a.valid_perplexity or 0)
    assert resolve_config(f"ngram:recipe={tmp_path / 'out' / 'recipe.json'}") == resolve_config(best.spec)
    assert resolve_config(best.spec).smoothing == "ad"


def test_no_configuration_is_tried_twice(search: Callable[..., int], tmp_path: Path) -> None:
    """Of 8 orders and 2 kinds of discounts 16 can be tried, and not one more."""
    arguments = ("--search", "order,discounts", "--trials", "50")
    assert search(Told(by_order), *arguments) == 0
    tried = [tuple(a.options.items()) for a in attempts_in(tmp_path / "out")]
    assert len(tried) == len(set(tried)) == 16


@pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")
def test_the_perplexity_is_that_of_the_whole_validation_text(
    search: Callable[..., int], text: Path, tmp_path: Path
) -> None:
    assert search(Here(), "--trials", "3") == 0
    corpus = lmzoo.load_corpus(str(text))
    for attempt in attempts_in(tmp_path / "out"):
        model = lmzoo.train(attempt.spec, corpus)
        assert attempt.valid_perplexity == pytest.approx(lmzoo.evaluate(model, corpus.valid).perplexity, rel=1e-12)


def test_a_test_text_is_named_and_never_opened(
    search: Callable[..., int], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(searching.EXECUTORS, "local", lambda **_: Here())
    texts = ["--train", str(text), "--test", str(tmp_path / "nowhere.txt")]
    assert tune.main(["--model", "ngram", *texts, "--trials", "2", "--out", str(tmp_path / "out")]) == 0
    for attempt in attempts_in(tmp_path / "out"):
        for record in attempt.trainings:
            assert record.measured is None
            assert record.corpus is not None
            assert record.corpus.n_test_tokens == 0


def test_a_corpus_without_its_test_part_is_the_same_otherwise() -> None:
    whole, without = (corpus_from_texts({"whole": TEXT}, with_test=with_test) for with_test in (True, False))
    assert [whole.train[0].text, whole.valid[0].text] == [without.train[0].text, without.valid[0].text]
    assert whole.vocab.fingerprint == without.vocab.fingerprint
    assert (len(without.test), without.test.n_tokens) == (0, 0)

    def raises() -> str:
        raise AssertionError("the test text is read")

    parts = corpus_from_texts({"train": TEXT, "valid": TEXT[:100], "test": raises}, with_test=False)
    assert (parts.valid.n_tokens, parts.test.n_tokens) == (100, 0)
    assert corpus_from_texts({"train": TEXT}, with_test=False).valid.n_tokens > 0


def test_a_trial_without_a_test_text_ends_with_the_validation_text(text: Path) -> None:
    spec = CorpusSpec(name=str(text), with_test=False)
    corpus = lmzoo.load_corpus(str(text))
    record = Trial(make_trial("bigram", corpus=spec), lambda: 1.0, lambda _: None).run()
    assert (record.status, record.measured) == ("ok", None)
    assert record.valid is not None
    assert record.valid.n_tokens == corpus.valid.n_tokens


class Killed(BaseException):
    """Ends the process at once, as far as the search can tell."""


@pytest.mark.parametrize("n_before", [0, 1, 4, 8])
def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(
    search: Callable[..., int], tmp_path: Path, n_before: int
) -> None:
    n_begun = 0

    def killed_then(options: Mapping[str, Any]) -> Outcome:
        nonlocal n_begun
        n_begun += 1
        if n_begun == n_before + 1:
            raise Killed
        return by_order(options)

    with pytest.raises(Killed):
        search(Told(killed_then), "--trials", "9")
    assert len(attempts_in(tmp_path / "out")) == n_before
    assert search(Told(by_order), "--trials", "9", "--resume") == 0
    resumed = [a.options for a in attempts_in(tmp_path / "out")]
    assert search(Told(by_order), "--trials", "9", "--force") == 0
    assert resumed == [a.options for a in attempts_in(tmp_path / "out")]


def test_another_seed_is_another_search(search: Callable[..., int], tmp_path: Path) -> None:
    tried = []
    for seed in ("0", "1", "0"):
        assert search(Told(by_order), "--trials", "5", "--seed", seed, "--force") == 0
        tried.append([a.options for a in attempts_in(tmp_path / "out")])
    assert tried[0] == tried[2] != tried[1]


def test_an_attempt_that_fails_is_kept_with_its_reason_and_the_search_goes_on(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_beyond_the_first(options: Mapping[str, Any]) -> Outcome:
        return 3.0 if options["order"] == 5 else "the loss is\nnot finite in /secret/folder/x"

    assert search(Told(fails_beyond_the_first), "--search", "order", "--trials", "4") == 0
    attempts = attempts_in(tmp_path / "out")
    assert [a.outcome for a in attempts] == ["complete", "failed", "failed", "failed"]
    assert attempts[1].reason == "diverged, the loss is not finite in x"
    assert recipe_in(tmp_path / "out")["found"]["n_failed"] == 3
    assert "secret" not in (tmp_path / "out" / "trials" / "00001.json").read_text(encoding="utf-8")
    assert "failed, diverged, the loss is not finite" in capsys.readouterr().err


def test_without_a_complete_attempt_there_is_no_recipe(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(lambda _: "no"), "--trials", "2") == 1
    assert not (tmp_path / "out" / "recipe.json").exists()
    assert "no attempt was complete" in capsys.readouterr().err


def test_an_infinite_perplexity_is_no_result(search: Callable[..., int], tmp_path: Path) -> None:
    assert search(Told(lambda o: float("inf") if o["order"] != 5 else 2.0), "--search", "order", "--trials", "2") == 0
    assert [a.outcome for a in attempts_in(tmp_path / "out")] == ["complete", "failed"]


def test_ctrl_c_leaves_the_best_so_far(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n_begun = 0

    def interrupted(options: Mapping[str, Any]) -> Outcome:
        nonlocal n_begun
        n_begun += 1
        if n_begun == 3:
            raise KeyboardInterrupt
        return by_order(options)

    assert search(Told(interrupted), "--trials", "9") == 128 + signal.SIGINT
    assert "the best so far is in" in capsys.readouterr().err
    assert recipe_in(tmp_path / "out")["found"]["n_configurations_tried"] == 2


def test_several_seeds_count_by_their_geometric_mean(search: Callable[..., int], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    n_told = 0

    def each_in_turn(_: Mapping[str, Any]) -> Outcome:
        nonlocal n_told
        n_told += 1
        return (2.0, 8.0)[n_told % 2]

    assert search(Told(each_in_turn), "--trials", "1", "--seeds", "2", model="mlp") == 0
    (attempt,) = attempts_in(tmp_path / "out")
    assert [record.trial.seed for record in attempt.trainings] == [0, 1]
    assert attempt.valid_perplexity == pytest.approx(4.0)  # sqrt(2 * 8)


def test_another_search_is_not_gone_on_with(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(by_order), "--trials", "2") == 0
    kept = attempts_in(tmp_path / "out")
    for arguments, told in (
        (("--trials", "3"), "exists already"),
        (("--resume", "--seed", "1"), "its seed is 0, asked is 1"),
        (("--resume", "--search", "order"), "its space is"),
        (("--resume", "--tokens", "byte"), "its tokenizer is char, asked is byte"),
    ):
        assert search(Told(by_order), *arguments) == 2
        assert told in capsys.readouterr().err
    assert attempts_in(tmp_path / "out") == kept


def test_a_text_that_changed_is_told(
    search: Callable[..., int], tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(by_order), "--trials", "1") == 0
    text.write_text(TEXT.replace("cat", "dog"), encoding="utf-8")
    assert search(Told(by_order), "--trials", "1", "--resume") == 2
    assert "the content of a text.txt has changed since it began" in capsys.readouterr().err


def test_what_adapts_is_starred(capsys: pytest.CaptureFixture[str]) -> None:
    record = told_record(make_trial(), 2.5).model_copy(update={"is_adaptive": True})
    adaptive = attempt(0, 2.5, order=3).model_copy(update={"trainings": (record,)})
    others = [adaptive, attempt(1, 3.5, order=4)]
    assert attempt_line(adaptive, others).endswith("validation perplexity 2.5*")
    assert attempt_line(others[1], others).endswith("validation perplexity 3.5")
    console_on(sys.stdout).print(best_table(others))
    shown = capsys.readouterr().out
    assert "2.5*" in shown
    assert "*: adaptive" in shown


@pytest.mark.parametrize(("n_tokens", "told"), [(1, "1 token of"), (999, "999 tokens of"), (1000, None)])
def test_a_short_validation_text_is_told(n_tokens: int, told: str | None) -> None:
    facts = corpus_facts(corpus_from_texts({"whole": TEXT}))
    notice = few_tokens(facts.model_copy(update={"n_valid_tokens": n_tokens}))
    assert notice is None if told is None else notice is not None and notice.startswith(told)


def test_a_folder_of_something_else_is_left_alone(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text("{}", encoding="utf-8")
    assert search(Told(by_order), "--resume") == 2
    assert "is no search that could be gone on with" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run.json"]


def test_an_attempt_that_was_altered_is_set_aside_and_made_again(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(by_order), "--trials", "4") == 0
    path = tmp_path / "out" / "trials" / "00002.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"complete"', '"complet'), encoding="utf-8")
    assert search(Told(by_order), "--trials", "4", "--resume") == 0
    assert "00002.json cannot be read; it is now 00002.json.bad" in capsys.readouterr().err
    assert [a.number for a in attempts_in(tmp_path / "out")] == [0, 1, 2, 3]


def test_what_cannot_be_written_is_told_and_costs_nothing_that_was(
    search: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import store

    write, is_full = store.write_atomically, True

    def full(path: Path, data: bytes) -> None:
        if is_full and path.name == "00001.json":
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(store, "write_atomically", full)
    assert search(Told(by_order), "--trials", "9") == 1
    assert "cannot write trials/00001.json: No space left on device" in capsys.readouterr().err
    assert len(attempts_in(tmp_path / "out")) == 1
    is_full = False
    assert search(Told(by_order), "--trials", "2", "--resume") == 0


@pytest.mark.parametrize("in_its_place", [None, "{", '{"format": "lmzoo-recipe"}'])
def test_a_search_with_nothing_left_to_try_leaves_the_recipe_of_its_attempts(
    search: Callable[..., int], tmp_path: Path, in_its_place: str | None
) -> None:
    assert search(Told(by_order), "--trials", "3") == 0
    path = tmp_path / "out" / "recipe.json"
    written = path.read_bytes()
    path.unlink() if in_its_place is None else path.write_text(in_its_place, encoding="utf-8")
    assert search(Told(by_order), "--trials", "3", "--resume") == 0
    assert path.read_bytes() == written


def test_a_recipe_that_could_not_be_written_is_when_the_search_goes_on(
    search: Callable[..., int], tmp_path: Path
) -> None:
    path = tmp_path / "out" / "recipe.json"
    assert search(Told(by_order), "--trials", "1") == 0
    path.unlink()
    path.mkdir()
    assert search(Told(by_order), "--trials", "1", "--resume") == 1
    path.rmdir()
    assert search(Told(by_order), "--trials", "1", "--resume") == 0
    assert recipe_in(tmp_path / "out")["options"]["order"] == 5


def test_no_recipe_stays_that_no_attempt_stands_for(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(by_order), "--trials", "1") == 0
    (tmp_path / "out" / "trials" / "00000.json").unlink()
    assert search(Told(lambda _: "no"), "--trials", "2", "--resume") == 1
    assert "no complete attempt stands for recipe.json; it is now recipe.json.outdated-1" in capsys.readouterr().err
    assert not (tmp_path / "out" / "recipe.json").exists()


@pytest.mark.parametrize("name", ["00002.json", "00009.json", "1.json"])
def test_an_attempt_under_anothers_name_counts_once(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert search(Told(by_order), "--trials", "4") == 0
    trials = tmp_path / "out" / "trials"
    (trials / name).write_bytes((trials / "00001.json").read_bytes())
    assert search(Told(by_order), "--trials", "4", "--resume") == 0
    assert f"trials/{name} holds attempt 1; it is now {name}.bad" in capsys.readouterr().err
    assert [a.number for a in attempts_in(tmp_path / "out")] == [0, 1, 2, 3]
    assert recipe_in(tmp_path / "out")["found"]["n_configurations_tried"] == 4


@pytest.mark.parametrize("other", [("--search", "order"), ("--tokens", "byte")])
def test_an_attempt_of_another_search_does_not_count(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], other: tuple[str, ...]
) -> None:
    assert search(Told(lambda _: 1.5), "--trials", "2", *other) == 0
    foreign = (tmp_path / "out" / "trials" / "00001.json").read_bytes()
    assert search(Told(by_order), "--trials", "2", "--force") == 0
    (tmp_path / "out" / "trials" / "00001.json").write_bytes(foreign)
    assert search(Told(by_order), "--trials", "2", "--resume") == 0
    assert "trials/00001.json is of another search" in capsys.readouterr().err
    assert recipe_in(tmp_path / "out")["found"]["valid_perplexity"] > 1.5


class Seconds:
    """A clock that the trainings of the test move."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_time_of_earlier_sessions_counts_and_none_begins_that_cannot_end(
    search: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lmzoo.budget import Stopwatch

    clock = Seconds()

    def takes_2_s(options: Mapping[str, Any]) -> Outcome:
        clock.now_s += 2
        return by_order(options)

    monkeypatch.setattr(searching, "Stopwatch", lambda: Stopwatch(clock))
    # each record says 2 s of wall clock: the third would end after 6 s, the fourth after 8
    assert search(Told(takes_2_s), "--search-seconds", "7") == 0
    assert [a.used_s for a in attempts_in(tmp_path / "out")] == [2, 4, 6]
    assert search(Told(takes_2_s), "--search-seconds", "8", "--resume") == 0
    assert [a.used_s for a in attempts_in(tmp_path / "out")] == [2, 4, 6, 8]


def test_under_a_budget_of_seconds_what_is_worse_than_the_median_is_given_up(
    search: Callable[..., int], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    worst = iter(range(2, 100))
    # each attempt is worse than all before it
    executor = Told(lambda _: float(next(worst)), curve=[(0.25, 2.0), (1.0, 1.5), (2.0, 1.2)])
    assert search(executor, "--trials", "8", "--budget", "4", model="mlp") == 0
    attempts = attempts_in(tmp_path / "out")
    assert [a.outcome for a in attempts] == ["complete"] * 5 + ["pruned"] * 3
    assert attempts[5].reports == (Report(place=0, perplexity=14.0), Report(place=8, perplexity=10.5))
    assert attempts[5].trainings == ()
    # by steps, the clock has no say
    worst = iter(range(2, 100))
    assert search(executor, "--trials", "8", "--max-steps", "4", "--force", model="mlp") == 0
    assert {a.outcome for a in attempts_in(tmp_path / "out")} == {"complete"}


def attempt(
    number: int, perplexity: float | None, reports: Mapping[int, float] | None = None, **options: Any
) -> Attempt:
    return Attempt(
        number=number,
        spec="ngram",
        options=options,
        outcome="failed" if perplexity is None else "complete",
        reason="failed" if perplexity is None else None,
        valid_perplexity=perplexity,
        reports=tuple(Report(place=p, perplexity=x) for p, x in (reports or {}).items()),
        used_s=1.0,
    )


@pytest.mark.parametrize(
    ("perplexities", "hopeless"),
    [([(0, 99.0)], False), ([(0, 99.0), (4, 3.0)], False), ([(4, 3.1)], True), ([(4, 3.1), (8, 2.9)], False)],
)
def test_hopeless_is_worse_than_the_median_from_the_warm_up_on(
    perplexities: list[tuple[int, float]], hopeless: bool
) -> None:
    pytest.importorskip("optuna")
    # the medians at place 4 and 8 are 3
    others = [attempt(i, 2.0, {0: 5.0, 4: 1.0 + i, 8: 1.0 + i}) for i in range(5)]
    reports = [Report(place=place, perplexity=perplexity) for place, perplexity in perplexities]
    assert is_hopeless(others, reports, warm_up=4) is hopeless
    assert not is_hopeless(others[:4], reports, warm_up=4)
    assert not is_hopeless(others, [], warm_up=4)


SPACE = {"lr": Numbers(low=1e-3, high=1.0, log=True), "kind": Choice(values=("a", "b", None))}


def proposed(attempts: Sequence[Attempt], seed: int = 0) -> dict[str, Any]:
    found = propose(SPACE, attempts, seed=seed, is_possible=lambda _: True)
    assert found is not None
    return found


def test_a_proposal_follows_from_the_attempts_and_the_seed() -> None:
    pytest.importorskip("optuna")
    attempts: list[Attempt] = []
    for number in range(30):
        options = proposed(attempts)
        assert options == proposed(attempts)
        assert options != proposed(attempts, seed=1)
        assert 1e-3 <= options["lr"] <= 1.0
        assert float(f"{options['lr']:.3g}") == options["lr"]
        # b is good, a diverges; the best rate is 0.1
        perplexity = None if options["kind"] == "a" else 10 * max(options["lr"] / 0.1, 0.1 / options["lr"])
        attempts.append(attempt(number, perplexity, **options))
    late = attempts[15:]
    assert sum(a.outcome == "failed" for a in late) < len(late) / 3
    assert ranking(attempts)[0].options["lr"] == pytest.approx(0.1, rel=0.3)
    assert importances(SPACE, attempts)["lr"] > importances(SPACE, attempts)["kind"]
    assert importances(SPACE, attempts[:5]) == {}


def test_what_is_impossible_or_was_tried_is_not_proposed() -> None:
    pytest.importorskip("optuna")
    space = {"kind": Choice(values=("a", "b", "c"))}
    tried = [attempt(0, 2.0, kind="a")]
    assert propose(space, tried, seed=0, is_possible=lambda o: o["kind"] != "b") == {"kind": "c"}
    assert propose(space, tried, seed=0, is_possible=lambda _: False) is None


# add-one takes no discounts, so a unigram's tables hold what it cannot be
SEARCHED = [name for name, e in MODELS.items() if e.config.rpartition(":")[2] in SPACES and name != "unigram"]


@pytest.mark.parametrize("name", SEARCHED)
def test_every_value_of_a_space_is_one_of_a_model(name: str) -> None:
    spec = parse_spec(name)
    default = model_facts(spec).options
    for option, dimension in space_of(spec, default).items():
        assert dimension.holds(default[option])
        values = dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
        for value in values:
            assert model_facts(parse_spec(with_options(spec, {option: value}))).options[option] == value


def test_what_is_fixed_is_not_searched() -> None:
    spec = parse_spec("ngram:order=7")
    space = space_of(spec, model_facts(spec).options)
    assert "order" not in space
    assert "order" not in space_of(parse_spec("kn5"), model_facts(parse_spec("kn5")).options)
    with pytest.raises(SpaceError, match="'order' is fixed in the model"):
        space_of(spec, model_facts(spec).options, only=["order"])
    with pytest.raises(SpaceError, match="Did you mean 'cutoffs'"):
        space_of(spec, model_facts(spec).options, only=["cutofs"])
    with pytest.raises(SpaceError, match="no search space for zstd"):
        space_of(parse_spec("zstd"), {})


def test_a_space_holds_the_default_whatever_that_is() -> None:
    spec = parse_spec("lstm-scratch:recipe=textbook")
    default = model_facts(spec).options
    space = space_of(spec, default)
    assert default["lr"] == 1.0
    assert all(space[name].holds(default[name]) for name in space)


@pytest.mark.parametrize("k", range(30))
def test_a_place_is_the_number_of_the_validation(k: int) -> None:
    train_s = 0.0
    for _ in range(k + 1):
        train_s = next_validation_s(train_s)
    assert place_of(train_s) == k
    assert place_of(train_s * 1.05) == k


def test_values_survive_the_text_of_a_spec() -> None:
    spec = parse_spec('ngram:order=3,cutoffs="1/1/2"')
    text = with_options(spec, {"order": 4, "prune": 1.5e-7, "interpolated": True, "k": None})
    assert text == "ngram:order=4,cutoffs=1/1/2,prune=1.5e-07,interpolated=true,k=none"
    assert resolve_config(parse_spec(text)).prune == 1.5e-7


BAD_ARGUMENTS = {
    "--trials 3": "Missing option '--model'",
    "--model lstn": "no model 'lstn'. Did you mean 'lstm-scratch'?",
    "--model kn5,bigram": "a search is for one model, got 'kn5,bigram'",
    "--model kn5 --search-seconds 0": "0 is not a finite number above 0",
    "--model kn5 --trials 0": "0 is not in the range",
    "--model ngram:order=3 --fix order=4": "'order' is given in --model too",
    "--model ngram --fix order": "'order' is not key=value",
    "--model ngram --fix ordr=4": "ngram has no option 'ordr'",
    "--model ngram --search ordr": "'ordr' is not among what is searched. Did you mean 'order'?",
    "--model kn5:discounts=exact --fix cutoffs=none": "everything of kn5:discounts=exact,cutoffs=none is fixed",
    "--model ngram:smoothing=sb": "scores of smoothing=sb are no distribution",
    "--model xz": "there is no search space for xz",
    "--model ngram --device cpu,cuda": "a search has one text and one device",
    "--model ngram --tokens char,byte": "a search has one text and one device",
    "--model ngram --valid a.txt": "--train is needed, got --valid alone",
    "--model ngram --resume --force": "--resume and --force exclude each other",
}


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS)
def test_bad_arguments_end_with_2_and_one_line(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)

    def ask(asked: Any) -> Answer:
        found = answer(asked.question.model_copy(update={"corpora": ()}))
        if found.error is not None:
            raise SpecError(found.error)
        return found.model_copy(update={"facts": (None,)})

    monkeypatch.setattr(searching, "ask", ask)
    assert tune.main(arguments.split()) == 2
    errors = capsys.readouterr().err
    assert BAD_ARGUMENTS[arguments] in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_the_space_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune.main(["--model", "ngram:order=3", "--list-space"]) == 0
    told = capsys.readouterr().out
    assert "What is searched for ngram:order=3" in told
    assert "mkn, kn, ad, wb, jm, katz" in told


def test_a_folder_that_a_newer_version_wrote_is_left_alone(
    search: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(Told(by_order), "--trials", "1") == 0
    path = tmp_path / "out" / "tune.json"
    text = path.read_text(encoding="utf-8").replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
    path.write_text(text, encoding="utf-8")
    assert search(Told(by_order), "--resume") == 2
    assert "was written by a newer version" in capsys.readouterr().err
    path.write_text("{", encoding="utf-8")
    with pytest.raises(Exception, match="cannot be read"):
        SearchStore(tmp_path / "out", mode="resume").search()


@pytest.mark.whole
def test_a_search_in_processes_loads_nothing_heavy_in_its_own(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    script = (
        "import sys; from bench import tune; status = tune.main(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(status)"
    )
    arguments = ["--model", "bigram", "--corpus", str(text), "--trials", "2", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(tune.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert not {"torch", "pandas", "matplotlib", "numba", "sqlalchemy"} & set(done.stderr.splitlines()[-1].split())
    first, second = (attempt.trainings[0] for attempt in attempts_in(tmp_path / "out"))
    assert (first.trial.model, second.trial.model.partition(":")[0]) == ("bigram", "bigram")
    assert first.trial.options != second.trial.options
    assert first.memory is not None
    assert recipe_in(tmp_path / "out")["found"]["corpus"] == "a text.txt"
    assert str(tmp_path) not in (tmp_path / "out" / "tune.json").read_text(encoding="utf-8")


def test_a_terminal_has_a_bar_and_the_same_lines() -> None:
    lines = []
    for is_terminal in (True, False):
        stream = io.StringIO()
        view = SearchView(Console(file=stream, force_terminal=is_terminal, width=100, highlight=False), 10.0)
        done = attempt(0, 2.5, order=3)
        with view.showing():
            moved = Moved(trial=make_trial(), phase="training", train_s=1.0, share=0.5, perplexity=3.0)
            view.moved(0, moved, used_s=5.0)
            view.tried(done, [done])
        assert ("searching" in stream.getvalue()) is is_terminal
        lines.append("[0] the recipe as it is: validation perplexity 2.5" in stream.getvalue())
    assert lines == [True, True]


def test_the_command_at_the_end_asks_for_the_same_text_and_limits(
    search: Callable[..., int], tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = Told(by_order)
    assert search(executor, "--trials", "1", "--tokens", "word", "--min-freq", "2", "--normalize", "lower") == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert line == (
        f"python -m bench.run --models ngram:recipe={tmp_path / 'out' / 'recipe.json'} --corpus '{text}' "
        "--tokens word --normalize lower --documents line --min-freq 2"
    )
