"""Recurrent cells written out over torch tensors, with an explicit loop over time.

Weights have the shapes and the order of gates of torch's own layers, so that they can be copied both ways.  G is the
number of gates times H.  The product with the inputs does not depend on the state and is taken for all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

States = tuple[Tensor, ...]
# (x_BxG: input product and bias, states, weight_HxG, bias_G, activation) -> states after the step
Step = Callable[[Tensor, States, Tensor, Tensor, Callable[[Tensor], Tensor]], States]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


def rnn_step(
    x_BxH: Tensor, states: States, weight_HxH: Tensor, bias_H: Tensor, activation: Callable[[Tensor], Tensor]
) -> States:
    """h' = f(x + W h), f tanh or relu (Elman 1990)."""
    (h_BxH,) = states
    return (activation(torch.addmm(x_BxH, h_BxH, weight_HxH)),)


def gru_step(
    x_BxG: Tensor, states: States, weight_HxG: Tensor, bias_G: Tensor, activation: Callable[[Tensor], Tensor]
) -> States:
    """Gates r, z, n; the reset gate acts on the product with the state and its bias (Cho et al. 2014, as in cuDNN)."""
    (h_BxH,) = states
    size = h_BxH.shape[1]
    # split rather than sliced: one gradient of all parts is put together, instead of one padded with 0 for each
    x_BxRz, x_BxN = x_BxG.split_with_sizes((2 * size, size), dim=1)
    s_BxRz, s_BxN = torch.addmm(bias_G, h_BxH, weight_HxG).split_with_sizes((2 * size, size), dim=1)
    r_BxH, z_BxH = torch.sigmoid(x_BxRz + s_BxRz).chunk(2, dim=1)
    n_BxH = activation(torch.addcmul(x_BxN, r_BxH, s_BxN))
    return (torch.lerp(n_BxH, h_BxH, z_BxH),)


def lstm_step(
    x_BxG: Tensor, states: States, weight_HxG: Tensor, bias_G: Tensor, activation: Callable[[Tensor], Tensor]
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
        adds_bias: the state's bias is added inside the step (its gate acts on it); otherwise to the inputs, once.
    """

    n_gates: int
    n_states: int
    step: Step
    adds_bias: bool = False


CELLS: Mapping[str, Cell] = {
    "rnn": Cell(n_gates=1, n_states=1, step=rnn_step),
    "gru": Cell(n_gates=3, n_states=1, step=gru_step, adds_bias=True),
    "lstm": Cell(n_gates=4, n_states=2, step=lstm_step),
}


class ScratchLayer(nn.Module):
    """One recurrent layer, written out.  Weights start at 0.

    Args:
        by_lookup: ids are looked up among the columns of the input weights; otherwise multiplied as one-hot rows.
    """

    def __init__(
        self, cell: str, n_inputs: int, hidden: int, *, activation: str = "tanh", by_lookup: bool = True
    ) -> None:
        super().__init__()
        self.cell = CELLS[cell]
        self.activation = activation
        self.by_lookup = by_lookup
        n_rows = self.cell.n_gates * hidden
        self.weight_ih = nn.Parameter(torch.zeros(n_rows, n_inputs))
        self.weight_hh = nn.Parameter(torch.zeros(n_rows, hidden))
        self.bias_ih = nn.Parameter(torch.zeros(n_rows))
        self.bias_hh = nn.Parameter(torch.zeros(n_rows))

    def weights(self) -> dict[str, nn.Parameter]:
        """The four weights by name, the same names for every kernel."""
        return dict(self.named_parameters())

    def input_bias(self) -> Tensor:
        """What is added to the input product, once for all steps."""
        return self.bias_ih if self.cell.adds_bias else self.bias_ih + self.bias_hh

    def forward(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        """Outputs (T, B, H) and the states (B, H) after the last step, of vectors (T, B, I) or of ids (T, B)."""
        x_TxBxG = self._input_product(inputs)
        weight_HxG = self.weight_hh.t()
        step, activation = self.cell.step, ACTIVATIONS[self.activation]
        outputs = []
        for x_BxG in x_TxBxG.unbind(0):
            states = step(x_BxG, states, weight_HxG, self.bias_hh, activation)
            outputs.append(states[0])
        return torch.stack(outputs), states

    def _input_product(self, inputs: Tensor) -> Tensor:
        if inputs.is_floating_point():
            return functional.linear(inputs, self.weight_ih, self.input_bias())
        if self.by_lookup:
            # the bias joins the few rows of the table rather than every looked-up one
            return functional.embedding(inputs, (self.weight_ih.t() + self.input_bias()).contiguous())
        return functional.linear(one_hot(inputs, self.weight_ih), self.weight_ih, self.input_bias())


def one_hot(ids: Tensor, weight_GxV: Tensor) -> Tensor:
    """Ids of any shape as rows of the identity, of the type of the weight that they will be multiplied with."""
    return functional.one_hot(ids, weight_GxV.shape[1]).to(weight_GxV.dtype)
