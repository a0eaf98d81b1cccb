"""Speed of a trained model: scoring a text, and one next token at a time.  Raw values are kept.

Warm-up first, then at least 5 repeats of at least 0.1 s each; time only through the stopwatch.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench.records import Repeats
from lmzoo.budget import Stopwatch
from lmzoo.corpus import Split
from lmzoo.evaluation import token_nats
from lmzoo.interface import LanguageModel

N_REPEATS = 5
REPEAT_S = 0.1
# an interquartile range above this share of the median is called unstable
_UNSTABLE_SHARE = 0.1
# a first, short text whose scoring time tells how long the text of a repeat may be
_WARM_UP_TOKENS = 1000


def scoring_rates(
    model: LanguageModel[Any], split: Split, *, new_watch: Callable[[], Stopwatch] = Stopwatch
) -> list[float]:
    """Tokens per second of scoring a text as evaluation does; a value for each repeat.

    The repeats walk on through the text, so that none scores what an earlier one did until the text is used up.
    """
    walk = _Walk(split)
    # the first stretch pays for allocations, the second one is timed: it tells how long a stretch may be
    token_nats(model, walk.stretch(_WARM_UP_TOKENS))
    watch, sample = new_watch(), walk.stretch(_WARM_UP_TOKENS)
    with watch.running():
        token_nats(model, sample)
    rate = sample.n_tokens / max(watch.elapsed_s, 1e-9)
    length = max(math.ceil(rate * REPEAT_S), _WARM_UP_TOKENS)
    # compiled code is loaded by the first text that is long enough for it
    token_nats(model, walk.stretch(length))
    return [_scoring_rate(model, walk, length, new_watch()) for _ in range(N_REPEATS)]


def _scoring_rate(model: LanguageModel[Any], walk: _Walk, length: int, watch: Stopwatch) -> float:
    n_tokens = 0
    while watch.elapsed_s < REPEAT_S:
        sample = walk.stretch(length)
        with watch.running():
            token_nats(model, sample)
        n_tokens += sample.n_tokens
    return n_tokens / watch.elapsed_s


class _Walk:
    """A text in stretches, each where the last one ended, and from the start again where not enough is left."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._at = 0

    def stretch(self, n_tokens: int) -> Split:
        """The next so many tokens, or the whole text; documents that lie across an end are cut there."""
        length = min(n_tokens, self._split.n_tokens)
        start = self._at if self._at + length <= self._split.n_tokens else 0
        self._at = end = start + length
        starts_D1 = self._split.starts_D1
        inner = starts_D1[(starts_D1 > start) & (starts_D1 < end)]
        bounds_D1 = np.concatenate(([start], inner, [end])) - start
        # only nats are asked for: characters, bytes and spelling belong to whole documents
        return dataclasses.replace(self._split, ids_N=self._split.ids_N[start:end], starts_D1=bounds_D1)


def next_token_microseconds(
    model: LanguageModel[Any], split: Split, *, new_watch: Callable[[], Stopwatch] = Stopwatch
) -> list[list[float]]:
    """Microseconds of each call from a state to the next token's distribution and the state after it, by repeat.

    The calls walk on through the text, so that none finds what an earlier one left in a cache.
    """
    steps = _steps(model, split, new_watch)
    _repeat(steps)
    return [_repeat(steps) for _ in range(N_REPEATS)]


def _repeat(steps: Iterator[float]) -> list[float]:
    values: list[float] = []
    total_s = 0.0
    while total_s < REPEAT_S:
        elapsed_s = next(steps)
        values.append(elapsed_s * 1e6)
        total_s += elapsed_s
    return values


def _steps(model: LanguageModel[Any], split: Split, new_watch: Callable[[], Stopwatch]) -> Iterator[float]:
    """Seconds of each step through the documents, over and over."""
    while True:
        for start, end in zip(split.starts_D1, split.starts_D1[1:], strict=False):
            state = model.initial_state(1)
            for position in range(int(start), int(end)):
                token_1x1 = split.ids_N[position : position + 1][None, :]
                watch = new_watch()
                with watch.running():
                    model.next_logprobs(state)
                    _, state = model.logprobs(token_1x1, state)
                yield watch.elapsed_s


def repeats(values: Sequence[float]) -> Repeats:
    """The raw values with their median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Repeats(
        values=tuple(values),
        median=median,
        low_quartile=low,
        high_quartile=high,
        unstable=high - low > _UNSTABLE_SHARE * median,
    )


def percentile_99(values: Sequence[float]) -> float:
    return float(np.percentile(values, 99))
