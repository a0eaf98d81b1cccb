"""The corpus card: every figure by hand, on texts small enough for it."""

from __future__ import annotations

import json
import lzma
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo import card as cards
from lmzoo.card import Counted, Coverage, LongestLine, Overlap, describe
from lmzoo.corpus import corpus_from_texts
from lmzoo.errors import InputError
from lmzoo.ngram.questions import NgramCounts
from lmzoo.ngram.sparsity import sparsity

pytestmark = pytest.mark.plain

TRAIN = "the cat sat\nthe dog sat\n\nthe cat sat \nthe cow\n"
VALID = "the dog sat\nthe cow flew\n"
TEST = "the cat sat\na cow sat\nthe dog sat\n the cow\n"


def card_of(**options):
    return describe(corpus_from_texts({"train": TRAIN, "valid": VALID, "test": TEST}, **options))


@pytest.fixture(scope="module")
def words():
    return card_of(tokens="word")


def test_parts(words):
    train, valid, test = words.parts
    # four lines of 3, 3, 3 and 2 words, an end each; one blank line is skipped; one line stands there twice
    assert (train.n_documents, train.n_lines, train.n_tokens) == (4, 4, 11 + 4)
    assert (train.n_repeated_documents, train.n_repeated_lines) == (1, 1)
    # the cat sat dog cow
    assert (train.n_types, valid.n_types, test.n_types) == (5, 5, 6)
    assert words.n_symbols == 5 + 2
    assert (train.n_oov, valid.n_oov, test.n_oov) == (0, 1, 1)
    assert train.n_chars == train.n_bytes == len(TRAIN) - 1
    assert train.longest_line == LongestLine(number=3, n_chars=12, start="the cat sat ")
    assert test.longest_line == LongestLine(number=1, n_chars=11, start="the cat sat")
    assert words.n_blank_lines == 1


def test_lines_found_in_other_parts(words):
    # white space at the ends is no difference: " the cow" is "the cow"
    assert words.overlaps == (
        Overlap(part="valid", found_in="train", documents=1 / 2, lines=1 / 2),
        Overlap(part="test", found_in="train", documents=3 / 4, lines=3 / 4),
        Overlap(part="test", found_in="valid", documents=1 / 4, lines=1 / 4),
    )


def test_unknown_tokens_by_vocabulary(words):
    # the 4, sat 3, cat 2, cow 1, dog 1
    assert [part.n_tokens for part in words.parts] == [15, 8, 15]
    whole = {"train_oov": 0.0, "valid_oov": 1 / 8, "test_oov": 1 / 15}
    assert words.coverage == (
        Coverage(n_symbols=5, min_freq=None, **whole),
        Coverage(n_symbols=5, min_freq=1, **whole),
        # left: the, sat, cat; lost: cow and dog in train, dog cow flew in valid, a cow dog cow in test
        Coverage(n_symbols=3, min_freq=2, train_oov=2 / 15, valid_oov=3 / 8, test_oov=4 / 15),
        # left: the, sat
        Coverage(n_symbols=2, min_freq=3, train_oov=4 / 15, valid_oov=3 / 8, test_oov=5 / 15),
        Coverage(n_symbols=0, min_freq=5, train_oov=11 / 15, valid_oov=6 / 8, test_oov=11 / 15),
        Coverage(n_symbols=0, min_freq=10, train_oov=11 / 15, valid_oov=6 / 8, test_oov=11 / 15),
    )


@given(words=st.lists(st.text(alphabet="abc", min_size=1, max_size=2), min_size=20), k=st.integers(1, 3))
def test_coverage_agrees_with_a_corpus_of_that_cut_off(words, k):
    train, valid, test = (" ".join(held) for held in (words, [*words[:9], "x"], [*words[5:], "y", "z"]))
    texts = {"train": train, "valid": valid, "test": test}
    asked = next(
        row for row in describe(corpus_from_texts(texts, tokens="word"), order=1).coverage if row.min_freq == k
    )
    cut = corpus_from_texts(texts, tokens="word", min_freq=k)
    assert asked.n_symbols == len(cut.vocab) - 3
    for share, split in ((asked.train_oov, cut.train), (asked.valid_oov, cut.valid), (asked.test_oov, cut.test)):
        assert share * split.n_tokens == pytest.approx(split.n_oov)


def test_symbols_and_their_frequencies(words):
    assert words.symbols[:3] == (
        Counted(what="</s>", count=4),
        Counted(what="the", count=4),
        Counted(what="sat", count=3),
    )
    assert words.frequencies == ((1, 4), (2, 3), (3, 2), (4, 1), (5, 1))


def test_growth_of_the_vocabulary(words):
    # the cat sat the dog sat the cat sat the cow: new ones at 1, 2, 3, 5 and 11
    seen = dict(words.growth)
    assert {n: seen[n] for n in (1, 2, 3, 4, 5, 10, 11)} == {1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 10: 4, 11: 5}


def test_growth_is_the_same_in_blocks(words, monkeypatch):
    monkeypatch.setattr(cards, "_BLOCK", 4)
    assert card_of(tokens="word").growth == words.growth


def test_characters_of_all_parts_as_they_were_read(words):
    counts = Counter("".join(line + "\n" for text in (TRAIN, VALID, TEST) for line in text.splitlines() if line))
    assert {c.what: c.count for c in words.characters} == counts
    assert words.n_characters == len(counts)
    assert words.characters[0].code == "U+0020"
    assert words.scripts == (Counted(what="Latin", count=sum(n for c, n in counts.items() if c.isalpha())),)
    assert not words.invisible


def test_a_file_has_no_line_end_that_it_does_not_have():
    card = describe(corpus_from_texts({"train": "ab\ncd", "valid": "a\u00a0", "test": "b"}), order=2)
    assert {c.what: c.count for c in card.characters} == Counter("ab\ncda\u00a0b")
    assert [c.name for c in card.invisible] == ["NO-BREAK SPACE"]
    assert [part.n_documents for part in card.parts] == [1, 1, 1]
    assert card.parts[0].longest_line == LongestLine(number=1, n_chars=2, start="ab")


def test_ngrams_are_those_of_the_library(words):
    corpus = corpus_from_texts({"train": TRAIN, "valid": VALID, "test": TEST}, tokens="word")
    assert words.ngrams == sparsity(NgramCounts(corpus.train, 5), corpus.test)
    assert words.n_ngram_tokens == corpus.train.n_tokens


def test_a_long_text_is_counted_in_as_far_as_it_is_said(monkeypatch):
    monkeypatch.setattr(cards, "MOST_NGRAM_TOKENS", 8)
    monkeypatch.setattr(cards, "MOST_COMPRESSED_BYTES", 10)
    card = card_of(tokens="word")
    # two lines of four tokens
    assert card.n_ngram_tokens == 8
    assert card.ngrams[0].n_seen == 5
    assert card.n_compressed_bytes == 10


def test_compressibility_is_that_of_xz(words):
    data = b"the cat sat\nthe dog sat\nthe cat sat \nthe cow\n"
    assert words.n_compressed_bytes == len(data)
    assert words.xz_bits_per_byte == 8 * len(lzma.compress(data)) / len(data)


def test_compressed_is_the_text_without_an_end_that_it_does_not_have():
    corpus = corpus_from_texts({"train": "ab" * 50, "valid": "a", "test": "b"})
    card = describe(corpus)
    assert card.n_compressed_bytes == 100 == card.parts[0].n_bytes
    assert card.xz_bits_per_byte == 8 * len(lzma.compress(b"ab" * 50)) / 100


def test_running_text_is_one_document():
    card = card_of(tokens="word", documents="running")
    assert [part.n_documents for part in card.parts] == [1, 1, 1]
    assert card.parts[0].n_lines == 4
    assert [overlap.documents for overlap in card.overlaps] == [0, 0, 0]
    assert [overlap.lines for overlap in card.overlaps] == [1 / 2, 3 / 4, 1 / 4]


def test_the_texts_own_unknown_word_is_a_word():
    texts = {"train": "a <unk> <unk> b\n", "valid": "<unk> a\n", "test": "c <unk>\n"}
    card = describe(corpus_from_texts(texts, tokens="word", own_unk=True))
    assert card.frequencies[0] == (1, 2)
    assert [part.n_oov for part in card.parts] == [0, 0, 1]


def test_a_rarer_word_is_unknown_in_training_too():
    card = card_of(tokens="word", min_freq=2)
    assert card.parts[0].n_oov == 2
    assert [row.min_freq for row in card.coverage] == [None, 2, 3, 5, 10]
    assert card.coverage[0].train_oov == 2 / 15


def test_of_a_closed_set_of_symbols_nothing_is_unknown_and_what_never_occurs_has_no_rank():
    card = describe(corpus_from_texts({"train": "abca", "valid": "xy", "test": "z"}, tokens="byte"), order=1)
    assert card.coverage == (Coverage(n_symbols=256, min_freq=None, train_oov=0, valid_oov=0, test_oov=0),)
    assert card.frequencies == ((1, 2), (2, 1), (3, 1))
    assert card.parts[0].n_types == 3


def test_what_reading_changed_is_on_the_card(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("cafe\u0301 \n".encode() * 10 + b"\xff" + b"cat " * 10)
    card = describe(lmzoo.load_corpus(path, normalize="nfc", invalid="replace"), order=1)
    assert (card.n_normalized, card.n_replaced) == (20, 1)
    assert card.normal_forms.n_changed == 20
    assert [c.code for c in card.invisible] == ["U+FFFD"]


def test_it_is_json_and_finite(words):
    told = json.loads(json.dumps(words.to_json(), allow_nan=False))
    assert told["parts"][0]["longest_line"]["number"] == 3
    assert [row["order"] for row in told["ngrams"]] == [1, 2, 3, 4, 5]
    assert told["ngrams"][0]["seen_share"] == 6 / 7
    assert told["sha256"] == words.sha256


def test_points_of_a_curve_grow_by_a_factor():
    points = cards._growing(1_000_000)
    assert (points[0], points[-1]) == (1, 1_000_000)
    assert points == sorted(set(points))
    large = np.log([p for p in points if p > 100])
    assert np.allclose(np.diff(large), math.log(1_000_000) / cards._N_POINTS, atol=0.01)
    assert cards._growing(0) == []


def test_only_a_corpus_is_described():
    with pytest.raises(InputError, match="as load_corpus gives it; got a str"):
        describe("genesis")
    with pytest.raises(InputError, match="order must be 1 to 32"):
        describe(corpus_from_texts({"train": TRAIN, "test": TEST}), order=0)
    assert lmzoo.describe is describe
