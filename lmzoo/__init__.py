"""lmzoo: interchangeable language models, counting and neural, behind one scoring interface.

Importing it loads nothing heavy; every name below is fetched at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmzoo.card import Card, describe
    from lmzoo.catalogue import ModelEntry
    from lmzoo.conformance import CheckResult, check_language_model
    from lmzoo.corpus import Corpus, Document, Split, corpus_from_texts, load_corpus
    from lmzoo.driver import code_length, train
    from lmzoo.errors import LmzooError
    from lmzoo.evaluation import evaluate, evaluate_blocks
    from lmzoo.ids import split_from_ids
    from lmzoo.interface import Coder, LanguageModel, Trainer
    from lmzoo.mixing import mix
    from lmzoo.ngram.questions import NgramCounts
    from lmzoo.ngram.sparsity import sparsity
    from lmzoo.ngram.streaming import train_ngram
    from lmzoo.registry import available_models, read_model
    from lmzoo.sampling import rank, sample, top_k
    from lmzoo.storage import load, save
    from lmzoo.tally import Tally
    from lmzoo.vocab import Vocab

__version__ = "0.1.0"

_HOMES = {
    "Card": "card",
    "CheckResult": "conformance",
    "Coder": "interface",
    "Corpus": "corpus",
    "Document": "corpus",
    "LanguageModel": "interface",
    "LmzooError": "errors",
    "ModelEntry": "catalogue",
    "NgramCounts": "ngram.questions",
    "Split": "corpus",
    "Tally": "tally",
    "Trainer": "interface",
    "Vocab": "vocab",
    "available_models": "registry",
    "check_language_model": "conformance",
    "code_length": "driver",
    "corpus_from_texts": "corpus",
    "describe": "card",
    "evaluate": "evaluation",
    "evaluate_blocks": "evaluation",
    "load": "storage",
    "load_corpus": "corpus",
    "mix": "mixing",
    "rank": "sampling",
    "read_model": "registry",
    "sample": "sampling",
    "save": "storage",
    "sparsity": "ngram.sparsity",
    "split_from_ids": "ids",
    "top_k": "sampling",
    "train": "driver",
    "train_ngram": "ngram.streaming",
}

__all__ = [
    "Card",
    "CheckResult",
    "Coder",
    "Corpus",
    "Document",
    "LanguageModel",
    "LmzooError",
    "ModelEntry",
    "NgramCounts",
    "Split",
    "Tally",
    "Trainer",
    "Vocab",
    "available_models",
    "check_language_model",
    "code_length",
    "corpus_from_texts",
    "describe",
    "evaluate",
    "evaluate_blocks",
    "load",
    "load_corpus",
    "mix",
    "rank",
    "read_model",
    "sample",
    "save",
    "sparsity",
    "split_from_ids",
    "top_k",
    "train",
    "train_ngram",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmzoo' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lmzoo.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
