"""Storage and sparsity: the figures are sums over sets of n-grams, written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus, Split
from lmzoo.errors import InputError, VocabularyMismatchError
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.quantize import quantize
from lmzoo.ngram.sparsity import bytes_by_order

texts = st.lists(st.text("abcd", min_size=1, max_size=10), min_size=1, max_size=5)


def corpus_of(train: list[str], test: list[str], **options: Any) -> Corpus:
    parts = {"train": "\n".join(train), "valid": train[0], "test": "\n".join(test)}
    return lmzoo.corpus_from_texts(parts, **{"documents": "line", **options})


def grams_of(split: Split, order: int) -> Iterator[tuple[int, ...]]:
    for document in split:
        tokens = (split.vocab.bos_id, *document.ids_L.tolist())
        for end in range(max(order, 2), len(tokens) + 1):
            yield tokens[end - order : end]


@given(texts, texts, st.integers(1, 4), st.integers(1, 2))
def test_figures_are_those_of_sets(train: list[str], test: list[str], order: int, min_freq: int) -> None:
    corpus = corpus_of(train, test, min_freq=min_freq)
    table = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, order), corpus.test)
    assert [row.order for row in table] == list(range(1, order + 1))
    for row in table:
        seen, tested = Counter(grams_of(corpus.train, row.order)), Counter(grams_of(corpus.test, row.order))
        new = {gram: n for gram, n in tested.items() if gram not in seen}
        assert (row.n_seen, row.n_once) == (len(seen), sum(n == 1 for n in seen.values()))
        assert (row.n_test_tokens, row.n_new_test_tokens) == (tested.total(), sum(new.values()))
        assert (row.n_test_types, row.n_new_test_types) == (len(tested), len(new))
        assert 0 <= row.seen_share <= 1
        assert row.n_bytes is None


def test_a_text_where_everything_possible_is_seen() -> None:
    # one document; rare letters are <unk>, so that all three symbols occur, and each bigram of them, and one after <s>
    corpus = corpus_of(["aabaxbbxya"], ["a"], documents="file", min_freq=3)
    unigrams, bigrams = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 2), corpus.test)
    assert (unigrams.n_seen, unigrams.n_possible) == (3, 3)
    # 3 * 3 within, and 3 that could start the document, of which 1 does
    assert (bigrams.n_seen, bigrams.n_possible) == (10, 12)


def test_shares_by_hand() -> None:
    corpus = corpus_of(["abab"], ["abba", "b"])
    _, bigrams, _, _, fifth = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 5), corpus.test)
    # seen: <s>a once, ab twice, ba once, b</s> once; possible: 4 symbols (<unk>, </s>, a, b) after these 4 and <s>
    assert (bigrams.seen_share, bigrams.once_share) == (4 / 20, 3 / 4)
    # tested: <s>a ab bb ba a</s> | <s>b b</s>, of which bb, a</s> and <s>b are new
    assert (bigrams.new_token_share, bigrams.new_type_share) == (3 / 7, 3 / 7)
    # <s>abba and abba</s>
    assert (fifth.n_test_tokens, fifth.new_token_share) == (2, 1)


def test_where_there_is_nothing_to_divide_by_there_is_no_share() -> None:
    corpus = corpus_of(["ab"], ["a"])
    *_, last = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 5), corpus.test)
    assert (last.n_seen, last.seen_share) == (0, 0)
    assert (last.once_share, last.new_token_share, last.new_type_share) == (None, None, None)


@pytest.mark.parametrize("smoothing", ["wb", "mle"])
@pytest.mark.parametrize("order", [1, 2, 3, 30])
def test_bytes_are_those_of_the_arrays_in_the_file(order: int, smoothing: str) -> None:
    # enough for the relative frequencies, which are few, to be coded; no document is long enough for order 30
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), (1_000, 20))
    corpus = corpus_of(["".join(row) for row in letters], ["abc"])
    model = lmzoo.train(f"ngram:order={order},smoothing={smoothing}", corpus)
    assert isinstance(model, NgramModel)
    arrays = model.to_parts()[1]
    assert sum(bytes_by_order(model)) == sum(array.nbytes for array in arrays.values())
    assert ("logp_codes" in arrays) == (smoothing == "mle" and order > 2)


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_bytes_by_hand() -> None:
    corpus = corpus_of(["abab", "cab"], ["abc"])
    model = lmzoo.train("trigram", corpus)
    table = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 4), corpus.test, model)
    n_bytes = [row.n_bytes for row in table]
    # a token 1, ln p 8, back-off 8; starts: a place of 8 bytes for each of 6 symbols and one for the end
    assert n_bytes[0] == 6 * (1 + 8 + 8) + 7 * 8
    # <s>a <s>c ab ba b</s> ca: starts are 2 bytes each and for the end, and 8 bytes for all
    assert n_bytes[1] == 6 * (1 + 8 + 8) + 7 * 2 + 8
    # <s>ab aba bab ab</s> <s>ca cab: the highest order has no back-off
    assert n_bytes[2] == 6 * (1 + 8)
    assert n_bytes[3] is None


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_in_a_quantised_model_each_order_has_its_own_book() -> None:
    corpus = corpus_of(["abab", "cab"], ["abc"])
    trigram = lmzoo.train("trigram", corpus)
    assert isinstance(trigram, NgramModel)
    model = quantize(trigram, bits=8)
    arrays = model.to_parts()[1]
    n_bytes = bytes_by_order(model)
    assert sum(n_bytes) == sum(array.nbytes for array in arrays.values())
    # six trigrams: a token and a code each, and one of the three rows of the book
    assert arrays["logp_book"].shape[0] == 3
    assert n_bytes[2] == 6 * (1 + 1) + arrays["logp_book"].nbytes // 3


def test_the_number_possible_is_never_too_large() -> None:
    corpus = corpus_of([" ".join(f"w{i}" for i in range(9_998))], ["w1"], tokens="word")
    table = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 32), corpus.test)
    # 9,998 words, <unk> and </s>; before them, <s> as well
    assert [row.possible_text for row in table[:5]] == ["10000", "1.0e08", "1.0e12", "1.0e16", "1.0e20"]
    assert table[31].possible_text == "1.0e128"
    # 10,000 tokens with <s> and </s>
    assert table[31].seen_share == pytest.approx((10_000 - 32 + 1) / 1e128, rel=1e-3)


def test_as_text_it_is_a_table() -> None:
    corpus = corpus_of(["abab"], ["abba"])
    lines = str(lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 2), corpus.test)).splitlines()
    assert [line[:5] for line in lines] == ["order", "    1", "    2"]
    # tested: <s>a ab bb ba a</s>, two of them new
    assert lines[2].split() == ["2", "4", "20", "20", "75.0", "40.0", "40.0", "n/a"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_everything_is_of_one_vocabulary() -> None:
    corpus, other = corpus_of(["abab"], ["a"]), corpus_of(["abcd"], ["a"])
    counts = lmzoo.NgramCounts(corpus.train, 2)
    with pytest.raises(VocabularyMismatchError, match="the test text has vocabulary"):
        lmzoo.sparsity(counts, other.test)
    model = lmzoo.train("bigram", other)
    with pytest.raises(VocabularyMismatchError, match="the model has vocabulary"):
        lmzoo.sparsity(counts, corpus.test, model)


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_only_n_grams_have_bytes_for_each_order() -> None:
    corpus = corpus_of(["abab"], ["a"])
    mixture = lmzoo.train("mixture:unigram+bigram", corpus)
    with pytest.raises(InputError, match="got a MixtureModel"):
        lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 2), corpus.test, mixture)
