"""A corpus with less to learn from, and a corpus whose entropy is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo import evaluate, train
from lmzoo.conformance import quick_check
from lmzoo.corpus import corpus_from_texts, load_corpus
from lmzoo.errors import CorpusError, TooShortError, UnknownOptionError
from lmzoo.markov import MarkovConfig, MarkovSource, markov_text
from lmzoo.normalizers import NORMALIZERS
from tests.lmzoo.toy import corpus_of

pytestmark = pytest.mark.plain

LINES = "a b c\nd e\nf\ng h i j\nk\n"


class TestFraction:
    def test_documents_up_to_the_mark_or_beyond(self):
        # with </s>: 4, 3, 2, 5 and 2 tokens; 1/4 of 16 are 4, 1/3 are 5.3 and need two documents, 0.9 are 14.4: all
        corpus = corpus_of(LINES, "a\n", tokens="word")
        n_documents = {f: len(corpus.with_train_fraction(f).train) for f in (0.0625, 0.25, 1 / 3, 0.5, 0.85, 0.9, 1)}
        assert n_documents == {0.0625: 1, 0.25: 1, 1 / 3: 2, 0.5: 3, 0.85: 4, 0.9: 5, 1: 5}
        part = corpus.with_train_fraction(0.5)
        assert part.train.n_tokens == 9
        assert [document.text for document in part.train] == ["a b c", "d e", "f"]
        assert part.train.lossless

    def test_a_single_document_is_cut_at_the_mark(self):
        corpus = corpus_of("abcdefghij", "a")
        part = corpus.with_train_fraction(0.25)
        assert part.vocab.decode(part.train.ids_N) == "abc"  # 2.5 tokens, and the mark is never before them
        assert part.train.starts_D1.tolist() == [0, 3]
        # its characters are not counted, so nothing may be divided by them
        assert not part.train.lossless

    def test_running_text_is_cut_at_the_mark(self):
        corpus = corpus_of("a b\na b\na b\na b\n", "a\n", tokens="word", documents="running")
        part = corpus.with_train_fraction(0.5)
        assert part.train.n_tokens == 6
        # two lines have ended, and the text has one start
        assert part.vocab.counts_V.tolist() == [0, 1, 2, 2, 2]

    @given(st.floats(0.05, 1), st.sampled_from(["file", "line", "running"]))
    def test_only_the_amount_of_training_text_differs(self, fraction, documents):
        corpus = corpus_of(LINES * 3, "a x\nb\n", tokens="word", documents=documents)
        part = corpus.with_train_fraction(fraction)
        assert part.train.n_tokens >= fraction * corpus.train.n_tokens
        assert np.array_equal(part.train.ids_N, corpus.train.ids_N[: part.train.n_tokens])
        for name in ("valid", "test"):
            assert np.array_equal(getattr(part, name).ids_N, getattr(corpus, name).ids_N)
        assert {part.vocab.fingerprint, part.train.vocab.fingerprint, part.test.vocab.fingerprint} == {
            corpus.vocab.fingerprint
        }
        # what a model may know of frequencies is what the fraction shows
        assert part.vocab.counts_V.sum() - part.vocab.counts_V[1] == part.train.n_tokens
        whole = corpus.with_train_fraction(1)
        assert np.array_equal(whole.vocab.counts_V, corpus.vocab.counts_V)

    def test_larger_fractions_begin_like_smaller_ones(self):
        corpus = corpus_of("abcdefgh" * 20, "a")
        some = [corpus.with_train_fraction(f).train.ids_N for f in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)]
        assert [len(ids) for ids in some] == [10, 20, 40, 80, 160]
        assert all(np.array_equal(ids, some[-1][: len(ids)]) for ids in some)

    @pytest.mark.parametrize("smoothing", ["mkn", "kn", "ad", "wb", "jm", "katz", "addk"])
    @pytest.mark.filterwarnings("ignore")
    def test_symbols_that_the_fraction_lacks_have_probability_too(self, smoothing):
        corpus = corpus_from_texts({"whole": "abab ba ab aab" * 20 + "xyz" * 10 + "abxyz" * 20})
        part = corpus.with_train_fraction(0.5)
        assert part.vocab.counts_V[part.vocab.encode("x")[0]] == 0
        model = train(f"ngram:order=3,smoothing={smoothing}", part)
        assert [check for check in quick_check(model) if check.status == "failed"] == []
        state = model.initial_state(1)
        p_V = np.exp(model.next_logprobs(state)[0])
        assert p_V.sum() == pytest.approx(1, abs=1e-9)
        assert (np.delete(p_V, part.vocab.bos_id) > 0).all()
        assert math.isfinite(evaluate(model, part.test).perplexity)

    @pytest.mark.parametrize("fraction", [0, -0.5, 1.01, math.nan, math.inf])
    def test_what_is_no_share_is_refused(self, fraction):
        with pytest.raises(CorpusError, match="above 0 and at most 1, got"):
            corpus_of("abc", "a").with_train_fraction(fraction)

    def test_less_than_a_token_is_refused(self):
        with pytest.raises(TooShortError, match=r"0\.1 of the 3 training tokens of text is less than one token; take"):
            corpus_of("abc", "a").with_train_fraction(0.1)


class TestKnownEntropy:
    def test_by_name(self):
        corpus = load_corpus("markov:order=1,symbols=5,seed=3,length=2000")
        config = MarkovConfig(order=1, symbols=5, seed=3, length=2000)
        assert corpus.name == "markov:order=1,symbols=5,seed=3,length=2000"
        assert corpus.entropy_nats == MarkovSource.of(config).entropy_nats
        parts = (corpus.train, corpus.valid, corpus.test)
        assert "".join(corpus.vocab.decode(part.ids_N) for part in parts) == markov_text(config)
        assert corpus.with_train_fraction(0.5).entropy_nats == corpus.entropy_nats

    @pytest.mark.parametrize(
        "reading",
        [{"tokens": "word"}, {"documents": "line"}, {"documents": "running"}, {"normalize": "letters"}],
        ids=str,
    )
    def test_it_is_unknown_where_tokens_are_not_its_symbols(self, reading):
        assert load_corpus("markov:order=1,length=3000,concentration=5", **reading).entropy_nats is None

    def test_it_is_unknown_where_two_symbols_are_one(self):
        # symbols that the training text lacks are all <unk>: one is still itself
        spec = "markov:order=0,symbols=60,length=300,concentration=0.05"
        text = markov_text(MarkovConfig(order=0, symbols=60, length=300, concentration=0.05))
        assert len(set(text[:240])) < 59
        assert load_corpus(spec).entropy_nats is None

    def test_an_honest_model_is_not_below_it(self):
        corpus = load_corpus("markov:order=1,symbols=6,length=50000,concentration=0.5")
        tally = evaluate(train("ngram:order=2,smoothing=wb", corpus), corpus.test)
        # 5,000 tokens: a hundredth of a nat is about one standard error
        assert tally.nats_per_token == pytest.approx(corpus.entropy_nats, abs=0.05)

    def test_other_texts_have_none(self):
        assert corpus_of("abc", "a").entropy_nats is None

    def test_a_name_wins_over_a_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        name = "markov:symbols=3,length=500"
        (tmp_path / name).write_text("xyz" * 100)
        assert set("".join(load_corpus(name).train.segments)) <= set("abc")
        assert set("".join(load_corpus(f"./{name}").train.segments)) == set("xyz")

    def test_a_misspelt_option_is_answered(self):
        with pytest.raises(UnknownOptionError, match="Did you mean 'symbols'"):
            load_corpus("markov:symbol=3")

    def test_letters_would_make_one_space_of_several(self):
        # why the entropy is unknown under it
        assert NORMALIZERS["letters"].apply("a  b") == "a b"
