"""The recurrences over many steps with their gradients written out: backpropagation through time by hand.

Forward, the product with the inputs was taken for all steps at once; what is left of a step is one product with the
state and the gates.  Backward, every factor that does not depend on what comes back from later steps is taken for all
steps at once; what is left of a step is one product with the gates' gradients.  The gradient of the weights is one
product over all steps.  The plain loop that says the same in a few lines, with gradients by autograd, is `cells.py`.

Notation: an `a` is a gate before its sigmoid or tanh, `d_y` the gradient of the loss by y (Werbos 1990, eqs. 21 to 27;
Hochreiter & Schmidhuber 1997, appendix A.1, without its truncation inside the cell).  G is the number of gates times H.
Steps are numbered from 0; states have a row more, the first being the state before step 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.neural.cells import States

# y' d, given the value y of a sigmoid or a tanh: one pass where y (1 - y) d takes three
_sigmoid_backward = torch.ops.aten.sigmoid_backward.default
_tanh_backward = torch.ops.aten.tanh_backward.default


class Recurrence(ABC):
    """One layer over the T steps of one batch: forward, then back.  Keeps what the way back needs.

    Args:
        weight_GxH: of the product with the state.
        bias_H: added to the state's part of the new value before the reset gate acts on it (GRU); elsewhere (0,).
    """

    def __init__(self, weight_GxH: Tensor, bias_H: Tensor) -> None:
        self.weight_GxH = weight_GxH
        self.bias_H = bias_H

    @abstractmethod
    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        """All states, first to last, (T + 1, B, H) each, the outputs first.  `x_TxBxG` is overwritten."""

    @abstractmethod
    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        """Gradients of the gates' state product and of x, both (T, B, G), and by the states before step 0.

        Args:
            d_last: gradients by the states after the last step, beside what the outputs give.
        """


class Rnn(Recurrence):
    """h' = f(x + W h), f tanh or relu (Elman 1990)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxH = self.weight_GxH.t().contiguous()
        self._h = _room(states[0], len(x_TxBxG))
        rows = self._h.unbind(0)
        for x_BxH, before_BxH, h_BxH in zip(x_TxBxG.unbind(0), rows, rows[1:], strict=False):
            torch.addmm(x_BxH, before_BxH, weight_HxH, out=h_BxH)
            self._activate(h_BxH)
        return (self._h,)

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        d_a_TxBxH = torch.empty_like(d_out_TxBxH)
        slope = self._slope(self._h[1:]).unbind(0)
        d_a, d_out = d_a_TxBxH.unbind(0), d_out_TxBxH.unbind(0)
        torch.add(d_out[-1], d_last[0], out=d_a[-1]).mul_(slope[-1])
        for t in range(len(d_a) - 2, -1, -1):
            torch.addmm(d_out[t], d_a[t + 1], self.weight_GxH, out=d_a[t]).mul_(slope[t])
        return d_a_TxBxH, d_a_TxBxH, (d_a[0] @ self.weight_GxH,)

    def _activate(self, a: Tensor) -> Tensor:
        return a.tanh_()

    def _slope(self, h: Tensor) -> Tensor:
        return torch.addcmul(torch.ones_like(h), h, h, value=-1)


class ReluRnn(Rnn):
    """The same with max(a, 0); at 0 its slope is taken to be 0."""

    def _activate(self, a: Tensor) -> Tensor:
        return a.relu_()

    def _slope(self, h: Tensor) -> Tensor:
        return (h > 0).to(h.dtype)


class Gru(Recurrence):
    """r, z = sigmoid(a); n = tanh(x_n + r s), s = W_n h + b; h' = n + z (h - n) (Cho et al. 2014, as in cuDNN)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxG = self.weight_GxH.t().contiguous()
        size = weight_HxG.shape[0]
        # s takes the place of x_n, so that one product serves all gates
        self._n = x_TxBxG[..., 2 * size :].clone()
        x_TxBxG[..., 2 * size :] = self.bias_H
        self._gates = x_TxBxG
        self._h = _room(states[0], len(x_TxBxG))
        rows = self._h.unbind(0)
        for a_BxG, n_BxH, before_BxH, h_BxH in zip(x_TxBxG.unbind(0), self._n.unbind(0), rows, rows[1:], strict=False):
            a_BxG.addmm_(before_BxH, weight_HxG)
            rz_BxRz, s_BxH = a_BxG.split_with_sizes((2 * size, size), dim=1)
            r_BxH, z_BxH = rz_BxRz.sigmoid_().chunk(2, dim=1)
            n_BxH.addcmul_(r_BxH, s_BxH).tanh_()
            torch.lerp(n_BxH, before_BxH, z_BxH, out=h_BxH)
        return (self._h,)

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        r, z, s = _by_gate(self._gates, 3).unbind(2)
        # d_a_n = d_h (1 - z) (1 - n^2), and so on: each gate's gradient is d_h times a factor known beforehand
        by_n = _tanh_backward(1 - z, self._n)
        factors = torch.stack(
            (_sigmoid_backward(s, r) * by_n, _sigmoid_backward(self._h[:-1] - self._n, z), r * by_n), dim=2
        ).unbind(0)
        d_gates_TxBxG = torch.empty_like(self._gates)
        d_h_TxBxH = torch.empty_like(d_out_TxBxH)
        d_gates, d_h, d_out = d_gates_TxBxG.unbind(0), d_h_TxBxH.unbind(0), d_out_TxBxH.unbind(0)
        by_gate, kept = _by_gate(d_gates_TxBxG, 3).unbind(0), z.unbind(0)
        torch.add(d_out[-1], d_last[0], out=d_h[-1])
        for t in range(len(d_h) - 1, -1, -1):
            torch.mul(d_h[t][:, None], factors[t], out=by_gate[t])
            if t:
                torch.addmm(d_out[t - 1], d_gates[t], self.weight_GxH, out=d_h[t - 1]).addcmul_(d_h[t], kept[t])
        d_x_TxBxG = d_gates_TxBxG.clone()
        torch.mul(d_h_TxBxH, by_n, out=_by_gate(d_x_TxBxG, 3)[:, :, 2])
        return d_gates_TxBxG, d_x_TxBxG, (torch.addcmul(d_gates[0] @ self.weight_GxH, d_h[0], kept[0]),)


class Lstm(Recurrence):
    """i, f, o = sigmoid(a), g = tanh(a); c' = f c + i g; h' = o tanh(c') (Gers et al. 2000)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxG = self.weight_GxH.t().contiguous()
        size, n_steps = weight_HxG.shape[0], len(x_TxBxG)
        self._gates = x_TxBxG
        self._h, self._c = (_room(state, n_steps) for state in states)
        self._tanh_c = torch.empty_like(self._c[1:])
        h, c = self._h.unbind(0), self._c.unbind(0)
        for t, (a_BxG, tanh_c_BxH) in enumerate(zip(x_TxBxG.unbind(0), self._tanh_c.unbind(0), strict=True)):
            a_BxG.addmm_(h[t], weight_HxG)
            if_BxIf, g_BxH, o_BxH = a_BxG.split_with_sizes((2 * size, size, size), dim=1)
            i_BxH, f_BxH = if_BxIf.sigmoid_().chunk(2, dim=1)
            torch.mul(f_BxH, c[t], out=c[t + 1]).addcmul_(i_BxH, g_BxH.tanh_())
            torch.mul(o_BxH.sigmoid_(), torch.tanh(c[t + 1], out=tanh_c_BxH), out=h[t + 1])
        return self._h, self._c

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        i, f, g, o = _by_gate(self._gates, 4).unbind(2)
        # d_a_i = d_c g i (1 - i), and so on: d_c (of the output gate: d_h) times a factor known beforehand
        by_c = torch.stack(
            (_sigmoid_backward(g, i), _sigmoid_backward(self._c[:-1], f), _tanh_backward(i, g)), dim=2
        ).unbind(0)
        by_h, h_to_c = _sigmoid_backward(self._tanh_c, o).unbind(0), _tanh_backward(o, self._tanh_c).unbind(0)
        d_gates_TxBxG = torch.empty_like(self._gates)
        by_gate = _by_gate(d_gates_TxBxG, 4)
        d_ifg, d_o = by_gate[:, :, :3].unbind(0), by_gate[:, :, 3].unbind(0)
        d_gates, d_out, kept = d_gates_TxBxG.unbind(0), d_out_TxBxH.unbind(0), f.unbind(0)
        d_h_BxH, d_c_BxH = d_out[-1] + d_last[0], d_last[1].clone()
        for t in range(len(d_out) - 1, -1, -1):
            d_c_BxH.addcmul_(d_h_BxH, h_to_c[t])
            torch.mul(d_c_BxH[:, None], by_c[t], out=d_ifg[t])
            torch.mul(d_h_BxH, by_h[t], out=d_o[t])
            d_c_BxH.mul_(kept[t])
            if t:
                torch.addmm(d_out[t - 1], d_gates[t], self.weight_GxH, out=d_h_BxH)
        return d_gates_TxBxG, d_gates_TxBxG, (d_gates[0] @ self.weight_GxH, d_c_BxH)


RECURRENCES: Mapping[tuple[str, str], type[Recurrence]] = {
    ("rnn", "tanh"): Rnn,
    ("rnn", "relu"): ReluRnn,
    ("gru", "tanh"): Gru,
    ("lstm", "tanh"): Lstm,
}


def recur(
    kind: type[Recurrence], x_TxBxG: Tensor, weight_GxH: Tensor, bias_H: Tensor, states: States
) -> tuple[Tensor, States]:
    """Outputs (T, B, H) and the states (B, H) after the last step, differentiable once by all tensors given.

    `x_TxBxG`, the product with the inputs and what is added to it, is overwritten.
    """
    out_TxBxH, *last = _Recur.apply(kind, x_TxBxG, weight_GxH, bias_H, *states)  # type: ignore[no-untyped-call]
    return out_TxBxH, tuple(last)


class _Recur(torch.autograd.Function):
    """A recurrence as one operation for autograd."""

    @staticmethod
    def forward(
        ctx: Any, kind: type[Recurrence], x_TxBxG: Tensor, weight_GxH: Tensor, bias_H: Tensor, *states: Tensor
    ) -> States:
        recurrence = kind(weight_GxH, bias_H)
        all_T1xBxH = recurrence.forward(x_TxBxG, states)
        ctx.recurrence, ctx.h_T1xBxH = recurrence, all_T1xBxH[0]
        return all_T1xBxH[0][1:], *(state_T1xBxH[-1].clone() for state_T1xBxH in all_T1xBxH)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_TxBxH: Tensor, *d_last: Tensor) -> tuple[Tensor | None, ...]:
        d_gates_TxBxG, d_x_TxBxG, d_states = ctx.recurrence.backward(d_out_TxBxH, d_last)
        d_gates_NxG = d_gates_TxBxG.flatten(0, 1)
        d_weight_GxH = d_gates_NxG.t() @ ctx.h_T1xBxH[:-1].flatten(0, 1)
        d_bias_H = d_gates_NxG[:, d_gates_NxG.shape[1] - len(ctx.recurrence.bias_H) :].sum(0)
        return None, d_x_TxBxG, d_weight_GxH, d_bias_H, *d_states


def _room(first_BxH: Tensor, n_steps: int) -> Tensor:
    """Room for the states of all steps, (T + 1, B, H), the one before step 0 filled in."""
    states_T1xBxH = first_BxH.new_empty(n_steps + 1, *first_BxH.shape)
    states_T1xBxH[0] = first_BxH
    return states_T1xBxH


def _by_gate(gates_TxBxG: Tensor, n_gates: int) -> Tensor:
    """The gates side by side as (T, B, n_gates, H), a view."""
    return gates_TxBxG.view(*gates_TxBxG.shape[:2], n_gates, -1)
