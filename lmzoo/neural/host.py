"""A recurrent network on the CPU as numpy sees it, for answers that take microseconds.

A call into torch costs some microseconds, about as much as all the arithmetic of one token, so none is made here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from lmzoo import compiled
from lmzoo.neural.cells import CELLS
from lmzoo.neural.config import RecurrentConfig
from lmzoo.neural.network import RecurrentNetwork
from lmzoo.neural.scan import SCANS, Floats, input_product, log_softmax

Ids = npt.NDArray[np.integer[Any]]

# Compiled code is taken where it is loaded already: a text has to be long before loading it would pay.  What it saves
# of a token (docs/figures.md), and how many tokens are read at the least once one is.
_SAVED_NS_PER_TOKEN = 5_000
_FEW_TOKENS = 100
# It takes texts one after the other.  Several together are worth more to BLAS where the weights do not stay in a core's
# second cache from one to the next, and where there is one gate only.
_MOST_TEXTS = 8
_MOST_BYTES = 1 << 20

_NO_INPUT = np.zeros(0, np.float32)


class _Layer(NamedTuple):
    weight_ih_GxI: Floats
    weight_hh_GxH: Floats
    bias_ih_G: Floats
    bias_hh_G: Floats


class HostNetwork:
    """Views of the weights of a network.  They share its memory, and nothing derived from a weight is kept.

    So what an optimizer does to them shows at once.  Weights that move (to a device, to another type) leave the views
    behind; `is_current` tells by their addresses, which no other tensor gets while a view holds them.

    Whether the compiled twins are taken is decided once, so that a repeated call gives the same to the last bit.
    """

    def __init__(self, network: RecurrentNetwork, config: RecurrentConfig) -> None:
        self._hidden = config.hidden
        self._has_inner_bias = CELLS[config.cell].has_inner_bias
        self._weights = list(network.weights().values())
        self._addresses = [weight.data_ptr() for weight in self._weights]
        views = {name: weight.detach().numpy() for name, weight in network.weights().items()}
        self._embedding: Floats | None = views.get("embedding")
        self._layers = [
            _Layer(*(views[f"layer{k}.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
            for k in range(config.layers)
        ]
        self._output = (network.output_weight.detach().numpy(), views["output.bias"], network.bos_mask_V.numpy())
        self._scan = self._compiled_scan = SCANS[config.cell, config.activation]
        self._log_softmax = log_softmax
        self._step: Callable[..., None] | None = None
        self._most_texts = 0
        if compiled.is_worth_it(_FEW_TOKENS, _SAVED_NS_PER_TOKEN):
            from lmzoo.compiled import cells

            kind = cells.KINDS[config.cell, config.activation]
            self._compiled_scan, self._step = partial(cells.scan, kind), partial(cells.step, kind)
            is_small = self._layers[0].weight_hh_GxH.nbytes <= _MOST_BYTES
            self._most_texts = _MOST_TEXTS if is_small and CELLS[config.cell].n_gates > 1 else 1
            self._log_softmax = cells.log_softmax

    @property
    def is_compiled(self) -> bool:
        return self._step is not None

    @classmethod
    def of(cls, network: RecurrentNetwork, config: RecurrentConfig) -> HostNetwork | None:
        """None where the cells are torch's or the plain loop's, or do not stand on the CPU in float32."""
        if config.kernel != "scratch" or config.impl == "loop" or network.device.type != "cpu":
            return None
        fits = all(weight.dtype == torch.float32 and weight.is_contiguous() for weight in network.weights().values())
        return cls(network, config) if fits else None

    def is_current(self) -> bool:
        """Whether the weights still are where they were."""
        return [weight.data_ptr() for weight in self._weights] == self._addresses

    def advance(self, ids_TxB: Ids, states_SxKxBxH: Floats) -> tuple[Floats, Floats]:
        """Outputs (T, B, H) of the top layer after each token, and the states (S, K, B, H) after the last one."""
        if self._step and ids_TxB.size == 1:
            after_SxKx1xH = self._advance_by_one(self._step, ids_TxB.item(), states_SxKxBxH)
            return after_SxKx1xH[:1, -1], after_SxKx1xH
        scan = self._compiled_scan if ids_TxB.shape[1] <= self._most_texts else self._scan
        after_SxKxBxH = np.empty_like(states_SxKxBxH)
        inputs_NxI = self._embedding
        for k, layer in enumerate(self._layers):
            bias_G = layer.bias_ih_G if self._has_inner_bias else layer.bias_ih_G + layer.bias_hh_G
            if inputs_NxI is None or k == 0:
                x_NxG = input_product(ids_TxB.reshape(-1), inputs_NxI, layer.weight_ih_GxI, bias_G)
            else:
                x_NxG = inputs_NxI @ layer.weight_ih_GxI.T + bias_G
            out_TxBxH = np.empty((*ids_TxB.shape, self._hidden), np.float32)
            states_SxBxH = states_SxKxBxH[:, k].copy()
            scan(x_NxG.reshape(*ids_TxB.shape, -1), layer.weight_hh_GxH, layer.bias_hh_G, states_SxBxH, out_TxBxH)
            after_SxKxBxH[:, k] = states_SxBxH
            inputs_NxI = out_TxBxH.reshape(-1, self._hidden)
        return out_TxBxH, after_SxKxBxH

    def _advance_by_one(self, step: Callable[..., None], token: int, states_SxKx1xH: Floats) -> Floats:
        """The states of one text after one token."""
        after_SxKx1xH = np.empty_like(states_SxKx1xH)
        column, input_I = token, _NO_INPUT
        if self._embedding is not None:
            column, input_I = -1, self._embedding[token]
        for k, layer in enumerate(self._layers):
            step(column, input_I, *layer, states_SxKx1xH, k, after_SxKx1xH)
            column, input_I = -1, after_SxKx1xH[0, k, 0]
        return after_SxKx1xH

    def logprobs(self, states_SxKx1xH: Floats) -> Floats:
        """ln p of every symbol, (V,), in a state of one text."""
        out_V = np.empty_like(self._output[1])
        self._log_softmax(states_SxKx1xH[0, -1, 0], *self._output, out_V)
        return out_V
