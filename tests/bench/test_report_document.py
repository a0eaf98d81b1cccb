"""`report.json`: the figures of the tables in full, the sentences of the report, no NaN and no infinity."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench.records import RULES_VERSION, Energy, Figure, TrialRecord
from bench.report import plots
from bench.report.build import build_report
from bench.report.document import Document, Quantity
from bench.report.tables import SUMMARY_COLUMNS
from tests.bench.profiled import TOKENS, passage, with_profile
from tests.bench.synthetic import facts, failed, ok, trial, usual, write


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are tested here, and plots take most of a report's time."""
    monkeypatch.setattr(plots, "PLOTS", {})


def built(folder: Path, records: list[TrialRecord], **changes: Any) -> Document:
    """The document of a run, read as strictly as JSON can be."""
    build_report(write(folder, records, **changes))
    text = (folder / "report.json").read_text(encoding="utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return Document.model_validate_json(text)


def summary_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_figure_of_the_summary_is_there_to_the_last_digit(tmp_path: Path) -> None:
    (text,) = built(tmp_path, usual(seeds=2)).texts
    rows = {row.model: row for row in text.rows}
    for line in summary_in(tmp_path):
        row = rows[line["model"]]
        for column, cell in line.items():
            if column in row.figures:
                quantity = row.figures[column]
                assert (quantity.value is None) == (cell == "")
                assert quantity.value is None or float(cell) == quantity.value
                for end in ("low", "high"):
                    if line.get(f"{column}_{end}"):
                        assert getattr(quantity, end) == float(line[f"{column}_{end}"])
            elif column in ("device", "status", "kernel", "family"):
                assert getattr(row, column) == cell
    ends = {column for column in SUMMARY_COLUMNS if column.endswith(("_low", "_high"))}
    told = {"corpus", "normalize", "tokenizer", "documents", "train_fraction", "vocab_fingerprint", "vocabulary_of"}
    own = {column for column in SUMMARY_COLUMNS if hasattr(text.rows[0], column)}
    # no column is lost
    assert set(text.rows[0].figures) == set(SUMMARY_COLUMNS) - ends - told - own - {"rules_version"}


def test_rows_are_in_their_ranking_with_what_the_report_says_of_them(tmp_path: Path) -> None:
    document = built(tmp_path, [*usual(), failed(trial("lost"), "killed", "signal 9")])
    (text,) = document.texts
    assert [row.rank for row in text.rows] == [*range(1, 12), None]
    perplexities = [row.figures["test_perplexity"].value for row in text.rows[:-1]]
    assert perplexities == sorted(perplexities, key=lambda value: value or 0.0)
    assert (text.rows[0].against_best, text.rows[3].against_best, text.rows[-1].against_best) == ("best", "worse", None)
    assert (text.rows[-1].status, text.rows[-1].reason) == ("killed", "signal 9")
    assert text.rows[-1].figures["test_perplexity"] == Quantity(reason="signal 9")
    report = (tmp_path / "report.md").read_text(encoding="utf-8").replace("\\", "")
    for sentence in (*text.answer, *text.caveats):
        assert sentence in report


def test_what_is_missing_or_infinite_is_null_with_a_reason(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("ngram:smoothing=mle", family="counting"), 4.0, infinite_blocks=10)]
    (text,) = built(tmp_path, records).texts
    finite, infinite = text.rows
    assert infinite.figures["test_perplexity"] == Quantity(infinite=True, reason="impossible tokens")
    assert infinite.figures["bits_per_byte"].reason == "the normaliser loses some of the text"
    assert finite.figures["peak_device_bytes"].reason == "on the CPU"
    assert finite.figures["excess_nats_per_token"].reason == "the entropy of the text's source is not known"
    assert finite.figures["cpu_joules"].reason == "not measured"
    (pair,) = text.significance
    assert pair.diff_nats_per_token == Quantity(infinite=True, reason="ngram:smoothing=mle held some token impossible")
    assert pair.verdict == "a"
    assert pair.p_holm is not None


def test_targets_that_were_missed_have_no_time(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4, levels=[4.5]), ok(trial("mlp"), 5.0, levels=[9.0, 4.5])]
    (text,) = built(tmp_path, records, target_perplexities=(1.0,)).texts
    found = {(target.model, target.target_name): target for target in text.targets}
    hit, missed = found["mlp", "kn5"], found["mlp", "ppl=1.0"]
    assert (hit.reached, hit.after_s, hit.by_s) == (True, 0.25, 0.25 * 2**0.25)
    assert (missed.reached, missed.by_s, missed.by_wall_s) == (False, None, None)


def test_each_text_has_its_own_rows(tmp_path: Path) -> None:
    kjv = facts("kjv", sha256="cd" * 32)
    document = built(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("mlp", corpus=kjv), 9.0, corpus=kjv)])
    assert [(text.corpus, [row.model for row in text.rows]) for text in document.texts] == [
        ("genesis", ["kn5"]),
        ("kjv", ["mlp"]),
    ]
    assert {corpus.name: corpus.sha256 for corpus in document.provenance.corpora}["kjv"] == kjv.sha256


def test_the_provenance_is_that_of_the_run(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), *[ok(trial("mlp", seed=seed), 5.0) for seed in (0, 1)]]
    reused = records[0].trial.trial_id
    document = built(tmp_path, records, command="python -m bench.run --models kn5,mlp", reused=(reused,))
    found = document.provenance
    assert (found.command, found.seeds, found.reused) == ("python -m bench.run --models kn5,mlp", (0, 1), (reused,))
    assert found.environment.git_commit == "0123456789abcdef"
    assert document.rules_version == RULES_VERSION


def test_profiles_are_there_as_the_report_has_them(tmp_path: Path) -> None:
    kn5 = with_profile(ok(trial("kn5"), 4.4), passage=passage(model_orders=(3,) * len(TOKENS)))
    none = ok(trial("old"), 5.0)
    (text,) = built(tmp_path, [kn5, with_profile(ok(trial("mlp"), 4.8)), none]).texts
    first, _, last = (row.profile for row in text.rows)
    assert last is None
    assert text.passage is not None
    assert (text.passage.start, text.passage.tokens) == (0, TOKENS)
    assert first is not None
    assert first.seen is not None
    # 0.25 nats more for each token
    assert first.seen.bits == pytest.approx([0.25 * at / math.log(2) for at in range(len(TOKENS))])
    assert (first.seen.matched_order[0], first.seen.likeliest[0], first.seen.likeliest_p[0]) == (3, "e", 0.5)
    assert {kind: [cost.n_tokens for cost in costs] for kind, costs in first.costs.items()} == {
        "frequency": [2_000, 18_000],
        "position": [2_000, 18_000],
        "order": [2_000, 18_000],
    }
    # 200 predictions: 0.735 sure on average, 0.5 right; |97 - 50| of 200 off
    assert (first.calibration_error, first.mean_confidence, first.accuracy) == pytest.approx((0.235, 0.735, 0.5))
    assert sum(one.n_tokens for one in first.confidences) == 200
    assert first.sums_to_one == "passed"
    assert first.sample is not None
    assert first.sample.text == " said unto noah\nand"


def test_what_a_profile_holds_impossible_is_null(tmp_path: Path) -> None:
    mle = with_profile(
        ok(trial("mle", family="counting"), 4.0, infinite_blocks=10), passage=passage(nats=(None,) * len(TOKENS))
    )
    (text,) = built(tmp_path, [mle]).texts
    found = text.rows[0].profile
    assert found is not None
    assert found.seen is not None
    assert found.seen.bits == (None,) * len(TOKENS)
    assert found.costs["frequency"][0].bits_per_token == Quantity(infinite=True, reason="impossible tokens")


def test_a_quantity_without_value_says_why() -> None:
    with pytest.raises(ValueError, match="reason"):
        Quantity()
    with pytest.raises(ValueError, match="finite"):
        Quantity(value=math.inf)


def test_odd_names_are_still_json(tmp_path: Path) -> None:
    names = ["红楼梦", "שלום", "\u202eevil", 'a"b\\c', "tab\there"]
    (text,) = built(tmp_path, [ok(trial(name), 60.0 + n) for n, name in enumerate(names)]).texts
    assert [row.model for row in text.rows] == names


def test_a_run_without_rows_is_still_a_document(tmp_path: Path) -> None:
    assert built(tmp_path, []).texts == ()


def test_reasons_of_joules_come_from_the_records(tmp_path: Path) -> None:
    energy = Energy(
        cpu_joules=Figure.of(None, "the machine was shared"), device_joules=Figure.of(None, "no device"), seconds=1.0
    )
    (text,) = built(tmp_path, [ok(trial("kn5"), 4.4, changes={"energy": energy})]).texts
    assert text.rows[0].figures["cpu_joules"].reason == "the machine was shared"
