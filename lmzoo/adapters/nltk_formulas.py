"""The formulas of nltk.lm over a whole vocabulary at once, from nltk's own counts.

nltk has a score for one word at a time, which costs it a walk through all that followed the context; over a vocabulary
of thousands that is minutes.  What is worked out here is its `score` of every symbol, to the last digits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Context = tuple[str, ...]
# from how often each of some symbols followed a context, and p of all symbols after a shorter one
Formula = Callable[[Context, Ids, Floats, Floats], Floats]


class Continuations:
    """How many different words stand before each n-gram, by context and word, and their sum over the words."""

    def __init__(self, counts: Any, order: int) -> None:
        self.counts: dict[Context, Counter[str]] = defaultdict(Counter)
        for n in range(2, order + 1):
            for prefix, following in counts[n].items():
                self.counts[prefix[1:]].update(following.keys())
        self.totals = {context: words.total() for context, words in self.counts.items()}


class Formulas:
    """p of every symbol after a context.

    Args:
        smoothing, order, options: of the model.
        counts: nltk's counter, filled.
        token_to_id: of the vocabulary; `<s>` has the id `bos_id` and never any mass.
    """

    def __init__(
        self,
        smoothing: str,
        order: int,
        options: Mapping[str, float],
        counts: Any,
        token_to_id: Mapping[str, int],
        bos_id: int,
    ) -> None:
        self._smoothing, self._order, self._options = smoothing, order, options
        self._counts, self._token_to_id, self._bos_id = counts, token_to_id, bos_id
        self._continuations = Continuations(counts, order) if smoothing == "kn" else None
        # each order with the one below it
        recursive: dict[str, Formula] = {"kn": self._kn, "wb": self._wb, "ad": self._ad, "stupid": self._stupid}
        self._formula = recursive.get(smoothing)
        self._lowest_V = self._lowest()

    def distribution(self, context: Context) -> Floats:
        """p of every symbol, shape (V,)."""
        if self._formula is None:
            return self._alone(context)
        p_V = self._lowest_V
        for n in range(1, len(context) + 1):
            longer = context[len(context) - n :]
            ids_K, counts_K = self._followed_by(longer)
            p_V = self._formula(longer, ids_K, counts_K, p_V)
        return p_V

    def _followed_by(self, context: Context) -> tuple[Ids, Floats]:
        """The symbols that followed a context, and how often."""
        # asked for by its key, nltk would make an entry of it
        found = self._counts[len(context) + 1].get(context, {}) if context else self._counts.unigrams
        return self._arrays(found)

    def _arrays(self, counts: Mapping[str, int]) -> tuple[Ids, Floats]:
        # nltk's own order of iteration is by frequency, that of its values is not
        ids_K = np.fromiter(map(self._token_to_id.__getitem__, counts.keys()), np.int64, len(counts))
        return ids_K, np.fromiter(counts.values(), np.float64, len(counts))

    def _lowest(self) -> Floats:
        """p after no context."""
        if self._continuations is not None:
            ids_K, counts_K = self._arrays(self._continuations.counts[()])
        else:
            ids_K, counts_K = self._followed_by(())
        p_V = np.zeros(len(self._token_to_id))
        p_V[ids_K] = counts_K / counts_K.sum()
        return p_V

    def _alone(self, context: Context) -> Floats:
        """Relative frequencies, after the longest part of the context that was seen, or with something added."""
        ids_K, counts_K = self._followed_by(context)
        added = self._options.get("gamma", 0.0)
        while context and not added and not len(ids_K):
            context = context[1:]
            ids_K, counts_K = self._followed_by(context)
        p_V: Floats = np.full(len(self._token_to_id), added)
        p_V[ids_K] += counts_K
        p_V[self._bos_id] = 0.0
        p_V /= counts_K.sum() + added * (len(p_V) - 1)
        return p_V

    def _kn(self, context: Context, ids_K: Ids, counts_K: Floats, lower_V: Floats) -> Floats:
        assert self._continuations is not None
        if not len(ids_K):
            return lower_V
        discount, n_kinds, total = self._options["discount"], len(ids_K), counts_K.sum()
        if len(context) + 1 < self._order:
            ids_K, counts_K = self._arrays(self._continuations.counts[context])
            total = self._continuations.totals[context]
        p_V: Floats = discount * n_kinds / total * lower_V
        p_V[ids_K] += np.maximum(counts_K - discount, 0.0) / total
        return p_V

    def _wb(self, context: Context, ids_K: Ids, counts_K: Floats, lower_V: Floats) -> Floats:
        if not len(ids_K):
            return lower_V
        share = len(ids_K) / (len(ids_K) + counts_K.sum())
        p_V: Floats = share * lower_V
        p_V[ids_K] += (1.0 - share) * counts_K / counts_K.sum()
        return p_V

    def _ad(self, context: Context, ids_K: Ids, counts_K: Floats, lower_V: Floats) -> Floats:
        if not len(ids_K):
            return lower_V
        discount = self._options["discount"]
        p_V: Floats = discount * len(ids_K) / counts_K.sum() * lower_V
        p_V[ids_K] += np.maximum(counts_K - discount, 0.0) / counts_K.sum()
        return p_V

    def _stupid(self, context: Context, ids_K: Ids, counts_K: Floats, lower_V: Floats) -> Floats:
        p_V: Floats = self._options["alpha"] * lower_V
        p_V[ids_K] = counts_K / counts_K.sum()
        return p_V
