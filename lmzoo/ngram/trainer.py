"""Training a counting model: count the text once, smooth, done."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError
from lmzoo.interface import Progress
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import count_ngrams
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.smoothing import Counted, smooth
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
        self._model = NgramModel(self._vocab, [level.keys_G for level in levels], tables, details)
        yield Progress(tokens=train.n_tokens)
