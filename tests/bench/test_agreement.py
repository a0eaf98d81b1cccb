"""A device is believed as far as the processor says the same of the same weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from bench import agreement
from bench.agreement import device_agreement, disagreement, largest_difference
from bench.records import Figure
from lmzoo import corpus_from_texts
from tests.bench.test_throughput import Clock, Uniform

CORPUS = corpus_from_texts({"whole": "the cat sat on the mat and the dog sat on the log\n" * 300}, tokens="char")


class OnDevice:
    """A model on a device that is not here: it can be saved, and its scores are off by so many nats."""

    device = "cuda:0"

    def __init__(self, model: Any, off_nats: float, from_token: int = 0) -> None:
        self._model = model
        # from Python 3.12 on what can be saved is looked up without __getattr__
        self.kind, self.vocab = model.kind, model.vocab
        self._off_nats = off_nats
        self._from_token = from_token
        self.n_scored = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def to_parts(self) -> Any:
        return self._model.to_parts()

    def sequence_logprobs(self, ids_N: Any, starts_D1: Any) -> Any:
        state = self._model.initial_state()
        logprobs_N = self._model.logprobs(ids_N[None, :], state)[0][0].copy()
        logprobs_N[self._from_token :] -= self._off_nats
        self.n_scored += len(ids_N)
        return logprobs_N


@pytest.fixture(scope="module")
def bigram() -> Any:
    return lmzoo.train("ngram:order=2,smoothing=addk", CORPUS)


@pytest.mark.parametrize("off_nats", [0.0, 1e-5, 1e-3])
def test_the_difference_is_that_of_the_scores(bigram: Any, off_nats: float) -> None:
    model = OnDevice(bigram, off_nats)
    figure = device_agreement(model, CORPUS.test, "cuda:0")
    assert figure.number == pytest.approx(off_nats, abs=1e-12)
    warning = disagreement(figure, "cuda:0")
    # 1e-4 nats a token are granted
    assert (warning is not None) == (off_nats > 1e-4)
    if warning is not None:
        assert warning.startswith("cuda:0 and the CPU differ by up to 0.001 nats a token on the same weights")


def test_the_sample_is_fixed(bigram: Any) -> None:
    assert CORPUS.test.n_tokens > 1000
    model = OnDevice(bigram, 1e-3, from_token=999)
    assert device_agreement(model, CORPUS.test, "cuda").number == pytest.approx(1e-3, abs=1e-12)
    assert model.n_scored == 1000
    # what lies behind it is not looked at
    assert device_agreement(OnDevice(bigram, 1e-3, from_token=1000), CORPUS.test, "cuda").number == 0.0


def test_on_the_processor_there_is_nothing_to_compare(bigram: Any) -> None:
    figure = device_agreement(bigram, CORPUS.test, "cpu")
    assert (figure.value, figure.reason) == (None, "trained and scored on the CPU")
    assert disagreement(figure, "cpu") is None


def test_a_model_that_cannot_be_saved_says_so() -> None:
    figure = device_agreement(Uniform(CORPUS.vocab, Clock()), CORPUS.test, "cuda")
    assert figure.reason is not None
    assert figure.reason.startswith("Uniform cannot be saved")


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(-1, 1)), min_size=1))
def test_the_largest_of_all_differences_counts(pairs: list[tuple[float, float]]) -> None:
    nats_N = np.array([nats for nats, _ in pairs])
    others_N = np.array([nats + off for nats, off in pairs])
    assert largest_difference(nats_N, others_N) == max(abs(a - b) for a, b in zip(nats_N, others_N, strict=True))
    assert largest_difference(nats_N, others_N) == largest_difference(others_N, nats_N)


@pytest.mark.parametrize(("here", "there", "gap"), [(math.inf, math.inf, 0.0), (math.inf, 1.0, math.inf)])
def test_what_is_impossible_on_both_agrees(here: float, there: float, gap: float) -> None:
    assert largest_difference(np.array([here, 1.0]), np.array([there, 1.0])) == gap


def test_what_is_no_number_agrees_with_nothing() -> None:
    assert largest_difference(np.array([math.nan]), np.array([math.nan])) == math.inf
    warning = disagreement(Figure.of(math.inf, "no number"), "cuda")
    assert warning is not None
    assert "inf nats" in warning


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm-scratch", "lstm-cudnn", "mlp", "transformer"])
def test_cuda_agrees(name: str) -> None:
    model = lmzoo.train(f"{name}:hidden=32", CORPUS, max_steps=20, device="cuda")
    figure = device_agreement(model, CORPUS.test, "cuda")
    assert figure.number is not None
    assert figure.number <= agreement.TOLERANCE_NATS


@pytest.mark.gpu
def test_the_best_weights_are_scored_on_the_device() -> None:
    model = lmzoo.train("lstm-cudnn:hidden=32,lr=3", CORPUS, budget=2.0, device="cuda")
    assert model.device.startswith("cuda")  # type: ignore[attr-defined]
