"""What a reader is warned of: busy machines, unknown tokens, known lines, quick runs, and where a warning came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.records import CorpusSpec, TrialRecord
from bench.report import notices, plots
from bench.report.build import build_report
from tests.bench.synthetic import ENVIRONMENT, facts, ok, trial, write


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are tested here, and plots take most of a report's time."""
    monkeypatch.setattr(plots, "PLOTS", {})


def on_load(model: str, load: float | None, **changes: Any) -> TrialRecord:
    machine = ENVIRONMENT.model_copy(update={"load_1min": load})
    return ok(trial(model, **changes), 4.4, changes={"environment": machine})


def report_of(folder: Path) -> str:
    build_report(folder)
    return (folder / "report.md").read_text(encoding="utf-8")


def test_load_above_the_number_of_cores_names_models_and_load() -> None:
    records = [on_load("kn5", 2.0), on_load("mlp", 2.31), on_load("mlp", 7.04, seed=1), on_load("rnn", 3.5)]
    (notice,) = notices.about_load([*records, on_load("bigram", None)])
    assert "load 3.5 to 7.0 on 2 cores" in notice
    assert "during mlp and rnn:" in notice
    assert notices.about_load(records[:1]) == []


def test_machines_of_several_sizes_are_told_of_one_by_one() -> None:
    small, large = on_load("kn5", 3.0), on_load("mlp", 70.0)
    assert large.environment is not None
    machine = large.environment.model_copy(update={"n_cpus_usable": 64, "n_cpus": 64})
    found = notices.about_load([large.model_copy(update={"environment": machine}), small])
    assert [notice.split(":")[0] for notice in found] == [
        "the machine was busy (load 70.0 on 64 cores) during mlp",
        "the machine was busy (load 3.0 on 2 cores) during kn5",
    ]


def test_the_load_is_the_whole_machines_also_beside_a_trial_that_has_one_cpu_of_it() -> None:
    record = on_load("kn5", 3.0)
    assert record.environment is not None
    for n_cpus, n_notices in ((4, 0), (2, 1)):
        machine = record.environment.model_copy(update={"n_cpus_usable": 1, "n_cpus": n_cpus})
        assert len(notices.about_load([record.model_copy(update={"environment": machine})])) == n_notices


def test_the_report_shows_load_in_warnings_and_provenance(tmp_path: Path) -> None:
    text = report_of(write(tmp_path, [on_load("kn5", 0.5), on_load("mlp", 7.04)]))
    warnings, provenance = text.split("## Warnings")[1].split("## Provenance")
    assert "load 7.0 on 2 cores" in warnings
    assert "0.5 to 7.0 (mean of a minute)" in provenance


@pytest.mark.parametrize(("n_oov", "warned"), [(0, False), (49, False), (50, True), (250, True)])
def test_unknown_tokens_are_warned_of_from_five_percent_on(n_oov: int, warned: bool) -> None:
    found = notices.about_texts([facts(n_test_oov=n_oov, n_test_tokens=1000)])
    assert len(found) == warned
    assert all(f"{n_oov / 10:.3g}" in notice and "compare 'without OOV' too" in notice for notice in found)


def test_a_text_without_tokens_has_no_share_of_unknown_ones() -> None:
    assert notices.oov_share(facts(n_test_tokens=0)) == 0


def test_overlap_stands_once_in_a_report(tmp_path: Path) -> None:
    text = report_of(write(tmp_path, [ok(trial("kn5"), 4.4)], corpora=(facts(test_overlap=0.123456),)))
    assert text.count("stand verbatim in the training text") == 1


def test_a_quick_run_is_marked_in_title_and_first_warning(tmp_path: Path) -> None:
    quick = ok(trial("mlp", quick=True, budget_s=0.3), 5.0, changes={"warnings": ("a model's own",)})
    title, warnings = report_of(write(tmp_path, [quick])).split("## Warnings")
    assert title.splitlines()[0].endswith("(quick: networks trained for 0.3 s only)")
    assert warnings.strip().startswith("- a quick run: neural networks were trained for 0.3 s only")


@pytest.mark.parametrize(
    "changes", [{"quick": True, "budget_s": 9.0}, {"quick": True, "max_steps": 9}, {"quick": False, "budget_s": 0.3}]
)
def test_a_quick_run_with_limits_of_its_own_is_none(changes: dict[str, Any]) -> None:
    assert not notices.is_quick([trial("mlp", **changes)])


def test_warnings_say_which_text_where_there_are_several() -> None:
    char, word = facts(), facts(tokenizer="word", vocab_fingerprint="beef")
    warned = {"warnings": ("order 5: discounts undefined",)}
    one, other = (ok(trial("kn5", corpus=c), 4.4, corpus=c, changes=warned) for c in (char, word))
    assert notices.of_models([one, one]) == ["kn5: order 5: discounts undefined"]
    assert notices.of_models([one, other]) == [
        "kn5 on genesis (char): order 5: discounts undefined",
        "kn5 on genesis (word): order 5: discounts undefined",
    ]


def test_warnings_say_on_how_much_text_where_it_was_a_part() -> None:
    changes = {"warnings": ("order 2: no n-gram has count 2",)}
    whole = ok(trial("kn5"), 4.4, changes=changes)
    part = ok(trial("kn5", train_fraction=0.25), 4.4, changes=changes)
    assert notices.of_models([whole, part]) == [
        "kn5: order 2: no n-gram has count 2",
        "kn5 on 1/4 of the training text: order 2: no n-gram has count 2",
    ]


def test_the_terminal_has_a_line_for_each_kind_of_warning_and_the_report_all() -> None:
    fixed = "the fixed discounts 0.5, 1.0, 1.5 are taken"
    found = [f"order {n}: the discount of count 3 would be -0.{n}; {fixed}" for n in (3, 4, 5)]
    records = [ok(trial(name), 4.4, changes={"warnings": tuple(found)}) for name in ("kn5", "a", "b", "c")]
    records[0] = records[0].model_copy(update={"warnings": (*found, f"order 2: no n-gram has count 4; {fixed}")})
    records.append(ok(trial("d"), 4.4, changes={"warnings": ("a word of its own",)}))
    assert len(notices.of_models(records)) == 5
    assert notices.of_models_in_brief(records) == [
        f"kn5, a, b and 1 more: {fixed} (13 such warnings, each in report.md)",
        "d: a word of its own",
    ]


def test_warnings_of_a_kind_without_an_end_in_common_are_told_by_the_first() -> None:
    said = ("x.arpa: declares 5 n-grams, 4 were read", "x.arpa: declares 9 n-grams, 7 were read")
    assert notices.of_models_in_brief([ok(trial("kn5"), 4.4, changes={"warnings": said})]) == [
        f"kn5: {said[0]}, and the like (2 such warnings, each in report.md)"
    ]


def test_a_few_unlike_warnings_are_told_as_they_are() -> None:
    records = [ok(trial("kn5"), 4.4, changes={"warnings": ("one thing", "another; with an end")})]
    assert notices.of_models_in_brief(records) == notices.of_models(records)


@pytest.mark.parametrize(("own", "n_notices"), [("none", 1), ("nfc", 0)])
def test_a_vocabulary_with_another_normaliser_is_told_of(own: str, n_notices: int) -> None:
    asked = CorpusSpec(name="genesis", normalize="nfc")
    read = facts(normalize=own, vocabulary_of="kenlm:sw.arpa")
    records = [
        ok(trial("trigram").model_copy(update={"corpus": asked}), 4.4, corpus=facts(normalize="nfc")),
        ok(trial("kenlm:sw.arpa").model_copy(update={"corpus": asked}), 4.4, corpus=read),
    ]
    found = notices.of_run([], [], records)
    assert len(found) == n_notices
    assert all("kenlm:sw.arpa read the text under the normaliser none" in notice for notice in found)
    assert all("normalize=nfc" in notice for notice in found)
