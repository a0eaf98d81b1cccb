"""Training a counting model: count the text once, smooth, done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError
from lmzoo.evaluation import token_nats
from lmzoo.interface import Progress
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import Level, count_ngrams, last_ngrams
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.smoothing import (
    Table,
    add_k,
    fit_k,
    maximum_likelihood,
    modified_kneser_ney,
    whole_context_tables,
)
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]


class NgramTrainer:
    """Counts the training text; the validation text fits the k of add-k and nothing else.

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
        plain = last_ngrams(train, levels) if self.config.discounts == "kenlm" else []
        tables, details = self._smooth(levels, plain, valid)
        self._model = NgramModel(self._vocab, [level.keys_G for level in levels], tables, details)
        yield Progress(tokens=train.n_tokens)

    def _smooth(
        self, levels: Sequence[Level], plain: Sequence[int], valid: Split
    ) -> tuple[list[Table], dict[str, Any]]:
        details: dict[str, Any] = {"smoothing": self.config.smoothing}
        if self.config.smoothing == "mle":
            return maximum_likelihood(levels, self._vocab), details
        if self.config.smoothing == "addk":
            k = self.config.k
            if k is None:
                k = fit_k(*_held_out_counts(levels, self._vocab, valid), self._vocab.n_predictable)
            return add_k(levels, self._vocab, k), details | {"k": k}
        tables, discounts = modified_kneser_ney(levels, self._vocab, plain)
        details["discounts"] = [d.amounts for d in discounts]
        details["fallbacks"] = {str(n): d.reason for n, d in enumerate(discounts, start=1) if d.reason}
        return tables, details


def _held_out_counts(levels: Sequence[Level], vocab: Vocab, valid: Split) -> tuple[Floats, Floats]:
    """The training count of each validation token after its whole context, and the total of that context.

    Read with the model's own look-up: tables that hold -ln(1 + count) in place of ln p.
    """
    keys = [level.keys_G for level in levels]
    counts = whole_context_tables(levels, vocab, seen=lambda count, _: -np.log1p(count), unseen=np.zeros_like, base=0.0)
    totals = whole_context_tables(
        levels, vocab, seen=lambda _, total: -np.log1p(total), unseen=lambda total: -np.log1p(total), base=0.0
    )
    of_token, of_context = (np.expm1(token_nats(NgramModel(vocab, keys, t, {}), valid)) for t in (counts, totals))
    return of_token, of_context
