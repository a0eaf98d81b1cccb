"""Scoring one text with a recurrent network, compiled: the twins of `lmzoo.neural.scan`, in float32.

A step of one text is a product of a matrix with a vector, and what numpy spends beside it, some calls on a few hundred
numbers each, takes longer.  Here a step is two loops.

Sums are taken in another order than BLAS takes them and exponentials by a polynomial, so twins differ by rounding: like
its twin's, an answer lies within 1e-5 of the one in float64.  NaN stays NaN.  Signatures are given, so that nothing is
compiled for arrays of another kind while somebody waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit, types

from lmzoo.compiled.exponentials import OPTIONS, exp, sigmoid, tanh

# sums in any order
_SUMMING: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "reassoc", "nsz"}}

# cells by name and activation
KINDS: Mapping[tuple[str, str], int] = {("rnn", "tanh"): 0, ("rnn", "relu"): 1, ("gru", "tanh"): 2, ("lstm", "tanh"): 3}
_RNN_TANH, _RNN_RELU, _GRU, _LSTM = KINDS.values()

_0 = np.float32(0)


@njit(**_SUMMING)  # type: ignore[untyped-decorator]
def _product(weight_GxH: Any, h_H: Any, out_G: Any) -> None:
    """W h, four rows at a time: each number of h is loaded once for them."""
    n_rows = weight_GxH.shape[0]
    for g in range(0, n_rows - 3, 4):
        first = second = third = fourth = _0
        for j in range(weight_GxH.shape[1]):
            h = h_H[j]
            first += weight_GxH[g, j] * h
            second += weight_GxH[g + 1, j] * h
            third += weight_GxH[g + 2, j] * h
            fourth += weight_GxH[g + 3, j] * h
        out_G[g], out_G[g + 1], out_G[g + 2], out_G[g + 3] = first, second, third, fourth
    for g in range(n_rows & ~3, n_rows):
        first = _0
        for j in range(weight_GxH.shape[1]):
            first += weight_GxH[g, j] * h_H[j]
        out_G[g] = first


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _advance(kind: int, x_G: Any, weight_GxH: Any, bias_G: Any, h_H: Any, c_H: Any, gates_G: Any, out_H: Any) -> None:
    """One token: the new h into `out_H`, c in place (where a cell has one); `gates_G` is room to work in."""
    _product(weight_GxH, h_H, gates_G)
    size = len(h_H)
    if kind == _RNN_TANH:
        for j in range(size):
            out_H[j] = tanh(gates_G[j] + x_G[j])
    elif kind == _RNN_RELU:
        for j in range(size):
            h = gates_G[j] + x_G[j]
            out_H[j] = _0 if h < _0 else h
    elif kind == _GRU:
        for j in range(size):
            z, n = size + j, 2 * size + j
            reset = sigmoid(gates_G[j] + bias_G[j] + x_G[j])
            new = tanh((gates_G[n] + bias_G[n]) * reset + x_G[n])
            out_H[j] = new + sigmoid(gates_G[z] + bias_G[z] + x_G[z]) * (h_H[j] - new)
    else:
        for j in range(size):
            f, g, o = size + j, 2 * size + j, 3 * size + j
            c = sigmoid(gates_G[f] + x_G[f]) * c_H[j] + sigmoid(gates_G[j] + x_G[j]) * tanh(gates_G[g] + x_G[g])
            c_H[j] = c
            out_H[j] = sigmoid(gates_G[o] + x_G[o]) * tanh(c)


def _given(n_axes: int) -> Any:
    return types.Array(types.float32, n_axes, "C", readonly=True)


def _filled(n_axes: int) -> Any:
    return types.Array(types.float32, n_axes, "C")


@njit(types.void(types.int64, _given(3), _given(2), _given(1), _filled(3), _filled(3)), **OPTIONS)  # type: ignore[untyped-decorator]
def scan(kind: int, x_TxBxG: Any, weight_GxH: Any, bias_G: Any, states_SxBxH: Any, out_TxBxH: Any) -> None:
    """As `lmzoo.neural.scan.Scan`, a text after the other: BLAS is better at several."""
    gates_G = np.empty(weight_GxH.shape[0], np.float32)
    for b in range(x_TxBxG.shape[1]):
        h_H = states_SxBxH[0, b]
        for t in range(x_TxBxG.shape[0]):
            _advance(kind, x_TxBxG[t, b], weight_GxH, bias_G, h_H, states_SxBxH[-1, b], gates_G, out_TxBxH[t, b])
            h_H = out_TxBxH[t, b]
        states_SxBxH[0, b] = h_H


@njit(types.void(types.int64, types.int64, *map(_given, (1, 2, 2, 1, 1, 4)), types.int64, _filled(4)), **OPTIONS)  # type: ignore[untyped-decorator]
def step(
    kind: int,
    token: int,
    input_I: Any,
    weight_ih_GxI: Any,
    weight_hh_GxH: Any,
    bias_ih_G: Any,
    bias_hh_G: Any,
    before_SxKx1xH: Any,
    k: int,
    after_SxKx1xH: Any,
) -> None:
    """Layer k reads one token, its own column of the weights, or (token < 0) `input_I`."""
    x_G = np.empty(len(bias_ih_G), np.float32)
    if token < 0:
        _product(weight_ih_GxI, input_I, x_G)
    else:
        for g in range(len(x_G)):
            x_G[g] = weight_ih_GxI[g, token]
    for g in range(len(x_G)):
        x_G[g] += bias_ih_G[g] if kind == _GRU else bias_ih_G[g] + bias_hh_G[g]
    gates_G = np.empty(len(x_G), np.float32)
    for s in range(1, len(before_SxKx1xH)):
        after_SxKx1xH[s, k, 0] = before_SxKx1xH[s, k, 0]
    h_H, c_H = before_SxKx1xH[0, k, 0], after_SxKx1xH[-1, k, 0]
    _advance(kind, x_G, weight_hh_GxH, bias_hh_G, h_H, c_H, gates_G, after_SxKx1xH[0, k, 0])


@njit(**_SUMMING)  # type: ignore[untyped-decorator]
def _total(logits_V: Any, most: Any) -> Any:
    """Sum of e^(x - most)."""
    total = _0
    for v in range(len(logits_V)):
        total += exp(logits_V[v] - most)
    return total


@njit(types.void(*map(_given, (1, 2, 1, 1)), _filled(1)), **OPTIONS)  # type: ignore[untyped-decorator]
def log_softmax(h_H: Any, weight_VxH: Any, bias_V: Any, mask_V: Any, out_V: Any) -> None:
    """ln p of each symbol into `out_V`."""
    _product(weight_VxH, h_H, out_V)
    most = -np.float32(np.inf)
    for v in range(len(out_V)):
        out_V[v] += bias_V[v] + mask_V[v]
        most = max(out_V[v], most)
    shift = most + np.float32(np.log(_total(out_V, most)))
    for v in range(len(out_V)):
        out_V[v] -= shift
