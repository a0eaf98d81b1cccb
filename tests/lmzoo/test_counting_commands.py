"""`counts` and `info`: what they print is what the library says, and bad questions are one line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo.cli.info import facts_of
from lmzoo.ngram.arpa import read_arpa, write_arpa
from lmzoo.ngram.sparsity import bytes_by_order
from tests.lmzoo.typing_at import table

pytestmark = pytest.mark.plain

TEXT = "the cat sat on the mat\nthe dog sat on the cat\na dog ate the mat\n" * 20


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counting") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def trained(spec: str, text_file: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lmzoo.train(spec, lmzoo.load_corpus(text_file, tokens="word"), **options)


class TestCounts:
    def test_possible_is_a_number_for_programs(self, typed: Any, text_file: Path) -> None:
        _, out, _ = typed("counts", text_file, "--order", 9, "--tokens", "word", "--json-lines")
        # 10 symbols, or the start and 10, then 10 each: exact however large
        assert [json.loads(row)["possible"] for row in out.splitlines()] == [10, *(11 * 10**k for k in range(1, 9))]

    def test_a_row_per_order(self, typed: Any, text_file: Path) -> None:
        status, out, err = typed("counts", text_file, "--order", 3, "--tokens", "word")
        assert (status, err) == (0, "")
        corpus = lmzoo.load_corpus(text_file, tokens="word")
        wanted = lmzoo.sparsity(lmzoo.NgramCounts(corpus.train, 3), corpus.test, trained("trigram", text_file))
        assert [[int(row[name]) for name in ("order", "seen", "bytes")] for row in table(out)] == [
            [row.order, row.n_seen, row.n_bytes] for row in wanted
        ]
        for name, shares in {
            "seen_share": [row.seen_share for row in wanted],
            "once_share": [row.once_share for row in wanted],
            "new_in_test": [row.new_token_share for row in wanted],
            "new_types": [row.new_type_share for row in wanted],
        }.items():
            assert [float(row[name]) for row in table(out)] == pytest.approx(shares, rel=1e-9), name
        # 8 words, <unk> and </s>; <s> may open a pair
        assert [row["possible"] for row in table(out)] == ["10", "110", "1100"]

    def test_a_share_of_nothing_is_an_empty_cell(self, typed: Any, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x y\n" * 3)
        own = [part for name in ("--train", "--valid", "--test") for part in (name, tmp_path / "a")]
        _, out, _ = typed("counts", *own, "--tokens", "word", "--order", 5)
        assert [row["seen"] for row in table(out)] == ["3", "3", "2", "1", "0"]
        assert [row["once_share"] == "" for row in table(out)] == [False, False, False, False, True]

    def test_an_n_gram(self, typed: Any, text_file: Path) -> None:
        status, out, _ = typed("counts", text_file, "--tokens", "word", "--ngram", "on the", "--k", 1)
        assert status == 0
        counts = lmzoo.NgramCounts(lmzoo.load_corpus(text_file, tokens="word").train, 3)
        followed = counts.following("on the")
        assert [tuple(row.values()) for row in table(out)] == [
            ("count", "", str(counts.count("on the"))),
            # sat
            ("different_before", "", "1"),
            # mat, cat
            ("different_after", "", "2"),
            ("next", followed[0].token, str(followed[0].n_times)),
        ]

    def test_an_n_gram_may_be_longer_than_the_order(self, typed: Any, text_file: Path) -> None:
        status, out, _ = typed("counts", text_file, "--order", 2, "--ngram", "the cat")
        assert status == 0
        assert int(table(out)[0]["count"]) > 0

    @pytest.mark.parametrize("smoothing", ["mkn", "ad", "katz"])
    def test_discounts(self, typed: Any, text_file: Path, smoothing: str) -> None:
        status, out, _ = typed("counts", text_file, "--order", 3, "--discounts", smoothing)
        assert status == 0
        counts = lmzoo.NgramCounts(lmzoo.load_corpus(text_file).train, 3)
        is_continuation = smoothing == "mkn"
        rows = table(out)
        assert [[int(row[f"n{c}"]) for c in (1, 2, 3, 4)] for row in rows] == counts.counts_of_counts(
            continuation=is_continuation
        )
        assert [row["counts"] for row in rows] == (["continuation"] * 2 if is_continuation else ["plain"] * 2) + [
            "plain"
        ]
        found = counts.discounts(smoothing)
        assert [row["reason"] or None for row in rows] == [d.reason for d in found]
        for row, discount in zip(rows, found, strict=True):
            np.testing.assert_allclose([float(x) for x in row["discounts"].split()], discount.amounts, rtol=1e-5)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--ngram", "the cta"], "'cta' does not occur in the training text. Did you mean 'cat'?"),
            (["--ngram", ""], "at least one token, got none"),
            (["--ngram", "the " * 32], "--ngram takes at most 31 tokens, got 32"),
            (["--ngram", "the", "--discounts", "kn"], "give one of --ngram and --discounts"),
            (["--ngram", "the", "--k", "0"], "0 is not in the range"),
            (["--discounts", "mnk"], "no discounts belong to smoothing 'mnk'. Did you mean 'mkn'?"),
            (["--order", "0"], "order must be 1 to 32, got 0"),
            (["--order", "33"], "order must be 1 to 32, got 33"),
            (["--order", "two"], "'two' is not a valid integer"),
            (["--corpus", "genesis"], "give one of: a TEXT file, --corpus NAME"),
        ],
    )
    def test_bad_questions_are_one_line_and_status_2(
        self, typed: Any, text_file: Path, arguments: list[str], message: str
    ) -> None:
        status, out, err = typed("counts", text_file, "--tokens", "word", *arguments)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


class TestInfo:
    def shown(self, typed: Any, model: Any, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
        """The JSON object, and the rows by fact."""
        lmzoo.save(model, path)
        status, out, err = typed("info", path, "--json")
        assert (status, err) == (0, "")
        rows = table(typed("info", path)[1])
        return json.loads(out), {row["fact"]: row["value"] for row in rows}

    def test_a_counting_model(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        model = trained("ngram:order=3,max_ngrams=20", text_file)
        facts, rows = self.shown(typed, model, tmp_path / "m.lm")
        assert facts["file_bytes"] == (tmp_path / "m.lm").stat().st_size
        assert (facts["kind"], facts["order"], facts["smoothing"]) == ("ngram", 3, "mkn")
        assert facts["n_params"] == sum(order["ngrams"] for order in facts["orders"]) == 20
        assert [order["bytes"] for order in facts["orders"]] == bytes_by_order(model)
        assert [order["discounts"] for order in facts["orders"]] == model.details["discounts"]
        assert [order["ngrams_before_pruning"] for order in facts["orders"]] == model.details["ngrams_before_pruning"]
        fallbacks = {str(n): order["fallback"] for n, order in enumerate(facts["orders"], start=1)}
        assert {n: reason for n, reason in fallbacks.items() if reason} == model.details["fallbacks"]
        assert facts["vocabulary"]["symbols"] == 11
        assert facts["vocabulary"]["tokenizer"] == "word"
        assert rows["orders.3.ngrams"] == str(len(model.tables[0][2]))
        assert [rows[f"orders.{n}.fallback"] for n in (1, 2, 3)] == [reason or "" for reason in fallbacks.values()]
        assert rows["is_normalized"] == "true"
        assert rows["vocabulary.normalizer"] == "none"

    @pytest.mark.parametrize(
        ("options", "fact"), [("addk,k=0.25", "k"), ("sb", "factor"), ("wb", "smoothing"), ("mle", "smoothing")]
    )
    def test_what_a_smoothing_knows_of_itself(
        self, typed: Any, text_file: Path, tmp_path: Path, options: str, fact: str
    ) -> None:
        model = trained(f"ngram:order=2,smoothing={options}", text_file)
        facts, rows = self.shown(typed, model, tmp_path / "m.lm")
        assert facts[fact] == model.details[fact]
        assert rows[fact] == f"{model.details[fact]}"
        # it has no discounts, so none could be missing
        assert not [name for name in rows if "discounts" in name or "fallback" in name]

    def test_weights_stand_with_their_order(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        model = trained("ngram:order=2,smoothing=jm", text_file)
        facts, rows = self.shown(typed, model, tmp_path / "m.lm")
        assert [order["weights"] for order in facts["orders"]] == model.details["weights"]
        shown = [float(weight) for weight in rows["orders.2.weights"].split()]
        assert shown == pytest.approx(model.details["weights"][1], rel=1e-5)

    def test_a_model_from_an_arpa_file(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        write_arpa(trained("bigram", text_file), tmp_path / "m.arpa")
        facts, _ = self.shown(typed, read_arpa(tmp_path / "m.arpa"), tmp_path / "m.lm")
        assert (facts["smoothing"], len(facts["orders"])) == ("arpa", 2)

    def test_a_mixture(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        model = trained("mixture:trigram+cache(size=50)", text_file)
        facts, rows = self.shown(typed, model, tmp_path / "m.lm")
        assert (facts["kind"], facts["mixing"], facts["is_adaptive"]) == ("mixture", "linear", True)
        assert [part["weight"] for part in facts["parts"]] == model.weights_K.tolist()
        trigram, cache = facts["parts"]
        assert trigram == {"weight": trigram["weight"], **facts_of(model.components[0])}
        assert cache["options"] == {"order": 8, "size": 50, "decay": 0.9998, "discount": 0.5}
        assert rows["parts.2.options.size"] == "50"
        assert rows["parts.1.orders.3.ngrams"] == str(len(model.components[0].tables[0][2]))

    @pytest.mark.torch
    def test_a_network(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        model = trained("gru-scratch:hidden=8,layers=2", text_file, max_steps=1)
        facts, rows = self.shown(typed, model, tmp_path / "m.lm")
        assert (facts["kind"], facts["n_params"]) == ("recurrent", model.n_params)
        assert (facts["options"]["cell"], facts["options"]["hidden"], facts["options"]["layers"]) == ("gru", 8, 2)
        # it looks back without a limit
        assert (facts["context_size"], rows["context_size"]) == (None, "")

    def test_no_model(self, typed: Any, text_file: Path, tmp_path: Path) -> None:
        for path, message in ((text_file, "is not a model file"), (tmp_path / "none.lm", "cannot read")):
            status, out, err = typed("info", path)
            assert (status, out) == (2, "")
            assert message in err
            assert err.count("\n") == 1
