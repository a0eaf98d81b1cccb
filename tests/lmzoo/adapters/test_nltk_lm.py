"""nltk's models behind the interface: nltk itself is the oracle wherever nothing had to be settled."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

import lmzoo
from lmzoo import storage
from lmzoo.conformance import CHECKS, Subject, check_language_model, run_check
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.errors import CorruptFileError, MissingLibraryError, OptionValueError, TooLargeError
from lmzoo.registry import available_models, create_trainer, resolve_config
from tests.bigram import TEXT

pytest.importorskip("nltk")
import nltk.lm
from nltk.lm.preprocessing import padded_everygram_pipeline

TRAIN = [
    "the old man sells red apples at the market",
    "the old woman buys red apples and green pears",
    "the woman near the river buys nothing at all",
    "a man and a woman walk to the market",
]
TEST = ["the old woman buys nothing at the market", "a man near pears", "market market"]

# what nltk has for each name, and the options that it takes
NLTK = {
    "nltk-mle": lambda order, vocabulary: nltk.lm.MLE(order, vocabulary=vocabulary),
    "nltk-laplace": lambda order, vocabulary: nltk.lm.Laplace(order, vocabulary=vocabulary),
    "nltk-lidstone:gamma=0.3": lambda order, vocabulary: nltk.lm.Lidstone(0.3, order, vocabulary=vocabulary),
    "nltk-kn": lambda order, vocabulary: nltk.lm.KneserNeyInterpolated(order, vocabulary=vocabulary),
    "nltk-kn:discount=0.6": lambda order, vocabulary: nltk.lm.KneserNeyInterpolated(order, 0.6, vocabulary=vocabulary),
    "nltk-wb": lambda order, vocabulary: nltk.lm.WittenBellInterpolated(order, vocabulary=vocabulary),
    "nltk-ad": lambda order, vocabulary: nltk.lm.AbsoluteDiscountingInterpolated(order, vocabulary=vocabulary),
    "nltk-stupid:alpha=0.5": lambda order, vocabulary: nltk.lm.StupidBackoff(0.5, order, vocabulary=vocabulary),
}
NAMES = sorted({spec.partition(":")[0] for spec in NLTK})


@pytest.fixture(scope="module")
def words() -> Corpus:
    return corpus_from_texts({"train": "\n".join(TRAIN), "valid": TEST[0], "test": "\n".join(TEST)}, tokens="word")


def with_option(spec: str, option: str) -> str:
    return f"{spec}{',' if ':' in spec else ':'}{option}"


def ngrams_of(lines: list[str], order: int):
    """By hand: every n-gram that ends in a word or in the one `</s>`."""
    for line in lines:
        padded = ["<s>"] * (order - 1) + line.split() + ["</s>"]
        ends = range(order - 1, len(padded))
        yield [tuple(padded[end + 1 - n : end + 1]) for end in ends for n in range(1, order + 1)]


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("spec", sorted(NLTK))
def test_scores_are_those_of_nltk(spec: str, order: int, words: Corpus) -> None:
    model = lmzoo.train(with_option(spec, f"order={order}"), words)
    # nltk counts what is unknown as one more word, as the vocabulary does
    oracle = NLTK[spec](
        order, nltk.lm.Vocabulary(token for token in words.vocab.tokens if token not in ("<unk>", "<s>"))
    )
    oracle.counts.update(ngrams_of(TRAIN, order))
    for line in TRAIN[:2] + TEST:
        tokens = [*line.split(), "</s>"]
        ids = np.array([[words.vocab.token_to_id[token] for token in tokens]])
        got = np.exp(model.logprobs(ids, model.initial_state())[0][0])
        padded = ["<s>"] * (order - 1) + tokens
        contexts = [tuple(padded[place : place + order - 1]) for place in range(len(tokens))]
        # nltk's relative frequencies say nothing after what they never saw
        known = [not spec.startswith("nltk-mle") or bool(oracle.context_counts(context)) for context in contexts]
        wanted = [oracle.unmasked_score(*asked) for asked in zip(tokens, contexts, strict=True)]
        assert np.array(wanted)[known] == pytest.approx(got[known], abs=1e-12)
        assert any(known)


@pytest.mark.parametrize("spec", sorted(NLTK))
def test_a_whole_vocabulary_at_once_is_its_symbols_one_by_one(spec: str, words: Corpus) -> None:
    """After contexts of every kind and length: seen, half seen, of unknown words, at the start."""
    model = lmzoo.train(spec, words)
    symbols = np.arange(len(words.vocab))
    for bos, text in itertools.product(
        (True, False), ("", "the", "the old", "old the", "zebra", "zebra the", "at all")
    ):
        state = model.initial_state(bos=bos)
        if text:
            _, state = model.logprobs(words.vocab.encode(text)[None, :], state)
        wanted = model.logprobs(symbols[:, None], np.repeat(state, len(symbols), axis=0))[0][:, 0]
        assert np.exp(model.next_logprobs(state)[0]) == pytest.approx(np.exp(wanted), abs=1e-14)


def test_what_nltk_users_do_gives_the_same_relative_frequencies(words: Corpus) -> None:
    """The usual pipeline pads on the right too; after contexts that were seen that changes no relative frequency."""
    oracle = nltk.lm.MLE(2)
    oracle.fit(*padded_everygram_pipeline(2, [line.split() for line in TRAIN]))
    model = lmzoo.train("nltk-mle:order=2", words)
    for line in TRAIN:
        tokens = [*line.split(), "</s>"]
        ids = np.array([[words.vocab.token_to_id[token] for token in tokens]])
        got = np.exp(model.logprobs(ids, model.initial_state())[0][0])
        wanted = [oracle.score(word, [before]) for before, word in itertools.pairwise(["<s>", *tokens])]
        assert got == pytest.approx(wanted, abs=1e-12)


class TestWhatIsSettled:
    """The corrections, on texts small enough to count by hand."""

    def model(self, spec: str, *lines: str):
        corpus = corpus_from_texts({"train": "\n".join(lines), "valid": "a", "test": "a"}, tokens="word")
        return lmzoo.train(spec, corpus), corpus.vocab

    def p(self, model, vocab, word: str, context: str = "", *, bos: bool = True) -> float:
        ids = np.array([vocab.encode(context)])
        state = model.initial_state(bos=bos)
        if ids.size:
            _, state = model.logprobs(ids, state)
        return math.exp(model.next_logprobs(state)[0][vocab.token_to_id[word]])

    def test_the_start_is_never_predicted(self) -> None:
        # a a </s>, a b </s>: 6 tokens, 3 of them a; nltk's own padding has 2 <s> among 8
        model, vocab = self.model("nltk-mle:order=2", "a a", "a b")
        assert self.p(model, vocab, "a", bos=False) == pytest.approx(3 / 6)
        assert self.p(model, vocab, "<s>", bos=False) == 0
        usual = nltk.lm.MLE(2)
        usual.fit(*padded_everygram_pipeline(2, [["a", "a"], ["a", "b"]]))
        assert usual.score("a") == pytest.approx(3 / 8)
        assert usual.score("<s>") == pytest.approx(2 / 8)

    def test_the_end_is_predicted_once(self) -> None:
        # order 3 pads nltk's text with two </s>, so that </s> </s> is learned and </s> counts twice
        model, vocab = self.model("nltk-mle:order=3", "a a", "a b")
        assert self.p(model, vocab, "</s>", bos=False) == pytest.approx(2 / 6)
        usual = nltk.lm.MLE(3)
        usual.fit(*padded_everygram_pipeline(3, [["a", "a"], ["a", "b"]]))
        assert usual.score("</s>") == pytest.approx(4 / 12)
        assert usual.score("</s>", ["</s>"]) == 1

    def test_the_start_is_not_among_the_symbols(self) -> None:
        # a a </s>, a b </s>: after a come a, b and </s>, once each, of the symbols a, b, </s> and <unk>
        model, vocab = self.model("nltk-laplace:order=2", "a a", "a b")
        assert self.p(model, vocab, "b", "a") == pytest.approx((1 + 1) / (3 + 4))
        assert self.p(model, vocab, "<unk>", "a") == pytest.approx(1 / 7)

    def test_relative_frequencies_after_a_context_that_was_never_seen(self) -> None:
        # b b was never seen; after b come a and </s>
        model, vocab = self.model("nltk-mle:order=3", "a b a", "a b")
        assert self.p(model, vocab, "a", "b b") == pytest.approx(1 / 2)
        # <unk> was not seen either, so nothing is left of the context: 3 of 7 tokens are a
        assert self.p(model, vocab, "a", "a zebra") == pytest.approx(3 / 7)

    def test_kneser_ney_by_hand(self) -> None:
        # bigrams: <s> a (2), a a, a b, a </s>, b </s>; after a (3 times) come 3 kinds, each less 0.1; b ends 1 of the 5
        # kinds of bigrams
        model, vocab = self.model("nltk-kn:order=2", "a a", "a b")
        assert self.p(model, vocab, "b", "a") == pytest.approx((1 - 0.1) / 3 + 0.1 * 3 / 3 * (1 / 5))

    def test_kneser_ney_is_a_distribution_after_the_start(self) -> None:
        model, vocab = self.model("nltk-kn:order=3", *TRAIN)
        state = model.initial_state()
        assert np.exp(model.next_logprobs(state)).sum() == pytest.approx(1, abs=1e-12)
        usual = nltk.lm.KneserNeyInterpolated(3)
        usual.fit(*padded_everygram_pipeline(3, [line.split() for line in TRAIN]))
        predictable = [token for token in vocab.tokens if token != "<s>"]
        total = sum(usual.score(token, ["<s>", "<s>"]) for token in predictable)
        assert abs(total - 1) > 1e-3


@pytest.mark.parametrize("spec", sorted(NAMES))
def test_the_contract(spec: str) -> None:
    tokens = "word" if spec in ("nltk-wb", "nltk-ad", "nltk-lidstone") else "char"
    corpus = corpus_from_texts({"whole": TEXT}, tokens=tokens)
    subject = Subject(lmzoo.train(spec, corpus))
    # one fresh process is enough for all seven, below
    checks = [check for check in CHECKS if check.name != "persistence.equal_in_fresh_process"]
    found = {check.name: run_check(check, subject) for check in checks}
    assert {name: result.message for name, result in found.items() if result.status == "failed"} == {}
    expected = {name for name, result in found.items() if result.status == "expected"}
    sums = {"probability.sums_to_one", "probability.strings_sum_to_one"} if spec == "nltk-stupid" else set()
    assert expected == sums


@pytest.mark.whole
def test_the_whole_contract_of_one() -> None:
    corpus = corpus_from_texts({"whole": TEXT}, tokens="char")
    results = check_language_model(lmzoo.train("nltk-kn:order=2", corpus), "nltk-kn:order=2")
    assert {r.name: r.message for r in results if r.status == "failed"} == {}
    assert {r.name for r in results if r.status == "skipped"} == {
        "probability.all_logprobs_agree",
        "state.classes_of_contexts",
    }


def test_stupid_backoff_has_no_perplexity_unless_there_is_nothing_to_back_off_from(words: Corpus) -> None:
    assert not lmzoo.evaluate(lmzoo.train("nltk-stupid", words), words.test).is_normalized
    assert lmzoo.evaluate(lmzoo.train("nltk-stupid:order=1", words), words.test).is_normalized


def test_nltk_models_join_mixtures(words: Corpus) -> None:
    model = lmzoo.train("mixture:nltk-wb(order=2)+unigram", words)
    assert math.isfinite(lmzoo.evaluate(model, words.valid).perplexity)


class TestOptions:
    @pytest.mark.parametrize(
        ("spec", "options"),
        [
            ("nltk-kn", {"order": 3, "discount": 0.1}),
            ("nltk-ad", {"order": 3, "discount": 0.75}),
            ("nltk-lidstone", {"order": 3, "gamma": 0.1}),
            ("nltk-stupid:order=4", {"order": 4, "alpha": 0.4}),
        ],
    )
    def test_what_is_not_given_is_what_nltk_takes(self, spec, options) -> None:
        config = vars(resolve_config(spec))
        assert {name: value for name, value in config.items() if value is not None and name != "smoothing"} == options

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("nltk-mle:order=0", "order must be 1 to 32, got 0"),
            ("nltk-kn:order=1", "order must be 2 to 32, got 1"),
            ("nltk-kn:gamma=1", "gamma belongs to nltk-lidstone, not to nltk-kn"),
            ("nltk-mle:discount=0.5", "discount belongs to nltk-kn and nltk-ad, not to nltk-mle"),
            ("nltk-lidstone:gamma=0", "gamma must be above 0"),
            ("nltk-ad:discount=1.5", "discount must be 0 to 1, got 1.5"),
            ("nltk-stupid:alpha=nan", "alpha must be above 0 and at most 1, got nan"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec, message) -> None:
        with pytest.raises(OptionValueError, match=message):
            resolve_config(spec)


def test_a_text_with_more_n_grams_than_nltk_counts(words: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nltk.lm.counter.MAX_NGRAMS", 5)
    with pytest.raises(TooLargeError, match="take a lower order, less text"):
        lmzoo.train("nltk-mle", words)


def test_a_file_whose_arrays_are_no_text(words: Corpus) -> None:
    model = lmzoo.train("nltk-mle", words)
    ids_N, starts_D1 = model._text  # type: ignore[attr-defined]
    for text in ((ids_N + 1000, starts_D1), (ids_N, starts_D1[:-1]), (ids_N, starts_D1[::-1])):
        model._text = text  # type: ignore[attr-defined]
        with pytest.raises(CorruptFileError, match="no text of its vocabulary"):
            storage.from_bytes(storage.to_bytes(model), "a file")


def test_without_nltk(words: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    data = storage.to_bytes(lmzoo.train("nltk-mle", words))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert available_models()["nltk-kn"].endswith(
        "(not here: nltk is not installed: python -m pip install 'lmzoo[text]')"
    )
    with pytest.raises(MissingLibraryError, match=r"nltk-kn: nltk is not installed"):
        create_trainer("nltk-kn", words.vocab)
    for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(MissingLibraryError, match=r"nltk is not installed: python -m pip install 'lmzoo\[text\]'"):
        storage.from_bytes(data, "a file")
