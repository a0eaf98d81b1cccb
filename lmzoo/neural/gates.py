"""What a step does beside its product with the state, by torch: gates forward, and their gradients backward.

Every function is given the arrays of all steps, makes ready what it can for all of them at once, and gives the step:
called with t, it does what step t needs, in place.  `lmzoo.compiled.gates` has them again, in one pass over each row.

Notation as in `recurrence.py`; what follows each `d_` starts as room to be filled.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[int], None]

# y' d, given the value y of a sigmoid or a tanh, into `grad_input`: one pass where y (1 - y) d takes three
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def gru(gates_TxBxG: Tensor, n_TxBxH: Tensor, h_T1xBxH: Tensor) -> Step:
    """r, z = sigmoid; n = tanh(x_n + r s); h' = n + z (h - n).  `gates` hold a_r, a_z and s, `n` holds x_n."""
    size = n_TxBxH.shape[2]
    # views made all at once: one at a time they would cost as much as the gates themselves
    rz, n, h = gates_TxBxG[..., : 2 * size].unbind(0), n_TxBxH.unbind(0), h_T1xBxH.unbind(0)
    r, z, s = (gate_TxBxH.unbind(0) for gate_TxBxH in by_gate(gates_TxBxG, size).unbind(2))

    def step(t: int) -> None:
        rz[t].sigmoid_()
        n[t].addcmul_(r[t], s[t]).tanh_()
        torch.lerp(n[t], h[t], z[t], out=h[t + 1])

    return step


def gru_back(
    gates_TxBxG: Tensor,
    n_TxBxH: Tensor,
    h_T1xBxH: Tensor,
    d_h_TxBxH: Tensor,
    d_gates_TxBxG: Tensor,
    d_n_TxBxH: Tensor,
) -> Step:
    """d_a_n = d_h (1 - z) (1 - n^2), d_s = r d_a_n, d_a_r = s r (1 - r) d_a_n, d_a_z = d_h (h - n) z (1 - z)."""
    size = n_TxBxH.shape[2]
    r, z, s = by_gate(gates_TxBxG, size).unbind(2)
    # every gradient starts as what d_h will be multiplied with
    _tanh_backward(1 - z, n_TxBxH, grad_input=d_n_TxBxH)
    by_r, by_z, by_s = by_gate(d_gates_TxBxG, size).unbind(2)
    _sigmoid_backward(s, r, grad_input=by_r).mul_(d_n_TxBxH)
    _sigmoid_backward(h_T1xBxH[:-1] - n_TxBxH, z, grad_input=by_z)
    torch.mul(r, d_n_TxBxH, out=by_s)
    d_gates, d_h_Bx1xH = by_gate(d_gates_TxBxG, size).unbind(0), d_h_TxBxH[:, :, None].unbind(0)
    d_n, d_h = d_n_TxBxH.unbind(0), d_h_TxBxH.unbind(0)

    def step(t: int) -> None:
        d_gates[t].mul_(d_h_Bx1xH[t])
        d_n[t].mul_(d_h[t])

    return step


def lstm(gates_TxBxG: Tensor, c_T1xBxH: Tensor, tanh_c_TxBxH: Tensor, h_T1xBxH: Tensor) -> Step:
    """i, f, o = sigmoid, g = tanh; c' = f c + i g; h' = o tanh(c').  `gates` hold a_i, a_f, a_g and a_o."""
    size = h_T1xBxH.shape[2]
    h, c, tanh_c = h_T1xBxH.unbind(0), c_T1xBxH.unbind(0), tanh_c_TxBxH.unbind(0)
    i_f = gates_TxBxG[..., : 2 * size].unbind(0)
    i, f, g, o = (gate_TxBxH.unbind(0) for gate_TxBxH in by_gate(gates_TxBxG, size).unbind(2))

    def step(t: int) -> None:
        i_f[t].sigmoid_()
        torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t].tanh_())
        torch.mul(o[t].sigmoid_(), torch.tanh(c[t + 1], out=tanh_c[t]), out=h[t + 1])

    return step


def lstm_back(
    gates_TxBxG: Tensor,
    c_T1xBxH: Tensor,
    tanh_c_TxBxH: Tensor,
    d_h_TxBxH: Tensor,
    d_c_BxH: Tensor,
    d_gates_TxBxG: Tensor,
) -> Step:
    """d_c += d_h o (1 - tanh(c')^2); d_a_i = d_c g i (1 - i), d_a_f = d_c c f (1 - f), d_a_g = d_c i (1 - g^2), d_a_o =
    d_h tanh(c') o (1 - o); then d_c of the step before, d_c f, in place."""
    size = d_c_BxH.shape[1]
    i, f, g, o = by_gate(gates_TxBxG, size).unbind(2)
    by_h_TxBxH = torch.empty_like(tanh_c_TxBxH)
    # every gradient starts as what d_c (of the output gate: d_h) will be multiplied with
    by_i, by_f, by_g, by_o = by_gate(d_gates_TxBxG, size).unbind(2)
    _sigmoid_backward(g, i, grad_input=by_i)
    _sigmoid_backward(c_T1xBxH[:-1], f, grad_input=by_f)
    _tanh_backward(i, g, grad_input=by_g)
    _sigmoid_backward(tanh_c_TxBxH, o, grad_input=by_o)
    _tanh_backward(o, tanh_c_TxBxH, grad_input=by_h_TxBxH)
    d_ifg, d_o = by_gate(d_gates_TxBxG, size)[:, :, :3].unbind(0), by_o.unbind(0)
    d_h, by_h, kept, d_c_Bx1xH = d_h_TxBxH.unbind(0), by_h_TxBxH.unbind(0), f.unbind(0), d_c_BxH[:, None]

    def step(t: int) -> None:
        d_c_BxH.addcmul_(d_h[t], by_h[t])
        d_ifg[t].mul_(d_c_Bx1xH)
        d_o[t].mul_(d_h[t])
        d_c_BxH.mul_(kept[t])

    return step


def by_gate(gates_TxBxG: Tensor, size: int) -> Tensor:
    """The gates apart, (T, B, n_gates, H), a view."""
    return gates_TxBxG.view(*gates_TxBxG.shape[:2], -1, size)
