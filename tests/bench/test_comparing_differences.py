"""What two runs were asked and where they were made, as far as it differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.comparing.comparison import compare_runs
from bench.comparing.differences import Difference, configuration_differences, environment_differences
from bench.records import Environment, TrialRecord
from bench.report.reading import Run, read_run
from lmzoo.catalogue import PACKAGES_SHA256
from tests.bench.synthetic import ENVIRONMENT, facts, ok, trial, usual, write

pytestmark = pytest.mark.plain

Told = dict[str, tuple[str, str]]


def runs(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], **of_second: Any) -> tuple[Run, Run]:
    return read_run(write(tmp_path / "a", before)), read_run(write(tmp_path / "b", after, **of_second))


def told(differences: list[Difference]) -> Told:
    found = {difference.what: (difference.before, difference.after) for difference in differences}
    # each once
    assert len(found) == len(differences)
    return found


def configuration(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], **of_second: Any) -> Told:
    return told(configuration_differences(runs(tmp_path, before, after, **of_second)))


def on(machine: Environment, **spec: Any) -> list[TrialRecord]:
    return [ok(trial("kn5", **spec), 4.4, changes={"environment": machine})]


def test_a_run_does_not_differ_from_itself(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, usual(seeds=2)))
    assert configuration_differences((run, run)) == []
    assert environment_differences((run, run)) == []


def test_models_that_one_run_lacks_are_named_and_nothing_else_is_said_of_them(tmp_path: Path) -> None:
    before = [ok(trial("kn5"), 4.4), ok(trial("mlp", budget_s=15.0, options={"hidden": 8}), 5.0)]
    after = [ok(trial("kn5"), 4.4), ok(trial("unigram"), 17.0)]
    assert configuration(tmp_path, before, after) == {"models that the other run lacks": ("mlp", "unigram")}


def test_budgets_seeds_threads_and_limits(tmp_path: Path) -> None:
    before = [ok(trial("mlp", budget_s=15.0), 5.0)]
    limits = {"budget_s": 60.0, "max_steps": 2000, "time_limit_s": 900.0, "memory_limit_bytes": 2**30}
    after = [ok(trial("mlp", seed=seed, **limits), 5.0) for seed in (0, 1)]
    assert configuration(tmp_path, before, after, threads=2, executor="ray", quick=True) == {
        "training of each network": ("15 s", "60 s or 2,000 steps"),
        "seeds of each network": ("0", "0, 1"),
        "quick run": ("no", "yes"),
        "executor": ("local", "ray"),
        "threads per trial": ("1", "2"),
        "time limit of each trial": ("none", "900 s"),
        "memory limit of each trial": ("none", "1.00 GiB"),
    }


def test_how_a_text_was_read(tmp_path: Path) -> None:
    other = facts(documents="line", min_freq=2, sha256="cd" * 32, vocab_fingerprint="beef", n_symbols=30)
    before, after = [ok(trial("kn5"), 4.4)], [ok(trial("kn5", corpus=other), 4.4, corpus=other)]
    assert configuration(tmp_path, before, after) == {
        "sha256 of genesis": ("abababababab", "cdcdcdcdcdcd"),
        "documents of genesis": ("file", "line"),
        "min_freq of genesis": ("1", "2"),
        "vocabulary of genesis": ("28 symbols (f00d)", "30 symbols (beef)"),
    }


def test_a_text_that_was_read_in_several_ways_has_all_of_them(tmp_path: Path) -> None:
    words = facts(tokenizer="word", n_train_tokens=30_000)
    both = [ok(trial("kn5"), 4.4), ok(trial("kn5", trial_id="w"), 90.0, corpus=words)]
    found = configuration(tmp_path, both[:1], both, corpora=(facts(), words))
    assert found == {
        "tokens of genesis": ("char", "char; word"),
        "tokens in training, validation, test of genesis": (
            "160,000 / 20,000 / 20,000",
            "160,000 / 20,000 / 20,000; 30,000 / 20,000 / 20,000",
        ),
    }


def test_texts_that_one_run_lacks(tmp_path: Path) -> None:
    another = facts("kjv", sha256="ef" * 32)
    both = [ok(trial("kn5"), 4.4), ok(trial("kn5", corpus=another, trial_id="k"), 4.4, corpus=another)]
    found = configuration(tmp_path, both, both[:1], corpora=(facts(),))
    assert found == {"texts that the other run lacks": ("kjv", "none")}


def test_one_change_of_many_models_stands_once(tmp_path: Path) -> None:
    def networks(**options: Any) -> list[TrialRecord]:
        return [ok(trial(f"net{n}", options=options), 5.0) for n in range(6)]

    before = networks(output_bias="zero", clip=None, tied=False)
    after = networks(output_bias="unigram", clip=0.25, tied=False, new=1)
    assert configuration(tmp_path, before, after) == {
        "output_bias of net0, net1, net2, net3 and 2 more": ("zero", "unigram"),
        "clip of net0, net1, net2, net3 and 2 more": ("none", "0.25"),
        "new of net0, net1, net2, net3 and 2 more": ("not there", "1"),
    }


def test_options_with_several_values_in_a_run_have_all_of_them(tmp_path: Path) -> None:
    before = [ok(trial("kn5", options={"order": 5}), 4.4)]
    after = [*before, ok(trial("kn5", seed=1, options={"order": 4}), 4.4)]
    assert configuration(tmp_path, before, after) == {"order of kn5": ("5", "5, 4")}


@pytest.mark.parametrize("option", ["sha256", PACKAGES_SHA256])
def test_what_is_told_as_another_file_is_told_once(tmp_path: Path, option: str) -> None:
    files = [[ok(trial("kn5", options={option: letter * 64}), 4.4)] for letter in "ab"]
    found = compare_runs(write(tmp_path / "a", files[0]), write(tmp_path / "b", files[1]))
    assert found.configuration == []
    assert len(found.notices) == 1


def test_machine_libraries_code_and_load(tmp_path: Path) -> None:
    other = ENVIRONMENT.model_copy(
        update={
            "cpu_model": "another processor",
            "python": "3.12.1",
            "versions": {"numpy": "2.2.0", "torch": "2.6"},
            "git_commit": "fedcba9876543210",
            "git_dirty": True,
            "load_1min": 1.26,
            "gpu": "a GPU",
            "thread_variables": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        }
    )
    found = runs(tmp_path, on(ENVIRONMENT, code_sha256="a" * 64), on(other, code_sha256="b" * 64))
    assert told(environment_differences(found)) == {
        "processor": ("a processor", "another processor"),
        "GPU": ("none", "a GPU"),
        "Python": ("3.11.9", "3.12.1"),
        "commit": ("0123456789ab", "fedcba987654 with uncommitted changes"),
        "sources (sha256)": ("aaaaaaaaaaaa", "bbbbbbbbbbbb"),
        "numpy": ("2.1.0", "2.2.0"),
        "torch": ("none", "2.6"),
        # threads are told as configuration
        "OMP_WAIT_POLICY": ("none", "PASSIVE"),
        "load while trials ran": ("0.5", "1.3"),
    }


def test_a_run_without_environments_in_its_records_has_that_of_the_run(tmp_path: Path) -> None:
    bare = [ok(trial("kn5"), 4.4, changes={"environment": None})]
    found = runs(tmp_path, bare, bare, environment=ENVIRONMENT.model_copy(update={"cpu_model": "another processor"}))
    assert told(environment_differences(found)) == {"processor": ("a processor", "another processor")}


def test_trials_of_several_machines_tell_of_all_of_them(tmp_path: Path) -> None:
    other = ENVIRONMENT.model_copy(update={"cpu_model": "another processor"})
    second = [*on(ENVIRONMENT), ok(trial("bigram"), 9.0, changes={"environment": other})]
    found = runs(tmp_path, on(ENVIRONMENT), second)
    assert told(environment_differences(found)) == {"processor": ("a processor", "a processor, another processor")}
