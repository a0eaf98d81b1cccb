"""How long the first answer takes: `python -m benchmarks.startup` prints medians over fresh processes.

What a bare interpreter takes is told beside them and is in them.  Beside other load a process waits for its turn: the
processor's own seconds (user and system) are what is left of the wall clock's when it need not.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[1]
_N_RUNS = 15

# arguments of the interpreter, and the seconds promised
CASES: dict[str, tuple[Sequence[str], float | None]] = {
    "a bare interpreter": (("-c", ""), None),
    "import lmzoo": (("-c", "import lmzoo"), 0.15),
    "python -m lmzoo --help": (("-m", "lmzoo", "--help"), 0.3),
    "python -m lmzoo models": (("-m", "lmzoo", "models"), None),
}


class Taken(NamedTuple):
    """Seconds of one process, from start to end."""

    wall_s: float
    processor_s: float


def taken(arguments: Sequence[str]) -> Taken:
    """What one fresh process takes."""
    start, before_s = time.perf_counter(), _processor_s()
    subprocess.run([sys.executable, *arguments], cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
    return Taken(time.perf_counter() - start, _processor_s() - before_s)


def _processor_s() -> float:
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lines(n_runs: int = _N_RUNS) -> list[str]:
    """A row per case: medians; the cases take turns, so that other load meets all of them alike."""
    runs: dict[str, list[Taken]] = {name: [] for name in CASES}
    for _ in range(n_runs):
        for name, (arguments, _) in CASES.items():
            runs[name].append(taken(arguments))
    rows = ["| what | wall s | processor s | promised s |", "|---|---:|---:|---:|"]
    for name, (_, promised) in CASES.items():
        wall_s, processor_s = (statistics.median(column) for column in zip(*runs[name], strict=True))
        rows.append(f"| `{name}` | {wall_s:.3f} | {processor_s:.3f} | {'' if promised is None else promised} |")
    return rows


if __name__ == "__main__":
    print(*lines(), sep="\n")
