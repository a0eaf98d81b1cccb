"""Speed under a clock that the test moves: the figures are then exact."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def timed_seconds(clock: Clock, measure: Callable[..., object]) -> list[float]:
    """What each watch that a measurement makes has counted at its end."""
    watches: list[Stopwatch] = []

    def new_watch() -> Stopwatch:
        watches.append(clock.watch())
        return watches[-1]

    measure(Uniform(CORPUS.vocab, clock), CORPUS.test, new_watch=new_watch)
    return [watch.elapsed_s for watch in watches]


def test_each_repeat_lasts_long_enough_and_the_first_passes_warm_up(clock: Clock) -> None:
    first, *repeats = timed_seconds(clock, throughput.scoring_rates)
    n_tokens = CORPUS.test.n_tokens
    assert first == min(1000, n_tokens) * SECONDS_A_TOKEN
    assert len(repeats) == throughput.N_REPEATS >= 5
    assert min(repeats) >= throughput.REPEAT_S >= 0.1
    # before the watch first runs, a stretch; before the repeats, one of their length
    assert clock.now_s >= first + sum(repeats) + 2 * n_tokens * SECONDS_A_TOKEN


class FirstCallsSlow(Uniform):
    """Its first calls load and compile something."""

    def logprobs(self, tokens_BxL: Any, state: int) -> tuple[Any, int]:
        if self.n_calls < 2:
            self._clock.now_s += 100.0
        return super().logprobs(tokens_BxL, state)

    def next_logprobs(self, state: int) -> Any:
        self.n_calls += 1
        return super().next_logprobs(state)


def test_what_first_calls_cost_is_in_no_figure(clock: Clock) -> None:
    rates = throughput.scoring_rates(FirstCallsSlow(CORPUS.vocab, clock), CORPUS.test, new_watch=clock.watch)
    assert rates == [1 / SECONDS_A_TOKEN] * throughput.N_REPEATS
    calls = throughput.next_token_microseconds(FirstCallsSlow(CORPUS.vocab, clock), CORPUS.test, new_watch=clock.watch)
    assert {value for values in calls for value in values} == {(SECONDS_A_STEP + SECONDS_A_TOKEN) * 1e6}


class Remembering(Uniform):
    """Scores in a sixteenth of the time what it has scored before, after the same history."""

    def __init__(self, vocab: Any, clock: Clock) -> None:
        super().__init__(vocab, clock)
        self.known: set[bytes] = set()

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> Any:
        return b""

    def logprobs(self, tokens_BxL: Any, state: Any) -> tuple[Any, Any]:
        after = state + tokens_BxL.astype(np.int32).tobytes()
        before_s = self._clock.now_s
        logprobs_BxL, _ = super().logprobs(tokens_BxL, 1)
        if after in self.known:
            self._clock.now_s = before_s + (self._clock.now_s - before_s) / 16
        self.known.add(after)
        # no longer than a chunk, so that the test does not grow with the square of the text
        return logprobs_BxL, after[-4 * 64 :]

    def next_logprobs(self, state: Any) -> Any:
        before_s = self._clock.now_s
        logprobs_1xV = super().next_logprobs(1)
        if (asked := b"next " + state) in self.known:
            self._clock.now_s = before_s + (self._clock.now_s - before_s) / 16
        self.known.add(asked)
        return logprobs_1xV


LETTERS = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), 200_000)
# the test part is a tenth, 20,000 tokens: what five repeats of 0.1 s and their warm-up take
LONG = corpus_from_texts({"whole": "".join(LETTERS)}, tokens="char")


def test_a_model_gains_nothing_by_what_an_earlier_repeat_left(clock: Clock) -> None:
    rates = throughput.scoring_rates(Remembering(LONG.vocab, clock), LONG.test, new_watch=clock.watch)
    assert rates == [1 / SECONDS_A_TOKEN] * throughput.N_REPEATS
    # nor by what was asked for before; a history of 64 tokens does not come twice
    calls = throughput.next_token_microseconds(Remembering(LONG.vocab, clock), LONG.test, new_watch=clock.watch)
    assert {value for values in calls for value in values} == {(SECONDS_A_STEP + SECONDS_A_TOKEN) * 1e6}


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_a_walk_meets_no_token_twice_while_the_text_lasts(lengths: list[int], asked: list[int]) -> None:
    text = "".join("ab"[i % 2] * length + "\n" for i, length in enumerate(lengths))
    split = corpus_from_texts({"train": text, "valid": text, "test": text}, tokens="char", documents="line").test
    split = dataclasses.replace(split, ids_N=np.arange(split.n_tokens))
    walk = throughput._Walk(split)
    at = 0
    for n_tokens in asked:
        stretch = walk.stretch(n_tokens)
        n_taken = min(n_tokens, split.n_tokens)
        at = at if at + n_taken <= split.n_tokens else 0
        assert stretch.ids_N.tolist() == list(range(at, at + n_taken))
        # documents begin where they began, and at the first token
        inner = [start - at for start in split.starts_D1.tolist() if at < start < at + n_taken]
        assert stretch.starts_D1.tolist() == [0, *inner, n_taken]
        at += n_taken


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
