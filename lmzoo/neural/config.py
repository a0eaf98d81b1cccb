"""Options of the neural models and the recipes that fill what is not given.  Imports nothing heavy.

The default recipe was chosen on the validation part of `genesis` alone, among 18 configurations (6 of the lstm, 4 each
of the gru, the rnn and the mlp), by the `valid_perplexity` of runs such as

    python -m bench.run --models lstm-cudnn:lr=0.012 --max-steps 1150

Steps, not seconds, so that the machine's load has no say: about what 2 cores do in 15 s with torch's layers (lstm 1150,
gru 600, rnn 1800; mlp 4000 of 256 windows).  Tried were learning rates of 0.002 to 0.012, 16 and 32 columns, 192 and
256 units; for the mlp 256 and 512 units, 8 and 10 tokens of context, learning rates of 0.002 and 0.004.

The transformer's was chosen the same way among 12, by as many steps as one thread does in about 15 s (1000 with a width
of 64, `--threads 1`): 3.586 with what is the default now.  Others: 3.585 with 8 heads, which take longer; 3.607 with
half the feed-forward units (1200 steps); 3.657 with 16 columns (1900); 3.668 with a learning rate of 0.004; 3.965 and
4.451 with a width of 96 (600 steps; 1000 of 16 columns).  Four were tried with biases by distance (Press et al. 2022)
instead of rotations: the one of them that differs in nothing else has 4.168 where rotations have 3.668.

Of the residual mlp three were tried, each with the steps that take as long as 4000 of the plain one: 3.568 with 256
units and either learning rate, 3.631 with 192.  The plain one has 3.527, so it stays the default.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lmzoo.errors import OptionValueError, did_you_mean

CellName = Literal["rnn", "gru", "lstm"]
Kernel = Literal["scratch", "library"]
Impl = Literal["fused", "loop"]
Recipe = Literal["default", "textbook"]
Optimizer = Literal["sgd", "adam"]
Activation = Literal["tanh", "relu"]
WindowActivation = Literal["tanh", "relu", "gelu"]
Input = Literal["lookup", "onehot"]
Sampling = Literal["sequential", "random"]
Schedule = Literal["constant", "cosine"]
Variant = Literal["plain", "residual"]
Softmax = Literal["auto", "full", "sampled"]
Precision = Literal["float32", "bfloat16"]

# stands for "the recipe decides"; no config keeps it
FROM_RECIPE: Any = None

_SHARED: Mapping[Recipe, Mapping[str, Any]] = {
    "default": {
        "layers": 1,
        "optimizer": "adam",
        "clip": 1.0,
        "dropout": 0.0,
        "activation": "tanh",
        "schedule": "cosine",
    },
    # the hyperparameters of the textbook's chapter on recurrent networks
    "textbook": {
        "hidden": 256,
        "layers": 1,
        "batch_size": 32,
        "lr": 1.0,
        "optimizer": "sgd",
        "clip": 1.0,
        "dropout": 0.0,
        "activation": "tanh",
        "schedule": "constant",
    },
}
_RECURRENT: Mapping[Recipe, Mapping[str, Any]] = {
    "default": {
        "hidden": 256,
        "embedding": 64,
        "batch_size": 32,
        "num_steps": 32,
        "lr": 0.004,
        "sampling": "sequential",
    },
    "textbook": {"embedding": 0, "num_steps": 35, "input": "onehot", "sampling": "sequential"},
}
_BY_CELL: Mapping[tuple[Recipe, CellName], Mapping[str, Any]] = {
    ("default", "gru"): {"lr": 0.008},
    ("default", "lstm"): {"lr": 0.012},
}
_WINDOW: Mapping[Recipe, Mapping[str, Any]] = {
    "default": {"hidden": 512, "embedding": 32, "batch_size": 256, "lr": 0.002, "context_size": 8},
    # as many predictions a step as the recurrent networks make: 32 x 35
    "textbook": {"embedding": 32, "batch_size": 32 * 35, "context_size": 4},
}
_BY_VARIANT: Mapping[tuple[Recipe, Variant], Mapping[str, Any]] = {
    ("default", "residual"): {"activation": "gelu", "hidden": 256},
    ("textbook", "residual"): {"activation": "gelu"},
}
_TRANSFORMER: Mapping[Recipe, Mapping[str, Any]] = {
    "default": {
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "context_size": 65,
        "batch_size": 32,
        "num_steps": 32,
        "lr": 0.01,
        "sampling": "sequential",
    },
    # it trains as that chapter's networks do; a layer sees as many tokens as a column has
    "textbook": {"layers": 2, "heads": 4, "context_size": 71, "num_steps": 35, "sampling": "sequential"},
}
# a feed-forward layer inside a transformer is so many times as wide as the model (Vaswani et al. 2017)
_FEED_FORWARD_FACTOR = 4

# symbols beyond which softmax=auto is sampled; measured, see docs/figures.md
FULL_SOFTMAX_UP_TO = 5_000

# what float32 holds; and no array has as many rows
_MOST, _MOST_WHOLE = 1e38, 2**31 - 1

_LEAST: Mapping[str, int] = {
    "samples": 1,
    "hidden": 1,
    "layers": 1,
    "heads": 1,
    "feed_forward": 1,
    "embedding": 0,
    "batch_size": 1,
    "num_steps": 1,
    "context_size": 1,
    "lr": 0,
    "clip": 0,
    "dropout": 0,
}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """What all networks have in common, above all how they are trained; what is left out comes from the recipe.

    Attributes:
        recipe: default (best within 15 s on one thread) or textbook.
        hidden, layers: units of a layer, layers one upon the other.
        batch_size: columns of a training batch; of a window model, predictions.
        lr: the highest learning rate.
        optimizer: sgd or adam (Kingma & Ba 2015).
        clip: the largest global norm of a gradient (theta); 0: never clipped.
        dropout: share of numbers dropped.
        schedule: constant, or cosine: a short rise, then a fall to 0 as the budget is used up.
        softmax: how training normalises: full (over the whole vocabulary), sampled (over some symbols drawn for each
            batch), or auto: sampled beyond 5,000 symbols under sgd, full elsewhere.  Scoring is always full.
        samples: symbols drawn on average for a batch by the sampled softmax.
        precision: of the products in training: float32 or, where the device has it, bfloat16.  Weights are kept,
            changed, stored and scored in float32.
        deterministic: on CUDA only algorithms that give the same bits each time, which may be slower.
    """

    recipe: Recipe = "default"
    hidden: int = FROM_RECIPE
    layers: int = FROM_RECIPE
    batch_size: int = FROM_RECIPE
    lr: float = FROM_RECIPE
    optimizer: Optimizer = FROM_RECIPE
    clip: float = FROM_RECIPE
    dropout: float = FROM_RECIPE
    schedule: Schedule = FROM_RECIPE
    softmax: Softmax = "auto"
    samples: int = 1000
    precision: Precision = "float32"
    deterministic: bool = False


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(TrainingConfig):
    """A recurrent network and how it is trained.

    Attributes:
        cell: rnn (Elman 1990), gru (Cho et al. 2014), lstm (Hochreiter & Schmidhuber 1997, with a forget gate).
        kernel: scratch (the cell written out here) or library (torch's own layer).
        impl: how the cell written out here is trained: fused (gradients written out, products gathered) or loop (one
            step at a time as the textbook has it, gradients by autograd); the same numbers up to rounding.
        embedding: numbers that stand for a token; 0: the input weights' own column (a one-hot product).
        num_steps: tokens of a column of a training batch; gradients reach that many tokens back.
        activation: tanh or relu, of the rnn; the others have tanh.
        input: lookup, or onehot: a product with one-hot rows, the same numbers computed as the textbook has them.
        sampling: sequential (state goes on from batch to batch) or random (it starts anew).

    Units are dropped between layers, of embeddings and before the output; one mask a sequence (Gal & Ghahramani 2016).
    """

    cell: CellName = "lstm"
    kernel: Kernel = "scratch"
    impl: Impl = "fused"
    embedding: int = FROM_RECIPE
    num_steps: int = FROM_RECIPE
    activation: Activation = FROM_RECIPE
    input: Input = FROM_RECIPE
    sampling: Sampling = FROM_RECIPE

    def __post_init__(self) -> None:
        _check_choices(self, ("cell", "kernel", "recipe"))
        by_cell = _BY_CELL.get((self.recipe, self.cell), {})
        _fill(self, {**_SHARED[self.recipe], **_RECURRENT[self.recipe], **by_cell})
        takes_vectors = self.kernel == "library" and self.embedding == 0
        _fill(self, {"input": "onehot" if takes_vectors else "lookup"})
        _check(self)
        if self.cell != "rnn" and self.activation != "tanh":
            raise OptionValueError(f"activation of a {self.cell} is tanh, got {self.activation!r}; the rnn has both")
        if self.kernel == "library" and self.impl == "loop":
            raise OptionValueError("impl=loop is for the cells written out here (-scratch); torch's layers have none")
        if takes_vectors and self.input == "lookup":
            raise OptionValueError(
                "input=lookup needs embedding above 0 here: torch's own layers take vectors, not ids"
            )


@dataclass(frozen=True, kw_only=True)
class WindowConfig(TrainingConfig):
    """A feed-forward network over the last tokens (Bengio et al. 2003) and how it is trained.

    Attributes:
        variant: plain (hidden layers one upon the other), or residual: blocks that add to their input, normalised first
            (cf. Sun & Iyyer 2021).
        context_size: tokens of history that are seen.
        embedding: numbers that stand for a token.
        activation: tanh, relu or gelu; what is left out is tanh of a plain network, gelu of a residual one.

    Units are dropped of the embeddings and of every hidden layer.
    """

    variant: Variant = "plain"
    context_size: int = FROM_RECIPE
    embedding: int = FROM_RECIPE
    activation: WindowActivation = FROM_RECIPE

    def __post_init__(self) -> None:
        _check_choices(self, ("recipe", "variant"))
        by_variant = _BY_VARIANT.get((self.recipe, self.variant), {})
        _fill(self, {**_SHARED[self.recipe], **_WINDOW[self.recipe], **by_variant})
        _check(self)
        if self.embedding < 1:
            raise OptionValueError(f"embedding of a window model must be at least 1, got {self.embedding}")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TrainingConfig):
    """A causal transformer (Vaswani et al. 2017, Radford et al. 2019) and how it is trained.

    Attributes:
        context_size: tokens of history that a prediction may see; what it does see is `layers * span + 1` of them.
        heads: parts into which attention is divided; `hidden`, the model's width, is an even multiple of them.
        feed_forward: units of a feed-forward layer; 4 times `hidden` where it is not given.
        num_steps: tokens of a column of a training batch; gradients reach that many tokens back.
        sampling: sequential (what was seen goes on from batch to batch) or random (it starts anew).

    Numbers are dropped of the embeddings and of what every layer adds.
    """

    context_size: int = FROM_RECIPE
    heads: int = FROM_RECIPE
    feed_forward: int = FROM_RECIPE
    num_steps: int = FROM_RECIPE
    sampling: Sampling = FROM_RECIPE

    def __post_init__(self) -> None:
        _check_choices(self, ("recipe",))
        _fill(self, {**_SHARED[self.recipe], **_TRANSFORMER[self.recipe]})
        # a width that is no number is refused below, under its own name
        _fill(self, {"feed_forward": _FEED_FORWARD_FACTOR * self.hidden})
        _check(self)
        if self.hidden % (2 * self.heads):
            # positions turn pairs of numbers
            raise OptionValueError(
                f"hidden must be an even multiple of heads, got hidden={self.hidden} and heads={self.heads}"
            )
        if not self.span:
            raise OptionValueError(
                f"context_size must be above layers, so that every layer sees the token before, got context_size="
                f"{self.context_size} and layers={self.layers}"
            )

    @property
    def span(self) -> int:
        """Tokens before a token that it attends to in every layer: K layers reach K times as far."""
        return (self.context_size - 1) // self.layers


Config = RecurrentConfig | WindowConfig | TransformerConfig


def resolved_softmax(config: Config, n_symbols: int) -> Softmax:
    """full or sampled: what softmax=auto means for a vocabulary of this size.

    Adam moves all rows of the large matrices at every step, which costs as much as a sampled one saves: it gets the
    full softmax.
    """
    if config.softmax != "auto":
        return config.softmax
    return "sampled" if config.optimizer == "sgd" and n_symbols > FULL_SOFTMAX_UP_TO else "full"


def _fill(config: Config, values: Mapping[str, Any]) -> None:
    """Give the fields that were left out their values."""
    for name, value in values.items():
        if hasattr(config, name) and getattr(config, name) is None:
            object.__setattr__(config, name, value)


def _check(config: Config) -> None:
    """Every field has the type of its annotation and a value in range."""
    hints = typing.get_type_hints(type(config))
    names = [field.name for field in dataclasses.fields(config)]
    choices = [name for name in names if typing.get_origin(hints[name]) is Literal]
    _check_choices(config, choices)
    for name in names:
        if hints[name] is bool:
            _check_bool(name, getattr(config, name))
        elif name not in choices:
            _check_number(name, getattr(config, name), hints[name])
    if config.lr == 0:
        raise OptionValueError("lr must be above 0, got 0")
    if config.dropout >= 1:
        raise OptionValueError(f"dropout must be below 1, got {config.dropout}")


def _check_choices(config: Config, names: typing.Iterable[str]) -> None:
    hints = typing.get_type_hints(type(config))
    for name in names:
        value, choices = getattr(config, name), typing.get_args(hints[name])
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            raise OptionValueError(f"{name} is one of {', '.join(choices)}, got {value!r}.{hint}")


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionValueError(f"{name} must be true or false, got {value!r}")


def _check_number(name: str, value: Any, wanted: type) -> None:
    accepted = (int,) if wanted is int else (int, float)
    most = _MOST_WHOLE if wanted is int else _MOST
    if isinstance(value, bool) or not isinstance(value, accepted):
        kind = "a whole number" if wanted is int else "a number"
        raise OptionValueError(f"{name} must be {kind}, got {value!r}")
    if not math.isfinite(value) or not _LEAST[name] <= value <= most:
        raise OptionValueError(f"{name} must be a number from {_LEAST[name]} to {most:g}, got {value}")
