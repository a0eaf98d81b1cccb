"""The counting engine beside KenLM and nltk, as the tables of docs/figures.md.

    LMZOO_DATA=… KENLM_BIN=… python -m benchmarks.peers

Both sides of a comparison run in turn, A B A B, on the same fresh variant of the text, so that whatever slows the
machine slows both; a ratio is that of one such pair.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lmzoo
from benchmarks import kenlm_binaries, kenlm_module
from benchmarks.contests import CONTESTS, Contest, Side, load_compiled_code
from benchmarks.footprint import peak_of_program, peak_of_training
from benchmarks.workbench import SAVED_FORMS, Workbench, encoded, spec, write_lines
from lmzoo.budget import Stopwatch
from lmzoo.ngram.discounts import DiscountWarning

_ORDERS = (3, 5)
# distributions of the next token are summed before each of the first so many tokens of the test text
_CONTEXTS = 50
# at most so many bytes an n-gram
_MOST_BYTES = {"exact": 14, "8 bits": 6}


def paired_seconds(
    contest: Contest, bench: Workbench, rounds: int, new_watch: Callable[[], Stopwatch] = Stopwatch
) -> list[tuple[float, float]]:
    """Seconds per item of both sides in each round; a round before the first is not counted."""
    pairs = []
    for _ in range(rounds + 1):
        text = bench.variant()
        pairs.append(tuple(_seconds(side, bench, text, new_watch()) for side in (contest.ours, contest.theirs)))
    return [(ours, theirs) for ours, theirs in pairs[1:]]


def _seconds(side: Side, bench: Workbench, text: Path, watch: Stopwatch) -> float:
    act = side.prepare(bench, text)
    with watch.running():
        n_items = act()
    return watch.elapsed_s / n_items


def speed_row(contest: Contest, pairs: Sequence[tuple[float, float]]) -> str:
    """A row of the table: medians of both sides, how many times faster `ours` was in a pair, and the bar."""
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [their_s / our_s for our_s, their_s in pairs]
    cells = (
        contest.what,
        f"{contest.ours.name}: {spoken_seconds(ours)}/{contest.per}",
        f"{contest.theirs.name}: {spoken_seconds(theirs)}/{contest.per}",
        f"{statistics.median(ratios):,.3g} ({min(ratios):,.3g} to {max(ratios):,.3g})",
        "" if contest.bar is None else f"{contest.bar:,g}",
    )
    return _row(cells)


def spoken_seconds(seconds: float) -> str:
    """Three digits and the unit that suits them."""
    unit, factor = next(((u, f) for u, f in (("s", 1.0), ("ms", 1e3)) if seconds * f >= 1), ("µs", 1e6))
    return f"{seconds * factor:.3g} {unit}"


def speeds(bench: Workbench, wanted: str, rounds: int | None) -> Iterator[str]:
    yield _row(("what", "lmzoo", "peer", "times faster: median (least to most)", "bar"))
    yield "|---|---|---|---|---:|"
    for contest in CONTESTS:
        if wanted not in contest.what:
            continue
        reason = contest.missing()
        if reason is None:
            yield speed_row(contest, paired_seconds(contest, bench, rounds or contest.rounds))
        else:
            yield _row((contest.what, "", f"not here: {reason}", "", ""))


def memory(bench: Workbench) -> Iterator[str]:
    yield _row(("order", "lmzoo, beyond the imports", "imports", "lmplz", "bar"))
    yield "|---:|---:|---:|---:|---|"
    for order in _ORDERS:
        peak = peak_of_training(spec(order), bench.text, bench.short)
        command = kenlm_binaries.lmplz_command(bench.text, order, bench.folder / "peak.arpa")
        sizes = (peak.beyond_imports_bytes, peak.imports_bytes, peak_of_program(command))
        bar = "at most lmplz's" if order == max(_ORDERS) else ""
        yield _row((str(order), *(f"{size / 1e6:.0f} MB" for size in sizes), bar))


def sizes(bench: Workbench) -> Iterator[str]:
    """Bytes of model files and what rounding costs: a test text's perplexity, and how far distributions are from 1."""
    test = write_lines(bench.folder / "test.txt", bench.test_lines)
    yield _row(("model", "order", "n-grams", "MB", "bytes per n-gram", "test perplexity", "sums miss 1 by", "bar"))
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    for order in _ORDERS:
        n_grams = kenlm_binaries.n_grams(bench.arpa(order))
        for form in SAVED_FORMS:
            path = bench.saved(order, form)
            model = lmzoo.load(path)
            split = encoded(model, test)
            ours = (lmzoo.evaluate(model, split).perplexity, largest_miss(model, split.ids_N[:_CONTEXTS]))
            yield _size_row(f"lmzoo, {form}", order, n_grams, path, ours, f"at most {_MOST_BYTES[form]}")
        for structure in (kenlm_binaries.PROBING, kenlm_binaries.TRIE, kenlm_binaries.TRIE_8_BITS):
            path = bench.binary(order, structure)
            theirs = (kenlm_binaries.query(path, test), _kenlm_miss(path, bench))
            yield _size_row(f"KenLM, `{' '.join(structure)}`", order, n_grams, path, theirs, "")


def _size_row(name: str, order: int, n_grams: int, path: Path, quality: tuple[float, float | None], bar: str) -> str:
    n_bytes, (perplexity, miss) = path.stat().st_size, quality
    figures = (f"{n_grams:,}", f"{n_bytes / 1e6:.1f}", f"{n_bytes / n_grams:.2f}", f"{perplexity:.2f}")
    return _row((name, str(order), *figures, "" if miss is None else f"{miss:.1g}", bar))


def largest_miss(model: Any, tokens_L: npt.NDArray[np.int32]) -> float:
    """How far from 1 the probabilities of the next token sum at worst, before each token of a text."""
    state, misses = model.initial_state(), []
    for token in tokens_L:
        misses.append(abs(float(np.exp(model.next_logprobs(state)).sum()) - 1))
        _, state = model.logprobs(np.array([[token]], np.int32), state)
    return max(misses)


def _kenlm_miss(binary: Path, bench: Workbench) -> float | None:
    """The same of KenLM's file; None without its module."""
    if kenlm_module.missing():
        return None
    reader = kenlm_module.Reader(binary)
    words = " </s> ".join(bench.test_lines).split()[:_CONTEXTS]
    sums = (float((10.0 ** reader.distribution(state, bench.vocabulary)).sum()) for state in reader.states(words))
    return max(abs(total - 1) for total in sums)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def lines(bench: Workbench, wanted: str, rounds: int | None) -> Iterator[str]:
    """All tables, a line as soon as it is known."""
    yield f"{bench.name}, {bench.n_tokens:,} tokens with an end of each of {len(bench.lines):,} lines.\n"
    yield from speeds(bench, wanted, rounds)
    if wanted:
        return
    reason = kenlm_binaries.missing()
    if reason is not None:
        yield f"\nNo figures of memory and size: {reason}"
        return
    yield "\nPeak memory of training, text file to model:\n"
    yield from memory(bench)
    yield "\nModel files:\n"
    yield from sizes(bench)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, help="pairs of each comparison (default: 5 or 7)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only comparisons with this in their name")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    warnings.simplefilter("ignore", DiscountWarning)
    load_compiled_code()
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(Workbench(Path(folder)), options.only, options.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
