"""Tokenizers: what each gives, what it loses, where texts may be cut, what is kept of one that was trained."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.errors import InputError, MissingLibraryError, TextError
from lmzoo.segments import Segments
from lmzoo.tokenizers import TOKENIZERS, TRAINED, kind_of, pieces_of, restored_tokenizer, tokenizer_for
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS, bytes_of, join_bytes
from lmzoo.tokenizers.subword import train_unigram
from lmzoo.tokenizers.tokenizer import last_place
from lmzoo.tokens import tokens_of
from lmzoo.vocab import Vocab, build_vocab
from tests.lmzoo.tokenizing import (
    KINDS,
    LEARNED_FROM,
    LOSSLESS,
    ODD,
    WORD_LEVEL,
    WORD_PIECE,
    odd_texts,
    of_file,
    tokenizer_of,
)

pytestmark = pytest.mark.plain

every_kind = pytest.mark.parametrize("kind", KINDS)
lossless_kinds = pytest.mark.parametrize("kind", LOSSLESS)


def spelled(segments, tokenizer):
    """The tokens of each segment, by way of their numbers."""
    tokens = tokens_of(segments, tokenizer)
    found = [[]]
    for number in tokens.numbers_T.tolist():
        if number:
            found[-1].append(tokens.different[number - 1])
        else:
            found.append([])
    assert found.pop() == []
    return found


class TestWhatTheyGive:
    @pytest.mark.parametrize(
        ("kind", "text", "tokens"),
        [
            ("char", "a\u0301 b", ["a", "\u0301", " ", "b"]),
            ("grapheme", "a\u0301 b\r\n", ["a\u0301", " ", "b", "\r\n"]),
            ("grapheme", "\U0001f468\u200d\U0001f469!", ["\U0001f468\u200d\U0001f469", "!"]),
            # é is C3 A9; a space is written Ġ, a line end Ċ
            ("byte", "\u00e9 \n", ["\u00c3", "\u00a9", "\u0120", "\u010a"]),
            ("word", " a\u00a0b\tc\n\u3000 ", ["a\u00a0b", "c", "\u3000"]),
            ("nltk", 'He can\'t, "No."', ["He", "ca", "n't", ",", "``", "No", ".", "''"]),
            ("nltk", "It is.\nIt was.", ["It", "is", ".", "It", "was", "."]),
            ("nltk:wordpunct", "He can't...", ["He", "can", "'", "t", "..."]),
            (
                "jieba",
                "\u6211\u6765\u5230\u5317\u4eac\uff0c ok",
                ["\u6211", "\u6765\u5230", "\u5317\u4eac", "\uff0c", " ", "ok"],
            ),
        ],
    )
    def test_by_hand(self, kind, text, tokens):
        assert tokenizer_of(kind).split(text) == tokens

    @every_kind
    @pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
    def test_numbers_stand_for_the_same_tokens(self, kind, text):
        tokenizer = tokenizer_of(kind)
        texts = ["the cat", text, "", text]
        assert spelled(Segments.of(texts), tokenizer) == [tokenizer.split(t) for t in texts]

    @every_kind
    @given(odd_texts)
    def test_no_token_is_empty(self, kind, text):
        assert all(tokenizer_of(kind).split(text))

    def test_a_byte_pair_encoding_by_hand(self):
        pytest.importorskip("tokenizers")
        # "ab" three times, twice of them "abc": the first merge is a+b, the second ab+c
        tokenizer = tokenizer_for("bpe:258", lambda: ["abc\nabc\nab"])
        assert set(tokenizer.symbols) == {*BYTE_SYMBOLS, "ab", "abc"}
        assert tokenizer.split("abcab ba") == ["abc", "ab", "\u0120", "b", "a"]

    @pytest.mark.parametrize("kind", ["bpe:300", "unigram-lm:300"])
    def test_no_more_symbols_than_asked_for_and_every_byte(self, kind):
        symbols = tokenizer_of(kind).symbols
        assert 256 < len(symbols) <= 300
        assert set(BYTE_SYMBOLS) <= set(symbols)

    @pytest.mark.parametrize("name", TRAINED)
    @pytest.mark.parametrize("texts", [[], [""], ["a"], ["\n"]])
    def test_a_text_that_teaches_nothing_gives_bytes(self, name, texts):
        pytest.importorskip("tokenizers")
        tokenizer = tokenizer_for(name, lambda: texts)
        assert set(tokenizer.symbols) == set(BYTE_SYMBOLS)
        assert tokenizer.split("a\u00e9") == ["a", "\u00c3", "\u00a9"]

    def test_a_text_too_short_for_so_many_symbols_gives_what_there_is(self):
        pytest.importorskip("tokenizers")
        assert set(tokenizer_for("bpe:5000", lambda: ["aab"]).symbols) == {*BYTE_SYMBOLS, "aa", "aab"}


class TestLosing:
    @lossless_kinds
    @pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
    def test_odd_texts_come_back(self, kind, text):
        tokenizer = tokenizer_of(kind)
        assert tokenizer.is_lossless
        assert tokenizer.join(tokenizer.split(text)) == text
        assert tokens_of(Segments.of([text]), tokenizer).lossless

    @lossless_kinds
    @given(odd_texts)
    def test_any_text_comes_back(self, kind, text):
        tokenizer = tokenizer_of(kind)
        assert tokenizer.join(tokenizer.split(text)) == text

    @lossless_kinds
    @given(odd_texts)
    def test_the_bytes_of_the_tokens_are_those_of_the_text(self, kind, text):
        tokenizer = tokenizer_of(kind)
        assert b"".join(map(tokenizer.spelled, tokenizer.split(text))) == text.encode()

    @lossless_kinds
    @given(odd_texts)
    def test_a_vocabulary_decodes_what_it_encoded(self, kind, text):
        vocab = vocab_for(kind, text)
        ids = vocab.encode(text)
        assert vocab.decode(ids) == text
        assert not {vocab.unk_id, vocab.bos_id, vocab.eos_id} & set(ids.tolist())

    @every_kind
    @given(odd_texts)
    def test_what_a_text_loses_is_seen(self, kind, text):
        tokenizer = tokenizer_of(kind)
        back = tokenizer.join(tokenizer.split(text))
        is_lossless = back.strip(" \t\n") == text.strip(" \t\n")
        assert tokenizer.loses_nothing(text) == tokens_of(Segments.of([text]), tokenizer).lossless == is_lossless

    def test_by_hand(self):
        assert tokenizer_of("nltk").loses_nothing("a cat sat")
        # the comma is a token of its own, and comes back with a space before it
        assert not tokenizer_of("nltk").loses_nothing("a cat, sat")
        assert not tokenizer_of("nltk:wordpunct").loses_nothing("a cat, sat")

    def test_bytes_that_are_no_text_are_shown_as_such(self):
        # C3 A9 is é; A9 alone is nothing
        assert join_bytes(["\u00a9", "\u00c3", "\u00a9"]) == "\ufffd\u00e9"
        assert join_bytes(["a", "\n", "<unk>"]) == "a\n<unk>"

    def test_each_byte_is_one_visible_character(self):
        assert len(set(BYTE_SYMBOLS)) == 256
        assert not [symbol for symbol in BYTE_SYMBOLS if symbol.isspace() or not symbol.isprintable()]
        assert [bytes_of(symbol) for symbol in BYTE_SYMBOLS] == [bytes([byte]) for byte in range(256)]


def vocab_for(kind: str, text: str) -> Vocab:
    """The vocabulary of a text under the tokenizer of a kind, trained on other text."""
    from lmzoo.vocab import vocab_of

    tokenizer = tokenizer_of(kind)
    return vocab_of(
        tokens_of(Segments.of([text]), tokenizer),
        normalizer="none",
        tokenizer=tokenizer,
        has_eos=True,
        n_starts=None,
        own_unk=False,
        min_freq=1,
    )


class TestPlacesToCut:
    @every_kind
    @given(odd_texts)
    def test_both_parts_have_the_tokens_of_the_whole(self, kind, text):
        tokenizer = tokenizer_of(kind)
        whole = tokenizer.split(text)
        for match in tokenizer.places.finditer(text):
            at = match.start()
            assert tokenizer.split(text[:at]) + tokenizer.split(text[at:]) == whole

    @every_kind
    def test_there_is_one_before_every_line_end_behind_a_letter(self, kind):
        assert last_place("the cat\nsat", tokenizer_of(kind).places) >= 7
        assert last_place("the cat\n" + "\u0301" * 1000, tokenizer_of(kind).places) >= 7

    @given(odd_texts, st.integers(1, 9), st.sampled_from(["char", "word"]))
    def test_pieces_are_the_text(self, text, size, kind):
        pieces = list(pieces_of(text, TOKENIZERS[kind].places, size))
        assert "".join(pieces) == text
        assert all(len(piece) >= size for piece in pieces[:-1])
        assert list(pieces_of(text, None, size)) == [text]

    def test_nowhere(self):
        assert last_place("abc", TOKENIZERS["word"].places) == 0
        assert last_place(" abc", TOKENIZERS["word"].places) == 0


class TestTraining:
    def test_the_same_text_gives_the_same_tokenizer(self):
        pytest.importorskip("tokenizers")
        for name, train in TRAINED.items():
            # in whatever order its lines come, and twice the same
            states = {train(320, texts) for texts in (LEARNED_FROM, LEARNED_FROM[::-1], LEARNED_FROM)}
            assert len(states) == 1, name

    def test_another_process_gives_the_same_tokenizer(self):
        pytest.importorskip("tokenizers")
        script = f"""
import sys
from lmzoo.tokenizers.subword import train_unigram
sys.stdout.write(train_unigram(320, {LEARNED_FROM!r}))
"""
        command = [sys.executable, "-X", "utf8", "-c", script]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        assert done.stdout == train_unigram(320, LEARNED_FROM)

    @pytest.mark.parametrize(
        "name", ["bpe:", "bpe:x", "bpe:255", "bpe:-300", "unigram-lm:1000001", "bpe:3e3", "bpe: 300"]
    )
    def test_a_wrong_number_of_symbols(self, name):
        with pytest.raises(InputError, match=r"has N symbols, 256 .one for each byte. to 1000000, got"):
            kind_of(name)

    def test_a_name_that_is_none(self):
        with pytest.raises(InputError, match=r"no tokenizer 'graphem'\. Did you mean 'grapheme'"):
            kind_of("graphem")
        with pytest.raises(InputError, match=r"or the path of a tokenizer\.json"):
            kind_of("bpee:300")

    def test_half_a_character_is_refused(self):
        pytest.importorskip("tokenizers")
        with pytest.raises(TextError, match=r"U[+]D800"):
            tokenizer_for("bpe", lambda: ["a\ud800"])
        with pytest.raises(TextError, match=r"U[+]D800"):
            tokenizer_of("bpe:300").split("a\ud800")

    def test_a_name_alone_is_not_what_was_learned(self):
        with pytest.raises(InputError, match="bpe:300 is learned from a text"):
            restored_tokenizer("bpe:300", None)

    @pytest.mark.parametrize(
        ("kind", "library", "extra"),
        [
            ("grapheme", "regex", "text"),
            ("nltk", "nltk", "text"),
            ("jieba", "jieba", "zh"),
            ("bpe", "tokenizers", "text"),
        ],
    )
    def test_a_missing_library_is_named_with_its_cure(self, kind, library, extra):
        # a fresh process: what was imported once stays
        script = f"""
import sys
sys.modules[{library!r}] = None
from lmzoo.tokenizers import tokenizer_for
try:
    tokenizer_for({kind!r}, lambda: ["ab"]).split("ab")
except ImportError as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(MissingLibraryError.__name__)
        assert f"the library {library}: python -m pip install 'lmzoo[{extra}]'" in done.stderr


class TestFiles:
    def test_special_tokens_are_text_and_no_text_is_cut_short(self, tmp_path):
        tokenizer = of_file(WORD_LEVEL, tmp_path)
        assert tokenizer.name == "tokenizer.json"
        # nothing is put before the text, and it has five tokens although the file says three
        assert tokenizer.split("a b <s>") == ["a", "b", "<s>"]
        assert tokenizer.split("a b a b a") == ["a", "b", "a", "b", "a"]

    def test_what_is_unknown_keeps_its_spelling_and_is_no_symbol(self, tmp_path):
        tokenizer = of_file(WORD_LEVEL, tmp_path)
        assert tokenizer.split("a zebra <unk>") == ["a", "zebra", "<unk>"]
        assert set(tokenizer.symbols) == {"<s>", "a", "b"}
        vocab = build_vocab(["a zebra <s> a"], tokenizer=str(tmp_path / "tokenizer.json"), has_eos=True)
        # the closed set alone: zebra is unknown although it stands in the training text
        assert vocab.tokens == ("<unk>", "<s>", "</s>", "a", "\\<s>", "b")
        assert vocab.counts_V.tolist() == [1, 1, 1, 2, 1, 0]
        assert vocab.encode("a zebra <unk> <s>").tolist() == [3, 0, 0, 4]

    def test_subwords_with_marks(self, tmp_path):
        tokenizer = of_file(WORD_PIECE, tmp_path)
        assert tokenizer.split("It undone.") == ["it", "un", "##do", "##ne", "."]
        assert tokenizer.split("it XYZ") == ["it", "XYZ"]
        assert tokenizer.join(["it", "un", "##do", "##ne"]) == "it undone"
        # lower case: this loses something, and only what was all lower case comes back
        assert not tokenizer.is_lossless
        assert tokenizer.loses_nothing("it undone")
        assert not tokenizer.loses_nothing("It undone")
        assert b"".join(map(tokenizer.spelled, ["un", "##do"])) == b"undo"

    def test_an_unknown_piece_that_reads_like_a_known_one_is_marked(self, tmp_path):
        # b becomes z before it is looked up, and there is no z; the text has b, which is another token's name
        rewriting = {"type": "Replace", "pattern": {"String": "b"}, "content": "z"}
        tokenizer = of_file({**WORD_LEVEL, "normalizer": rewriting}, tmp_path)
        assert tokenizer.split("a b c") == ["a", "b\ufffd", "c"]
        assert "b" in tokenizer.symbols

    def test_a_trained_one_comes_back_from_its_file(self, tmp_path):
        trained = tokenizer_of("bpe:300")
        again = of_file(json.loads(trained.state), tmp_path)
        assert again.state == trained.state
        assert again.is_lossless
        assert again.places == trained.places
        one, other = (vocab_named(t) for t in (trained, again))
        # whatever it is called, it maps every text to the same ids
        assert one.fingerprint == other.fingerprint

    @pytest.mark.parametrize(
        "text", ["", "{}", "[1]", '{"model": 5}', "not JSON", '{"version":"1.0","model":{"type":"Odd"}}']
    )
    def test_what_is_no_tokenizer_file(self, tmp_path, text):
        pytest.importorskip("tokenizers")
        path = tmp_path / "odd.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"odd\.json is no tokenizer file of Hugging Face's library"):
            kind_of(str(path))

    def test_a_file_that_is_not_there(self):
        with pytest.raises(TextError, match=r"cannot read nowhere\.json"):
            kind_of("nowhere.json")


def vocab_named(tokenizer):
    from lmzoo.vocab import vocab_of

    tokens = tokens_of(Segments.of(["the cat"]), tokenizer)
    return vocab_of(
        tokens, normalizer="none", tokenizer=tokenizer, has_eos=False, n_starts=None, own_unk=False, min_freq=1
    )
