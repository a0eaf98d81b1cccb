"""Smaller models by their options: what was asked for is reached, in training as afterwards."""

from __future__ import annotations

import pytest

import lmzoo
from lmzoo.errors import InputError, OptionValueError
from lmzoo.ngram.shrink import shrunk
from tests.lmzoo.ngram.test_laws import corpus_of, counted

TEXT = ["abracadabra", "abrakadabra", "cadabra", "barbara", "bacca"]


def test_options_of_training_are_the_same_as_afterwards() -> None:
    corpus = corpus_of(TEXT)
    trained = counted(corpus, 4, "wb,prune=1e-4,max_ngrams=40,bits=8")
    after = shrunk(counted(corpus, 4, "wb"), prune=1e-4, max_ngrams=40, bits=8)
    assert lmzoo.storage.to_bytes(trained) == lmzoo.storage.to_bytes(after)
    assert trained.n_params <= 40


def test_fewer_bits_leave_room_for_more_ngrams(tmp_path) -> None:
    corpus = lmzoo.load_corpus("genesis")
    models = [lmzoo.train(f"ngram:smoothing=wb,max_bytes=100K{more}", corpus) for more in ("", ",bits=8")]
    sizes = [lmzoo.save(model, tmp_path / "m.lm").stat().st_size for model in models]
    assert max(sizes) <= 100 * 1024
    assert min(sizes) > 80 * 1024
    exact, coarse = models
    assert coarse.n_params > 1.2 * exact.n_params
    assert lmzoo.evaluate(coarse, corpus.test).perplexity < lmzoo.evaluate(exact, corpus.test).perplexity


def test_nothing_asked_is_nothing_done() -> None:
    model = counted(corpus_of(TEXT), 3, "wb")
    assert shrunk(model) is model


def test_what_has_no_mass_to_give_back_is_only_rounded() -> None:
    model = counted(corpus_of(TEXT), 3, "mle")
    with pytest.raises(InputError, match="smoothing=mle cannot be pruned"):
        shrunk(model, max_bytes=10_000)
    assert shrunk(model, bits=8).details["bits"] == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("bits=7", "bits must be 8 to 16, got 7"),
        ("bits=17", "bits must be 8 to 16, got 17"),
        ("max_bytes=0", "max_bytes must be at least 1, got 0"),
        ("max_bytes=-5", "max_bytes is a size such as"),
        ("max_bytes=5M,smoothing=sb", "cannot be pruned"),
        ("bits=8,max_memory=64M", "bits needs the whole model in memory"),
        ("max_bytes=8M,max_memory=64M", "max_bytes needs the whole model in memory"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(OptionValueError, match=message):
        lmzoo.registry.resolve_config(f"ngram:{options}")
