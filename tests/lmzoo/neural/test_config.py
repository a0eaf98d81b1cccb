"""Options are always resolved and never wrong; knowing them costs no heavy import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from lmzoo.errors import OptionValueError, UnknownOptionError
from lmzoo.neural.config import RecurrentConfig, WindowConfig
from lmzoo.registry import resolve_config

CELLS = ("rnn", "gru", "lstm")
RECIPES = ("default", "textbook")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kernel", ["scratch", "library"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_recipe_fills_every_option(cell: str, kernel: str, recipe: str) -> None:
    config = RecurrentConfig(cell=cell, kernel=kernel, recipe=recipe)  # type: ignore[arg-type]
    assert None not in dataclasses.asdict(config).values()
    assert RecurrentConfig(**dataclasses.asdict(config)) == config


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_window_recipe_fills_every_option(recipe: str) -> None:
    config = WindowConfig(recipe=recipe)  # type: ignore[arg-type]
    assert None not in dataclasses.asdict(config).values()
    assert WindowConfig(**dataclasses.asdict(config)) == config


def test_the_textbook_recipe_is_the_textbooks() -> None:
    config = RecurrentConfig(cell="rnn", recipe="textbook")
    assert (config.hidden, config.layers, config.batch_size, config.num_steps) == (256, 1, 32, 35)
    assert (config.optimizer, config.lr, config.clip, config.schedule) == ("sgd", 1.0, 1.0, "constant")
    assert (config.embedding, config.input, config.sampling) == (0, "onehot", "sequential")


def test_an_option_given_outweighs_the_recipe() -> None:
    config = resolve_config("lstm-scratch:recipe=textbook,hidden=8,lr=0.5")
    assert (config.hidden, config.lr, config.batch_size) == (8, 0.5, 32)


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
        ("lstm-scratch:optimizer=adamw", "adam"),
        ("lstm-scratch:activation=relu", "activation"),
        ("rnn-scratch:recipe=texbook", "textbook"),
        ("lstm-cudnn:embedding=0,input=lookup", "embedding"),
        ("mlp:context_size=0", "context_size"),
        ("mlp:embedding=0", "embedding"),
    ],
)
def test_a_bad_value_is_named(spec: str, named: str) -> None:
    with pytest.raises(OptionValueError, match=named):
        resolve_config(spec)


def test_values_of_another_type_are_refused() -> None:
    for wrong in (True, "64", 2.0):
        with pytest.raises(OptionValueError, match="hidden must be a whole number"):
            RecurrentConfig(hidden=wrong)  # type: ignore[arg-type]


def test_an_unknown_option_names_the_close_match() -> None:
    with pytest.raises(UnknownOptionError, match="'hidden'"):
        resolve_config("mlp:hiden=3")


def test_the_options_import_nothing_heavy() -> None:
    code = "import sys, lmzoo.neural.config; print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
