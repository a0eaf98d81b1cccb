"""What a compressor codes: the text itself, whatever cuts it into tokens, and what a Tally of its code may tell."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.coding import code_tally, coded_bytes
from lmzoo.corpus import Corpus, Split, corpus_from_texts
from lmzoo.errors import NotNormalizedError

pytestmark = pytest.mark.plain

LINES = st.lists(st.text("ab é山\t", min_size=1, max_size=9).filter(str.strip), min_size=2, max_size=9)


def corpus(train: str = "a b ab\n" * 4, test: str = "ab a b\n", **how: Any) -> Corpus:
    return corpus_from_texts({"train": train, "valid": train, "test": test}, **how)


@pytest.mark.parametrize("tokens", ["char", "word"])
@pytest.mark.parametrize("documents", ["file", "line", "running"])
@given(lines=LINES)
def test_every_character_is_coded_once(tokens: str, documents: str, lines: list[str]) -> None:
    split = corpus(test="\n".join(lines) + "\n", tokens=tokens, documents=documents).test
    coded = coded_bytes(split)
    assert len(coded) == int(split.bytes_D.sum())
    assert len(coded.decode()) == int(split.chars_D.sum())
    assert coded.decode().rstrip("\n").split("\n") == lines


def test_a_document_that_is_cut_inside_a_character_is_coded_up_to_there() -> None:
    # e5 b1 b1 is 山: of the six tokens, three are the a and two of its bytes
    train = corpus(train="a山b\n", tokens="byte", documents="file").with_train_fraction(0.5).train
    assert coded_bytes(train) == b"a\xe5\xb1"


def test_what_the_normaliser_changes_is_not_coded() -> None:
    assert coded_bytes(corpus(test="The É 1!\n", normalize="lower").test) == "the é 1!\n".encode()


@pytest.mark.parametrize(
    ("documents", "fraction", "left"),
    [("file", 0.5, b"abc\ndef\n"), ("running", 0.25, b"abc\n"), ("line", 0.5, b"abc\ndef\n"), ("line", 0.1, b"abc\n")],
)
def test_a_share_of_the_training_text_is_what_its_tokens_are(documents: str, fraction: float, left: bytes) -> None:
    # 16 tokens, the line ends among them; of lines whole ones are taken
    train = corpus(train="abc\ndef\nghi\njkl\n", documents=documents).with_train_fraction(fraction).train
    assert coded_bytes(train) == left


def test_a_code_has_bits_by_its_text_and_a_perplexity_by_its_tokens() -> None:
    # "ab a b" and its line end: 7 characters, 7 tokens; 14 bits
    tally = code_tally(14 * math.log(2), corpus(documents="line").test)
    assert (tally.bits_per_char, tally.bits_per_byte) == (pytest.approx(2.0), pytest.approx(2.0))
    assert tally.perplexity == pytest.approx(4.0)
    assert tally.perplexity_reason is None


@pytest.mark.parametrize(
    "split",
    [corpus(test="ab x\n").test, corpus(test="ab  a\n", tokens="word").test],
    ids=["a character that is unknown", "white space that words drop"],
)
def test_where_the_code_tells_more_than_the_tokens_there_is_no_perplexity(split: Split) -> None:
    tally = code_tally(10.0, split)
    assert tally.bits_per_byte == pytest.approx(10 / math.log(2) / int(split.bytes_D.sum()))
    for name in ("perplexity", "perplexity_no_oov"):
        with pytest.raises(NotNormalizedError, match="take bits_per_char or bits_per_byte"):
            getattr(tally, name)
    assert sum([tally, tally]).perplexity_reason == tally.perplexity_reason


def test_a_normaliser_that_loses_something_leaves_no_bits_per_byte() -> None:
    tally = code_tally(10.0, corpus(normalize="lower").test)
    assert tally.bits_per_byte is None
    assert tally.bits_per_char is not None
