"""Corpora: the split, the context policy, and the accounting of tokens, characters and bytes."""

from __future__ import annotations

import io
import math
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import corpus_from_texts, encode_split, load_corpus
from lmzoo.errors import CorpusError, InputError, TextError, TokenError, TooShortError, UnknownCorpusError
from lmzoo.normalizers import NORMALIZERS
from lmzoo.parts import POLICIES, cut_segments
from lmzoo.vocab import build_vocab

from .toy import corpus_of, split_of

PARTS = ("train", "valid", "test")

lines = st.lists(st.text("ab .\u00e9\u0130\u4e2d\t", max_size=30), min_size=10, max_size=60)
policies = st.sampled_from(POLICIES)
normalizers = st.sampled_from(sorted(NORMALIZERS))
tokenizers = st.sampled_from(["char", "word"])


def parts_of(text, **options):
    """The corpus of a whole text, or an assumption that it is long enough."""
    try:
        return corpus_from_texts({"whole": text}, **options)
    except TooShortError:
        assume(False)


def raw_parts(corpus):
    return [list(getattr(corpus, part).segments) for part in PARTS]


class TestSplit:
    @given(lines, normalizers)
    def test_the_parts_of_one_document_add_up_to_it(self, lines, normalize):
        text = "\n".join(lines)
        corpus = parts_of(text, normalize=normalize)
        assert "".join(s for part in raw_parts(corpus) for s in part) == text
        whole = NORMALIZERS[normalize].apply(text)
        assert sum(getattr(corpus, part).n_tokens for part in PARTS) == len(whole)

    @given(lines, normalizers, tokenizers, st.sampled_from(["line", "paragraph", "running"]))
    def test_the_parts_of_many_documents_add_up_to_them(self, lines, normalize, tokens, documents):
        text = "\n".join(lines) + "\n"
        normalizer = NORMALIZERS[normalize]
        segments, n_blank = cut_segments(text, documents, normalizer)
        assume(len(segments) > 1)
        corpus = parts_of(text, normalize=normalize, tokens=tokens, documents=documents)
        assert [s for part in raw_parts(corpus) for s in part] == list(segments)
        assert corpus.n_blank == n_blank == sum(not normalizer.apply(line).strip(" \t") for line in lines)

    @given(lines, normalizers, policies)
    def test_every_tokenizer_is_given_the_same_parts(self, lines, normalize, documents):
        text = "\n".join(lines)
        chars = parts_of(text, normalize=normalize, documents=documents)
        words = parts_of(text, normalize=normalize, documents=documents, tokens="word")
        assert raw_parts(chars) == raw_parts(words)
        assert chars.sha256 == words.sha256

    def test_a_single_document_is_cut_at_the_first_white_space_at_or_after_the_marks(self):
        # 100 characters: marks 80 and 90; white space at 83 and exactly at 90
        text = "x" * 83 + " " + "y" * 6 + " " + "z" * 9
        train, valid, test = raw_parts(corpus_from_texts({"whole": text}))
        assert (train, valid, test) == (["x" * 83], [" " + "y" * 6], [" " + "z" * 9])

    def test_without_white_space_near_it_is_cut_exactly_at_the_marks(self):
        parts = raw_parts(corpus_from_texts({"whole": "x" * 1000 + " "}))
        # 1001 characters: 80 % is 800.8, 90 % is 900.9; the space at 1000 lies 100 beyond 900 and 99 beyond 901
        assert [len("".join(p)) for p in parts] == [801, 199, 1]
        parts = raw_parts(corpus_from_texts({"whole": "x" * 2000}))
        assert [len("".join(p)) for p in parts] == [1600, 200, 200]

    def test_the_marks_are_of_normalised_characters(self):
        # ten letters behind ninety digits: under letters that is a space and ten letters, 11 characters, marks 9 and 10
        corpus = corpus_from_texts({"whole": "1" * 90 + "abcdefghij"}, normalize="letters")
        assert raw_parts(corpus) == [["1" * 90 + "abcdefgh"], ["i"], ["j"]]

    def test_a_run_of_separators_is_never_cut_in_two(self):
        # 320 + 1 + 80 characters under letters, mark at 321, just behind the one space; no other white space follows
        text = "x" * 320 + " -- " + "y" * 80
        parts = raw_parts(corpus_from_texts({"whole": text}, normalize="letters"))
        assert parts[0] == ["x" * 320 + " -- "]

    def test_lines_are_cut_at_the_first_boundary_at_or_after_the_marks(self):
        # ten lines of 9 characters and a line end: 100, marks at 80 and 90, boundaries exactly there
        text = "".join(f"line  {i:03}\n" for i in range(10))
        assert [len(p) for p in raw_parts(corpus_from_texts({"whole": text}, documents="line"))] == [8, 1, 1]
        # one more character in the first line: 101, marks at 81 (80.8) and 91 (90.9), boundaries at 81 and 91
        parts = raw_parts(corpus_from_texts({"whole": "+" + text}, documents="line"))
        assert [len(p) for p in parts] == [8, 1, 1]
        # and one in the last: 101, boundaries at 80 and 90 lie just before the marks
        parts = raw_parts(corpus_from_texts({"whole": text[:-1] + "+\n" + "x\n"}, documents="line"))
        assert [len(p) for p in parts] == [9, 1, 1]

    def test_no_more_than_two_million_characters_are_held_out(self):
        text = ("x" * 99_999 + "\n") * 300  # 30 M characters: 80 % is 24 M, all but the last 2 M is 28 M
        corpus = corpus_from_texts({"whole": text}, documents="line", tokens="word")
        assert [len(p) for p in raw_parts(corpus)] == [280, 10, 10]

    def test_given_parts_are_never_cut(self):
        corpus = corpus_from_texts({"train": "a b\n" * 3, "valid": "b\n", "test": "a\na\n"}, documents="line")
        assert raw_parts(corpus) == [["a b"] * 3, ["b"], ["a", "a"]]

    def test_without_a_validation_text_the_last_tenth_of_the_training_text_serves(self):
        corpus = corpus_from_texts({"train": "abc\n" * 20, "test": "a\n"}, documents="line")
        assert [len(p) for p in raw_parts(corpus)] == [18, 2, 1]

    @pytest.mark.parametrize("text", ["", "a", "ab", "abcdefghi"])
    @pytest.mark.parametrize("documents", POLICIES)
    def test_too_short_a_text_says_what_is_needed(self, text, documents):
        with pytest.raises(TooShortError, match="part of text has 0 tokens, at least 1 is needed"):
            corpus_from_texts({"whole": text}, documents=documents)

    def test_ten_characters_are_enough(self):
        assert raw_parts(corpus_from_texts({"whole": "abcdefghij"})) == [["abcdefgh"], ["i"], ["j"]]


class TestPolicies:
    TEXT = "One two\n\n  \nthree\nfour\n"

    @pytest.mark.parametrize(
        ("documents", "segments", "n_blank"),
        [
            ("file", ["One two\n\n  \nthree\nfour\n"], 0),
            ("line", ["One two", "three", "four"], 2),
            ("running", ["One two", "three", "four"], 2),
            ("paragraph", ["One two", "three\nfour"], 2),
        ],
    )
    def test_how_a_text_is_cut(self, documents, segments, n_blank):
        found, n_found = cut_segments(self.TEXT, documents, NORMALIZERS["none"])
        assert (list(found), n_found) == (segments, n_blank)

    def test_a_line_without_letters_is_blank_under_letters(self):
        segments, n_blank = cut_segments("a\n1898\nb\n", "line", NORMALIZERS["letters"])
        assert (list(segments), n_blank) == (["a", "b"], 1)

    def test_a_no_break_space_is_no_blank(self):
        segments, n_blank = cut_segments("a\n\u00a0\nb", "line", NORMALIZERS["none"])
        assert (list(segments), n_blank) == (["a", "\u00a0", "b"], 0)

    @pytest.mark.parametrize(("tokens", "documents"), [("char", "file"), ("word", "line")])
    def test_the_default_follows_the_tokens(self, tokens, documents):
        assert corpus_of("a b\n", "a\n", tokens=tokens).documents == documents

    def test_the_end_is_predicted_once_after_each_line_and_the_start_never(self):
        # 3 lines, 10 words: 13 tokens (the start is context, not a token)
        text = "the boat left today\nthe boat sank\na boat left\n"
        split = split_of(text, documents="line", tokens="word")
        assert split.n_tokens == 13
        assert len(split) == 3
        assert split.lengths_D.tolist() == [5, 4, 4]
        assert (split.ids_N[split.starts_D1[1:] - 1] == split.vocab.eos_id).all()
        assert split.vocab.bos_id not in split.ids_N

    def test_running_is_the_same_tokens_as_one_document(self):
        text = "a b\nb\na a\n"
        running, by_line = (split_of(text, documents=d, tokens="word") for d in ("running", "line"))
        assert running.ids_N.tolist() == by_line.ids_N.tolist()
        assert len(running) == 1
        assert running[0].text == text
        assert (running[0].n_chars, running[0].n_bytes) == (len(text), len(text))

    @pytest.mark.parametrize(
        ("documents", "n_starts", "n_ends"), [("line", 3, 3), ("running", 1, 3), ("file", 1, None)]
    )
    def test_starts_and_ends_are_counted(self, documents, n_starts, n_ends):
        vocab = corpus_of("a b\nb\na\n", "a\n", tokens="word", documents=documents).vocab
        assert vocab.counts_V[vocab.bos_id] == n_starts
        assert (vocab.counts_V[vocab.eos_id] if vocab.eos_id is not None else None) == n_ends

    def test_under_file_nothing_ends(self):
        corpus = corpus_of("a b\nb a\n", "a\n", documents="file")
        assert corpus.vocab.eos_id is None
        assert corpus.train.n_tokens == 8
        assert "\n" in corpus.vocab.tokens

    def test_under_file_a_line_end_is_no_word_and_a_space_under_letters(self):
        words = corpus_of("a b\nb a\n", "a\n", documents="file", tokens="word")
        assert words.train.n_tokens == 4
        letters = corpus_of("a b\nb a\n", "a\n", normalize="letters")
        assert letters.vocab.decode(letters.train.ids_N) == "a b b a "

    def test_policies_are_named(self):
        with pytest.raises(InputError, match=r"no context policy 'lines'.*Did you mean 'line'"):
            corpus_of("a", "a", documents="lines")


class TestAccounting:
    @given(lines, policies, tokenizers, normalizers)
    def test_characters_are_the_normalised_ones_and_bytes_those_as_read(self, lines, documents, tokens, normalize):
        normalizer = NORMALIZERS[normalize]
        segments, _ = cut_segments("\n".join(lines), documents, normalizer)
        assume(segments)
        vocab = build_vocab(map(normalizer.apply, segments), tokenizer=tokens, normalizer=normalize, has_eos=True)
        split = encode_split("test", segments, vocab, documents)
        ends = len(segments) if documents != "file" else 0
        assert split.chars_D.sum() == sum(len(normalizer.apply(s)) for s in segments) + ends
        assert split.bytes_D.sum() == sum(len(s.encode()) for s in segments) + ends
        assert split.starts_D1[-1] == split.n_tokens
        assert split.n_oov == 0

    @given(lines, st.sampled_from(["line", "paragraph", "running"]), tokenizers)
    def test_encoding_lines_together_is_encoding_them_one_by_one(self, lines, documents, tokens):
        vocab = build_vocab(["ab b"], tokenizer=tokens, has_eos=True)
        split = encode_split("test", lines, vocab, documents)
        alone = [[*vocab.encode(line).tolist(), vocab.eos_id] for line in lines]
        assert split.ids_N.tolist() == [i for ids in alone for i in ids]
        pieces = [line.split(" ") if tokens == "word" else list(line) for line in lines]
        if tokens == "word":
            pieces = [[w for word in piece for w in word.split("\t") if w] for piece in pieces]
        flat = [token for piece in pieces for token in [*piece, None]]
        unknown = [i for i, token in enumerate(flat) if token is not None and token not in vocab.tokens]
        assert split.oov_M.tolist() == unknown
        assert split.spelling_nats_M.tolist() == [vocab.spelling.nats(flat[i]) for i in unknown]

    def test_more_lines_than_are_encoded_at_a_time(self):
        n = 2500
        split = encode_split("test", ["a z"] * n, build_vocab(["a"], tokenizer="word", has_eos=True), "line")
        assert split.ids_N.tolist() == [3, 0, 2] * n
        assert split.oov_M.tolist() == list(range(1, 3 * n, 3))
        assert split.starts_D1.tolist() == list(range(0, 3 * n + 1, 3))

    def test_a_document_by_hand(self):
        split = split_of("é a\nb\n", documents="line", tokens="char")
        first, second = split
        assert (first.text, first.n_chars, first.n_bytes, len(first.ids_L)) == ("é a", 4, 5, 4)
        assert (second.text, second.n_chars, second.n_bytes, len(second.ids_L)) == ("b", 2, 2, 2)
        assert split[-1].text == "b"
        with pytest.raises(IndexError, match="document 2 of 2"):
            split[2]

    @pytest.mark.parametrize(("text", "lossless"), [("a b\nb\n", True), (" a b \n", True), ("a  b\n", False)])
    def test_words_are_lossless_but_for_white_space_at_the_ends(self, text, lossless):
        assert split_of(text, documents="line", tokens="word").lossless is lossless

    def test_another_vocabulary_encodes_the_same_text(self):
        words = split_of("ab a\nb\n", documents="line", tokens="word")
        vocab = build_vocab(["ab "], has_eos=True)
        chars = words.encoded_with(vocab)
        assert vocab.decode(chars.ids_N) == "ab a\nb\n"
        assert chars.bytes_D.tolist() == words.bytes_D.tolist()


class TestHead:
    @given(st.lists(st.integers(1, 5), min_size=1), st.integers(1, 30))
    def test_whole_documents_as_many_as_fit(self, lengths, n_tokens):
        split = split_of("".join("a" * (n - 1) + "b\n" for n in lengths), documents="line")
        head = split.head(n_tokens)
        sizes = [n + 1 for n in lengths]
        if sizes[0] > n_tokens:
            assert head.n_tokens == n_tokens
            assert len(head) == 1
            assert not head.lossless
        else:
            fitting = max(i for i in range(len(sizes) + 1) if sum(sizes[:i]) <= n_tokens)
            assert head.lengths_D.tolist() == sizes[:fitting]
            assert head.lossless
            assert len(head.segments) == fitting
        assert head.ids_N.tolist() == split.ids_N[: head.n_tokens].tolist()

    def test_unknown_tokens_go_with_it(self):
        # a z </s>  z </s>  z </s>: unknown at 1, 3 and 5
        split = encode_split("test", ["az", "z", "z"], build_vocab(["a"], has_eos=True), "line")
        assert split.oov_M.tolist() == [1, 3, 5]
        head = split.head(5)
        assert head.n_tokens == 5
        assert head.oov_M.tolist() == [1, 3]
        assert len(head.spelling_nats_M) == 2

    def test_one_long_document_is_cut(self):
        split = split_of("a\n" * 50, documents="running")
        head = split.head(7)
        assert (head.n_tokens, len(head), head.lossless) == (7, 1, False)


class TestVocabularyIsOfTheTrainingText:
    def test_a_word_of_the_test_text_is_unknown_however_often(self):
        plain = corpus_of("a b\n" * 5, "a\n", tokens="word")
        leaky = corpus_of("a b\n" * 5, "zebra\n" * 50, tokens="word")
        assert leaky.test.n_oov == 50
        assert leaky.vocab.fingerprint == plain.vocab.fingerprint
        assert leaky.vocab.counts_V.tolist() == plain.vocab.counts_V.tolist()
        assert leaky.vocab.spelling == plain.vocab.spelling

    def test_the_cut_off_counts_the_training_text_alone(self):
        corpus = corpus_of("a a b\n", "b b b\n", tokens="word", min_freq=2)
        assert "b" not in corpus.vocab.tokens
        assert corpus.test.n_oov == 3


class TestMarkers:
    TEXT = "<s> struck </s>\nan <unk> tag \\<unk>\n"

    def test_words_keep_literal_markers_as_tokens_and_count_them(self):
        corpus = corpus_of(self.TEXT, "<unk> zebra\n", tokens="word")
        assert {"\\<s>", "\\</s>", "\\<unk>", "\\\\<unk>"} <= set(corpus.vocab.tokens)
        assert corpus.n_markers == 4 + 2 * 1
        assert corpus.vocab.counts_V[corpus.vocab.unk_id] == 0
        assert corpus.test.n_oov == 1  # zebra; the literal <unk> was seen in training
        assert corpus.vocab.decode(corpus.train.ids_N) == self.TEXT

    def test_characters_spell_them_out(self):
        corpus = corpus_of(self.TEXT, "<unk>", documents="file")
        assert corpus.n_markers == 0
        assert corpus.test.n_tokens == 5

    def test_where_unk_is_on_purpose_it_is_the_symbol_and_no_oov(self):
        corpus = corpus_of("the <unk> sat <s>\n", "<unk> zebra\n", tokens="word", own_unk=True)
        assert corpus.vocab.counts_V[corpus.vocab.unk_id] == 1
        assert corpus.test.ids_N.tolist() == [0, 0, 2]
        assert corpus.test.oov_M.tolist() == [1]
        assert corpus.n_markers == 1  # the <s>

    def test_a_marker_inside_a_word_is_none(self):
        assert corpus_of("x<s> </s>. <unk\n", "x<s>\n", tokens="word").n_markers == 0


class TestOverlap:
    def test_the_training_text_itself_overlaps_wholly(self):
        text = "one\ntwo\n\nthree\n"
        for documents in POLICIES:
            assert corpus_of(text, text, documents=documents).test_overlap == 1.0

    def test_half(self):
        assert corpus_of("one\ntwo\n", "two\nfour\n\n", documents="line").test_overlap == 0.5

    def test_none(self):
        assert corpus_of("one\n", "onetwo\n").test_overlap == 0.0


class TestLoading:
    def test_a_path(self, tmp_path):
        path = tmp_path / "book.txt"
        path.write_text("a bc " * 10)
        corpus = load_corpus(path)
        assert (corpus.name, corpus.tokenizer, corpus.normalize, corpus.documents) == (
            "book.txt",
            "char",
            "none",
            "file",
        )
        assert load_corpus(str(path), tokens="word").documents == "line"

    def test_given_files(self, tmp_path):
        paths = {}
        for part in PARTS:
            paths[part] = tmp_path / f"{part}.txt"
            paths[part].write_text(f"{part} text\n")
        corpus = load_corpus(**paths, tokens="word")
        assert raw_parts(corpus) == [["train text"], ["valid text"], ["test text"]]
        assert corpus.name == "train.txt"

    def test_line_ends_and_byte_order_mark_make_no_difference(self, tmp_path):
        unix, windows = tmp_path / "unix.txt", tmp_path / "windows.txt"
        unix.write_bytes(b"a b\nc d\n" * 10)
        windows.write_bytes(b"\xef\xbb\xbf" + b"a b\r\nc d\r\n" * 10)
        assert load_corpus(unix).sha256 == load_corpus(windows).sha256

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "one corpus"),
            ({"name": "genesis", "train": "x"}, "one corpus"),
            ({"train": "x"}, "both needed, got train= alone"),
            ({"valid": "x", "test": "y"}, "both needed, got valid= and test= alone"),
        ],
    )
    def test_one_way_of_naming_a_text(self, arguments, message):
        with pytest.raises(CorpusError, match=message):
            load_corpus(**arguments)

    @pytest.mark.parametrize("name", ["", "no-such-file", "x" * 5000, "a\0b"])
    def test_a_name_that_is_nothing(self, name):
        with pytest.raises(UnknownCorpusError, match="no corpus and no file"):
            load_corpus(name)

    def test_a_folder_without_a_file_is_no_text(self, tmp_path):
        with pytest.raises(TextError, match="no file in the folder"):
            load_corpus(tmp_path)

    def test_replacements_are_counted_and_asked_for(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"caf\xe9 noir\n" * 20)
        (tmp_path / "b.txt").write_bytes(b"caf\xe9\n")
        files = {"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"}
        with pytest.raises(TextError, match=r"a\.txt is not UTF-8: byte 0xe9 at offset 3"):
            load_corpus(**files)
        corpus = load_corpus(**files, invalid="replace", tokens="word")
        assert (corpus.n_replaced, corpus.test[0].text) == (21, "caf\ufffd")
        corpus = load_corpus(**files, encoding="latin-1", tokens="word")
        assert (corpus.n_replaced, corpus.test[0].text, corpus.test[0].n_bytes) == (0, "café", 6)

    def test_a_named_corpus_is_read_as_it_is(self):
        with pytest.raises(CorpusError, match=r"texts of one's own; genesis is read as it is"):
            load_corpus("genesis", encoding="latin-1")

    def test_standard_input_is_one_of_the_texts(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n")))
        (tmp_path / "b.txt").write_text("two one\n")
        files = {"train": tmp_path / "b.txt", "valid": "-", "test": tmp_path / "b.txt"}
        corpus = load_corpus(**files, tokens="word")
        assert corpus.valid[0].text == "one two"
        with pytest.raises(InputError, match="named twice"):
            load_corpus(**files | {"test": "-"})


class TestSeveralFiles:
    """Under `file` each is a document; under the other policies nothing reaches from one into the next."""

    # what each ends or does not end with is all the same
    FILES = ("a b\n\nc", "d\n", "", "\ne\nf\n")

    @pytest.mark.parametrize(
        ("documents", "segments", "n_blank"),
        [
            ("file", ["a b\n\nc", "d\n", "\ne\nf\n"], 0),
            ("line", ["a b", "c", "d", "e", "f"], 2),
            ("running", ["a b", "c", "d", "e", "f"], 2),
            ("paragraph", ["a b", "c", "d", "e\nf"], 2),
        ],
    )
    @pytest.mark.parametrize("part", PARTS)
    def test_how_they_are_cut(self, tmp_path, documents, segments, n_blank, part):
        for number, text in enumerate(self.FILES):
            (tmp_path / f"{number}.txt").write_text(text)
        (other := tmp_path / "other").write_text("x\n")
        files = dict.fromkeys(PARTS, other) | {part: str(tmp_path / "*.txt")}
        corpus = load_corpus(**files, documents=documents)
        assert list(getattr(corpus, part).segments) == segments
        assert corpus.n_blank == n_blank
        assert len(getattr(corpus, part)) == (1 if documents == "running" else len(segments))

    def parts(self, *sizes):
        """Of files of letters of their own, each ending in its size; the parts of the whole."""
        texts = [f"{letter * (size - 4)} {size:03}" for letter, size in zip("abcdefghijklm", sizes, strict=False)]
        corpus = corpus_from_texts({"whole": lambda: texts})
        assert "".join(s for part in raw_parts(corpus) for s in part) == "".join(texts)
        return [[f"{s[0]}{len(s)}" for s in part] for part in raw_parts(corpus)]

    def test_they_are_cut_between_two_of_them(self):
        # 1,000 characters: marks at 800 and 900, ends of files at 790, 890 and 950
        assert self.parts(790, 100, 60, 50) == [["a790", "b100"], ["c60"], ["d50"]]
        # ends exactly at the marks
        assert self.parts(800, 100, 100) == [["a800"], ["b100"], ["c100"]]

    def test_files_too_few_for_the_parts_are_cut_inside(self):
        # 900 characters: marks at 720 and 810, both in the last file; the white space at 896 is near the second
        assert self.parts(300, 300, 300) == [["a300", "b300", "c120"], ["c176"], [" 4"]]

    def test_a_single_file_is_cut_as_a_single_text(self):
        assert self.parts(900) == [["a720"], ["a176"], [" 4"]]

    def test_one_text_is_known_by_its_documents_too(self):
        cut = [["a\nb", "c"], ["a", "b\nc"], ["a\nb\nc"], ["a", "b", "c"]]
        digests = {
            corpus_from_texts({"train": lambda texts=texts: texts, "valid": "x", "test": "x"}).sha256 for texts in cut
        }
        assert len(digests) == len(cut)
        # of paragraphs likewise, whose blank lines are not kept
        digests = {corpus_of(text, "x", documents="paragraph").sha256 for text in ("a\nb\n\nc", "a\n\nb\nc")}
        assert len(digests) == 2

    def test_texts_have_known_parts(self):
        with pytest.raises(CorpusError, match="got train"):
            corpus_from_texts({"train": "a"})

    def test_a_text_may_be_given_by_what_reads_it(self):
        texts = {"train": "a b\r\nb\n", "valid": "b", "test": "a\n"}
        read, given = (
            corpus_from_texts(t, tokens="word") for t in ({p: partial(str, t) for p, t in texts.items()}, texts)
        )
        assert raw_parts(read) == raw_parts(given)
        assert read.sha256 == given.sha256
        with pytest.raises(TooShortError, match=r"letters leaves 0 of 10 characters"):
            corpus_from_texts({"whole": lambda: "0123456789"}, normalize="letters", documents="line")
        with pytest.raises(TextError, match=r"the test text has U\+DC80"):
            corpus_from_texts({"train": "a", "test": lambda: "\udc80"})

    def test_half_a_surrogate_pair_is_no_text(self):
        with pytest.raises(TextError, match=r"U\+DC80"):
            corpus_from_texts({"whole": "ab\udc80"})

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ({"tokens": "words"}, "no tokenizer 'words'.*Did you mean 'word'"),
            ({"normalize": "lowr"}, "no normaliser 'lowr'.*Did you mean 'lower'"),
        ],
    )
    def test_options_are_named(self, option, message):
        with pytest.raises(InputError, match=message):
            corpus_of("a", "a", **option)


class TestPublished:
    def test_the_time_machine(self, data_folder):
        corpus = load_corpus("timemachine", tokens="char")
        assert sum(getattr(corpus, part).n_tokens for part in PARTS) == 173_428
        assert corpus.vocab.n_predictable == 28
        assert corpus.vocab.eos_id is None
        assert len(corpus.vocab) == 29
        assert corpus.valid.n_oov == corpus.test.n_oov == 0

    @pytest.mark.parametrize("documents", ["line", "running"])
    @pytest.mark.parametrize("compiled", ["0", "1"])
    def test_penn_treebank(self, data_folder, documents, compiled, monkeypatch):
        monkeypatch.setenv("LMZOO_COMPILED", compiled)
        corpus = load_corpus("ptb", documents=documents)
        assert (corpus.train.n_tokens, corpus.valid.n_tokens, corpus.test.n_tokens) == (929_589, 73_760, 82_430)
        # 10,000 words, its own <unk> one of them, and </s>
        assert corpus.vocab.n_predictable == 10_000
        assert corpus.test.n_oov == 0
        assert corpus.n_markers == 0
        assert corpus.test.lossless

    def test_chinese(self, data_folder):
        corpus = load_corpus(data_folder / "hongloumeng.txt")
        assert sum(getattr(corpus, part).n_tokens for part in PARTS) == 876_596

    def test_genesis(self):
        corpus = load_corpus("genesis")
        assert (corpus.tokenizer, corpus.normalize, corpus.documents) == ("char", "letters", "file")
        assert corpus.vocab.n_predictable == 28
        shares = [getattr(corpus, part).n_tokens / 190_000 for part in PARTS]
        assert np.allclose(shares, [0.8, 0.1, 0.1], atol=0.01)
        assert math.isclose(corpus.train.n_tokens + corpus.valid.n_tokens + corpus.test.n_tokens, 190_000, rel_tol=0.01)


def test_line_ends_of_a_string_are_those_of_a_file():
    texts = (f"a b{end}c d{end}" * 50 for end in ("\n", "\r\n", "\r"))
    corpora = [corpus_from_texts({"whole": text}, tokens="word") for text in texts]
    assert len({corpus.sha256 for corpus in corpora}) == 1
    assert corpora[0].vocab.tokens[3:] == ("a", "b", "c", "d")


class TestSplitFromIds:
    CORPUS = corpus_from_texts({"whole": "the cat sat\nthe dog ran\n" * 20}, tokens="word")

    def test_it_scores_as_the_text_does(self):
        model = lmzoo.train("ngram:order=2,smoothing=wb", self.CORPUS)
        test = self.CORPUS.test
        split = lmzoo.split_from_ids((document.ids_L for document in test), self.CORPUS.vocab)
        of_ids, of_text = lmzoo.evaluate(model, split), lmzoo.evaluate(model, test)
        assert (of_ids.nll_nats, of_ids.n_tokens) == (of_text.nll_nats, of_text.n_tokens)
        assert of_ids.bits_per_char is None

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            ([3, 4], "document 1 is a 1-D array of ids, got list"),
            (np.zeros((1, 2), np.int64), r"got shape \(1, 2\)"),
            (np.array([99]), "token 99 is outside"),
            (np.array([3, 1]), "document 1 has id 1, <s>"),
            (np.array([0.5]), "float64"),
        ],
    )
    def test_what_is_no_document_of_ids(self, document, message):
        with pytest.raises(TokenError, match=message):
            lmzoo.split_from_ids([document], self.CORPUS.vocab)


@pytest.mark.parametrize("given", [{"name": []}, {"name": ()}, {"train": [], "test": ["a.txt"]}])
def test_no_texts_are_no_corpus(given):
    with pytest.raises(CorpusError, match=r"no texts|are both needed"):
        load_corpus(**given)
