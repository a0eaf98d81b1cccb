"""How fast text in memory becomes ids, and what memory that takes, as a table:  python -m benchmarks.reading

Made-up text (see `synthetic.py`), whose lines are documents for words and which is one document for all else.  Each row
is measured in a process of its own: text to segments, segments to tokens, their vocabulary, ids.  The rate is that of
the median repeat by the clock on the wall; beside it stands the processor time of all threads together, which what
others do on the machine changes less.  Memory is the peak beyond the imports and the text itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.memory import peak_rss_bytes
from benchmarks.synthetic import zipf_text
from lmzoo import compiled
from lmzoo.segments import Segments
from lmzoo.tokenizers import TOKENIZERS
from lmzoo.tokens import tokens_of
from lmzoo.vocab import Encoded, Vocab, encode_all, vocab_of

KINDS = ("word", "char", "byte")
_ROOT = Path(__file__).parents[1]
_MEGABYTE = 1_000_000
# words made at once; common ones are the same in each block, others are that block's own, so that symbols go on to
# come up as the text grows
_BLOCK_WORDS = 2_000_000
_COMMON_RANK = 20_000
# a block is used so often, its own words renamed: making one takes longer than reading it
_USES = 4


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What reading a text took: seconds of each repeat, those of all processors, peak bytes beyond the text."""

    kind: str
    n_bytes: int
    n_tokens: int
    n_symbols: int
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    peak_bytes: int

    @property
    def tokens_per_s(self) -> float:
        return self.n_tokens / statistics.median(self.seconds)


def write_text(path: Path, n_bytes: int) -> None:
    """Lines of made-up words, about so many bytes; the same for the same size."""
    left, use = n_bytes, 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        while left > 0:
            if use % _USES == 0:
                # a word and what separates it take at least 3 bytes
                block = zipf_text(min(_BLOCK_WORDS, max(left // 3, 1)), use // _USES)
            names = [f"w{r}" if r < _COMMON_RANK else f"w{r}.{use}" for r in range(int(block.ranks_N.max()) + 1)]
            is_last_N = np.zeros(len(block.ranks_N), bool)
            is_last_N[block.starts_D1[1:] - 1] = True
            inside, last = (np.array([name + end for name in names], object) for end in (" ", "\n"))
            text = "".join(np.where(is_last_N, last[block.ranks_N], inside[block.ranks_N]).tolist())
            # whole lines alone, but for the last
            file.write(text[: max(text.rfind("\n", 0, left), 0) + 1] if len(text) > left else text)
            left -= len(text)
            use += 1


def read(path: Path, kind: str) -> tuple[Vocab, Encoded, tuple[float, float]]:
    """Read a file; the seconds, by the wall and of all processors, are those from the text in memory on."""
    tokenizer = TOKENIZERS[kind]
    text = str(path.read_bytes(), "utf-8")
    start, cpu_start = time.perf_counter(), time.process_time()
    segments = Segments.lines_of(text) if tokenizer.by_words else Segments.of([text])
    del text
    tokens = tokens_of(segments, tokenizer)
    vocab = vocab_of(
        tokens,
        normalizer="none",
        tokenizer=tokenizer,
        has_eos=tokenizer.by_words,
        n_starts=None,
        own_unk=False,
        min_freq=1,
    )
    encoded = encode_all(tokens, vocab, vocab.eos_id)
    return vocab, encoded, (time.perf_counter() - start, time.process_time() - cpu_start)


def measured_here(path: Path, kind: str, repeats: int, sample: Path) -> Reading:
    """Read a file in this process, after a sample, so that whatever reading loads is there."""
    compiled.can_be_used()
    read(sample, kind)
    imports_bytes, n_bytes = peak_rss_bytes(), path.stat().st_size
    times = []
    for _ in range(repeats):
        vocab, encoded, taken = read(path, kind)
        times.append(taken)
        n_tokens, n_symbols = len(encoded.ids_N), len(vocab)
        del vocab, encoded
    seconds, cpu_seconds = zip(*times, strict=True)
    return Reading(
        kind=kind,
        n_bytes=n_bytes,
        n_tokens=n_tokens,
        n_symbols=n_symbols,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_bytes=max(peak_rss_bytes() - imports_bytes - n_bytes, 0),
    )


def measured(path: Path, kind: str, repeats: int, sample: Path) -> Reading:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.reading", "--one", kind, str(path), str(sample)]
    done = subprocess.run([*command, "--repeats", str(repeats)], cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"the process that reads {kind} ended with {done.returncode}: {complaint}")
    found = json.loads(done.stdout)
    return Reading(**{**found, "seconds": tuple(found["seconds"]), "cpu_seconds": tuple(found["cpu_seconds"])})


def table(readings: Sequence[Reading]) -> Iterator[str]:
    """Rows of Markdown."""
    yield "| tokens | text | number of tokens | symbols | million tokens/s | processor ns/token | peak bytes/token |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for r in readings:
        cells = (
            f"`{r.kind}`",
            f"{r.n_bytes / _MEGABYTE:,.3g} MB",
            f"{r.n_tokens:,}",
            f"{r.n_symbols:,}",
            f"{r.tokens_per_s / 1e6:.1f}",
            f"{statistics.median(r.cpu_seconds) / r.n_tokens * 1e9:.1f}",
            f"{r.peak_bytes / r.n_tokens:.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", default="1,10,100,1000", help="sizes of text (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of tokens (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="how often each is read (default: 5)")
    parser.add_argument("--quick", action="store_true", help="1 and 10 MB alone, in seconds")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "FILE", "SAMPLE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {options.repeats}")
    if options.one:
        kind, path, sample = options.one
        print(json.dumps(asdict(measured_here(Path(path), kind, options.repeats, Path(sample)))))
        return
    kinds = options.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--kinds are some of {','.join(KINDS)}, got {options.kinds}")
    sizes = [float(part) * _MEGABYTE for part in ("1,10" if options.quick else options.megabytes).split(",")]
    with tempfile.TemporaryDirectory() as folder:
        readings = _all_measured(Path(folder), kinds, [round(size) for size in sizes], options.repeats)
    path_taken = "compiled" if compiled.can_be_used() else "numpy"
    print(f"{compiled.n_threads()} threads, {path_taken}, {options.repeats} repeats\n")
    print("\n".join(table(readings)))


def _all_measured(folder: Path, kinds: Sequence[str], sizes: Sequence[int], repeats: int) -> list[Reading]:
    sample = folder / "sample"
    # large enough for the compiled code to be worth its call
    write_text(sample, _MEGABYTE)
    readings = []
    for size in sizes:
        path = folder / "text"
        write_text(path, size)
        readings += [measured(path, kind, repeats, sample) for kind in kinds]
    return sorted(readings, key=lambda r: (kinds.index(r.kind), r.n_bytes))


if __name__ == "__main__":
    main()
