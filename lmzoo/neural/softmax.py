"""The output layer in training: mean nats of targets with gradients written out, by the full softmax or a sampled one.

Scoring never comes here: it always takes the exact normaliser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmzoo.neural.rows import take_rows

# numbers in the largest array that is made of logits: 16 MiB of float32, whatever N and V
MAX_CELLS = 4_194_304

# symbols up to which torch's own loss is the faster one
_SMALL = 256

# how much flatter than the counts the chances of being drawn are: 1 is the unigram, 0 uniform
_FLATTENING = 0.75


def full_nats(
    hidden_NxH: Tensor,
    weight_VxH: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    *,
    smoothing: float = 0.0,
    max_cells: int = MAX_CELLS,
) -> Tensor:
    """Mean of -ln p(target) where p is the softmax of hidden x weight' + bias; p is 0 where the bias is -inf.

    Gradients are taken in the same pass, some rows at a time, so that at most `max_cells` logits (or one row of them)
    exist at once.  Products have the type of hidden and weight, sums that of the bias.

    Args:
        smoothing: this share of every target is spread evenly over the symbols that are possible (Szegedy et al. 2016,
            section 7): the mean is of the cross-entropy with that.
    """
    if len(weight_VxH) <= _SMALL:
        return _small_nats(_logits(hidden_NxH, weight_VxH, bias_V), targets_N, bias_V, smoothing)
    return _mean_nats(hidden_NxH, weight_VxH, bias_V, targets_N, None, max_cells, smoothing)


def _small_nats(logits_NxV: Tensor, targets_N: Tensor, bias_V: Tensor, smoothing: float) -> Tensor:
    """torch's own loss.  Its smoothing would spread a share over what is impossible too, so that is written out."""
    if not smoothing:
        return functional.cross_entropy(logits_NxV, targets_N)
    logps_NxV = functional.log_softmax(logits_NxV, dim=1)
    own_N = logps_NxV.gather(1, targets_N[:, None]).squeeze(1)
    return -((1.0 - smoothing) * own_N + smoothing * _possible_mean(logps_NxV, bias_V).squeeze(1)).mean()


class Sampler:
    """Draws the symbols that stand for all others in the normaliser of a batch.

    Each symbol is drawn or not by itself, symbol k with chance pi_k = min(1, c count_k^0.75), c such that `n_samples`
    are drawn on average.  Weighing what was drawn with 1/pi_k makes the normaliser right on average (Horvitz &
    Thompson 1952); the same set serves all rows of a batch (importance sampling: Bengio & Senecal 2008, Jean et al.
    2015).  A symbol without a count is drawn as if it had been seen once; `<s>` never.
    """

    def __init__(
        self, counts_V: npt.NDArray[np.int64], bos_id: int, n_samples: int, generator: torch.Generator
    ) -> None:
        weights_V = np.maximum(counts_V, 1).astype(np.float64) ** _FLATTENING
        weights_V[bos_id] = 0.0
        chances_V = inclusion_chances(weights_V, n_samples)
        self._chances_V = torch.from_numpy(chances_V).float().to(generator.device)
        self._generator = generator

    def draw(self) -> tuple[Tensor, Tensor]:
        """Ids of what was drawn, ascending, and -ln of their chances."""
        drawn_V = torch.rand(self._chances_V.shape, generator=self._generator, device=self._chances_V.device)
        ids_S = (drawn_V < self._chances_V).nonzero().squeeze(1)
        return ids_S, -self._chances_V[ids_S].log()


def inclusion_chances(weights_V: npt.NDArray[np.float64], n_samples: int) -> npt.NDArray[np.float64]:
    """min(1, c weight), c such that they sum to `n_samples`; 1 wherever a weight is above 0 if those are fewer."""
    weights = np.sort(weights_V[weights_V > 0])[::-1]
    if len(weights) <= n_samples:
        return (weights_V > 0).astype(np.float64)
    # with the k heaviest certain, the rest shares n - k; k is the least that leaves no chance above 1
    rest_k = np.cumsum(weights[::-1])[::-1]
    left_k = n_samples - np.arange(len(weights))
    k = int(np.argmax(left_k * weights <= rest_k))
    chances_V: npt.NDArray[np.float64] = np.minimum(weights_V * left_k[k] / rest_k[k], 1.0)
    return chances_V


def sampled_nats(
    hidden_NxH: Tensor,
    weight_VxH: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    sampler: Sampler,
    *,
    max_cells: int = MAX_CELLS,
) -> Tensor:
    """The same with a normaliser estimated from a row's target and what `sampler` draws.

    A target that was drawn too counts once, with weight 1.  The gradient of the weight is sparse: the rows drawn or
    wanted.
    """
    ids_S, addend_S = sampler.draw()
    ids_R, places = torch.unique(torch.cat((ids_S, targets_N)), return_inverse=True)
    # targets that were not drawn are no candidates of other rows
    addend_R = bias_V.new_full(ids_R.shape, -math.inf)
    addend_R[places[: len(ids_S)]] = addend_S.to(bias_V.dtype)
    rows_RxH = take_rows(weight_VxH, ids_R)
    places_N = places[len(ids_S) :]
    return _mean_nats(hidden_NxH, rows_RxH, bias_V[ids_R], places_N, addend_R, max_cells, 0.0)


def _mean_nats(*args: Tensor | float | None) -> Tensor:
    return cast(Tensor, _MeanNats.apply(*args))  # type: ignore[no-untyped-call]


class _MeanNats(torch.autograd.Function):
    """d nats / d logits = (softmax - target) / N, where a target is one-hot but for a share that smoothing spreads; the
    gradients of hidden, weight and bias are products with it.

    `addend_V` goes to every logit but the target's own.  All is done in place in the one array of logits: where V is
    small, a fresh array of N x H numbers costs more than the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NxH: Tensor,
        weight_VxH: Tensor,
        bias_V: Tensor,
        targets_N: Tensor,
        addend_V: Tensor | None,
        max_cells: int,
        smoothing: float,
    ) -> Tensor:
        grad_NxH = torch.empty_like(hidden_NxH)
        grad_VxH: Tensor | None = None
        grad_V = torch.zeros_like(bias_V)
        nats = []
        for rows in _row_spans(len(hidden_NxH), len(weight_VxH), max_cells):
            hidden_MxH, targets_Mx1 = hidden_NxH[rows], targets_N[rows, None]
            logits_MxV = _logits(hidden_MxH, weight_VxH, bias_V)
            _add_but_to_targets(logits_MxV, addend_V, targets_Mx1)
            nats.append(_nats_and_slope(logits_MxV, targets_Mx1, len(hidden_NxH), bias_V, smoothing))
            grad_V += logits_MxV.sum(0)
            slope_MxV = logits_MxV.to(hidden_NxH.dtype)
            torch.mm(slope_MxV, weight_VxH, out=grad_NxH[rows])
            grad_VxH = _plus_product(grad_VxH, slope_MxV.t(), hidden_MxH)
        ctx.gradients = grad_NxH, grad_VxH, grad_V
        return torch.cat(nats).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients
        # a pass over a large weight saved; on a GPU looking would mean waiting
        if grad.device.type != "cpu" or grad != 1:
            gradients = tuple(gradient * grad for gradient in gradients)
        return (*gradients, None, None, None, None)


def _row_spans(n_rows: int, n_columns: int, max_cells: int) -> Iterator[slice]:
    """Rows in chunks of like length with at most `max_cells` numbers, one row at least."""
    n_chunks = math.ceil(n_rows / max(max_cells // n_columns, 1))
    length = math.ceil(n_rows / max(n_chunks, 1))
    return (slice(start, start + length) for start in range(0, n_rows, length))


def _logits(hidden_MxH: Tensor, weight_VxH: Tensor, bias_V: Tensor) -> Tensor:
    """A new array of the type of the bias."""
    if hidden_MxH.dtype == bias_V.dtype:
        return torch.addmm(bias_V, hidden_MxH, weight_VxH.t())
    return (hidden_MxH @ weight_VxH.t()).to(bias_V.dtype).add_(bias_V)


def _add_but_to_targets(logits_MxV: Tensor, addend_V: Tensor | None, targets_Mx1: Tensor) -> None:
    if addend_V is not None:
        own_Mx1 = logits_MxV.gather(1, targets_Mx1)
        logits_MxV.add_(addend_V).scatter_(1, targets_Mx1, own_Mx1)


def _nats_and_slope(logits_MxV: Tensor, targets_Mx1: Tensor, n_rows: int, bias_V: Tensor, smoothing: float) -> Tensor:
    """-ln p(target), (M, 1); the logits become (softmax - target) / n_rows in place."""
    logits_MxV.sub_(logits_MxV.amax(1, keepdim=True))
    aim_Mx1 = logits_MxV.gather(1, targets_Mx1)
    if smoothing:
        aim_Mx1 = (1.0 - smoothing) * aim_Mx1 + smoothing * _possible_mean(logits_MxV, bias_V)
    sums_Mx1 = logits_MxV.exp_().sum(1, keepdim=True)
    logits_MxV.scatter_add_(1, targets_Mx1, -(1.0 - smoothing) * sums_Mx1)
    logits_MxV.mul_((sums_Mx1 * n_rows).reciprocal_())
    if smoothing:
        is_possible_V = bias_V > -math.inf
        logits_MxV.sub_(is_possible_V * (smoothing / (n_rows * is_possible_V.sum())))
    return sums_Mx1.log() - aim_Mx1


def _possible_mean(x_MxV: Tensor, bias_V: Tensor) -> Tensor:
    """The mean of each row over the symbols that are possible, (M, 1)."""
    is_possible_V = bias_V > -math.inf
    return x_MxV.masked_fill(~is_possible_V, 0.0).sum(1, keepdim=True) / is_possible_V.sum()


def _plus_product(total: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    return a @ b if total is None else total.addmm_(a, b)
