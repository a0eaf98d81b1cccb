"""Tallies: sums first, divided last."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.errors import NotNormalizedError, TallyMismatchError
from lmzoo.tally import Tally

pytestmark = pytest.mark.plain

LN2 = math.log(2)

tallies = st.builds(
    Tally,
    # whole numbers of nats, so that sums are exact in any order
    nll_nats=st.integers(0, 1000).map(float),
    n_tokens=st.integers(1, 1000),
    n_chars=st.integers(1, 1000),
    n_bytes=st.integers(1, 1000),
    n_oov=st.just(0),
    spelling_nats=st.integers(0, 100).map(float),
    unit=st.sampled_from(["", "v"]),
    chars_known=st.booleans(),
    bytes_known=st.booleans(),
    ends_known=st.booleans(),
    is_normalized=st.booleans(),
)


def explicit(tally):
    """The same with what is derived written out, so that equal figures compare equal."""
    return dataclasses.replace(tally, finite_nll_nats=tally._finite_nll_nats)


class TestAdding:
    @given(tallies, tallies, tallies)
    def test_order_and_grouping_do_not_matter(self, a, b, c):
        assert explicit(a + b) == explicit(b + a)
        assert explicit((a + b) + c) == explicit(a + (b + c))

    @given(tallies)
    def test_an_empty_tally_is_zero(self, a):
        assert explicit(a + Tally()) == explicit(a)
        assert explicit(sum([a])) == explicit(a)

    def test_averages_are_never_averaged(self):
        # ten chunks of 35 tokens at 2.0 nats and one of 3 at 6.0: 718 nats over 353 tokens
        chunks = [Tally(nll_nats=70.0, n_tokens=35)] * 10 + [Tally(nll_nats=18.0, n_tokens=3)]
        assert sum(chunks).perplexity == pytest.approx(math.exp(718 / 353))
        assert sum(chunks).perplexity == pytest.approx(7.64, abs=0.005)  # the mean of means would give 10.63

    def test_unlike_vocabularies_do_not_add(self):
        with pytest.raises(TallyMismatchError, match="vocabularies x and y cannot be added"):
            Tally(unit="x") + Tally(unit="y")

    def test_it_adds_to_nothing_but_tallies(self):
        with pytest.raises(TypeError):
            Tally() + 1
        with pytest.raises(TypeError):
            1 + Tally()

    def test_one_part_that_is_no_distribution_spoils_the_sum(self):
        mixed = Tally(nll_nats=1.0, n_tokens=1) + Tally(nll_nats=1.0, n_tokens=1, is_normalized=False)
        for figure in ("perplexity", "perplexity_no_oov", "bits_per_char", "bits_per_byte"):
            with pytest.raises(NotNormalizedError, match="no perplexity"):
                getattr(dataclasses.replace(mixed, n_chars=1, n_bytes=1), figure)


class TestPerplexity:
    def test_of_a_half_and_a_quarter(self):
        # 1/2 and 1/8: the geometric mean of 2 and 8 is 4
        assert Tally(nll_nats=LN2 + 3 * LN2, n_tokens=2).perplexity == pytest.approx(4.0)

    def test_without_oov_sum_and_count_match(self):
        # three tokens at 1/2, an unknown one at 1/1024
        tally = Tally(nll_nats=13 * LN2, n_tokens=4, n_oov=1, oov_nll_nats=10 * LN2)
        assert tally.perplexity == pytest.approx(2 ** (13 / 4))
        assert tally.perplexity_no_oov == pytest.approx(2.0)

    def test_an_impossible_token_makes_it_infinite(self):
        tally = Tally(nll_nats=math.inf, n_tokens=3, n_zero=1, finite_nll_nats=2 * LN2)
        assert tally.perplexity == math.inf
        assert tally.perplexity_no_oov == math.inf

    def test_an_impossible_unknown_token_does_so_only_with_oov(self):
        tally = Tally(
            nll_nats=math.inf,
            n_tokens=3,
            n_oov=1,
            n_zero=1,
            n_oov_zero=1,
            oov_nll_nats=math.inf,
            finite_nll_nats=2 * LN2,
        )
        assert tally.perplexity == math.inf
        assert tally.perplexity_no_oov == pytest.approx(2.0)
        assert (tally + tally).perplexity_no_oov == pytest.approx(2.0)

    def test_beyond_the_largest_float_it_is_infinite(self):
        assert Tally(nll_nats=1e6, n_tokens=1).perplexity == math.inf

    def test_of_nothing_there_is_none(self):
        assert math.isnan(Tally().perplexity)
        assert math.isnan(Tally().nats_per_token)


class TestBits:
    def test_by_hand(self):
        # 12 bits for 4 characters of 6 bytes; another 6 bits spell the unknown one
        tally = Tally(nll_nats=12 * LN2, n_tokens=4, n_chars=4, n_bytes=6, n_oov=1, spelling_nats=6 * LN2)
        assert tally.bits_per_char == pytest.approx(18 / 4)
        assert tally.bits_per_byte == pytest.approx(18 / 6)
        assert tally.perplexity == pytest.approx(2 ** (12 / 4))  # spelling is no part of it

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"n_chars": 0, "n_bytes": 0}, "no (characters|bytes) were counted"),
            ({"n_chars": 3, "n_bytes": 3, "chars_known": False, "bytes_known": False}, "tokens do not give back"),
            ({"n_chars": 3, "n_bytes": 3, "ends_known": False}, "predicts no line ends"),
        ],
    )
    def test_where_there_are_none_there_is_a_reason(self, fields, reason):
        tally = Tally(nll_nats=1.0, n_tokens=1, **fields)
        assert tally.bits_per_char is None
        assert tally.bits_per_byte is None
        assert re.search(reason, tally.bits_per_char_reason)
        assert re.search(reason, tally.bits_per_byte_reason)

    def test_a_lossy_normaliser_and_lossy_tokens_are_told_apart(self):
        tally = Tally(nll_nats=LN2, n_tokens=1, n_chars=1, n_bytes=2, bytes_known=False)
        assert tally.bits_per_char == pytest.approx(1)
        assert tally.bits_per_byte_reason == "the normaliser does not give back the text as read"
