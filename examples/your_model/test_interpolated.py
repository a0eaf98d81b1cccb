"""The contract, and a figure by hand."""

import math

import pytest

import lmzoo


def test_it_keeps_the_contract() -> None:
    model = lmzoo.train("interpolated", lmzoo.load_corpus("genesis"))
    results = lmzoo.check_language_model(model, spec="interpolated")
    assert [result for result in results if result.status == "failed"] == []


def test_a_probability_by_hand() -> None:
    corpus = lmzoo.corpus_from_texts({"train": "ab ab ac", "valid": "ab", "test": "ab"})
    model = lmzoo.train("interpolated:weight=0.5", corpus)
    p = {token: math.exp(logprob) for token, logprob in lmzoo.top_k(model, "a")}
    # c(a b) = 2 of c(a) = 3; c(b) + 1 = 3 of 8 characters and 5 symbols, <unk> among them
    assert p["b"] == pytest.approx(0.5 * 2 / 3 + 0.5 * 3 / 13)
