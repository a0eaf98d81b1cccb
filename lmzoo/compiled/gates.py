"""Gates of the recurrent cells and their gradients, compiled: the twins of `lmzoo.neural.gates`, in float32.

A step is one pass over the rows of the batch, where torch has a pass and a call for each operation.  The twins differ
by rounding: sigmoid and tanh by a polynomial, products and sums in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lmzoo.compiled.exponentials import OPTIONS, sigmoid, tanh

Floats = npt.NDArray[np.float32]
Step = Callable[[int], None]

_1 = np.float32(1)


def gru(gates_TxBxG: Floats, n_TxBxH: Floats, h_T1xBxH: Floats) -> Step:
    return lambda t: _gru(t, gates_TxBxG, n_TxBxH, h_T1xBxH)


def gru_back(
    gates_TxBxG: Floats,
    n_TxBxH: Floats,
    h_T1xBxH: Floats,
    d_h_TxBxH: Floats,
    d_gates_TxBxG: Floats,
    d_n_TxBxH: Floats,
) -> Step:
    return lambda t: _gru_back(t, gates_TxBxG, n_TxBxH, h_T1xBxH, d_h_TxBxH, d_gates_TxBxG, d_n_TxBxH)


def lstm(gates_TxBxG: Floats, c_T1xBxH: Floats, tanh_c_TxBxH: Floats, h_T1xBxH: Floats) -> Step:
    return lambda t: _lstm(t, gates_TxBxG, c_T1xBxH, tanh_c_TxBxH, h_T1xBxH)


def lstm_back(
    gates_TxBxG: Floats,
    c_T1xBxH: Floats,
    tanh_c_TxBxH: Floats,
    d_h_TxBxH: Floats,
    d_c_BxH: Floats,
    d_gates_TxBxG: Floats,
) -> Step:
    return lambda t: _lstm_back(t, gates_TxBxG, c_T1xBxH, tanh_c_TxBxH, d_h_TxBxH, d_c_BxH, d_gates_TxBxG)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _gru(t: int, gates_TxBxG: Any, n_TxBxH: Any, h_T1xBxH: Any) -> None:
    size = n_TxBxH.shape[2]
    for b in range(n_TxBxH.shape[1]):
        gates_G, n_H, h_H, out_H = gates_TxBxG[t, b], n_TxBxH[t, b], h_T1xBxH[t, b], h_T1xBxH[t + 1, b]
        r_H, z_H, s_H = gates_G[:size], gates_G[size : 2 * size], gates_G[2 * size :]
        for j in range(size):
            r, z = sigmoid(r_H[j]), sigmoid(z_H[j])
            n = tanh(n_H[j] + r * s_H[j])
            r_H[j], z_H[j], n_H[j] = r, z, n
            out_H[j] = n + z * (h_H[j] - n)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _gru_back(
    t: int,
    gates_TxBxG: Any,
    n_TxBxH: Any,
    h_T1xBxH: Any,
    d_h_TxBxH: Any,
    d_gates_TxBxG: Any,
    d_n_TxBxH: Any,
) -> None:
    size = n_TxBxH.shape[2]
    for b in range(n_TxBxH.shape[1]):
        gates_G, n_H, h_H = gates_TxBxG[t, b], n_TxBxH[t, b], h_T1xBxH[t, b]
        d_gates_G, d_n_H, d_h_H = d_gates_TxBxG[t, b], d_n_TxBxH[t, b], d_h_TxBxH[t, b]
        r_H, z_H, s_H = gates_G[:size], gates_G[size : 2 * size], gates_G[2 * size :]
        d_r_H, d_z_H, d_s_H = d_gates_G[:size], d_gates_G[size : 2 * size], d_gates_G[2 * size :]
        for j in range(size):
            r, z, n, d_h = r_H[j], z_H[j], n_H[j], d_h_H[j]
            d_n = d_h * (_1 - z) * (_1 - n * n)
            d_n_H[j] = d_n
            d_s_H[j] = d_n * r
            d_r_H[j] = d_n * s_H[j] * r * (_1 - r)
            d_z_H[j] = d_h * (h_H[j] - n) * z * (_1 - z)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _lstm(t: int, gates_TxBxG: Any, c_T1xBxH: Any, tanh_c_TxBxH: Any, h_T1xBxH: Any) -> None:
    size = h_T1xBxH.shape[2]
    for b in range(h_T1xBxH.shape[1]):
        gates_G, c_H, next_c_H = gates_TxBxG[t, b], c_T1xBxH[t, b], c_T1xBxH[t + 1, b]
        tanh_c_H, out_H = tanh_c_TxBxH[t, b], h_T1xBxH[t + 1, b]
        i_H, f_H, g_H, o_H = gates_G[:size], gates_G[size : 2 * size], gates_G[2 * size : 3 * size], gates_G[3 * size :]
        for j in range(size):
            i, f, g, o = sigmoid(i_H[j]), sigmoid(f_H[j]), tanh(g_H[j]), sigmoid(o_H[j])
            i_H[j], f_H[j], g_H[j], o_H[j] = i, f, g, o
            c = f * c_H[j] + i * g
            tanh_c = tanh(c)
            next_c_H[j], tanh_c_H[j] = c, tanh_c
            out_H[j] = o * tanh_c


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _lstm_back(
    t: int,
    gates_TxBxG: Any,
    c_T1xBxH: Any,
    tanh_c_TxBxH: Any,
    d_h_TxBxH: Any,
    d_c_BxH: Any,
    d_gates_TxBxG: Any,
) -> None:
    size = d_c_BxH.shape[1]
    for b in range(c_T1xBxH.shape[1]):
        gates_G, c_H, tanh_c_H = gates_TxBxG[t, b], c_T1xBxH[t, b], tanh_c_TxBxH[t, b]
        d_gates_G, d_h_H, d_c_H = d_gates_TxBxG[t, b], d_h_TxBxH[t, b], d_c_BxH[b]
        i_H, f_H, g_H, o_H = gates_G[:size], gates_G[size : 2 * size], gates_G[2 * size : 3 * size], gates_G[3 * size :]
        d_i_H, d_f_H = d_gates_G[:size], d_gates_G[size : 2 * size]
        d_g_H, d_o_H = d_gates_G[2 * size : 3 * size], d_gates_G[3 * size :]
        for j in range(size):
            i, f, g, o, tanh_c, d_h = i_H[j], f_H[j], g_H[j], o_H[j], tanh_c_H[j], d_h_H[j]
            d_c = d_c_H[j] + d_h * o * (_1 - tanh_c * tanh_c)
            d_i_H[j] = d_c * g * i * (_1 - i)
            d_f_H[j] = d_c * c_H[j] * f * (_1 - f)
            d_g_H[j] = d_c * i * (_1 - g * g)
            d_o_H[j] = d_h * tanh_c * o * (_1 - o)
            d_c_H[j] = d_c * f
