"""The vocabulary: both mappings, what is unknown, what spelling costs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.errors import InputError, TokenError
from lmzoo.spelling import Spelling, code_points
from lmzoo.tokenizers import split_words
from lmzoo.vocab import Vocab, build_vocab

pytestmark = pytest.mark.plain

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
few_words = st.lists(st.sampled_from(["a", "b", "cc", "<s>", "</s>", "<unk>", "\\<s>", "\\\\<unk>", "é", "\u00a0"]))


class TestBuilding:
    def test_ids_fall_by_frequency_and_ties_by_token(self):
        vocab = build_vocab(["b a b c", "b a c"], tokenizer="word", has_eos=True)
        assert vocab.tokens == ("<unk>", "<s>", "</s>", "b", "a", "c")
        assert vocab.counts_V.tolist() == [0, 2, 2, 3, 2, 2]

    @given(st.lists(texts, min_size=1), st.randoms(use_true_random=False))
    def test_the_order_of_documents_does_not_matter(self, documents, random):
        shuffled = random.sample(documents, len(documents))
        assert build_vocab(documents).fingerprint == build_vocab(shuffled).fingerprint

    @given(st.lists(texts), st.integers(1, 4), st.sampled_from(["char", "word"]))
    def test_every_token_of_the_text_is_counted_once(self, documents, min_freq, tokenizer):
        vocab = build_vocab(documents, tokenizer=tokenizer, min_freq=min_freq)
        n_tokens = sum(len(d) if tokenizer == "char" else len(split_words(d)) for d in documents)
        assert vocab.counts_V.sum() - vocab.counts_V[vocab.bos_id] == n_tokens
        assert (vocab.counts_V[2:] >= min_freq).all()

    def test_rare_tokens_become_unk(self):
        # c and d occur once each
        vocab = build_vocab(["aabbcd"], min_freq=2)
        assert vocab.tokens == ("<unk>", "<s>", "a", "b")
        assert vocab.counts_V[vocab.unk_id] == 2

    def test_predictable_symbols_are_all_but_the_start(self):
        assert build_vocab(["ab"]).n_predictable == 3  # <unk> a b
        assert build_vocab(["ab"], has_eos=True).n_predictable == 4  # </s> as well

    def test_the_end_has_an_id_only_where_documents_end(self):
        assert build_vocab(["ab"]).eos_id is None
        assert build_vocab(["ab"], has_eos=True).eos_id == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"tokenizer": "wrd"}, "no tokenizer 'wrd'.*Did you mean 'word'"),
            ({"normalizer": "letter"}, "no normaliser 'letter'.*Did you mean 'letters'"),
            ({"min_freq": 0}, "min_freq must be at least 1, got 0"),
        ],
    )
    def test_what_does_not_exist_is_named(self, options, message):
        with pytest.raises(InputError, match=message):
            build_vocab(["ab"], **options)

    def test_a_vocabulary_starts_with_the_reserved_symbols(self):
        with pytest.raises(InputError, match="starts with <unk> and <s>"):
            Vocab(tokens=("a", "b"), counts_V=np.zeros(2, np.int64))
        with pytest.raises(InputError, match="3 tokens but 2 counts"):
            Vocab(tokens=("<unk>", "<s>", "a"), counts_V=np.zeros(2, np.int64))


class TestBothWays:
    @given(texts)
    def test_characters_come_back(self, text):
        vocab = build_vocab([text])
        assert vocab.decode(vocab.encode(text)) == text

    @given(few_words)
    def test_words_come_back_single_spaced_markers_included(self, words):
        vocab = build_vocab([" ".join(words)], tokenizer="word", has_eos=True)
        ids = vocab.encode(" ".join(words))
        assert vocab.decode(ids) == " ".join(words)
        # a literal marker is never the symbol
        assert not {vocab.unk_id, vocab.bos_id, vocab.eos_id} & set(ids.tolist())

    @given(few_words)
    def test_the_texts_own_unk_is_the_symbol_where_it_is_on_purpose(self, words):
        vocab = build_vocab([" ".join(words)], tokenizer="word", own_unk=True)
        ids, oov = vocab.encode_tokens(words)
        assert [w == "<unk>" for w in words] == [i == vocab.unk_id for i in ids]
        assert len(oov) == 0

    @given(texts, texts)
    def test_unseen_characters_are_unknown_at_their_places(self, seen, text):
        vocab = build_vocab([seen])
        ids, oov = vocab.encode_normalized(text)
        assert oov.tolist() == [i for i, c in enumerate(text) if c not in seen]
        assert (ids[oov] == vocab.unk_id).all()

    def test_the_highest_code_point_beyond_the_table_is_unknown(self):
        vocab = build_vocab(["ab"])
        assert vocab.encode("\U0010ffffc`b").tolist() == [0, 0, 0, 3]

    def test_encode_normalises_first(self):
        vocab = build_vocab(["ab c"], normalizer="letters")
        assert vocab.decode(vocab.encode("A, b")) == "a b"

    def test_start_leaves_nothing_and_end_a_line_end(self):
        vocab = build_vocab(["a b"], tokenizer="word", has_eos=True)
        assert vocab.tokens[3:] == ("a", "b")
        assert vocab.decode([1, 3, 4, 2, 3, 2]) == "a b\na\n"
        assert vocab.decode([0, 3]) == "<unk> a"

    @pytest.mark.parametrize("bad", [-1, 4])
    def test_an_id_outside_is_named_with_the_range(self, bad):
        with pytest.raises(TokenError, match=rf"id {bad} is outside 0\.\.3"):
            build_vocab(["ab"]).decode([bad])

    def test_empty_text_has_no_tokens(self):
        assert build_vocab(["ab"]).encode("").shape == (0,)
        assert build_vocab(["ab"], tokenizer="word").encode(" \n").shape == (0,)


class TestChecked:
    vocab = build_vocab(["ab"])

    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_good_ids_pass_unchanged(self, dtype):
        tokens_BxL = np.array([[0, 3]], dtype)
        assert self.vocab.checked(tokens_BxL) is tokens_BxL
        assert self.vocab.checked(np.zeros((2, 0), dtype)).shape == (2, 0)

    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            ([[1]], "got list"),
            (np.array([[1.0]]), "got float64"),
            (np.array([1]), r"got shape \(1,\)"),
            (np.array([[4]]), r"token 4 is outside 0\.\.3"),
            (np.array([[-1]]), r"token -1 is outside 0\.\.3"),
        ],
    )
    def test_bad_ids_raise_with_what_was_got(self, tokens, message):
        with pytest.raises(TokenError, match=message):
            self.vocab.checked(tokens)


class TestIdentity:
    def test_the_fingerprint_tells_every_difference_that_changes_ids(self):
        prints = {
            build_vocab(["ab"]).fingerprint,
            build_vocab(["abb"]).fingerprint,  # b before a
            build_vocab(["ab"], has_eos=True).fingerprint,
            build_vocab(["ab"], normalizer="lower").fingerprint,
            build_vocab(["a b"], tokenizer="word").fingerprint,
            build_vocab(["a b"], tokenizer="word", own_unk=True).fingerprint,
        }
        assert len(prints) == 6

    def test_counts_do_not_change_it(self):
        assert build_vocab(["aab"]).fingerprint == build_vocab(["aaaab"]).fingerprint

    @given(st.lists(texts), st.sampled_from(["char", "word"]), st.booleans())
    def test_a_header_of_json_brings_it_back(self, documents, tokenizer, own_unk):
        vocab = build_vocab(documents, tokenizer=tokenizer, own_unk=own_unk, min_freq=2, has_eos=True)
        back = Vocab.from_header(json.loads(json.dumps(vocab.to_header())))
        assert back == vocab
        assert back.counts_V.tolist() == vocab.counts_V.tolist()
        assert back.spelling == vocab.spelling


class TestSpelling:
    def test_a_word_by_hand(self):
        # "ab a": a twice, b once, two word ends; cells a 3, b 2, end 3, escape 1: 9 in all
        spelling = build_vocab(["ab a"], tokenizer="word").spelling
        assert spelling.nats("ba") == pytest.approx(-math.log(2 / 9 * 3 / 9 * 3 / 9))
        # z was never seen: the escape, then one of 1,114,112 code points
        assert spelling.nats("az") == pytest.approx(-math.log(3 / 9 * (1 / 9 / 0x110000) * 3 / 9))

    def test_a_character_by_hand(self):
        # "aaabbc": only a is a symbol, so an unknown one is b or c or new: cells b 3, c 2, escape 1; it needs no end
        spelling = build_vocab(["aaabbc"], min_freq=3).spelling
        assert spelling.nats("b") == pytest.approx(-math.log(3 / 6))
        assert spelling.nats("z") == pytest.approx(-math.log(1 / 6 / 0x110000))

    def test_where_every_character_is_a_symbol_an_unknown_one_is_any_other(self):
        assert build_vocab(["aab"]).spelling.nats("z") == pytest.approx(math.log(0x110000))

    @given(st.dictionaries(st.characters(), st.integers(1, 1000)), st.integers(0, 1000))
    def test_the_cells_add_up_to_one(self, counts, n_ends):
        spelling = Spelling(counts=counts, n_ends=n_ends)
        end = math.exp(-spelling.nats(""))  # the empty word costs its end; without ends it costs nothing
        unseen = next(c for c in map(chr, range(0x110000)) if c not in counts)
        escape = math.exp(-spelling.nats(unseen)) * 0x110000
        chars = sum(math.exp(-spelling.nats(c)) for c in counts)
        if n_ends:
            assert (chars + escape) / end + end == pytest.approx(1.0)
        else:
            assert chars + escape == pytest.approx(1.0)

    def test_rare_words_are_spelled_too(self):
        # what min_freq turned into <unk> is still part of the training text that the spelling learned from
        assert build_vocab(["ab a a"], tokenizer="word", min_freq=2).spelling.counts == {"a": 3, "b": 1}

    def test_without_a_spelling_an_unknown_token_costs_infinitely_much(self):
        vocab = Vocab(tokens=("<unk>", "<s>"), counts_V=np.zeros(2, np.int64))
        assert vocab.spelling_nats("x") == math.inf


@given(st.text())
def test_code_points_are_those_of_python(text):
    assert code_points(text).tolist() == [ord(c) for c in text]


def test_longer_tokens_are_no_characters():
    with pytest.raises(InputError, match="'lo' is no single character"):
        Vocab(tokens=("<unk>", "<s>", "lo"), counts_V=np.zeros(3, np.int64))
