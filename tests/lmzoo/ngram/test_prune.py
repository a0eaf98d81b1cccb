"""Pruned models: still distributions, what is kept unchanged, and what matters against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo.errors import InputError
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import entropy_rises, prune_by_entropy, prune_to_bytes, prune_to_size
from lmzoo.ngram.trie import from_keys
from tests.lmzoo.ngram.test_laws import corpus_of, counted, lines, orders

OPTIONS = ["cutoffs=1/1/2", "cutoffs=1/3", "prune=1e-3", "prune=0.1", "max_ngrams=9", "cutoffs=1/2,prune=1e-2"]
TEXT = ["abracadabra", "abrakadabra", "cadabra", "barbara", "bacca"]


@given(lines, orders, st.sampled_from(OPTIONS), st.sampled_from(["mkn", "kn", "ad", "wb", "jm", "katz", "addk"]))
def test_a_pruned_model_sums_to_1(train: list[str], order: int, options: str, smoothing: str) -> None:
    model = counted(corpus_of(train), order, f"{smoothing},{options}")
    for history in ("", "a", "ab", "bca", "abcd"):
        for bos in (True, False):
            _, state = model.logprobs(model.vocab.encode(history)[None, :], model.initial_state(bos=bos))
            assert np.exp(model.next_logprobs(state)).sum() == pytest.approx(1, abs=1e-9)


def test_nothing_to_take_out_changes_nothing() -> None:
    corpus = corpus_of(TEXT, test="abraab")
    whole, pruned = counted(corpus, 4), counted(corpus, 4, "mkn,prune=0,cutoffs=1")
    assert pruned.n_params == whole.n_params
    tallies = [lmzoo.evaluate(m, corpus.test).nll_nats for m in (whole, pruned)]
    assert tallies[0] == pytest.approx(tallies[1], rel=1e-12)


def test_cutoffs_keep_what_was_seen_often_and_its_histories() -> None:
    model = counted(corpus_of(["abab", "abc", "ab"]), 3, "mkn,cutoffs=1/1/2")
    # trigrams: <s>ab 3, aba 1, bab 1, ab</s> 2, abc 1, bc</s> 1
    names = model.vocab.tokens
    keys, _ = model.tables
    bigrams = [names[k // len(names)] + names[k % len(names)] for k in keys[1]]
    trigrams = [bigrams[k // len(names)] + names[k % len(names)] for k in keys[2]]
    assert sorted(trigrams) == ["<s>ab", "ab</s>"]


def test_the_rise_is_the_relative_entropy_of_taking_one_out() -> None:
    model = counted(corpus_of(TEXT), 3)
    keys, _ = model.tables
    n_symbols = len(model.vocab)
    rises = entropy_rises(model)
    for g in range(0, len(keys[2]), 5):
        history = int(keys[2][g] // n_symbols)
        first, second = divmod(int(keys[1][history]), n_symbols)
        without = _model_without(model, g)
        before, after = (_distribution(m, first, second) for m in (model, without))
        seen = before > 0
        divergence = float((before[seen] * np.log(before[seen] / after[seen])).sum())
        assert rises[2][g] == pytest.approx(_p_history(model, first, second) * divergence, rel=1e-6, abs=1e-12)


def _model_without(model: NgramModel, g: int) -> NgramModel:
    """The model without one trigram, its history's back-off such that it sums to 1: by trying all other tokens."""
    keys, tables = model.tables
    n_symbols = len(model.vocab)
    history = int(keys[2][g] // n_symbols)
    others = (keys[2] // n_symbols == history) & (np.arange(len(keys[2])) != g)
    second = int(keys[1][history]) % len(model.vocab)
    lower = np.exp(model.next_logprobs(model.logprobs(np.array([[second]]), model.initial_state(bos=False))[1])[0])
    rest = 1 - np.exp(tables[2].logp_G[others]).sum()
    lower_rest = 1 - lower[keys[2][others] % n_symbols].sum()
    backoff_G = tables[1].backoff_G.copy()
    backoff_G[history] = np.log(rest / lower_rest)
    kept = np.arange(len(keys[2])) != g
    new_tables = [
        tables[0],
        type(tables[1])(logp_G=tables[1].logp_G, backoff_G=backoff_G),
        type(tables[2])(logp_G=tables[2].logp_G[kept], backoff_G=np.zeros(0)),
    ]
    return NgramModel(model.vocab, from_keys([keys[0], keys[1], keys[2][kept]], new_tables, n_symbols), {})


def _distribution(model: NgramModel, first: int, second: int) -> np.ndarray:
    _, state = model.logprobs(np.array([[first, second]]), model.initial_state(bos=False))
    return np.asarray(np.exp(model.next_logprobs(state)[0]))


def _p_history(model: NgramModel, first: int, second: int) -> float:
    logp = model.logprobs(np.array([[first, second]]), model.initial_state(bos=False))[0][0]
    counts_V = model.vocab.counts_V
    p_first = counts_V[first] / counts_V.sum() if first == model.vocab.bos_id else np.exp(logp[0])
    return float(p_first * np.exp(logp[1]))


def test_a_higher_threshold_keeps_less() -> None:
    model = counted(corpus_of(TEXT), 4)
    sizes = [prune_by_entropy(model, t).n_params for t in (0.0, 1e-4, 1e-2, 1.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == len(model.vocab)


def test_to_a_size() -> None:
    model = counted(corpus_of(TEXT), 4)
    for size in (len(model.vocab), 20, 40, model.n_params, 10_000):
        pruned = prune_to_size(model, size)
        assert pruned.n_params <= size
        # no n-gram of like importance was taken out needlessly: half of what fits is there
        assert pruned.n_params > min(size, model.n_params) / 2
    with pytest.raises(InputError, match=r"max_ngrams=3 is less than the vocabulary's"):
        prune_to_size(model, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("smoothing=mle,prune=1e-3", "cannot be pruned"),
        ("cutoffs=1/x", "cutoffs are numbers such as 1/1/2"),
        ("prune=-1", "prune must be a number of at least 0"),
        ("prune=nan", "prune must be a number of at least 0"),
        ("max_ngrams=0", "max_ngrams must be at least 1"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(lmzoo.LmzooError, match=message):
        lmzoo.train(f"ngram:{options}", corpus_of(["ab"]))


def test_to_a_number_of_bytes(tmp_path) -> None:
    corpus = lmzoo.load_corpus("genesis")
    model = lmzoo.train("ngram:order=4,smoothing=wb", corpus)
    whole = lmzoo.save(model, tmp_path / "whole.lm").stat().st_size
    perplexities = []
    for share in (0.9, 0.5, 0.2):
        pruned = prune_to_bytes(model, int(share * whole))
        size = lmzoo.save(pruned, tmp_path / "pruned.lm").stat().st_size
        assert 0.8 * share * whole < size <= share * whole
        perplexities.append(lmzoo.evaluate(pruned, corpus.test).perplexity)
    assert perplexities == sorted(perplexities)
    assert prune_to_bytes(model, whole + 10_000) is model
    with pytest.raises(InputError, match="max_bytes=100 is less than the"):
        prune_to_bytes(model, 100)
