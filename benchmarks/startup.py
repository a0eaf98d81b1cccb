"""How long the first answer takes: `python -m benchmarks.startup` prints medians over fresh processes.

What a bare interpreter takes is told beside them and is in them; limits are those that the project promises.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_N_RUNS = 15

# arguments of the interpreter, and the seconds promised
CASES: dict[str, tuple[Sequence[str], float | None]] = {
    "a bare interpreter": (("-c", ""), None),
    "import lmzoo": (("-c", "import lmzoo"), 0.15),
    "python -m lmzoo --help": (("-m", "lmzoo", "--help"), 0.3),
    "python -m lmzoo models": (("-m", "lmzoo", "models"), None),
}


def seconds(arguments: Sequence[str]) -> float:
    """Wall-clock seconds of one fresh process, from start to end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def lines(n_runs: int = _N_RUNS) -> list[str]:
    """A row per case: median and range; the cases take turns, so that other load meets all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(n_runs):
        for name, (arguments, _) in CASES.items():
            taken[name].append(seconds(arguments))
    rows = ["| what | median s | least | most | promised |", "|---|---|---|---|---|"]
    for name, (_, promised) in CASES.items():
        found = taken[name]
        limit = "" if promised is None else f"{promised:g}"
        rows.append(f"| `{name}` | {statistics.median(found):.3f} | {min(found):.3f} | {max(found):.3f} | {limit} |")
    return rows


if __name__ == "__main__":
    print(*lines(), sep="\n")
