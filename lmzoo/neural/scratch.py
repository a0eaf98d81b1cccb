"""The recurrent layer written out here: its weights, its product with the inputs, and how its steps are taken."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmzoo.neural.cells import ACTIVATIONS, CELLS, States, one_hot
from lmzoo.neural.recurrence import RECURRENCES, Steps, recur
from lmzoo.neural.rows import lookup


class ScratchLayer(nn.Module):
    """One recurrent layer, written out.  Weights start at 0.

    Args:
        by_lookup: ids are looked up among the columns of the input weights; otherwise multiplied as one-hot rows.
        by_loop: steps as the textbook has them, gradients by autograd; otherwise with gradients written out.
    """

    def __init__(
        self,
        cell: str,
        n_inputs: int,
        hidden: int,
        *,
        activation: str = "tanh",
        by_lookup: bool = True,
        by_loop: bool = False,
    ) -> None:
        super().__init__()
        self.cell = CELLS[cell]
        self.activation = activation
        self.steps = Steps(RECURRENCES[cell, activation])
        self.by_lookup = by_lookup
        self.by_loop = by_loop
        n_rows = self.cell.n_gates * hidden
        self.weight_ih = nn.Parameter(torch.zeros(n_rows, n_inputs))
        self.weight_hh = nn.Parameter(torch.zeros(n_rows, hidden))
        self.bias_ih = nn.Parameter(torch.zeros(n_rows))
        self.bias_hh = nn.Parameter(torch.zeros(n_rows))

    def weights(self) -> dict[str, nn.Parameter]:
        """The four weights by name, the same names for every kernel."""
        return dict(self.named_parameters())

    def input_bias(self) -> Tensor:
        """What is added to the input product, once for all steps, (G,)."""
        if not self.cell.has_inner_bias:
            return self.bias_ih + self.bias_hh
        size = len(self.inner_bias())
        return self.bias_ih + functional.pad(self.bias_hh[:-size], (0, size))

    def inner_bias(self) -> Tensor:
        """What is added inside each step, (H,); (0,) for a cell that has no such thing."""
        size = self.weight_hh.shape[1] if self.cell.has_inner_bias else 0
        return self.bias_hh[len(self.bias_hh) - size :]

    def forward(
        self,
        inputs: Tensor,
        states: States,
        embedding_VxI: Tensor | None = None,
        drop: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, States]:
        """Outputs (T, B, H) and the states (B, H) after the last step.

        Args:
            inputs: vectors (T, B, I), or ids (T, B) of rows of `embedding_VxI`; without it, of one-hot rows.
            drop: what is done to the weights between states, for all steps.
        """
        weight_GxH = self.weight_hh if drop is None else drop(self.weight_hh)
        x, ids_TxB = self._input_product(inputs, embedding_VxI)
        if self.by_loop:
            return self._loop(x if ids_TxB is None else functional.embedding(ids_TxB, x), states, weight_GxH.t())
        return recur(self.steps, x, weight_GxH, self.inner_bias(), states, ids_TxB)

    def _loop(self, x_TxBxG: Tensor, states: States, weight_HxG: Tensor) -> tuple[Tensor, States]:
        bias_H, activation = self.inner_bias(), ACTIVATIONS[self.activation]
        outputs = []
        for x_BxG in x_TxBxG.unbind(0):
            states = self.cell.step(x_BxG, states, weight_HxG, bias_H, activation)
            outputs.append(states[0])
        return torch.stack(outputs), states

    def _input_product(self, inputs: Tensor, embedding_VxI: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Product with all inputs, bias added, which does not depend on the state: (T, B, G), or, where that is less
        work, with every symbol, (V, G), and the ids by which it is looked up."""
        if not inputs.is_floating_point() and self.by_lookup:
            if embedding_VxI is None:
                return self.weight_ih.t() + self.input_bias(), inputs
            if len(embedding_VxI) <= inputs.numel():
                return functional.linear(embedding_VxI, self.weight_ih, self.input_bias()), inputs
            inputs = lookup(inputs, embedding_VxI)
        vectors = inputs if inputs.is_floating_point() else one_hot(inputs, self.weight_ih)
        return functional.linear(vectors, self.weight_ih, self.input_bias()), None
