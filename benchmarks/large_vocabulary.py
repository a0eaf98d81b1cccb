"""Training on words beside a plain torch loop, as the tables of docs/figures.md.

    LMZOO_DATA=… python -m benchmarks.large_vocabulary
    LMZOO_DATA=… python -m benchmarks.large_vocabulary --reach 8,20
    python -m benchmarks.large_vocabulary --layer

Penn Treebank words, running text (made-up words where the corpora are not here): an LSTM of two layers of 200 units,
20 columns of 35 words, dropout 0.2, SGD, gradients clipped at 0.25.  The sides take turns, block by block of steps; a
ratio is that of one round.  With `--reach`, each side is scored exactly after so many seconds of training instead,
seconds of the processor, which on one thread are those of a machine without other load; with `--layer`, the output
layer alone is timed, forward and back, beside torch's loss.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import lmzoo
from benchmarks.kernels import Step, of_progress, rates
from benchmarks.synthetic import zipf_text
from lmzoo.budget import Budget, Stopwatch
from lmzoo.corpus import Corpus
from lmzoo.interface import Trainer
from lmzoo.neural.config import RecurrentConfig
from lmzoo.neural.softmax import Sampler, full_nats, sampled_nats
from lmzoo.registry import create_trainer
from lmzoo.sources import DATA_VARIABLE

UNITS, BATCH_SIZE, NUM_STEPS, DROPOUT, LR, CLIP = 200, 20, 35, 0.2, 20.0, 0.25
RECIPE = (
    f"hidden={UNITS},embedding={UNITS},layers=2,batch_size={BATCH_SIZE},num_steps={NUM_STEPS},dropout={DROPOUT},"
    f"optimizer=sgd,lr={LR},clip={CLIP},schedule=constant"
)
SIDES: Mapping[str, str] = {
    "full": "softmax=full",
    "sampled": "softmax=sampled",
    "full, bfloat16": "softmax=full,precision=bfloat16",
    "sampled, bfloat16": "softmax=sampled,precision=bfloat16",
}
_SCORED_TOKENS = 20_000
_LAYER_SYMBOLS = (28, 256, 512, 1_000, 2_000, 5_000, 10_000, 50_000)
_BLOCK_S = 0.3
# as many made-up words as give a vocabulary of some 10,000
_MADE_UP_TOKENS = 200_000


class PlainWords(nn.Module):
    """The word model that anybody would write with torch's own layers, and its training step."""

    def __init__(self, text_N: Tensor, n_symbols: int) -> None:
        super().__init__()
        self._embedding = nn.Embedding(n_symbols, UNITS)
        self._lstm = nn.LSTM(UNITS, UNITS, num_layers=2, dropout=DROPOUT)
        self._dropout = nn.Dropout(DROPOUT)
        self._output = nn.Linear(UNITS, n_symbols)
        n_rows = len(text_N) // BATCH_SIZE
        self._text_MxB = text_N[: n_rows * BATCH_SIZE].view(BATCH_SIZE, n_rows).t().contiguous()
        self._at = 0
        self._state: tuple[Tensor, Tensor] | None = None

    def step(self) -> int:
        """Learn one batch; how many tokens it had."""
        rows = self._text_MxB[self._at : self._at + NUM_STEPS + 1]
        self._at = (self._at + NUM_STEPS) % (len(self._text_MxB) - NUM_STEPS)
        inputs_TxBxE = self._dropout(self._embedding(rows[:-1]))
        hidden_TxBxH, state = self._lstm(inputs_TxBxE, self._state)
        logits_TxBxV = self._output(self._dropout(hidden_TxBxH))
        loss = functional.cross_entropy(logits_TxBxV.flatten(0, 1), rows[1:].flatten())
        self.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.parameters(), CLIP)
        with torch.no_grad():
            for weight in self.parameters():
                assert weight.grad is not None
                weight.add_(weight.grad, alpha=-LR)
        self._state = (state[0].detach(), state[1].detach())
        return rows[1:].numel()


def words() -> Corpus:
    """Penn Treebank as running text, or made-up words."""
    if os.environ.get(DATA_VARIABLE):
        return lmzoo.load_corpus("ptb", tokens="word", documents="running")
    lines = "\n".join(zipf_text(_MADE_UP_TOKENS, seed=0).lines())
    return lmzoo.corpus_from_texts({"whole": lines}, tokens="word", documents="running")


def trainer_of(corpus: Corpus, options: str) -> Trainer:
    return create_trainer(f"lstm-scratch:{RECIPE},{options}", corpus.vocab)


def of_lmzoo(corpus: Corpus, options: str) -> Step:
    """One batch at a time of lmzoo's own training loop."""
    steps = trainer_of(corpus, options).steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget())
    return of_progress(steps)


def speeds(
    corpus: Corpus, threads: int, rounds: int, block_s: float = _BLOCK_S, names: Sequence[str] = tuple(SIDES)
) -> Iterator[str]:
    """Rows of the table: median tokens/s of each side, and how many times faster than the plain loop in a round."""
    torch.set_num_threads(threads)
    plain = PlainWords(torch.from_numpy(corpus.train.ids_N.astype(np.int64)), len(corpus.vocab))
    sides = {"plain torch": plain.step, **{name: of_lmzoo(corpus, SIDES[name]) for name in names}}
    rows = rates(list(sides.values()), rounds, block_s)
    for column, name in enumerate(sides):
        ratios = [row[column] / row[0] for row in rows]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        yield f"| {threads} | {name} | {statistics.median(row[column] for row in rows):,.0f} | {spread} |"


def perplexities(corpus: Corpus, options: str, marks_s: Sequence[float]) -> list[tuple[int, float]]:
    """Tokens learnt and exact validation perplexity at each of these seconds of the processor, which ascend."""
    trainer, watch = trainer_of(corpus, options), Stopwatch(time.process_time)
    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget())
    head, found = corpus.valid.head(_SCORED_TOKENS), []
    for mark_s in marks_s:
        n_tokens = 0
        while watch.elapsed_s < mark_s:
            with watch.running():
                n_tokens = next(steps).tokens
        found.append((n_tokens, lmzoo.evaluate(trainer.model, head).perplexity))
    return found


def reached(corpus: Corpus, marks_s: Sequence[float]) -> Iterator[str]:
    yield "| side | seconds | tokens | validation perplexity |"
    yield "|---|---:|---:|---:|"
    for name, options in SIDES.items():
        for mark_s, (n_tokens, perplexity) in zip(marks_s, perplexities(corpus, options, marks_s), strict=True):
            yield f"| {name} | {mark_s:g} | {n_tokens:,} | {perplexity:.1f} |"


def layer(n_symbols: int, threads: int, rounds: int, block_s: float = _BLOCK_S) -> str:
    """A row of the table: ms of the output layer alone by torch's loss, in full and sampled, and paired ratios."""
    torch.set_num_threads(threads)
    n_rows = BATCH_SIZE * NUM_STEPS
    hidden_NxH = torch.randn(n_rows, UNITS, requires_grad=True)
    weight_VxH = (torch.randn(n_symbols, UNITS) / UNITS**0.5).requires_grad_()
    bias_V = torch.zeros(n_symbols, requires_grad=True)
    ranks_V = np.arange(1, n_symbols + 1)
    targets_N = torch.from_numpy(np.random.default_rng(0).zipf(1.5, n_rows) % n_symbols)
    sampler = Sampler(10**6 // ranks_V, 1, RecurrentConfig().samples, torch.Generator().manual_seed(0))

    def backward(nats: Callable[[], Tensor]) -> Step:
        def step() -> int:
            torch.autograd.grad(nats(), (hidden_NxH, weight_VxH, bias_V))
            return 1

        return step

    logits = partial(functional.linear, hidden_NxH, weight_VxH, bias_V)
    sides = (
        backward(lambda: functional.cross_entropy(logits(), targets_N)),
        backward(lambda: full_nats(hidden_NxH, weight_VxH, bias_V, targets_N)),
        backward(lambda: sampled_nats(hidden_NxH, weight_VxH, bias_V, targets_N, sampler)),
    )
    rows = rates(sides, rounds, block_s)
    times = [f"{1e3 / statistics.median(side):.2f}" for side in zip(*rows, strict=True)]
    ratios = [f"{statistics.median(row[column] / row[0] for row in rows):.2f}" for column in (1, 2)]
    return f"| {' | '.join((str(threads), f'{n_symbols:,}', *times, *ratios))} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="separated by commas (default 1,2)")
    parser.add_argument("--rounds", type=int, default=7, help="how often the sides take turns (default 7)")
    parser.add_argument("--reach", metavar="SECONDS", help="perplexity after so many seconds of training, by commas")
    parser.add_argument("--layer", action="store_true", help="the output layer alone, over sizes of vocabulary")
    given = parser.parse_args(arguments)
    threads = [int(n) for n in given.threads.split(",")]
    if given.layer:
        print("| threads | symbols | torch, ms | full, ms | sampled, ms | times torch: full | sampled |")
        print("|---:|---:|---:|---:|---:|---:|---:|")
        for n_threads, n_symbols in itertools.product(threads, _LAYER_SYMBOLS):
            print(layer(n_symbols, n_threads, given.rounds), flush=True)
        return
    corpus = words()
    print(f"{len(corpus.vocab):,} symbols, {corpus.train.n_tokens:,} tokens\n", flush=True)
    if given.reach:
        torch.set_num_threads(threads[0])
        for line in reached(corpus, [float(mark) for mark in given.reach.split(",")]):
            print(line, flush=True)
        return
    print("| threads | side | tokens/s | times the plain loop: median (least to most) |\n|---:|---|---:|---|")
    for n_threads in threads:
        for line in speeds(corpus, n_threads, given.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
