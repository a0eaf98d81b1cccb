"""The recurrences over many steps with their gradients written out: backpropagation through time by hand.

Forward, the product with the inputs was taken for all steps at once; what is left of a step is one product with the
state and the gates.  Backward, every factor that does not depend on what comes back from later steps is taken for all
steps at once; what is left of a step is one product with the gates' gradients.  The gradient of the weights is one
product over all steps.  The plain loop that says the same in a few lines, with gradients by autograd, takes the steps
of `cells.py` (`ScratchLayer` in `scratch.py`).

Notation: an `a` is a gate before its sigmoid or tanh, `d_y` the gradient of the loss by y (Werbos 1990, eqs. 21 to 27;
Hochreiter & Schmidhuber 1997, appendix A.1, without its truncation inside the cell).  G is the number of gates times H.
Steps are numbered from 0; states have a row more, the first being the state before step 0.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.neural import gates
from lmzoo.neural.cells import CELLS, States


class Workspace:
    """Arrays of one batch, kept for the next: to get as much memory from the system anew costs a tenth of a step."""

    def __init__(self) -> None:
        self._arrays: dict[str, Tensor] = {}

    def room(self, name: str, n_rows: int, like: Tensor) -> Tensor:
        """Room for `n_rows` arrays like another, filled with anything."""
        kept = self._arrays.get(name)
        if kept is None or (kept.shape[1:], kept.dtype, kept.device) != (like.shape, like.dtype, like.device):
            kept = like.new_empty(0, *like.shape)
        if len(kept) < n_rows:
            kept = self._arrays[name] = like.new_empty(n_rows, *like.shape)
        # of batches of many lengths each takes its part of the longest
        return kept[:n_rows]


@dataclass(eq=False)
class Steps:
    """How a layer takes its steps.

    Attributes:
        kind: which recurrence.
        is_compiled: gates by `lmzoo.compiled.gates` where the numbers are float32 on the CPU; otherwise by torch.
    """

    kind: type[Recurrence]
    is_compiled: bool = False
    _free: list[Workspace] = field(default_factory=list)

    @property
    def has_gates(self) -> bool:
        """Whether a step is more than its product and one activation."""
        return issubclass(self.kind, Gru | Lstm)

    def prepare(self, is_compiled: bool) -> None:
        """Take compiled gates or torch's; what has to be loaded or compiled for them is done now, on a step of one."""
        self.is_compiled = is_compiled
        if is_compiled:
            cell = CELLS[next(name for (name, _), kind in RECURRENCES.items() if kind is self.kind)]
            x_1x1xG = torch.zeros(1, 1, cell.n_gates, requires_grad=True)
            bias_H, states = torch.zeros(int(cell.has_inner_bias)), (torch.zeros(1, 1),) * cell.n_states
            out, _ = recur(Steps(self.kind, True), x_1x1xG.clone(), torch.zeros(cell.n_gates, 1), bias_H, states)
            torch.autograd.grad(out.sum(), x_1x1xG)

    def begin(self, weight_GxH: Tensor, bias_H: Tensor) -> Recurrence:
        """The recurrence of one batch."""
        is_compiled = self.is_compiled and weight_GxH.dtype is torch.float32 and weight_GxH.device.type == "cpu"
        return self.kind(weight_GxH, bias_H, self._free.pop() if self._free else Workspace(), is_compiled)

    def end(self, recurrence: Recurrence) -> None:
        """Its arrays may serve another batch."""
        self._free.append(recurrence.workspace)


class Recurrence(ABC):
    """One layer over the T steps of one batch: forward, then back.  Keeps what the way back needs.

    Args:
        weight_GxH: of the product with the state.
        bias_H: added to the state's part of the new value before the reset gate acts on it (GRU); elsewhere (0,).
    """

    def __init__(self, weight_GxH: Tensor, bias_H: Tensor, workspace: Workspace, is_compiled: bool) -> None:
        self.weight_GxH = weight_GxH
        self.bias_H = bias_H
        self.workspace = workspace
        self._is_compiled = is_compiled

    @abstractmethod
    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        """All states, first to last, (T + 1, B, H) each, the outputs first.  `x_TxBxG` is overwritten."""

    @abstractmethod
    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor]:
        """Gradients of the gates' state product and of x, both (T, B, G).

        Args:
            d_last: gradients by the states after the last step, beside what the outputs give.
        """

    def looked_up(self, ids_TxB: Tensor, rows_VxG: Tensor) -> Tensor:
        """The rows of tokens, (T, B, G)."""
        x_NxG = self.workspace.room("x", ids_TxB.numel(), rows_VxG[0])
        return torch.index_select(rows_VxG, 0, ids_TxB.flatten(), out=x_NxG).view(*ids_TxB.shape, -1)

    @abstractmethod
    def d_first(self) -> States:
        """After `backward`: gradients by the states before step 0."""

    def _step(self, way: Callable[..., gates.Step], *arrays: Tensor) -> gates.Step:
        """What a step does beside its product: one of `gates`, or its compiled twin."""
        if not self._is_compiled:
            return way(*arrays)
        twin = getattr(importlib.import_module("lmzoo.compiled.gates"), way.__name__)
        return twin(*(array.numpy() for array in arrays))  # type: ignore[no-any-return]

    def _d_h(self, d_out_TxBxH: Tensor, d_last_BxH: Tensor) -> Tensor:
        """Gradients by the outputs, (T, B, H), to which each step will add what comes back from the one after it."""
        d_h_TxBxH = self.workspace.room("d_h", len(d_out_TxBxH), d_last_BxH).copy_(d_out_TxBxH)
        d_h_TxBxH[-1] += d_last_BxH
        return d_h_TxBxH


class Rnn(Recurrence):
    """h' = f(x + W h), f tanh or relu (Elman 1990)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxH = self.weight_GxH.t().contiguous()
        self._h = _states(states[0], len(x_TxBxG))
        # in place, all at once: each product would otherwise copy its row first
        self._h[1:] = x_TxBxG
        h = self._h.unbind(0)
        for t in range(len(x_TxBxG)):
            self._activate(h[t + 1].addmm_(h[t], weight_HxH))
        return (self._h,)

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor]:
        d_a_TxBxH = self._d_h(d_out_TxBxH, d_last[0])
        slope_TxBxH = self.workspace.room("slope", len(d_a_TxBxH), d_last[0])
        self._slope(self._h[1:], slope_TxBxH)
        d_a, slope = d_a_TxBxH.unbind(0), slope_TxBxH.unbind(0)
        for t in range(len(d_a) - 1, -1, -1):
            d_a[t].mul_(slope[t])
            if t:
                d_a[t - 1].addmm_(d_a[t], self.weight_GxH)
        self._d_a_BxH = d_a[0]
        return d_a_TxBxH, d_a_TxBxH

    def d_first(self) -> States:
        return (self._d_a_BxH @ self.weight_GxH,)

    def _activate(self, a: Tensor) -> Tensor:
        return a.tanh_()

    def _slope(self, h: Tensor, out: Tensor) -> None:
        """1 - h^2."""
        torch.addcmul(h.new_ones(()), h, h, value=-1, out=out)


class ReluRnn(Rnn):
    """The same with max(a, 0); at 0 its slope is taken to be 0."""

    def _activate(self, a: Tensor) -> Tensor:
        return a.relu_()

    def _slope(self, h: Tensor, out: Tensor) -> None:
        torch.gt(h, 0, out=out)


class Gru(Recurrence):
    """r, z = sigmoid(a); n = tanh(x_n + r s), s = W_n h + b; h' = n + z (h - n) (Cho et al. 2014, as in cuDNN)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxG = self.weight_GxH.t().contiguous()
        size, n_steps = weight_HxG.shape[0], len(x_TxBxG)
        # s takes the place of x_n, so that one product serves all gates
        self._n = self.workspace.room("n", n_steps, states[0]).copy_(x_TxBxG[..., 2 * size :])
        x_TxBxG[..., 2 * size :] = self.bias_H
        self._gates, self._h = x_TxBxG, _states(states[0], n_steps)
        a, h, step = x_TxBxG.unbind(0), self._h.unbind(0), self._step(gates.gru, self._gates, self._n, self._h)
        for t in range(n_steps):
            a[t].addmm_(h[t], weight_HxG)
            step(t)
        return (self._h,)

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor]:
        n_steps, size = len(d_out_TxBxH), self.weight_GxH.shape[1]
        d_h_TxBxH = self._d_h(d_out_TxBxH, d_last[0])
        d_gates_TxBxG = self.workspace.room("d_gates", n_steps, self._gates[0])
        d_n_TxBxH = self.workspace.room("d_n", n_steps, d_last[0])
        step = self._step(gates.gru_back, self._gates, self._n, self._h, d_h_TxBxH, d_gates_TxBxG, d_n_TxBxH)
        d_h, d_gates, z = d_h_TxBxH.unbind(0), d_gates_TxBxG.unbind(0), self._gates[..., size : 2 * size].unbind(0)
        for t in range(n_steps - 1, -1, -1):
            step(t)
            if t:
                d_h[t - 1].addcmul_(d_h[t], z[t]).addmm_(d_gates[t], self.weight_GxH)
        d_x_TxBxG = self.workspace.room("d_x", n_steps, self._gates[0]).copy_(d_gates_TxBxG)
        d_x_TxBxG[..., 2 * size :] = d_n_TxBxH
        self._kept_BxH, self._d_gates_BxG = d_h[0] * z[0], d_gates[0]
        return d_gates_TxBxG, d_x_TxBxG

    def d_first(self) -> States:
        return (torch.addmm(self._kept_BxH, self._d_gates_BxG, self.weight_GxH),)


class Lstm(Recurrence):
    """i, f, o = sigmoid(a), g = tanh(a); c' = f c + i g; h' = o tanh(c') (Gers et al. 2000)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxG, n_steps = self.weight_GxH.t().contiguous(), len(x_TxBxG)
        self._gates, self._h, self._c = x_TxBxG, *(_states(state, n_steps) for state in states)
        self._tanh_c = self.workspace.room("tanh_c", n_steps, states[1])
        a, h = x_TxBxG.unbind(0), self._h.unbind(0)
        step = self._step(gates.lstm, self._gates, self._c, self._tanh_c, self._h)
        for t in range(n_steps):
            a[t].addmm_(h[t], weight_HxG)
            step(t)
        return self._h, self._c

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor]:
        n_steps = len(d_out_TxBxH)
        d_h_TxBxH, d_c_BxH = self._d_h(d_out_TxBxH, d_last[0]), d_last[1].clone()
        d_gates_TxBxG = self.workspace.room("d_gates", n_steps, self._gates[0])
        step = self._step(gates.lstm_back, self._gates, self._c, self._tanh_c, d_h_TxBxH, d_c_BxH, d_gates_TxBxG)
        d_h, d_gates = d_h_TxBxH.unbind(0), d_gates_TxBxG.unbind(0)
        for t in range(n_steps - 1, -1, -1):
            step(t)
            if t:
                d_h[t - 1].addmm_(d_gates[t], self.weight_GxH)
        self._d_gates_BxG, self._d_c_BxH = d_gates[0], d_c_BxH
        return d_gates_TxBxG, d_gates_TxBxG

    def d_first(self) -> States:
        return self._d_gates_BxG @ self.weight_GxH, self._d_c_BxH


RECURRENCES: Mapping[tuple[str, str], type[Recurrence]] = {
    ("rnn", "tanh"): Rnn,
    ("rnn", "relu"): ReluRnn,
    ("gru", "tanh"): Gru,
    ("lstm", "tanh"): Lstm,
}


def recur(
    steps: Steps, x: Tensor, weight_GxH: Tensor, bias_H: Tensor, states: States, ids_TxB: Tensor | None = None
) -> tuple[Tensor, States]:
    """Outputs (T, B, H) and the states (B, H) after the last step, differentiable once by all tensors given.

    Args:
        x: the product with the inputs and what is added to it, (T, B, G), overwritten; with ids the rows (V, G) of all
            symbols, from which it is looked up.
    """
    out_TxBxH, *last = _Recur.apply(steps, ids_TxB, x, weight_GxH, bias_H, *states)  # type: ignore[no-untyped-call]
    return out_TxBxH, tuple(last)


class _Recur(torch.autograd.Function):
    """A recurrence as one operation for autograd."""

    @staticmethod
    def forward(
        ctx: Any, steps: Steps, ids_TxB: Tensor | None, x: Tensor, weight_GxH: Tensor, bias_H: Tensor, *states: Tensor
    ) -> States:
        recurrence = steps.begin(weight_GxH, bias_H)
        x_TxBxG = x.detach() if ids_TxB is None else recurrence.looked_up(ids_TxB, x.detach())
        all_T1xBxH = recurrence.forward(x_TxBxG, states)
        ctx.steps, ctx.recurrence, ctx.h_T1xBxH = steps, recurrence, all_T1xBxH[0]
        ctx.ids_TxB, ctx.n_symbols = ids_TxB, len(x)
        return all_T1xBxH[0][1:], *(state_T1xBxH[-1].clone() for state_T1xBxH in all_T1xBxH)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_TxBxH: Tensor, *d_last: Tensor) -> tuple[Tensor | None, ...]:
        d_gates_TxBxG, d_x = ctx.recurrence.backward(d_out_TxBxH, d_last)
        d_gates_NxG = d_gates_TxBxG.flatten(0, 1)
        d_weight_GxH = d_gates_NxG.t() @ ctx.h_T1xBxH[:-1].flatten(0, 1)
        d_bias_H = d_gates_NxG[:, d_gates_NxG.shape[1] - len(ctx.recurrence.bias_H) :].sum(0)
        # a state that was cut from the graph, as in training, needs none
        d_states = ctx.recurrence.d_first() if any(ctx.needs_input_grad[5:]) else (None,) * len(d_last)
        if ctx.ids_TxB is not None:
            d_table_VxG = d_x.new_zeros(ctx.n_symbols, d_x.shape[2])
            d_x = d_table_VxG.index_add_(0, ctx.ids_TxB.flatten(), d_x.flatten(0, 1))
        ctx.steps.end(ctx.recurrence)
        return None, None, d_x, d_weight_GxH, d_bias_H, *d_states


def _states(first_BxH: Tensor, n_steps: int) -> Tensor:
    """Room for the states of all steps, (T + 1, B, H), the one before step 0 filled in."""
    states_T1xBxH = first_BxH.new_empty(n_steps + 1, *first_BxH.shape)
    states_T1xBxH[0] = first_BxH
    return states_T1xBxH
