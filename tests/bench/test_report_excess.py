"""The distance to a source of known entropy: the table, the column, and what is said of what cannot be."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

from bench.records import CorpusFacts, TrialRecord
from bench.report import notices
from bench.report.build import build_report
from bench.report.document import Document, Quantity
from tests.bench.synthetic import facts, failed, ok, trial, write

# the source of these texts has perplexity 4
KNOWN = facts("markov:seed=1", entropy_nats=math.log(4))


def record(model: str, perplexity: float, corpus: CorpusFacts = KNOWN, **changes: Any) -> TrialRecord:
    return ok(trial(model, corpus=corpus), perplexity, corpus=corpus, **changes)


def pages(folder: Path, records: list[TrialRecord]) -> tuple[str, list[dict[str, str]]]:
    build_report(write(folder, records))
    with (folder / "tables" / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return (folder / "report.md").read_text(encoding="utf-8"), rows


@pytest.mark.whole
def test_the_distance_is_told_in_nats_and_bits(tmp_path: Path) -> None:
    records = [record("kn5", 8.0), record("unigram", 16.0)]
    report, rows = pages(tmp_path, records)
    excess = [float(row["excess_nats_per_token"]) for row in rows]
    exact = [r.measured.test.perplexity.value for r in records if r.measured]
    assert excess == pytest.approx([math.log(p / 4) for p in exact if p], abs=1e-12)
    assert "distance to the source of the text, whose perplexity is 4.000 (1.3863 nats per token)" in report
    (line,) = [line for line in report.splitlines() if line.startswith("| kn5 |") and line.count("|") == 6]
    # ln 2 nats are one bit: about twice the source's perplexity
    name, nats, interval, bits, ratio = [cell.strip() for cell in line.strip("|").split("|")]
    low, _, high = interval.partition(" to ")
    assert float(low) < float(nats) < float(high)
    assert float(bits) == pytest.approx(float(nats) / math.log(2), rel=0.01)
    assert float(ratio) == pytest.approx(math.exp(float(nats)), rel=0.01)
    assert name == "kn5"
    assert "drawn from a source of perplexity 4.000" in report
    assert "WRONG" not in report


@pytest.mark.whole
def test_what_is_below_the_source_is_said_loudly(tmp_path: Path) -> None:
    report, _ = pages(tmp_path, [record("kn5", 3.0), record("unigram", 8.0)])
    assert "WRONG: kn5 scored below the entropy of the source" in report
    assert "BELOW that of the text's source, 4.000" in report
    assert "- kn5 is below the source beyond noise" in report


def test_what_is_below_the_source_by_chance_is_level_with_it(tmp_path: Path) -> None:
    lucky = record("kn5", 4.0)
    assert lucky.measured is not None
    known = facts("markov:seed=1", entropy_nats=math.log(lucky.measured.test.perplexity.value or 0.0) + 1e-4)
    report, _ = pages(tmp_path, [record("kn5", 4.0, corpus=known)])
    assert "which kn5 is level with" in report
    assert "nats per token more" not in report


@pytest.mark.parametrize("perplexity_of", [{"infinite_blocks": 3}], ids=["infinite"])
def test_an_infinite_model_has_its_own_reason_for_no_distance(tmp_path: Path, perplexity_of: dict[str, int]) -> None:
    build_report(write(tmp_path, [record("kn5", 8.0), record("mle", 8.0, **perplexity_of)]))
    document = Document.model_validate_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    found = {row.model: row.figures["excess_nats_per_token"] for row in document.texts[0].rows}
    assert found["mle"] == Quantity(infinite=True, reason="impossible tokens")


def test_chance_is_no_fault() -> None:
    lucky = record("kn5", 4.0)
    assert lucky.measured is not None
    per_token = [nats / 200 for nats in lucky.measured.block_nats if nats is not None]
    mean = sum(per_token) / len(per_token)
    error = math.sqrt(sum((x - mean) ** 2 for x in per_token) / (len(per_token) - 1) / len(per_token))
    for n_errors, is_below in ((3.9, False), (4.1, True)):
        known = facts("markov:seed=1", entropy_nats=mean + n_errors * error)
        assert notices.is_below_source(record("kn5", 4.0, corpus=known)) is is_below


@pytest.mark.parametrize(
    "judged",
    [
        record("kn5", 3.0, corpus=facts()),
        record("kn5", 3.0, infinite_blocks=1),
        record("kn5", 3.0, n_blocks=1),
        failed(trial("kn5", corpus=KNOWN), "killed", "signal 9", corpus=KNOWN),
    ],
    ids=["unknown source", "infinite", "one block", "failed"],
)
def test_where_nothing_can_be_said_nothing_is(judged: TrialRecord) -> None:
    assert not notices.is_below_source(judged)
    assert notices.below_source([judged]) == []


def test_an_unknown_source_leaves_the_cell_empty(tmp_path: Path) -> None:
    report, rows = pages(tmp_path, [record("kn5", 8.0, corpus=facts())])
    assert rows[0]["excess_nats_per_token"] == ""
    assert "source of" not in report


def test_an_infinite_perplexity_is_infinitely_far(tmp_path: Path) -> None:
    report, rows = pages(tmp_path, [record("kn5", 8.0, infinite_blocks=2)])
    assert rows[0]["excess_nats_per_token"] == "inf"
    assert "| kn5 | inf | n/a | inf | inf |" in report
