"""Loops that numpy has no words for, compiled by numba where the extra `fast` is installed.

Every function here has a twin in numpy that carries the package alone and gives the same answer: to the last bit, but
in the networks' cells to the rounding of float32, since BLAS adds in an order of its own.  The modules of this package
import numba when they are imported, so they are imported only where `is_worth_it` says so: loading numba takes about
half a second and 80 MB, which a small text never earns back.  Compiled code is kept on disk (numba's cache), so only
the first use on a machine compiles.

`LMZOO_COMPILED=0` never takes the compiled path, `LMZOO_COMPILED=1` always does.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

VARIABLE = "LMZOO_COMPILED"

# what loading numba and its cached code takes, and what calling it takes once it is there
_LOADING_NS = 600_000_000
_CALLING_NS = 50_000
# what a task has to gain to be counted towards loading
_MIDDLING_NS = 50_000_000

_MOST_THREADS = 256
_MOST_DIGITS = 10

# what compiled code would have saved so far
_missed_ns = 0


def is_worth_it(n_items: int, saved_ns: int) -> bool:
    """Whether the compiled path pays for so many items, each of which it does so many nanoseconds faster.

    Numba is loaded for a large task at once, for middling ones when together they would have paid for it.  Small ones
    never load it, however many: a small process stays small.
    """
    global _missed_ns
    wanted = os.environ.get(VARIABLE)
    if wanted in ("0", "1"):
        return wanted == "1" and _works()
    gain_ns = n_items * saved_ns
    if "numba" in sys.modules:
        return gain_ns > _CALLING_NS and _works()
    if gain_ns < _MIDDLING_NS or not _is_installed():
        return False
    _missed_ns += gain_ns
    return _missed_ns > _LOADING_NS and _works()


def can_be_used() -> bool:
    """Whether compiled code is allowed, installed and works here, for work that is known to be worth its loading."""
    return os.environ.get(VARIABLE) != "0" and _works()


class CompiledWarning(UserWarning):
    """Compiled code is installed and cannot be used, so numpy does the work."""


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


@cache
def _works() -> bool:
    """Whether numba can be loaded, can compile and can keep what it compiled; warns once if it is there and cannot."""
    if not _is_installed():
        return False
    try:
        from lmzoo.compiled.probe import one_more

        return bool(one_more(1) == 2)
    except Exception as error:
        # whatever it is (a broken installation, a cache that cannot be written or read), numpy does without
        reason = " ".join(str(error).split())
        warnings.warn(f"compiled code cannot be used here: {reason}", CompiledWarning, stacklevel=2)
        return False


def n_threads() -> int:
    """Threads to use: `OMP_NUM_THREADS` where it is set, as every numerical library has it, else the cores allowed."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdecimal() and len(given) < _MOST_DIGITS and int(given) > 0:
        return min(int(given), _MOST_THREADS)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(n_items: int, work: Callable[[int, int], None]) -> None:
    """Do `work(low, high)` for all of `n_items`, a share on each thread; what it calls has to let go of the GIL."""
    n_shares = min(n_threads(), n_items)
    if n_shares < 2:
        work(0, n_items)
        return
    bounds = [n_items * share // n_shares for share in range(n_shares + 1)]
    for done in [_pool(n_shares).submit(work, low, high) for low, high in itertools.pairwise(bounds)]:
        done.result()


@cache
def _pool(n_workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_workers, "lmzoo")


# a forked child has the pool but not its threads
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
