"""What is read off the counts is what a dictionary of n-grams says, and bad questions have clear answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, TokenError
from lmzoo.ngram.discounts import FALLBACK_DISCOUNTS
from tests.lmzoo.ngram import oracle

lines = st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=6)
grams = st.text("abc", min_size=1, max_size=4)


def corpus_of(train: list[str], **options: Any) -> Corpus:
    texts = {"train": "\n".join(train), "valid": train[0], "test": train[0]}
    return lmzoo.corpus_from_texts(texts, **{"documents": "line", **options})


def ids_of(corpus: Corpus, text: str) -> list[int]:
    """The ids of characters, every one known or not."""
    return [corpus.vocab.token_to_id.get(c, corpus.vocab.unk_id) for c in text]


def dictionaries(corpus: Corpus, order: int) -> list[Counter[tuple[int, ...]]]:
    return oracle.raw_counts([d.ids_L.tolist() for d in corpus.train], order, corpus.vocab.bos_id)


@given(lines, grams, st.booleans())
def test_counts_are_those_of_a_dictionary(train: list[str], text: str, at_start: bool) -> None:
    corpus = corpus_of(train)
    start = [corpus.vocab.bos_id] if at_start else []
    gram = (*start, *ids_of(corpus, text))
    seen = dictionaries(corpus, len(gram) + 1)
    counts = lmzoo.NgramCounts(corpus.train, len(gram) + 1)
    assert counts.count(gram) == seen[len(gram) - 1][gram]
    assert counts.continuation_count(gram) == sum(longer[1:] == gram for longer in seen[len(gram)])
    followed = {longer[-1]: n for longer, n in seen[len(gram)].items() if longer[:-1] == gram}
    assert {corpus.vocab.token_to_id[token]: n for token, n in counts.following(gram, None)} == followed


@given(lines, st.integers(1, 4))
def test_counts_of_counts_are_those_of_a_dictionary(train: list[str], order: int) -> None:
    corpus = corpus_of(train)
    counts = lmzoo.NgramCounts(corpus.train, order)
    plain = dictionaries(corpus, order)
    for is_continuation, wanted in (
        (False, plain),
        (True, oracle.kneser_ney_counts(plain, corpus.vocab.bos_id)),
    ):
        found = counts.counts_of_counts(continuation=is_continuation)
        assert found == [[sum(c == n for c in level.values()) for n in (1, 2, 3, 4)] for level in wanted]


@given(lines)
def test_what_follows_nothing_is_every_token_of_the_text(train: list[str]) -> None:
    corpus = corpus_of(train)
    followed = lmzoo.NgramCounts(corpus.train, 1).following(k=None)
    seen = Counter(corpus.train.ids_N.tolist())
    assert {corpus.vocab.token_to_id[token]: n for token, n in followed} == seen
    assert [n for _, n in followed] == sorted(seen.values(), reverse=True)


def test_words_are_asked_for_as_text_or_as_ids() -> None:
    corpus = corpus_of(["the cat sat on the mat", "a cat ate the mat"], tokens="word")
    counts = lmzoo.NgramCounts(corpus.train, order=3)
    vocab = corpus.vocab
    assert counts.count("the mat") == 2
    assert counts.count(vocab.encode("the mat")) == 2
    assert counts.count("mat the") == 0
    # before "cat": the, a; before "the": <s>, on, ate
    assert counts.continuation_count("cat") == 2
    assert counts.continuation_count("the") == 3
    assert counts.following("the", k=1) == [("mat", 2)]
    assert counts.following([vocab.bos_id]) == [("the", 1), ("a", 1)]
    assert counts.following("the mat") == [("</s>", 2)]
    assert counts.count([vocab.bos_id, vocab.token_to_id["a"]]) == 1
    # nothing stands before a start, which itself is never predicted
    assert counts.continuation_count([vocab.bos_id, vocab.token_to_id["a"]]) == 0
    assert counts.count([vocab.bos_id]) == 0
    assert counts.count([vocab.token_to_id["a"], vocab.bos_id]) == 0


def test_equally_frequent_followers_stand_in_the_order_of_the_vocabulary() -> None:
    counts = lmzoo.NgramCounts(corpus_of(["xa", "xb", "xa", "xc"]).train, order=2)
    assert counts.following("x") == [("a", 2), ("b", 1), ("c", 1)]
    letters = [chr(ord("A") + i) for i in range(50)]
    times = {letter: 1 + 7 * i % 3 for i, letter in enumerate(letters)}
    others = [letter for i, letter in enumerate(letters) for _ in range(5 * i % 7)]
    corpus = corpus_of([*("x" + letter for letter in letters for _ in range(times[letter])), *others])
    ids = corpus.vocab.token_to_id
    wanted = sorted(times.items(), key=lambda pair: (-pair[1], ids[pair[0]]))
    assert lmzoo.NgramCounts(corpus.train, order=2).following("x", None) == wanted


def test_the_text_is_rewritten_as_the_corpus_was() -> None:
    counts = lmzoo.NgramCounts(corpus_of(["The cat"], normalize="letters", documents="file").train, order=4)
    assert counts.count("THE!") == counts.count("the ") == 1


def test_discounts_are_those_of_the_model() -> None:
    corpus = corpus_of(["abacabad" * 3, "abcdabd", "aab", "dca"] * 2)
    counts = lmzoo.NgramCounts(corpus.train, 3)
    for smoothing in ("mkn", "kn", "ad", "katz"):
        with pytest.warns(UserWarning, match="order"):
            model: Any = lmzoo.train(f"ngram:order=3,smoothing={smoothing}", corpus)
        found = counts.discounts(smoothing)
        assert [d.reason for d in found if d.reason] == list(model.details["fallbacks"].values())
        if smoothing != "katz":
            assert [list(d.amounts) for d in found] == model.details["discounts"]


def test_a_discount_by_hand() -> None:
    # ab and ba twice; <s>a, a</s>, <s>c and c</s> once
    counts = lmzoo.NgramCounts(corpus_of(["ababa", "c"]).train, 2)
    assert counts.counts_of_counts()[1][:2] == [4, 2]
    assert counts.discounts("ad")[1].amounts == (4 / (4 + 2 * 2),)


def test_a_discount_that_cannot_be_estimated_says_why() -> None:
    (discount,) = lmzoo.NgramCounts(corpus_of(["aaaa"]).train, 1).discounts()
    assert discount.amounts == FALLBACK_DISCOUNTS
    assert discount.reason == "no n-gram has count 2 or 3"


class TestBadQuestions:
    @pytest.fixture
    def corpus(self) -> Corpus:
        return corpus_of(["the cat sat on the mat", "the cat ran"], tokens="word", min_freq=2)

    @pytest.fixture
    def counts(self, corpus: Corpus) -> lmzoo.NgramCounts:
        return lmzoo.NgramCounts(corpus.train, order=2)

    def test_an_unknown_word(self, counts: lmzoo.NgramCounts) -> None:
        with pytest.raises(InputError, match=r"'teh' does not occur .* at least 2 times\. Did you mean 'the'\?"):
            counts.count("teh cat")
        with pytest.raises(InputError, match="'sat' does not occur"):
            counts.following("sat")

    def test_an_unknown_word_has_an_id_to_ask_for(self, counts: lmzoo.NgramCounts) -> None:
        # sat, on, mat, ran
        assert counts.count([counts.vocab.unk_id]) == 4

    @pytest.mark.parametrize("method", ["count", "continuation_count"])
    def test_no_token_at_all(self, counts: lmzoo.NgramCounts, method: str) -> None:
        for nothing in ("", [], " "):
            with pytest.raises(InputError, match="at least one token, got none"):
                getattr(counts, method)(nothing)

    @pytest.mark.parametrize(
        ("method", "text", "cure"),
        [("count", "the cat the", 3), ("continuation_count", "the cat", 3), ("following", "the cat the", 4)],
    )
    def test_more_tokens_than_were_counted(
        self, corpus: Corpus, counts: lmzoo.NgramCounts, method: str, text: str, cure: int
    ) -> None:
        with pytest.raises(InputError, match=f"count with order={cure}"):
            getattr(counts, method)(text)
        getattr(lmzoo.NgramCounts(corpus.train, cure), method)(text)

    @pytest.mark.parametrize("ngram", [["the"], [1.0], 3, None, b"the", [[1, 2]], np.array([1.5]), [2**70]])
    def test_what_is_neither_text_nor_ids(self, counts: lmzoo.NgramCounts, ngram: Any) -> None:
        with pytest.raises(TokenError):
            counts.count(ngram)

    @pytest.mark.parametrize("bad", [-1, 99])
    def test_an_id_out_of_range(self, counts: lmzoo.NgramCounts, bad: int) -> None:
        with pytest.raises(TokenError, match=f"token {bad} is outside"):
            counts.count([bad])

    @pytest.mark.parametrize("order", [0, -1, 33, 2.0, True, "2", None])
    def test_an_order_that_is_none(self, corpus: Corpus, order: Any) -> None:
        with pytest.raises(InputError, match=r"order must be .*1 to 32, got"):
            lmzoo.NgramCounts(corpus.train, order)

    @pytest.mark.parametrize("k", [0, -3, 1.5, "all"])
    def test_a_number_that_is_none(self, counts: lmzoo.NgramCounts, k: Any) -> None:
        with pytest.raises(InputError, match=r"k must be .*at least 1"):
            counts.following("the", k)

    def test_a_corpus_is_no_part_of_one(self, corpus: Corpus) -> None:
        whole: Any = corpus
        with pytest.raises(InputError, match=r"such as corpus\.train, got a Corpus"):
            lmzoo.NgramCounts(whole)

    def test_a_smoothing_without_discounts(self, counts: lmzoo.NgramCounts) -> None:
        with pytest.raises(InputError, match=r"'mnk'\. Did you mean 'mkn'\? They belong to: mkn, kn, ad, katz"):
            counts.discounts("mnk")
