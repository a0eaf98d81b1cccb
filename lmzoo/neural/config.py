"""Options of the neural models; what is not given comes from a recipe.  Imports nothing heavy."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lmzoo.errors import OptionValueError, did_you_mean
from lmzoo.neural.recipes import RECIPES, beside_what_was_given
from lmzoo.recipe_files import is_label

CellName = Literal["rnn", "gru", "lstm"]
Kernel = Literal["scratch", "library"]
Impl = Literal["fused", "loop"]
Optimizer = Literal["sgd", "adam", "adamw"]
Loss = Literal["cross_entropy", "perplexity"]
Activation = Literal["tanh", "relu"]
WindowActivation = Literal["tanh", "relu", "gelu"]
Input = Literal["lookup", "onehot"]
Sampling = Literal["sequential", "random"]
Schedule = Literal["constant", "cosine", "trapezoid"]
Variant = Literal["plain", "residual"]
Softmax = Literal["auto", "full", "sampled"]
OutputBias = Literal["zero", "unigram"]
Precision = Literal["float32", "bfloat16"]
Adapt = Literal["none", "cache", "dynamic"]

# stands for "the recipe decides"; no config keeps it
FROM_RECIPE: Any = None

# a feed-forward layer inside a transformer is so many times as wide as the model (Vaswani et al. 2017)
_FEED_FORWARD_FACTOR = 4

# symbols beyond which softmax=auto is sampled; measured, see docs/figures.md
FULL_SOFTMAX_UP_TO = 5_000

# what float32 holds; and no array has as many rows
_MOST, _MOST_WHOLE = 1e38, 2**31 - 1
# a state of a cache holds so many outputs for each text
_MOST_REMEMBERED = 1_000_000

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
    "adapt_size": 1,
    "adapt_steps": 2,
    "lr": 0,
    "clip": 0,
    "weight_decay": 0,
    "averaging": 0,
}
# shares of a whole: from 0 to less than 1
_SHARES = (
    "dropout",
    "dropout_input",
    "dropout_hidden",
    "dropout_output",
    "weight_drop",
    "label_smoothing",
    "num_steps_spread",
)
# Loshchilov & Hutter 2019
_WEIGHT_DECAY = 0.01


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """What all networks have in common, above all how they are trained; what is left out comes from the recipe.

    Attributes:
        recipe: one of lmzoo's own (`lmzoo.neural.recipes`), or a file of `bench.tune`; of a config that is complete,
            what it came from.
        hidden, layers: units of a layer, layers one upon the other.
        batch_size: columns of a training batch; of a window model, predictions.
        lr: the highest learning rate.
        optimizer: sgd, adam (Kingma & Ba 2015), or adamw: adam with weights that decay (Loshchilov & Hutter 2019).
        weight_decay: of adamw: the share of a weight, times the learning rate, that a step takes away.
        averaging: what is scored is a running mean of the weights over about the last 1/(averaging + 1) of the steps
            so far (Polyak & Juditsky 1992; Shamir & Zhang 2013, section 4); 0: the last weights.
        clip: the largest global norm of a gradient (theta); 0: never clipped.
        dropout: share of numbers dropped, wherever the three below say nothing else (Srivastava et al. 2014).
        dropout_input, dropout_hidden, dropout_output: of the embeddings, between or inside layers, before the output.
        loss: what is minimised: cross_entropy (mean nats of a batch), or perplexity: its exponential, whose gradient
            is the same times the perplexity of the batch.
        label_smoothing: share of a target that is spread evenly over all symbols (Szegedy et al. 2016).
        schedule: constant; or after a short rise, as the budget is used up, cosine: half a cosine down to nearly 0; or
            trapezoid: the whole rate, then from 60 % on straight down (cf. Haegele et al. 2024).
        softmax: how training normalises: full (over the whole vocabulary), sampled (over some symbols drawn for each
            batch), or auto: sampled beyond 5,000 symbols, full elsewhere and with label smoothing.  Scoring is always
            full.
        samples: symbols drawn on average for a batch by the sampled softmax.
        output_bias: the bias of the output layer before the first step: zero (every symbol is as likely), or unigram:
            ln of each symbol's share of the training text, which no step then has to be spent on.
        precision: of the products in training: float32 or, where the device has it, bfloat16.  Weights are kept,
            changed, stored and scored in float32.
        deterministic: on CUDA only algorithms that give the same bits each time, which may be slower.
    """

    recipe: str = "default"
    hidden: int = FROM_RECIPE
    layers: int = FROM_RECIPE
    batch_size: int = FROM_RECIPE
    lr: float = FROM_RECIPE
    optimizer: Optimizer = FROM_RECIPE
    weight_decay: float = FROM_RECIPE
    averaging: float = FROM_RECIPE
    clip: float = FROM_RECIPE
    dropout: float = FROM_RECIPE
    dropout_input: float = FROM_RECIPE
    dropout_hidden: float = FROM_RECIPE
    dropout_output: float = FROM_RECIPE
    loss: Loss = FROM_RECIPE
    label_smoothing: float = FROM_RECIPE
    schedule: Schedule = FROM_RECIPE
    softmax: Softmax = "auto"
    samples: int = FROM_RECIPE
    output_bias: OutputBias = FROM_RECIPE
    precision: Precision = "float32"
    deterministic: bool = False

    @staticmethod
    def beside(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """A recipe's values without those that would outweigh, or could not go with, what was given."""
        return beside_what_was_given(values, given)


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
        num_steps_spread: each sequential batch has num_steps of its own, drawn evenly within this share of them (cf.
            Merity et al. 2018, section 5).
        tie: the output weights are the embeddings (Press & Wolf 2017, Inan et al. 2017), so embedding = hidden.
        weight_drop: share of the weights between states that is dropped for each batch (Wan et al. 2013, Merity et al.
            2018).
        locked: one mask of dropout for all steps of a batch (Gal & Ghahramani 2016); otherwise one for each step.
        adapt: how the trained network learns from the text that it scores: none, or cache (what followed outputs like
            the present one is likelier), or dynamic (its weights go on learning).
        adapt_size: tokens that adapt=cache remembers.
        adapt_steps: tokens of a segment, after each of which adapt=dynamic takes a step.
    """

    cell: CellName = "lstm"
    kernel: Kernel = "scratch"
    impl: Impl = "fused"
    embedding: int = FROM_RECIPE
    num_steps: int = FROM_RECIPE
    activation: Activation = FROM_RECIPE
    input: Input = FROM_RECIPE
    sampling: Sampling = FROM_RECIPE
    num_steps_spread: float = FROM_RECIPE
    tie: bool = FROM_RECIPE
    weight_drop: float = FROM_RECIPE
    locked: bool = FROM_RECIPE
    adapt: Adapt = "none"
    adapt_size: int = 2000
    adapt_steps: int = 20

    def __post_init__(self) -> None:
        _check_choices(self, ("cell", "kernel"))
        _fill_from_recipe(self, "recurrent", self.cell)
        if self.tie:
            _fill(self, {"embedding": self.hidden})
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
        if self.tie and self.embedding != self.hidden:
            raise OptionValueError(
                f"tie=true needs embedding = hidden, got embedding={self.embedding} and hidden={self.hidden}"
            )
        _check_sampling(self)
        _check_adapting(self)


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
        _check_choices(self, ("variant",))
        _fill_from_recipe(self, "window", self.variant)
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
        num_steps_spread: each sequential batch has num_steps of its own, drawn evenly within this share of them.
        tie: the output weights are the embeddings.

    Inside layers, numbers are dropped of what every layer adds.
    """

    context_size: int = FROM_RECIPE
    heads: int = FROM_RECIPE
    feed_forward: int = FROM_RECIPE
    num_steps: int = FROM_RECIPE
    sampling: Sampling = FROM_RECIPE
    num_steps_spread: float = FROM_RECIPE
    tie: bool = FROM_RECIPE

    def __post_init__(self) -> None:
        _fill_from_recipe(self, "transformer")
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
        _check_sampling(self)

    @property
    def span(self) -> int:
        """Tokens before a token that it attends to in every layer: K layers reach K times as far."""
        return (self.context_size - 1) // self.layers


Config = RecurrentConfig | WindowConfig | TransformerConfig


def resolved_softmax(config: Config, n_symbols: int) -> Softmax:
    """full or sampled: what softmax=auto means for a vocabulary of this size."""
    if config.softmax != "auto":
        return config.softmax
    return "sampled" if n_symbols > FULL_SOFTMAX_UP_TO and not config.label_smoothing else "full"


def _fill_from_recipe(config: Config, kind: str, variant: str = "") -> None:
    """Give what was left out its value; what a recipe file says nothing of is the default recipe's."""
    name = "default" if isinstance(config.recipe, str) and is_label(config.recipe) else config.recipe
    if name not in RECIPES:
        hint = did_you_mean(str(config.recipe), RECIPES)
        raise OptionValueError(
            f"recipe is one of {', '.join(RECIPES)} or a file ending in .json (in quotes if its path has commas or "
            f"parentheses), got {config.recipe!r}.{hint}"
        )
    given = {name: value for name, value in vars(config).items() if value is not None}
    _fill(config, beside_what_was_given(RECIPES[name].values(kind, variant), given))
    _fill(config, {"weight_decay": _WEIGHT_DECAY if config.optimizer == "adamw" else 0.0})
    _fill(config, {f"dropout_{place}": config.dropout for place in ("input", "hidden", "output")})


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
        elif hints[name] is str:
            _check_text(name, getattr(config, name))
        elif name in _SHARES:
            _check_share(name, getattr(config, name))
        elif name not in choices:
            _check_number(name, getattr(config, name), hints[name])
    if config.lr == 0:
        raise OptionValueError("lr must be above 0, got 0")
    if config.weight_decay and config.optimizer != "adamw":
        raise OptionValueError(f"weight_decay belongs to optimizer=adamw, got optimizer={config.optimizer}")
    if config.label_smoothing and config.softmax == "sampled":
        raise OptionValueError("label_smoothing needs every symbol, so it does not go with softmax=sampled")


def _check_sampling(config: RecurrentConfig | TransformerConfig) -> None:
    if config.num_steps_spread and config.sampling == "random":
        raise OptionValueError("num_steps_spread belongs to sampling=sequential, got sampling=random")


def _check_adapting(config: RecurrentConfig) -> None:
    if config.adapt_size > _MOST_REMEMBERED:
        raise OptionValueError(f"adapt_size must be at most {_MOST_REMEMBERED}, got {config.adapt_size}")
    for name, adapt in (("adapt_size", "cache"), ("adapt_steps", "dynamic")):
        if config.adapt != adapt and getattr(config, name) != getattr(RecurrentConfig, name):
            raise OptionValueError(f"{name} belongs to adapt={adapt}, got adapt={config.adapt}")


def _check_choices(config: Config, names: typing.Iterable[str]) -> None:
    hints = typing.get_type_hints(type(config))
    for name in names:
        value, choices = getattr(config, name), typing.get_args(hints[name])
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            raise OptionValueError(f"{name} is one of {', '.join(choices)}, got {value!r}.{hint}")


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise OptionValueError(f"{name} must be a text, got {value!r}")


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise OptionValueError(f"{name} must be a number from 0 to less than 1, got {value!r}")


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
