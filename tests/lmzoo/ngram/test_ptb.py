"""Penn Treebank words against KenLM: the figures that the literature quotes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lmzoo
from lmzoo.corpus import Corpus

GOLDEN = Path(__file__).parents[2] / "golden"

# KenLM, `lmplz` and `query`: validation and test perplexity by order; `running`: on the whole text as one line
PERPLEXITIES = json.loads((GOLDEN / "ptb.perplexity.kenlm.json").read_text(encoding="utf-8"))
KENLM = {int(order): tuple(both) for order, both in PERPLEXITIES["line"].items()}
KENLM_RUNNING = {int(order): tuple(both) for order, both in PERPLEXITIES["running"].items()}


def read_parts(folder: Path) -> dict[str, str]:
    return {p: (folder / "ptb" / f"ptb.{p}.txt").read_text(encoding="utf-8") for p in ("train", "valid", "test")}


@pytest.fixture(scope="module")
def spelled(data_folder: Path) -> Corpus:
    """Penn Treebank with its `<unk>` written as an ordinary word, as KenLM had it."""
    parts = {p: text.replace("<unk>", "UNKTOK") for p, text in read_parts(data_folder).items()}
    return lmzoo.corpus_from_texts(parts, tokens="word")


@pytest.mark.parametrize("order", sorted(KENLM))
def test_perplexity_with_unk_spelled_out(spelled: Corpus, order: int) -> None:
    model = lmzoo.train(f"ngram:order={order},smoothing=mkn", spelled)
    got = [lmzoo.evaluate(model, split).perplexity for split in (spelled.valid, spelled.test)]
    assert got == pytest.approx(KENLM[order], rel=1e-5)


@pytest.mark.parametrize("order", sorted(KENLM))
def test_perplexity_of_the_files_themselves(data_folder: Path, order: int) -> None:
    corpus = lmzoo.load_corpus("ptb")
    model = lmzoo.train(f"ngram:order={order},smoothing=mkn", corpus)
    tallies = [lmzoo.evaluate(model, split) for split in (corpus.valid, corpus.test)]
    assert [t.perplexity for t in tallies] == pytest.approx(KENLM[order], rel=1e-4)
    assert [t.n_tokens for t in tallies] == [73_760, 82_430]


@pytest.mark.parametrize("order", sorted(KENLM_RUNNING))
def test_running_text_measured_as_kenlm_measures_it(data_folder: Path, order: int) -> None:
    # one line, its line ends a word, and KenLM's own </s> predicted once more at the very end
    parts = {
        p: " ".join(f"{line.strip()} LINEEND" for line in text.splitlines())
        for p, text in read_parts(data_folder).items()
    }
    corpus = lmzoo.corpus_from_texts(parts, tokens="word", documents="line", own_unk=True)
    model = lmzoo.train(f"ngram:order={order},smoothing=mkn", corpus)
    got = [lmzoo.evaluate(model, split).perplexity for split in (corpus.valid, corpus.test)]
    assert got == pytest.approx(KENLM_RUNNING[order], rel=1e-4)


@pytest.mark.parametrize("order", sorted(KENLM_RUNNING))
def test_running_policy(data_folder: Path, order: int) -> None:
    corpus = lmzoo.load_corpus("ptb", documents="running")
    model = lmzoo.train(f"ngram:order={order},smoothing=mkn", corpus)
    tallies = [lmzoo.evaluate(model, split) for split in (corpus.valid, corpus.test)]
    assert [t.n_tokens for t in tallies] == [73_760, 82_430]
    # the final </s> that KenLM adds costs it some 12 nats, seen once in training: 12 / 73,760 is 1.6e-4
    for tally, kenlm in zip(tallies, KENLM_RUNNING[order], strict=True):
        assert kenlm * (1 - 1.6e-4) < tally.perplexity < kenlm


@pytest.mark.parametrize("order", ["3", "5"])
def test_the_first_300_test_lines_one_by_one(spelled: Corpus, order: str) -> None:
    wanted = json.loads((GOLDEN / "ptb.test300.kenlm.json").read_text(encoding="utf-8"))[order]
    model = lmzoo.train(f"ngram:order={order},smoothing=mkn,discounts=kenlm", spelled)
    for d, line in enumerate(wanted):
        ids = spelled.test[d].ids_L[None, :]
        logprobs, _ = model.logprobs(ids, model.initial_state())
        assert ids.size == line["n_tokens"]
        assert logprobs.sum() / np.log(10) == pytest.approx(line["total_log10"], abs=1e-6 * line["n_tokens"])
        if "matched_order" in line:
            orders = model.matched_orders(ids, model.initial_state())  # type: ignore[attr-defined]
            assert orders[0].tolist() == line["matched_order"]


def test_discounts(spelled: Corpus) -> None:
    wanted = json.loads((GOLDEN / "discounts.kenlm.json").read_text(encoding="utf-8"))["ptb"]["5"]
    details = lmzoo.train("kn5:discounts=kenlm", spelled).details  # type: ignore[attr-defined]
    assert details["fallbacks"] == {}
    for n, d in wanted.items():
        assert details["discounts"][int(n) - 1] == pytest.approx((d["D1"], d["D2"], d["D3+"]), abs=1e-5)


def test_the_time_machine_at_order_6(data_folder: Path) -> None:
    corpus = lmzoo.load_corpus("timemachine")
    with pytest.warns(UserWarning, match="order 1"):
        model = lmzoo.train("ngram:order=6,smoothing=mkn", corpus)
    # KenLM's figure, on a split cut at the mark itself
    assert lmzoo.evaluate(model, corpus.test).perplexity == pytest.approx(3.786, rel=3e-3)
