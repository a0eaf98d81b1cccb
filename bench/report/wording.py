"""Numbers as people read them: rounded, with units; `n/a` for what does not exist, `inf` for the infinite."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction

NOT_AVAILABLE = "n/a"
# in place of a tokenizer: a compressor has no tokens
TEXT_ITSELF = "text"
NOT_REACHED = "not reached"
_TURNING = ("R", "AL", "AN", "RLE", "RLO", "LRE", "LRO")
# what opens and closes an isolate: inside a name it would close that of the name, or leave it open
_ISOLATING = ("LRI", "RLI", "FSI", "PDI")
# all signs that say nothing but how others run
DIRECTING = (*_ISOLATING, "RLE", "RLO", "LRE", "LRO", "PDF")
# a name as `isolated` writes it
_ISOLATED = re.compile("\u2068([^\u2066-\u2069]*)\u2069")
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_COUNT_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def rounded(value: float | None, digits: int = 3) -> str:
    """So many significant digits, whole digits are not rounded away; an exponent only far from everyday sizes."""
    if value is None:
        return NOT_AVAILABLE
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if not -12 <= decimals <= 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(decimals, 0)}f}"


def perplexity(value: float | None) -> str:
    return rounded(value, 4)


def interval(low: float | None, high: float | None) -> str:
    return NOT_AVAILABLE if low is None or high is None else f"{perplexity(low)} to {perplexity(high)}"


def with_interval(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """A figure with its interval in brackets, where it has one."""
    text = rounded(value, digits)
    return text if low is None or high is None else f"{text} ({rounded(low, digits)} to {rounded(high, digits)})"


def seconds(value: float | None) -> str:
    return f"{rounded(value)} s" if value is not None and math.isfinite(value) else rounded(value)


def size(n_bytes: float | None, digits: int = 3) -> str:
    """Bytes in the binary unit that leaves 1 to 1,023 of them."""
    if n_bytes is None or not math.isfinite(n_bytes):
        return rounded(n_bytes)
    step = min(max(int(math.log2(max(abs(n_bytes), 1)) // 10), 0), len(_BYTE_UNITS) - 1)
    return f"{rounded(n_bytes / 1024**step, digits)} {_BYTE_UNITS[step]}"


def count(value: float | None, digits: int = 3) -> str:
    """A number of things with a few digits and k, M or G."""
    if value is None or not math.isfinite(value):
        return rounded(value)
    for unit, letter in _COUNT_UNITS:
        if abs(value) >= unit:
            return f"{rounded(value / unit, digits)} {letter}"
    return f"{value:.0f}" if value == int(value) else rounded(value, digits)


def percent(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else f"{rounded(100 * share)} %"


def fraction(share: float) -> str:
    """1/16 rather than 0.0625, where it is such a share."""
    near = Fraction(share).limit_denominator(1024)
    return str(near) if abs(near - share) < 1e-9 else f"{share:g}"


def p_value(p: float | None) -> str:
    if p is None:
        return NOT_AVAILABLE
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def isolated(name: str) -> str:
    """A name that leaves the order of the words around it alone, whatever direction its own signs run in."""
    name = "".join(spelt(sign) if unicodedata.bidirectional(sign) in _ISOLATING else sign for sign in name)
    is_simple = all(unicodedata.bidirectional(sign) not in _TURNING for sign in name)
    return name if is_simple else f"\u2068{name}\u2069"


def spelt(sign: str) -> str:
    """A sign as Python writes it, where it may not stand as it is: `\\u202e`."""
    return sign.encode("unicode_escape").decode("ascii")


def plain(text: str) -> str:
    """A text on one line without signs that a terminal would obey, these spelt out.

    So are signs that would turn what stands beside them, but for the two around a name that `isolated` wrote.
    """
    # every second part is what stands between such two
    parts = map(_without_orders, _ISOLATED.split(" ".join(text.split())))
    return "".join(f"\u2068{part}\u2069" if place % 2 else part for place, part in enumerate(parts))


def _without_orders(text: str) -> str:
    return "".join(ascii(sign)[1:-1] if _is_order(sign) else sign for sign in text)


def _is_order(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs") or unicodedata.bidirectional(sign) in DIRECTING


def named(names: Sequence[str]) -> str:
    """Names inside a sentence, `a, b and c`, none of which turns the words around it."""
    return listed([isolated(name) for name in names])


def listed(names: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; with another word before the last one."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
