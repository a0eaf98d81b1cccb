"""Text in tokens of every kind: what a corpus counts, what bits per byte come to, what files keep."""

from __future__ import annotations

import importlib.util
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import lmzoo
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.errors import InputError
from lmzoo.evaluation import evaluate
from lmzoo.ngram.arpa import read_arpa, write_arpa
from lmzoo.storage import load, save
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS
from lmzoo.vocab import Vocab
from tests.lmzoo.tokenizing import KINDS, LIBRARIES, LOSSLESS, WORD_LEVEL, odd_texts, of_file
from tests.lmzoo.toy import UniformModel

TEXT = "the cat sat\nthe dog ran off\n<s> caf\u00e9 \u4e2d\u56fd </s>\nthe <unk> cat \u4e2d\u56fd\u4eba\n"

pytestmark = [pytest.mark.plain, pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")]


def corpus_of(kind: str, train: str = TEXT, test: str = "the cat ran\n\u4e2d\u56fd caf\u00e9\n", **how: str) -> Corpus:
    library = LIBRARIES.get(kind)
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return corpus_from_texts({"train": train, "valid": "a cat", "test": test}, tokens=kind, **how)


class TestBitsPerByte:
    def test_uniform_over_bytes(self) -> None:
        corpus = corpus_of("byte")
        # 256 bytes and <unk>
        assert corpus.vocab.n_predictable == 257
        tally = evaluate(UniformModel(corpus.vocab), corpus.test)
        assert tally.bits_per_byte == pytest.approx(math.log2(257), rel=1e-12)
        # "the cat ran", 2 characters of 3 bytes, "caf", one of 2, and 3 spaces and line ends
        assert (tally.n_bytes, tally.n_chars, tally.n_tokens) == (25, 20, 25)
        assert tally.bits_per_char == pytest.approx(math.log2(257) * 25 / 20, rel=1e-12)

    def test_three_kinds_by_hand(self) -> None:
        def bits_per_byte(kind: str) -> float | None:
            corpus = corpus_of(kind, train="ab ab", test="ab", documents="line")
            return evaluate(UniformModel(corpus.vocab), corpus.test).bits_per_byte

        # "ab" and its line end are 3 bytes: <unk> </s> ab; <unk> </s> a b space; <unk> </s> and 256 bytes
        assert bits_per_byte("word") == pytest.approx(2 * math.log2(3) / 3)
        assert bits_per_byte("char") == pytest.approx(3 * math.log2(5) / 3)
        assert bits_per_byte("byte") == pytest.approx(3 * math.log2(258) / 3)

    def test_an_unknown_piece_is_charged_its_spelling(self, tmp_path: Path) -> None:
        of_file(WORD_LEVEL, tmp_path)
        kind = str(tmp_path / "tokenizer.json")
        corpus = corpus_of(kind, train="a b a", test="a ba", documents="line")
        tally = evaluate(UniformModel(corpus.vocab), corpus.test)
        # <unk> </s> a b and the file's own <s>: five; a, the unknown word, </s> are three tokens of five bytes.
        # Spelling: a 3, b 2, end of word 4, escape 1: ten cells; "ba" takes b, a and the end
        spelling = -math.log2(2 / 10 * 3 / 10 * 4 / 10)
        assert tally.n_oov == 1
        assert tally.bits_per_byte == pytest.approx((3 * math.log2(5) + spelling) / 5)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("documents", ["file", "line", "running"])
    def test_documents_add_up(self, kind: str, documents: str) -> None:
        corpus = corpus_of(kind, documents=documents)
        test = corpus.test
        assert sum(d.n_bytes for d in test) == len("the cat ran\n\u4e2d\u56fd caf\u00e9\n".encode())
        assert sum(len(d.ids_L) for d in test) == test.n_tokens
        # words keep the line ends only where they end documents
        assert test.lossless == (kind in LOSSLESS or documents != "file")

    @pytest.mark.whole
    @pytest.mark.parametrize("kind", LOSSLESS)
    @given(text=odd_texts)
    def test_what_loses_nothing_has_bits_per_byte_of_any_text(self, kind: str, text: str) -> None:
        corpus = corpus_of(kind)
        split = corpus_from_texts({"train": TEXT, "test": f"a{text}"}, tokens="char").test.encoded_with(corpus.vocab)
        tally = evaluate(UniformModel(corpus.vocab), split)
        spelling = float(split.spelling_nats_M.sum())
        nats = split.n_tokens * math.log(corpus.vocab.n_predictable) + spelling
        read = f"a{text}".replace("\r\n", "\n").replace("\r", "\n")
        assert tally.bits_per_byte == pytest.approx(nats / math.log(2) / len(read.encode()))


class TestVocabularies:
    def test_a_closed_set_is_whole_whatever_is_rare(self) -> None:
        vocab = corpus_of("byte", train="aab", min_freq=2).vocab
        assert vocab.tokens[:4] == ("<unk>", "<s>", "a", "b")
        # then what does not occur, by its name
        assert vocab.tokens[4:] == tuple(sorted(set(BYTE_SYMBOLS) - {"a", "b"}))
        assert (vocab.counts_V[0], vocab.min_freq) == (0, 1)

    def test_nothing_is_out_of_vocabulary_in_bytes(self) -> None:
        for kind in ("byte", "bpe:280", "unigram-lm:280"):
            assert corpus_of(kind, test="\U0001f600 \u0301 zebra").test.n_oov == 0

    def test_subwords_are_learned_from_the_training_part_alone(self) -> None:
        one, other = (corpus_of("bpe:400", test=text).vocab for text in ("zebra", "zebras zebras zebras"))
        assert one == other

    def test_fingerprints_tell_tokenizers_apart(self) -> None:
        kinds = [k for k in KINDS if k not in LIBRARIES or importlib.util.find_spec(LIBRARIES[k]) is not None]
        assert len({corpus_of(kind, documents="line").vocab.fingerprint for kind in kinds}) == len(kinds)
        one, other = (corpus_of("bpe:280", train=text).vocab for text in (TEXT, TEXT * 2 + "zz zz zz"))
        assert one.fingerprint != other.fingerprint

    @pytest.mark.parametrize("kind", ["bpe:400", "jieba", "grapheme", "nltk:wordpunct"])
    def test_a_literal_marker_is_no_symbol(self, kind: str) -> None:
        corpus = corpus_of(kind, train="<s> <unk> </s>\n" * 50, test="<s>")
        vocab = corpus.vocab
        assert not {vocab.unk_id, vocab.bos_id, vocab.eos_id} & set(vocab.encode("<s> <unk> </s>").tolist())
        # none of these leaves a marker whole
        assert corpus.n_markers == 0

    def test_a_literal_marker_may_be_a_piece_of_a_file(self, tmp_path: Path) -> None:
        of_file(WORD_LEVEL, tmp_path)
        corpus = corpus_of(str(tmp_path / "tokenizer.json"), train="a <s> <s>", test="<s> <unk>")
        # three of "<s>", which is a piece, and one of "<unk>", which is not
        assert corpus.n_markers == 4
        assert corpus.vocab.decode(corpus.test.ids_N.tolist()) == "<s> <unk>"
        assert corpus.test.n_oov == 1
        assert corpus.vocab.bos_id not in corpus.test.ids_N

    def test_words_of_corpora_that_mark_their_unknown_ones(self) -> None:
        texts = {"train": "<unk> a <unk>", "valid": "a", "test": "<unk> b"}
        word = corpus_from_texts(texts, tokens="word", own_unk=True)
        assert (word.test.ids_N.tolist(), word.test.n_oov, word.n_markers) == ([0, 0, 2], 1, 0)
        # in bytes they are spelled out
        in_bytes = corpus_from_texts(texts, tokens="byte", own_unk=True)
        assert in_bytes.vocab.unk_id not in in_bytes.test.ids_N

    def test_one_character_a_token_where_that_is_said(self) -> None:
        with pytest.raises(
            InputError, match="'ab' is no single character, so the tokenizer is not 'byte'; take 'word'"
        ):
            Vocab(tokens=("<unk>", "<s>", "ab"), counts_V=np.zeros(3, np.int64), tokenizer="byte")


class TestModelFiles:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_saved_model_needs_no_other_file(self, kind: str, tmp_path: Path) -> None:
        corpus = corpus_of(kind)
        model = lmzoo.train("bigram", corpus)
        save(model, tmp_path / "m.lm")
        back = load(tmp_path / "m.lm")
        assert back.vocab == model.vocab
        assert back.vocab.fingerprint == model.vocab.fingerprint
        text = "the cat \u4e2d\u56fd <s> zebra"
        assert back.vocab.encode(text).tolist() == model.vocab.encode(text).tolist()
        assert evaluate(back, corpus.test) == evaluate(model, corpus.test)

    def test_one_of_a_tokenizer_file_does_without_it(self, tmp_path: Path) -> None:
        of_file(WORD_LEVEL, tmp_path)
        path = tmp_path / "tokenizer.json"
        model = lmzoo.train("bigram", corpus_of(str(path), train="a b a", test="a ba"))
        save(model, tmp_path / "m.lm")
        path.unlink()
        back = load(tmp_path / "m.lm")
        assert back.vocab.tokenizer == "tokenizer.json"
        assert back.vocab.encode("b a").tolist() == model.vocab.encode("b a").tolist()

    @pytest.mark.parametrize("kind", KINDS)
    def test_arpa(self, kind: str, tmp_path: Path) -> None:
        corpus = corpus_of(kind)
        model = lmzoo.train("bigram", corpus)
        write_arpa(model, tmp_path / "m.arpa")
        state, named = model.vocab.tokenizer_state, kind
        if state is not None:
            named = str(tmp_path / "tokenizer.json")
            Path(named).write_text(state, encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            back = read_arpa(tmp_path / "m.arpa", tokenizer=named)
        assert back.vocab.tokens == model.vocab.tokens
        assert back.vocab.fingerprint == model.vocab.fingerprint
        assert evaluate(back, corpus.test).nll_nats == pytest.approx(evaluate(model, corpus.test).nll_nats, rel=1e-5)
