"""e^x, tanh and sigmoid in float32, compiled so that loops over them vectorise: numba has no such code of its own.

Each takes a power of 2 out and leaves the rest to a polynomial; the tests hold them to float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# loops vectorise only where a division needs no check of its divisor; a + b*c may be one instruction
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}

_HALF, _1, _2 = (np.float32(x) for x in (0.5, 1, 2))
# e^x = 2^k e^r with x = k ln 2 + r, |r| <= ln(2)/2; ln 2 in two parts, the first of few bits, so that k ln 2 is exact
_LOG2_E = np.float32(1 / np.log(2))
_LN2_HIGH = np.float32(np.floor(np.log(2) * 2**12) / 2**12)
_LN2_LOW = np.float32(np.log(2) - np.floor(np.log(2) * 2**12) / 2**12)
# added to x, it rounds x to an integer and leaves that in the last bits
_ROUNDER = np.float32(1.5 * 2**23)
_EXPONENT_BIAS, _EXPONENT_AT = np.int32(127), np.int32(23)
# Taylor's series of e^r; what is left out is below 2^-27 of r
_3RD, _4TH, _5TH, _6TH, _7TH = (np.float32(1 / n) for n in (6, 24, 120, 720, 5040))
# tanh of more is 1 in float32; e^x of less is no normal number
_MOST_TANH = np.float32(9.1)
_LEAST_EXP = np.float32(-87)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def power_and_rest(x: Any) -> tuple[Any, Any]:
    """2^k and e^r - 1, so that e^x = 2^k e^r; x within -87 to 88."""
    shifted = np.float32(x * _LOG2_E + _ROUNDER)
    k = shifted - _ROUNDER
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    rest = ((((_7TH * r + _6TH) * r + _5TH) * r + _4TH) * r + _3RD) * r + _HALF
    power = np.int32((shifted.view(np.int32) + _EXPONENT_BIAS) << _EXPONENT_AT).view(np.float32)
    return power, rest * (r * r) + r


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def tanh(x: Any) -> Any:
    """Within 3 units of 2^-24, relative: (e^2x - 1) / (e^2x + 1), the numerator without cancellation near 0."""
    x = _MOST_TANH if x > _MOST_TANH else x
    x = -_MOST_TANH if x < -_MOST_TANH else x
    power, rest = power_and_rest(_2 * x)
    less_1 = power * rest + (power - _1)
    return less_1 / (less_1 + _2)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """By the tanh, so within 2^-24 absolutely."""
    return _HALF * tanh(_HALF * x) + _HALF


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def exp(x: Any) -> Any:
    """Within 3 units of 2^-24, relative, of x up to 0; the smallest normal numbers stand for what is below them."""
    power, rest = power_and_rest(_LEAST_EXP if x < _LEAST_EXP else x)
    return power * rest + power
