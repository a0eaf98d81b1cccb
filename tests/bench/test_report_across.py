"""The table across tokenizers: one scale, the same pieces of text, and nothing compared that is not the same text."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.across_table import across_tables
from bench.comparing.comparison import compare_runs
from bench.comparing.judging import NO_TEST
from bench.records import CorpusFacts, CorpusSpec, Figure, Measured, TrialRecord
from bench.report import build, plots
from bench.report.across import Across, across_of, pieces_of
from bench.report.across_plot import draw_across
from bench.report.across_sheet import across_sentence, across_sheet
from bench.report.drawing import style_sheet
from bench.report.reading import read_run
from bench.report.rows import groups_of, rows_of
from lmzoo.errors import InputError
from tests.bench.synthetic import as_scored, facts, failed, hash_of, ok, trial, write

N_PIECES = 100
BYTES = 300
LN2 = math.log(2)


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_draw", lambda *_: ([], []))


def text(tokenizer: str, **changes: Any) -> CorpusFacts:
    """A text that loses nothing, cut by some tokenizer."""
    own: dict[str, Any] = {"tokenizer": tokenizer, "vocab_fingerprint": f"of {tokenizer}", "normalize": "none"}
    return facts(**(own | {"documents": "line", "n_symbols": 100 + len(tokenizer)} | changes))


def scored(
    model: str,
    tokenizer: str,
    bits: float,
    *,
    n_tokens: int = 20_000,
    sizes: Sequence[int] = (BYTES,) * N_PIECES,
    unit: str = "bytes",
    family: str = "counting",
    changes: dict[str, Any] | None = None,
    **of_text: Any,
) -> TrialRecord:
    """A finished trial of so many bits per unit in all, over pieces of these sizes; what is hard is so for all."""
    corpus = text(tokenizer, **of_text)
    difficulty = np.random.default_rng(3).normal(0, 0.3, len(sizes))
    own = np.random.default_rng(hash_of(model + tokenizer)).normal(0, 0.01, len(sizes))
    shares = np.array(sizes) * np.maximum(1 + difficulty + own, 0.01)
    nats = LN2 * bits * sum(sizes) * shares / shares.sum()
    key = "-".join(map(str, (model, tokenizer, *of_text.values())))
    spec = trial(model, corpus=corpus, family=family, trial_id=key, content_key=key).model_copy(
        update={"corpus": CorpusSpec(name=key, tokens=tokenizer)}
    )
    record = ok(spec, 10.0, corpus=corpus, changes={"is_adaptive": family == "coder"})
    assert record.measured is not None
    total, size = math.fsum(nats), sum(sizes)
    figure = Figure.of(total / LN2 / size)
    none = Figure(reason="the normaliser loses some of the text")
    test = record.measured.test.model_copy(
        update={
            "nll_nats": Figure.of(total),
            "n_tokens": len(sizes) * 10,
            "perplexity": Figure.of(math.exp(total / (len(sizes) * 10))),
            "perplexity_no_oov": Figure.of(math.exp(total / (len(sizes) * 10))),
            "n_chars": size,
            "n_bytes": size,
            "bits_per_char": figure,
            "bits_per_byte": figure if unit == "bytes" else none,
        }
    )
    held = {
        "test": test.model_dump(),
        "block_nats": tuple(nats.tolist()),
        "block_tokens": (10,) * len(sizes),
        "block_chars": tuple(map(float, sizes)),
        "block_bytes": tuple(map(float, sizes)) if unit == "bytes" else (),
        "block_spelling_nats": (0.0,) * len(sizes),
        "block_known_nats": (),
        "block_known_tokens": (),
    }
    measured = Measured.model_validate(record.measured.model_dump() | held | (changes or {}))
    return record.model_copy(update={"measured": measured, "corpus": as_scored(corpus, measured)})


def several(tmp_path: Path, records: Sequence[TrialRecord]) -> list[Across]:
    return across_of(groups_of(rows_of(read_run(write(tmp_path / "run", records)))))


def one(tmp_path: Path, records: Sequence[TrialRecord]) -> Across:
    (found,) = several(tmp_path, records)
    return found


THREE = (
    scored("kn5", "char", 2.2),
    scored("kn5", "word", 2.0),
    scored("trigram", "word", 2.001),
    scored("unigram", "char", 4.4),
)


def test_rows_of_all_tokenizers_stand_in_one_order_of_bits(tmp_path: Path) -> None:
    found = one(tmp_path, THREE)
    assert [(row.model, found.tokens(row)) for row in found.order] == [
        ("kn5", "word"),
        ("trigram", "word"),
        ("kn5", "char"),
        ("unigram", "char"),
    ]
    assert found.value(found.order[0]) == pytest.approx(2.0)
    # every pair of the four, whatever cut the text for them
    assert len(found.contests) == 6
    assert [found.against_best(row) for row in found.order] == ["best", "~", "worse", "worse"]
    assert "kn5 (word) takes the fewest bits per byte, 2.00" in across_sentence(found)
    assert "not significantly different are trigram (word)" in across_sentence(found)


def test_one_tokenizer_makes_no_such_table(tmp_path: Path) -> None:
    assert several(tmp_path, THREE[:1]) == []
    assert across_tables(built(tmp_path / "other", THREE[1:3]) / "tables" / "summary.csv") == []


@pytest.mark.parametrize(
    "other",
    [
        {"sha256": "cd" * 32},
        {"documents": "paragraph"},
        {"normalize": "lower"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_not_the_same_text_is_never_compared(tmp_path: Path, other: dict[str, Any]) -> None:
    assert several(tmp_path, [scored("kn5", "char", 2.2), scored("kn5", "word", 2.0, **other)]) == []


def test_pieces_that_are_not_the_same_make_no_pair(tmp_path: Path) -> None:
    shifted = [BYTES + 1, BYTES - 1] * (N_PIECES // 2)
    found = one(tmp_path, [scored("kn5", "char", 2.2), scored("kn5", "word", 2.0, sizes=shifted)])
    assert found.contests == []
    assert [found.against_best(row) for row in found.order] == ["best", "n/a"]


def test_pieces_of_a_single_document_are_what_is_tested(tmp_path: Path) -> None:
    """The blocks of such a text are cut by tokens and differ; its pieces do not."""
    shifted = [BYTES + 100, BYTES - 100] * (N_PIECES // 2)
    records = []
    for tokenizer, bits in (("char", 2.2), ("word", 2.0)):
        even = scored("kn5", tokenizer, bits).measured
        assert even is not None
        pieces = {
            "text_nats": even.block_nats,
            "text_chars": (BYTES,) * N_PIECES,
            "text_bytes": (BYTES,) * N_PIECES,
        }
        sizes = shifted if tokenizer == "word" else [BYTES] * N_PIECES
        records.append(scored("kn5", tokenizer, bits, sizes=sizes, changes=pieces))
    found = one(tmp_path, records)
    assert [contest.verdict for contest in found.contests] == ["b"]
    bits_SxB, sizes_B = pieces_of(found.rows[0], "byte") or (None, None)
    assert sizes_B is not None
    assert sizes_B.tolist() == [BYTES] * N_PIECES
    assert bits_SxB is not None
    assert bits_SxB.sum() / sizes_B.sum() == pytest.approx(2.2)


def test_without_bytes_the_scale_is_characters_and_the_reason_is_told(tmp_path: Path) -> None:
    records = [scored("kn5", tokenizer, 2.0, unit="chars") for tokenizer in ("char", "word")]
    found = one(tmp_path, records)
    assert found.unit == "char"
    assert "not per byte: the normaliser loses some of the text" in across_sheet(found).notes


def test_a_row_without_a_figure_stands_last_with_its_reason(tmp_path: Path) -> None:
    why = "the tokens do not give back the text as read"
    lossy = scored("kn5", "word", 1.0, unit="chars")
    assert lossy.measured is not None
    test = lossy.measured.test.model_copy(update={"bits_per_byte": Figure(reason=why)})
    lossy = lossy.model_copy(update={"measured": lossy.measured.model_copy(update={"test": test})})
    found = one(tmp_path, [scored("kn5", "char", 2.2), lossy])
    sheet = across_sheet(found)
    assert [(line[0], line[3]) for line in sheet.rows][1] == ("", "n/a")
    assert f"kn5 (word): {why}" in sheet.notes


def test_a_compressor_codes_the_text_itself_and_is_starred(tmp_path: Path) -> None:
    found = one(tmp_path, [*THREE, scored("ppmd", "char", 1.9, family="coder")])
    assert found.name(found.order[0]) == "ppmd* (text)"


def test_two_vocabularies_of_one_tokenizer_are_told_apart(tmp_path: Path) -> None:
    small = scored("kn5", "word", 2.2, vocab_fingerprint="small", n_symbols=50)
    found = one(tmp_path, [scored("kn5", "word", 2.0), small])
    assert {found.tokens(row) for row in found.rows} == {"word, 104 symbols", "word, 50 symbols"}


def test_an_impossible_token_is_infinite_and_last(tmp_path: Path) -> None:
    bad = scored("kn5", "word", 2.0)
    assert bad.measured is not None
    infinite = Figure.of(math.inf, "3 tokens of probability zero")
    test = bad.measured.test.model_dump() | {
        name: infinite.model_dump()
        for name in ("nll_nats", "perplexity", "perplexity_no_oov", "bits_per_char", "bits_per_byte")
    }
    test |= {"n_zero": 3}
    nats = (None, *bad.measured.block_nats[1:])
    measured = Measured.model_validate(bad.measured.model_dump() | {"test": test, "block_nats": nats})
    found = one(tmp_path, [scored("kn5", "char", 2.2), bad.model_copy(update={"measured": measured})])
    assert [found.value(row) for row in found.order][1] == math.inf
    assert "kn5 (word): 3 tokens of probability zero" in across_sheet(found).notes


def built(folder: Path, records: Sequence[TrialRecord]) -> Path:
    assert build.build_report(write(folder, records)) == []
    return folder


def test_report_csv_and_terminal_say_the_same(tmp_path: Path) -> None:
    folder = built(tmp_path / "run", [*THREE, scored("ppmd", "char", 1.9, family="coder")])
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert report.index("## Across tokenizers and vocabularies: genesis") < report.index("## genesis (char")
    assert "ppmd\\* (text) takes the fewest bits per byte, 1.90" in report
    assert "across tokenizers" in (folder / "report.html").read_text(encoding="utf-8").lower()
    with (folder / "tables" / "across.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    sides = ("model_a", "tokenizer_a", "model_b", "tokenizer_b")
    (pair,) = [row for row in rows if [row[side] for side in sides] == ["kn5", "word", "trigram", "word"]]
    assert pair["verdict"] == "~"
    assert float(pair["diff_bits"]) == pytest.approx(-0.001, rel=1e-6)
    (table,) = across_tables(folder / "tables" / "summary.csv")
    assert table.title == "Bits per byte of genesis, best first"
    shown = [list(column.cells) for column in table.columns]
    assert shown[0] == ["ppmd*", "kn5", "trigram", "kn5", "unigram"]
    assert shown[1] == ["text", "word", "word", "char", "char"]
    assert shown[2][0] == "1.9"


def test_a_tie_with_the_best_is_marked_on_the_terminal(tmp_path: Path) -> None:
    folder = built(tmp_path / "run", THREE)
    (table,) = across_tables(folder / "tables" / "summary.csv")
    assert list(table.columns[2].cells)[:3] == ["2", "~ 2.001", "2.2"]
    assert table.caption == "~ no significant difference from the best"


def test_an_earlier_table_does_not_outlive_its_run(tmp_path: Path) -> None:
    folder = built(tmp_path / "run", THREE)
    assert (folder / "tables" / "across.csv").exists()
    (folder / "run.json").unlink()
    for path in (folder / "trials").iterdir():
        path.unlink()
    built(folder, THREE[:1])
    assert not (folder / "tables" / "across.csv").exists()


def compared(tmp_path: Path, before: Sequence[TrialRecord], after: Sequence[TrialRecord]) -> Any:
    return compare_runs(write(tmp_path / "before", before), write(tmp_path / "after", after))


def test_two_runs_with_other_tokens_compare_by_bits(tmp_path: Path) -> None:
    found = compared(tmp_path, [scored("kn5", "char", 2.2)], [scored("kn5", "word", 2.0)])
    (change,) = found.changes
    assert (change.metric, change.judgement) == ("bits/byte, char and word", "better")
    assert (change.before, change.after) == (pytest.approx(2.2), pytest.approx(2.0))
    assert found.refusals == []


def test_what_has_the_same_tokens_is_compared_with_that(tmp_path: Path) -> None:
    both = [scored("kn5", "char", 2.2), scored("kn5", "word", 2.0)]
    found = compared(tmp_path, both, both)
    assert not [change for change in found.changes if change.metric.startswith("bits/")]


def test_other_tokens_of_another_text_are_not_compared_by_bits(tmp_path: Path) -> None:
    found = compared(tmp_path, [scored("kn5", "char", 2.2)], [scored("kn5", "word", 2.0, sha256="cd" * 32)])
    assert found.changes == []
    (refusal,) = found.refusals
    assert refusal.reason.startswith("the second run has another text, another vocabulary and ")


def test_two_runs_of_no_text_of_one_name_have_nothing_in_common(tmp_path: Path) -> None:
    other = facts("kjv")
    with pytest.raises(InputError, match="have nothing that can be compared"):
        compared(tmp_path, [scored("kn5", "char", 2.2)], [ok(trial("kn5", corpus=other), 4.4, corpus=other)])


def test_bits_that_are_equal_under_other_tokens_are_the_same(tmp_path: Path) -> None:
    one, other = scored("kn5", "char", 2.2), scored("kn5", "word", 2.0)
    assert one.measured is not None
    found = compared(tmp_path, [one], [other.model_copy(update={"measured": one.measured})])
    assert [(change.judgement, change.remark) for change in found.changes] == [("same", "")]


def test_bits_over_a_single_piece_are_not_judged_and_it_is_said_why(tmp_path: Path) -> None:
    both = [[scored("kn5", tokens, bits, sizes=[BYTES])] for tokens, bits in (("char", 2.2), ("word", 2.0))]
    found = compared(tmp_path, *both)
    assert [(change.judgement, change.remark) for change in found.changes] == [("not judged", NO_TEST)]


def test_other_tokens_without_bits_are_refused_with_the_reason(tmp_path: Path) -> None:
    one, other = scored("kn5", "char", 2.2), scored("kn5", "word", 2.0)
    assert other.measured is not None
    none = Figure.of(None, "the tokens lose some of the text")
    test = other.measured.test.model_copy(update={"bits_per_byte": none, "bits_per_char": none})
    without = other.model_copy(update={"measured": other.measured.model_copy(update={"test": test})})
    (refusal,) = compared(tmp_path, [one], [without]).refusals
    assert refusal.reason == (
        "the second run has another vocabulary and another tokenizer, and no bits per byte or character are known of "
        "both"
    )


def test_unlike_pieces_are_shown_and_not_judged(tmp_path: Path) -> None:
    shifted = [BYTES + 1, BYTES - 1] * (N_PIECES // 2)
    found = compared(tmp_path, [scored("kn5", "char", 2.2)], [scored("kn5", "word", 2.0, sizes=shifted)])
    assert [(change.judgement, change.remark) for change in found.changes] == [("not judged", NO_TEST)]


def test_a_code_without_a_perplexity_is_worth_the_table_for_one_tokenizer_too(tmp_path: Path) -> None:
    code = scored("ppmd", "char", 1.9, family="coder")
    assert code.measured is not None
    none = Figure(reason="the code is that of the text, which the tokens do not give back")
    test = code.measured.test.model_copy(update={"perplexity": none, "perplexity_no_oov": none})
    code = code.model_copy(update={"measured": code.measured.model_copy(update={"test": test})})
    folder = built(tmp_path / "run", [scored("kn5", "char", 2.2), code])
    (table,) = across_tables(folder / "tables" / "summary.csv")
    assert list(table.columns[0].cells) == ["ppmd*", "kn5"]
    assert "Across tokenizers and vocabularies" in (folder / "report.md").read_text(encoding="utf-8")


class TestPlot:
    """Bits of all rows in one picture, which needs two of them."""

    def drawn(self, tmp_path: Path, records: Sequence[TrialRecord]) -> tuple[str, Path]:
        with style_sheet():
            return draw_across(one(tmp_path, records), tmp_path, "across"), tmp_path

    def test_every_row_stands_in_it_and_in_its_words(self, tmp_path: Path) -> None:
        failure = failed(trial("mlp", corpus=text("char")), "diverged", "step 3", corpus=text("char"))
        alt, folder = self.drawn(tmp_path, [*THREE, scored("ppmd", "char", 1.9, family="coder"), failure])
        assert alt == (
            "Bar chart of bits per byte with 95 % intervals, fewest first: ppmd* (text) 1.90; kn5 (word) 2.00; "
            "trigram (word) 2.00; kn5 (char) 2.20; unigram (char) 4.40; mlp (char) no value."
        )
        assert (folder / "across.png").read_bytes().startswith(b"\x89PNG")
        assert b"</svg>" in (folder / "across.svg").read_bytes()

    def test_of_a_single_value_there_is_none(self, tmp_path: Path) -> None:
        failure = failed(trial("mlp", corpus=text("word")), "diverged", "step 3", corpus=text("word"))
        alt, folder = self.drawn(tmp_path, [scored("kn5", "char", 2.2), failure])
        assert alt == ""
        assert not list(folder.glob("across.*"))

    def test_it_stands_in_the_section_of_its_table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        drawing = lambda folder, drawn, across, pairs: plots.draw_all(folder, (), across)  # noqa: E731
        monkeypatch.setattr(build, "_draw", drawing)
        folder = built(tmp_path / "run", THREE)
        (section, *_) = (
            (folder / "report.md").read_text(encoding="utf-8").split("## Across tokenizers")[1].split("\n## ")
        )
        assert "(plots/across.png)" in section
        assert {path.name for path in (folder / "plots").iterdir()} == {"across.png", "across.svg"}


def test_the_terminal_says_why_characters_and_not_bytes(tmp_path: Path) -> None:
    records = [scored("kn5", tokenizer, 2.0, unit="chars") for tokenizer in ("char", "word")]
    folder = built(tmp_path / "run", records)
    (table,) = across_tables(folder / "tables" / "summary.csv", records)
    assert str(table.caption).splitlines()[-1] == "bits/byte n/a: the normaliser loses some of the text"


def test_provenance_tells_the_tokenizers_of_a_text_apart(tmp_path: Path) -> None:
    facts_of = [record.corpus for record in THREE[:2] if record.corpus is not None]
    folder = tmp_path / "run"
    build.build_report(write(folder, THREE, corpora=tuple(facts_of)))
    provenance = (folder / "report.md").read_text(encoding="utf-8").split("## Provenance")[1]
    assert [provenance.count(f"corpus genesis ({tokenizer})") for tokenizer in ("char", "word")] == [1, 1]
    assert "corpus genesis\n" not in provenance
