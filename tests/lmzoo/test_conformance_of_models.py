"""Every registered model that can run here passes every conformance check."""

from __future__ import annotations

import typing
from pathlib import Path

import numpy as np
import pytest

import lmzoo
from lmzoo import storage
from lmzoo.conformance import CheckResult, check_language_model, quick_check
from lmzoo.corpus import Corpus, corpus_from_texts
from lmzoo.ngram.arpa import read_arpa, write_arpa
from lmzoo.ngram.config import Smoothing
from lmzoo.ngram.model import NgramModel
from lmzoo.registry import MODELS
from tests.bigram import TEXT

# every check of every kind of model
pytestmark = pytest.mark.whole

NAMED = [name for name, entry in MODELS.items() if entry.family == "counting" and entry.in_all]
MIXTURES = [
    "bigram+kn5,weights=one",
    "unigram+trigram,kind=loglinear",
    "kn5+skip+cache",
    "kn5+cache(order=3,size=50,decay=0.9),weights=one",
]
VARIANTS = [
    *(f"smoothing={smoothing}" for smoothing in typing.get_args(Smoothing)),
    *(f"smoothing={smoothing},interpolated=false" for smoothing in ("mkn", "kn", "ad")),
    *("discounts=tuned", "cutoffs=1/2/3", "prune=0.001", "max_ngrams=30"),
]
NEURAL = [name for name, entry in MODELS.items() if entry.family == "neural"]


@pytest.fixture(scope="module")
def corpora() -> dict[str, Corpus]:
    return {
        "char": corpus_from_texts({"whole": TEXT * 5}, tokens="char"),
        "word": corpus_from_texts({"whole": TEXT * 5}, tokens="word", min_freq=30),
    }


def of_status(status: str, results: list[CheckResult]) -> dict[str, str]:
    return {result.name: result.message for result in results if result.status == status}


def assert_right(spec: str, corpus: Corpus) -> None:
    model = lmzoo.train(spec, corpus, max_steps=10)
    results = check_language_model(model, spec)
    assert of_status("failed", results) == {}
    optional = {"probability.all_logprobs_agree", "state.classes_of_contexts", "state.context_size_is_true"}
    if model.is_adaptive:
        # scored one row at a time
        optional |= {"batch.rows_alone", "batch.row_order", "batch.selected_rows"}
    assert set(of_status("skipped", results)) <= optional


# so short a text has no counts of counts to estimate discounts from
@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
@pytest.mark.parametrize("tokens", ["char", "word"])
@pytest.mark.parametrize("name", NAMED)
def test_every_counting_model_is_right(name: str, tokens: str, corpora: dict[str, Corpus]) -> None:
    assert_right(name, corpora[tokens])


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
@pytest.mark.parametrize("options", VARIANTS)
def test_every_kind_of_n_grams_is_right(options: str, corpora: dict[str, Corpus]) -> None:
    assert_right(f"ngram:order=3,{options}", corpora["word"])


@pytest.mark.parametrize("back", ["2/3", "1/3/2", "4"])
def test_n_grams_with_gaps_are_right(back: str, corpora: dict[str, Corpus]) -> None:
    assert_right(f"skip:back={back}", corpora["word"])


@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
@pytest.mark.parametrize("parts", MIXTURES)
def test_every_kind_of_mixture_is_right(parts: str, corpora: dict[str, Corpus]) -> None:
    assert_right(f"mixture:{parts}", corpora["char"])


def test_a_model_that_was_read_from_an_arpa_file_is_right(corpora: dict[str, Corpus], tmp_path: Path) -> None:
    counted = lmzoo.train("ngram:order=3,smoothing=wb", corpora["word"])
    assert isinstance(counted, NgramModel)
    write_arpa(counted, tmp_path / "model.arpa")
    model = read_arpa(tmp_path / "model.arpa")
    assert of_status("failed", check_language_model(model)) == {}
    assert of_status("failed", check_language_model(storage.load(storage.save(model, tmp_path / "model.lm")))) == {}


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
def test_a_mixture_of_counting_and_neural_models_is_right(corpora: dict[str, Corpus]) -> None:
    assert_right("mixture:trigram+gru-scratch(hidden=8)", corpora["char"])


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*the fixed discounts")
@pytest.mark.parametrize("kind", ["linear", "loglinear"])
def test_a_mixture_is_as_exact_as_its_least_exact_part(kind: str, corpora: dict[str, Corpus]) -> None:
    """Counting is exact to 1e-9, a network to 1e-5; on words a sum of many probabilities shows which is promised."""
    model = lmzoo.train(
        f"mixture:trigram+gru-scratch(hidden=8,batch_size=2,num_steps=8),kind={kind}", corpora["word"], max_steps=3
    )
    assert of_status("failed", quick_check(model)) == {}
    state, tokens = model.initial_state(), corpora["word"].test.ids_N[None, :5]
    assert model.next_logprobs(state).dtype == np.float32
    assert model.logprobs(tokens, state)[0].dtype == np.float32
    counting = lmzoo.train(f"mixture:trigram+bigram,kind={kind}", corpora["word"])
    assert counting.next_logprobs(counting.initial_state()).dtype == np.float64


@pytest.mark.torch
@pytest.mark.parametrize(
    "spec",
    [
        *(f"{name}:hidden=8" for name in NEURAL),
        "mlp:variant=residual,hidden=8",
        "lstm-scratch:hidden=8,adapt=cache",
        "gru-scratch:hidden=8,adapt=dynamic,adapt_steps=3",
    ],
)
def test_every_neural_model_is_right(spec: str, corpora: dict[str, Corpus]) -> None:
    assert_right(spec, corpora["char"])


@pytest.mark.torch
@pytest.mark.parametrize("name", ["gru-scratch", "lstm-cudnn", "mlp"])
def test_a_model_trained_with_a_sampled_softmax_is_right(name: str, corpora: dict[str, Corpus]) -> None:
    assert_right(f"{name}:hidden=8,softmax=sampled,samples=3", corpora["char"])


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in NEURAL if name != "transformer"])
def test_a_model_trained_in_bfloat16_is_right(name: str, corpora: dict[str, Corpus]) -> None:
    torch = pytest.importorskip("torch")
    precision = pytest.importorskip("lmzoo.neural.precision")
    if not precision.has_bfloat16(torch.device("cpu")):
        pytest.skip("this processor has no bfloat16 instructions")
    assert_right(f"{name}:hidden=8,precision=bfloat16", corpora["char"])
