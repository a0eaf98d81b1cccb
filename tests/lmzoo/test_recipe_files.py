"""A recipe file says what it is, gives back what was written, and is refused for what it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmzoo.errors import OptionValueError, StorageError, UnknownOptionError
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
    options = read_recipe(recipe)
    assert {name: options[name] for name in OPTIONS} == OPTIONS
    label = options["recipe"]
    assert label.startswith("mine.json ")
    assert len(label) == len("mine.json ") + 8


def test_the_label_changes_with_the_content(recipe: Path) -> None:
    before = read_recipe(recipe)["recipe"]
    write_recipe(recipe, "lstm-scratch", {**OPTIONS, "lr": 0.25}, {})
    assert read_recipe(recipe)["recipe"] != before


def test_a_spec_takes_its_options_and_those_given_beside_it_outweigh_them(recipe: Path) -> None:
    config = resolve_config(f"gru-scratch:recipe={recipe},hidden=7")
    assert (config.hidden, config.lr, config.locked, config.schedule) == (7, 0.5, False, "constant")
    # the rest is the default recipe's
    assert config.batch_size == resolve_config("gru-scratch").batch_size
    assert config.recipe == read_recipe(recipe)["recipe"]
    # a model file has all options and needs no recipe any more
    recipe.unlink()
    assert type(config)(**vars(config)) == config


def test_a_counting_model_has_recipes_too_and_so_have_parts(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    write_recipe(path, "ngram", {"order": 3, "smoothing": "wb"}, {})
    assert resolve_config(f"ngram:recipe={path}") == resolve_config("ngram:order=3,smoothing=wb")
    (first, _) = resolve_config(f"mixture:ngram(recipe={path})+unigram").parts.values()
    assert first.order == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "holds no JSON"),
        ("[]", "is no recipe"),
        ('{"format": "other"}', "is no recipe"),
        ('{"format": "lmzoo-recipe", "version": 99, "options": {}}', "version 99, this lmzoo reads version 1"),
        ('{"format": "lmzoo-recipe", "version": 1}', "options"),
        ('{"format": "lmzoo-recipe", "version": 1, "options": {"hidden": [1]}}', "options"),
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


@pytest.mark.parametrize(("options", "error"), [({"hiden": 3}, UnknownOptionError), ({"hidden": 0}, OptionValueError)])
def test_its_options_are_checked_as_those_of_a_spec(
    tmp_path: Path, options: dict[str, Any], error: type[Exception]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"format": "lmzoo-recipe", "version": 1, "model": "mlp", "options": options}))
    with pytest.raises(error, match="hidden"):
        resolve_config(f"mlp:recipe={path}")
