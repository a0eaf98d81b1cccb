"""How time and memory of counting grow with the text, as a table and a plot:  python -m benchmarks.growth

Made-up text (see `synthetic.py`) as ids in memory; each order and size is counted and smoothed in processes of its own.
The fastest of them is shown: what others do on the machine can only add to it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.footprint import Counting, counting
from benchmarks.synthetic import encoded, zipf_text
from benchmarks.workbench import spec

_MILLION = 1_000_000
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Point:
    """A size, and what counting took there; None where it would not fit into the memory allowed."""

    order: int
    n_words: int
    taken: Counting | None


def factor_of_n_log_n(points: Sequence[Point]) -> float:
    """Seconds per unit of n log2 n: the geometric mean, which is the fit of least squares between logarithms."""
    logs = [math.log(p.taken.seconds / n_log_n(p.taken.n_tokens)) for p in points if p.taken is not None]
    return math.exp(sum(logs) / len(logs))


def n_log_n(n: float) -> float:
    """n log2 n, as sorting takes."""
    return n * math.log2(n)


def measured(
    sizes: Sequence[int], orders: Sequence[int], most_bytes: float, repeats: int, folder: Path
) -> Iterator[Point]:
    """Points from small to large; one that by the size before it would take more than `most_bytes` is left out."""
    for order in orders:
        bytes_per_word = 0.0
        # a first process says which modules counting loads on its way: they are loaded before the clock is started
        loaded = counting(spec(order), _encoded_text(sizes[0], folder)).loaded
        for n_words in sizes:
            taken = None
            if bytes_per_word * n_words <= most_bytes:
                text = _encoded_text(n_words, folder)
                runs = [counting(spec(order), text, *loaded) for _ in range(repeats)]
                taken = min(runs, key=lambda run: run.seconds)
                bytes_per_word = taken.peak_bytes / n_words
            yield Point(order=order, n_words=n_words, taken=taken)


def _encoded_text(n_words: int, folder: Path) -> Path:
    """A file of made-up ids, so that making them is no part of what is measured."""
    path = folder / f"{n_words}.npz"
    if not path.exists():
        with path.open("wb") as file:
            np.savez(file, **encoded(zipf_text(n_words, _SEED))._asdict())
    return path


def table(points: Sequence[Point], most_bytes: float) -> Iterator[str]:
    """Rows of Markdown, the fit of each order beside what was measured."""
    yield "| order | tokens | symbols | n-grams | seconds | ns per token | of the n log n fit | peak bytes per token |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for order in sorted({point.order for point in points}):
        group = [point for point in points if point.order == order]
        factor = factor_of_n_log_n(group)
        for point in group:
            yield _row(point, factor, most_bytes)


def _row(point: Point, factor: float, most_bytes: float) -> str:
    if point.taken is None:
        return f"| {point.order} | {point.n_words:,} | left out: more than {most_bytes / 1e9:g} GB | | | | | |"
    taken, n_tokens = point.taken, point.taken.n_tokens
    cells = (
        f"{point.order}",
        f"{n_tokens:,}",
        f"{taken.n_symbols:,}",
        f"{taken.n_grams:,}",
        f"{taken.seconds:.2f}",
        f"{taken.seconds / n_tokens * 1e9:.0f}",
        f"{taken.seconds / (factor * n_log_n(n_tokens)):.2f}",
        f"{taken.peak_bytes / n_tokens:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def plot(points: Sequence[Point], path: Path) -> None:
    """Seconds beside the fit, and bytes per token, over the size; the same file for the same figures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "growth", "svg.fonttype": "path"}):
        figure, (time_axes, memory_axes) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for order in sorted({point.order for point in points}):
            group = [point for point in points if point.order == order]
            taken = [point.taken for point in group if point.taken is not None]
            n_tokens = [t.n_tokens for t in taken]
            (line,) = time_axes.plot(n_tokens, [t.seconds for t in taken], "o", label=f"order {order}")
            fit = [factor_of_n_log_n(group) * n_log_n(n) for n in n_tokens]
            time_axes.plot(n_tokens, fit, "--", color=line.get_color(), label="n log n")
            memory_axes.plot(n_tokens, [t.peak_bytes / t.n_tokens for t in taken], "o-", label=f"order {order}")
        time_axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="seconds to count and smooth")
        memory_axes.set(xscale="log", xlabel="tokens", ylabel="peak bytes per token")
        memory_axes.set_ylim(bottom=0)
        for axes in (time_axes, memory_axes):
            axes.grid(alpha=0.3)
            axes.legend()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.split("\n")[0])
    parser.add_argument("--millions", default="1,4,16,64", help="sizes in millions of words (default: %(default)s)")
    parser.add_argument("--orders", default="3,5", help="(default: %(default)s)")
    parser.add_argument("--most-gb", type=float, default=12.0, help="sizes beyond it are left out (default: 12)")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each (default: 3)")
    parser.add_argument("--plot", type=Path, help="where a plot is written (an SVG)")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {options.repeats}")
    sizes = [round(float(part) * _MILLION) for part in options.millions.split(",")]
    orders = [int(part) for part in options.orders.split(",")]
    most_bytes = options.most_gb * 1e9
    with tempfile.TemporaryDirectory() as folder:
        points = list(measured(sorted(sizes), orders, most_bytes, options.repeats, Path(folder)))
    print("\n".join(table(points, most_bytes)))
    if options.plot is not None:
        plot(points, options.plot)


if __name__ == "__main__":
    main()
