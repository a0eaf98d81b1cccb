"""Counting in bounded memory: the same model to the last bit, and nothing left behind."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.ngram.columns import IN_MEMORY, Room, disk_room
from lmzoo.ngram.counts import with_starts
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.trainer import model_of
from lmzoo.registry import resolve_config
from tests.lmzoo.ngram.test_laws import corpus_of, lines, orders

BOUNDED = (
    "mkn",
    "mkn,interpolated=false",
    "kn",
    "kn,interpolated=false",
    "ad",
    "ad,interpolated=false",
    "wb",
    "katz",
    "addk,k=0.3",
    "mle",
    "sb",
)
# n-grams, tokens and values at a time
sizes = st.tuples(st.integers(1, 9), st.integers(1, 20), st.integers(1, 9))


def model_in(room: Room, corpus: Corpus, order: int, smoothing: str) -> NgramModel:
    config = resolve_config(f"ngram:order={order},smoothing={smoothing}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        return model_of(config, corpus.vocab, with_starts(corpus.train), None, room)


def bounded(corpus: Corpus, order: int, smoothing: str, at_once: tuple[int, int, int]) -> NgramModel:
    n_grams, n_positions, n_values = at_once
    with disk_room(n_grams=n_grams, n_positions=n_positions, n_values=n_values, need="little") as room:
        return model_in(room, corpus, order, smoothing)


def assert_same(one: NgramModel, other: NgramModel) -> None:
    """Equal in every bit and every type."""
    (options, arrays), (other_options, other_arrays) = one.to_parts(), other.to_parts()
    assert options == other_options
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == other_arrays[name].dtype, name
        assert array.tobytes() == other_arrays[name].tobytes(), name


@settings(max_examples=150)
@given(lines, orders, st.sampled_from(BOUNDED), sizes)
def test_the_same_model_to_the_last_bit(
    train: list[str], order: int, smoothing: str, at_once: tuple[int, int, int]
) -> None:
    corpus = corpus_of(train)
    assert_same(bounded(corpus, order, smoothing, at_once), model_in(IN_MEMORY, corpus, order, smoothing))


@given(lines, orders, st.sampled_from(BOUNDED), st.integers(1, 9))
def test_blocks_change_no_bit(train: list[str], order: int, smoothing: str, n_grams: int) -> None:
    corpus = corpus_of(train)
    assert_same(
        model_in(Room(n_grams=n_grams), corpus, order, smoothing), model_in(IN_MEMORY, corpus, order, smoothing)
    )


@pytest.mark.parametrize("smoothing", ["mkn", "katz", "addk,k=0.1"])
def test_the_same_model_of_a_real_text(data_folder: object, smoothing: str) -> None:
    corpus = lmzoo.load_corpus("timemachine", tokens="word")
    assert_same(bounded(corpus, 4, smoothing, (500, 3000, 400)), model_in(IN_MEMORY, corpus, 4, smoothing))
