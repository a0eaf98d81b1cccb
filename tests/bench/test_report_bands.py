"""Curves of several seeds as one band, and what it says between its places."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.bands import band_of

positive = st.floats(0.1, 1000.0)
curves = st.lists(st.tuples(positive, positive), min_size=1, max_size=6, unique_by=lambda point: point[0]).map(sorted)


@given(curve=curves)
def test_a_single_curve_is_its_own_band(curve: list[tuple[float, float]]) -> None:
    band = band_of([curve])
    assert list(zip(band.xs, band.middle, strict=True)) == curve
    assert band.low == band.middle == band.high


@given(several=st.lists(curves, min_size=1, max_size=4))
def test_the_median_and_every_seed_lie_inside_the_band(several: list[list[tuple[float, float]]]) -> None:
    band = band_of(several)
    assert list(band.xs) == sorted({x for curve in several for x, _ in curve})
    ends = {x: (low, high) for x, low, high in zip(band.xs, band.low, band.high, strict=True)}
    for curve in several:
        assert all(ends[x][0] <= y <= ends[x][1] for x, y in curve)
    for low, middle, high in zip(band.low, band.middle, band.high, strict=True):
        assert low * (1 - 1e-12) <= middle <= high * (1 + 1e-12)


def test_between_its_validations_a_seed_is_on_the_line_of_logarithmic_axes() -> None:
    # half the way from 1 to 4 on a logarithmic axis is 2; of 16 and 4 it is 8
    band = band_of([[(1.0, 16.0), (4.0, 4.0)], [(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]])
    assert band.xs == (1.0, 2.0, 4.0)
    assert band.high == pytest.approx((16.0, 8.0, 4.0))
    assert band.low == (2.0, 2.0, 2.0)
    # of two seeds, the geometric mean
    assert band.middle == pytest.approx((math.sqrt(32), 4.0, math.sqrt(8)))
    assert band.at(math.sqrt(2)) == pytest.approx(math.exp((math.log(math.sqrt(32)) + math.log(4)) / 2))
    assert band.at(0.9) is None
    assert band.at(4.1) is None


def test_three_seeds_have_the_middle_one() -> None:
    band = band_of([[(1.0, 5.0)], [(1.0, 9.0)], [(1.0, 6.0)]])
    assert (band.low, band.middle, band.high) == ((5.0,), (6.0,), (9.0,))


def test_clocks_that_end_a_little_apart_do_not_tear_the_band() -> None:
    band = band_of([[(1.0, 8.0), (10.0, 4.0)], [(1.0, 8.0), (10.2, 2.0)]])
    assert band.high[-1] == 4.0
    # a seed that ended long before is not there any more
    band = band_of([[(1.0, 8.0), (5.0, 4.0)], [(1.0, 8.0), (10.0, 2.0)]])
    assert band.high[-1] == band.low[-1] == 2.0


def test_of_two_validations_at_one_place_the_last_counts() -> None:
    assert band_of([[(1.0, 8.0), (1.0, 7.0)], []]).middle == (7.0,)
