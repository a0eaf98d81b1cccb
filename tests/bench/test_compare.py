"""Two runs side by side: what is compared, what is refused, and what counts as a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from bench.comparing.comparison import compare_runs
from bench.comparing.judging import LEGEND
from bench.comparing.pairing import paired
from bench.plan import QUICK_BUDGET_S
from bench.records import RULES_VERSION, CorpusFacts, CorpusSpec, Figure, TrialRecord
from bench.report.reading import read_run
from bench.report.rows import rows_of
from bench.stats import unpaired_test
from bench.student import LEVEL
from tests.bench.calling import called
from tests.bench.synthetic import ENVIRONMENT, facts, failed, ok, repeats, trial, write

Judged = dict[str, tuple[str, str]]


def two(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], **changes: Any) -> tuple[Path, Path]:
    return write(tmp_path / "a", before), write(tmp_path / "b", after, **changes)


def judged(tmp_path: Path, before: TrialRecord | list[TrialRecord], after: TrialRecord | list[TrialRecord]) -> Judged:
    """Judgement and remark of each figure, of runs of one row."""
    runs = [[records] if isinstance(records, TrialRecord) else records for records in (before, after)]
    found = compare_runs(*two(tmp_path, *runs))
    assert found.refusals == []
    return {change.metric: (change.judgement, change.remark) for change in found.changes}


@pytest.mark.parametrize(("after", "judgement"), [(4.4, "same"), (4.0, "better"), (5.0, "worse")])
def test_perplexity_is_judged_by_the_paired_test(tmp_path: Path, after: float, judgement: str) -> None:
    found = judged(tmp_path, ok(trial("kn5"), 4.4), ok(trial("kn5"), after))
    assert found["test perplexity"] == (judgement, "")


def test_another_seed_of_the_same_recipe_is_noise(tmp_path: Path) -> None:
    before, after = (ok(trial("mlp", seed=seed), 4.4) for seed in (0, 1))
    assert judged(tmp_path, before, after)["test perplexity"] == ("within noise", "")


def test_of_one_seed_the_trained_models_are_judged_and_that_is_said(tmp_path: Path) -> None:
    found = judged(tmp_path, ok(trial("mlp"), 4.4), ok(trial("mlp"), 5.0))
    assert found["test perplexity"] == ("worse", "one seed")


def test_of_a_model_that_is_read_no_seed_is_told(tmp_path: Path) -> None:
    read = [ok(trial("hf"), level, measures={"absent": {"train_s": "it is read"}}) for level in (4.4, 5.0)]
    assert judged(tmp_path, *read)["test perplexity"] == ("worse", "")


@pytest.mark.parametrize("n_blocks", [1, 3, 50])
def test_what_becomes_infinite_is_worse_however_few_blocks_say_so(tmp_path: Path, n_blocks: int) -> None:
    finite, infinite = ok(trial("kn5"), 4.4), ok(trial("kn5"), 4.4, infinite_blocks=n_blocks)
    assert judged(tmp_path / "there", finite, infinite)["test perplexity"] == ("worse", "")
    assert judged(tmp_path / "back", infinite, finite)["test perplexity"] == ("better", "")
    assert judged(tmp_path / "both", infinite, infinite)["test perplexity"] == ("same", "")


def test_with_several_seeds_their_spread_is_part_of_the_noise(tmp_path: Path) -> None:
    # the same shift of 0.1 between two runs: far more than the seeds of the first differ, less than those of the second
    alike, apart = ([4.4, 4.401, 4.402], [4.3, 4.6, 4.9])
    for name, levels, judgement in (("alike", alike, "worse"), ("apart", apart, "within noise")):
        runs = [[ok(trial("mlp", seed=n), level + shift) for n, level in enumerate(levels)] for shift in (0, 0.1)]
        assert judged(tmp_path / name, *runs)["test perplexity"] == (judgement, "")


def test_blocks_that_differ_make_no_test(tmp_path: Path) -> None:
    found = judged(tmp_path, ok(trial("kn5"), 4.4), ok(trial("kn5"), 5.0, n_blocks=50))
    assert found["test perplexity"] == ("not judged", "no paired test")


def timed(
    us: float, seed: int = 0, *, model: str = "mlp", load: float = 0.5, memory_mib: int = 60, **changes: Any
) -> TrialRecord:
    machine = ENVIRONMENT.model_copy(update={"load_1min": load})
    measures = {"next_token_us": repeats(us), "eval_tokens_per_s": repeats(1e6 / us)}
    return ok(
        trial(model, seed=seed, **changes),
        4.4,
        memory_mib=memory_mib,
        measures=measures,
        changes={"environment": machine},
    )


def test_one_process_each_is_not_judged_however_far_apart(tmp_path: Path) -> None:
    found = judged(tmp_path, timed(25.0, model="kn5"), timed(60.0, model="kn5"))
    assert found["next token, µs"] == found["scoring tokens/s"] == ("not judged", "one process")
    assert found["memory above baseline"] == ("same", "")


def test_one_process_against_several_is_not_judged(tmp_path: Path) -> None:
    found = judged(tmp_path, timed(25.0), [timed(60.0 + seed, seed) for seed in range(5)])
    assert found["next token, µs"] == ("not judged", "one process")


@pytest.mark.parametrize(
    ("before", "after", "judgement"),
    [
        ([25.0, 25.5, 26.0, 25.2, 25.8], [60.0, 61.0, 62.0, 60.5, 61.5], "worse"),
        ([60.0, 61.0, 62.0, 60.5, 61.5], [25.0, 25.5, 26.0, 25.2, 25.8], "better"),
        # tenfold with a wide spread: ratios show it, where times and rates as they are do not
        ([22.0, 40.0, 48.0], [406.0, 468.0, 897.0], "worse"),
        # apart by chance: two and two are so in one of three orders
        ([25.0, 30.0], [31.0, 36.0], "within noise"),
        # from 25 to 60 within either run
        ([25.0, 60.0, 30.0, 50.0, 40.0], [60.0, 45.0, 26.0, 55.0, 35.0], "within noise"),
    ],
)
def test_speed_is_judged_over_processes(
    tmp_path: Path, before: list[float], after: list[float], judgement: str
) -> None:
    runs = [[timed(us, seed) for seed, us in enumerate(values)] for values in (before, after)]
    found = judged(tmp_path, *runs)
    # a rate is the reciprocal of a time: what is slower has fewer tokens a second
    assert found["next token, µs"] == found["scoring tokens/s"] == (judgement, "")


def test_many_figures_are_corrected_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    values_RxNxS = 30 * np.exp(rng.normal(0, 0.2, (2, 60, 3)))
    runs = [
        [timed(us, seed, model=f"net{n}") for n, of_net in enumerate(of_run) for seed, us in enumerate(of_net)]
        for of_run in values_RxNxS.tolist()
    ]
    # all are of one distribution, and some of so many nets look different by chance
    alone = [unpaired_test(*np.log(values_RxNxS[:, n]).tolist()).p or 0.0 for n in range(60)]
    assert min(alone) < LEVEL
    judgements = Counter(change.judgement for change in compare_runs(*two(tmp_path, *runs)).changes)
    assert judgements["better"] == judgements["worse"] == 0
    assert judgements["within noise"] >= 120


@pytest.mark.parametrize("busy", [0, 1])
def test_times_of_a_busy_machine_are_not_judged(tmp_path: Path, busy: int) -> None:
    loads = [0.5, 0.5]
    loads[busy] = 9.0
    runs = [[timed(us + seed, seed, load=load) for seed in range(3)] for us, load in zip((25, 60), loads, strict=True)]
    found = judged(tmp_path, *runs)
    assert found["next token, µs"] == ("not judged", "busy machine")


def test_a_busy_machine_changes_no_size(tmp_path: Path) -> None:
    runs = [[timed(25.0, seed, load=9.0, memory_mib=mib + seed) for seed in range(5)] for mib in (60, 90)]
    assert judged(tmp_path, *runs)["memory above baseline"] == ("worse", "")


def test_what_neither_run_has_is_left_out(tmp_path: Path) -> None:
    no_file = {"model_bytes": Figure.of(None, "it is not written to files")}
    found = judged(tmp_path, *[ok(trial("kn5"), 4.4, measures=no_file) for _ in range(2)])
    assert "model size" not in found


def test_a_perplexity_after_seconds_on_a_busy_machine_says_so(tmp_path: Path) -> None:
    free, busy = (timed(25.0, load=load, budget_s=0.3) for load in (0.5, 9.0))
    worse = busy.model_copy(update={"measured": ok(trial("mlp"), 5.0).measured})
    assert judged(tmp_path, free, worse)["test perplexity"] == ("worse", "one seed, busy machine")


def test_seconds_that_were_given_are_not_judged(tmp_path: Path) -> None:
    def trained(seconds: float, **changes: Any) -> list[TrialRecord]:
        return [
            ok(trial("mlp", seed=seed, **changes), 4.4, changes={"train_s": seconds + seed / 100}) for seed in range(3)
        ]

    by_budget = judged(tmp_path / "budget", trained(15.0, budget_s=15.0), trained(15.1, budget_s=15.0))
    by_steps = judged(tmp_path / "steps", trained(15.0, max_steps=9), trained(15.1, max_steps=9))
    assert by_budget["training"] == ("not judged", "set by the budget")
    assert by_steps["training"] == ("worse", "")


def test_memory_is_judged_over_processes(tmp_path: Path) -> None:
    def sized(mib: Sequence[int]) -> list[TrialRecord]:
        return [ok(trial("mlp", seed=seed), 4.4, memory_mib=n) for seed, n in enumerate(mib)]

    assert judged(tmp_path / "a", sized([60, 60, 60]), sized([90, 90, 90]))["memory above baseline"] == ("worse", "")
    # all within the imports: 0 bytes above them, and nothing to take a share of
    found = judged(tmp_path / "b", sized([40, 40, 40]), sized([60, 60, 60]))
    assert found["memory above baseline"] == ("not judged", "no ratio")


def test_what_is_the_same_needs_no_test(tmp_path: Path) -> None:
    assert set(judged(tmp_path, ok(trial("mlp"), 4.4), ok(trial("mlp"), 4.4)).values()) == {("same", "")}


def test_the_ratio_is_the_second_by_the_first(tmp_path: Path) -> None:
    found = compare_runs(*two(tmp_path, [timed(25.0)], [timed(60.0)]))
    # 60 / 25
    assert {change.metric: change.ratio for change in found.changes}["next token, µs"] == 2.4
    none = compare_runs(
        *two(tmp_path / "none", [ok(trial("kn5"), 4.4, memory_mib=40)], [ok(trial("kn5"), 4.4, memory_mib=60)])
    )
    assert {change.metric: change.ratio for change in none.changes}["memory above baseline"] is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "cd" * 32}, "another text"),
        ({"vocab_fingerprint": "beef"}, "another vocabulary"),
    ],
)
def test_unlike_rows_are_refused_with_the_reason(tmp_path: Path, change: dict[str, str], why: str) -> None:
    other = facts(**change)
    same = ok(trial("bigram"), 9.0)
    folders = two(
        tmp_path,
        [ok(trial("kn5"), 4.4), same],
        [ok(trial("kn5", corpus=other), 4.4, corpus=other), same],
        corpora=(facts(), other),
    )
    found = compare_runs(*folders)
    assert {change.row.model for change in found.changes} == {"bigram"}
    assert len(found.refusals) == 1
    assert why in found.refusals[0].reason


def test_other_rules_are_refused(tmp_path: Path) -> None:
    newer = ok(trial("kn5"), 4.4, changes={"rules_version": RULES_VERSION + 1})
    found = compare_runs(*two(tmp_path, [ok(trial("kn5"), 4.4)], [newer], rules_version=RULES_VERSION + 1))
    assert [refusal.reason for refusal in found.refusals] == [
        "the second run has another version of the rules of measuring"
    ]


READ_OTHERWISE = {
    "documents": ({"documents": "line"}, "another cut into documents"),
    "normaliser": ({"normalize": "none"}, "another normaliser"),
    "tokens of another text": (
        {"tokenizer": "word", "vocab_fingerprint": "beef", "sha256": "cd" * 32},
        "another text, another vocabulary and another tokenizer",
    ),
}


@pytest.mark.parametrize("case", sorted(READ_OTHERWISE))
def test_a_text_that_was_read_in_another_way_is_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    changes, why = READ_OTHERWISE[case]
    other = facts(**changes)
    found = compare_runs(*two(tmp_path, [ok(trial("kn5"), 4.4)], [ok(trial("kn5", corpus=other), 4.4, corpus=other)]))
    assert [(refusal.row is None, refusal.reason) for refusal in found.refusals] == [
        (False, f"the second run has {why}")
    ]


def test_a_share_of_the_training_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    runs = [[ok(trial("kn5", train_fraction=share), 4.4)] for share in (1.0, 0.5)]
    (refusal,) = compare_runs(*two(tmp_path, *runs)).refusals
    assert refusal.reason == "the second run has another share of the training text"


def test_a_failure_under_other_tokens_is_told_as_one(tmp_path: Path) -> None:
    words = facts(tokenizer="word", vocab_fingerprint="beef")
    late = failed(trial("kn5", corpus=words), "timed_out", "after 9 s", corpus=words)
    (refusal,) = compare_runs(*two(tmp_path, [ok(trial("kn5"), 4.4)], [late])).refusals
    assert refusal.reason == "timed_out in the second run (after 9 s)"


@given(
    sides=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 3])), max_size=6, unique=True),
        min_size=2,
        max_size=2,
    )
)
def test_what_both_runs_have_is_compared_whatever_else_they_have(
    tmp_path_factory: pytest.TempPathFactory, sides: list[list[tuple[str, int]]]
) -> None:
    """Texts of one name, each read in several ways that its name does not tell."""
    folder = tmp_path_factory.mktemp("runs")
    runs = []
    for name, cells in zip("ab", sides, strict=True):
        texts = [facts("x.txt", sha256=sign * 64, min_freq=n, vocab_fingerprint=f"{sign}{n}") for sign, n in cells]
        specs = [trial("kn5", corpus=text, trial_id=text.vocab_fingerprint) for text in texts]
        specs = [
            spec.model_copy(update={"corpus": CorpusSpec(name="x.txt", min_freq=text.min_freq)})
            for spec, text in zip(specs, texts, strict=True)
        ]
        records = [ok(spec, 4.4, corpus=text) for spec, text in zip(specs, texts, strict=True)]
        runs.append(rows_of(read_run(write(folder / name, records, corpora=tuple(texts)))))
    pairs = paired(*runs)
    compared = {(row.group.sha256[0], int(row.group.vocab_fingerprint[1])) for row, _ in pairs.couples}
    assert compared == set(sides[0]) & set(sides[1])
    assert len(pairs.couples) + sum(refusal.row is not None for refusal in pairs.refusals) == len(sides[0])


def test_failures_and_rows_of_one_run_only_are_named(tmp_path: Path) -> None:
    before = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0), ok(trial("bigram"), 9.0)]
    after = [ok(trial("kn5"), 4.4), failed(trial("mlp"), "diverged", "at step 3"), ok(trial("unigram"), 17.0)]
    refusals = compare_runs(*two(tmp_path, before, after)).refusals
    assert [refusal.reason for refusal in refusals] == [
        "diverged in the second run (at step 3)",
        "only in the first run",
        "only in the second run",
    ]


def test_the_command(tmp_path: Path) -> None:
    a, b = two(tmp_path, [ok(trial("kn5[x]"), 4.4)], [ok(trial("kn5[x]"), 4.0), ok(trial("mlp"), 4.0)])
    done = called(a, b)
    assert done.exit_code == 0
    assert "kn5[x]" in done.stdout
    assert "not compared: mlp on cpu, genesis" in done.stdout
    assert "better" in done.stdout


def said(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], **changes: Any) -> list[str]:
    done = called(*two(tmp_path, before, after, **changes))
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_judgements_and_remarks_are_explained_where_they_occur(tmp_path: Path) -> None:
    lines = said(tmp_path, [timed(25.0)], [timed(60.0).model_copy(update={"measured": ok(trial("mlp"), 9.0).measured})])
    explained = [line.split(": ")[0] for line in lines if line.split(": ")[0] in LEGEND]
    assert explained == ["worse", "same", "one seed", "one process"]


def test_the_conditions_of_both_runs_are_told(tmp_path: Path) -> None:
    quick = [timed(25.0, quick=True, budget_s=QUICK_BUDGET_S)]
    lines = said(tmp_path, quick, [timed(60.0, load=9.0)], threads=2)
    told = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
    assert [line for line in told if line.startswith("first run: a quick run")]
    assert [line for line in told if line.startswith("second run: the machine was busy (load 9.0 on 2 cores)")]


def test_runs_under_equal_and_quiet_conditions_have_no_warnings(tmp_path: Path) -> None:
    lines = said(tmp_path, [timed(25.0)], [timed(60.0)])
    assert not [line for line in lines if line.startswith("warning: ")]


def test_the_help_names_the_exit_statuses() -> None:
    text = " ".join(called("--help").stdout.split())
    assert "Exit status: 0 the runs were compared, whatever changed, and no --fail-on was met; 1 a --fail-on" in text


def test_each_text_has_a_heading_and_a_table_of_its_own(tmp_path: Path) -> None:
    char, word = facts(), facts(tokenizer="word", documents="line", vocab_fingerprint="beef")
    specs = [
        trial("kn5", corpus=c, trial_id=c.tokenizer).model_copy(update={"corpus": spec_of(c)}) for c in (char, word)
    ]
    records = [ok(spec, 4.4, corpus=c) for spec, c in zip(specs, (char, word), strict=True)]
    a, b = two(tmp_path, records, records, corpora=(char, word))
    lines = called(a, b).stdout.splitlines()
    headings = [line for line in lines if line.startswith("On ")]
    assert headings == [
        "On genesis (char, normalised with letters, a document per file):",
        "On genesis (word, normalised with letters, a document per line):",
    ]
    for heading in headings:
        below = lines[lines.index(heading) + 1 :]
        assert "model" in below[1]
        assert "kn5" in below[3]


def spec_of(corpus: CorpusFacts) -> CorpusSpec:
    return CorpusSpec(name=corpus.name, tokens=corpus.tokenizer, documents=corpus.documents)


def test_a_file_of_trials_that_no_plan_knows_is_refused(tmp_path: Path) -> None:
    words = facts(tokenizer="word", vocab_fingerprint="beef")
    a, b = two(tmp_path, [ok(trial("kn5"), 4.4)], [ok(trial("kn5", corpus=words), 90.0, corpus=words)])
    for folder in (a, b):
        (folder / "trials" / "notes.json").write_text("{}", encoding="utf-8")
    done = called(a, b)
    assert done.exit_code == 0
    assert "not compared: notes on cpu, genesis" in done.stdout


def test_a_fault_of_measuring_is_told_first(tmp_path: Path) -> None:
    source = facts(entropy_nats=3.0, n_test_oov=4_000)
    impossible = [ok(trial("kn5"), 4.4, corpus=source)]
    first, *others = [
        line for line in said(tmp_path, impossible, impossible, warnings=("a lock",)) if line.startswith("warning: ")
    ]
    assert first.startswith("warning: first run and second run: WRONG: kn5 scored below the entropy of the source")
    # what both runs share is told once
    assert [line.split(":")[1] for line in others] == [" first run and second run", " second run"]
    assert "of the test tokens are out of vocabulary" in others[0]
    assert others[1] == "warning: second run: a lock"


def test_errors_that_steer_a_terminal_are_spelt_out(tmp_path: Path) -> None:
    done = called(*two(tmp_path, [ok(trial("\x1b[2Jmlp"), 4.4)], [ok(trial("kn5"), 4.4)]))
    assert done.exit_code == 2
    assert "\x1b" not in done.stderr
    assert "\\x1b[2Jmlp" in done.stderr


def test_what_is_no_run_ends_with_one_line_and_exit_2(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [ok(trial("kn5"), 4.4)])
    done = called(a, tmp_path / "nothing")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1


def test_texts_that_share_a_name_are_each_compared_with_themselves(tmp_path: Path) -> None:
    texts = [facts("x.txt", sha256=letter * 64) for letter in "ab"]
    records = [
        ok(trial("kn5", corpus=text, trial_id=f"of-{place}"), 4.0 + place, corpus=text)
        for place, text in enumerate(texts)
    ]
    run = write(tmp_path, records)
    found = compare_runs(run, run)
    assert found.refusals == []
    assert {change.judgement for change in found.changes if change.metric == "test perplexity"} == {"same"}


def test_that_a_name_stands_for_other_files_is_told_once(tmp_path: Path) -> None:
    def of(**options: str) -> list[TrialRecord]:
        return [ok(trial("kn5", options=options, seed=seed), 4.4) for seed in range(2)]

    file = said(tmp_path / "file", of(sha256="a" * 64), of(sha256="b" * 64))
    assert [line for line in file if line.startswith("warning: ")] == [
        "warning: kn5: the runs differ in the file or folder that it is read from: sha256 aaaaaaaaaaaa… and "
        "bbbbbbbbbbbb…"
    ]
    code = of(packages_sha256="c" * 64)
    changed = said(tmp_path / "code", code, of(packages_sha256="d" * 64))
    assert "the runs differ in the code of the package it comes from: sha256 cccccccccccc… and " in " ".join(changed)
    assert not [line for line in said(tmp_path / "same", code, code) if line.startswith("warning: ")]


TURNED = {"better": "worse", "worse": "better"}


@given(levels=st.lists(st.tuples(st.floats(2, 20), st.floats(2, 20)), min_size=1, max_size=3))
def test_the_other_way_round_every_judgement_is_turned_round(
    tmp_path_factory: pytest.TempPathFactory, levels: list[tuple[float, float]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        write(folder / name, [ok(trial(f"net{n}"), pair[side]) for n, pair in enumerate(levels)])
        for side, name in enumerate("ab")
    ]
    there, back = compare_runs(*runs), compare_runs(*runs[::-1])
    for one, other in zip(there.changes, back.changes, strict=True):
        assert (other.key, other.before, other.after) == (one.key, one.after, one.before)
        assert other.judgement == TURNED.get(one.judgement, one.judgement)
