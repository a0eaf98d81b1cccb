"""Tokens as numbers, by numpy and compiled."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.normalizers import NORMALIZERS
from lmzoo.segments import Segments, places_where
from lmzoo.tokenizers import TOKENIZERS, split_words
from lmzoo.tokens import normalized, number_words, taken, tokens_of

# everything that somebody's word splitting has stumbled over
PIECES = ("a", "b", "ab", "\u00e9", "\u4e2d", "\U0001f600", "\0", "\x0b", "\x1c", "\x85", "\u00a0", "\u2028", "\u3000")
PIECES += (" ", "  ", "\t", "\n", "\n\n", " \n ", "<unk>", " <s> ", "\\<unk>", "\\", "x" * 70, "y" * 70, "\ufeff")
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(st.characters(exclude_categories=["Cs"]))
many_texts = st.lists(texts, max_size=6)
normalizers = st.sampled_from(sorted(NORMALIZERS))


@pytest.fixture(scope="module", params=["0", "1"], ids=["numpy", "compiled"])
def either_path(request):
    """Every test that asks for it runs on both paths."""
    if request.param == "1" and importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed: python -m pip install 'lmzoo[fast]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMZOO_COMPILED", request.param)
        yield


def numbered_one_by_one(text):
    """Numbers of words by the order of their first places, 0 for line ends, and the different words."""
    tokens = [t for line in text.split("\n") for t in (*split_words(line), "\n")][:-1]
    words = list(dict.fromkeys(t for t in tokens if t != "\n"))
    return [0 if t == "\n" else words.index(t) + 1 for t in tokens], words


@pytest.mark.usefixtures("either_path")
class TestWords:
    @given(texts)
    def test_numbers_follow_first_places(self, text):
        numbers_T, words = number_words((text + "\n").encode())
        assert (numbers_T.tolist(), words) == numbered_one_by_one(text + "\n")
        assert numbers_T.dtype == np.int32

    @given(texts, texts, texts)
    def test_a_part_of_the_data_is_numbered_as_if_it_stood_alone(self, before, text, after):
        start, end = len(before.encode()), len((before + text).encode()) + 1
        numbers_T, words = number_words(f"{before}{text}\n{after}".encode(), start, end)
        assert (numbers_T.tolist(), words) == numbered_one_by_one(text + "\n")

    def test_no_text_has_no_words(self):
        numbers_T, words = number_words(b"")
        assert (numbers_T.tolist(), words) == ([], [])

    def test_more_different_words_than_the_first_table_holds(self):
        words = [f"w{i}" for i in range(50_000)]
        numbers_T, found = number_words((" ".join(words + words[::-1]) + "\n").encode())
        assert found == words
        assert numbers_T.tolist() == [*range(1, 50_001), *range(50_000, 0, -1), 0]

    def test_words_longer_than_a_block(self):
        words = ["a" * 40_000, "b", "a" * 40_000, "a" * 40_001]
        numbers_T, found = number_words((" ".join(words) + "\n").encode())
        assert found == [words[0], "b", words[3]]
        assert numbers_T.tolist() == [1, 2, 1, 3, 0]

    @given(many_texts)
    def test_only_the_end_of_a_segment_is_marked(self, texts):
        tokens = tokens_of(Segments.of(texts), TOKENIZERS["word"])
        assert spelled(tokens) == [split_words(text) for text in texts]

    @given(many_texts)
    def test_what_is_lossless(self, texts):
        lossless = all(" ".join(split_words(text)) == text.strip(" \t\n") for text in texts)
        assert tokens_of(Segments.of(texts), TOKENIZERS["word"]).lossless == lossless


def spelled(tokens):
    """The tokens of each segment as strings."""
    segments = [[]]
    for number in tokens.numbers_T.tolist():
        if number:
            segments[-1].append(tokens.different[number - 1])
        else:
            segments.append([])
    assert not segments[-1]
    return segments[:-1]


class TestChars:
    @given(many_texts)
    def test_they_spell_the_segments(self, texts):
        tokens = tokens_of(Segments.of(texts), TOKENIZERS["char"])
        assert spelled(tokens) == [list(text) for text in texts]
        assert tokens.different == sorted(set("".join(texts)))
        assert tokens.lossless

    def test_more_than_a_block_of_characters_of_several_bytes(self):
        text = "a\u4e2d" * 50_000
        assert spelled(tokens_of(Segments.of([text, "b"]), TOKENIZERS["char"])) == [list(text), ["b"]]

    def test_few_characters_are_numbered_in_few_bytes(self):
        assert tokens_of(Segments.of(["abc"]), TOKENIZERS["char"]).numbers_T.dtype == np.uint8
        many = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
        assert tokens_of(Segments.of([many]), TOKENIZERS["char"]).numbers_T.dtype == np.uint16


@given(many_texts, st.sampled_from(["char", "word"]))
def test_counts_are_those_of_the_tokens(texts, tokenizer):
    tokens = tokens_of(Segments.of(texts), TOKENIZERS[tokenizer])
    all_tokens = list(itertools.chain.from_iterable(map(TOKENIZERS[tokenizer].split, texts)))
    assert tokens.counts_K.tolist() == [all_tokens.count(token) for token in tokens.different]
    assert (tokens.n_segments, tokens.chars_S.tolist()) == (len(texts), [len(text) for text in texts])


def test_counts_of_more_different_tokens_than_are_counted_at_a_time():
    words = [f"w{i}" for i in range(70_000)]
    tokens = tokens_of(Segments.of([" ".join(words), "w1 w0 w1"]), TOKENIZERS["word"])
    assert tokens.counts_K.tolist() == [2, 3, *[1] * 69_998]


@given(many_texts, normalizers)
def test_segments_are_normalised_one_by_one(texts, normalize):
    normalizer = NORMALIZERS[normalize]
    assert list(normalized(Segments.of(texts), normalizer)) == [normalizer.apply(text) for text in texts]


def test_more_numbers_than_a_block_are_looked_up():
    numbers_T = np.arange(200_000, dtype=np.int32) % 1000
    table = np.arange(1000, dtype=np.int32)[::-1].copy()
    assert taken(table, numbers_T).tolist() == table[numbers_T].tolist()


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
class TestShares:
    """Each thread numbers a share of the text, and all shares are numbered as one."""

    @given(texts, st.integers(1, 5), st.integers(1, 12))
    def test_any_number_of_shares_gives_the_same(self, text, n_threads, least):
        from lmzoo.compiled import words

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(words, "_LEAST_BYTES", least)
            patch.setattr(words, "n_threads", lambda: n_threads)
            numbers_T, bounds_Kx2 = words.number_words(np.frombuffer((text + "\n").encode(), np.uint8))
        found = [(text + "\n").encode()[a:b].decode() for a, b in bounds_Kx2.tolist()]
        assert (numbers_T.tolist(), found) == numbered_one_by_one(text + "\n")

    @pytest.mark.whole
    def test_more_different_words_than_the_first_tables_hold(self):
        from lmzoo.compiled import words

        # long words alike in their first eight bytes, short ones with a NUL that a key alone would not tell apart
        made = [f"long word{i}"[5:] + "x" * (i % 13) for i in range(40_000)] + ["a", "\0a", "\0\0a", "\0" * 8, "\0" * 9]
        text = " ".join(made + made[::-1]) + "\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(words, "_LEAST_BYTES", 1000)
            patch.setattr(words, "n_threads", lambda: 3)
            numbers_T, bounds_Kx2 = words.number_words(np.frombuffer(text.encode(), np.uint8))
        n = len(made)
        assert [text.encode()[a:b].decode() for a, b in bounds_Kx2.tolist()] == made
        assert numbers_T.tolist() == [*range(1, n + 1), *range(n, 0, -1), 0]


def test_ids_may_stand_where_the_numbers_stood():
    table = np.arange(1000, dtype=np.int32)[::-1].copy()
    numbers_T = np.arange(200_000, dtype=np.int32) % 1000
    wanted = table[numbers_T].tolist()
    assert taken(table, numbers_T, in_place=True) is numbers_T
    assert numbers_T.tolist() == wanted
    # narrower numbers, and those that cannot be written to, stay
    narrow_T = np.arange(100, dtype=np.uint8)
    frozen_T = np.arange(100, dtype=np.int32)
    frozen_T.flags.writeable = False
    for numbers in (narrow_T, frozen_T):
        assert taken(table, numbers, in_place=True).tolist() == table[:100].tolist()
        assert numbers.tolist() == list(range(100))


@pytest.mark.parametrize("n", [0, 1, 65_536, 200_001])
def test_places_are_found_block_by_block(n):
    values = np.arange(n) % 7
    found = places_where(lambda block: block == 0, values)
    assert found.tolist() == list(range(0, n, 7))
    assert found.dtype == np.int64
