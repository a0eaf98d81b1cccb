"""The smallest compiled function: whether compiling, and keeping what was compiled, work here at all."""

from __future__ import annotations

from numba import njit


@njit(cache=True)  # type: ignore[untyped-decorator]
def one_more(number: int) -> int:
    """The number after it."""
    return number + 1
