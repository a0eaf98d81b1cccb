"""Figures of a scored split, and its blocks: in every unit they add up to the whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.quality import blocks_record, tally_record
from bench.records import Measured, TrialRecord
from lmzoo.corpus import Split, corpus_from_texts, encode_split
from lmzoo.evaluation import block_bounds, tally_of
from lmzoo.tally import Tally
from tests.bench.stubs import make_record, make_trial
from tests.bench.test_throughput import Clock, Uniform

WORDS = st.text("abcé山", min_size=1, max_size=6)
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8)


def encoded(train: str, test: str, **how: Any) -> Split:
    return corpus_from_texts({"train": train, "valid": train, "test": test}, **how).test


def blocks_of(split: Split, nats_N: Any = None) -> dict[str, Any]:
    nats_N = np.random.default_rng(0).gamma(2.0, size=split.n_tokens) if nats_N is None else nats_N
    return blocks_record(split, nats_N, tally_of(Uniform(split.vocab, Clock()), split, nats_N))


def measured(split: Split, nats_N: Any) -> Measured:
    """Everything that a record holds of a text scored so; anything that does not add up raises."""
    tally = tally_of(Uniform(split.vocab, Clock()), split, nats_N)
    other = make_record(make_trial()).measured
    assert other is not None
    own = {"test": tally_record(tally), **blocks_record(split, nats_N, tally)}
    return Measured.model_validate(other.model_dump() | own)


def test_a_tally_without_known_tokens_has_a_reason_for_each_missing_figure() -> None:
    # 2 tokens, both out of vocabulary, 1 nat each; characters unknown
    tally = Tally(nll_nats=2.0, n_tokens=2, n_oov=2, oov_nll_nats=2.0, chars_known=False, bytes_known=False)
    record = tally_record(tally)
    assert record.perplexity.value == pytest.approx(math.e)
    assert record.perplexity_no_oov.reason == "every token is out of vocabulary"
    assert record.bits_per_char.reason
    assert record.bits_per_byte.reason


@pytest.mark.parametrize("tokens", ["char", "word"])
@pytest.mark.parametrize("documents", ["file", "line", "running"])
@given(lines=LINES, seed=st.integers(0, 9), has_infinite=st.booleans())
def test_the_blocks_of_any_text_add_up(
    tokens: str, documents: str, lines: list[str], seed: int, has_infinite: bool
) -> None:
    split = encoded("a b ab\n" * 3, "\n".join(lines), tokens=tokens, documents=documents)
    nats_N = np.random.default_rng(seed).gamma(2.0, size=split.n_tokens)
    if has_infinite:
        nats_N[seed % split.n_tokens] = math.inf
    # the record checks the sums itself, whole documents and pieces alike
    held = measured(split, nats_N)
    assert len(held.block_tokens) == len(block_bounds(split))
    assert all(size >= 0 for size in (*held.block_chars, *held.block_bytes))
    assert (len(held.block_chars) > 0) == (held.test.bits_per_char.number is not None)


def test_one_character_tokens_are_counted_exactly() -> None:
    # 200 tokens in 100 pieces: 2 characters each, of 3 bytes where one is an é, else of 2
    split = encoded("ab é\n", "aé" * 50 + "ab" * 50, tokens="char")
    held = blocks_of(split)
    assert held["block_chars"] == pytest.approx([2.0] * 100)
    assert held["block_bytes"] == pytest.approx([3.0] * 50 + [2.0] * 50)


def test_words_take_the_space_after_them_and_line_ends_nothing_more() -> None:
    # one running document of 2 lines, cut after each token: "a ", "bcd\n", then </s> for nothing, and again
    split = encoded("a bcd\n" * 9, "a bcd\na bcd\n", tokens="word", documents="running")
    held = blocks_of(split)
    assert held["block_tokens"] == (1,) * 6
    assert held["block_chars"] == pytest.approx([2, 4, 0, 2, 4, 0])


def test_an_unknown_word_is_taken_for_a_mean_one_and_the_document_keeps_its_size() -> None:
    # known: a (2 with its space) and bcd (4), mean 3; written 2 + 4 + 3 = 9 where the text has 2 + 4 + 8 = 14
    split = encoded("a bcd\n" * 9, "a bcd unknown\n", tokens="word", documents="running")
    held = blocks_of(split)
    assert held["block_chars"] == pytest.approx([2 * 14 / 9, 4 * 14 / 9, 3 * 14 / 9, 0])
    assert held["block_known_tokens"] == (1, 1, 0, 1)
    assert held["block_spelling_nats"][2] > 0 == held["block_spelling_nats"][0]


def test_known_nats_leave_out_what_is_unknown() -> None:
    split = encoded("ab" * 20, "aabz", tokens="char")
    held = blocks_of(split, np.array([1.0, math.inf, 2.0, math.inf]))
    # infinite where a known token is impossible, and only there
    assert held["block_known_nats"] == (1.0, None, 2.0, 0.0)
    assert held["block_nats"] == (1.0, None, 2.0, None)


def test_without_characters_there_are_no_blocks_of_them() -> None:
    split = encoded("a  b\n" * 9, "a  b\n" * 60, tokens="word")
    held = blocks_of(split)
    assert (held["block_chars"], held["block_bytes"], held["block_spelling_nats"]) == ((), (), ())
    lowered = encoded("A b\n" * 9, "A b\n" * 50, tokens="char", normalize="lower")
    assert len(blocks_of(lowered)["block_chars"]) == 100
    assert blocks_of(lowered)["block_bytes"] == ()


@given(st.integers(1001, 4000))
def test_many_documents_are_joined_into_a_thousand_blocks(n_documents: int) -> None:
    split = encode_split("test", ["ab"] * n_documents, encoded("ab\n", "ab\n", documents="line").vocab, "line")
    bounds = block_bounds(split)
    assert len(bounds) == 1000
    assert [start for start, _ in bounds[1:]] == [end for _, end in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, split.n_tokens)
    # whole documents, and none of the blocks much larger than another
    sizes = {(end - start) / 3 for start, end in bounds}
    assert sizes <= {n_documents // 1000, n_documents // 1000 + 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block_tokens": (2, 3)}, "tokens: the blocks' sum is 5, that of the test text is 4"),
        ({"block_nats": (1.3862943611198906, 1.38629437)}, "nats"),
        ({"block_nats": (1.3862943611198906, None)}, "nats"),
        ({"block_nats": (2.772588722239781,)}, "2 blocks have tokens, but block_nats holds 1"),
        ({"block_chars": (2.0, 2.1)}, "characters"),
        ({"block_bytes": (2.0, 1.9)}, "bytes"),
        ({"block_bytes": (4.0,)}, "block_bytes holds 1"),
        ({"block_known_tokens": (2, 1)}, "known tokens"),
        ({"block_known_nats": (1.3862943611198906, 0.0)}, "known nats"),
        ({"block_spelling_nats": (0.0, 0.1)}, "spelling"),
    ],
)
def test_blocks_that_do_not_add_up_make_a_record_unreadable(change: dict[str, Any], said: str) -> None:
    record = make_record(make_trial())
    whole = record.model_dump()
    whole["measured"] |= {
        "block_chars": (2.0, 2.0),
        "block_bytes": (2.0, 2.0),
        "block_spelling_nats": (0.0, 0.0),
        "block_known_nats": record.measured.block_nats if record.measured else (),
        "block_known_tokens": (2, 2),
    }
    assert TrialRecord.model_validate(whole).measured is not None
    whole["measured"] |= change
    with pytest.raises(ValidationError, match=said):
        TrialRecord.model_validate(whole)


@given(lines=LINES, seed=st.integers(0, 9))
def test_pieces_are_the_same_text_for_every_tokenizer(lines: list[str], seed: int) -> None:
    text = "\n".join(lines) * 9
    found = {}
    for tokens in ("char", "word"):
        split = encoded("a b ab\n" * 3, text, tokens=tokens, documents="file")
        nats_N = np.random.default_rng(seed).gamma(2.0, size=split.n_tokens)
        held = measured(split, nats_N)
        if held.text_nats:
            # their nats are all of the text's, spelling included
            assert sum(n or 0 for n in held.text_nats) == pytest.approx(nats_N.sum() + split.spelling_nats_M.sum())
            found[tokens] = held.text_chars, held.text_bytes
    assert len(set(found.values())) == 1
    chars, sizes = found["char"]
    assert sum(chars) == len(text)
    assert sum(sizes) == len(text.encode())


def test_a_token_across_a_bound_belongs_to_both_by_its_characters() -> None:
    # 200 characters make 100 pieces of 2: "abc" is a piece and a half, its space the other half
    split = encoded("abc d\n", "abc " * 49 + "abcd", tokens="word", documents="file")
    nats_N = np.where(np.arange(50) == 1, 8.0, 0.0)
    pieces = blocks_of(split, nats_N)["text_nats"]
    # the second word with its space: characters 4 to 8, which are the pieces 2 and 3
    assert pieces[:5] == pytest.approx([0, 0, 4, 4, 0])


def test_what_is_impossible_makes_every_piece_impossible_that_has_some_of_it() -> None:
    split = encoded("abcd d\n", "abcd" * 49 + "abcd", tokens="char")
    nats_N = np.where(np.arange(200) == 5, math.inf, 1.0)
    pieces = blocks_of(split, nats_N)["text_nats"]
    assert [n for n, nats in enumerate(pieces) if nats is None] == [2]
    assert pieces[3] == pytest.approx(2.0)


def test_enough_documents_need_no_pieces() -> None:
    assert "text_nats" not in blocks_of(encoded("ab\n" * 9, "ab\n" * 60, documents="line"))
