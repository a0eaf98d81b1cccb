"""The answer: read in ten seconds, whatever the run; what else is to be known stands beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.records import TrialRecord
from bench.report.answer import answer, caveats
from bench.report.reading import read_run
from bench.report.rows import pairs_of, rows_of
from bench.report.sheets import Sheet, sheets_of
from tests.bench.synthetic import failed, ok, trial, usual, write

# four words a second, and numbers that are only looked at
_MOST_WORDS = 60


def told_of(folder: Path, records: list[TrialRecord], given: tuple[float, ...] = ()) -> tuple[str, str]:
    """The answer and its caveats."""
    rows = rows_of(read_run(write(folder, records)))
    return " ".join(answer(rows, pairs_of(rows), given)), " ".join(caveats(rows, pairs_of(rows)))


def many(n_counting: int, n_neural: int) -> list[TrialRecord]:
    counting = [
        ok(trial(f"ngram:order={n}", family="counting"), 9 - n / 9, levels=[9 - n / 9]) for n in range(n_counting)
    ]
    neural = [ok(trial(f"mlp:hidden={n}"), 4 + n / 1e4, levels=[12.0, 8.0, 8 - n / 99]) for n in range(n_neural)]
    return [*counting, *neural]


@pytest.mark.parametrize("records", [usual(), usual(3), many(0, 12), many(18, 3), many(18, 30)])
def test_it_is_short(tmp_path: Path, records: list[TrialRecord]) -> None:
    text, _ = told_of(tmp_path, records, (5.0, 1.0))
    assert len(text.split()) <= _MOST_WORDS


def test_a_winner_that_is_a_network_is_held_against_counting_and_the_clock(tmp_path: Path) -> None:
    records = [ok(trial(name), ppl, levels=[ppl]) for name, ppl in (("bigram", 9.0), ("kn5", 5.0), ("unigram", 17.0))]
    text, notes = told_of(tmp_path, [*records, ok(trial("mlp"), 4.0, levels=[20.0, 8.0, 4.0])])
    assert text.startswith("mlp has the lowest test perplexity, ")
    assert (
        "; every other model is significantly worse. It passed unigram after 0.297 s, bigram after 0.297 s and" in text
    )
    # 0.25 s x 2^(k/4), k = 1 and 2
    assert re.search(
        r"and kn5 \(the best counting model, test perplexity [45]\.\d{3}\) after 0.354 s of training\.$", text
    )
    # 1 - 4/5
    assert re.fullmatch(r"mlp is 20\.\d % below kn5 \(95 % interval \d\S* % to \d\S* %\)\.", notes)


def test_equals_are_told_as_such(tmp_path: Path) -> None:
    record = ok(trial("gru-scratch"), 4.0)
    twin = record.model_copy(update={"trial": trial("lstm-scratch")})
    text, _ = told_of(tmp_path, [record, twin, ok(trial("kn5"), 9.0)])
    assert "; lstm-scratch has the same, all others are significantly worse." in text


def test_nobody_wins_where_all_are_infinite(tmp_path: Path) -> None:
    records = [ok(trial(name), 4.0, infinite_blocks=3, levels=[4.0]) for name in ("kn5", "lstm-scratch")]
    text, _ = told_of(tmp_path, records, (5.0,))
    assert text == "Every model held some test token impossible: all perplexities are infinite."


def test_how_long_networks_were_trained_is_told(tmp_path: Path) -> None:
    two = [ok(trial("mlp", budget_s=15.0), 4.0), ok(trial("gru-scratch", budget_s=15.0), 4.4)]
    _, notes = told_of(tmp_path / "same", [ok(trial("kn5"), 5.0), *two])
    assert "Each neural model was trained for 15 s. Each neural model ran with one seed" in notes
    _, notes = told_of(tmp_path / "other", [*two, ok(trial("rnn-scratch", max_steps=2000), 4.8)])
    assert "Each neural model was trained for 15 s or 2,000 steps." in notes
    _, notes = told_of(tmp_path / "one", [ok(trial("kn5"), 5.0), two[0]])
    assert notes.endswith("mlp was trained for 15 s.")


@pytest.mark.parametrize(
    ("kn5", "told"),
    [(4.0, "kn5 is not significantly worse, all others are."), (3.0, "; every other model is significantly worse.")],
)
def test_counting_models_that_a_network_cannot_be_told_from_are_named(tmp_path: Path, kn5: float, told: str) -> None:
    records = [ok(trial("kn5"), kn5), ok(trial("bigram"), 9.0), ok(trial("mlp"), 3.998)]
    text, _ = told_of(tmp_path, records)
    assert told in text
    assert ("mlp has the lowest" in text) == (kn5 == 4.0)
    assert ("The best neural model, mlp (" in text) == (kn5 == 3.0)


def test_of_many_targets_the_hardest_that_were_passed_and_the_easiest_that_were_not(tmp_path: Path) -> None:
    records = [ok(trial(f"ngram:order={n}", family="counting"), 10.0 - n, levels=[10.0 - n]) for n in range(1, 9)]
    text, _ = told_of(tmp_path, [*records, ok(trial("mlp"), 6.0, levels=[20.0, 6.0])])
    assert "passed ngram:order=2 after 0.297 s, ngram:order=3 after 0.297 s and ngram:order=4 after 0.297 s" in text
    assert "never passed ngram:order=5, ngram:order=6, ngram:order=7 and ngram:order=8." in text


def test_without_a_target_nothing_is_said_of_passing(tmp_path: Path) -> None:
    text, _ = told_of(tmp_path, [ok(trial("mlp"), 4.0), ok(trial("rnn"), 5.0)])
    assert "passed" not in text


def test_many_ties_are_counted(tmp_path: Path) -> None:
    text, _ = told_of(tmp_path, [ok(trial(f"mlp:hidden={n}"), 4.0) for n in range(9)])
    assert "and 5 more are not significantly worse." in text


def test_an_adaptive_winner_is_told_as_such_with_the_best_of_the_others(tmp_path: Path) -> None:
    cache = ok(trial("cache"), 4.0, changes={"is_adaptive": True})
    _, notes = told_of(tmp_path / "first", [cache, ok(trial("kn5"), 5.0), ok(trial("bigram"), 9.0)])
    assert "cache* learns from the text that it scores; the best that does not is kn5 (" in notes
    _, notes = told_of(tmp_path / "alone", [cache])
    assert notes == "cache* learns from the text that it scores."
    _, notes = told_of(tmp_path / "second", [cache, ok(trial("kn5"), 3.0)])
    assert "learns" not in notes


def ranking_of(folder: Path, records: list[TrialRecord]) -> Sheet:
    rows = rows_of(read_run(write(folder, records)))
    return sheets_of(rows, pairs_of(rows), ())[0][2][0]


def test_the_ranking_has_speed_and_the_slowest_of_a_hundred_tokens(tmp_path: Path) -> None:
    sheet = ranking_of(tmp_path, [ok(trial("kn5"), 4.4)])
    cells = dict(zip(sheet.headers, sheet.rows[0], strict=True))
    assert cells["tokens/s"] == "200 k"
    assert cells["next token, µs (p99)"] == "30.0 (60.0)"
    assert cells["peak memory"] == "60.0 MiB"
    assert "why not ranked" not in cells


def test_what_failed_is_a_row_with_its_reason(tmp_path: Path) -> None:
    records = [
        ok(trial("kn5"), 4.4),
        failed(trial("mlp"), "out_of_memory", "over 100 MiB"),
        ok(trial("rnn", seed=0), 5.0),
        failed(trial("rnn", seed=1), "killed", "signal 9"),
    ]
    sheet = ranking_of(tmp_path, records)
    assert len(sheet.align) == len(sheet.headers)
    cells = [dict(zip(sheet.headers, row, strict=True)) for row in sheet.rows]
    assert [(row["#"], row["model"], row["test perplexity"]) for row in cells[1:]] == [
        ("", "mlp", "out of memory"),
        ("", "rnn", "killed"),
    ]
    assert [row["why not ranked"] for row in cells[:2]] == ["", "over 100 MiB"]
    assert cells[2]["why not ranked"].startswith("1 of 2 seeds failed (seed 1): signal 9; the others reached 4.")


def test_of_many_targets_plain_models_come_before_their_variants(tmp_path: Path) -> None:
    counting = [
        ok(trial(name, family="counting"), ppl, levels=[ppl])
        for name, ppl in {"bigram": 9.0, "kn5": 5.0, **{f"ngram:order={n}": 4 + n / 99 for n in range(9)}}.items()
    ]
    rows = rows_of(read_run(write(tmp_path, [*counting, ok(trial("mlp"), 4.0, levels=[20.0, 4.0])])))
    (sheet,) = {title: sheets for title, _, sheets in sheets_of(rows, (), ())}["Speed to perplexity"]
    names = [header.split(" (")[0] for header in sheet.headers[1:]]
    # easiest first; of the variants the hardest, the farthest from that, and what lies in the middle between others
    assert names == ["bigram", "kn5", *[f"ngram:order={n}" for n in (8, 4, 2, 0)]]
