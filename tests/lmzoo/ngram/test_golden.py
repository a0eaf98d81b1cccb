"""KenLM's own figures on tiny texts (tests/golden): probabilities, back-offs, matched orders, discounts."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import lmzoo
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.ngram.model import NgramModel

GOLDEN = Path(__file__).parents[2] / "golden"
TEXTS = ("boats", "market", "dna", "repeated")
ORDERS = (2, 3, 4, 5)
DISCOUNTS = json.loads((GOLDEN / "discounts.kenlm.json").read_text(encoding="utf-8"))
MARKET = json.loads((GOLDEN / "market.test.kenlm.json").read_text(encoding="utf-8"))["market"]

# eight digits are printed, and KenLM computes in float32
LOG10_TOLERANCE = 1e-5


def kenlm_like(text: str, order: int) -> NgramModel:
    """The model that KenLM would estimate: words, one document a line; the validation text plays no part."""
    corpus = lmzoo.corpus_from_texts({"train": text, "valid": "x", "test": "x"}, tokens="word", documents="line")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        model = lmzoo.train(f"ngram:order={order},smoothing=mkn,discounts=kenlm", corpus)
    assert isinstance(model, NgramModel)
    return model


def golden_text(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def arpa_entries(path: Path) -> list[tuple[list[str], float]]:
    """(words, log10 probability) of every n-gram of an ARPA file."""
    entries, order = [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("\\"):
            order = int(line[1]) if line[1].isdigit() else 0
        elif order and line:
            probability, words, *_ = line.split("\t")
            entries.append((words.split(" "), float(probability)))
    return entries


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_probability_of_the_arpa_file(name: str, order: int) -> None:
    model = kenlm_like(golden_text(name), order)
    entries = [e for e in arpa_entries(GOLDEN / f"{name}.{order}.arpa") if e[0] != ["<s>"]]
    assert model.n_params == len(entries) + 1
    for words, log10_wanted in entries:
        ids = np.array([[model.vocab.token_to_id[w] for w in words]])
        state = model.initial_state(bos=False)
        _, state = model.logprobs(ids[:, :-1], state)
        log10_got = model.logprobs(ids[:, -1:], state)[0][0, 0] / np.log(10)
        assert log10_got == pytest.approx(log10_wanted, abs=LOG10_TOLERANCE), words


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", TEXTS)
def test_discounts_and_where_the_fixed_ones_are_taken(name: str, order: int) -> None:
    details = kenlm_like(golden_text(name), order).details
    for n, wanted in DISCOUNTS[name][str(order)].items():
        got = details["discounts"][int(n) - 1]
        assert got == pytest.approx((wanted["D1"], wanted["D2"], wanted["D3+"]), abs=1e-5)
        assert (n in details["fallbacks"]) == (tuple(got) == (0.5, 1.0, 1.5))


@pytest.mark.parametrize("order", ORDERS)
def test_sentences_with_unknown_words(order: int) -> None:
    model = kenlm_like(golden_text("market"), order)
    lines = (GOLDEN / "market.test").read_text(encoding="utf-8").splitlines()
    for line, wanted in zip(lines, MARKET[str(order)], strict=True):
        ids = np.append(model.vocab.encode(line), model.vocab.eos_id)[None, :]
        state = model.initial_state()
        log10_got = model.logprobs(ids, state)[0][0] / np.log(10)
        np.testing.assert_allclose(log10_got, wanted["log10"], atol=LOG10_TOLERANCE)
        assert model.matched_orders(ids, state)[0].tolist() == wanted["matched_order"]
        assert np.count_nonzero(ids == model.vocab.unk_id) == wanted["oov"]


def test_the_warning_names_order_and_reason() -> None:
    corpus = lmzoo.corpus_from_texts({"train": golden_text("boats"), "valid": "a", "test": "a"}, tokens="word")
    with pytest.warns(DiscountWarning) as caught:
        lmzoo.train("ngram:order=5", corpus)
    messages = [str(w.message) for w in caught]
    assert [m.split(":")[0] for m in messages] == [f"order {k}" for k in range(1, 6)]
    assert "the discount of count 2 would be -0.14" in messages[0]
    assert all("no n-gram has count" in m for m in messages[1:])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["boats", "market", "dna"])
def test_exact_discounts_are_the_same_where_the_last_ngram_has_its_plain_count(name: str, order: int) -> None:
    corpus = lmzoo.corpus_from_texts({"train": golden_text(name), "valid": "x", "test": "x"}, tokens="word")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        exact = lmzoo.train(f"ngram:order={order}", corpus)
    assert exact.details == kenlm_like(golden_text(name), order).details  # type: ignore[attr-defined]


def test_kenlm_takes_the_plain_count_of_the_last_word() -> None:
    # "boat" is the last new word: seen 16 times, after 4 different words, as 3 others were: n4 is 4, KenLM has 3
    corpus = lmzoo.corpus_from_texts({"train": golden_text("repeated"), "valid": "x", "test": "x"}, tokens="word")
    with pytest.warns(DiscountWarning):
        exact = lmzoo.train("ngram:order=2", corpus).details["discounts"][0]  # type: ignore[attr-defined]
    # n1=7, n2=5, n3=7: Y = 7/17
    assert exact == pytest.approx((1 - 2 * 7 / 17 * 5 / 7, 2 - 3 * 7 / 17 * 7 / 5, 3 - 4 * 7 / 17 * 4 / 7))
    kenlm = kenlm_like(golden_text("repeated"), 2).details["discounts"][0]
    assert kenlm == pytest.approx((*exact[:2], 3 - 4 * 7 / 17 * 3 / 7))
