"""The laws of counting models, on random texts, against definitions written out with dictionaries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.ngram.counts import count_ngrams, counts_of_counts
from lmzoo.ngram.discounts import Discounts, DiscountWarning, katz_discounts, modified_discounts, single_discount
from lmzoo.ngram.held_out import best_k, fit_interpolation
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.runs import sorted_with_places
from tests.lmzoo.ngram import oracle

SMOOTHINGS = (
    "mkn",
    "mkn,interpolated=false",
    "mkn,discounts=tuned",
    "mkn,discounts=kenlm",
    "kn",
    "kn,interpolated=false",
    "kn,discounts=tuned",
    "ad",
    "ad,interpolated=false",
    "ad,discounts=tuned",
    "wb",
    "jm",
    "katz",
    "addk,k=0.3",
    "addk",
    "mle",
)

lines = st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=6)
orders = st.integers(1, 5)


def corpus_of(train: list[str], documents: str = "line", test: str = "abcd") -> Corpus:
    return lmzoo.corpus_from_texts({"train": "\n".join(train), "valid": "ab", "test": test}, documents=documents)


def counted(corpus: Corpus, order: int, smoothing: str = "mkn") -> NgramModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        model = lmzoo.train(f"ngram:order={order},smoothing={smoothing}", corpus)
    assert isinstance(model, NgramModel)
    return model


def padded_documents(corpus: Corpus) -> list[list[int]]:
    return [d.ids_L.tolist() for d in corpus.train]


@settings(max_examples=150)
@given(lines, orders, st.text("abcd", max_size=10), st.sampled_from(SMOOTHINGS), st.booleans())
def test_every_history_sums_to_1(train: list[str], order: int, history: str, smoothing: str, bos: bool) -> None:
    model = counted(corpus_of(train), order, smoothing)
    ids = model.vocab.encode(history)[None, :]
    _, state = model.logprobs(ids, model.initial_state(bos=bos))
    assert np.exp(model.next_logprobs(state)).sum() == pytest.approx(1, abs=1e-9)


@given(lines, orders)
def test_counts_are_those_of_a_dictionary(train: list[str], order: int) -> None:
    corpus = corpus_of(train)
    wanted = oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id)
    levels = count_ngrams(corpus.train, order)
    for k, (level, expected) in enumerate(zip(levels, wanted, strict=True)):
        assert sorted(level.counts_G[level.counts_G > 0].tolist()) == sorted(expected.values()), k


@given(st.lists(st.integers(0, 2**40), max_size=30), st.sampled_from([0, 2**60]))
def test_keys_are_sorted_packed_or_not(keys: list[int], offset: int) -> None:
    # beside so large a key there is no room for a place
    keys_M = np.array([*keys, offset], np.int64)
    sorted_M, by_key = sorted_with_places(keys_M.copy(), int(keys_M.max()))
    assert sorted_M.tolist() == sorted(keys_M.tolist())
    assert sorted(by_key.tolist()) == list(range(len(keys_M)))
    assert keys_M[by_key].tolist() == sorted_M.tolist()


def everywhere(model: NgramModel, text: str) -> tuple[list[tuple[int, ...]], list[float]]:
    """Each token of a document with its whole context, and its probability."""
    ids = [*model.vocab.encode(text).tolist(), model.vocab.eos_id]
    history = [model.vocab.bos_id, *ids]
    grams = [tuple(history[max(i + 2 - model.order, 0) : i + 2]) for i in range(len(ids))]
    logprobs, _ = model.logprobs(np.array([ids]), model.initial_state())
    return grams, np.exp(logprobs[0]).tolist()


@given(lines, orders, st.text("abcd", max_size=8))
def test_kneser_ney_is_its_definition(train: list[str], order: int, text: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order)
    seen = oracle.kneser_ney_counts(
        oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id), corpus.vocab.bos_id
    )
    discounts = [dict(enumerate(d, start=1)) for d in model.details["discounts"]]
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.kneser_ney(gram, seen, discounts, corpus.vocab.n_predictable), rel=1e-9)


@given(lines, orders, st.text("abcd", max_size=8))
def test_add_k_is_its_definition(train: list[str], order: int, text: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order, "addk,k=0.3")
    seen = oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id)
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.add_k(gram, seen, 0.3, corpus.vocab.n_predictable), rel=1e-9)


@given(lines, orders, st.text("abcd", max_size=8))
def test_maximum_likelihood_is_its_definition(train: list[str], order: int, text: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order, "mle")
    seen = oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id)
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.maximum_likelihood(gram, seen), rel=1e-9)


@given(st.permutations(["the cat", "a dog ran", "the dog", "cats"]), orders)
def test_the_order_of_documents_is_immaterial(train: list[str], order: int) -> None:
    shuffled, sorted_ = (counted(corpus_of(t), order) for t in (train, sorted(train)))
    for key, array in shuffled.to_parts()[1].items():
        np.testing.assert_array_equal(array, sorted_.to_parts()[1][key])


@given(lines, orders, st.sampled_from(SMOOTHINGS))
def test_whole_distributions_agree_with_single_tokens(train: list[str], order: int, smoothing: str) -> None:
    corpus = corpus_of(train, test="abcdcba")
    model = counted(corpus, order, smoothing)
    tokens = corpus.test.ids_N.reshape(2, 4)
    state = model.initial_state(2)
    whole = model.all_logprobs(tokens, state)
    picked = np.take_along_axis(whole, tokens[:, :, None].astype(np.int64), axis=2)[:, :, 0]
    np.testing.assert_allclose(picked, model.logprobs(tokens, state)[0], rtol=0, atol=1e-12)


@given(lines, orders, st.text("abcd", max_size=8))
def test_witten_bell_is_its_definition(train: list[str], order: int, text: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order, "wb")
    seen = oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id)
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.witten_bell(gram, seen, corpus.vocab.n_predictable), rel=1e-9)


@given(lines, orders, st.text("abcd", max_size=8))
def test_absolute_discounting_is_its_definition(train: list[str], order: int, text: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order, "ad")
    seen = oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id)
    discounts = [dict(zip((1, 2, 3), d * 3, strict=False)) for d in model.details["discounts"]]
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.kneser_ney(gram, seen, discounts, corpus.vocab.n_predictable), rel=1e-9)


@given(lines, orders, st.text("abcd", max_size=8), st.sampled_from(["mkn", "kn"]))
def test_backed_off_kneser_ney_is_its_definition(train: list[str], order: int, text: str, smoothing: str) -> None:
    corpus = corpus_of(train)
    model = counted(corpus, order, f"{smoothing},interpolated=false")
    seen = oracle.kneser_ney_counts(
        oracle.raw_counts(padded_documents(corpus), order, corpus.vocab.bos_id), corpus.vocab.bos_id
    )
    discounts = [dict(zip((1, 2, 3), (d * 3)[:3], strict=True)) for d in model.details["discounts"]]
    predictable = [i for i in range(len(corpus.vocab)) if i != corpus.vocab.bos_id]
    for gram, p in zip(*everywhere(model, text), strict=True):
        assert p == pytest.approx(oracle.backed_off(gram, seen, discounts, predictable), rel=1e-9)


def test_katz_worked_by_hand() -> None:
    # counts of counts 40, 16, 9, 6, 4, 3: 6 n6 / n1 = 0.45;  1* = 2 * 16 / 40 = 0.8, so d1 = (0.8 - 0.45) / 0.55
    discounts = katz_discounts(np.repeat([1, 2, 3, 4, 5, 6], [40, 16, 9, 6, 4, 3]))
    assert discounts.reason is None
    # 2* = 3 * 9 / 16 = 27/16, d2 = (27/32 - 0.45) / 0.55;  3* = 4 * 6 / 9 = 8/3, d3 = (8/9 - 0.45) / 0.55
    d1, d2, d3 = 0.35 / 0.55, (27 / 32 - 0.45) / 0.55, (8 / 9 - 0.45) / 0.55
    assert discounts.amounts[:3] == pytest.approx((1 - d1, 2 * (1 - d2), 3 * (1 - d3)))
    # above 5 nothing is taken off
    assert discounts.of(np.array([0, 6, 100])).tolist() == [0, 0, 0]


def test_good_turing_gives_the_unseen_what_it_takes() -> None:
    # the mass that Katz takes off all counts is n1, Good-Turing's estimate of the unseen
    few = np.repeat([1, 2, 3, 4, 5, 6, 40], [40, 16, 9, 6, 4, 3, 9])
    assert katz_discounts(few).of(few).sum() == pytest.approx(40)


def test_single_discount_by_hand() -> None:
    # n1=4, n2=2: D = 4 / (4 + 2 * 2)
    assert single_discount(np.array([1, 1, 1, 1, 2, 2, 7])).amounts == (0.5,)
    assert single_discount(np.array([2, 2, 3])).reason == "no n-gram has count 1"


def test_jelinek_mercer_weights_climb() -> None:
    # expectation maximisation never lowers the likelihood, so its weights beat those it starts from and near ones
    corpus = corpus_of(["abracadabra", "abrakadabra", "cadabra"])
    levels = count_ngrams(corpus.train, 3)
    fitted = fit_interpolation(levels, corpus.valid, corpus.vocab.n_predictable)
    assert all(((w > 0) & (w < 1)).all() for w in fitted)
    nats = lmzoo.evaluate(counted(corpus, 3, "jm"), corpus.valid).nll_nats
    assert nats < lmzoo.evaluate(counted(corpus, 3, "wb"), corpus.valid).nll_nats


@pytest.mark.parametrize("smoothing", ["mkn", "kn", "ad"])
def test_tuned_discounts_suit_the_validation_text_better(smoothing: str) -> None:
    text = "the cat sat on the mat and the dog sat on the log while the cow sat in the bog\n" * 4
    corpus = lmzoo.corpus_from_texts(
        {"train": text, "valid": "the cow sat on the log and the cat on the dog", "test": "a"}, documents="line"
    )
    exact, tuned = (
        lmzoo.evaluate(counted(corpus, 4, f"{smoothing}{how}"), corpus.valid).nll_nats
        for how in ("", ",discounts=tuned")
    )
    assert tuned < exact


def test_stupid_backoff_is_no_distribution() -> None:
    corpus = corpus_of(["abab", "abc"], test="acb")
    model = counted(corpus, 2, "sb")
    assert not model.is_normalized
    # <s> a: 2/2;  a c was never seen: 0.4 * 1/9 of all tokens;  c b never: 0.4 * 3/9;  b </s> once of 3
    logprobs, _ = model.logprobs(corpus.test.ids_N[None, :], model.initial_state())
    assert np.exp(logprobs[0]) == pytest.approx([1, 0.4 / 9, 0.4 * 3 / 9, 1 / 3])
    with pytest.raises(lmzoo.LmzooError, match="do not sum to 1"):
        _ = lmzoo.evaluate(model, corpus.test).perplexity


def test_kneser_ney_worked_by_hand() -> None:
    # documents of characters, <s> before and </s> after each:  ab  ab  ac  b
    # counts:        <s>a 3, <s>b 1, ab 2, ac 1, b</s> 3, c</s> 1
    # continuations: a: {<s>} 1, b: {<s>, a} 2, c: {a} 1, </s>: {b, c} 2; 6 in all
    # order 1: n1=2, n2=2, n3=0, so the fixed discounts; order 2: n1=3, n2=1, n3=2, n4=0
    model = counted(corpus_of(["ab", "ab", "ac", "b"]), 2)
    # Y = 3 / (3 + 2 * 1);  D1 = 1 - 2 Y * 1/3,  D2 = 2 - 3 Y * 2/1 < 0, so they are fixed there too
    assert model.details["discounts"] == [[0.5, 1.0, 1.5], [0.5, 1.0, 1.5]]
    # symbols: <unk> a b c </s>; p(b) = (2 - 1) / 6 + (0.5 + 1 + 0.5 + 1) / 6 / 5
    p_b = 1 / 6 + 3 / 6 / 5
    # a was followed by b twice and c once: p(b | a) = (2 - 1) / 3 + (1 + 0.5) / 3 * p(b)
    wanted = 1 / 3 + 1.5 / 3 * p_b
    _, state = model.logprobs(np.array([[model.vocab.token_to_id["a"]]]), model.initial_state())
    assert np.exp(model.next_logprobs(state)[0, model.vocab.token_to_id["b"]]) == pytest.approx(wanted, rel=1e-12)


def test_discounts_by_hand() -> None:
    # n1=4, n2=2, n3=1, n4=1: Y = 4/8;  1 - 2*2/4*Y = 1/2,  2 - 3*1/2*Y = 5/4,  3 - 4*1/1*Y = 1
    few = np.array([0, 1, 1, 1, 1, 2, 2, 3, 4, 9])
    assert counts_of_counts(few) == [4, 2, 1, 1]
    discounts = modified_discounts(few)
    assert discounts == Discounts(amounts=(0.5, 1.25, 1.0))
    assert discounts.of(np.array([0, 1, 2, 3, 12])).tolist() == [0, 0.5, 1.25, 1, 1]


def test_a_discount_of_exactly_zero_would_make_tokens_impossible() -> None:
    # n1=2, n2=2, n3=4: Y = 1/3, D2 = 2 - 3 * 1/3 * 4/2 = 0, which leaves nothing for the unseen
    few = np.array([1, 1, 2, 2, 3, 3, 3, 3])
    assert modified_discounts(few).reason == "the discount of count 2 would be 0.00"


def test_the_bigram_seen_twelve_times() -> None:
    # the mass must be taken from every count, those above 3 too
    corpus = corpus_of(["ab"] * 12 + ["ac", "ba", "bb", "bb", "ca", "ca", "ca"])
    for order in range(1, 7):
        model = counted(corpus, order)
        for history in ("", "a", "ab", "abababab"):
            _, state = model.logprobs(model.vocab.encode(history)[None, :], model.initial_state())
            assert np.exp(model.next_logprobs(state)).sum() == pytest.approx(1, abs=1e-9)


def test_maximum_likelihood_is_honest_about_the_impossible() -> None:
    corpus = corpus_of(["abab"], test="abca")
    tally = lmzoo.evaluate(counted(corpus, 2, "mle"), corpus.test)
    # after a: b always; after b: a or the end; c is unknown and a after it starts anew from single letters
    assert (tally.n_zero, tally.n_oov, tally.n_oov_zero) == (2, 1, 1)
    assert tally.perplexity == np.inf


def test_add_k_is_fitted_on_the_validation_text() -> None:
    # one context, token seen 3 of 4 times, held out 1 of 2 times: the likelihood rises for ever towards uniform
    assert best_k(np.array([3.0, 1.0]), np.array([4.0, 4.0]), 2) > 1e4
    # held out 3 of 4 times as seen, V = 4 with 2 unseen: (3+k)^3 (1+k) / (4+4k)^4 is greatest where
    # 3/(3+k) + 1/(1+k) = 16/(4+4k), i.e. 3/(3+k) = 3/(1+k): nowhere above 0, so k goes to its least
    assert best_k(np.array([3.0, 3.0, 3.0, 1.0]), np.array([4.0] * 4), 4) < 1e-5
    train, valid = ["ab" * 30, "ba", "aab"], "abba"
    corpus = lmzoo.corpus_from_texts({"train": "\n".join(train), "valid": valid, "test": "a"}, documents="line")
    best = counted(corpus, 2, "addk")
    k = best.details["k"]
    nats = [
        lmzoo.evaluate(counted(corpus, 2, f"addk,k={value!r}"), corpus.valid).nll_nats
        for value in (k / 1.1, k, k * 1.1)
    ]
    assert nats[1] == min(nats)


def test_a_long_context_costs_nothing_older_than_its_size() -> None:
    corpus = corpus_of(["abcabcabc"], test="ab")
    model = counted(corpus, 3)
    states = [model.logprobs(model.vocab.encode(h)[None, :], model.initial_state())[1] for h in ("cab", "bbbbab")]
    np.testing.assert_array_equal(states[0], states[1])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ngram:order=0", "order must be 1 to 32, got 0"),
        ("ngram:k=1", "k belongs to smoothing=addk"),
        ("ngram:smoothing=addk,k=0", "k must be above 0"),
        ("ngram:smoothing=wb,interpolated=false", "belongs to smoothing=mkn, kn, ad, got smoothing=wb"),
        ("ngram:smoothing=kn,discounts=kenlm", "discounts=kenlm belongs to smoothing=mkn"),
        ("ngram:discounts=tuned,interpolated=no", "discounts=tuned belongs to interpolated=true"),
        ("ngram:smoothing=mkm", "Did you mean 'mkn'"),
        ("ngram:ordr=3", "Did you mean 'order'"),
        ("trigram:order=4", "part of its name"),
    ],
)
def test_bad_options(spec: str, message: str) -> None:
    with pytest.raises(lmzoo.LmzooError, match=message):
        lmzoo.train(spec, corpus_of(["ab"]))


def test_a_state_of_another_model_is_refused() -> None:
    corpus = corpus_of(["abab"], test="ab")
    two, three = counted(corpus, 2), counted(corpus, 3)
    tokens = corpus.test.ids_N[None, :]
    for model, other in ((two, three), (three, two)):
        for call in (
            lambda m, s: m.logprobs(tokens, s),
            lambda m, s: m.logprobs(tokens[:, :1], s),
            lambda m, s: m.next_logprobs(s),
            lambda m, s: m.all_logprobs(tokens, s),
        ):
            with pytest.raises(lmzoo.LmzooError, match=f"a state of order {model.order} has shape"):
                call(model, other.initial_state())
    with pytest.raises(lmzoo.LmzooError, match="numpy array"):
        two.logprobs([[1]], two.initial_state())  # type: ignore[arg-type]
    with pytest.raises(lmzoo.LmzooError, match="batch_size must be at least 1"):
        two.initial_state(0)
