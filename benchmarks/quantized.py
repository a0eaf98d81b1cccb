"""What rounding the figures of a counting model costs, Penn Treebank words, order 5, as a Markdown table.

LMZOO_DATA=… python benchmarks/quantized.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import lmzoo
from lmzoo.corpus import Split
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.quantize import quantize

BITS = (8, 10, 12, 16)
# histories whose sums are looked at
STEP = 10
CONTEXT = 4


def farthest_sum(model: NgramModel, split: Split) -> float:
    """How far from 1 the next token's probabilities sum at most, after pieces of a text."""
    starts = range(0, split.n_tokens - CONTEXT, max(split.n_tokens // 500, STEP))
    pieces_BxL = np.stack([split.ids_N[start : start + CONTEXT] for start in starts])
    _, state = model.logprobs(pieces_BxL, model.initial_state(len(pieces_BxL), bos=False))
    return float(np.abs(np.exp(model.next_logprobs(state)).sum(axis=1) - 1).max())


def main() -> None:
    corpus = lmzoo.load_corpus("ptb")
    exact = lmzoo.train("kn5", corpus)
    assert isinstance(exact, NgramModel)
    wanted = lmzoo.evaluate(exact, corpus.test).perplexity
    print("| bits | bytes per n-gram | test perplexity | loss | farthest sum from 1 |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for bits in (None, *BITS):
            model = exact if bits is None else quantize(exact, bits)
            size = lmzoo.save(model, Path(folder) / "m.lm").stat().st_size
            perplexity = lmzoo.evaluate(model, corpus.test).perplexity
            print(
                f"| {bits or 'exact'} | {size / model.n_params:.2f} | {perplexity:.4f} "
                f"| {perplexity / wanted - 1:.3%} | {farthest_sum(model, corpus.test):.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
