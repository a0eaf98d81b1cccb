"""Recipes: what fills the options of a network that are not given.  Imports nothing heavy.

A recipe is one of the names below, or a file that a search wrote (`lmzoo.recipe_files`).

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

With output_bias=unigram another 20 were tried for 15 s each (one thread, beside another training): of the rnn 6,
between 3.263 and 3.386, 3.313 with what stands here; 3.263 is that of lr=0.008 with loss=perplexity,
label_smoothing=0.02 and num_steps_spread=0.4, whose states get so steep in a minute that rounding decides what they
say (`two_ways_agree` fails on The Time Machine), and with lr=0.004 those three bring nothing; of the gru 5, which has
3.257 as it is, 3.256 by loss=perplexity, 3.271, 3.337 and 3.369 otherwise; of the lstm 5, between 3.119 and 3.132; of
the mlp 3, between 3.528 and 3.541; of the transformer one. Before that about 20 of rnn and gru were tried by steps
with output_bias=zero: learning rates, columns, units, schedules, dropout, weight decay, smoothing, spread, loss.

Of the residual mlp three were tried, each with the steps that take as long as 4000 of the plain one: 3.568 with 256
units and either learning rate, 3.631 with 192.  The plain one has 3.527, so it stays the default.

`best` was chosen on the validation part of The Time Machine, among 8 configurations of lstm and gru, each for 2 to 10
minutes (torch's layers, bfloat16, seed 0, beside another training): 3.448 after 420 s with what stands here; 3.476 with
lr=0.0025; 3.561 with lr=0.006, weight_drop=0.5 and dropout_input=0.2; 3.563, after 54 s and worse from there, without
weight_drop; 3.517 and 3.581 with 384 units; 3.605 of a gru of 256 units, one of 384 fell apart.

`words` was chosen on the validation part of Penn Treebank as running text, among 10 configurations of an lstm of 256
units after 1300 steps (1053 with the full softmax): 115.9 with what stands here; 117.5 with lr=0.006, and 120.6 with
1000 samples too; 117.0 with lr=0.006 and 4000 samples; 141.8 with lr=0.003 and 1000 samples, 146.1 untied too; 148.3
with lr=0.006 and 16 columns; without output_bias=unigram 320 and 857 after 2600 steps; 258.6 with the full softmax,
lr=0.003 and dropout.  `best-words` is the only one that was tried: 94.5 after 5000 steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]

# what every network trained here did before an option for it came, and does where a recipe says nothing
_PLAIN: Values = {
    "layers": 1,
    "clip": 1.0,
    "dropout": 0.0,
    "weight_drop": 0.0,
    "locked": True,
    "averaging": 0.0,
    "loss": "cross_entropy",
    "label_smoothing": 0.0,
    "output_bias": "zero",
    "samples": 1000,
    "num_steps_spread": 0.0,
    "tie": False,
    "activation": "tanh",
    "sampling": "sequential",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Values of options, the later before the earlier: of all networks, of a kind, of a cell or variant of it.

    Attributes:
        description: what it is for, a line.
        shared: of all networks.
        kinds: by recurrent, window, transformer.
        variants: by kind and cell or variant.
    """

    description: str
    shared: Values
    kinds: Mapping[str, Values]
    variants: Mapping[tuple[str, str], Values]

    def values(self, kind: str, variant: str = "") -> dict[str, Any]:
        """All that it says of such a network."""
        return {**_PLAIN, **self.shared, **self.kinds.get(kind, {}), **self.variants.get((kind, variant), {})}


_DEFAULT = Recipe(
    description="the lowest perplexity within 15 s on one thread",
    shared={"optimizer": "adam", "schedule": "cosine", "output_bias": "unigram"},
    kinds={
        "recurrent": {"hidden": 256, "embedding": 64, "batch_size": 32, "num_steps": 32, "lr": 0.004},
        "window": {"hidden": 512, "embedding": 32, "batch_size": 256, "lr": 0.002, "context_size": 8},
        "transformer": {
            "hidden": 64,
            "layers": 2,
            "heads": 4,
            "context_size": 65,
            "batch_size": 32,
            "num_steps": 32,
            "lr": 0.01,
        },
    },
    variants={
        ("recurrent", "gru"): {"lr": 0.008},
        ("recurrent", "lstm"): {"lr": 0.012},
        ("window", "residual"): {"activation": "gelu", "hidden": 256},
    },
)

# what the recipes of recurrent networks alone say of others
_NOT_RECURRENT = {of: values for of, values in _DEFAULT.variants.items() if of[0] != "recurrent"}

_TEXTBOOK = Recipe(
    description="the hyperparameters of the textbook's chapter on recurrent networks",
    shared={"hidden": 256, "batch_size": 32, "lr": 1.0, "optimizer": "sgd", "schedule": "constant"},
    kinds={
        "recurrent": {"embedding": 0, "num_steps": 35, "input": "onehot"},
        # as many predictions a step as the recurrent networks make: 32 x 35
        "window": {"embedding": 32, "batch_size": 32 * 35, "context_size": 4},
        # it trains as that chapter's networks do; a layer sees as many tokens as a column has
        "transformer": {"layers": 2, "heads": 4, "context_size": 71, "num_steps": 35},
    },
    variants={("window", "residual"): {"activation": "gelu"}},
)


def _of_recurrent(description: str, values: Values) -> Recipe:
    """A recipe of recurrent networks alone; of others it says what the default does."""
    return Recipe(
        description=f"recurrent networks of {description}; other kinds as the default",
        shared=_DEFAULT.shared,
        kinds={**_DEFAULT.kinds, "recurrent": values},
        variants=_NOT_RECURRENT,
    )


_BEST = _of_recurrent(
    "characters, for minutes instead of seconds",
    {
        "hidden": 512,
        "embedding": 64,
        "batch_size": 32,
        "num_steps": 64,
        "num_steps_spread": 0.4,
        "lr": 0.004,
        "averaging": 8.0,
        "dropout_input": 0.1,
        "dropout_output": 0.5,
        "weight_drop": 0.4,
    },
)
_TIED: Values = {"tie": True, "batch_size": 32, "samples": 2000}
_WORDS = _of_recurrent(
    "words, for a minute or two", {**_TIED, "hidden": 256, "embedding": 256, "num_steps": 32, "lr": 0.01}
)
_BEST_WORDS = _of_recurrent(
    "words, for half an hour",
    {
        **_TIED,
        "hidden": 512,
        "embedding": 512,
        "num_steps": 35,
        "num_steps_spread": 0.4,
        "lr": 0.004,
        "averaging": 8.0,
        "dropout_input": 0.2,
        "dropout_output": 0.5,
        "weight_drop": 0.3,
    },
)

RECIPES: Mapping[str, Recipe] = {
    "default": _DEFAULT,
    "textbook": _TEXTBOOK,
    "best": _BEST,
    "words": _WORDS,
    "best-words": _BEST_WORDS,
}

# what a recipe says of these is meant for its own value of the first
_BELONG_TO: Mapping[str, Sequence[str]] = {
    "optimizer": ("weight_decay",),
    "adapt": ("adapt_size", "adapt_steps"),
}


def beside_what_was_given(values: Values, given: Values) -> dict[str, Any]:
    """A recipe's values without those that are given, that would outweigh what is, or that could not go with it."""
    kept = {name: value for name, value in values.items() if name not in given}
    if "dropout" in given:
        kept = {name: value for name, value in kept.items() if not name.startswith("dropout")}
    for option, belonging in _BELONG_TO.items():
        if option in given and given[option] != values.get(option):
            kept = {name: value for name, value in kept.items() if name not in belonging}
    instead = _instead(kept, given)
    kept = {name: instead.get(name, value) for name, value in kept.items()}
    if given.get("tie", kept.get("tie")):
        # a tie makes them as many as hidden
        kept.pop("embedding", None)
    return kept


def _instead(kept: Values, given: Values) -> Values:
    """What a recipe says instead of values that could not go with what was given."""
    instead: dict[str, Any] = {}
    if given.get("sampling") == "random":
        instead["num_steps_spread"] = 0.0
    elif given.get("num_steps_spread"):
        instead["sampling"] = "sequential"
    if given.get("softmax") == "sampled":
        instead["label_smoothing"] = 0.0
    elif given.get("label_smoothing"):
        instead["softmax"] = "auto"
    hidden = given.get("hidden", kept.get("hidden"))
    if hidden is not None and given.get("embedding", hidden) != hidden:
        instead["tie"] = False
    return instead
