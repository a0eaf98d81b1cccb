"""The white space at the ends of documents that words drop: what is the same for all is free, all else is paid for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.corpus import corpus_from_texts, encode_split
from lmzoo.driver import train
from lmzoo.ends import Ends
from lmzoo.evaluation import document_tallies, evaluate, token_nats
from lmzoo.segments import Segments
from lmzoo.vocab import build_vocab

LN4 = math.log(4)
texts = st.lists(st.text("ab \t\n", max_size=6), max_size=12)


def nats(*texts: str) -> list[float]:
    found: list[float] = Ends().nats_of(Segments.of(texts)).tolist()
    return found


@pytest.mark.parametrize(
    "alike",
    [["a b", "c"], [" a ", " b c "], ["\ta\n", "\tb\n"], [" a ", "", "", " b "], [" a ", " ", " b ", " "], ["  a"]],
)
def test_what_all_have_is_free(alike: list[str]) -> None:
    assert nats(*alike) == [0.0] * len(alike)


def test_the_others_are_paid_for_by_how_often_they_were_there() -> None:
    # new among two: ln 3 and three signs of four; then once of three, twice of four, three times of five
    wanted = [0, 0, math.log(3) + 3 * LN4, math.log(4 / 1), math.log(5 / 2), math.log(6 / 3)]
    assert nats("a", "b", " c", " d", "e", "f") == pytest.approx(wanted)


def test_lines_without_text_are_told_by_having_no_tokens() -> None:
    assert nats(" a", " ", " b", "", " c") == pytest.approx([0.0, 0.0, 0.0, math.log(2) + 2 * LN4, 0.0])


@given(texts, st.integers(0, 12))
def test_it_goes_on_from_block_to_block(all_texts: list[str], n: int) -> None:
    ends = Ends()
    parts = [ends.nats_of(Segments.of(some)) for some in (all_texts[:n], all_texts[n:])]
    assert np.concatenate(parts).tolist() == nats(*all_texts)


@given(texts)
def test_a_slice_is_judged_by_itself(some: list[str]) -> None:
    assert Ends().nats_of(Segments.of(["  x ", *some])[1:]).tolist() == nats(*some)


@given(st.lists(st.sampled_from([0, 1, 2, 5]), min_size=1, max_size=60))
def test_no_code_is_shorter_than_the_orders_of_the_ends_allow(indents: list[int]) -> None:
    # what any code takes that knows how often each occurs; not knowing when the first one ends is what may be saved
    n, counts = len(indents), [indents.count(value) for value in set(indents)]
    least = math.lgamma(n + 1) - sum(math.lgamma(count + 1) for count in counts)
    assert sum(nats(*(" " * indent + "a" for indent in indents))) >= least - math.log(n + 1) - 1e-9


def indented(n: int, seed: int) -> str:
    drawing = np.random.default_rng(seed)
    statements = ("x = 1", "y = 2", "call()", "pass")
    return "".join(" " * drawing.integers(0, 41) + statements[drawing.integers(4)] + "\n" for _ in range(n))


def corpus_of_code() -> Any:
    parts = {name: indented(n, n) for name, n in (("train", 900), ("valid", 100), ("test", 400))}
    return corpus_from_texts(parts, tokens="word", documents="line", normalize="none")


def test_words_of_indented_lines_take_no_fewer_bits_than_the_lines_hold() -> None:
    corpus = corpus_of_code()
    tally = evaluate(train("ngram:smoothing=wb", corpus, seed=0), corpus.test)
    assert tally.bits_per_byte is not None
    # 41 indents and 4 statements, each as likely as the others
    assert tally.bits_per_byte * tally.n_bytes / 400 > 0.97 * (math.log2(41) + math.log2(4))


def test_documents_add_up_to_their_split() -> None:
    corpus = corpus_of_code()
    model: Any = train("unigram", corpus, seed=0)
    parts = document_tallies(model, corpus.test, token_nats(model, corpus.test))
    ends_nats = corpus.test.ends_nats_D.sum()
    assert ends_nats > 400
    assert sum(part.spelling_nats for part in parts) == pytest.approx(ends_nats)
    assert evaluate(model, corpus.test).spelling_nats == pytest.approx(ends_nats)


def test_characters_drop_nothing() -> None:
    split = encode_split("x", [" a", "b"], build_vocab(["a b"], tokenizer="char"), "line")
    assert split.ends_nats_D.tolist() == [0.0, 0.0]
