"""The cells once more, for scoring on the CPU: numpy into preallocated buffers, nothing kept for a gradient.

A step of one row costs some microseconds here, where every call into torch costs about as much as all its arithmetic.
Sigmoids are taken as (tanh(x/2) + 1)/2, so that one call serves all gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
# (x_TxBxG, weight_hh_GxH, bias_hh_G, states_SxBxH: overwritten, outputs_TxBxH: filled)
Scan = Callable[[Floats, Floats, Floats, Floats, Floats], None]


# steps that earn back laying a weight out anew, of one text and of several
_STEPS_FOR_LAYOUT = (256, 8)


def scan_rnn_tanh(x_TxBxG: Floats, weight_GxH: Floats, bias_G: Floats, states_SxBxH: Floats, out_TxBxH: Floats) -> None:
    """h' = tanh(x + W h); the bias is in x."""
    _scan_rnn(x_TxBxG, weight_GxH, states_SxBxH, out_TxBxH, lambda h, out: np.tanh(h, out=out))


def scan_rnn_relu(x_TxBxG: Floats, weight_GxH: Floats, bias_G: Floats, states_SxBxH: Floats, out_TxBxH: Floats) -> None:
    """h' = max(x + W h, 0); the bias is in x."""
    _scan_rnn(x_TxBxG, weight_GxH, states_SxBxH, out_TxBxH, lambda h, out: np.maximum(h, 0, out=out))


def _scan_rnn(
    x_TxBxG: Floats,
    weight_GxH: Floats,
    states_SxBxH: Floats,
    out_TxBxH: Floats,
    activate: Callable[[Floats, Floats], Floats],
) -> None:
    h_BxH, weight_HxG = states_SxBxH[0], _transposed(weight_GxH, x_TxBxG)
    for x_BxG, out_BxH in zip(x_TxBxG, out_TxBxH, strict=True):
        np.dot(h_BxH, weight_HxG, out=out_BxH)
        out_BxH += x_BxG
        h_BxH = activate(out_BxH, out_BxH)
    states_SxBxH[0] = h_BxH


def scan_lstm(x_TxBxG: Floats, weight_GxH: Floats, bias_G: Floats, states_SxBxH: Floats, out_TxBxH: Floats) -> None:
    """Gates i, f, g, o; the bias is in x."""
    h_BxH, c_BxH = states_SxBxH
    size, weight_HxG = h_BxH.shape[1], _transposed(weight_GxH, x_TxBxG)
    # i, f, o become sigmoids, g stays a tanh
    scale_G, shift_G = _sigmoid_by_tanh(("i", "f", None, "o"), size, x_TxBxG.dtype)
    gates_BxG = np.empty(x_TxBxG.shape[1:], x_TxBxG.dtype)
    i_BxH, f_BxH, g_BxH, o_BxH = (gates_BxG[:, k * size : (k + 1) * size] for k in range(4))
    for x_BxG, out_BxH in zip(x_TxBxG, out_TxBxH, strict=True):
        np.dot(h_BxH, weight_HxG, out=gates_BxG)
        gates_BxG += x_BxG
        _squash(gates_BxG, scale_G, shift_G)
        c_BxH *= f_BxH
        i_BxH *= g_BxH
        c_BxH += i_BxH
        h_BxH = np.tanh(c_BxH, out=out_BxH)
        h_BxH *= o_BxH
    states_SxBxH[0] = h_BxH


def scan_gru(x_TxBxG: Floats, weight_GxH: Floats, bias_G: Floats, states_SxBxH: Floats, out_TxBxH: Floats) -> None:
    """Gates r, z, n; the state's bias stands inside the reset gate."""
    h_BxH = states_SxBxH[0]
    size, weight_HxG = h_BxH.shape[1], _transposed(weight_GxH, x_TxBxG)
    scale_G, shift_G = _sigmoid_by_tanh(("r", "z"), size, x_TxBxG.dtype)
    gates_BxG = np.empty(x_TxBxG.shape[1:], x_TxBxG.dtype)
    rz_Bx2H, n_BxH = gates_BxG[:, : 2 * size], gates_BxG[:, 2 * size :]
    r_BxH, z_BxH = rz_Bx2H[:, :size], rz_Bx2H[:, size:]
    for x_BxG, out_BxH in zip(x_TxBxG, out_TxBxH, strict=True):
        np.dot(h_BxH, weight_HxG, out=gates_BxG)
        gates_BxG += bias_G
        rz_Bx2H += x_BxG[:, : 2 * size]
        _squash(rz_Bx2H, scale_G, shift_G)
        n_BxH *= r_BxH
        n_BxH += x_BxG[:, 2 * size :]
        np.tanh(n_BxH, out=n_BxH)
        # n + z (h - n)
        np.subtract(h_BxH, n_BxH, out=out_BxH)
        out_BxH *= z_BxH
        out_BxH += n_BxH
        h_BxH = out_BxH
    states_SxBxH[0] = h_BxH


SCANS: Mapping[tuple[str, str], Scan] = {
    ("rnn", "tanh"): scan_rnn_tanh,
    ("rnn", "relu"): scan_rnn_relu,
    ("gru", "tanh"): scan_gru,
    ("lstm", "tanh"): scan_lstm,
}


def input_product(
    ids_N: npt.NDArray[np.integer[Any]], embedding: Floats | None, weight_GxI: Floats, bias_G: Floats
) -> Floats:
    """Product of the first layer with tokens, bias added, (N, G): by a table of all symbols where that is less work."""
    n_symbols = weight_GxI.shape[1] if embedding is None else len(embedding)
    if len(ids_N) == 1:
        # one column as a view: an index of several costs some microseconds
        row = weight_GxI[:, ids_N[0]] if embedding is None else np.dot(weight_GxI, embedding[ids_N[0]])
        return (row + bias_G)[None]
    if len(ids_N) < n_symbols:
        rows = weight_GxI[:, ids_N].T if embedding is None else embedding[ids_N] @ weight_GxI.T
        return np.ascontiguousarray(rows + bias_G)
    table = weight_GxI.T if embedding is None else embedding @ weight_GxI.T
    table = np.ascontiguousarray(table + bias_G)
    return table.take(ids_N, axis=0)


def _transposed(weight_GxH: Floats, x_TxBxG: Floats) -> Floats:
    """The transpose, laid out as such where many steps follow: BLAS multiplies rows by it up to 7 times as fast."""
    n_steps, n_texts = x_TxBxG.shape[:2]
    is_worth_it = n_steps >= _STEPS_FOR_LAYOUT[n_texts > 1]
    return np.ascontiguousarray(weight_GxH.T) if is_worth_it else weight_GxH.T


def log_softmax(hidden_H: Floats, weight_VxH: Floats, bias_V: Floats, mask_V: Floats, out_V: Floats) -> None:
    """ln p of each symbol into `out_V`, of what the output layer reads in one text; weights that diverged give NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        np.dot(weight_VxH, hidden_H, out=out_V)
        out_V += bias_V
        out_V += mask_V
        out_V -= np.maximum.reduce(out_V)
        out_V -= np.log(np.add.reduce(np.exp(out_V)))


@cache
def _sigmoid_by_tanh(gates: tuple[str | None, ...], size: int, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
    """Scale and shift by gate: 1/2 and 1/2 where a sigmoid is wanted, 1 and 0 where the tanh itself is."""
    is_sigmoid_G = np.repeat([gate is not None for gate in gates], size)
    return np.where(is_sigmoid_G, 0.5, 1.0).astype(dtype), np.where(is_sigmoid_G, 0.5, 0.0).astype(dtype)


def _squash(gates_BxG: Floats, scale_G: Floats, shift_G: Floats) -> None:
    gates_BxG *= scale_G
    np.tanh(gates_BxG, out=gates_BxG)
    gates_BxG *= scale_G
    gates_BxG += shift_G
