"""The benchmark of latency: all sides do the same work, and the arithmetic from seconds to the table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lmzoo.budget import Stopwatch

pytest.importorskip("torch")

from benchmarks import latency

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("cell", latency.CELLS)
def test_all_sides_give_the_same_distributions(cell: str) -> None:
    vocab = latency.letters()
    assert vocab.n_predictable == 28
    sides = latency.readers(cell, vocab, hidden=8)
    latency.check_agreement(sides, [5, 2, 0, 28, 5])
    distribution = np.exp(sides[latency.PLAIN](3).astype(np.float64))
    assert distribution.sum() == pytest.approx(1, abs=1e-5)
    # far more than sides may differ by, so that one that answered anything else would show
    assert np.ptp(distribution[distribution > 0]) > 20 * latency.TOLERANCE


def test_a_side_that_does_something_else_is_refused() -> None:
    sides = latency.readers("rnn", latency.letters(), hidden=8)
    lazy = {**sides, "lazy": lambda token: np.full(29, -np.log(29), np.float32)}
    with pytest.raises(RuntimeError, match=r"lazy is .* off plain torch"):
        latency.check_agreement(lazy, [3])


def test_sides_take_turns_and_the_first_round_is_not_counted() -> None:
    read: list[tuple[str, int]] = []
    sides = {name: lambda token, name=name: read.append((name, token)) for name in "ab"}
    # each token takes as many seconds as there were clock readings before it
    clock = itertools.accumulate(itertools.count(), initial=0)
    taken = latency.seconds(sides, np.array([[1, 2], [3, 4]]), lambda: Stopwatch(lambda: float(next(clock))))
    assert read == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 3), ("b", 4)]
    # a watch is read twice a token, 0 and 0, 1 and 3, 6 and 10: the difference rises by 2 each time, the fifth is 8
    assert {name: seconds.tolist() for name, seconds in taken.items()} == {"a": [[8, 10]], "b": [[12, 14]]}


def test_ratios_are_of_the_same_round() -> None:
    # rounds of one token: ours takes 1, 2, 4 µs, plain torch 3, 4, 20
    taken = {"ours": np.array([[1e-6], [2e-6], [4e-6]]), latency.PLAIN: np.array([[3e-6], [4e-6], [20e-6]])}
    ours, plain = latency.rows("gru", taken)
    assert ours == "| gru | ours | 2.0 | 3.00 (2.00 to 5.00) | 2.0 | 3.00 (2.00 to 5.00) |"
    assert plain == "| gru | plain torch | 4.0 |  | 4.0 |  |"


def test_the_whole_table() -> None:
    title, *table = latency.lines(rounds=1, n_tokens=2)
    assert title.endswith("1 rounds of 2 tokens.\n")
    assert len({row.count("|") for row in table}) == 1
    assert {row.split(" | ")[0].strip("| ") for row in table[2:]} == set(latency.CELLS)
