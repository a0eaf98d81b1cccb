"""The Pareto front: nobody beats its models in perplexity and in cost, and everybody else is beaten."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records import Figure, Memory, TrialRecord
from bench.report.front import (
    MEMORY,
    MODEL_SIZE,
    NEXT_TOKEN,
    SCORING,
    Cost,
    Offer,
    devices_of,
    front_notes,
    front_of,
    offers_of,
)
from bench.report.reading import read_run
from bench.report.rows import Row, rows_of
from tests.bench.synthetic import failed, ok, repeats, trial, usual, write


def rows_in(folder: Path, records: list[TrialRecord]) -> list[Row]:
    return rows_of(read_run(write(folder, records)))


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Row:
    return rows_in(tmp_path_factory.mktemp("run"), [ok(trial("kn5"), 4.4)])[0]


def beats(a: Offer, b: Offer, cost: Cost) -> bool:
    """Better in one and not worse in the other."""
    sign = -1 if cost.more_is_better else 1
    mine, other = (sign * a.cost, a.perplexity), (sign * b.cost, b.perplexity)
    return all(x <= y for x, y in zip(mine, other, strict=True)) and mine != other


@pytest.mark.parametrize("cost", [MODEL_SIZE, SCORING])
@given(points=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8))
def test_the_front_is_what_nobody_beats(row: Row, cost: Cost, points: list[tuple[int, int]]) -> None:
    offers = [Offer(row=row, name=str(n), cost=float(c), perplexity=float(p)) for n, (c, p) in enumerate(points)]
    unbeaten = {one.name for one in offers if not any(beats(other, one, cost) for other in offers)}
    front = front_of(offers, cost)
    assert {one.name for one in front} == unbeaten
    costs = [one.cost for one in front]
    assert costs == sorted(costs, reverse=cost.more_is_better)
    assert [one.perplexity for one in front] == sorted((one.perplexity for one in front), reverse=True)


def test_what_has_no_perplexity_or_no_cost_is_not_on_offer(tmp_path: Path) -> None:
    records = [
        ok(trial("kn5"), 4.4),
        ok(trial("bigram"), 9.0, infinite_blocks=3),
        failed(trial("mlp"), "killed", "signal 9"),
        ok(trial("rnn"), 5.0, memory_mib=40),
    ]
    rows = rows_in(tmp_path, records)
    # the synthetic baseline is 40 MiB: nothing came on top of it
    assert [one.name for one in offers_of(rows, MEMORY)] == ["kn5"]
    assert [one.name for one in offers_of(rows, MODEL_SIZE)] == ["kn5", "rnn"]


def test_the_notes_name_the_front_with_its_figures(tmp_path: Path) -> None:
    sizes = {"unigram": (17.0, 1024.0, 1.0), "kn5": (4.4, 2048.0, 2.0), "mlp": (5.6, 4096.0, 0.5)}
    records = [
        ok(trial(name), ppl, measures={"model_bytes": Figure.of(size), "next_token_us": repeats(us)})
        for name, (ppl, size, us) in sizes.items()
    ]
    notes = front_notes(rows_in(tmp_path, records), (MODEL_SIZE, NEXT_TOKEN))
    assert [note.split(":")[0] for note in notes] == [
        "Pareto front of perplexity and model size, smallest first",
        "Pareto front of perplexity and next token, fastest first",
    ]
    assert [name in notes[0] for name in sizes] == [True, True, False]
    assert "1.00 KiB), kn5 (4." in notes[0]
    # mlp is faster than the unigram and better
    assert [name in notes[1] for name in sizes] == [False, True, True]
    assert "0.500 µs" in notes[1]


def test_one_model_that_beats_all_is_told_as_such(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4, measures={"model_bytes": Figure.of(10.0)}), ok(trial("mlp"), 5.0)]
    assert front_notes(rows_in(tmp_path, records), (MODEL_SIZE,)) == ["kn5 is best in both perplexity and model size"]
    assert front_notes(rows_in(tmp_path / "alone", records[:1]), (MODEL_SIZE,)) == []


def test_a_long_front_is_cut_in_a_sentence(tmp_path: Path) -> None:
    records = [
        ok(trial(f"ngram:order={n}", family="counting"), 9.0 - n / 3, measures={"model_bytes": Figure.of(10.0**n)})
        for n in range(1, 15)
    ]
    (note,) = front_notes(rows_in(tmp_path, records), (MODEL_SIZE,))
    assert "ngram:order=9 (" in note
    assert "ngram:order=10 (" not in note
    assert "… 4 more …, ngram:order=14 (" in note


def test_a_device_offers_its_own_rows_and_what_runs_on_the_cpu_alone(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0)]
    memory = Memory(
        peak_rss_bytes=2**30, baseline_rss_bytes=2**29, peak_device_bytes=2**27, peak_device_reserved_bytes=2**28
    )
    records.append(ok(trial("mlp", device="cuda"), 5.0, changes={"memory": memory}))
    rows = rows_in(tmp_path, records)
    found = {device: [(row.model, row.device) for row in members] for device, members in devices_of(rows)}
    assert found == {
        "cpu": [("kn5", "cpu"), ("mlp", "cpu")],
        "cuda": [("mlp", "cuda"), ("kn5", "cpu")],
    }
    # on a device its own memory counts, of which a model on the CPU takes none: there is nothing to choose from
    assert front_notes(rows, (MEMORY, MODEL_SIZE)) == [
        "kn5 is best in both perplexity and peak memory above the baseline on cpu",
        "kn5 is best in both perplexity and model size on cpu",
        "kn5 is best in both perplexity and model size on cuda",
    ]


def test_usual_runs_have_a_front_of_several(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, usual())
    for cost in (MODEL_SIZE, MEMORY, SCORING, NEXT_TOKEN):
        offers = offers_of(rows, cost)
        assert 1 < len(front_of(offers, cost)) < len(offers) == len(rows)
