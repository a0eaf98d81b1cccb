"""Options are always resolved and never wrong; knowing them costs no heavy import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from lmzoo.errors import OptionValueError, UnknownOptionError
from lmzoo.neural.config import Config, RecurrentConfig, TransformerConfig, WindowConfig
from lmzoo.neural.recipes import RECIPES
from lmzoo.registry import resolve_config

CELLS = ("rnn", "gru", "lstm")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kernel", ["scratch", "library"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_recipe_fills_every_option(cell: str, kernel: str, recipe: str) -> None:
    config = RecurrentConfig(cell=cell, kernel=kernel, recipe=recipe)  # type: ignore[arg-type]
    assert None not in dataclasses.asdict(config).values()
    assert RecurrentConfig(**dataclasses.asdict(config)) == config


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("kind", "options"),
    [(WindowConfig, {}), (WindowConfig, {"variant": "residual"}), (TransformerConfig, {})],
)
def test_every_other_recipe_fills_every_option(kind: type[Config], options: dict[str, Any], recipe: str) -> None:
    config = kind(recipe=recipe, **options)  # type: ignore[arg-type]
    assert None not in dataclasses.asdict(config).values()
    assert kind(**dataclasses.asdict(config)) == config


def test_the_layers_of_a_transformer_share_out_its_context() -> None:
    spans = [TransformerConfig(context_size=65, layers=layers).span for layers in (1, 2, 3, 64)]
    assert spans == [64, 32, 21, 1]


def test_a_feed_forward_layer_follows_the_width_of_its_model() -> None:
    assert TransformerConfig(hidden=24).feed_forward == 4 * 24
    assert TransformerConfig(hidden=24, feed_forward=10).feed_forward == 10


def test_a_residual_window_has_an_activation_of_its_own() -> None:
    activations = [resolve_config(spec).activation for spec in ("mlp", "mlp:variant=residual")]
    assert activations == ["tanh", "gelu"]
    assert resolve_config("mlp:variant=residual,activation=relu").activation == "relu"


def test_the_textbook_recipe_is_the_textbooks() -> None:
    config = RecurrentConfig(cell="rnn", recipe="textbook")
    assert (config.hidden, config.layers, config.batch_size, config.num_steps) == (256, 1, 32, 35)
    assert (config.optimizer, config.lr, config.clip, config.schedule) == ("sgd", 1.0, 1.0, "constant")
    assert (config.embedding, config.input, config.sampling) == (0, "onehot", "sequential")


def test_an_option_given_outweighs_the_recipe() -> None:
    config = resolve_config("lstm-scratch:recipe=textbook,hidden=8,lr=0.5")
    assert (config.hidden, config.lr, config.batch_size) == (8, 0.5, 32)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_recipe_stands_in_the_way_of_what_was_asked_for(recipe: str) -> None:
    for cell in CELLS:
        asked = f"{cell}-scratch:recipe={recipe}"
        assert resolve_config(f"{asked},sampling=random").num_steps_spread == 0
        assert resolve_config(f"{asked},softmax=sampled").label_smoothing == 0
        assert not resolve_config(f"{asked},tie=false").tie
        untied = resolve_config(f"{asked},embedding=24")
        assert (untied.embedding, untied.tie) == (24, False)
        undropped = resolve_config(f"{asked},dropout=0")
        assert (undropped.dropout_input, undropped.dropout_hidden, undropped.dropout_output) == (0, 0, 0)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("lstm-scratch:hidden=0", "hidden"),
        ("lstm-scratch:hidden=2.5", "hidden"),
        ("lstm-scratch:lr=0", "lr"),
        ("lstm-scratch:lr=nan", "lr"),
        ("lstm-scratch:lr=-1", "lr"),
        ("lstm-scratch:clip=inf", "clip"),
        ("lstm-scratch:dropout=1", "dropout"),
        ("lstm-scratch:num_steps=0", "num_steps"),
        ("lstm-scratch:optimizer=adagrad", "adam"),
        ("lstm-scratch:weight_decay=0.1", "belongs to optimizer=adamw"),
        ("lstm-scratch:dropout_input=1", "dropout_input must be a number from 0 to less than 1"),
        ("lstm-scratch:tie=true,embedding=8", "embedding=8 and hidden=256"),
        ("lstm-scratch:label_smoothing=0.1,softmax=sampled", "label_smoothing needs every symbol"),
        ("lstm-scratch:output_bias=unigrams", "Did you mean 'unigram'"),
        ("lstm-scratch:num_steps_spread=0.5,sampling=random", "num_steps_spread belongs to sampling=sequential"),
        ("lstm-scratch:adapt_steps=3", "adapt_steps belongs to adapt=dynamic, got adapt=none"),
        ("lstm-scratch:adapt=cache,adapt_steps=3", "adapt_steps belongs to adapt=dynamic, got adapt=cache"),
        ("lstm-scratch:adapt=dynamic,adapt_size=3", "adapt_size belongs to adapt=cache, got adapt=dynamic"),
        ("lstm-scratch:activation=relu", "activation"),
        ("rnn-scratch:recipe=texbook", "textbook"),
        ("lstm-cudnn:embedding=0,input=lookup", "embedding"),
        ("lstm-scratch:hidden=10000000000", "hidden must be a number from 1 to 2.14748e"),
        ("lstm-scratch:lr=1e308", "lr must be a number from 0 to 1e"),
        ("lstm-scratch:impl=loops", "Did you mean 'loop'"),
        ("lstm-cudnn:impl=loop", "impl=loop is for the cells written out here"),
        ("mlp:context_size=0", "context_size"),
        ("mlp:embedding=0", "embedding"),
        ("mlp:variant=residul", "residual"),
        ("mlp:activation=swish", "gelu"),
        ("rnn-scratch:activation=gelu", "tanh, relu"),
        ("transformer:heads=0", "heads must be a number from 1 to"),
        ("transformer:hidden=0", "hidden"),
        ("transformer:hidden=20,heads=3", "hidden must be an even multiple of heads, got hidden=20 and heads=3"),
        ("transformer:hidden=12,heads=4", "hidden must be an even multiple of heads, got hidden=12 and heads=4"),
        ("transformer:context_size=3,layers=3", "context_size must be above layers"),
        ("transformer:feed_forward=0", "feed_forward"),
    ],
)
def test_a_bad_value_is_named(spec: str, named: str) -> None:
    with pytest.raises(OptionValueError, match=named):
        resolve_config(spec)


def test_values_of_another_type_are_refused() -> None:
    for wrong in (True, "64", 2.0):
        for kind in (RecurrentConfig, WindowConfig, TransformerConfig):
            with pytest.raises(OptionValueError, match="hidden must be a whole number"):
                kind(hidden=wrong)  # type: ignore[arg-type]


def test_an_unknown_option_names_the_close_match() -> None:
    with pytest.raises(UnknownOptionError, match="'hidden'"):
        resolve_config("mlp:hiden=3")


def test_the_options_import_nothing_heavy() -> None:
    code = "import sys, lmzoo.neural.config; print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
