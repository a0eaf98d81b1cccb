"""Training a counting model: count the text once, smooth, done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError
from lmzoo.interface import Progress
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import Level, count_ngrams
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import prune_by_count, prune_by_entropy, prune_to_size
from lmzoo.ngram.smoothing import Counted, smooth
from lmzoo.ngram.trie import from_keys
from lmzoo.vocab import Vocab


class NgramTrainer:
    """Counts the training text; the validation text fits options of smoothing where there are any, and nothing else.

    `device` is accepted for the sake of one call for all models: counting has no device path.
    """

    def __init__(self, config: NgramConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self._vocab = vocab
        self._model: NgramModel | None = None

    @property
    def model(self) -> NgramModel:
        if self._model is None:
            raise LmzooError("nothing was counted yet; run steps() first")
        return self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Count, smooth, and yield once, at the end."""
        levels = count_ngrams(train, self.config.order)
        tables, details = smooth(
            Counted(config=self.config, vocab=self._vocab, levels=levels, train=train, valid=valid)
        )
        trie = from_keys([level.keys_G for level in levels], tables, len(self._vocab))
        model = NgramModel(self._vocab, trie, details)
        self._model = self._pruned(model, levels) if self.config.is_pruned else model
        yield Progress(tokens=train.n_tokens)

    def _pruned(self, model: NgramModel, levels: Sequence[Level]) -> NgramModel:
        if self.config.cutoffs is not None:
            model = prune_by_count(model, [level.counts_G for level in levels], self.config.least_counts)
        if self.config.prune is not None:
            model = prune_by_entropy(model, self.config.prune)
        if self.config.max_ngrams is not None:
            model = prune_to_size(model, self.config.max_ngrams)
        return model
