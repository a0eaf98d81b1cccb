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

# y' d, given the value y of a sigmoid or a tanh, into `grad_input`: one pass where y (1 - y) d takes three
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


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
        d_a_TxBxH = self._slope(self._h[1:])
        d_a, d_out = d_a_TxBxH.unbind(0), d_out_TxBxH.unbind(0)
        d_h_BxH = d_out[-1] + d_last[0]
        for t in range(len(d_a) - 1, -1, -1):
            d_a[t].mul_(d_h_BxH)
            if t:
                torch.addmm(d_out[t - 1], d_a[t], self.weight_GxH, out=d_h_BxH)
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
        h, a, n = self._h.unbind(0), x_TxBxG.unbind(0), self._n.unbind(0)
        rz = x_TxBxG[..., : 2 * size].unbind(0)
        r, z, s = (gate_TxBxH.unbind(0) for gate_TxBxH in _by_gate(x_TxBxG, size).unbind(2))
        for t in range(len(a)):
            a[t].addmm_(h[t], weight_HxG)
            rz[t].sigmoid_()
            n[t].addcmul_(r[t], s[t]).tanh_()
            torch.lerp(n[t], h[t], z[t], out=h[t + 1])
        return (self._h,)

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        size = self.weight_GxH.shape[1]
        r, z, s = _by_gate(self._gates, size).unbind(2)
        d_gates_TxBxG, d_n_TxBxH = torch.empty_like(self._gates), torch.empty_like(self._n)
        # d_a_n = d_h (1 - z) (1 - n^2), and so on: every gradient starts as what d_h will be multiplied with
        _tanh_backward(1 - z, self._n, grad_input=d_n_TxBxH)
        r_slope, z_slope, s_slope = _by_gate(d_gates_TxBxG, size).unbind(2)
        _sigmoid_backward(s, r, grad_input=r_slope).mul_(d_n_TxBxH)
        _sigmoid_backward(self._h[:-1] - self._n, z, grad_input=z_slope)
        torch.mul(r, d_n_TxBxH, out=s_slope)
        by_gate, d_gates = _by_gate(d_gates_TxBxG, size).unbind(0), d_gates_TxBxG.unbind(0)
        d_out, d_n, kept = d_out_TxBxH.unbind(0), d_n_TxBxH.unbind(0), z.unbind(0)
        d_h_BxH = d_out[-1] + d_last[0]
        d_h_Bx1xH = d_h_BxH[:, None]
        for t in range(len(d_out) - 1, -1, -1):
            by_gate[t].mul_(d_h_Bx1xH)
            d_n[t].mul_(d_h_BxH)
            d_h_BxH.mul_(kept[t]).addmm_(d_gates[t], self.weight_GxH)
            if t:
                d_h_BxH.add_(d_out[t - 1])
        d_x_TxBxG = d_gates_TxBxG.clone()
        _by_gate(d_x_TxBxG, size)[:, :, 2] = d_n_TxBxH
        return d_gates_TxBxG, d_x_TxBxG, (d_h_BxH,)


class Lstm(Recurrence):
    """i, f, o = sigmoid(a), g = tanh(a); c' = f c + i g; h' = o tanh(c') (Gers et al. 2000)."""

    def forward(self, x_TxBxG: Tensor, states: States) -> States:
        weight_HxG = self.weight_GxH.t().contiguous()
        size, n_steps = weight_HxG.shape[0], len(x_TxBxG)
        self._gates = x_TxBxG
        self._h, self._c = (_room(state, n_steps) for state in states)
        self._tanh_c = torch.empty_like(self._c[1:])
        h, c, a, tanh_c = self._h.unbind(0), self._c.unbind(0), x_TxBxG.unbind(0), self._tanh_c.unbind(0)
        # views made all at once: one at a time they would cost as much as the gates themselves
        i_f = x_TxBxG[..., : 2 * size].unbind(0)
        i, f, g, o = (gate_TxBxH.unbind(0) for gate_TxBxH in _by_gate(x_TxBxG, size).unbind(2))
        for t in range(n_steps):
            a[t].addmm_(h[t], weight_HxG)
            i_f[t].sigmoid_()
            torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t].tanh_())
            torch.mul(o[t].sigmoid_(), torch.tanh(c[t + 1], out=tanh_c[t]), out=h[t + 1])
        return self._h, self._c

    def backward(self, d_out_TxBxH: Tensor, d_last: States) -> tuple[Tensor, Tensor, States]:
        size = self.weight_GxH.shape[1]
        i, f, g, o = _by_gate(self._gates, size).unbind(2)
        d_gates_TxBxG, h_to_c_TxBxH = torch.empty_like(self._gates), torch.empty_like(self._tanh_c)
        # d_a_i = d_c g i (1 - i), and so on: every gradient starts as what d_c (d_h: the output gate) will multiply
        i_slope, f_slope, g_slope, o_slope = _by_gate(d_gates_TxBxG, size).unbind(2)
        _sigmoid_backward(g, i, grad_input=i_slope)
        _sigmoid_backward(self._c[:-1], f, grad_input=f_slope)
        _tanh_backward(i, g, grad_input=g_slope)
        _sigmoid_backward(self._tanh_c, o, grad_input=o_slope)
        _tanh_backward(o, self._tanh_c, grad_input=h_to_c_TxBxH)
        d_gates, by_gate = d_gates_TxBxG.unbind(0), _by_gate(d_gates_TxBxG, size)
        d_ifg, d_o = by_gate[:, :, :3].unbind(0), by_gate[:, :, 3].unbind(0)
        d_out, h_to_c, kept = d_out_TxBxH.unbind(0), h_to_c_TxBxH.unbind(0), f.unbind(0)
        d_h_BxH, d_c_BxH = d_out[-1] + d_last[0], d_last[1].clone()
        d_c_Bx1xH = d_c_BxH[:, None]
        for t in range(len(d_out) - 1, -1, -1):
            d_c_BxH.addcmul_(d_h_BxH, h_to_c[t])
            d_ifg[t].mul_(d_c_Bx1xH)
            d_o[t].mul_(d_h_BxH)
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


def _by_gate(gates_TxBxG: Tensor, size: int) -> Tensor:
    """The gates apart, (T, B, n_gates, H), a view."""
    return gates_TxBxG.view(*gates_TxBxG.shape[:2], -1, size)
