"""The command line: what it prints, where, and how it ends."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import subprocess
import sys
import warnings

import click
import numpy as np
import pytest

import lmzoo
from lmzoo import conformance, storage
from lmzoo.cli import run, scoring
from lmzoo.cli.group import cli
from lmzoo.conformance import CheckResult
from lmzoo.mixture import MixtureModel
from tests.lmzoo.typing_at import table

TEXT = "the cat sat on the mat\nthe dog sat on the cat\na dog ate the mat\n" * 20

pytestmark = pytest.mark.filterwarnings("ignore:order")  # a text as small as this one has no discounts of its own


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def text_file(folder):
    path = folder / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def words(folder, text_file):
    """A trigram of words, one document a line."""
    return _trained(folder / "words.lm", text_file, "word")


@pytest.fixture(scope="module")
def chars(folder, text_file):
    """A trigram of characters, one document a file."""
    return _trained(folder / "chars.lm", text_file, "char")


def _trained(path, text_file, tokens):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lmzoo.save(lmzoo.train("trigram", lmzoo.load_corpus(text_file, tokens=tokens)), path)


def process(*arguments, stdin=b"", **environment):
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lmzoo", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **environment},
    )


class TestListing:
    def test_models(self, typed):
        status, out, _ = typed("models")
        assert status == 0
        rows = {row["name"]: row for row in table(out)}
        assert rows["trigram"]["description"] == "interpolated modified Kneser-Ney of order 3"
        assert rows["trigram"]["not here because"] == ""
        assert set(rows) == set(lmzoo.available_models())


class TestTrain:
    def test_a_text(self, typed, text_file, tmp_path):
        status, out, err = typed("train", "trigram", text_file, "-o", tmp_path / "m.lm", "--tokens", "word")
        assert (status, out) == (0, "")
        corpus = lmzoo.load_corpus(text_file, tokens="word")
        model = lmzoo.load(tmp_path / "m.lm")
        assert model.vocab == corpus.vocab
        perplexity = lmzoo.evaluate(model, corpus.valid).perplexity
        assert f"trigram: {corpus.train.n_tokens} training tokens, 11 symbols" in err
        assert f"validation perplexity {perplexity:.6g}" in err

    def test_unknown_words_of_the_validation_text_are_told(self, typed, tmp_path):
        texts = {"train": "one two one\n" * 9, "valid": "one six\n" * 4, "none": "one two\n", "all": "six six\n"}
        paths = {name: tmp_path / name for name in texts}
        for name, path in paths.items():
            path.write_text(texts[name])
        common = ("--train", paths["train"], "--test", paths["train"], "--tokens", "word", "-o", tmp_path / "m.lm")
        status, _, err = typed("train", "unigram", *common, "--valid", paths["valid"])
        assert status == 0
        # of one, <unk> and </s> four times each; 36 tokens and 4 symbols: p(one) = 19/40, p(</s>) = 10/40
        assert f"(without OOV {(19 / 40 * 10 / 40) ** -0.5:.6g}; 33.3 % of the tokens are OOV)" in err
        assert "OOV" not in typed("train", "unigram", *common, "--valid", paths["none"])[2]
        only = (*common, "--documents", "file", "--valid", paths["all"])
        assert "(without OOV n/a; 100 % of the tokens are OOV)" in typed("train", "unigram", *only)[2]

    def test_every_option_reaches_the_library(self, typed, text_file, tmp_path, monkeypatch):
        from lmzoo import corpus, driver

        asked = {}
        load, train = corpus.load_corpus, driver.train
        monkeypatch.setattr(corpus, "load_corpus", lambda *a, **k: load(*a, **asked.setdefault("load", k)))
        monkeypatch.setattr(driver, "train", lambda *a, **k: train(*a, **asked.setdefault("train", k)))
        options = (
            "--tokens word --normalize lower --documents running --min-freq 2 --encoding latin-1 --invalid replace"
        )
        limits = "--seed 5 --budget 3 --epochs 1.5"
        more = ("--max-steps", 7, "--device", "cpu")
        status, *_ = typed("train", "bigram", text_file, "-o", tmp_path / "m.lm", *f"{options} {limits}".split(), *more)
        assert status == 0
        reading = {"tokens": "word", "normalize": "lower", "documents": "running", "min_freq": 2}
        reading |= {"encoding": "latin-1", "invalid": "replace"}
        assert asked["load"] == {"train": None, "valid": None, "test": None, **reading}
        assert asked["train"] == {"seed": 5, "budget": 3.0, "epochs": 1.5, "max_steps": 7, "device": "cpu"}

    def test_a_corpus_by_name(self, typed, tmp_path):
        status, _, err = typed("train", "unigram", "--corpus", "genesis", "-o", tmp_path / "m.lm")
        assert status == 0
        assert "29 symbols" in err

    def test_files_of_ones_own(self, typed, tmp_path):
        for part in ("a", "b", "c"):
            (tmp_path / part).write_text(f"{part} x x\n" * 3)
        own = ("--train", tmp_path / "a", "--valid", tmp_path / "b", "--test", tmp_path / "c")
        status, *_ = typed("train", "unigram", *own, "--tokens", "word", "-o", tmp_path / "m.lm")
        assert status == 0
        assert set(lmzoo.load(tmp_path / "m.lm").vocab.tokens[3:]) == {"a", "x"}

    def test_several_training_files_are_one_text(self, typed, tmp_path):
        parts = {"a": "one two", "b": "three four\n", "test": "one three\n", "joined": "one two\nthree four\n"}
        for name, content in parts.items():
            (tmp_path / name).write_text(content)
        common = ("--test", tmp_path / "test", "--valid", tmp_path / "test", "--tokens", "word", "-o")
        several = ("--train", tmp_path / "a", "--train", tmp_path / "b")
        assert typed("train", "bigram", *several, *common, tmp_path / "several.lm")[0] == 0
        assert typed("train", "bigram", "--train", tmp_path / "joined", *common, tmp_path / "one.lm")[0] == 0
        assert (tmp_path / "several.lm").read_bytes() == (tmp_path / "one.lm").read_bytes()

    def test_a_file_named_like_a_corpus_is_a_file(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "kjv").write_text("xyzzy " * 20)
        status, *_ = typed("train", "unigram", "kjv", "-o", "m.lm")
        assert status == 0
        assert set("".join(lmzoo.load("m.lm").vocab.tokens[2:])) == set("xyz ")

    def test_test_lines_in_the_training_text_are_announced(self, typed, tmp_path):
        path = tmp_path / "a"
        path.write_text("one two\nthree\n" * 5)
        status, _, err = typed("train", "unigram", "--train", path, "--test", path, "-o", tmp_path / "m.lm")
        assert status == 0
        assert "warning: 100 % of the test lines stand in the training text" in err

    def test_literal_markers_are_announced(self, typed, tmp_path):
        path = tmp_path / "a"
        path.write_text("<s> struck </s>\nsome <unk> tag\n" * 10)
        _, _, err = typed("train", "unigram", path, "--tokens", "word", "-o", tmp_path / "m.lm")
        assert "note: 30 literal <s>, </s> or <unk> in the text are kept as words" in err

    def test_what_the_library_warns_of_is_one_line(self, typed, text_file, tmp_path):
        done = process("train", "kn5", text_file, "--tokens", "word", "-o", tmp_path / "m.lm")
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 0
        assert any(line.startswith("warning: order ") for line in lines)
        assert all(line.startswith(("warning: ", "kn5: ")) for line in lines)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["trigrm", "TEXT"], "no model 'trigrm'. Did you mean 'trigram'?"),
            (["ngram:ordr=2", "TEXT"], "ngram has no option 'ordr'. Did you mean 'order'?"),
            (["trigram", "no-such-file"], "no file 'no-such-file'; for a corpus by name write --corpus no-such-file"),
            (["trigram", "--corpus", "genesi"], "no corpus and no file 'genesi'. Did you mean 'genesis'?"),
            (["trigram"], "give one of: a TEXT file, --corpus NAME, or --train and --test files"),
            (["trigram", "TEXT", "--corpus", "kjv"], "give one of"),
            (["trigram", "--train", "TEXT"], "--train and --test go together"),
            (["trigram", "TEXT", "--tokens", "wrd"], "no tokenizer 'wrd'. Did you mean 'word'?"),
            (["trigram", "TEXT", "--documents", "lines"], "no context policy 'lines'. Did you mean 'line'?"),
            (["trigram", "TEXT", "--min-freq", "0"], "min_freq must be at least 1, got 0"),
            (["trigram", "TEXT", "--min-freq", "x"], "'x' is not a valid integer"),
            (["trigram", "TEXT", "--seed", "-1"], "-1 is not in the range x>=0"),
            (["trigram", "TEXT", "--budget", "nan"], "seconds of a budget must be above 0, got nan"),
            (["trigram", "TEXT", "--budgt", "1"], "No such option"),
            (["trigram", "--train", "TEXT", "--test", "a", "--test", "TEXT"], "--test is given twice; give it once"),
            (["trigram", "TEXT", "--seed", "1", "--seed", "1", "--seed=1"], "--seed is given 3 times; give it once"),
            (["trigram", "TEXT", "-o", "m.lm", "--output", "n.lm"], "--output is given twice; give it once"),
            (["trigram", "TEXT", "--tokens", ""], "--tokens is given without a value"),
            (["trigram", "TEXT", "--device", "bogus"], "--device is cpu, cuda or cuda:N, got 'bogus'"),
            (["trigram", "TEXT", "-o", "no/such/m.lm"], "cannot write no/such/m.lm: there is no folder no/such"),
        ],
    )
    def test_bad_arguments_are_one_line_and_status_2(self, typed, text_file, tmp_path, arguments, message):
        filled = [str(text_file) if a == "TEXT" else a for a in arguments]
        status, out, err = typed("train", *(["-o", tmp_path / "m.lm"] if "-o" not in filled else []), *filled)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "m.lm").exists()

    def test_limits_of_networks_are_of_no_use_to_counting(self, typed, text_file, tmp_path):
        limits = ("--epochs", 2, "--device", "cuda")
        status, _, err = typed("train", "trigram", text_file, "-o", tmp_path / "m.lm", *limits)
        assert status == 0
        assert err.startswith("note: --epochs, --device: of no use here; trigram counts its text once")

    def test_a_pipe_is_read_once(self, typed, words, tmp_path):
        pipe, link = tmp_path / "pipe", tmp_path / "link"
        os.mkfifo(pipe)
        link.symlink_to(pipe)
        for arguments in (
            ("train", "trigram", "--train", pipe, "--test", pipe, "-o", tmp_path / "m.lm"),
            ("counts", "--train", pipe, "--test", link),
            ("describe", pipe, link),
            ("score", words, pipe, link),
        ):
            status, out, err = typed(*arguments)
            assert (status, out) == (2, "")
            assert "is named twice, and can be read only once" in err

    def test_help_and_flags_may_be_repeated(self, typed):
        assert typed("train", "--all", "--all", "--seed", "1", "--seed", "2", "--help")[0] == 0

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "has 0 tokens, at least 1 is needed"),
            (b"ab", "has 0 tokens, at least 1 is needed"),
            (b"abcdef\xffgh", "is not UTF-8: byte 0xff at offset 6"),
            ("abc".encode("utf-16"), "is UTF-16"),
        ],
    )
    def test_bad_texts(self, typed, tmp_path, content, message):
        (tmp_path / "bad.txt").write_bytes(content)
        status, _, err = typed("train", "trigram", tmp_path / "bad.txt", "-o", tmp_path / "m.lm")
        assert status == 2
        assert message in err


class TestScore:
    def test_per_document_the_figures_are_those_of_the_library(self, typed, words, tmp_path):
        lines = ["the cat sat", "a zebra sat on the mat"]
        (tmp_path / "new.txt").write_text("\n".join(lines) + "\n")
        status, out, err = typed("score", words, tmp_path / "new.txt")
        assert status == 0
        model = lmzoo.load(words)
        logprobs = {r.text: r.logprob for r in lmzoo.rank(model, lines)}
        rows = table(out)
        assert [float(row["logprob"]) for row in rows] == pytest.approx([logprobs[line] for line in lines])
        assert [(row["document"], row["tokens"], row["oov"]) for row in rows] == [("1", "4", "0"), ("2", "7", "1")]
        assert float(rows[0]["perplexity"]) == pytest.approx(math.exp(-logprobs[lines[0]] / 4))
        assert float(rows[1]["perplexity_no_oov"]) < float(rows[1]["perplexity"])
        total = math.exp(-sum(logprobs.values()) / 11)
        assert f"documents 2, tokens 11, OOV 1, perplexity {total:.6g}, without OOV " in err

    def test_standard_input_is_the_default(self, typed, words):
        status, out, err = typed("score", words, stdin="the cat\n\na dog\n")
        assert status == 0
        assert len(table(out)) == 2
        assert "note: 1 blank lines of standard input are skipped" in err
        assert typed("score", words, "-", stdin="the cat\n\na dog\n")[1] == out

    def test_per_token_the_rows_add_up(self, typed, words):
        _, documents, _ = typed("score", words, stdin="the zebra sat\n")
        status, out, _ = typed("score", words, "--per-token", stdin="the zebra sat\n")
        assert status == 0
        rows = table(out)
        assert [(r["position"], r["token"], r["oov"]) for r in rows] == [
            ("1", "the", "0"),
            ("2", "<unk>", "1"),
            ("3", "sat", "0"),
            ("4", "</s>", "0"),
        ]
        assert sum(float(r["logprob"]) for r in rows) == pytest.approx(float(table(documents)[0]["logprob"]))

    def test_per_token_the_order_that_matched(self, typed, words, text_file, tmp_path):
        _, out, _ = typed("score", words, "--per-token", stdin="the cat dog\na dog\n")
        # "<s> the", "<s> the cat" occur; "cat dog" does not; nothing was ever seen to end in "dog"
        assert [(row["token"], row["matched_order"]) for row in table(out)] == [
            ("the", "2"),
            ("cat", "3"),
            ("dog", "1"),
            ("</s>", "1"),
            ("a", "2"),
            ("dog", "3"),
            ("</s>", "1"),
        ]
        mixture = tmp_path / "m.lm"
        typed("train", "mixture:bigram+cache", text_file, "-o", mixture)
        _, out, _ = typed("score", mixture, "--per-token", stdin="the cat\n")
        assert {row["matched_order"] for row in table(out)} == {""}

    def test_json_lines(self, typed, words):
        status, out, _ = typed("score", words, "--json-lines", stdin="the cat\nzebra\n")
        rows = [json.loads(line) for line in out.splitlines()]
        assert status == 0
        assert [row["tokens"] for row in rows] == [3, 2]
        tsv = table(typed("score", words, stdin="the cat\nzebra\n")[1])
        assert [row["perplexity"] for row in rows] == pytest.approx([float(row["perplexity"]) for row in tsv])
        assert list(rows[0]) == list(tsv[0])

    def test_characters_are_scored_a_file_each(self, typed, chars, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name).write_text("the cat\tsat\n")
        status, out, _ = typed("score", chars, tmp_path / "a", tmp_path / "b")
        assert status == 0
        assert [(row["file"], row["document"], row["tokens"]) for row in table(out)] == [
            (str(tmp_path / "a"), "1", "12"),
            (str(tmp_path / "b"), "1", "12"),
        ]

    def test_white_space_in_a_token_is_escaped(self, typed, chars):
        _, out, _ = typed("score", chars, "--per-token", stdin="a\n")
        assert [row["token"] for row in table(out)] == ["a", "\\n"]

    def test_another_policy(self, typed, words):
        _, out, _ = typed("score", words, "--documents", "running", stdin="the cat\na dog\n")
        assert [row["tokens"] for row in table(out)] == ["6"]

    def test_impossible_tokens_are_infinite_with_a_reason(self, typed, text_file, tmp_path):
        corpus = lmzoo.load_corpus(text_file, tokens="word")
        path = lmzoo.save(lmzoo.train("ngram:order=2,smoothing=mle", corpus), tmp_path / "mle.lm")
        _, out, err = typed("score", path, stdin="the zebra\n")
        row = table(out)[0]
        assert (row["logprob"], row["perplexity"]) == ("-inf", "inf")
        assert row["reason"].endswith("zero-probability tokens")
        assert "perplexity inf" in err
        assert "zero-probability tokens)" in err
        _, out, _ = typed("score", path, "--json-lines", stdin="the zebra\n")
        row = json.loads(out)
        assert row["perplexity"] is None
        assert row["reason"].endswith("zero-probability tokens")
        _, out, _ = typed("score", path, "--json-lines", "--per-token", stdin="the zebra\n")
        unseen = json.loads(out.splitlines()[1])
        assert (unseen["logprob"], unseen["reason"]) == (None, "zero probability")

    def test_nothing_but_unknown_words_has_no_perplexity_without_them(self, typed, chars):
        _, out, err = typed("score", chars, stdin="ZZZ")
        row = table(out)[0]
        assert row["perplexity_no_oov"] == ""
        assert row["reason"] == "every token is out of vocabulary"
        assert "without OOV n/a" in err

    def test_scores_that_are_no_distribution_have_no_perplexity(self, typed, words, monkeypatch):
        model = storage.load(words)
        model.is_normalized = False
        monkeypatch.setattr(storage, "load", lambda path: model)
        status, out, err = typed("score", words, stdin="the cat\n")
        assert status == 0
        assert (table(out)[0]["perplexity"], table(out)[0]["reason"]) == ("", "scores do not sum to 1: no perplexity")
        assert "perplexity n/a" in err

    @pytest.mark.parametrize("is_adaptive", [False, True])
    def test_an_adaptive_model_is_starred(self, typed, words, monkeypatch, is_adaptive):
        model = storage.load(words)
        model.is_adaptive = is_adaptive
        monkeypatch.setattr(storage, "load", lambda path: model)
        _, _, err = typed("score", words, stdin="the cat\n")
        assert ("* (adaptive" in err) is is_adaptive

    def test_what_is_no_number_is_never_written(self, typed, words, monkeypatch):
        model = storage.load(words)
        monkeypatch.setattr(model, "logprobs", lambda tokens, state: (np.full(tokens.shape, np.nan), state))
        monkeypatch.setattr(storage, "load", lambda path: model)
        _, out, _ = typed("score", words, stdin="the cat\n")
        row = table(out)[0]
        assert (row["logprob"], row["perplexity"], row["reason"]) == ("", "", "some scores are no numbers")
        _, out, err = typed("score", words, "--json-lines", stdin="the cat\n")
        assert json.loads(out)["perplexity"] is None
        assert "perplexity n/a" in err
        _, out, _ = typed("score", words, "--per-token", stdin="the cat\n")
        assert [(r["logprob"], r["reason"]) for r in table(out)] == [("", "not a number")] * 3

    def test_bad_input(self, typed, words):
        status, out, err = typed("score", words, stdin=b"ab\xff")
        assert (status, out) == (2, "")
        assert "standard input is not UTF-8: byte 0xff at offset 2" in err

    @pytest.mark.parametrize("stdin", ["", "\n \n"])
    def test_nothing_in_a_pipe_is_no_rows_but_an_empty_file_is_an_error(self, typed, words, tmp_path, stdin):
        status, out, err = typed("score", words, stdin=stdin)
        assert (status, table(out), out.count("\n")) == (0, [], 1)
        assert err == "note: standard input has 0 tokens, at least 1 is needed; nothing is scored\n"
        assert typed("score", words, "--json-lines", stdin=stdin)[:2] == (0, "")
        (tmp_path / "empty").write_text(stdin)
        assert typed("score", words, tmp_path / "empty")[:2] == (2, "")

    def test_a_bad_model_file(self, typed, text_file, tmp_path, words):
        status, _, err = typed("score", text_file)
        assert status == 2
        assert "is not a model file of lmzoo" in err
        (tmp_path / "cut.lm").write_bytes(words.read_bytes()[:-10])
        status, _, err = typed("score", tmp_path / "cut.lm")
        assert status == 2
        assert "is damaged or cut short" in err


class TestOthers:
    def test_next(self, typed, words):
        status, out, _ = typed("next", words, "sat on", "--k", 2)
        assert status == 0
        rows = table(out)
        assert len(rows) == 2
        assert rows[0]["token"] == "the"
        expected = lmzoo.top_k(lmzoo.load(words), "sat on", 2)
        assert [float(r["logprob"]) for r in rows] == pytest.approx([t.logprob for t in expected])

    def test_generate(self, typed, chars):
        options = ("--prompt", "the ", "--length", 30, "--seed", 3, "--temperature", 0.7, "--top-k", 9, "--top-p", 0.8)
        status, out, _ = typed("generate", chars, *options)
        assert status == 0
        assert out == lmzoo.sample(lmzoo.load(chars), "the ", 30, seed=3, temperature=0.7, top_k=9, top_p=0.8) + "\n"

    @pytest.mark.parametrize(
        ("option", "value"),
        [("--temperature", -1), ("--temperature", "inf"), ("--length", -1), ("--top-k", 0), ("--top-p", 0)],
    )
    def test_generate_refuses_what_cannot_be(self, typed, chars, option, value):
        status, out, err = typed("generate", chars, option, value)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")


class TestCheck:
    RESULTS = (
        CheckResult("api.shapes", "passed", ""),
        CheckResult("training.same_seed", "skipped", "no spec"),
    )

    @pytest.fixture
    def checked(self, monkeypatch):
        """What the checks answer, and what they were asked about."""
        asked = []
        answer = list(self.RESULTS)

        def each_check(model, spec=None):
            asked.append((model, spec))
            return iter(answer)

        monkeypatch.setattr(conformance, "each_check", each_check)
        return asked, answer

    def test_a_file_that_passes(self, typed, words, checked):
        status, out, err = typed("check", words)
        assert status == 0
        assert [(r["status"], r["check"]) for r in table(out)] == [
            ("passed", "api.shapes"),
            ("skipped", "training.same_seed"),
        ]
        assert err == "1 passed, 1 skipped\n"
        assert checked[0][0][1] is None

    def test_one_that_fails(self, typed, words, checked):
        checked[1].append(CheckResult("probability.sums_to_one", "failed", "0.9"))
        status, out, err = typed("check", words)
        assert status == 1
        assert table(out)[-1]["message"] == "0.9"
        assert err == "1 failed, 1 passed, 1 skipped\n"

    def test_a_spec_is_trained_and_checked_with_its_training(self, typed, checked):
        status, *_ = typed("check", "bigram")
        assert status == 0
        model, spec = checked[0][0]
        assert spec == "bigram"
        assert model.context_size == 1

    def test_on_a_text_of_ones_own(self, typed, text_file, checked):
        status, out, _ = typed("check", "bigram", "--corpus", text_file, "--tokens", "word", "--json-lines")
        assert status == 0
        assert checked[0][0][0].vocab == lmzoo.load_corpus(text_file, tokens="word").vocab
        assert [tuple(json.loads(line).values()) for line in out.splitlines()] == [
            ("passed", "api.shapes", ""),
            ("skipped", "training.same_seed", "no spec"),
        ]

    def test_a_file_is_not_trained(self, typed, words):
        status, _, err = typed("check", words, "--max-steps", 3)
        assert status == 2
        assert f"--max-steps is for a model that is trained here, and {words} is read from its file" in err

    def test_a_row_is_written_before_the_next_check_is_run(self, words, monkeypatch, capsys):
        seen = []

        def each_check(model, spec=None):
            for result in self.RESULTS:
                yield result
                seen.append(len(capsys.readouterr().out.splitlines()))

        monkeypatch.setattr(conformance, "each_check", each_check)
        assert run(["check", str(words)]) == 0
        # with the header
        assert seen == [2, 1]

    def test_neither_file_nor_model(self, typed):
        status, _, err = typed("check", "trigrm")
        assert status == 2
        assert "no model file and no model 'trigrm'. Did you mean 'trigram'?" in err

    def test_the_real_checks_of_a_real_model(self, typed, words):
        status, out, err = typed("check", words)
        results = table(out)
        assert {r["check"] for r in results} >= {"probability.sums_to_one", "state.chunks"}
        assert next(r for r in results if r["check"] == "probability.sums_to_one")["status"] == "passed"
        assert status == (1 if "failed" in err else 0)


class TestEnding:
    def test_ctrl_c_is_130(self, typed, words, monkeypatch):
        def interrupted(*args, **kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr(scoring, "score_files", interrupted)
        status, out, _ = typed("score", words, stdin="a\n")
        assert (status, out) == (130, "")

    def test_a_closed_pipe_ends_quietly(self, words, folder):
        long = folder / "long.txt"
        long.write_text(TEXT * 100)
        writer = subprocess.Popen(
            [sys.executable, "-m", "lmzoo", "score", "--per-token", str(words), str(long)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # with something left to write at the end
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
        assert writer.stdout.readline().startswith(b"file\tdocument")
        writer.stdout.close()
        err = writer.stderr.read()
        writer.stderr.close()
        assert writer.wait() == 0
        assert err == b""

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_a_full_disk_is_one_line(self, words, unbuffered):
        with open("/dev/full", "wb") as full:  # noqa: PTH123
            done = subprocess.run(
                [sys.executable, "-m", "lmzoo", "score", str(words)],
                input=b"the cat\n",
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            )
        assert done.returncode == 2
        assert b"error: standard output: No space left on device\n" in done.stderr
        assert b"Exception ignored" not in done.stderr
        assert b"Traceback" not in done.stderr

    def test_streams_are_utf8_whatever_the_locale(self, folder):
        path = folder / "红楼 é.txt"
        path.write_text("红楼梦 中国 " * 30, encoding="utf-8")
        hostile = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}
        model = folder / "chinese.lm"
        assert process("train", "bigram", path, "-o", model, **hostile).returncode == 0
        done = process("next", model, "--k", 9, **hostile)
        assert done.returncode == 0
        assert "红" in done.stdout.decode("utf-8")
        done = process("score", model, "--per-token", stdin="红x".encode(), **hostile)
        assert done.returncode == 0
        assert "\t红\t" in done.stdout.decode("utf-8")

    def test_what_no_encoding_can_write_is_escaped(self, words):
        done = process("rank", words, "--no-such\udcff")
        assert done.returncode == 2
        assert b"\\udcff" in done.stderr


class TestHelp:
    def test_without_arguments_it_is_the_help(self, typed):
        assert typed()[:2] == typed("--help")[:2]

    @pytest.mark.parametrize("command", [None, *sorted(cli.commands)])
    def test_every_command_shows_an_example(self, typed, command):
        status, out, err = typed(*([command] if command else []), "--help")
        assert (status, err) == (0, "")
        assert "Example" in out
        assert "python -m lmzoo" in out

    @pytest.mark.parametrize("name", sorted(cli.commands))
    def test_every_option_is_documented(self, name):
        options = [p for p in cli.commands[name].params if isinstance(p, click.Option)]
        assert all(option.help for option in options)

    def test_the_policy_for_markers_is_part_of_it(self, typed):
        out = " ".join(typed("train", "--help")[1].split())
        assert "A literal <s>, </s> or <unk> in the text is never the internal symbol" in out

    def test_it_loads_no_numpy(self):
        show = "print(sorted(sys.modules), file=sys.stderr)"
        code = f"import sys; from lmzoo.cli import run; run(['train', '--help']); {show}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded = ast.literal_eval(done.stderr)
        assert "click" in loaded
        assert not {"numpy", "torch", "pooch", "rich"} & set(loaded)


class TestConvert:
    def test_there_and_back(self, typed, words, text_file, tmp_path):
        arpa, back = str(tmp_path / "w.arpa.gz"), str(tmp_path / "w.lm")
        assert typed("convert", str(words), arpa)[0] == 0
        assert typed("convert", arpa, back)[0] == 0
        before, after = (typed("score", model, str(text_file))[1].split("\n")[1:-1] for model in (str(words), back))
        nats = [
            [float(line.split("\t")[_column(typed, words, text_file)]) for line in lines] for lines in (before, after)
        ]
        assert nats[0] == pytest.approx(nats[1], abs=1e-4)

    def test_an_arpa_file_where_a_model_is_wanted_names_the_command(self, typed, words, text_file, tmp_path):
        arpa = str(tmp_path / "w.arpa")
        typed("convert", str(words), arpa)
        status, _, err = typed("score", arpa, str(text_file))
        assert status == 2
        assert f"convert it: python -m lmzoo convert {arpa} model.lm" in err

    def test_how_text_is_read_is_for_arpa_files(self, typed, words, tmp_path):
        for option in ("--tokens", "--normalize"):
            value = "word" if option == "--tokens" else "none"
            status, _, err = typed("convert", words, tmp_path / "n.lm", option, value)
            assert status == 2
            assert f"{option} is for an ARPA file; {words} says itself how its text is read" in err
        status, _, err = typed("convert", words, tmp_path / "n.lm", "--max-bytes", "few")
        assert (status, err.startswith("error: --max-bytes is a size such as")) == (2, True)

    def test_a_packed_arpa_file_that_is_cut_short(self, typed, words, tmp_path):
        typed("convert", words, tmp_path / "w.arpa.gz")
        (tmp_path / "cut.arpa.gz").write_bytes((tmp_path / "w.arpa.gz").read_bytes()[:-20])
        status, _, err = typed("convert", tmp_path / "cut.arpa.gz", tmp_path / "w.lm")
        assert status == 2
        assert "cut.arpa.gz is cut short: its gzip data has no end; get the whole file" in err

    def test_what_arpa_cannot_hold(self, typed, text_file, tmp_path):
        mixture = str(tmp_path / "m.lm")
        assert typed("train", "mixture:bigram+cache", str(text_file), "-o", mixture)[0] == 0
        status, _, err = typed("convert", mixture, str(tmp_path / "m.arpa"))
        assert status == 2
        assert "an ARPA file holds n-grams, got a MixtureModel" in err
        assert not (tmp_path / "m.arpa").exists()

    def test_a_counting_model_is_made_smaller_and_its_loss_told(self, typed, words, text_file, tmp_path):
        small = tmp_path / "small.lm"
        status, out, err = typed("convert", words, small, "--max-ngrams", 30, "--bits", 8, "--text", text_file)
        assert (status, out) == (0, "")
        before, after = (typed("score", model, text_file)[2].split(", ")[3].split()[1] for model in (words, small))
        loss = float(after) / float(before) - 1
        assert err.startswith(f"perplexity {before} before, {after} after (+")
        assert float(err.rpartition("(")[2].removesuffix("%)\n")) == pytest.approx(100 * loss, abs=0.01)
        assert storage.load(small).n_params <= 30
        assert storage.load(small).details["bits"] == 8

    def test_its_text_may_be_in_another_encoding(self, typed, words, text_file, tmp_path):
        small, wide = tmp_path / "small.lm", tmp_path / "wide.txt"
        wide.write_text(text_file.read_text(encoding="utf-8"), encoding="utf-16")
        asked = ("convert", words, small, "--bits", 8, "--text")
        wanted = typed(*asked, text_file)[2]
        small.unlink()
        status, _, err = typed(*asked, wide)
        assert (status, small.exists()) == (2, False)
        assert "--encoding utf-16" in err
        assert typed(*asked, wide, "--encoding", "utf-16") == (0, "", wanted)
        assert typed(*asked, "-", stdin=text_file.read_text(encoding="utf-8")) == (0, "", wanted)
        assert "are for --text" in typed("convert", words, small, "--invalid", "replace")[2]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--bits", "7"), "bits must be 8 to 16, got 7"),
            (("--max-bytes", "2X"), "--max-bytes is a size such as 200M, 1.5G or a number of bytes, got '2X'"),
            (("--max-bytes", "10"), "max_bytes=10 is less than the"),
            (("--max-ngrams", "1"), "max_ngrams=1 is less than the vocabulary's"),
        ],
    )
    def test_what_cannot_be_that_small_is_one_line(self, typed, words, tmp_path, options, message):
        status, out, err = typed("convert", words, tmp_path / "small.lm", *options)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert not (tmp_path / "small.lm").exists()

    def test_a_rounded_model_is_not_rounded_again(self, typed, words, tmp_path):
        typed("convert", words, tmp_path / "small.lm", "--bits", "8")
        status, _, err = typed("convert", tmp_path / "small.lm", tmp_path / "smaller.lm", "--bits", "8")
        assert status == 2
        assert "start from the exact one" in err

    def test_only_counting_models_are_made_smaller(self, typed, words, tmp_path):
        mixture = tmp_path / "mixture.lm"
        part = storage.load(words)
        storage.save(MixtureModel([part, part], [0.5, 0.5]), mixture)
        status, _, err = typed("convert", mixture, tmp_path / "small.lm", "--bits", "8")
        assert status == 2
        assert "only a counting model can be made smaller" in err


def _column(typed, words, text_file):
    header = typed("score", str(words), str(text_file))[1].split("\n")[0].split("\t")
    return header.index("logprob")


class TestClosedStreams:
    @pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
    def test_a_closed_stream_is_an_empty_one(self, closed, words, text_file):
        command = f"{sys.executable} -m lmzoo score {words} {closed}"
        done = subprocess.run(
            ["sh", "-c", f"{command} < /dev/null" if closed != "<&-" else command], capture_output=True
        )
        assert b"Traceback" not in done.stderr
        assert done.returncode in (0, 2)


class TestRequestsToEnd:
    """SIGTERM, as `timeout` and batch systems send it, leaves nothing behind."""

    def test_training_in_bounded_memory_is_cleared_away(self, text_file, tmp_path):
        script = (
            "import os, signal, sys\n"
            "from lmzoo.cli import run\n"
            "from lmzoo.ngram import trainer\n"
            "trainer.count_levels = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
            "sys.exit(run(sys.argv[1:]))"
        )
        (tmp_path / "temporary").mkdir()
        arguments = ("train", "trigram", text_file, "--all", "--max-memory", "16M", "-o", tmp_path / "m.lm")
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
            capture_output=True,
        )
        assert done.returncode == 128 + signal.SIGTERM
        assert done.stderr == b""
        assert list((tmp_path / "temporary").iterdir()) == []
        assert not (tmp_path / "m.lm").exists()

    def test_a_folder_for_temporary_files_that_is_not_there(self, typed, text_file, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
        arguments = ("train", "trigram", text_file, "--all", "--max-memory", "16M", "-o", tmp_path / "m.lm")
        status, _, err = typed(*arguments)
        assert status == 2
        assert "none is no folder" in err


class TestOneBadFileAmongMany:
    def test_an_empty_file_is_a_row_with_a_reason(self, typed, words, text_file, tmp_path):
        (tmp_path / "empty.txt").touch()
        status, out, err = typed("score", words, tmp_path / "empty.txt", text_file)
        assert status == 0
        empty, *others = table(out)
        assert (empty["file"], empty["logprob"]) == (str(tmp_path / "empty.txt"), "")
        assert empty["reason"].endswith("has 0 tokens, at least 1 is needed")
        assert others == table(typed("score", words, text_file)[1])
        assert err.startswith("documents 60,")

    def test_a_file_alone_that_is_empty_is_an_error(self, typed, words, tmp_path):
        (tmp_path / "empty.txt").touch()
        assert typed("score", words, tmp_path / "empty.txt")[0] == 2


class TestConvertedInPlace:
    def test_a_model_is_not_overwritten_by_a_smaller_one(self, typed, words):
        before = words.read_bytes()
        status, _, err = typed("convert", words, words.parent / "." / words.name, "--bits", "8")
        assert status == 2
        assert "is read and would be overwritten; give another name" in err
        assert words.read_bytes() == before

    @pytest.mark.parametrize("share", ["nan", "-1", "inf"])
    def test_shares_that_are_none(self, typed, words, tmp_path, share):
        status, _, err = typed("convert", words, tmp_path / "small.lm", "--prune", share)
        assert status == 2
        assert "prune must be a number of at least 0" in err

    def test_a_size_beyond_any_file(self, typed, words, tmp_path):
        status, _, err = typed("convert", words, tmp_path / "small.lm", "--max-bytes", "9" * 400)
        assert status == 2
        assert "--max-bytes is at most" in err

    def test_an_arpa_file_by_any_name(self, typed, words, tmp_path):
        typed("convert", words, tmp_path / "m.arpa")
        (tmp_path / "m.arpa").rename(tmp_path / "m.txt")
        assert typed("convert", tmp_path / "m.txt", tmp_path / "back.lm")[0] == 0


class TestOutputs:
    @pytest.mark.parametrize("more", [(), ("--all",)])
    def test_the_text_is_not_overwritten_by_its_model(self, typed, text_file, more):
        status, _, err = typed("train", "trigram", text_file, *more, "-o", text_file)
        assert status == 2
        assert "is read and would be overwritten" in err
        assert text_file.read_text(encoding="utf-8") == TEXT

    def test_nor_is_any_other_text_that_is_read(self, typed, text_file, tmp_path):
        other = tmp_path / "valid.txt"
        other.write_text("the cat sat\n")
        files = ("--train", text_file, "--valid", other, "--test", text_file)
        assert typed("train", "trigram", *files, "-o", other)[0] == 2
        assert other.read_text() == "the cat sat\n"

    def test_a_device_is_refused_before_training(self, typed, text_file, monkeypatch):
        monkeypatch.setattr("lmzoo.driver.train", lambda *_, **__: pytest.fail("it was trained all the same"))
        status, _, err = typed("train", "trigram", text_file, "-o", os.devnull)
        assert status == 2
        assert "is no regular file" in err
