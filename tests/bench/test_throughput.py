"""Speed under a clock that the test moves: the figures are then exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bench import throughput
from lmzoo import corpus_from_texts
from lmzoo.budget import Stopwatch

# powers of two, so that sums of them are exact
SECONDS_A_TOKEN = 2.0**-14
SECONDS_A_STEP = 2.0**-6


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def watch(self) -> Stopwatch:
        return Stopwatch(lambda: self.now_s)


class Uniform:
    """Every symbol is as probable as any other; each token scored and each distribution asked for takes its time."""

    context_size = 0
    is_normalized = True
    is_adaptive = False

    def __init__(self, vocab: Any, clock: Clock) -> None:
        self.vocab = vocab
        self.n_calls = 0
        self._clock = clock

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> int:
        return batch_size

    def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
        self.n_calls += 1
        self._clock.now_s += SECONDS_A_TOKEN * tokens_BxL.size
        return np.where(tokens_BxL == self.vocab.bos_id, -math.inf, -math.log(self.vocab.n_predictable)), state

    def next_logprobs(self, state: int) -> Any:
        self._clock.now_s += SECONDS_A_STEP
        logprobs_BxV = np.full((state, len(self.vocab)), -math.log(self.vocab.n_predictable))
        logprobs_BxV[:, self.vocab.bos_id] = -math.inf
        return logprobs_BxV


@pytest.fixture
def clock() -> Clock:
    return Clock()


CORPUS = corpus_from_texts({"whole": "the cat sat on the mat and the dog sat on the log\n" * 200})


def test_the_rate_of_scoring_is_tokens_by_seconds(clock: Clock) -> None:
    rates = throughput.scoring_rates(Uniform(CORPUS.vocab, clock), CORPUS.test, new_watch=clock.watch)
    assert rates == [1 / SECONDS_A_TOKEN] * throughput.N_REPEATS


def test_each_repeat_lasts_long_enough_and_the_first_passes_warm_up(clock: Clock) -> None:
    model = Uniform(CORPUS.vocab, clock)
    throughput.scoring_rates(model, CORPUS.test, new_watch=clock.watch)
    tokens_timed = clock.now_s / SECONDS_A_TOKEN
    least = throughput.N_REPEATS * throughput.REPEAT_S / SECONDS_A_TOKEN
    # two passes over 1000 tokens come first
    assert tokens_timed >= least + 2 * min(1000, CORPUS.test.n_tokens)


def test_the_next_token_takes_a_distribution_and_a_step(clock: Clock) -> None:
    model = Uniform(CORPUS.vocab, clock)
    calls = throughput.next_token_microseconds(model, CORPUS.test, new_watch=clock.watch)
    assert len(calls) == throughput.N_REPEATS
    for values in calls:
        assert set(values) == {(SECONDS_A_STEP + SECONDS_A_TOKEN) * 1e6}
        assert sum(values) >= throughput.REPEAT_S * 1e6


def test_quartiles_and_the_word_unstable() -> None:
    # of 1..5 the quartiles are 2 and 4, which is 2/3 of the median apart
    figures = throughput.repeats([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (figures.low_quartile, figures.median, figures.high_quartile) == (2.0, 3.0, 4.0)
    assert figures.values == (5.0, 1.0, 2.0, 4.0, 3.0)
    assert figures.unstable
    assert not throughput.repeats([100.0, 101.0, 102.0, 103.0, 104.0]).unstable


def test_the_99th_percentile_is_over_all_calls() -> None:
    assert throughput.percentile_99([1.0] * 99 + [101.0]) == pytest.approx(1 + 0.01 * 100)
