"""A compressor as a trial: figures it has, reasons for those it has not, and how a report takes both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bench import measure
from bench.coded import NO_BLOCKS, NO_DISTRIBUTION
from bench.describe import resolve_models
from bench.measure import Trial
from bench.plan import Limits, make_plan
from bench.records import Answer, CorpusSpec, Figure, Measured, TrialRecord
from bench.report import build
from bench.report.build import build_report
from bench.report.rows import rows_of
from bench.report.tables import counting_levels
from bench.terminal import outcome_text
from lmzoo.coding import coded_bytes
from lmzoo.corpus import Split
from tests.bench.stubs import make_trial
from tests.bench.synthetic import facts, info, ok, trial, write

TOO_SHORT = "the test text is too short for a code that is counted in whole bytes"
TEXT = "the cat sat on the mat and the dog sat on the log\n" * 60


class FlatCoder:
    """3 nats a byte, whatever it is; it tells where it has got to."""

    def __init__(self, *, tells: bool = True) -> None:
        if not tells:
            self.cumulative_nats = None

    def nll_nats(self, train: Split, test: Split) -> float:
        return 3.0 * len(coded_bytes(test))

    def cumulative_nats(self, train: Split, test: Split, ends: list[int]) -> list[float]:  # type: ignore[no-redef]
        return [*(3.0 * end for end in ends), self.nll_nats(train, test)]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coder: Any, text: str = TEXT, **corpus: Any) -> TrialRecord:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(measure, "create_coder", lambda spec: coder)
    spec = make_trial("xz", corpus=CorpusSpec(name=str(path), **corpus), family="coder")
    record = Trial(spec, lambda: 1.0, lambda _: None).run()
    assert TrialRecord.model_validate_json(record.model_dump_json()) == record
    return record


def measured(record: TrialRecord) -> Measured:
    assert (record.status, record.reason) == ("ok", None)
    assert record.measured is not None
    return record.measured


@pytest.mark.parametrize("nats", [0.0, -16.6])
def test_a_code_of_no_bytes_tells_nothing_and_has_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats: float
) -> None:
    for tells in (False, True):
        coder = FlatCoder(tells=tells)
        monkeypatch.setattr(coder, "nll_nats", lambda train, test: nats)
        found = measured(run(tmp_path, monkeypatch, coder))
        for tally in (found.test, found.valid):
            for name in ("nll_nats", "perplexity", "perplexity_no_oov", "bits_per_char", "bits_per_byte"):
                assert getattr(tally, name) == Figure(reason=TOO_SHORT), name
        assert (found.block_nats, found.block_tokens, found.absent["block_nats"]) == ((), (), TOO_SHORT)


def test_what_it_has_is_measured_and_what_it_has_not_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run(tmp_path, monkeypatch, FlatCoder(tells=False))
    found = measured(record)
    assert record.is_adaptive
    assert found.test.bits_per_byte.value == pytest.approx(3 / math.log(2))
    assert found.test.perplexity.value == pytest.approx(math.exp(3))
    assert found.valid.perplexity.value == pytest.approx(math.exp(3))
    assert (found.block_nats, found.block_tokens, found.absent["block_nats"]) == ((), (), NO_BLOCKS)
    assert (record.train_s, record.curve, record.parts and record.parts.train_s) == (None, (), None)
    for name in ("train_tokens", "train_tokens_per_s", "eval_tokens_per_s", "next_token_us", "next_token_us_p99"):
        assert getattr(found, name) is None
        assert found.absent[name]
    assert found.top1_accuracy.reason == NO_DISTRIBUTION
    assert found.model_bytes.reason
    assert record.memory is not None
    assert record.memory.peak_rss_bytes > 0


@pytest.mark.parametrize("documents", ["file", "line"])
@pytest.mark.parametrize("tokens", ["char", "word"])
def test_blocks_are_those_of_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: str, tokens: str
) -> None:
    # 60 test lines of their own are blocks under `line`, and one document in pieces under `file`
    text = "".join(f"é{'ab ' * (n % 7)}cd\n" for n in range(600))
    found = measured(run(tmp_path, monkeypatch, FlatCoder(), text, documents=documents, tokens=tokens))
    assert found.block_nats == pytest.approx([3 * n for n in found.block_bytes], abs=3.0)
    if documents == "line":
        assert found.block_nats == pytest.approx([3 * n for n in found.block_bytes])
    assert found.text_nats == pytest.approx([3 * n for n in found.text_bytes])
    assert bool(found.text_nats) == (documents == "file")


def test_unknown_tokens_leave_bits_and_no_perplexity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(run(tmp_path, monkeypatch, FlatCoder(), "ab" * 800 + "x" + "ab" * 20))
    assert found.test.n_oov == 1
    assert found.test.perplexity.value is None
    assert "do not give back" in (found.test.perplexity.reason or "")
    assert found.test.perplexity_no_oov.reason == found.test.perplexity.reason
    assert found.test.bits_per_byte.value == pytest.approx(3 / math.log(2))


def test_it_runs_once_after_the_counting_models() -> None:
    models, _ = resolve_models("xz,kn5")
    answer = Answer(models=tuple(models), corpora=(CorpusSpec(name="text"),), facts=(facts(),))
    plan = make_plan(answer, devices=("cpu", "cuda"), seeds=5, limits=Limits(budget_s=9.0))
    assert [(t.model, t.family, t.device, t.seed, t.budget_s) for t in plan] == [
        ("kn5", "counting", "cpu", 0, None),
        ("xz", "coder", "cpu", 0, None),
    ]


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_draw", lambda *_: ([], []))


def yardstick(perplexity: float = 3.0) -> TrialRecord:
    """A finished trial of a compressor that tells no blocks."""
    record = ok(trial("xz", family="coder"), perplexity, changes={"is_adaptive": True, "train_s": None, "curve": ()})
    assert record.measured is not None
    absent = dict.fromkeys(
        ("train_s", "train_tokens", "train_tokens_per_s", "eval_tokens_per_s", "next_token_us", "next_token_us_p99"),
        "not here",
    )
    fields = record.measured.model_dump() | dict.fromkeys(absent) | {"n_params": None}
    fields |= {name: () for name in fields if name.startswith(("block_", "text_"))}
    del fields["train_s"]
    fields["model_bytes"] = Figure(reason="no file").model_dump()
    return record.model_copy(
        update={"measured": Measured.model_validate(fields | {"absent": absent | {"block_nats": NO_BLOCKS}})}
    )


def test_a_report_ranks_it_with_a_star_and_says_what_it_is_not(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("lstm-scratch"), 4.2), yardstick()]
    folder = write(tmp_path / "run", records)
    assert build_report(folder) == []
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "xz\\* has the lowest test perplexity, " in report
    assert "; lstm-scratch and kn5 could not be tested against it." in report
    assert f"95 % interval n/a (xz\\*): {NO_BLOCKS}" in report
    assert "training n/a (xz\\*): not here" in report
    summary = (folder / "tables" / "summary.csv").read_text(encoding="utf-8").splitlines()
    row = dict(zip(summary[0].split(","), summary[-1].split(","), strict=True))
    assert row["is_adaptive"] == "true"
    assert [row[name] for name in ("train_s", "eval_tokens_per_s", "test_perplexity_low", "model_bytes")] == [""] * 4


def test_no_network_has_to_reach_it(tmp_path: Path) -> None:
    from bench.report.reading import read_run

    folder = write(tmp_path / "run", [ok(trial("kn5"), 4.4), yardstick()])
    rows = rows_of(read_run(folder))
    assert list(counting_levels(rows)) == ["kn5"]
    assert info([yardstick()]).plan[0].family == "coder"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_token_us": None}, "next_token_us is missing, and nothing says why"),
        ({"absent": {"block_nats": "why"}}, "there are no blocks .why., but block_nats holds some"),
        ({"text_nats": (1.0,), "text_chars": (1, 2)}, "not all the same number"),
        ({"text_nats": (1.0,), "text_chars": (1,)}, "characters of pieces: the blocks' sum is 1.0"),
    ],
)
def test_a_record_that_hides_something_is_refused(changes: dict[str, Any], message: str) -> None:
    found = ok(trial("kn5"), 4.4).measured
    assert found is not None
    with pytest.raises(ValidationError, match=message):
        Measured.model_validate(found.model_dump() | changes)


def test_without_a_perplexity_the_runner_tells_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = run(tmp_path, monkeypatch, FlatCoder(), "ab" * 800 + "x" + "ab" * 20)
    assert outcome_text(record) == "4.328 bits per byte"
    lossy = run(tmp_path, monkeypatch, FlatCoder(), "AB" * 800 + "x" + "ab" * 20, normalize="lower")
    assert outcome_text(lossy) == "4.328 bits per character"
