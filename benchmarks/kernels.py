"""Training steps of the cells written out here beside torch's own layers, as the tables of docs/figures.md.

    python -m benchmarks.kernels
    python -m benchmarks.kernels --cells lstm --hidden 512,1024 --batch-sizes 16,128 --threads 1,2

Three sides take turns, block by block of steps, so that whatever slows the machine slows all: `scratch` and `library`
are lmzoo's own training, `plain` is a torch script without lmzoo.  All are float32, 35 steps, 28 symbols, SGD with
clipping; a ratio is that of one round.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

import lmzoo
from benchmarks.plain_torch import PlainTraining
from lmzoo.budget import Budget, Stopwatch
from lmzoo.corpus import Corpus
from lmzoo.interface import Progress
from lmzoo.registry import create_trainer

NUM_STEPS = 35
N_LETTERS = 26  # with the space and <unk>: 28 symbols that can be predicted, and <s>
BLOCK_S = 0.3

# learns one batch and says how many tokens it had
Step = Callable[[], int]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is trained and on how many threads."""

    cell: str
    hidden: int
    batch_size: int
    threads: int


def letters(n_chars: int) -> Corpus:
    """A made-up text of letters and spaces as a corpus."""
    symbols = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    text = "".join(symbols[np.random.default_rng(0).integers(len(symbols), size=n_chars)])
    return lmzoo.corpus_from_texts({"train": text, "valid": text[:1000], "test": text[:1000]}, tokens="char")


def of_lmzoo(corpus: Corpus, setting: Setting, kernel: str) -> Step:
    """The textbook's recipe through lmzoo's own training loop."""
    options = f"recipe=textbook,hidden={setting.hidden},batch_size={setting.batch_size},num_steps={NUM_STEPS}"
    # the library's layers take vectors, so that one-hot rows are all they can have
    options += ",input=lookup" if kernel == "scratch" else ""
    trainer = create_trainer(f"{setting.cell}-{kernel}:{options}", corpus.vocab)
    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget())
    return of_progress(steps)


def of_progress(steps: Iterator[Progress]) -> Step:
    """One step of a trainer at a time."""
    done = itertools.pairwise(itertools.chain((0,), (progress.tokens for progress in steps)))

    def step() -> int:
        before, after = next(done)
        return after - before

    return step


def of_torch(corpus: Corpus, setting: Setting) -> Step:
    n_tokens = (NUM_STEPS + 1) * setting.batch_size
    text_TxB = torch.from_numpy(corpus.train.ids_N[:n_tokens].astype(np.int64)).view(setting.batch_size, -1).t()
    return PlainTraining(setting.cell, text_TxB.contiguous(), len(corpus.vocab), setting.hidden).step


def rates(sides: Sequence[Step], rounds: int, block_s: float = BLOCK_S) -> list[list[float]]:
    """Tokens per second of each side in each round, the sides in turn; a first round warms up and is not counted."""
    rows = [[_rate(step, block_s) for step in sides] for _ in range(rounds + 1)]
    return rows[1:]


def _rate(step: Step, block_s: float) -> float:
    watch, n_tokens = Stopwatch(), 0
    while watch.elapsed_s < block_s:
        with watch.running():
            n_tokens += step()
    return n_tokens / watch.elapsed_s


def measured(setting: Setting, rounds: int, block_s: float = BLOCK_S) -> str:
    """A row of the table: medians of the three sides, and how many times faster `scratch` was in a round."""
    torch.set_num_threads(setting.threads)
    corpus = letters(20 * NUM_STEPS * setting.batch_size)
    sides = (
        of_lmzoo(corpus, setting, "scratch"),
        of_lmzoo(corpus, setting, "cudnn"),
        of_torch(corpus, setting),
    )
    rows = rates(sides, rounds, block_s)
    medians = [f"{statistics.median(side):,.0f}" for side in zip(*rows, strict=True)]
    ratios = [_spread([row[0] / row[other] for row in rows]) for other in (1, 2)]
    names = (setting.cell, setting.hidden, setting.batch_size, setting.threads)
    return _row((*map(str, names), *medians, *ratios))


def table(settings: Sequence[Setting], rounds: int, block_s: float = BLOCK_S) -> Iterator[str]:
    yield _row(
        ("cell", "units", "batch", "threads", "scratch, tokens/s", "library", "plain torch", "against library", "plain")
    )
    yield _row(("---", *["---:"] * 8))
    yield from (measured(setting, rounds, block_s) for setting in settings)


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("cells", "rnn,gru,lstm"), ("hidden", "256"), ("batch-sizes", "32"), ("threads", "1,2")):
        parser.add_argument(f"--{name}", default=default, help=f"separated by commas (default {default})")
    parser.add_argument("--rounds", type=int, default=7, help="how often the sides take turns (default 7)")
    given = parser.parse_args(arguments)
    sizes = [[int(n) for n in text.split(",")] for text in (given.hidden, given.batch_sizes, given.threads)]
    settings = [
        Setting(cell=cell, hidden=hidden, batch_size=batch_size, threads=threads)
        for cell, hidden, batch_size, threads in itertools.product(given.cells.split(","), *sizes)
    ]
    for line in table(settings, given.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
