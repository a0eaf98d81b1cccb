"""How far one network goes, alone, adapting, and mixed with counts and caches: the tables of docs/recipes.md.

    LMZOO_DATA=… python -m benchmarks.recipes timemachine --budget 600 --seeds 3
    LMZOO_DATA=… python -m benchmarks.recipes ptb --documents running --spec lstm-cudnn:recipe=best-words --budget 1800

A network is trained once a seed and kept in a folder; every row of a seed is made of that same network, so rows differ
in what is added and in nothing else.  Weights and rates are fitted on the validation text; each row reads the test text
once.  A second call goes on where the first was stopped.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lmzoo
from lmzoo.budget import Budget
from lmzoo.corpus import Corpus
from lmzoo.interface import LanguageModel
from lmzoo.mixture.config import Kind
from lmzoo.neural.adapting import adaptive
from lmzoo.neural.models import RecurrentModel

Model = LanguageModel[Any]

_CHARACTERS = (
    "ngram:order=8,discounts=tuned",
    "ngram:order=7,smoothing=ad,discounts=tuned",
    "ngram:order=6,smoothing=jm",
)
_WORDS = ("ngram:order=6,discounts=tuned", "skip:back=2/3/4", "skip:back=1/3/4", "skip:back=1/2/4", "skip:back=3/2")
# what is counted beside the network, and the caches, by kind of token
COUNTS: Mapping[str, tuple[str, ...]] = {"char": _CHARACTERS, "word": _WORDS}
CACHES: Mapping[str, tuple[str, ...]] = {
    "char": ("cache",),
    "word": ("cache:order=4,decay=0.999", "cache:order=1,decay=0.99"),
}


# how network and counts are mixed: a product needs all symbols' probabilities at every step of fitting
KINDS: Mapping[str, Kind] = {"char": "loglinear", "word": "linear"}


def rows(corpus: Corpus, network: RecurrentModel, counts: list[Model]) -> Iterator[tuple[str, Model]]:
    """Every row's name and its model; a star says that it learns from the text it scores."""
    caches = CACHES[corpus.vocab.tokenizer]
    together = lmzoo.mix([network, *counts], corpus.valid, kind=KINDS[corpus.vocab.tokenizer])
    yield "the network alone", network
    yield "network, counts", together
    yield "network, counts, cache*", lmzoo.mix([together, *counts, *caches], corpus.valid)
    for adapt in ("cache", "dynamic"):
        adapted = _adapted(network, adapt, corpus)
        yield f"network with adapt={adapt}*", adapted
        yield (
            f"network with adapt={adapt}, counts, cache*",
            lmzoo.mix([adapted, together, *counts, *caches], corpus.valid),
        )


def _adapted(network: RecurrentModel, adapt: str, corpus: Corpus) -> Model:
    options, arrays = network.to_parts()
    plain = RecurrentModel.from_parts(network.vocab, {**options, "adapt": adapt}, arrays)
    found = adaptive(plain, corpus.train, corpus.valid, Budget())
    assert found is not None
    return found


def trained(spec: str, corpus: Corpus, folder: Path, *, seed: int, budget: float) -> RecurrentModel:
    """The network of a seed: the one that an earlier call left, or a new one, which is kept."""
    path = folder / f"{seed}.lm"
    if not path.exists():
        lmzoo.save(lmzoo.train(spec, corpus, seed=seed, budget=budget), path)
    model: Any = lmzoo.load(path)
    if not isinstance(model, RecurrentModel):
        raise SystemExit(f"{spec} is no plain recurrent network; name one, such as lstm-scratch")
    return model


def table(found: Mapping[str, list[tuple[float, float]]]) -> Iterator[str]:
    """Of every row the median over seeds and, of the test text, the least and the most."""
    yield "| model | validation | test | least to most |"
    yield "|---|---:|---:|---:|"
    for name, pairs in found.items():
        valid, test = zip(*pairs, strict=True)
        spread = f"{min(test):.3f} to {max(test):.3f}"
        yield f"| {name} | {statistics.median(valid):.3f} | {statistics.median(test):.3f} | {spread} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--tokens")
    parser.add_argument("--documents")
    parser.add_argument("--spec", default="lstm-cudnn:recipe=best")
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("results/recipes"))
    asked = parser.parse_args(arguments)
    corpus = lmzoo.load_corpus(asked.corpus, tokens=asked.tokens, documents=asked.documents)
    if corpus.vocab.tokenizer not in COUNTS:
        parser.error(f"--tokens is one of {', '.join(COUNTS)}, got {corpus.vocab.tokenizer}")
    # a network of another spec is another network
    told = (corpus.name, corpus.vocab.tokenizer, corpus.documents, asked.spec, f"{asked.budget:g}")
    folder = asked.folder / re.sub(r"[^\w.=,-]+", "-", " ".join(told))
    folder.mkdir(parents=True, exist_ok=True)
    counts = [lmzoo.train(spec, corpus) for spec in COUNTS[corpus.vocab.tokenizer]]
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(asked.seeds):
        network = trained(asked.spec, corpus, folder, seed=seed, budget=asked.budget)
        for name, model in rows(corpus, network, counts):
            valid, test = (lmzoo.evaluate(model, split).perplexity for split in (corpus.valid, corpus.test))
            found.setdefault(name, []).append((valid, test))
            print(f"seed {seed}: {name}: {valid:.4f} {test:.4f}", file=sys.stderr, flush=True)
    for line in table(found):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
