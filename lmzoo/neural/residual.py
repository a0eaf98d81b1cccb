"""What residual networks are made of: a norm, a linear map, and a feed-forward layer that is added to its input.

Every weight starts as `network.initialize` draws it, never from torch's global generator as torch's own layers would.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Norm(nn.Module):
    """Every row at mean 0 and variance 1, then scaled and shifted by unit (Ba et al. 2016)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x_NxH: Tensor) -> Tensor:
        return functional.layer_norm(x_NxH, self.gain.shape, self.gain, self.bias)


class Linear(nn.Module):
    """y = W x + b of every row."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, x_NxI: Tensor) -> Tensor:
        return functional.linear(x_NxI, self.weight, self.bias)


class FeedForward(nn.Module):
    """What a feed-forward layer adds to its input, normalised first (He et al. 2016; Xiong et al. 2020)."""

    def __init__(self, hidden: int, inner: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.norm = Norm(hidden)
        self.inner = Linear(hidden, inner)
        self.outer = Linear(inner, hidden)

    def forward(self, x_NxH: Tensor) -> Tensor:
        added_NxH: Tensor = self.outer(self.activation(self.inner(self.norm(x_NxH))))
        return added_NxH
