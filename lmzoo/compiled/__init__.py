"""Loops that numpy has no words for, compiled by numba where the extra `fast` is installed.

Every function here has a twin in numpy that gives the same answer to the last bit and carries the package alone.  The
modules of this package import numba when they are imported, so they are imported only where `is_worth_it` says so:
loading numba takes about half a second and 80 MB, which a small text never earns back.  Compiled code is kept on disk
(numba's cache), so only the first use on a machine compiles.

`LMZOO_COMPILED=0` never takes the compiled path, `LMZOO_COMPILED=1` always does.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache

VARIABLE = "LMZOO_COMPILED"

# what loading numba and its cached code takes, and what calling it takes once it is there
_LOADING_NS = 600_000_000
_CALLING_NS = 50_000


def is_worth_it(n_items: int, saved_ns: int) -> bool:
    """Whether the compiled path pays for so many items, each of which it does so many nanoseconds faster."""
    wanted = os.environ.get(VARIABLE)
    if wanted in ("0", "1"):
        return wanted == "1" and _is_installed()
    cost_ns = _CALLING_NS if "numba" in sys.modules else _LOADING_NS
    return n_items * saved_ns > cost_ns and _is_installed()


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None
