"""How fast the neural models train and answer: `python -m pytest benchmarks/bench_neural.py`.

Training steps are those of the textbook (256 units, 32 columns, 35 tokens) on made-up text; what is timed is a block of
steps, so that tokens/s = STEPS x 32 x 35 / seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo.budget import Budget
from lmzoo.corpus import Corpus
from lmzoo.interface import Progress
from lmzoo.registry import create_trainer

pytest.importorskip("torch")

RECURRENT = [f"{cell}-{kernel}" for cell in ("rnn", "gru", "lstm") for kernel in ("scratch", "cudnn")]
STEPS = 5
SCORED_TOKENS = 20_000


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    text = "".join(letters[np.random.default_rng(0).integers(len(letters), size=200_000)])
    return lmzoo.corpus_from_texts({"train": text, "valid": text[:1000], "test": text[:1000]}, tokens="char")


def begun(name: str, corpus: Corpus) -> tuple[Any, Iterator[Progress]]:
    """A model in the textbook's setting after its first step, and the steps that follow."""
    trainer = create_trainer(f"{name}:recipe=textbook", corpus.vocab)
    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget())
    next(steps)
    return trainer.model, steps


def note_rate(benchmark: Any, n_tokens: float) -> None:
    # under --benchmark-disable nothing was timed
    if benchmark.stats:
        benchmark.extra_info["tokens_per_s"] = n_tokens / benchmark.stats["median"]


@pytest.mark.parametrize("name", [*RECURRENT, "mlp", "transformer"])
def test_training(benchmark: Any, corpus: Corpus, name: str) -> None:
    _, steps = begun(name, corpus)
    done: list[Progress] = []
    benchmark(lambda: done.extend(itertools.islice(steps, STEPS)))
    note_rate(benchmark, STEPS * done[-1].tokens / done[-1].steps)


@pytest.mark.parametrize("name", [*RECURRENT, "mlp", "transformer"])
def test_next_token(benchmark: Any, corpus: Corpus, name: str) -> None:
    """One token read and the next one's distribution asked for, as sampling does."""
    model, _ = begun(name, corpus)
    state, token = model.initial_state(), np.array([[5]], np.int32)
    benchmark(lambda: model.next_logprobs(model.logprobs(token, state)[1]))


@pytest.mark.parametrize("name", [*RECURRENT, "mlp", "transformer"])
def test_one_long_document(benchmark: Any, corpus: Corpus, name: str) -> None:
    model, _ = begun(name, corpus)
    tokens_1xL = corpus.train.ids_N[None, :SCORED_TOKENS]
    benchmark.pedantic(lambda: model.logprobs(tokens_1xL, model.initial_state()), rounds=5, warmup_rounds=1)
    note_rate(benchmark, SCORED_TOKENS)
