"""Commands in pipes: what comes in goes out as soon as it is whole, and only results stand on standard output."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import os
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo import reading, registry, storage
from lmzoo.cli import flowing, run
from lmzoo.cli.flowing import documents_of, whole_lines
from lmzoo.cli.rows import unescaped
from lmzoo.normalizers import NORMALIZERS
from lmzoo.parts import cut_segments
from lmzoo.reading import decode_blocks
from lmzoo.registry import ModelEntry
from tests.lmzoo.typing_at import table

TEXT = "the cat sat on the mat\nthe dog sat on the cat\na dog ate the mat\n" * 20

# a text as small as this one has no discounts of its own
pytestmark = [pytest.mark.plain, pytest.mark.filterwarnings("ignore:order")]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Files of a trigram of words, one document a line, and of one of characters, one document a file."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            tokens: lmzoo.save(
                lmzoo.train("trigram", lmzoo.load_corpus(folder / "text.txt", tokens=tokens)), folder / f"{tokens}.lm"
            )
            for tokens in ("word", "char")
        }


class TestDocumentsAsTheyArrive:
    # line ends of every kind, blank lines, what letters makes blank, and characters of several bytes
    TEXTS = st.text(st.sampled_from("ab \t\n\r!é中"), max_size=60)
    CUTS = st.lists(st.integers(0, 200), max_size=8)

    @staticmethod
    def pieces(data, cuts):
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        return iter([data[a:b] for a, b in itertools.pairwise(places)])

    @given(TEXTS, CUTS, st.sampled_from(["line", "paragraph", "file", "running"]), st.sampled_from(["none", "letters"]))
    def test_however_the_text_is_cut_they_are_those_of_the_whole(self, text, cuts, policy, normalizer):
        normalizer = NORMALIZERS[normalizer]
        whole = text.replace("\r\n", "\n").replace("\r", "\n")
        wanted, n_blank = cut_segments(whole, policy, normalizer)
        blocks = decode_blocks(self.pieces(text.encode(), cuts), "text")
        batches = list(documents_of(blocks, policy, normalizer))
        assert [document for batch in batches for document in batch.segments] == list(wanted)
        if policy != "file":
            assert sum(batch.n_blank + batch.n_emptied for batch in batches) == n_blank
        lines = whole.split("\n")
        for batch in batches:
            assert [lines[n - 1] for n in batch.lines] == [document.split("\n")[0] for document in batch.segments]

    @given(TEXTS, CUTS)
    def test_whole_lines_are_the_text_cut_after_line_ends(self, text, cuts):
        pieces = list(whole_lines(self.pieces(text, cuts)))
        assert "".join(pieces) == text
        assert all(piece.endswith("\n") for piece in pieces[:-1])


class TestScore:
    def test_a_row_is_written_before_more_is_asked_for(self, models, monkeypatch, capsys):
        seen = []

        def arriving():
            for piece in (b"the cat\n", b"a dog\nthe ", b"mat\n"):
                yield piece
                seen.append(capsys.readouterr().out.splitlines())

        monkeypatch.setattr(reading, "chunks_of", lambda *_: arriving())
        assert run(["score", str(models["word"])]) == 0
        # the header and a row of each line that is whole
        assert [len(lines) for lines in seen] == [2, 1, 1]
        assert [lines[-1].split("\t")[1] for lines in seen] == ["1", "2", "3"]

    @pytest.mark.parametrize(
        "options", [(), ("--per-token",), ("--documents", "paragraph"), ("--documents", "running")]
    )
    def test_a_pipe_is_scored_as_a_file_to_the_last_digit(self, typed, models, tmp_path, monkeypatch, options):
        text = "the cat sat\n\na zebra sat on\nthe dog\n" * 9
        (tmp_path / "new.txt").write_text(text)
        arguments = ("score", models["word"], *options, "--json-lines")
        _, of_file, totals = typed(*arguments, tmp_path / "new.txt")
        monkeypatch.setattr(flowing, "_BLOCK_BYTES", 7)
        status, of_pipe, same_totals = typed(*arguments, stdin=text)
        assert status == 0
        without_name = [[{**json.loads(line), "file": ""} for line in out.splitlines()] for out in (of_file, of_pipe)]
        assert without_name[0] == without_name[1]
        assert totals.splitlines()[-1] == same_totals.splitlines()[-1]

    @pytest.mark.torch
    def test_a_network_scores_a_line_alike_whatever_stands_beside_it(self, typed, tmp_path, monkeypatch):
        (tmp_path / "text.txt").write_text(TEXT)
        corpus = lmzoo.load_corpus(tmp_path / "text.txt", documents="line")
        model = lmzoo.save(lmzoo.train("gru-scratch:hidden=24", corpus, max_steps=2), tmp_path / "gru.lm")
        lines = TEXT.splitlines()[:6]
        _, together, _ = typed("score", model, "--json-lines", stdin="\n".join(lines))
        alone = [json.loads(typed("score", model, "--json-lines", stdin=line)[1])["logprob"] for line in lines]
        assert [json.loads(row)["logprob"] for row in together.splitlines()] == alone

    def test_per_document_is_the_default(self, typed, models):
        stdin = "the cat\n"
        assert typed("score", models["word"], "--per-document", stdin=stdin) == typed(
            "score", models["word"], stdin=stdin
        )

    def test_a_row_says_where_its_text_is_and_what_it_is(self, typed, models, monkeypatch):
        # in blocks of 7 bytes, so that lines are counted over several
        monkeypatch.setattr(flowing, "_BLOCK_BYTES", 7)
        stdin = "\nthe cat\n \n\na dog\nthe\tmat\n"
        by_policy = {
            "line": [("2", "the cat"), ("5", "a dog"), ("6", r"the\tmat")],
            "paragraph": [("2", "the cat"), ("5", r"a dog\nthe\tmat")],
            "running": [("2", r"the cat\na dog\nthe\tmat\n")],
            "file": [("1", r"\nthe cat\n \n\na dog\nthe\tmat\n")],
        }
        for policy, wanted in by_policy.items():
            options = ("--documents", policy, "--text")
            status, out, _ = typed("score", models["word"], *options, stdin=stdin)
            assert status == 0
            assert [(row["line"], row["text"]) for row in table(out)] == wanted
            _, out, _ = typed("score", models["word"], *options, "--json-lines", stdin=stdin)
            assert [json.loads(row)["text"] for row in out.splitlines()] == [unescaped(text) for _, text in wanted]

    def test_where_it_is_stands_behind_the_columns_that_were_there(self, typed, models):
        _, out, _ = typed("score", models["word"], stdin="the cat\n")
        assert out.splitlines()[0].endswith("\tbits_per_char\treason\tline")
        _, out, _ = typed("score", models["word"], "--per-token", stdin="\nthe cat\n")
        assert [row["line"] for row in table(out)] == ["2", "2", "2"]
        status, out, err = typed("score", models["word"], "--per-token", "--text", stdin="the cat\n")
        assert (status, out) == (2, "")
        assert err.startswith("error: --text is of documents")

    def test_lines_before_one_that_is_no_text_are_scored(self, typed, models):
        """However few they are: all of this comes in one block."""
        for stdin, n_rows in ((b"the cat\na dog\n\xff\nthe cat\n", 2), (b"the cat\na \xff dog\n", 1), (b"\xff\n", 0)):
            status, out, err = typed("score", models["word"], stdin=stdin)
            assert (status, len(table(out)) if out else 0) == (2, n_rows)
            assert f"error: standard input is not UTF-8: byte 0xff at offset {stdin.index(255)}" in err
        status, out, _ = typed("rank", models["word"], stdin=b"the cat\n\na dog\n\nmat\n\xff")
        assert (status, [row["text"] for row in table(out)]) == (2, ["the cat", "a dog"])

    def test_totals_by_character_and_byte(self, typed, models):
        status, _, err = typed("score", models["char"], stdin="the caté\n")
        assert status == 0
        # é is one character of two bytes
        figures = dict(part.rsplit(" ", 1) for part in err.strip().split(", "))
        assert float(figures["bits per byte"]) * 10 == pytest.approx(float(figures["bits per character"]) * 9, rel=1e-5)

    def test_what_was_scored_before_a_bad_byte_is_kept(self, typed, models):
        status, out, err = typed("score", models["word"], stdin=b"the cat\n" * 20_000 + b"ab\xff\n")
        assert status == 2
        assert len(table(out)) > 10_000
        totals, error = err.splitlines()
        assert totals.startswith(f"documents {len(table(out))}, ")
        assert error.startswith("error: standard input is not UTF-8: byte 0xff at offset 160002; ")

    def test_a_file_that_cannot_be_read_is_a_row_and_the_others_are_scored(self, typed, models, tmp_path):
        (tmp_path / "good").write_text("the cat\n")
        (tmp_path / "bad").write_bytes(b"\xff\n")
        files = [tmp_path / name for name in ("bad", "none", "good")]
        status, out, err = typed("score", models["word"], *files)
        assert status == 2
        bad, none, good = table(out)
        assert "is not UTF-8: byte 0xff at offset 0" in bad["reason"]
        assert "No such file" in none["reason"]
        assert (good["tokens"], good["reason"]) == ("3", "")
        assert err.splitlines()[0].startswith("documents 1, tokens 3,")
        assert err.splitlines()[1] == "error: 2 of 3 files could not be scored to their ends"

    def test_folders_patterns_and_packed_files(self, typed, models, tmp_path):
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "b.txt").write_text("a dog\n")
        (tmp_path / "texts" / "a.txt.gz").write_bytes(gzip.compress(b"the cat sat\n"))
        for name in (tmp_path / "texts", tmp_path / "texts" / "*.txt*"):
            status, out, _ = typed("score", models["word"], name)
            assert status == 0
            assert [(row["file"], row["tokens"]) for row in table(out)] == [
                (str(tmp_path / "texts" / "a.txt.gz"), "4"),
                (str(tmp_path / "texts" / "b.txt"), "3"),
            ]
        status, out, _ = typed("score", models["word"], tmp_path / "*.none", tmp_path / "texts" / "b.txt")
        assert status == 2
        assert [row["tokens"] for row in table(out)] == ["", "3"]
        assert "no file matches" in table(out)[0]["reason"]
        assert typed("score", models["word"], "-", "-")[2].startswith("error: standard input (-) is named twice")

    def test_other_encodings(self, typed, models):
        wanted = table(typed("score", models["char"], stdin="thé cat")[1])
        for encoding in ("latin-1", "utf-16"):
            status, out, _ = typed("score", models["char"], "--encoding", encoding, stdin="thé cat".encode(encoding))
            assert (status, table(out)) == (0, wanted)
            _, out, _ = typed("rank", models["char"], "--encoding", encoding, stdin="thé cat".encode(encoding))
            assert table(out)[0]["text"] == "thé cat"
        for command in ("score", "rank"):
            status, _, err = typed(command, models["char"], "--invalid", "replace", stdin=b"th\xff c\xffat")
            assert status == 0
            assert "note: 2 invalid sequences of bytes were replaced by U+FFFD" in err

    def test_scores_that_are_no_numbers_end_in_status_2(self, typed, models, monkeypatch):
        model = storage.load(models["word"])
        score = model.logprobs
        is_cat = model.vocab.token_to_id["cat"]

        def without_cats(tokens, state):
            logprobs, after = score(tokens, state)
            return np.where(tokens == is_cat, np.nan, logprobs), after

        monkeypatch.setattr(model, "logprobs", without_cats)
        monkeypatch.setattr(storage, "load", lambda path: model)
        status, out, err = typed("score", models["word"], stdin="the cat\na dog\n")
        assert status == 2
        assert [row["reason"] for row in table(out)] == ["some scores are no numbers", ""]
        assert err.splitlines()[-1] == "error: the model gave a token NaN (not a number); see the column reason"

    def test_totals_are_told_when_an_endless_pipe_is_left(self, models, monkeypatch, capsys):
        def arriving():
            yield b"the cat\n"
            raise KeyboardInterrupt

        monkeypatch.setattr(reading, "chunks_of", lambda *_: arriving())
        assert run(["score", str(models["word"])]) == 130
        out, err = capsys.readouterr()
        assert len(table(out)) == 1
        assert err.startswith("documents 1, tokens 3, ")

    def test_a_text_is_written_as_it_is_whatever_it_would_be_on_a_terminal(self, typed, models):
        _, out, _ = typed("rank", models["word"], stdin="the \x1b[31mcat\n")
        assert table(out)[0]["text"] == "the \x1b[31mcat"

    @pytest.mark.whole
    def test_memory_does_not_grow_with_the_pipe(self, models, monkeypatch):
        peaks = []
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            monkeypatch.setattr(sys, "stdout", nowhere)
            for n_blocks in (4, 4, 20):
                blocks = [b"the cat sat on the mat\n" * 500] * n_blocks
                monkeypatch.setattr(reading, "chunks_of", lambda *_, blocks=blocks: iter(blocks))
                tracemalloc.start()
                assert run(["score", str(models["word"])]) == 0
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        # the first one also loads what the others find loaded; 16 blocks more are 180 kB, and their rows more than that
        assert peaks[2] - peaks[1] < 100_000


class TestRank:
    CHOICES = "mat the on sat cat the\nthe cat sat on the mat\n"

    def ranked(self, out):
        return [(row["list"], row["rank"], row["text"]) for row in table(out)]

    def test_one_list(self, typed, models):
        status, out, _ = typed("rank", models["word"], stdin=self.CHOICES)
        assert status == 0
        assert self.ranked(out) == [("1", "1", "the cat sat on the mat"), ("1", "2", "mat the on sat cat the")]
        wanted = lmzoo.rank(lmzoo.load(models["word"]), self.CHOICES.splitlines())
        assert [float(row["logprob"]) for row in table(out)] == pytest.approx([r.logprob for r in wanted])

    def test_blank_lines_stand_between_lists(self, typed, models):
        stdin = f"\n{self.CHOICES}\n \na dog\nthe dog"
        _, out, _ = typed("rank", models["word"], stdin=stdin)
        assert [row[0] for row in self.ranked(out)] == ["1", "1", "2", "2"]
        _, best, _ = typed("rank", models["word"], "--best", stdin=stdin)
        assert self.ranked(best) == [row for row in self.ranked(out) if row[1] == "1"]

    def test_a_list_is_written_before_the_next_is_asked_for(self, models, monkeypatch, capsys):
        seen = []

        def arriving():
            for piece in (b"the cat\na dog\n", b"\nthe mat\n", b"\n", b"a cat\n"):
                yield piece
                seen.append(len(capsys.readouterr().out.splitlines()))

        monkeypatch.setattr(reading, "chunks_of", lambda *_: arriving())
        assert run(["rank", str(models["word"])]) == 0
        # a list is whole once the next one begins
        assert seen == [0, 3, 0, 1]
        assert len(capsys.readouterr().out.splitlines()) == 1

    @pytest.mark.parametrize(
        ("layout", "lines"),
        [
            ("nbest", ["7 ||| a dog ||| lm=-3 ||| -4.5", "7 ||| the cat ||| lm=-2 ||| -4", "8 ||| dog ||| x ||| 0"]),
            ("tsv", ["score\tid\ttext", "-4.5\t7\ta dog", "-4\t7\tthe cat", "0\t8\tdog"]),
            (
                "json",
                [
                    '{"id": 7, "text": "a dog", "score": -4.5}',
                    '{"id": 7, "text": "the cat", "score": -4, "more": []}',
                    '{"id": 8, "text": "dog", "score": 0}',
                ],
            ),
        ],
    )
    def test_rescoring_adds_what_the_model_says(self, typed, models, layout, lines):
        stdin = "\n".join(lines) + "\n"
        options = ("--format", layout, "--weight", 0.5, "--bonus", 2)
        status, out, _ = typed("rank", models["word"], *options, "--json-lines", stdin=stdin)
        assert status == 0
        rows = [json.loads(line) for line in out.splitlines()]
        model = lmzoo.load(models["word"])
        logprob = {r.text: r.logprob for r in lmzoo.rank(model, ["a dog", "the cat", "dog"])}
        # score + weight x ln p + bonus x tokens
        total = {
            "a dog": -4.5 + 0.5 * logprob["a dog"] + 2 * 2,
            "the cat": -4 + 0.5 * logprob["the cat"] + 2 * 2,
            "dog": 0.5 * logprob["dog"] + 2 * 1,
        }
        assert total["the cat"] > total["a dog"]
        assert [(r["list"], r["rank"], r["text"]) for r in rows] == [
            ("7", 1, "the cat"),
            ("7", 2, "a dog"),
            ("8", 1, "dog"),
        ]
        assert [r["total"] for r in rows] == pytest.approx([total[r["text"]] for r in rows])
        assert [r["score"] for r in rows] == [-4, -4.5, 0]

    def test_without_a_weight_scores_do_not_count(self, typed, models):
        stdin = "1 ||| a dog ||| 100\n1 ||| the cat ||| -100\n"
        _, out, _ = typed("rank", models["word"], "--format", "nbest", stdin=stdin)
        assert [row[2] for row in self.ranked(out)] == ["the cat", "a dog"]
        _, out, _ = typed("rank", models["word"], "--format", "nbest", "--weight", 0, stdin=stdin)
        assert [row[2] for row in self.ranked(out)] == ["a dog", "the cat"]

    def test_its_rows_are_lists_again(self, typed, models):
        _, out, _ = typed("rank", models["word"], stdin=f"{self.CHOICES}\nthe\\ cat\na\tdog\n")
        status, again, _ = typed("rank", models["word"], "--format", "tsv", stdin=out)
        assert (status, again) == (0, out)
        _, rows, _ = typed("rank", models["word"], "--json-lines", stdin=f"{self.CHOICES}\nthe cat\na dog\n")
        assert typed("rank", models["word"], "--format", "json", "--json-lines", stdin=rows)[1] == rows

    @pytest.mark.parametrize(
        ("options", "stdin", "message"),
        [
            (["--format", "nbst"], "", "no format of lists 'nbst'. Did you mean 'nbest'?"),
            (
                ["--format", "nbest"],
                "the cat\n",
                "line 1 of standard input is 'the cat', expected id ||| text ||| score",
            ),
            (
                ["--format", "nbest"],
                "1 ||| a ||| good\n",
                "the score on line 1 of standard input is no finite number, got 'good'",
            ),
            (
                ["--format", "nbest"],
                "1 ||| a ||| 1\n1 ||| b ||| inf\n",
                "the score on line 2 of standard input is no finite",
            ),
            (
                ["--format", "json"],
                '{"text": "a", "score": -Infinity}',
                "the score on line 1 of standard input is no finite",
            ),
            (["no-such.txt"], "", "no file 'no-such.txt'; texts are read from a file or from standard input"),
            (["--format", "tsv"], "a dog\nthe cat\n", "the header of standard input has no column text"),
            (["--format", "tsv"], "id\ttext\n1\n", "line 2 of standard input has 1 cells, its header has 2"),
            (["--format", "json"], '{"text": 3}\n', "line 1 of standard input is no JSON object with a text"),
            (["--format", "json"], "the cat\n", "line 1 of standard input is no JSON object"),
            (["--format", "nbest"], "1 ||| a\n2 ||| b\n1 ||| c\n", "list '1' goes on after another one; sort"),
            (["--weight", "1"], "a dog\n", "--weight adds to a score, and 'a dog' came without one"),
            (["--bonus", "1"], "a dog\n", "--bonus goes with --weight"),
            (["--weight", "nan"], "a dog\n", "--weight is a finite number, got nan"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, typed, models, options, stdin, message):
        status, _, err = typed("rank", models["word"], *options, stdin=stdin)
        assert status == 2
        assert message in err
        assert err.count("\n") == 1

    def test_no_texts_are_no_rows(self, typed, models):
        assert typed("rank", models["word"]) == (0, "logprob\ttext\tlist\trank\treason\n", "")
        assert typed("rank", models["word"], "--json-lines", stdin="\n\n") == (0, "", "")

    def test_what_is_no_number_comes_last_with_a_reason(self, typed, models, monkeypatch):
        model = storage.load(models["word"])
        answers = iter([math.nan, -1.0, -math.inf])
        monkeypatch.setattr("lmzoo.sampling.text_logprobs", lambda _, texts: [next(answers) for _ in texts])
        monkeypatch.setattr(storage, "load", lambda path: model)
        status, out, err = typed("rank", models["word"], "--json-lines", stdin="a\nb\nc\n")
        assert status == 2
        rows = [json.loads(line) for line in out.splitlines()]
        assert [(r["text"], r["logprob"], r["reason"]) for r in rows] == [
            ("b", -1.0, None),
            ("c", None, "zero probability"),
            ("a", None, "not a number"),
        ]
        assert "the model gives 1 texts what is no number" in err


class TestTextsThatANormaliserEmpties:
    """Chinese under `letters`, which keeps a to z alone: never scored as an empty text without a word."""

    REASON = "letters leaves nothing of the text"

    @pytest.fixture
    def letters(self, tmp_path):
        corpus = lmzoo.corpus_from_texts({"train": TEXT, "test": "a"}, tokens="word", normalize="letters")
        return lmzoo.save(lmzoo.train("bigram", corpus), tmp_path / "m.lm")

    def test_rank(self, typed, letters):
        status, out, err = typed("rank", letters, stdin="你好\nthe cat\n")
        reasons = {row["text"]: row["reason"] for row in table(out)}
        assert (status, reasons) == (0, {"你好": self.REASON, "the cat": ""})
        assert err == "note: 1 texts are ranked as empty, see the column reason\n"

    def test_score(self, typed, letters, tmp_path):
        status, out, err = typed("score", letters, stdin="你好\nthe cat\n\n好\n")
        assert (status, [row["line"] for row in table(out)]) == (0, ["2"])
        assert "note: 1 blank lines of standard input are skipped\n" in err
        assert "note: letters leaves nothing of 2 lines of standard input, which are skipped\n" in err
        (tmp_path / "text").write_text("你好\n", encoding="utf-8")
        status, _, err = typed("score", letters, tmp_path / "text")
        assert status == 2
        assert "has 0 tokens, at least 1 is needed: letters leaves nothing of its text" in err

    def test_score_where_white_space_is_left(self, typed, tmp_path):
        corpus = lmzoo.corpus_from_texts({"train": TEXT, "test": "a"}, tokens="char", normalize="letters")
        model = lmzoo.save(lmzoo.train("bigram", corpus), tmp_path / "m.lm")
        status, out, err = typed("score", model, "--documents", "file", stdin="你 好\n")
        assert (status, [row["reason"] for row in table(out)]) == (0, [self.REASON])
        assert "note: letters leaves nothing of standard input\n" in err

    @pytest.mark.parametrize("command", [("next", "--k", 1), ("generate", "--length", 2, "--prompt", "-")])
    def test_contexts_and_prompts(self, typed, letters, command):
        status, _, err = typed(command[0], letters, *command[1:], stdin="你好\nthe\n\n \n")
        assert (status, err) == (0, f"note: '你好' counts as empty: {self.REASON}\n")


class TestTheTextbooksExamples:
    def test_speech_is_recognized_before_a_beach_is_wrecked(self, typed, tmp_path):
        """Fair: both have 21 characters, none unknown to the model, and Genesis knows neither phrase."""
        speech, beach = "to recognize a speech", "to wreck a nice beach"
        assert len(speech) == len(beach)
        corpus = lmzoo.load_corpus("genesis", tokens="char")
        assert all((corpus.vocab.encode(text) != corpus.vocab.unk_id).all() for text in (speech, beach))
        text = " ".join(corpus.train.segments).lower()
        assert not [word for word in ("recognize", "wreck", "beach") if word in text]
        model = lmzoo.save(lmzoo.train("kn5", corpus), tmp_path / "genesis.lm")
        _, out, _ = typed("rank", model, stdin=f"{beach}\n{speech}\n")
        assert [row["text"] for row in table(out)] == [speech, beach]

    def test_words_that_the_model_knows(self, data_folder):
        """Fair to the beach: the one unknown word is its own, and <unk> is likelier here than the word would be."""
        corpus = lmzoo.load_corpus("ptb")
        model = lmzoo.train("trigram", corpus)
        speech, beach = "to recognize a speech", "to wreck a nice beach"
        unknown = {text: int((corpus.vocab.encode(text) == corpus.vocab.unk_id).sum()) for text in (speech, beach)}
        assert unknown == {speech: 0, beach: 1}
        after_to = {t.token: t.logprob for t in lmzoo.top_k(model, "to", len(corpus.vocab))}
        assert after_to["<unk>"] > after_to["recognize"]
        assert [r.text for r in lmzoo.rank(model, [beach, speech])] == [speech, beach]

    def test_order_tells_who_chases_whom(self):
        """Fair: both have the same words, so single words cannot tell them apart, and neither is in the text."""
        lines = ["cats chase mice", "cats chase birds", "dogs chase rats", "foxes chase rats", "rats fear cats"] * 4
        corpus = lmzoo.corpus_from_texts({"train": "\n".join(lines), "test": "cats fear dogs"}, tokens="word")
        candidates = ["rats chase cats", "cats chase rats"]
        by_words = lmzoo.rank(lmzoo.train("unigram", corpus), candidates)
        assert by_words[0].logprob == pytest.approx(by_words[1].logprob)
        best, other = lmzoo.rank(lmzoo.train("bigram", corpus), candidates)
        assert best.text == "cats chase rats"
        assert best.logprob > other.logprob + 1


class TestNext:
    def test_markers_are_left_out_and_told_of(self, typed, models):
        model = lmzoo.load(models["word"])
        everything = {t.token: t.logprob for t in lmzoo.top_k(model, "the cat", 100)}
        status, out, err = typed("next", models["word"], "the cat", "--k", 100)
        assert status == 0
        assert {row["token"] for row in table(out)} == set(everything) - {"<unk>", "</s>"}
        assert f"</s> (ln p {everything['</s>']:.6g})" in err
        assert f"<unk> (ln p {everything['<unk>']:.6g})" in err
        _, out, err = typed("next", models["word"], "the cat", "--k", 100, "--all-symbols")
        assert {row["token"] for row in table(out)} == set(everything)
        assert err == ""
        assert sum(math.exp(float(row["logprob"])) for row in table(out)) == pytest.approx(1)

    def test_a_context_a_line(self, typed, models):
        status, out, err = typed("next", models["word"], "--k", 2, "--json-lines", stdin="sat on\n\nthe dog\n")
        assert (status, err) == (0, "")
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row["context"] for row in rows] == [1, 1, 2, 2, 3, 3]
        model = lmzoo.load(models["word"])
        wanted = [t for c in ("sat on", "", "the dog") for t in lmzoo.top_k(model, c, 2, all_symbols=False)]
        assert [(row["token"], row["logprob"]) for row in rows] == wanted
        assert typed("next", models["word"], "-", "--k", 2, "--json-lines", stdin="sat on\n\nthe dog\n")[1] == out

    def test_no_line_at_all_is_the_start(self, typed, models):
        assert typed("next", models["word"])[1] == typed("next", models["word"], "")[1]

    def test_a_word_that_is_being_typed(self, typed, models):
        _, out, _ = typed("next", models["word"], "the", "--prefix", "ma")
        assert [row["token"] for row in table(out)] == ["mat"]
        status, out, err = typed("next", models["word"], "the", "--prefix", "xyz")
        assert (status, table(out)) == (0, [])
        assert "note: no symbol starts with 'xyz'\n" in err


class TestGenerate:
    def test_prompts_from_a_pipe_and_several_samples(self, typed, models):
        options = ("--prompt", "-", "--samples", 2, "--seed", 5, "--length", 4, "--json-lines")
        status, out, err = typed("generate", models["word"], *options, stdin="the cat\na dog\n")
        assert (status, err) == (0, "")
        rows = [json.loads(line) for line in out.splitlines()]
        assert [(row["prompt"], row["seed"]) for row in rows] == [
            ("the cat", 5),
            ("the cat", 6),
            ("a dog", 5),
            ("a dog", 6),
        ]
        model = lmzoo.load(models["word"])
        assert [row["text"] for row in rows] == [lmzoo.sample(model, r["prompt"], 4, seed=r["seed"]) for r in rows]

    def test_samples_with_line_ends_are_told_apart(self, typed, models):
        for tokens, between in (("word", "\n"), ("char", "\n\n")):
            model = lmzoo.load(models[tokens])
            options = ("--prompt", "the cat", "--samples", 3, "--length", 9)
            _, out, _ = typed("generate", models[tokens], *options)
            assert out == between.join(lmzoo.sample(model, "the cat", 9, seed=seed) for seed in range(3)) + "\n"

    def test_its_logprob_is_of_what_was_added(self, typed, models):
        _, out, _ = typed("generate", models["word"], "--prompt", "the", "--seed", 1, "--length", 50, "--json-lines")
        row = json.loads(out)
        model = lmzoo.load(models["word"])
        (whole,) = lmzoo.rank(model, [row["text"]])
        start = {t.token: t.logprob for t in lmzoo.top_k(model, "", 100)}["the"]
        # a text that ended by itself: p(prompt) p(added, end | prompt) = p(text)
        assert row["logprob"] + start == pytest.approx(whole.logprob)

    @pytest.mark.parametrize("stop", ["t", " s", "xyz", "\n"])
    def test_it_ends_before_the_text_that_stops_it(self, typed, models, monkeypatch, stop):
        options = ("--prompt", "the ", "--length", 40, "--seed", 2)
        free = typed("generate", models["char"], *options)[1].removesuffix("\n")
        end = free.find(stop, len("the "))
        wanted = free if end < 0 else free[:end]
        assert typed("generate", models["char"], *options, "--stop", stop)[1] == wanted + "\n"
        assert typed("generate", models["char"], *options, "--stop", "")[0] == 2

    @pytest.mark.parametrize("stop", [(), ("--stop", "on t")])
    def test_on_a_terminal_it_is_shown_as_it_grows(self, typed, models, monkeypatch, stop):
        options = ("generate", models["char"], "--prompt", "the ", "--length", 40, "--seed", 2, *stop)
        _, wanted, _ = typed(*options)
        written = []

        class Terminal(io.StringIO):
            def isatty(self):
                return True

            def write(self, text):
                written.append(text)
                return len(text)

        monkeypatch.setattr(sys, "stdout", Terminal())
        assert run(list(map(str, options))) == 0
        assert "".join(written) == wanted
        # what is written first stands there before the rest is drawn
        assert len([text for text in written if text]) > 5


class TestModels:
    """A model is named by a file, or by a spec of what is read."""

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (
                "kn5",
                "is no file but the name of a model that is trained first: python -m lmzoo train kn5 TEXT -o FILE",
            ),
            ("no-such.lm", "cannot read no-such.lm: No such file or directory"),
            ("trigarm", "no model file 'trigarm'. Did you mean 'trigram'?"),
            ("a(b,c=.lm", "cannot read a(b,c=.lm: No such file or directory"),
            ("x" * 300, "File name too long"),
        ],
    )
    def test_what_is_neither(self, typed, name, message):
        for command in ("score", "rank", "next", "generate"):
            status, out, err = typed(command, name)
            assert (status, out) == (2, "")
            assert message in err

    def test_a_spec_that_is_read(self, typed, models, monkeypatch):
        asked = []

        def read_model(spec):
            asked.append(spec)
            return storage.load(models["word"])

        borrowed = ModelEntry(
            name="borrowed", description="", config="x:y", reader="x:y", family="counting", value="path"
        )
        monkeypatch.setattr(registry, "all_entries", lambda: {**registry.MODELS, "borrowed": borrowed})
        monkeypatch.setattr(registry, "read_model", read_model)
        wanted = typed("next", models["word"], "the")[1]
        assert typed("next", "borrowed:lm.arpa", "the")[1] == wanted
        assert asked == ["borrowed:lm.arpa"]


@pytest.mark.whole
def test_a_pipe_of_commands(models, tmp_path):
    """Rows of one command are what another one reads, and a reader that leaves ends all of them quietly."""
    lmzoo_ = f"{sys.executable} -m lmzoo"
    command = f"{lmzoo_} generate {models['word']} --samples 30 | {lmzoo_} rank {models['word']} | head -n 2 | cut -f 4"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env={**os.environ}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "rank\n1\n", "")
