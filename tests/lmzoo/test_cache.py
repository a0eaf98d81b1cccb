"""Caches: n-grams of what was read, blended as their formula says, whatever the size of the pieces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.cache import CacheConfig, CacheModel
from lmzoo.errors import TokenError

CORPUS = lmzoo.corpus_from_texts({"train": "abc", "valid": "abc", "test": "abc"})
VOCAB = CORPUS.vocab
UNIFORM = 1 / VOCAB.n_predictable


def ids_of(text: str) -> np.ndarray:
    return VOCAB.encode(text)[None, :]


def p_after(text: str, **options: float) -> dict[str, float]:
    """p of a, b and c once a text was read."""
    cache = CacheModel(VOCAB, CacheConfig(**{"decay": 1.0, **options}))
    _, state = cache.logprobs(ids_of(text), cache.initial_state())
    p_V = np.exp(cache.next_logprobs(state)[0])
    assert p_V.sum() == pytest.approx(1, abs=1e-12)
    assert p_V[VOCAB.bos_id] == 0
    return {token: float(p_V[VOCAB.token_to_id[token]]) for token in "abc"}


def test_single_tokens_by_hand() -> None:
    # aab: c(a)=2, c(b)=1, N=3, T=2; half of each last time goes to uniform
    p = p_after("aab", order=1)
    assert p["a"] == pytest.approx((2 - 0.5) / 3 + 0.5 * 2 / 3 * UNIFORM)
    assert p["b"] == pytest.approx((1 - 0.5) / 3 + 0.5 * 2 / 3 * UNIFORM)
    assert p["c"] == pytest.approx(0.5 * 2 / 3 * UNIFORM)


def test_nothing_read_is_uniform() -> None:
    assert p_after("") == pytest.approx({"a": UNIFORM, "b": UNIFORM, "c": UNIFORM})


def test_without_a_discount_the_longest_context_decides() -> None:
    # a was followed by b once and by nothing else
    assert p_after("abcca", order=2, discount=0) == pytest.approx({"a": 0, "b": 1, "c": 0})
    # c never was followed by anything; of single tokens each occurred once
    assert p_after("abc", order=2, discount=0) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})


def test_decay_favours_the_latest() -> None:
    # weights 1/4, 1/2 and 1
    assert p_after("aab", order=1, discount=0, decay=0.5) == pytest.approx({"a": 3 / 7, "b": 4 / 7, "c": 0})


def test_what_is_older_than_its_size_is_forgotten() -> None:
    assert p_after("aab", order=1, discount=0, size=1) == pytest.approx({"a": 0, "b": 1, "c": 0})
    # of a and b remembered, b alone may have followed a
    assert p_after("aaba", order=2, discount=0, size=3) == pytest.approx({"a": 0, "b": 1, "c": 0})


def by_formula(text: str, t: int, token: str, config: CacheConfig) -> float:
    """p of a token before place t, from the formula, place by place."""
    first = max(t - config.size, 0)
    p = UNIFORM
    for length in range(min(config.order, t - first)):
        context = text[t - length : t]
        followed = [s for s in range(first + length, t) if text[s - length : s] == context]
        if not followed:
            break
        weight = {s: config.decay ** (t - 1 - s) for s in followed}
        last = {text[s]: weight[s] for s in followed}
        own = sum(weight[s] for s in followed if text[s] == token)
        total = sum(weight.values())
        p = (own - config.discount * last.get(token, 0)) / total + config.discount * sum(last.values()) / total * p
    return p


configs = st.builds(
    CacheConfig,
    order=st.integers(1, 6),
    size=st.integers(1, 30),
    decay=st.sampled_from([1.0, 0.99, 0.5]),
    discount=st.sampled_from([0.3, 0.5, 1.0]),
)


@given(st.text("abc", min_size=1, max_size=40), configs)
@settings(max_examples=60)
def test_it_is_its_formula(text: str, config: CacheConfig) -> None:
    cache = CacheModel(VOCAB, config)
    logprobs, state = cache.logprobs(ids_of(text), cache.initial_state())
    wanted = [by_formula(text, t, token, config) for t, token in enumerate(text)]
    np.testing.assert_allclose(np.exp(logprobs[0]), wanted, rtol=1e-9, atol=1e-15)
    p_V = np.exp(cache.next_logprobs(state)[0])
    for token in "abc":
        assert p_V[VOCAB.token_to_id[token]] == pytest.approx(by_formula(text, len(text), token, config), rel=1e-9)


@given(st.text("abc", max_size=40), configs, st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=60)
def test_any_pieces_give_the_same(text: str, config: CacheConfig, cuts: list[int]) -> None:
    cache = CacheModel(VOCAB, config)
    ids = ids_of(text)
    whole, after = cache.logprobs(ids, cache.initial_state())
    state, pieces = cache.initial_state(), []
    bounds = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for low, high in itertools.pairwise(bounds):
        piece, state = cache.logprobs(ids[:, low:high], state)
        pieces.append(piece)
    np.testing.assert_array_equal(state, after)
    if pieces:
        np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, rtol=1e-9)


def test_old_weights_stay_weights() -> None:
    # 0.01^100 is 1e-200: what is older is forgotten, and nothing is divided by 0
    cache = CacheModel(VOCAB, CacheConfig(order=2, decay=0.01))
    text = "ab" + "c" * 150 + "a"
    logprobs, state = cache.logprobs(ids_of(text + "b"), cache.initial_state())
    assert state.shape == (1, 100)
    assert np.isfinite(logprobs).all()


def test_a_state_has_its_shape() -> None:
    cache = CacheModel(VOCAB, CacheConfig(size=2))
    for state in (np.zeros((1, 3), np.int64), np.zeros(2, np.int64), np.zeros((1, 2)), None):
        with pytest.raises(TokenError, match="state of a cache is ids of shape"):
            cache.next_logprobs(state)  # type: ignore[arg-type]
