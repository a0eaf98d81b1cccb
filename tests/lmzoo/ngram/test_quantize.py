"""Models of few bits: still distributions, near the exact ones, and no better than they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo.errors import InputError
from lmzoo.ngram.quantize import quantize
from tests.lmzoo.ngram.test_laws import corpus_of, counted, lines, orders

TEXT = ["abracadabra", "abrakadabra", "cadabra", "barbara", "bacca"]
SMOOTHINGS = ["mkn", "kn", "ad", "wb", "jm", "katz", "addk"]


@given(lines, orders, st.sampled_from(SMOOTHINGS), st.integers(8, 16))
def test_sums_stay_near_1_and_never_exceed_it(train: list[str], order: int, smoothing: str, bits: int) -> None:
    model = quantize(counted(corpus_of(train), order, smoothing), bits)
    for history in ("", "a", "ab", "bca", "abcd"):
        for bos in (True, False):
            _, state = model.logprobs(model.vocab.encode(history)[None, :], model.initial_state(bos=bos))
            assert 1 - 2e-2 <= np.exp(model.next_logprobs(state)).sum() <= 1 + 1e-9


@given(lines, orders, st.sampled_from(SMOOTHINGS))
def test_figures_that_fit_the_book_are_kept(train: list[str], order: int, smoothing: str) -> None:
    exact = counted(corpus_of(train), order, smoothing)
    coarse = quantize(exact, 16)
    tokens = exact.vocab.encode("abcdabca")[None, :]
    wanted, got = (model.logprobs(tokens, model.initial_state())[0] for model in (exact, coarse))
    # the steps of back-offs are what is left of the difference
    assert got == pytest.approx(wanted, abs=0.05)


@pytest.mark.parametrize("smoothing", ["mle", "sb"])
def test_what_hands_nothing_down_keeps_its_backoffs(smoothing: str) -> None:
    exact = counted(corpus_of(TEXT), 3, smoothing)
    coarse = quantize(exact, 8)
    assert coarse.is_normalized == exact.is_normalized
    for wanted, got in zip(exact.trie.tables(), coarse.trie.tables(), strict=True):
        assert got.backoff_G.tolist() == wanted.backoff_G.tolist()


@pytest.mark.whole
def test_each_order_has_at_most_so_many_values_and_the_file_is_smaller(tmp_path) -> None:
    corpus = lmzoo.load_corpus("genesis", tokens="word")
    exact = lmzoo.train("trigram", corpus)
    sizes = [lmzoo.save(exact, tmp_path / "exact.lm").stat().st_size]
    perplexities = [lmzoo.evaluate(exact, corpus.test).perplexity]
    for bits in (12, 8):
        coarse = quantize(exact, bits)
        assert all(len(np.unique(table.logp_G)) <= 1 << bits for table in coarse.trie.tables())
        path = lmzoo.save(coarse, tmp_path / "coarse.lm")
        sizes.append(path.stat().st_size)
        back = lmzoo.load(path)
        assert back.details["bits"] == bits
        perplexities.append(lmzoo.evaluate(back, corpus.test).perplexity)
        assert perplexities[-1] == lmzoo.evaluate(coarse, corpus.test).perplexity
    assert sizes == sorted(sizes, reverse=True)
    # a model whose sums exceed 1 would look better than the exact one
    assert perplexities[0] < perplexities[1] < 1.01 * perplexities[0]
    assert perplexities[1] < perplexities[2] < 1.2 * perplexities[0]


@pytest.mark.parametrize("bits", [7, 17])
def test_bits_out_of_range(bits: int) -> None:
    with pytest.raises(InputError, match=f"bits must be 8 to 16, got {bits}"):
        quantize(counted(corpus_of(TEXT), 2), bits)


@pytest.mark.parametrize("bits", [8, 10, 12])
def test_it_keeps_the_contract(bits: int) -> None:
    model = quantize(counted(corpus_of(TEXT), 4), bits)
    failed = [result for result in lmzoo.check_language_model(model) if result.status == "failed"]
    assert failed == []
