"""Student's t distribution, without a library that would be loaded for it alone."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

# of a two-sided test, and what 95 % intervals leave out
LEVEL = 0.05


def student_t_p(t: float, df: float) -> float:
    """P(|T| > |t|) of Student's t with `df` (above 0) degrees of freedom."""
    return 1.0 if t == 0 else _incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(maxsize=4096)
def student_t_quantile(df: float, level: float = LEVEL) -> float:
    """The t beyond which, on both sides together, `level` of Student's distribution lies."""
    low, high = 0.0, 2.0
    while student_t_p(high, df) > level:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_p(middle, df) > level else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b) for 0 <= x <= 1 (DLMF 8.17.22, its continued fraction)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # the fraction converges fast only left of the mean
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) by the modified method of Lentz."""
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for n in itertools.count(1):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + term * d) or tiny)
        c = (1 + term / c) or tiny
        value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value
