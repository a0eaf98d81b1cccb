"""The four CSV tables: their columns, what each cell holds, and what becomes of failures."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.quality import blocks_record, tally_record
from bench.records import RULES_VERSION, SCHEMA_VERSION, Figure, Measured, TrialRecord
from bench.report.build import build_report
from bench.report.reading import NOT_RUN, UNREADABLE, read_run
from bench.report.rows import groups_of, pairs_of, rows_of
from bench.report.tables import write_tables
from lmzoo.corpus import corpus_from_texts
from lmzoo.errors import NewerFileError
from lmzoo.evaluation import tally_of
from tests.bench.synthetic import facts, failed, ok, trial, usual, write
from tests.bench.test_throughput import Clock, Uniform

HEADERS = {
    "summary": (
        "model,corpus,normalize,tokenizer,documents,train_fraction,device,status,reason,reused,n_seeds,test_perplexity,"
        "test_perplexity_low,test_perplexity_high,test_perplexity_no_oov,valid_perplexity,bits_per_char,bits_per_byte,"
        "top1_accuracy,n_tokens,n_oov,n_params,model_bytes,train_s,wall_s,train_tokens_per_s,eval_tokens_per_s,"
        "next_token_us,next_token_us_p99,peak_rss_bytes,baseline_rss_bytes,peak_device_bytes,peak_device_reserved_bytes,"
        "is_adaptive,vocab_fingerprint,kernel,threads,rules_version,cpu_joules,device_joules,energy_source,"
        "excess_nats_per_token,test_perplexity_no_oov_low,test_perplexity_no_oov_high,bits_per_char_low,bits_per_char_high,"
        "bits_per_byte_low,bits_per_byte_high,family,vocabulary_of"
    ),
    "targets": (
        "model,corpus,normalize,tokenizer,documents,train_fraction,device,seed,target_name,target_perplexity,reached,"
        "after_s,by_s,train_tokens,after_wall_s,by_wall_s"
    ),
    "curves": (
        "model,corpus,normalize,tokenizer,documents,train_fraction,device,seed,train_s,wall_s,train_tokens,"
        "valid_perplexity"
    ),
    "significance": (
        "corpus,normalize,tokenizer,documents,train_fraction,device,model_a,model_b,diff_nats_per_token,low,high,p_holm,"
        "verdict"
    ),
}


def tables(folder: Path, records: list[TrialRecord], **changes: Any) -> dict[str, list[dict[str, str]]]:
    """The tables of a run with these records, as rows of text; plots are not drawn."""
    write(folder, records, **changes)
    return read_tables(folder)


def read_tables(folder: Path) -> dict[str, list[dict[str, str]]]:
    run = read_run(folder)
    groups = groups_of(rows_of(run))
    pairs = [pair for rows in groups.values() for pair in pairs_of(rows)]
    write_tables(folder / "tables", run.info, groups, pairs)
    found = {}
    for path in (folder / "tables").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def test_columns_are_the_public_ones(tmp_path: Path) -> None:
    tables(tmp_path, usual())
    for name, header in HEADERS.items():
        assert (tmp_path / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0] == header


def test_figures_are_written_in_full(tmp_path: Path) -> None:
    record = ok(trial("kn5"), 4.4)
    (row,) = tables(tmp_path, [record])["summary"]
    assert record.measured is not None
    assert float(row["test_perplexity"]) == record.measured.test.perplexity.value
    assert float(row["test_perplexity_low"]) < float(row["test_perplexity"]) < float(row["test_perplexity_high"])
    assert (row["status"], row["reason"], row["reused"], row["n_seeds"]) == ("ok", "", "false", "1")
    assert (row["peak_device_bytes"], row["bits_per_byte"]) == ("", "")
    assert (row["n_params"], row["model_bytes"], row["train_fraction"]) == ("10000", "40000", "1.0")


def test_seeds_become_one_row_by_their_rules(tmp_path: Path) -> None:
    costs = [{"measures": {"model_bytes": Figure.of(size)}} for size in (10.0, 30.0, 20.0)]
    records = [ok(trial("lstm-cudnn", seed=n), 4.0 + n, **cost) for n, cost in enumerate(costs)]
    (row,) = tables(tmp_path, records)["summary"]
    perplexities = [r.measured.test.perplexity.value for r in records if r.measured]
    # the geometric mean: exp of the mean nats per token
    assert float(row["test_perplexity"]) == pytest.approx(math.prod(perplexities) ** (1 / 3))  # type: ignore[arg-type]
    assert (row["n_seeds"], row["model_bytes"]) == ("3", "20")


def test_infinite_is_inf_and_has_no_interval(tmp_path: Path) -> None:
    found = tables(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("ngram:smoothing=mle"), 4.0, infinite_blocks=10)])
    row = found["summary"][1]
    assert (row["test_perplexity"], row["test_perplexity_low"], row["test_perplexity_high"]) == ("inf", "", "")
    (pair,) = found["significance"]
    assert (pair["diff_nats_per_token"], pair["low"], pair["verdict"]) == ("-inf", "", "a")
    assert "nan" not in (tmp_path / "tables" / "summary.csv").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("status", ["diverged", "out_of_memory", "timed_out", "killed", "failed", "invalid"])
def test_every_failure_is_a_row_with_its_reason(tmp_path: Path, status: Any) -> None:
    found = tables(tmp_path, [ok(trial("kn5"), 4.4), failed(trial("mlp"), status, "because\nof this")])
    assert [row["model"] for row in found["summary"]] == ["kn5", "mlp"]
    row = found["summary"][1]
    assert (row["status"], row["reason"], row["test_perplexity"]) == (status, "because of this", "")
    # what it would have read is known from the others
    assert (row["corpus"], row["vocab_fingerprint"]) == ("genesis", "f00d")
    assert found["significance"] == []


def test_an_invalid_model_lends_no_figure_even_if_it_was_measured(tmp_path: Path) -> None:
    bogus = ok(trial("broken"), 1.01).model_copy(update={"status": "invalid", "reason": "sums to 3"})
    found = tables(tmp_path, [ok(trial("kn5"), 4.4), bogus])
    assert found["summary"][1]["test_perplexity"] == ""
    assert found["summary"][1]["peak_rss_bytes"] != ""


def test_a_refused_model_has_costs_but_no_perplexity(tmp_path: Path) -> None:
    none = Figure.of(None, "scores are no distribution")
    record = ok(trial("backoff"), 4.0)
    assert record.measured is not None
    test = record.measured.test.model_copy(
        update={"perplexity": none, "perplexity_no_oov": none, "bits_per_char": none}
    )
    measured = record.measured.model_copy(update={"test": test, "valid": test})
    refused = record.model_copy(update={"status": "refused", "reason": "unnormalised", "measured": measured})
    found = tables(tmp_path, [ok(trial("kn5"), 4.4), refused])
    row = found["summary"][1]
    assert (row["status"], row["test_perplexity"], row["test_perplexity_low"], row["valid_perplexity"]) == (
        "refused",
        "",
        "",
        "",
    )
    assert row["eval_tokens_per_s"] == "200000.0"
    assert found["significance"] == []


def test_a_failed_seed_does_not_hide_behind_the_others(tmp_path: Path) -> None:
    records = [
        ok(trial("mlp", seed=0), 4.4),
        failed(trial("mlp", seed=1), "diverged", "at step 3"),
        ok(trial("kn5"), 5.0),
    ]
    found = tables(tmp_path, records)
    row = found["summary"][0]
    assert (row["status"], row["n_seeds"]) == ("diverged", "1")
    assert row["reason"] == "1 of 2 seeds failed (seed 1): at step 3"
    # a row that lost its bad seed would look better than it is: it is tested against none
    assert found["significance"] == []


def test_unreadable_and_absent_records_are_rows(tmp_path: Path) -> None:
    records = [ok(trial(name), 5.0) for name in ("kn5", "mlp", "trigram", "bigram")]
    write(tmp_path, records)
    cut, aside, gone = (tmp_path / "trials" / f"{r.trial.trial_id}.json" for r in records[1:])
    cut.write_text(cut.read_text(encoding="utf-8")[:100], encoding="utf-8")
    aside.rename(aside.with_name(f"{aside.name}.bad"))
    gone.unlink()
    rows = read_tables(tmp_path)["summary"]
    assert [(row["model"], row["status"], row["reason"]) for row in rows] == [
        ("kn5", "ok", ""),
        ("mlp", "failed", UNREADABLE),
        ("trigram", "failed", UNREADABLE),
        ("bigram", "failed", NOT_RUN),
    ]


def test_a_record_from_a_newer_schema_is_refused(tmp_path: Path) -> None:
    record = ok(trial("kn5"), 5.0)
    write(tmp_path, [record])
    path = tmp_path / "trials" / f"{record.trial.trial_id}.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99'), encoding="utf-8")
    with pytest.raises(NewerFileError, match="has schema 99"):
        read_run(tmp_path)


def test_a_record_of_an_earlier_plan_is_not_taken_for_another_seed(tmp_path: Path) -> None:
    planned, older = ok(trial("kn5"), 5.0), ok(trial("kn5", trial_id="0-older"), 7.0)
    write(tmp_path, [planned, older], plan=(planned.trial,))
    (row,) = read_tables(tmp_path)["summary"]
    assert planned.measured is not None
    assert (row["n_seeds"], float(row["test_perplexity"])) == ("1", planned.measured.test.perplexity.value)
    assert ["0-older" in warning for warning in read_run(tmp_path).warnings] == [True]


def test_reused_comes_from_the_run(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 5.0), ok(trial("mlp"), 6.0)]
    rows = tables(tmp_path, records, reused=(records[1].trial.trial_id,))["summary"]
    assert [row["reused"] for row in rows] == ["false", "true"]


# --- who is compared with whom


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "cd" * 32},
        {"vocab_fingerprint": "beef"},
        {"documents": "line"},
        {"normalize": "none"},
        {"tokenizer": "word"},
        {"name": "kjv"},
    ],
)
def test_rows_of_unlike_texts_are_never_tested(tmp_path: Path, change: dict[str, Any]) -> None:
    other = facts(**change)
    records = [ok(trial("kn5"), 4.4), ok(trial("mlp", corpus=other), 9.0, corpus=other)]
    found = tables(tmp_path, records)
    assert len(found["summary"]) == 2
    assert found["significance"] == []
    # and the counting model's level is no target of the other text
    assert [row for row in found["targets"] if row["model"] == "mlp"] == []


def test_fractions_of_the_training_text_are_groups_of_their_own(tmp_path: Path) -> None:
    half = trial("trigram", trial_id="half", train_fraction=0.5)
    found = tables(tmp_path, [ok(trial("kn5"), 4.4), ok(half, 9.0)])
    assert [row["train_fraction"] for row in found["summary"]] == ["1.0", "0.5"]
    assert found["significance"] == []


def test_records_under_other_rules_share_no_table(tmp_path: Path) -> None:
    old = ok(trial("mlp"), 4.0, changes={"rules_version": RULES_VERSION + 1})
    write(tmp_path, [ok(trial("kn5"), 4.4), old])
    warnings = build_report(tmp_path)
    text = (tmp_path / "tables" / "summary.csv").read_text(encoding="utf-8")
    assert "mlp" not in text
    assert any("mlp" in warning and "rules" in warning for warning in warnings)


def test_a_counting_model_meets_the_neural_ones_on_their_device(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("bigram"), 9.0)]
    records += [ok(trial("mlp", device=device), 5.0) for device in ("cpu", "cuda")]
    pairs = tables(tmp_path, records)["significance"]
    assert [(p["device"], p["model_a"], p["model_b"]) for p in pairs] == [
        ("cpu", "kn5", "bigram"),
        ("cpu", "kn5", "mlp"),
        ("cpu", "bigram", "mlp"),
        ("cuda", "kn5", "mlp"),
        ("cuda", "bigram", "mlp"),
    ]


def test_models_with_other_blocks_are_not_tested(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 9.0, n_blocks=60)]
    assert tables(tmp_path, records)["significance"] == []


def test_one_block_has_neither_interval_nor_verdict(tmp_path: Path) -> None:
    found = tables(tmp_path, [ok(trial("kn5"), 4.4, n_blocks=1), ok(trial("mlp"), 9.0, n_blocks=1)])
    assert found["summary"][0]["test_perplexity_low"] == ""
    (pair,) = found["significance"]
    assert (pair["p_holm"], pair["verdict"]) == ("", "~")


# --- targets and curves


def test_targets_are_those_given_and_the_counting_models(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4, levels=[4.5]), ok(trial("mlp", seed=0), 5.0, levels=[9.0, 4.5, 4.0])]
    records.append(ok(trial("mlp", seed=1), 5.0, levels=[9.0, 6.0]))
    rows = tables(tmp_path, records, target_perplexities=(5.5,))["targets"]
    assert [(r["model"], r["seed"], r["target_name"], r["reached"]) for r in rows] == [
        ("kn5", "0", "ppl=5.5", "true"),
        ("mlp", "0", "ppl=5.5", "true"),
        ("mlp", "0", "kn5", "true"),
        ("mlp", "1", "ppl=5.5", "false"),
        ("mlp", "1", "kn5", "false"),
    ]
    assert [(r["after_s"], r["by_s"]) for r in rows[2:4]] == [
        ("0.25", repr(0.25 * 2**0.25)),
        (repr(0.25 * 2**0.25), "inf"),
    ]


def test_a_trial_that_died_before_its_first_validation_missed_every_target(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), failed(trial("mlp"), "killed", "signal 9")]
    (row,) = tables(tmp_path, records)["targets"]
    assert (row["reached"], row["after_s"], row["by_s"], row["train_tokens"]) == ("false", "0.0", "inf", "")


def test_curves_have_a_row_for_each_validation(tmp_path: Path) -> None:
    rows = tables(tmp_path, [ok(trial("mlp"), 5.0, levels=[9.0, math.inf, 5.0])])["curves"]
    assert [row["valid_perplexity"] for row in rows] == ["9.0", "inf", "5.0"]


# --- intervals beside perplexity


def scored(train: str, test: str, **how: Any) -> TrialRecord:
    """A record whose test part is a real text, scored by chance."""
    split = corpus_from_texts({"train": train, "valid": train, "test": test}, **how).test
    nats_N = np.random.default_rng(0).gamma(2.0, size=split.n_tokens)
    tally = tally_of(Uniform(split.vocab, Clock()), split, nats_N)
    return ok(trial("kn5"), 4.4, measures={"test": tally_record(tally), **blocks_record(split, nats_N, tally)})


def test_every_figure_of_quality_has_its_interval(tmp_path: Path) -> None:
    """With unknown characters of two bytes all four figures differ, and so do their intervals."""
    record = scored("abé" * 40, "abéabüaab" * 60, tokens="char")
    (row,) = tables(tmp_path, [record])["summary"]
    names = ("test_perplexity", "test_perplexity_no_oov", "bits_per_char", "bits_per_byte")
    ends = {(row[f"{name}_low"], row[f"{name}_high"]) for name in names}
    assert len(ends) == 4
    for name in names:
        assert float(row[f"{name}_low"]) < float(row[name]) < float(row[f"{name}_high"])


def test_without_unknown_tokens_the_interval_is_that_of_the_perplexity(tmp_path: Path) -> None:
    (row,) = tables(tmp_path, [ok(trial("kn5"), 4.4)])["summary"]
    assert (row["test_perplexity_no_oov_low"], row["test_perplexity_no_oov_high"]) == (
        row["test_perplexity_low"],
        row["test_perplexity_high"],
    )
    # one bit a nat less: characters are tokens here
    assert float(row["bits_per_char_low"]) == pytest.approx(math.log2(float(row["test_perplexity_low"])))
    assert (row["bits_per_byte_low"], row["bits_per_byte_high"]) == ("", "")


def test_what_an_older_record_does_not_hold_has_no_interval(tmp_path: Path) -> None:
    record = scored("abé" * 40, "abéabüaab" * 60, tokens="char")
    assert record.measured is not None
    missing = {name: () for name in Measured.model_fields if name.startswith("block_")}
    older = record.measured.model_copy(
        update=missing | {"block_nats": record.measured.block_nats, "block_tokens": record.measured.block_tokens}
    )
    (row,) = tables(tmp_path, [record.model_copy(update={"schema_version": 1, "measured": older})])["summary"]
    assert row["test_perplexity_low"] != ""
    assert [row[f"{name}_low"] for name in ("test_perplexity_no_oov", "bits_per_char", "bits_per_byte")] == ["", "", ""]
    assert row["bits_per_char"] != ""


def test_times_of_five_seeds_leave_out_the_fastest_and_the_slowest(tmp_path: Path) -> None:
    def row(times_s: list[float]) -> dict[str, str]:
        records = [ok(trial("mlp", seed=n), 4.4, changes={"train_s": t}) for n, t in enumerate(times_s)]
        folder = tmp_path / str(len(times_s))
        return tables(folder, records)["summary"][0]

    # (2 + 3 + 7) / 3, and of four the median
    assert float(row([7.0, 1.0, 90.0, 2.0, 3.0])["train_s"]) == 4.0
    assert float(row([7.0, 1.0, 90.0, 2.0])["train_s"]) == 4.5


def test_targets_are_on_both_clocks(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4, levels=[4.5]), ok(trial("mlp"), 5.0, levels=[9.0, 4.5])]
    hit, missed = tables(tmp_path, records, target_perplexities=(4.6, 1.0))["targets"][2:4]
    # in these records the wall clock is a second ahead
    assert (hit["after_wall_s"], hit["by_wall_s"]) == (repr(1.25), repr(0.25 * 2**0.25 + 1))
    assert (missed["after_wall_s"], missed["by_wall_s"]) == (repr(0.25 * 2**0.25 + 1), "inf")
