"""Sorting keys with their places, whichever way their size asks for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.ngram import runs
from lmzoo.ngram.runs import sorted_with_places


# 8 bits of place leave 55 for keys: keys that fit, keys in two groups to 128, and keys beyond what groups can do
@pytest.mark.parametrize("most_groups", [1 << 16, 4])
@given(st.sampled_from([10, 54, 55, 56, 58, 61, 62]), st.data())
def test_it_is_the_stable_sort(most_groups: int, n_bits: int, data: st.DataObject) -> None:
    most = (1 << n_bits) - 1
    keys = data.draw(st.lists(st.integers(0, most) | st.sampled_from([0, most, most // 2]), max_size=150))
    keys_M = np.array([*keys, *keys[:100]], np.int64)
    wanted_M = np.argsort(keys_M, kind="stable")
    before, runs._MOST_GROUPS = runs._MOST_GROUPS, most_groups
    try:
        sorted_M, place_M = sorted_with_places(keys_M.copy(), most)
    finally:
        runs._MOST_GROUPS = before
    assert place_M.tolist() == wanted_M.tolist()
    assert sorted_M.tolist() == keys_M[wanted_M].tolist()
