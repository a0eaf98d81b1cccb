"""`--fail-on`: what fails, what passes, and that nothing passes for want of a figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from bench.comparing.comparison import compare_runs
from bench.comparing.gate import Check, Tolerance, checked, loss_of, share_lost, threshold_of
from bench.comparing.metrics import METRICS
from bench.comparing.records import ComparisonRecord
from bench.records import Figure, TrialRecord
from bench.report.tables import SUMMARY_COLUMNS
from lmzoo.errors import InputError
from tests.bench.calling import Called, called
from tests.bench.synthetic import facts, failed, ok, repeats, trial, usual, write
from tests.bench.test_report_across import scored

pytestmark = pytest.mark.plain

POSITIVE = st.floats(1e-6, 1e9)
ANY = st.one_of(st.floats(0, 1e12), st.just(math.inf))
DIRECTIONS = st.booleans()


@given(POSITIVE, POSITIVE, DIRECTIONS)
def test_only_what_is_worse_is_lost(before: float, after: float, lower_is_better: bool) -> None:
    is_worse = after > before if lower_is_better else after < before
    assert (share_lost(before, after, lower_is_better=lower_is_better) > 0) == is_worse


@given(ANY, ANY, DIRECTIONS)
def test_a_loss_is_the_others_gain_and_always_a_number(before: float, after: float, lower_is_better: bool) -> None:
    loss = loss_of(before, after, lower_is_better=lower_is_better)
    assert loss == -loss_of(after, before, lower_is_better=lower_is_better)
    assert loss == -loss_of(before, after, lower_is_better=not lower_is_better)
    assert not math.isnan(loss)
    assert share_lost(before, after, lower_is_better=lower_is_better) >= 0


@given(POSITIVE, POSITIVE, POSITIVE, DIRECTIONS)
def test_the_worse_a_figure_the_more_is_lost(before: float, one: float, other: float, lower_is_better: bool) -> None:
    assume(one <= other)
    good, bad = (one, other) if lower_is_better else (other, one)
    shares = [share_lost(before, after, lower_is_better=lower_is_better) for after in (good, bad)]
    assert shares[0] <= shares[1]


@given(st.floats(1, 1e3), st.floats(1, 1e3), st.floats(1e-3, 1e3), DIRECTIONS)
def test_a_share_has_no_unit(before: float, after: float, unit: float, lower_is_better: bool) -> None:
    share = share_lost(before, after, lower_is_better=lower_is_better)
    other = share_lost(before * unit, after * unit, lower_is_better=lower_is_better)
    assert other == pytest.approx(share, rel=1e-9, abs=1e-9)


@given(st.sampled_from(sorted(METRICS)), st.floats(0, 1e6))
def test_a_threshold_says_what_was_typed(key: str, number: float) -> None:
    share, amount = threshold_of(f"{key}:{number!r}%"), threshold_of(f" {key} : +{number!r} ")
    assert (share.metric.key, share.most, share.is_share) == (key, number / 100, True)
    assert (amount.metric.key, amount.most, amount.is_share) == (key, number, False)


@pytest.mark.parametrize(
    "text",
    [
        "test_perplexity",
        "test_perplexity:",
        # a number alone could be meant either way
        "test_perplexity:1",
        "test_perplexity:-1%",
        "test_perplexity:one%",
        "test_perplexity:1.2.3%",
        "test_perplexity:1e999%",
        "test_perplexity:nan%",
        "test_perplexity:1%,model_bytes:1%",
        ":1%",
        "",
        "1%",
    ],
)
def test_what_is_no_threshold_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="such as test_perplexity:1%"):
        threshold_of(text)


@pytest.mark.parametrize("text", ["test_perplexit:1%", "test_perplexit:1"])
def test_an_unknown_figure_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError, match=r"no figure 'test_perplexit'\. Did you mean 'test_perplexity'.*n_params"):
        threshold_of(text)


def test_figures_are_columns_of_the_summary() -> None:
    assert set(METRICS) - set(SUMMARY_COLUMNS) == {"above_baseline_bytes"}


def check(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], text: str, **tolerance: bool) -> Check:
    threshold = threshold_of(text)
    runs = write(tmp_path / "a", before), write(tmp_path / "b", after)
    return checked(compare_runs(*runs, [threshold.metric.key]), threshold, Tolerance(**tolerance))


def one(perplexity: float, model: str = "kn5", **changes: Any) -> list[TrialRecord]:
    return [ok(trial(model), perplexity, **changes)]


# 4.5 / 4.4 = 1.0227; 4.5 - 4.4 = 0.1; the made-up nats have noise, which moves both figures alike
@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("test_perplexity:2.2%", True),
        ("test_perplexity:2.3%", False),
        ("test_perplexity:0%", True),
        ("test_perplexity:+0.09", True),
        ("test_perplexity:+0.12", False),
        # bits are logarithms of perplexity: log(4.5) / log(4.4) = 1.0152
        ("bits_per_char:1.4%", True),
        ("bits_per_char:1.6%", False),
        ("valid_perplexity:2%", True),
        ("model_bytes:0%", False),
    ],
)
def test_a_figure_fails_where_it_is_worse_by_more(tmp_path: Path, text: str, fails: bool) -> None:
    found = check(tmp_path, one(4.4), one(4.5), text)
    assert (bool(found.failures), found.n_compared) == (fails, 1)
    # the other way round it is better
    assert not check(tmp_path / "back", one(4.5), one(4.4), text).failures


def test_a_failure_is_a_sentence(tmp_path: Path) -> None:
    (sentence,) = check(tmp_path, one(4.4, "mlp"), one(5.5, "mlp"), "test_perplexity:1%").failures
    assert sentence.startswith("mlp on cpu, genesis (char, normalised with letters, a document per file): ")
    # 5.5 / 4.4 = 1.25
    assert sentence.endswith("worse by 25.0 %, more than 1.00 % (worse, one seed)")


def test_more_tokens_a_second_are_better(tmp_path: Path) -> None:
    slow, fast = ([ok(trial("kn5"), 4.4, measures={"eval_tokens_per_s": repeats(n)})] for n in (1e5, 2e5))
    assert not check(tmp_path / "up", slow, fast, "eval_tokens_per_s:0%").failures
    # half of them
    (sentence,) = check(tmp_path / "down", fast, slow, "eval_tokens_per_s:49%").failures
    assert "from 200 k to 100 k, worse by 50.0 %, more than 49.0 % (not judged, one process)" in sentence
    assert not check(tmp_path / "just", fast, slow, "eval_tokens_per_s:50%").failures


def test_every_row_is_held_against_it(tmp_path: Path) -> None:
    before, after = usual(), usual()
    after[3] = ok(after[3].trial, 4.6)
    found = check(tmp_path, before, after, "test_perplexity:1%")
    assert (found.n_compared, len(found.failures)) == (len(before), 1)
    assert found.failures[0].startswith("kn5 on cpu")
    assert found.sentence == "--fail-on test_perplexity:1%: 1 failure"


def test_a_run_is_never_worse_than_itself(tmp_path: Path) -> None:
    run = write(tmp_path, usual(seeds=2))
    comparison = compare_runs(run, run, list(METRICS))
    assert {change.judgement for change in comparison.changes} == {"same"}
    for key in METRICS:
        found = checked(comparison, threshold_of(f"{key}:0%"), Tolerance())
        has_any = any(change.key == key for change in comparison.changes)
        assert bool(found.failures) != has_any
        assert found.n_compared == (len(comparison.rows) if has_any else 0)


def test_a_worsening_within_noise_fails_unless_noise_is_allowed(tmp_path: Path) -> None:
    better, worse = sorted(
        ([ok(trial("mlp", seed=seed), 4.4)] for seed in (0, 1)), key=lambda records: nats_of(records[0])
    )
    found = check(tmp_path / "a", better, worse, "test_perplexity:0%")
    assert len(found.failures) == 1
    assert found.failures[0].endswith("(within noise)")
    assert not check(tmp_path / "b", better, worse, "test_perplexity:0%", noise=True).failures
    # what is more than noise fails all the same, and so does what no test has judged
    assert check(tmp_path / "c", one(4.4), one(5.0), "test_perplexity:0%", noise=True).failures
    assert check(tmp_path / "d", one(4.4), one(4.5), "valid_perplexity:0%", noise=True).failures
    # and what has become impossible, in however few blocks
    assert check(tmp_path / "e", one(4.4), one(4.4, infinite_blocks=1), "test_perplexity:1%", noise=True).failures


def nats_of(record: TrialRecord) -> float:
    assert record.measured is not None
    return record.measured.test.nll_nats.number or 0.0


GONE: dict[str, tuple[list[TrialRecord], str]] = {
    "no such row": ([], "only in the first run"),
    "failed": ([failed(trial("mlp"), "diverged", "at step 3")], "diverged in the second run (at step 3)"),
    "another text": (
        [ok(trial("mlp", corpus=facts(sha256="cd" * 32)), 5.0, corpus=facts(sha256="cd" * 32))],
        "the second run has another text",
    ),
    "one seed of two": (
        [ok(trial("mlp"), 5.0), failed(trial("mlp", seed=1), "killed", "signal 9")],
        "killed in the second run (1 of 2 seeds failed (seed 1): signal 9)",
    ),
}


@pytest.mark.parametrize("case", sorted(GONE))
def test_what_cannot_be_compared_fails_unless_it_is_allowed(tmp_path: Path, case: str) -> None:
    after, why = GONE[case]
    runs = [*one(4.4), *one(5.0, "mlp")], [*one(4.4), *after]
    found = check(tmp_path / "a", *runs, "test_perplexity:50%")
    assert found.n_compared == 1
    (sentence,) = found.failures
    assert sentence.startswith("mlp on cpu, genesis")
    assert sentence.endswith(f"cannot be compared: {why}")
    assert not check(tmp_path / "b", *runs, "test_perplexity:50%", missing=True).failures


@pytest.mark.whole
def test_what_was_only_allowed_is_counted_wherever_the_gate_speaks(tmp_path: Path) -> None:
    better, worse = sorted(
        ([ok(trial("mlp", seed=seed), 4.4)] for seed in (0, 1)), key=lambda records: nats_of(records[0])
    )
    runs = [*better, *one(4.4), *one(5.0, "rnn")], [*worse, *one(4.4)]
    text = "test_perplexity:0%"
    found = check(tmp_path / "both", *runs, text, noise=True, missing=True)
    told = "1 worse by more but within noise: allowed; 1 missing: allowed"
    assert found.sentence == f"--fail-on {text}: 2 rows compared; {told}"
    # the first allowance does not hide what fails without the second
    assert check(tmp_path / "noise", *runs, text, noise=True).sentence.endswith(
        ": 1 failure; 1 worse by more but within noise: allowed"
    )
    assert check(tmp_path / "missing", *runs, text, missing=True).sentence.endswith(": 1 failure; 1 missing: allowed")
    paths = tmp_path / "x.html", tmp_path / "x.json"
    options = ["--fail-on", text, "--allow-noise", "--allow-missing", "--html", paths[0], "--json", paths[1]]
    done = compared(tmp_path, *runs, *options)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == f"passed: {found.sentence}"
    assert "1 worse by more but within noise; 1 missing" in paths[0].read_text(encoding="utf-8")
    (record,) = ComparisonRecord.model_validate_json(paths[1].read_bytes()).checks
    assert (record.rows_allowed_noise, record.rows_allowed_missing, record.failures) == (1, 1, ())


def test_a_record_that_is_missing_fails(tmp_path: Path) -> None:
    records = [*one(4.4), *one(5.0, "mlp")]
    runs = write(tmp_path / "a", records), write(tmp_path / "b", records)
    (runs[1] / "trials" / f"{records[1].trial.trial_id}.json").unlink()
    found = checked(compare_runs(*runs), threshold_of("test_perplexity:1%"), Tolerance())
    assert [sentence.rpartition(": ")[2] for sentence in found.failures] == ["the run ended before this trial)"]


def test_what_failed_before_and_what_is_new_are_no_losses(tmp_path: Path) -> None:
    before = [*one(4.4), failed(trial("mlp"), "diverged", "at step 3"), failed(trial("rnn"), "killed", "signal 9")]
    after = [*one(4.4), failed(trial("mlp"), "diverged", "at step 5"), *one(5.0, "rnn"), *one(9.0, "bigram")]
    found = check(tmp_path, before, after, "test_perplexity:0%")
    assert (found.n_compared, found.failures) == (1, [])
    assert found.sentence == (
        "--fail-on test_perplexity:0%: 1 row compared, none worse by more; 2 rows left out, without the figure in the "
        "first run"
    )


@given(st.lists(st.tuples(*[st.sampled_from(["ok", "failed", "none"])] * 2), min_size=1, max_size=5))
def test_every_row_of_the_first_run_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    sides: tuple[list[TrialRecord], list[TrialRecord]] = (one(4.4), one(4.4))
    for n, cell in enumerate(cells):
        for records, state in zip(sides, cell, strict=True):
            spec = trial(f"net{n}")
            records += {"ok": [ok(spec, 5.0)], "failed": [failed(spec, "killed", "signal 9")], "none": []}[state]
    found = check(tmp_path_factory.mktemp("runs"), *sides, "test_perplexity:0%")
    # equal figures: what fails is what cannot be compared
    assert found.n_compared + len(found.failures) + found.n_left_out == len(sides[0])


def test_a_figure_that_the_second_run_lacks_fails_and_one_that_it_gained_does_not(tmp_path: Path) -> None:
    no_file = one(4.4, measures={"model_bytes": Figure.of(None, "it is not written to files")})
    (sentence,) = check(tmp_path / "a", one(4.4), no_file, "model_bytes:10%").failures
    assert sentence.endswith("model size 39.1 KiB cannot be compared: the second run has no such figure")
    gained = check(tmp_path / "b", [*no_file, *one(9.0, "bigram")], [*one(4.4), *one(9.0, "bigram")], "model_bytes:0%")
    assert (gained.n_compared, gained.failures) == (1, [])


def test_a_threshold_that_checks_nothing_fails(tmp_path: Path) -> None:
    found = check(tmp_path, one(4.4), one(4.4), "cpu_joules:10%")
    assert found.failures == ["cpu_joules: no row has it in both runs, so nothing was checked"]
    allowed = check(tmp_path / "b", one(4.4), one(4.4), "cpu_joules:10%", missing=True)
    assert allowed.sentence == (
        "--fail-on cpu_joules:10%: 0 rows compared, none worse by more; 1 row left out, without the figure in the "
        "first run"
    )


def test_infinite_figures(tmp_path: Path) -> None:
    finite, infinite = one(4.4), one(4.4, infinite_blocks=3)
    (sentence,) = check(tmp_path / "a", finite, infinite, "test_perplexity:1000%").failures
    assert "to inf, worse by inf, more than 1,000 %" in sentence
    assert not check(tmp_path / "b", infinite, infinite, "test_perplexity:0%").failures
    assert not check(tmp_path / "c", infinite, finite, "test_perplexity:0%").failures


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # 0.50 - 0.44 = 0.06, which is 12 % of 0.50
        ("top1_accuracy:+0.05", "from 50.0 % to 44.0 %, worse by 6.00 points, more than 5.00 points"),
        ("top1_accuracy:5%", "from 50.0 % to 44.0 %, worse by 12.0 %, more than 5.00 %"),
        # 40,000 and 41,024 bytes
        ("model_bytes:+512", "from 39.1 KiB to 40.1 KiB, worse by 1.00 KiB, more than 512 B"),
    ],
)
def test_a_loss_is_told_in_the_kind_of_its_threshold(tmp_path: Path, text: str, told: str) -> None:
    worse = one(4.4, measures={"top1_accuracy": Figure.of(0.44), "model_bytes": Figure.of(41_024.0)})
    (sentence,) = check(tmp_path, one(4.4), worse, text).failures
    assert told in sentence


def test_of_nothing_no_share_can_be_taken_and_an_amount_can(tmp_path: Path) -> None:
    # 40 MiB are the imports
    runs = one(4.4, memory_mib=40), one(4.4, memory_mib=41)
    (sentence,) = check(tmp_path / "a", *runs, "above_baseline_bytes:500%").failures
    assert "from 0 B to 1.00 MiB, worse by 1.00 MiB" in sentence
    assert not check(tmp_path / "b", *runs, "above_baseline_bytes:+2e6").failures


def test_runs_of_other_tokens_are_held_against_bits_alone(tmp_path: Path) -> None:
    before, after = [scored("kn5", "char", 2.0)], [scored("kn5", "word", 2.2)]
    (sentence,) = check(tmp_path / "a", before, after, "bits_per_byte:9%").failures
    assert "worse by 10.0 %, more than 9.00 %" in sentence
    (sentence,) = check(tmp_path / "b", before, after, "test_perplexity:9%").failures
    assert sentence.endswith("the second run cuts the text into other tokens, so bits alone are compared")


def compared(tmp_path: Path, before: list[TrialRecord], after: list[TrialRecord], *options: str | Path) -> Called:
    return called(write(tmp_path / "a", before), write(tmp_path / "b", after), *options)


def test_the_exit_status_and_the_last_lines(tmp_path: Path) -> None:
    options = ["--fail-on", "test_perplexity:1%", "--fail-on", "model_bytes:0%"]
    worse = compared(tmp_path / "a", one(4.4), one(5.5), *options)
    assert worse.exit_code == 1
    lines = worse.stdout.splitlines()[-2:]
    assert lines[0].startswith("failed: kn5 on cpu, genesis")
    assert lines[1] == "passed: --fail-on model_bytes:0%: 1 row compared, none worse by more"
    same = compared(tmp_path / "b", one(4.4), one(4.4), *options)
    assert (same.exit_code, same.stdout.count("passed: ")) == (0, 2)


def test_a_figure_that_is_asked_for_is_shown(tmp_path: Path) -> None:
    assert "validation perplexity" not in compared(tmp_path / "a", one(4.4), one(4.5)).stdout
    shown = compared(tmp_path / "b", one(4.4), one(4.5), "--fail-on", "valid_perplexity:9%").stdout
    assert "validation perplexity" in shown


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--fail-on", "ppl:1%"], "no figure 'ppl'"),
        (["--fail-on", "test_perplexity:1"], "is no threshold"),
        (["--allow-noise"], "give --fail-on too"),
        (["--allow-missing"], "give --fail-on too"),
        (["--metric", "test_perplexity"], "--metric is for three runs or more"),
    ],
)
def test_what_contradicts_is_one_line_and_exit_2(tmp_path: Path, options: list[str], why: str) -> None:
    done = compared(tmp_path, one(4.4), one(4.4), *options)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert why in done.stderr
    assert done.stdout == ""


def test_nothing_in_common_is_exit_2_with_thresholds_too(tmp_path: Path) -> None:
    done = compared(tmp_path, one(4.4), one(5.0, "mlp"), "--fail-on", "test_perplexity:1%", "--allow-missing")
    assert done.exit_code == 2


REFUSED: dict[str, tuple[list[TrialRecord], str]] = {
    "failed": ([failed(trial("kn5"), "diverged", "at step 3")], "diverged in the second run (at step 3)"),
    "another text": (
        [ok(trial("kn5", corpus=facts(sha256="cd" * 32)), 4.4, corpus=facts(sha256="cd" * 32))],
        "the second run has another text",
    ),
    "other documents": (
        [ok(trial("kn5", corpus=facts(documents="line")), 4.4, corpus=facts(documents="line"))],
        "the second run has another cut into documents",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_where_every_counterpart_is_refused_there_is_a_verdict_and_files(tmp_path: Path, case: str) -> None:
    after, why = REFUSED[case]
    paths = tmp_path / "x.json", tmp_path / "x.html"
    options = ["--fail-on", "test_perplexity:1%"]
    done = compared(tmp_path, one(4.4), after, *options, "--json", paths[0], "--html", paths[1])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].endswith(f"cannot be compared: {why}")
    assert why in paths[0].read_text(encoding="utf-8")
    assert "No figure can be compared. 1 row is not compared." in paths[1].read_text(encoding="utf-8")
    assert compared(tmp_path / "allowed", one(4.4), after, *options, "--allow-missing").exit_code == 0
    shown = compared(tmp_path / "shown", one(4.4), after)
    assert shown.exit_code == 0
    assert f": {why}" in shown.stdout
