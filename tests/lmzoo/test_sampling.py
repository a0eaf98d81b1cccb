"""Generating, ranking and listing what comes next."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo import sampling
from lmzoo.errors import InputError, NotNormalizedError
from lmzoo.sampling import Continuation, rank, sample, top_k
from lmzoo.vocab import build_vocab

from .toy import FixedModel, HistoryModel, UniformModel

pytestmark = pytest.mark.plain

CHARS = build_vocab(["abc "])
LINES = build_vocab(["abc "], has_eos=True)
WORDS = build_vocab(["a b <s> </s> <unk>"], tokenizer="word", has_eos=True)


class TestSample:
    @given(st.integers(0, 10**6), st.text("abc "), st.integers(0, 30))
    def test_the_same_seed_gives_the_same_text(self, seed, prompt, length):
        model = HistoryModel(CHARS)
        text = sample(model, prompt, length, seed=seed)
        assert text == sample(model, prompt, length, seed=seed)
        assert text.startswith(prompt)
        assert len(text) == len(prompt) + length

    def test_other_seeds_give_other_texts(self):
        assert len({sample(UniformModel(CHARS), "", 20, seed=seed) for seed in range(20)}) == 20

    def test_global_generators_are_left_alone(self):
        before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
        sample(UniformModel(CHARS), "a", 10)
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002

    def test_frequencies_are_the_models(self):
        model = FixedModel(CHARS, {"a": 0.5, "b": 0.3, "c": 0.2})
        text = sample(model, "", 5000)
        for symbol, p in model.probabilities.items():
            # five standard deviations
            assert text.count(symbol) / 5000 == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 5000))

    def test_temperature_sharpens(self):
        # at temperature 1/2 probabilities are squared: 0.64 to 0.04, 16 to 1
        text = sample(FixedModel(CHARS, {"a": 0.8, "b": 0.2}), "", 5000, temperature=0.5)
        assert text.count("b") / 5000 == pytest.approx(1 / 17, abs=0.02)

    @pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-3])
    def test_temperature_to_zero_takes_the_likeliest(self, temperature):
        assert sample(FixedModel(CHARS, {"a": 0.4, "b": 0.6}), "", 50, temperature=temperature) == "b" * 50

    def test_top_k_draws_among_the_k_best_only(self):
        model = FixedModel(CHARS, {"a": 0.4, "b": 0.3, "c": 0.2, " ": 0.1})
        assert set(sample(model, "", 500, top_k=2)) == {"a", "b"}
        assert set(sample(model, "", 500, top_k=100)) == {"a", "b", "c", " "}

    def test_unk_is_never_drawn_while_anything_else_can_be(self):
        assert sample(FixedModel(CHARS, {"<unk>": 0.99, "a": 0.01}), "", 20) == "a" * 20
        assert sample(FixedModel(CHARS, {"<unk>": 0.99, "a": 0.01}), "", 3, top_k=1, temperature=0) == "aaa"
        assert sample(FixedModel(CHARS, {"<unk>": 1.0}), "", 2) == "<unk><unk>"

    def test_it_stops_at_the_end_and_not_at_a_literal_marker(self):
        assert sample(FixedModel(LINES, {"</s>": 1.0}), "ab", 10) == "ab"
        assert sample(FixedModel(WORDS, {"\\</s>": 1.0}), "a", 3) == "a </s> </s> </s>"
        assert sample(FixedModel(WORDS, {"\\<s>": 1.0}), "", 2) == "<s> <s>"

    def test_the_prompt_warms_the_state(self):
        model = HistoryModel(CHARS)
        greedy = {sample(model, prompt, 1, temperature=0)[-1] for prompt in ("a", "b", "c", "ab", "ba", "abc")}
        assert len(greedy) > 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"length": -1}, "length must be at least 0, got -1"),
            ({"temperature": -0.1}, "temperature must be at least 0 and finite, got -0.1"),
            ({"temperature": math.nan}, "got nan"),
            ({"temperature": math.inf}, "got inf"),
            ({"top_k": 0}, "top_k must be at least 1, got 0"),
            ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
            ({"top_p": 1.5}, "top_p must be above 0 and at most 1, got 1.5"),
            ({"top_p": math.nan}, "top_p must be above 0 and at most 1, got nan"),
            ({"seed": -1}, "seed must be at least 0, got -1"),
        ],
    )
    def test_bad_options_are_named(self, options, message):
        with pytest.raises(InputError, match=message):
            sample(UniformModel(CHARS), **options)


def distribution(weights, **options):
    """What is drawn from, of unnormalised probabilities of a, b, …: all of it, as a dict."""
    vocab = build_vocab(["".join(LETTERS[: len(weights)])])
    total = sum(weights)
    model = FixedModel(vocab, {symbol: w / total for symbol, w in zip(LETTERS, weights, strict=False)})
    settings = {"temperature": 1.0, "k": None, "p": None, **options}
    p_V = sampling._probabilities(model.next_logprobs(model.initial_state())[0], vocab.unk_id, **settings)
    return {symbol: p for symbol, p in zip(vocab.tokens, p_V.tolist(), strict=True) if p > 0}


LETTERS = "abcdefgh"
# whole numbers, so that masses can be summed exactly; never alike, so that there is one smallest set
weights_of_symbols = st.lists(st.integers(1, 1000), min_size=1, max_size=8, unique=True)
# a share that no sum of these weights is equal to
shares = st.integers(0, 10**6 - 1).map(lambda i: (i + 0.5) / 10**6)
temperatures = st.sampled_from([0.5, 1.0, 2.0])


class TestNucleus:
    """The smallest set of tokens whose mass reaches p, scaled to sum to 1 (Holtzman et al. 2020)."""

    @given(weights_of_symbols, shares, temperatures)
    def test_the_smallest_set_that_reaches_p_of_what_temperature_made(self, weights, p, temperature):
        sharpened = [w ** (1 / temperature) for w in weights]
        kept = distribution(weights, p=p, temperature=temperature)
        best = sorted(sharpened, reverse=True)
        # by trying all sizes: no set of fewer tokens has more mass than the likeliest so many
        size = next(n for n in range(1, len(best) + 1) if sum(best[:n]) >= p * sum(best) * (1 - 1e-12))
        assert sorted(kept.values(), reverse=True) == pytest.approx([w / sum(best[:size]) for w in best[:size]])
        assert {LETTERS[i] for i in np.argsort(weights)[-size:]} == set(kept)

    @given(weights_of_symbols, temperatures, st.none() | st.integers(1, 9))
    def test_all_of_the_mass_changes_nothing(self, weights, temperature, k):
        settings = {"temperature": temperature, "k": k}
        assert distribution(weights, p=1.0, **settings) == distribution(weights, **settings)

    @given(weights_of_symbols, shares, temperatures, st.integers(1, 9))
    def test_with_k_too_it_is_the_nucleus_of_the_k_best(self, weights, p, temperature, k):
        best = sorted(weights, reverse=True)[:k]
        kept = distribution(weights, p=p, temperature=temperature, k=k)
        alone = distribution(best, p=p, temperature=temperature)
        assert sorted(kept.values()) == pytest.approx(sorted(alone.values()))

    @given(weights_of_symbols, shares, temperatures)
    def test_it_sums_to_one(self, weights, p, temperature):
        assert sum(distribution(weights, p=p, temperature=temperature).values()) == pytest.approx(1.0)

    def test_by_hand(self):
        # 0.5 + 0.3 reach 0.75, 0.5 alone does not; at temperature 1/2 0.25 of 0.38 is 0.66 and with 0.09 it is 0.89
        assert distribution([5, 3, 2], p=0.75) == pytest.approx({"a": 5 / 8, "b": 3 / 8})
        assert distribution([5, 3, 2], p=0.65, temperature=0.5) == pytest.approx({"a": 1.0})
        assert distribution([5, 3, 2], p=0.75, temperature=0.5) == pytest.approx({"a": 25 / 34, "b": 9 / 34})
        # of the two best a has 5/8 by itself
        assert distribution([5, 3, 2], p=0.6, k=2) == pytest.approx({"a": 1.0})

    def test_of_equals_the_first_stay(self):
        assert set(distribution([1, 1, 1, 1], p=0.6)) == {"a", "b", "c"}

    def test_a_text_of_it(self):
        model = FixedModel(CHARS, {"a": 0.4, "b": 0.3, "c": 0.2, " ": 0.1})
        assert set(sample(model, "", 500, top_p=0.65)) == {"a", "b"}
        assert sample(model, "", 50, top_p=1.0) == sample(model, "", 50)
        assert set(sample(model, "", 50, top_p=1e-9)) == {"a"}


class TestContinuation:
    def test_it_is_the_sample_token_by_token(self):
        written = Continuation(HistoryModel(CHARS), "ab", seed=3)
        texts = [written.text]
        while len(written.ids) < 9 and written.grow():
            texts.append(written.text)
        assert texts == [sample(HistoryModel(CHARS), "ab", n, seed=3) for n in range(8)]

    def test_its_logprob_is_the_models_own(self):
        # drawn at another temperature, among the best alone: of what was drawn it is the sum of the model's ln p
        model = FixedModel(LINES, {"a": 0.5, "b": 0.3, "</s>": 0.2})
        written = Continuation(model, "ab", seed=1, temperature=3.0)
        while written.grow():
            pass
        drawn = written.text.removeprefix("ab")
        expected = sum(math.log(model.probabilities[c]) for c in drawn) + math.log(0.2)
        assert written.logprob == pytest.approx(expected)
        assert written.is_over

    @given(st.integers(0, 999), st.sampled_from(["a", "ab", "ca ", "aaaa"]))
    def test_a_text_ends_where_the_stop_first_starts(self, seed, stop):
        model = FixedModel(CHARS, {"a": 0.5, "b": 0.2, "c": 0.2, " ": 0.1})
        free = sample(model, "a", 30, seed=seed)
        end = free.find(stop, 1)
        assert sample(model, "a", 30, seed=seed, stop=stop) == (free if end < 0 else free[:end])


@pytest.mark.parametrize("value", [math.nan, -math.inf])
@pytest.mark.parametrize("ask", [lambda m: sample(m, "a"), lambda m: sample(m, temperature=0), lambda m: top_k(m, "a")])
def test_nothing_is_chosen_where_there_are_no_probabilities(ask, value, monkeypatch):
    model = UniformModel(CHARS)
    monkeypatch.setattr(model, "next_logprobs", lambda state: np.full((len(state), len(CHARS)), value))
    with pytest.raises(NotNormalizedError, match="the model has no probabilities for what comes next"):
        ask(model)


class TestRank:
    def test_the_sum_of_logs_by_hand(self):
        model = FixedModel(LINES, {"a": 0.5, "b": 0.25, "</s>": 0.25})
        ranked = rank(model, ["b", "aa", "a", ""])
        # the end is predicted once in each
        assert [(r.text, pytest.approx(math.exp(r.logprob))) for r in ranked] == [
            ("", 1 / 4),
            ("a", 1 / 8),
            ("b", 1 / 16),
            ("aa", 1 / 16),
        ]

    def test_without_an_end_none_is_scored(self):
        model = FixedModel(CHARS, {"a": 0.5, "b": 0.5})
        assert [r.logprob for r in rank(model, ["", "ab"])] == pytest.approx([0.0, math.log(1 / 4)])

    @given(st.lists(st.text("abcz ", max_size=10)))
    def test_best_first_and_none_lost(self, texts):
        ranked = rank(HistoryModel(LINES), texts)
        assert sorted(r.text for r in ranked) == sorted(texts)
        assert all(a.logprob >= b.logprob for a, b in itertools.pairwise(ranked))

    @given(st.lists(st.text("abc ", max_size=10), min_size=1))
    def test_texts_do_not_see_each_other(self, texts):
        model = HistoryModel(LINES)
        alone = {text: rank(model, [text])[0].logprob for text in texts}
        assert all(r.logprob == alone[r.text] for r in rank(model, texts))

    def test_an_impossible_text_comes_last(self):
        ranked = rank(FixedModel(CHARS, {"a": 1.0}), ["b", "a"])
        assert [(r.text, r.logprob) for r in ranked] == [("a", 0.0), ("b", -math.inf)]


class TestTopK:
    def test_the_likeliest_first(self):
        model = FixedModel(CHARS, {"a": 0.2, "b": 0.5, "c": 0.3})
        assert [(t.token, pytest.approx(math.exp(t.logprob))) for t in top_k(model, "", 2)] == [("b", 0.5), ("c", 0.3)]

    def test_the_start_is_never_among_them(self):
        listed = top_k(UniformModel(CHARS), "abc", 100)
        assert len(listed) == CHARS.n_predictable
        assert "<s>" not in {t.token for t in listed}
        assert sum(math.exp(t.logprob) for t in listed) == pytest.approx(1.0)

    def test_it_looks_at_the_context(self):
        model = HistoryModel(CHARS)
        assert len({tuple(t.token for t in top_k(model, context, 3)) for context in ("", "a", "ab", "ba")}) > 1

    def test_markers_can_be_left_out(self):
        model = FixedModel(LINES, {"</s>": 0.5, "<unk>": 0.2, "a": 0.2, "b": 0.1})
        assert [t.token for t in top_k(model, "", 3)] == ["</s>", "<unk>", "a"]
        assert [t.token for t in top_k(model, "", 2, all_symbols=False)] == ["a", "b"]
        assert "<unk>" not in {t.token for t in top_k(UniformModel(CHARS), "", 9, all_symbols=False)}

    def test_a_word_is_completed(self):
        vocab = build_vocab(["bat ball cat"], tokenizer="word", normalizer="lower")
        model = FixedModel(vocab, {"cat": 0.5, "bat": 0.3, "ball": 0.2})
        assert [t.token for t in top_k(model, "", 9, prefix="BA")] == ["bat", "ball"]
        assert top_k(model, "", 9, prefix="x") == []

    def test_k_is_at_least_one(self):
        with pytest.raises(InputError, match="k must be at least 1, got 0"):
            top_k(UniformModel(CHARS), "", 0)
