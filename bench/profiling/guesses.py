"""What a model held the most probable: how sure it was of its first choice and how often that was right, in one pass.

The tokens are those of top-1 accuracy; whole distributions of all the test text would cost too much.  Reliability is
that of the first choice, in bins of equal width (Guo et al. 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.profiled import N_BINS, Confidence
from bench.profiling.place import HEAD_TOKENS, written
from lmzoo.corpus import Split
from lmzoo.evaluation import each_distribution
from lmzoo.interface import LanguageModel, LogProbs

N_CHOICES = 5
# of a probability that is read and not computed with
_DIGITS = 4


@dataclass(kw_only=True)
class Guesses:
    """First choices by the bin of their confidence, and the first few choices at each place that was asked for."""

    n_tokens_K: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(N_BINS, np.int64))
    p_sum_K: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(N_BINS))
    n_right_K: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(N_BINS, np.int64))
    choices: dict[int, tuple[tuple[str, ...], tuple[float, ...]]] = field(default_factory=dict)

    @property
    def top1_accuracy(self) -> float:
        """How often the most probable token was the right one, 0 to 1."""
        return int(self.n_right_K.sum()) / int(self.n_tokens_K.sum())

    @property
    def confidences(self) -> tuple[Confidence, ...]:
        parts = zip(self.n_tokens_K.tolist(), self.p_sum_K.tolist(), self.n_right_K.tolist(), strict=True)
        return tuple(Confidence(n_tokens=n, p_sum=p_sum, n_right=n_right) for n, p_sum, n_right in parts)


def guesses_of(model: LanguageModel[Any], split: Split, place: range) -> Guesses:
    """The choices before each of the first tokens, and by name those before the tokens of `place`."""
    found = Guesses()
    for positions_BxL, mask_BxL, logprobs_BxLxV in each_distribution(model, split, max_tokens=HEAD_TOKENS):
        best_BxL = logprobs_BxLxV.argmax(axis=-1)
        logprobs_BxL = np.take_along_axis(logprobs_BxLxV, best_BxL[:, :, None], axis=-1)[:, :, 0]
        for row, column in zip(*np.nonzero(_is_in(positions_BxL, place) & mask_BxL), strict=True):
            at = int(positions_BxL[row, column])
            found.choices[at] = _choices(model, logprobs_BxLxV[row, column])
        # 4 million of them are not to be held beside the next
        del logprobs_BxLxV
        is_right_BxL = best_BxL == split.ids_N[positions_BxL]
        _count(found, logprobs_BxL[mask_BxL], is_right_BxL[mask_BxL])
    return found


def _is_in(positions_BxL: npt.NDArray[np.int64], place: range) -> npt.NDArray[np.bool_]:
    is_in: npt.NDArray[np.bool_] = (positions_BxL >= place.start) & (positions_BxL < place.stop)
    return is_in


def _count(found: Guesses, logprobs_M: LogProbs, is_right_M: npt.NDArray[np.bool_]) -> None:
    # rounded above 1, or no number, a probability is still in some bin
    p_M = np.nan_to_num(np.exp(np.minimum(np.asarray(logprobs_M, np.float64), 0.0)))
    # (low, high], as Guo et al. have it
    bins_M = np.maximum(np.ceil(p_M * N_BINS).astype(np.int64) - 1, 0)
    found.n_tokens_K += np.bincount(bins_M, minlength=N_BINS)
    found.p_sum_K += np.bincount(bins_M, weights=p_M, minlength=N_BINS)
    found.n_right_K += np.bincount(bins_M, weights=is_right_M, minlength=N_BINS).astype(np.int64)


def _choices(model: LanguageModel[Any], logprobs_V: LogProbs) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The most probable symbols with their probabilities; of equals the lowest id comes first."""
    n_likely = min(N_CHOICES, len(logprobs_V))
    least = np.partition(logprobs_V, -n_likely)[-n_likely]
    likely = np.flatnonzero(logprobs_V >= least)
    order = likely[np.argsort(-logprobs_V[likely], kind="stable")[:n_likely]]
    best = [(i, p) for i in order.tolist() if (p := math.exp(min(float(logprobs_V[i]), 0.0))) > 0]
    return tuple(written(model.vocab, i) for i, _ in best), tuple(float(f"{p:.{_DIGITS}g}") for _, p in best)
