"""The networks themselves: ids in, logits out; what they are trained with stands in `training.py`."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from lmzoo.neural.cells import ACTIVATIONS, CELLS, States, one_hot
from lmzoo.neural.config import RecurrentConfig, WindowConfig
from lmzoo.neural.library import LibraryLayer
from lmzoo.neural.residual import FeedForward, Linear, Norm
from lmzoo.neural.rows import lookup
from lmzoo.neural.scratch import ScratchLayer
from lmzoo.neural.softmax import Sampler, full_nats, sampled_nats

WINDOW_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {**ACTIVATIONS, "gelu": functional.gelu}


class Dropout:
    """Drops a share of numbers, drawn from its own generator; what is left is scaled up to keep the mean.

    Vectors (T, B, H) share one mask for all steps where it is locked (Gal & Ghahramani 2016); rows (N, H) have one
    each.
    """

    def __init__(self, share: float, generator: torch.Generator, *, is_locked: bool = True) -> None:
        self.share = share
        self._generator = generator
        self._is_locked = is_locked

    def __call__(self, x: Tensor) -> Tensor:
        shape = (1, *x.shape[1:]) if x.ndim == 3 and self._is_locked else x.shape
        # drawn in float32: multiples of 1/256, as bfloat16 has them, would drop another share
        kept = torch.rand(shape, generator=self._generator, device=x.device) >= self.share
        return x * kept / (1.0 - self.share)


@dataclass(frozen=True)
class Dropouts:
    """What is dropped where; None: nothing.

    Attributes:
        input: of the embeddings.
        hidden: between or inside layers.
        output: before the output layer.
        weights: of the products between states.
    """

    input: Dropout | None = None
    hidden: Dropout | None = None
    output: Dropout | None = None
    weights: Dropout | None = None


NOTHING = Dropouts()


def dropped(x: Tensor, dropout: Dropout | None) -> Tensor:
    """What is left of x."""
    return x if dropout is None else dropout(x)


class Network(nn.Module):
    """What both networks share: weights by name and the output layer.

    `<s>` is never predicted: its logit is -inf, so that no mass and no gradient ever goes there.
    """

    bos_mask_V: Tensor

    def __init__(self, n_symbols: int, bos_id: int, hidden: int) -> None:
        super().__init__()
        self.n_symbols = n_symbols
        self.hidden = hidden
        self.is_tied = False
        self.output_weight = nn.Parameter(torch.zeros(n_symbols, hidden))
        self.output_bias = nn.Parameter(torch.zeros(n_symbols))
        self.register_buffer("bos_mask_V", torch.zeros(n_symbols), persistent=False)
        self.bos_mask_V[bos_id] = -math.inf

    @abstractmethod
    def weights(self) -> dict[str, nn.Parameter]:
        """Every weight by the name it has in a model file."""

    def tie(self, embedding: nn.Parameter) -> None:
        """Let the output weights be the embeddings, one matrix for both (Press & Wolf 2017)."""
        self.output_weight = embedding
        self.is_tied = True

    def output_weights(self) -> dict[str, nn.Parameter]:
        """Those of the output layer that are not the embeddings."""
        own = {} if self.is_tied else {"output.weight": self.output_weight}
        return own | {"output.bias": self.output_bias}

    @property
    def device(self) -> torch.device:
        return self.output_weight.device

    def logits(self, hidden_NxH: Tensor) -> Tensor:
        """Unnormalised ln p of every symbol, (N, V)."""
        return functional.linear(hidden_NxH, self.output_weight, self.output_bias + self.bos_mask_V)

    def mean_nats(
        self, hidden_NxH: Tensor, targets_N: Tensor, sampler: Sampler | None = None, smoothing: float = 0.0
    ) -> Tensor:
        """What training minimises: the mean of -ln p(target), by the full softmax or with a sampled normaliser.

        Args:
            smoothing: this share of every target is spread evenly over all symbols; by the full softmax alone.
        """
        # sums are float32 at least, whatever the products are
        wide = torch.promote_types(self.output_bias.dtype, torch.float32)
        bias_V = self.output_bias.to(wide) + self.bos_mask_V
        if sampler is None:
            return full_nats(hidden_NxH, self.output_weight, bias_V, targets_N, smoothing=smoothing)
        return sampled_nats(hidden_NxH, self.output_weight, bias_V, targets_N, sampler)


class RecurrentNetwork(Network):
    """Embedding (or none), recurrent layers, output layer.  S states (h, or h and c) of K layers are one tensor."""

    def __init__(self, config: RecurrentConfig, n_symbols: int, bos_id: int) -> None:
        super().__init__(n_symbols, bos_id, config.hidden)
        self.n_states = CELLS[config.cell].n_states
        self.by_lookup = config.input == "lookup"
        self.embedding = nn.Parameter(torch.zeros(n_symbols, config.embedding)) if config.embedding else None
        sizes = [config.embedding or n_symbols, *[config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(_layer(config, size) for size in sizes)
        if config.tie:
            assert self.embedding is not None
            self.tie(self.embedding)

    def recurrent_layers(self) -> list[ScratchLayer | LibraryLayer]:
        return [cast(ScratchLayer | LibraryLayer, layer) for layer in self.layers]

    def weights(self) -> dict[str, nn.Parameter]:
        named = {} if self.embedding is None else {"embedding": self.embedding}
        for k, layer in enumerate(self.recurrent_layers()):
            named |= {f"layer{k}.{name}": weight for name, weight in layer.weights().items()}
        return named | self.output_weights()

    def zero_state(self, batch_size: int) -> Tensor:
        """The state before anything was read, (S, K, B, H)."""
        return self.output_weight.new_zeros(self.n_states, len(self.layers), batch_size, self.hidden)

    def forward(self, ids_TxB: Tensor, state_SxKxBxH: Tensor, dropouts: Dropouts = NOTHING) -> tuple[Tensor, Tensor]:
        """The top layer's outputs (T, B, H) and the state after the last step."""
        x = self._embedded(ids_TxB, dropouts.input)
        after: list[States] = []
        for k, layer in enumerate(self.recurrent_layers()):
            x = dropped(x, dropouts.hidden) if k else x
            embedding = None if x.is_floating_point() else self.embedding
            x, states = layer(x, state_SxKxBxH[:, k].unbind(0), embedding, dropouts.weights)
            after.append(states)
        state_SxKxBxH = torch.stack([torch.stack(layers) for layers in zip(*after, strict=True)])
        return dropped(x, dropouts.output), state_SxKxBxH

    def _embedded(self, ids_TxB: Tensor, dropout: Dropout | None) -> Tensor:
        """Vectors (T, B, E), or the ids themselves where the first layer looks them up."""
        is_scratch = isinstance(self.layers[0], ScratchLayer)
        if self.embedding is None or (self.by_lookup and dropout is None and is_scratch):
            return ids_TxB
        if self.by_lookup:
            x_TxBxE = lookup(ids_TxB, self.embedding)
        else:
            x_TxBxE = one_hot(ids_TxB, self.embedding.t()) @ self.embedding
        return dropped(x_TxBxE, dropout)


class PlainLayers(nn.Module):
    """Hidden layers of a window, one upon the other (Bengio et al. 2003)."""

    def __init__(self, config: WindowConfig) -> None:
        super().__init__()
        self.activation = WINDOW_ACTIVATIONS[config.activation]
        sizes = [config.context_size * config.embedding, *[config.hidden] * config.layers]
        self.layers = nn.ModuleList(Linear(n, m) for n, m in itertools.pairwise(sizes))

    def weights(self) -> dict[str, nn.Parameter]:
        return _numbered("hidden", self.layers)

    def forward(self, x_NxM: Tensor, dropouts: Dropouts) -> Tensor:
        for k, layer in enumerate(self.layers):
            x_NxM = self.activation(layer(dropped(x_NxM, dropouts.hidden if k else dropouts.input)))
        return x_NxM


class ResidualLayers(nn.Module):
    """A linear map of a window, then blocks that each add to their input, and a last norm (cf. Sun & Iyyer 2021)."""

    def __init__(self, config: WindowConfig) -> None:
        super().__init__()
        activation = WINDOW_ACTIVATIONS[config.activation]
        self.first = Linear(config.context_size * config.embedding, config.hidden)
        self.blocks = nn.ModuleList(FeedForward(config.hidden, config.hidden, activation) for _ in range(config.layers))
        self.norm = Norm(config.hidden)

    def weights(self) -> dict[str, nn.Parameter]:
        named = _numbered("block", self.blocks)
        return dict(self.first.named_parameters("first")) | named | dict(self.norm.named_parameters("norm"))

    def forward(self, x_NxM: Tensor, dropouts: Dropouts) -> Tensor:
        x_NxH = self.first(dropped(x_NxM, dropouts.input))
        for block in self.blocks:
            x_NxH = x_NxH + dropped(block(x_NxH), dropouts.hidden)
        normed_NxH: Tensor = self.norm(x_NxH)
        return normed_NxH


LAYERS_OF_A_WINDOW: Mapping[str, Callable[[WindowConfig], PlainLayers | ResidualLayers]] = {
    "plain": PlainLayers,
    "residual": ResidualLayers,
}


class WindowNetwork(Network):
    """Embeddings of the last C tokens side by side, hidden layers, output layer (Bengio et al. 2003)."""

    def __init__(self, config: WindowConfig, n_symbols: int, bos_id: int) -> None:
        super().__init__(n_symbols, bos_id, config.hidden)
        self.embedding = nn.Parameter(torch.zeros(n_symbols, config.embedding))
        self.layers = LAYERS_OF_A_WINDOW[config.variant](config)

    def weights(self) -> dict[str, nn.Parameter]:
        named = {"embedding": self.embedding} | self.layers.weights()
        return named | self.output_weights()

    def forward(self, windows_NxC: Tensor, dropouts: Dropouts = NOTHING) -> Tensor:
        """What the output layer reads, (N, H); the oldest token comes first."""
        x_NxM = lookup(windows_NxC, self.embedding).flatten(1)
        return dropped(self.layers(x_NxM, dropouts), dropouts.output)


def initialize(network: Network, generator: torch.Generator, counts_V: npt.NDArray[np.int64] | None = None) -> None:
    """Draw all weights: uniform within 1/sqrt(fan-in), N(0, 1) embeddings that are not the output weights too, a forget
    gate that starts open (bias 1).

    They are drawn on the CPU in the order of their names: the same for every kernel and device.

    Args:
        counts_V: how often each symbol was seen: the output bias starts as ln of its share, one that was never seen as
            if it had been once.  Without them it starts at 0.
    """
    with torch.no_grad():
        for name, weight in network.weights().items():
            is_input = name == "embedding" and not network.is_tied
            weight.copy_(_drawn(name, weight.shape, network.hidden, generator, is_input=is_input))
        if isinstance(network, RecurrentNetwork) and network.n_states == CELLS["lstm"].n_states:
            for layer in network.recurrent_layers():
                # Gers et al. 2000, Jozefowicz et al. 2015; gates are i, f, g, o
                layer.weights()["bias_ih"][network.hidden : 2 * network.hidden] = 1.0
        if counts_V is not None:
            seen_V = np.maximum(counts_V, 1)
            network.output_bias.copy_(torch.from_numpy(np.log(seen_V / seen_V.sum())))


def _drawn(name: str, shape: torch.Size, hidden: int, generator: torch.Generator, *, is_input: bool) -> Tensor:
    if is_input:
        return torch.empty(shape).normal_(generator=generator)
    if "bias" in name:
        return torch.zeros(shape)
    if name.endswith("gain"):
        return torch.ones(shape)
    # a one-hot input has one active column: its fan-in is as good as 1, and the state's scale serves it well
    fan_in = hidden if name.endswith("weight_ih") else shape[1]
    bound = 1.0 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def _numbered(name: str, modules: nn.ModuleList) -> dict[str, nn.Parameter]:
    """The weights of each module after its name and number."""
    return {
        f"{name}{k}.{weight_name}": weight
        for k, module in enumerate(modules)
        for weight_name, weight in module.named_parameters()
    }


def _layer(config: RecurrentConfig, n_inputs: int) -> ScratchLayer | LibraryLayer:
    if config.kernel == "library":
        return LibraryLayer(config.cell, n_inputs, config.hidden, activation=config.activation)
    return ScratchLayer(
        config.cell,
        n_inputs,
        config.hidden,
        activation=config.activation,
        by_lookup=config.input == "lookup",
        by_loop=config.impl == "loop",
    )
