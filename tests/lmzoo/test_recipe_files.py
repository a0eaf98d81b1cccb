"""A recipe file says what it is, gives back what was written, and is refused for what it is not."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from lmzoo.errors import OptionValueError, SpecError, StorageError, UnknownOptionError
from lmzoo.recipe_files import read_recipe, write_recipe
from lmzoo.registry import resolve_config

pytestmark = pytest.mark.plain

OPTIONS = {"hidden": 24, "lr": 0.5, "locked": False, "schedule": "constant"}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    write_recipe(path, "lstm-scratch", OPTIONS, {"corpus": "红楼梦"})
    return path


def test_what_was_written_is_read(recipe: Path) -> None:
    read = read_recipe(recipe)
    assert (read.options, read.model) == (OPTIONS, "lstm-scratch")
    assert read.label.startswith("mine.json ")
    assert len(read.label) == len("mine.json ") + 8


def test_the_label_changes_with_the_content(recipe: Path) -> None:
    before = read_recipe(recipe).label
    write_recipe(recipe, "lstm-scratch", {**OPTIONS, "lr": 0.25}, {})
    assert read_recipe(recipe).label != before


def test_a_spec_takes_its_options_and_those_given_beside_it_outweigh_them(recipe: Path) -> None:
    config = resolve_config(f"gru-scratch:recipe={recipe},hidden=7")
    assert (config.hidden, config.lr, config.locked, config.schedule) == (7, 0.5, False, "constant")
    # the rest is the default recipe's
    assert config.batch_size == resolve_config("gru-scratch").batch_size
    assert config.recipe == read_recipe(recipe).label
    # a model file has all options and needs no recipe any more
    recipe.unlink()
    assert type(config)(**vars(config)) == config


def test_a_counting_model_has_recipes_too_and_so_have_parts(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    write_recipe(path, "ngram", {"order": 3, "smoothing": "wb"}, {})
    assert resolve_config(f"ngram:recipe={path}") == resolve_config("ngram:order=3,smoothing=wb")
    (first, _) = resolve_config(f"mixture:ngram(recipe={path})+unigram").parts.values()
    assert first.order == 3


def recipe_text(options: dict[str, Any], model: Any = "mlp") -> str:
    return json.dumps({"format": "lmzoo-recipe", "version": 1, "model": model, "options": options})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "holds no JSON"),
        ("[]", "is no recipe"),
        ('{"format": "other"}', "is no recipe"),
        ('{"format": "lmzoo-recipe", "version": 99, "options": {}}', "version 99, this lmzoo reads version 1"),
        ('{"format": "lmzoo-recipe", "version": true}', "version True"),
        ('{"format": "lmzoo-recipe", "version": 1.0}', "version 1.0"),
        ('{"format": "lmzoo-recipe", "version": 1, "options": {}}', '"model" must be the name of a model, got None'),
        (recipe_text({}, model=5), '"model" must be the name of a model, got 5'),
        ('{"format": "lmzoo-recipe", "version": 1, "model": "mlp"}', "options"),
        (recipe_text({"hidden": [1]}), "options"),
        (recipe_text({"hidden": None}), "options"),
        (recipe_text({"recipe": "textbook"}), "its options name another one"),
        (recipe_text({"lr": float("nan")}), "NaN is no number"),
        (recipe_text({"lr": 0.5}).replace("0.5", "1e999"), "options"),
        (recipe_text({"lr": 0.5}).replace('"lr"', '"lr": 0.25, "lr"'), "it has 'lr' twice"),
        (recipe_text({}).replace('"model"', '"options": {"lr": 0.5}, "model"'), "it has 'options' twice"),
        (" " * (1 << 20) + recipe_text({}), "more than 1,048,576 bytes"),
        ("[" * 100_000, "holds no JSON"),
    ],
)
def test_what_is_no_recipe_is_told(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(StorageError, match=told):
        resolve_config(f"lstm-scratch:recipe={path}")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        resolve_config(f"lstm-scratch:recipe={tmp_path / 'none.json'}")
    with pytest.raises(StorageError, match="cannot write"):
        write_recipe(tmp_path / "none" / "x.json", "mlp", {}, {})


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.json"
    if kind == "folder":
        path.mkdir()
    elif not hasattr(os, "mkfifo"):
        pytest.skip("this system has no such files")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(StorageError, match="cannot be read"):
        read_recipe(path)


def test_the_label_of_a_file_is_no_recipe_that_a_spec_can_name(recipe: Path) -> None:
    label = read_recipe(recipe).label
    with pytest.raises(StorageError, match="cannot be read"):
        resolve_config(f'lstm-scratch:recipe="{label}",hidden=8')
    with pytest.raises(StorageError, match="cannot be read"):
        resolve_config(f'ngram:recipe="{label}"')


@pytest.mark.parametrize(
    ("model", "options", "error", "told"),
    [
        ("mlp", {"hiden": 3}, UnknownOptionError, "mlp has no option 'hiden'. Did you mean 'hidden'?"),
        ("mlp", {"hidden": 0}, OptionValueError, "hidden must be a number from 1"),
        ("mlp", {"hidden": 2.5}, OptionValueError, "mlp: hidden must be a whole number, got 2.5"),
        ("mlp", {"hidden": True}, OptionValueError, "mlp: hidden must be a whole number, got True"),
        ("mlp", {"optimizer": 1}, OptionValueError, "mlp: optimizer must be 'sgd' or 'adam' or 'adamw', got 1"),
        ("ngram", {"order": True}, OptionValueError, "order must be a whole number, got True"),
        ("ngram", {"interpolated": 1}, OptionValueError, "interpolated must be true or false, got 1"),
        ("ngram", {"prune": False}, OptionValueError, "prune must be a number or none, got False"),
        ("kn5", {"order": 3}, UnknownOptionError, "'order' of kn5 is part of its name"),
        ("lstm-scratch", {"activation": "relu"}, OptionValueError, "activation of a lstm is tanh"),
    ],
)
def test_a_file_at_fault_is_named_with_the_model_that_it_is_of(
    tmp_path: Path, model: str, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(recipe_text(options, model="rnn-scratch"))
    for beside in ("", ",max_bytes=2M" if model in ("ngram", "kn5") else ",lr=0.5"):
        with pytest.raises(error, match=re.escape(told)) as raised:
            resolve_config(f"{model}:recipe={path}{beside}")
        assert str(raised.value).endswith(f"; {path} is a recipe of rnn-scratch")


@pytest.mark.parametrize("given", ["hiden=3", "hidden=0", "lr=fast", "tie=maybe"])
def test_a_file_is_not_blamed_for_what_is_given_beside_it(recipe: Path, given: str) -> None:
    with pytest.raises(SpecError) as raised:
        resolve_config(f"lstm-scratch:recipe={recipe},{given}")
    assert "recipe of" not in str(raised.value)


@pytest.mark.parametrize("recipe", ["default", "z 2", "mine"])
@pytest.mark.parametrize("model", ["ngram", "xz"])
def test_what_has_no_recipes_of_its_own_takes_files(model: str, recipe: str) -> None:
    with pytest.raises(OptionValueError, match=f"recipe of {model} is a file ending in .json .*got '{recipe}'"):
        resolve_config(f"{model}:recipe={recipe}")


@pytest.mark.parametrize(
    ("model", "of_file", "given", "wanted"),
    [
        # what could not go with it gives way
        ("lstm-scratch", {"tie": True, "hidden": 64, "embedding": 64}, "embedding=8", "hidden=64,embedding=8"),
        ("lstm-scratch", {"tie": True, "hidden": 64, "embedding": 64}, "hidden=8", "hidden=8,embedding=8,tie=true"),
        ("lstm-scratch", {"hidden": 64, "embedding": 32}, "tie=true", "hidden=64,embedding=64,tie=true"),
        ("lstm-scratch", {"num_steps_spread": 0.4}, "sampling=random", "sampling=random"),
        ("lstm-scratch", {"sampling": "random"}, "num_steps_spread=0.4", "num_steps_spread=0.4"),
        ("lstm-scratch", {"label_smoothing": 0.1}, "softmax=sampled", "softmax=sampled"),
        ("lstm-scratch", {"softmax": "sampled"}, "label_smoothing=0.1", "label_smoothing=0.1"),
        ("lstm-scratch", {"adapt": "cache", "adapt_size": 9}, "adapt=dynamic", "adapt=dynamic"),
        ("lstm-scratch", {"optimizer": "adamw", "weight_decay": 0.1}, "optimizer=adam", "optimizer=adam"),
        ("lstm-cudnn", {"input": "lookup", "embedding": 64}, "embedding=0", "embedding=0"),
        ("mlp", {"hidden": 64, "embedding": 32}, "embedding=8", "hidden=64,embedding=8"),
        ("ngram", {"order": 6, "smoothing": "ad", "discounts": "tuned"}, "smoothing=wb", "order=6,smoothing=wb"),
        ("ngram", {"cutoffs": "1/2", "discounts": "tuned"}, "smoothing=mle", "smoothing=mle"),
        ("ngram", {"smoothing": "addk", "k": 0.5}, "smoothing=kn", "smoothing=kn"),
        # what would outweigh it
        ("lstm-scratch", {"dropout_input": 0.1, "dropout_output": 0.5}, "dropout=0.3", "dropout=0.3"),
        # and what goes with it stays
        ("lstm-scratch", {"adapt": "cache", "adapt_size": 9}, "adapt=cache", "adapt=cache,adapt_size=9"),
        ("ngram", {"smoothing": "addk"}, "k=0.5", "smoothing=addk,k=0.5"),
    ],
)
def test_what_a_file_says_gives_way_to_what_is_given(
    tmp_path: Path, model: str, of_file: dict[str, Any], given: str, wanted: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(recipe_text(of_file, model=model))
    options = vars(resolve_config(f"{model}:recipe={path},{given}")) | {"recipe": "default"}
    assert options == vars(resolve_config(f"{model}:{wanted}")) | {"recipe": "default"}
