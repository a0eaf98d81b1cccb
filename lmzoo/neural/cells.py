"""Recurrent cells as the textbook has them: one step at a time over torch tensors, gradients by autograd.

The readable reference (`impl=loop`) of the recurrences in `recurrence.py`.  Weights have the shapes and the order of
gates of torch's own layers, so that they can be copied both ways.  G is the number of gates times H.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

States = tuple[Tensor, ...]
# (x_BxG: input product and biases, states, weight_HxG, bias_H: the inner one, activation) -> states after the step
Step = Callable[[Tensor, States, Tensor, Tensor, Callable[[Tensor], Tensor]], States]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


def rnn_step(
    x_BxH: Tensor, states: States, weight_HxH: Tensor, bias_H: Tensor, activation: Callable[[Tensor], Tensor]
) -> States:
    """h' = f(x + W h), f tanh or relu (Elman 1990)."""
    (h_BxH,) = states
    return (activation(torch.addmm(x_BxH, h_BxH, weight_HxH)),)


def gru_step(
    x_BxG: Tensor, states: States, weight_HxG: Tensor, bias_H: Tensor, activation: Callable[[Tensor], Tensor]
) -> States:
    """Gates r, z, n; the reset gate acts on the state's product and the inner bias (Cho et al. 2014, as in cuDNN)."""
    (h_BxH,) = states
    size = h_BxH.shape[1]
    # split rather than sliced: one gradient of all parts is put together, instead of one padded with 0 for each
    x_BxRz, x_BxN = x_BxG.split_with_sizes((2 * size, size), dim=1)
    s_BxRz, s_BxN = torch.mm(h_BxH, weight_HxG).split_with_sizes((2 * size, size), dim=1)
    r_BxH, z_BxH = torch.sigmoid(x_BxRz + s_BxRz).chunk(2, dim=1)
    n_BxH = activation(torch.addcmul(x_BxN, r_BxH, s_BxN + bias_H))
    return (torch.lerp(n_BxH, h_BxH, z_BxH),)


def lstm_step(
    x_BxG: Tensor, states: States, weight_HxG: Tensor, bias_H: Tensor, activation: Callable[[Tensor], Tensor]
) -> States:
    """Gates i, f, g, o (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000)."""
    h_BxH, c_BxH = states
    i_BxH, f_BxH, g_BxH, o_BxH = torch.addmm(x_BxG, h_BxH, weight_HxG).chunk(4, dim=1)
    i_BxH, f_BxH, o_BxH = torch.sigmoid(i_BxH), torch.sigmoid(f_BxH), torch.sigmoid(o_BxH)
    g_BxH = activation(g_BxH)
    c_BxH = torch.addcmul(i_BxH * g_BxH, f_BxH, c_BxH)
    return o_BxH * activation(c_BxH), c_BxH


@dataclass(frozen=True, kw_only=True)
class Cell:
    """How one cell is computed.

    Attributes:
        n_gates: rows of its weights in units of H.
        n_states: 1 (h) or 2 (h and c).
        has_inner_bias: the last gate's bias of the state stands inside the step, where a gate acts on it; all others
            are added to the inputs, once for all steps.
    """

    n_gates: int
    n_states: int
    step: Step
    has_inner_bias: bool = False


CELLS: Mapping[str, Cell] = {
    "rnn": Cell(n_gates=1, n_states=1, step=rnn_step),
    "gru": Cell(n_gates=3, n_states=1, step=gru_step, has_inner_bias=True),
    "lstm": Cell(n_gates=4, n_states=2, step=lstm_step),
}


def one_hot(ids: Tensor, weight_GxV: Tensor) -> Tensor:
    """Ids of any shape as rows of the identity, of the type of the weight that they will be multiplied with."""
    return functional.one_hot(ids, weight_GxV.shape[1]).to(weight_GxV.dtype)
