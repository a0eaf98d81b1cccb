"""The source of known entropy: entropy and expectations against hand arithmetic, sampling against the transitions."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo import train
from lmzoo.corpus import corpus_from_texts
from lmzoo.errors import InputError, NotNormalizedError, OptionValueError, SpecError, UnknownOptionError
from lmzoo.evaluation import evaluate, token_nats
from lmzoo.expectation import expected_nats
from lmzoo.ids import split_from_ids
from lmzoo.markov import MarkovConfig, MarkovSource, markov_text, parse_markov
from lmzoo.vocab import Vocab, build_vocab
from tests.lmzoo.toy import FixedModel, HistoryModel, UniformModel

pytestmark = pytest.mark.plain


class TrueModel:
    """The source itself as a model.  The state: the symbols so far, shape (B, L)."""

    is_normalized = True
    is_adaptive = False

    def __init__(self, source: MarkovSource) -> None:
        self.source = source
        self.context_size = source.order
        self.vocab = build_vocab([source.alphabet])
        self.ids_V = self.vocab.encode(source.alphabet)

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> Any:
        return np.zeros((batch_size, 0), np.int64)

    def next_logprobs(self, state: Any) -> npt.NDArray[np.float64]:
        n_symbols = self.source.symbols
        recent_BxL = state[:, max(state.shape[1] - self.source.order, 0) :]
        joint_RxV = self.source.joint_of(recent_BxL.shape[1] + 1).reshape(-1, n_symbols)
        rows_B = recent_BxL @ (n_symbols ** np.arange(recent_BxL.shape[1])[::-1])
        logprobs_BxV = np.full((len(state), len(self.vocab)), -np.inf)
        logprobs_BxV[:, self.ids_V] = np.log(joint_RxV[rows_B] / joint_RxV[rows_B].sum(axis=1, keepdims=True))
        return logprobs_BxV

    def logprobs(self, tokens_BxL: npt.NDArray[Any], state: Any) -> tuple[Any, Any]:
        found = np.zeros(tokens_BxL.shape)
        for place in range(tokens_BxL.shape[1]):
            found[:, place] = self.next_logprobs(state)[np.arange(len(state)), tokens_BxL[:, place]]
            state = np.concatenate([state, np.searchsorted(self.ids_V, tokens_BxL[:, place : place + 1])], axis=1)
        return found, state


def small(order: int, symbols: int, seed: int = 1, **options: Any) -> MarkovSource:
    return MarkovSource.of(MarkovConfig(order=order, symbols=symbols, seed=seed, **options))


chains = st.builds(
    small,
    st.integers(0, 3),
    st.integers(2, 4),
    st.integers(0, 1000),
    concentration=st.sampled_from([0.01, 0.3, 5.0]),
    symmetric=st.booleans(),
)


class TestEntropy:
    def test_a_uniform_chain_has_the_logarithm_of_its_symbols(self):
        source = MarkovSource(np.full((9, 3), 1 / 3), order=2)
        assert source.entropy_nats == pytest.approx(math.log(3), rel=1e-12)
        assert source.stationary_C == pytest.approx(np.full(9, 1 / 9))

    def test_two_symbols_by_hand(self):
        # a -> b with 1/10, b -> a with 3/10: balance p(a) / 10 = 3 p(b) / 10 gives p(a) = 3/4
        source = MarkovSource(np.array([[0.9, 0.1], [0.3, 0.7]]), order=1)
        assert source.stationary_C == pytest.approx([0.75, 0.25], abs=1e-12)
        after_a = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
        after_b = -(0.3 * math.log(0.3) + 0.7 * math.log(0.7))
        assert source.entropy_nats == pytest.approx(0.75 * after_a + 0.25 * after_b, abs=1e-12)

    @given(chains)
    def test_the_stationary_distribution_is_an_eigenvector(self, source):
        # an independent oracle: the whole matrix of moves between contexts, and its eigenvector of eigenvalue 1
        n = source.n_contexts
        moves_CxC = np.zeros((n, n))
        for context, symbol in itertools.product(range(n), range(source.symbols)):
            moves_CxC[context, (context * source.symbols + symbol) % n] += source.transitions_CxV[context, symbol]
        equations = np.vstack([moves_CxC.T - np.eye(n), np.ones(n)])
        solved, *_ = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)
        assert source.stationary_C == pytest.approx(solved, abs=1e-9)

    @given(chains, st.integers(0, 4))
    def test_strings_of_any_length_sum_to_those_one_shorter(self, source, length):
        longer = source.joint_of(length + 1).reshape(-1, source.symbols)
        assert longer.sum() == pytest.approx(1, abs=1e-9)
        # summed over the last symbol and, as the chain is stationary, over the first
        assert longer.sum(axis=1) == pytest.approx(source.joint_of(length), abs=1e-9)
        assert longer.reshape(source.symbols, -1).sum(axis=0) == pytest.approx(source.joint_of(length), abs=1e-9)

    @pytest.mark.parametrize(
        "transitions", [np.full((3, 2), 0.5), np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.5, 0.6], [0.5, 0.5]])]
    )
    def test_what_is_no_table_of_distributions_is_refused(self, transitions):
        with pytest.raises(InputError):
            MarkovSource(transitions, order=1)


class TestSampling:
    def test_the_same_seed_gives_the_same_text(self):
        config = MarkovConfig(length=500)
        assert markov_text(config) == markov_text(MarkovConfig(length=500))
        assert markov_text(config) != markov_text(MarkovConfig(length=500, seed=2))
        assert markov_text(MarkovConfig(length=1000)).startswith(markov_text(config))

    @pytest.mark.parametrize("symbols", [2, 26, 27, 53, 60])
    def test_every_character_survives(self, symbols):
        text = markov_text(MarkovConfig(order=1, symbols=symbols, length=5000, concentration=5.0))
        assert len(text) == 5000
        assert len(set(text)) == symbols
        assert text.isprintable()
        corpus = corpus_from_texts({"whole": text})
        assert "".join(corpus.vocab.decode(part.ids_N) for part in (corpus.train, corpus.valid, corpus.test)) == text
        assert corpus.train.lossless
        if symbols == 27:
            assert set(text) == set("abcdefghijklmnopqrstuvwxyz ")

    @pytest.mark.parametrize("order", [0, 1, 2])
    def test_samples_follow_the_transitions(self, order):
        source = small(order, 4, seed=7)
        ids_N = source.sample(40_000, np.random.default_rng(3))
        n_before = order + 1
        windows = np.lib.stride_tricks.sliding_window_view(ids_N, n_before)
        numbers = windows @ (4 ** np.arange(order, -1, -1))
        nats = -np.log(source.transitions_CxV.ravel()[numbers])
        # neighbouring nats depend on each other: blocks of 200 hardly do
        blocks = nats[: len(nats) // 200 * 200].reshape(-1, 200).mean(axis=1)
        error = blocks.std(ddof=1) / math.sqrt(len(blocks))
        assert abs(blocks.mean() - source.entropy_nats) < 5 * error
        assert error < 0.05 * source.entropy_nats

    def test_documents_and_one_long_walk_have_the_same_distribution(self):
        source = small(2, 3, seed=5)
        n_documents = 20_000
        ids_DxL = source.sample_documents(n_documents, 4, np.random.default_rng(1))
        for place in range(2):
            found = np.bincount(ids_DxL[:, place : place + 3] @ [9, 3, 1], minlength=27) / n_documents
            expected = source.joint_of(3)
            assert (np.abs(found - expected) <= 5 * np.sqrt(expected / n_documents)).all()
        assert source.sample_documents(3, 0, np.random.default_rng(1)).shape == (3, 0)
        assert source.sample_documents(3, 1, np.random.default_rng(1)).shape == (3, 1)
        assert source.sample(1, np.random.default_rng(1)).shape == (1,)


class TestSymmetry:
    @given(st.integers(0, 3), st.integers(2, 5), st.integers(0, 1000))
    def test_exchanging_two_symbols_leaves_the_chain_as_it_is(self, order, symbols, seed):
        source = small(order, symbols, seed, symmetric=True)
        for string in itertools.product(range(symbols), repeat=order + 1):
            image = [{0: 1, 1: 0}.get(s, s) for s in string]
            assert _probability(source, image) == pytest.approx(_probability(source, string), rel=1e-12)

    def test_without_it_they_differ(self):
        source = small(1, 3)
        assert _probability(source, [0, 0]) != pytest.approx(_probability(source, [1, 1]), rel=1e-3)

    def test_a_model_and_its_image_have_equal_expectations(self):
        source = small(2, 4, seed=9, symmetric=True)
        sample = source.sample(600, np.random.default_rng(4))
        of_sample, of_image = (
            train("ngram:order=3,smoothing=wb", corpus_from_texts({"whole": source.text(ids)}))
            for ids in (sample, source.exchanged(sample))
        )
        far = expected_nats(of_sample, source)
        assert expected_nats(of_image, source) == pytest.approx(far, rel=1e-9)
        assert far > source.entropy_nats
        other = split_from_ids(
            [of_sample.vocab.encode(source.text(source.sample(300, np.random.default_rng(5))))], of_sample.vocab
        )
        assert token_nats(of_sample, other) != pytest.approx(token_nats(of_image, other.encoded_with(of_image.vocab)))


def _probability(source: MarkovSource, string: Any) -> float:
    number = 0
    for symbol in string:
        number = number * source.symbols + symbol
    return float(source.transitions_CxV.ravel()[number])


class TestExpectation:
    @given(chains)
    def test_of_the_source_itself_it_is_the_entropy(self, source):
        assert expected_nats(TrueModel(source), source) == pytest.approx(source.entropy_nats, rel=1e-9)

    @given(chains, st.integers(1, 6))
    def test_of_documents_by_going_through_all_of_them(self, source, length):
        source = source if source.symbols**length < 300 else small(2, 2)
        model = TrueModel(source)
        documents = np.array(list(itertools.product(range(source.symbols), repeat=length)))
        weights = source.joint_of(length)
        logprobs, _ = model.logprobs(model.ids_V[documents], model.initial_state(len(documents)))
        by_hand = -(weights @ logprobs.sum(axis=1)) / length
        assert expected_nats(model, source, length=length) == pytest.approx(by_hand, rel=1e-9)

    def test_of_a_counting_model_it_is_what_long_samples_cost(self):
        source = small(1, 5, seed=3, concentration=2.0)
        rng = np.random.default_rng(8)
        model = train("ngram:order=2,smoothing=wb", corpus_from_texts({"whole": source.text(source.sample(500, rng))}))
        documents = source.sample_documents(2000, 20, rng)
        ids_V = model.vocab.encode(source.alphabet)
        split = split_from_ids(list(ids_V[documents]), model.vocab)
        nats_D = token_nats(model, split).reshape(2000, 20).mean(axis=1)
        expected = expected_nats(model, source, length=20)
        assert abs(nats_D.mean() - expected) < 5 * nats_D.std(ddof=1) / math.sqrt(2000)
        assert evaluate(model, split).nats_per_token == pytest.approx(expected, rel=0.05)
        # <s> tells nothing about a stationary source, and a document's first symbol costs more than others
        assert expected > expected_nats(model, source)

    def test_a_uniform_model_costs_the_logarithm_of_its_symbols(self):
        source = small(2, 4)
        model = UniformModel(build_vocab([source.alphabet]))
        assert expected_nats(model, source) == pytest.approx(math.log(5), rel=1e-12)
        assert expected_nats(model, source, length=1) == pytest.approx(math.log(5), rel=1e-12)

    def test_an_impossible_symbol_costs_infinitely_much(self):
        source = small(1, 3)
        assert expected_nats(FixedModel(build_vocab([source.alphabet]), {"a": 1.0}), source) == math.inf

    def test_what_cannot_be_expected_is_refused_with_the_reason(self):
        source = small(1, 3)
        vocab = build_vocab([source.alphabet])
        with pytest.raises(InputError, match="HistoryModel looks back to the start"):
            expected_nats(HistoryModel(vocab), source)
        with pytest.raises(InputError, match=r"3\*\*31 strings, at most 16,777,216"):
            expected_nats(_changed(vocab, context_size=30), source)
        with pytest.raises(InputError, match="learns from the text"):
            expected_nats(_changed(vocab, is_adaptive=True), source)
        with pytest.raises(NotNormalizedError, match="do not sum to 1"):
            expected_nats(_changed(vocab, is_normalized=False), source)
        with pytest.raises(InputError, match="at least 1 symbol, got length 0"):
            expected_nats(UniformModel(vocab), source, length=0)


def _changed(vocab: Vocab, **attributes: Any) -> UniformModel:
    model = UniformModel(vocab)
    vars(model).update(attributes)
    return model


class TestOptions:
    def test_a_spec_gives_a_config(self):
        assert parse_markov("markov") == MarkovConfig()
        assert parse_markov(
            "markov:order=1,symbols=3,seed=4,length=10,concentration=0.5,symmetric=true"
        ) == MarkovConfig(order=1, symbols=3, seed=4, length=10, concentration=0.5, symmetric=True)

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("markov:ordr=2", UnknownOptionError, "markov has no option 'ordr'. Did you mean 'order'?"),
            ("markov:order=two", OptionValueError, "order of markov is of type int, got 'two'"),
            ("markov:order=-1", OptionValueError, "markov: order is a whole number from 0 to 10, got -1"),
            ("markov:symbols=1", OptionValueError, "symbols is a whole number from 2 to 1,024, got 1"),
            ("markov:seed=-1", OptionValueError, "seed is a whole number from 0"),
            ("markov:length=0", OptionValueError, "length is a whole number from 1 to 100,000,000, got 0"),
            ("markov:order=4", OptionValueError, "symbols**order is at most 1,024, got 27**4 = 531,441"),
            ("markov:concentration=0", OptionValueError, "concentration is above 0"),
            ("markov:concentration=nan", OptionValueError, "concentration is above 0"),
            ("markov:concentration=inf", OptionValueError, "concentration is above 0"),
            ("markov:2", SpecError, "'2' in 'markov:2' is not key=value; write for example markov:order=2"),
            ("markov:", SpecError, "nothing follows the colon"),
        ],
    )
    def test_bad_options_are_answered(self, text, error, message):
        with pytest.raises(error, match=re.escape(message)):
            parse_markov(text)
