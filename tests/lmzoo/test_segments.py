"""Segments: texts held once, seen as a sequence of strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.segments import Segments

pytestmark = pytest.mark.plain

texts = st.text(st.sampled_from("a \t\n\u00e9\u4e2d\U0001f600\ud800\x85"), max_size=8)
many_texts = st.lists(texts, max_size=8)
lines = st.lists(st.text(st.sampled_from("a \t\u00e9\u00a0"), max_size=4), min_size=1, max_size=8)


@given(many_texts)
def test_they_are_the_texts_they_were_made_of(texts):
    segments = Segments.of(texts)
    assert list(segments) == [segments[s] for s in range(len(segments))] == texts
    assert [segments[s] for s in range(-len(texts), 0)] == texts
    assert segments.text == "".join(text + "\n" for text in texts)


@given(many_texts, st.slices(8))
def test_a_slice_is_that_of_a_list(texts, cut):
    assert list(Segments.of(texts)[cut]) == texts[cut]


@given(many_texts, st.slices(8), st.slices(4))
def test_a_slice_of_a_slice_keeps_its_sizes_and_lines(texts, first, second):
    segments, wanted = Segments.of(texts)[first][second], texts[first][second]
    assert segments.text == "".join(text + "\n" for text in wanted)
    assert segments.bytes_S.tolist() == [len(text.encode("utf-8", "surrogatepass")) for text in wanted]
    assert segments.chars_S.tolist() == [len(text) for text in wanted]
    assert segments.n_inner_ends == sum(text.count("\n") for text in wanted)
    assert list(segments.lines()) == [line for text in wanted for line in text.split("\n")]


def test_a_segment_beyond_the_last_is_an_index_error():
    with pytest.raises(IndexError, match="segment 2 of 2"):
        Segments.of(["a", "b"])[2]


def test_lines_longer_than_a_block_are_whole():
    texts = ["a" * 40_000, "b", "c" * 20_000 + "\n" + "d"]
    assert list(Segments.of(texts).lines()) == ["a" * 40_000, "b", "c" * 20_000, "d"]


@given(lines)
def test_the_lines_of_a_text_with_or_without_its_last_end(lines):
    text = "\n".join(lines)
    assert list(Segments.lines_of(text + "\n")) == lines
    assert list(Segments.lines_of(text)) == (lines if lines[-1] else lines[:-1])


@given(lines, st.slices(8))
def test_blank_lines_are_found(lines, cut):
    assert Segments.of(lines)[cut].have_blanks() == any(not line.strip(" \t") for line in lines[cut])


@given(lines, st.data())
def test_what_is_kept_and_joined(lines, data):
    keep = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    kept = Segments.of(lines).where(np.array(keep))
    assert list(kept) == [line for line, is_kept in zip(lines, keep, strict=True) if is_kept]
    is_first = [True, *data.draw(st.lists(st.booleans(), min_size=len(kept), max_size=len(kept)))][: len(kept)]
    blocks = []
    for line, opens in zip(kept, is_first, strict=True):
        blocks[len(blocks) - (not opens) :] = [line if opens else f"{blocks[-1]}\n{line}"]
    assert list(kept.joined(np.array(is_first, bool))) == blocks
