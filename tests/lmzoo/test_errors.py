"""The tree of errors, and the hint at the closest name."""

from __future__ import annotations

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo import errors
from lmzoo.errors import DivergedError, InputError, LmzooError, MissingLibraryError, did_you_mean

pytestmark = pytest.mark.plain

CLASSES = {
    name: member
    for name, member in vars(errors).items()
    if inspect.isclass(member) and issubclass(member, Exception) and member.__module__ == errors.__name__
}


def drawn_tree() -> dict[str, str]:
    """Each class of the docstring's drawing and the one it hangs from."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│├└─\s]*)(\w+Error)", line)
        if match:
            depth = len(match[1]) // 4
            del above[depth:]
            if above:
                parents[match[2]] = above[-1]
            above.append(match[2])
    return parents


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    drawn = drawn_tree()
    assert set(drawn) == set(CLASSES) - {"LmzooError"}
    for child, parent in drawn.items():
        assert CLASSES[child].__mro__[1] is CLASSES[parent]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_one_except_clause_catches_all(name):
    assert issubclass(CLASSES[name], LmzooError)


def test_errors_are_also_what_python_calls_them():
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingLibraryError, ImportError)


def test_divergence_says_at_which_step():
    error = DivergedError(17)
    assert error.step == 17
    assert "step 17" in str(error)


def test_a_near_miss_is_answered_with_the_name_meant():
    assert did_you_mean("lstn", ["lstm", "gru", "rnn"]) == " Did you mean 'lstm'?"


def test_nothing_is_suggested_for_a_name_unlike_all():
    assert did_you_mean("zzzz", ["lstm", "gru"]) == ""


@given(st.text(min_size=1), st.lists(st.text()))
def test_a_name_that_is_there_is_its_own_closest(name, others):
    assert repr(name) in did_you_mean(name, [*others, name])
