"""Every smoothing at every order on every kind of text keeps the contract, and tells of discounts it cannot estimate.

That the answers are probabilities is quickly seen on the whole product; the whole contract is slow, on a part of it.
"""

from __future__ import annotations

import itertools
import re
import typing
import warnings
from functools import cache

import numpy as np
import pytest

import lmzoo
from lmzoo.conformance import CHECKS, CheckResult, Subject, quick_check, run_check
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.ngram.config import Smoothing
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.ngram.model import NgramModel
from tests.bigram import TEXT

SMOOTHINGS = (
    *typing.get_args(Smoothing),
    *(f"{smoothing},interpolated=false" for smoothing in ("mkn", "kn", "ad")),
    *(f"{smoothing},discounts=tuned" for smoothing in ("mkn", "kn", "ad")),
    "mkn,discounts=kenlm",
    "addk,k=1",
)
ORDERS = (1, 2, 3, 5, 16)
TEXTS = ("words", "characters", "DNA", "repeated lines", "three lines")

# what a model whose scores are no distribution is expected to break
IN_A_FRESH_PROCESS = "persistence.equal_in_fresh_process"
WITHOUT_SUMS = {"probability.sums_to_one", "probability.strings_sum_to_one"}


@cache
def corpus_of(text: str) -> Corpus:
    if text == "words":
        return corpus_from_texts({"whole": TEXT * 2}, tokens="word", min_freq=5)
    if text == "characters":
        return corpus_from_texts({"whole": TEXT})
    if text == "DNA":
        return corpus_from_texts({"whole": "".join(np.random.default_rng(0).choice(list("ACGT"), 1500))})
    if text == "repeated lines":
        return corpus_from_texts({"whole": "the cat sat on the mat\n" * 40}, tokens="word")
    parts = {"train": "the cat sat\na dog ran\nthe dog sat\n", "valid": "the dog ran\n", "test": "a cat sat\n"}
    return corpus_from_texts(parts, tokens="word")


def trained(smoothing: str, order: int, text: str) -> tuple[NgramModel, dict[str, str]]:
    """The model, and what it warned of by order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = lmzoo.train(spec_of(smoothing, order), corpus_of(text))
    assert isinstance(model, NgramModel)
    assert {warning.category for warning in caught} <= {DiscountWarning}
    told = [re.fullmatch(r"order (\d+): (.*); the fixed discounts .*", str(warning.message)) for warning in caught]
    assert all(told)
    return model, {match[1]: match[2] for match in told if match}


def spec_of(smoothing: str, order: int) -> str:
    return f"ngram:order={order},smoothing={smoothing}"


def of_status(status: str, results: list[CheckResult]) -> dict[str, str]:
    return {result.name: result.message for result in results if result.status == status}


@pytest.mark.parametrize(("order", "text"), list(itertools.product(ORDERS, TEXTS)))
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_answers_are_probabilities_and_fallbacks_are_told(smoothing: str, order: int, text: str) -> None:
    model, told = trained(smoothing, order, text)
    assert model.order == order
    assert told == model.details.get("fallbacks", {})
    results = quick_check(model)
    assert of_status("failed", results) == {}
    assert set(of_status("expected", results)) == (set() if model.is_normalized else {"probability.sums_to_one"})


# a Latin square over the smoothings: each meets every order and every text, and every order meets every text
CASES = [
    (smoothing, order, TEXTS[(s + o) % len(TEXTS)])
    for s, smoothing in enumerate(SMOOTHINGS)
    for o, order in enumerate(ORDERS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("smoothing", "order", "text"), CASES)
@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_the_whole_contract_is_kept(smoothing: str, order: int, text: str) -> None:
    model, _ = trained(smoothing, order, text)
    subject = Subject(model, spec_of(smoothing, order), frozenset(check.name for check in CHECKS))
    # a fresh interpreter takes longer than all other checks together: one for each smoothing
    is_fresh = order == 3
    results = [run_check(check, subject) for check in CHECKS if is_fresh or check.name != IN_A_FRESH_PROCESS]
    assert of_status("failed", results) == {}
    assert set(of_status("expected", results)) == (set() if model.is_normalized else WITHOUT_SUMS)
    # a unigram matches nothing, so its contexts are all alike
    assert set(of_status("skipped", results)) == ({"state.classes_of_contexts"} if order == 1 else set())
