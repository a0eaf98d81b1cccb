"""Recipe files: options of a model that somebody found for his own corpus, to be named as `recipe=<file>.json`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmzoo.errors import StorageError
from lmzoo.files import whole_file

_FORMAT, _VERSION = "lmzoo-recipe", 1
_SUFFIX = ".json"
_LABEL = re.compile(r".*\.json [0-9a-f]{8}")


def is_file(recipe: str) -> bool:
    """Whether `recipe=` names a file rather than a recipe of lmzoo's own."""
    return recipe.endswith(_SUFFIX)


def is_label(recipe: str) -> bool:
    """Whether this is what `read_recipe` calls a file that it has read."""
    return _LABEL.fullmatch(recipe) is not None


def read_recipe(path: str | Path) -> dict[str, Any]:
    """The options of a recipe file, and under `recipe` its name and the first digits of its sha256.

    Raises `StorageError` for what cannot be read or is no recipe.
    """
    path = Path(path)
    try:
        written = path.read_bytes()
        content = json.loads(written)
    except OSError as error:
        raise StorageError(f"the recipe {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is no recipe: it holds no JSON ({error}); bench.tune writes recipes") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise StorageError(f'{path} is no recipe: it has no "format": "{_FORMAT}"; bench.tune writes recipes')
    if content.get("version") != _VERSION:
        raise StorageError(
            f"{path} is a recipe of version {content.get('version')!r}, this lmzoo reads version {_VERSION}; "
            "write it again with this bench.tune"
        )
    options = content.get("options")
    if not isinstance(options, dict) or not all(_is_option(value) for value in options.values()):
        raise StorageError(f'{path} is no recipe: its "options" must be names with texts, numbers or true and false')
    return {**options, "recipe": f"{path.name} {hashlib.sha256(written).hexdigest()[:8]}"}


def write_recipe(path: str | Path, model: str, options: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Write a recipe file, whole or not at all.

    Args:
        model: the spec's name that the options are for.
        options: by name, as a spec has them.
        found: how they were found, for people.

    Raises `StorageError` where it cannot be written.
    """
    content = {"format": _FORMAT, "version": _VERSION, "model": model, "options": dict(options), "found": dict(found)}
    with whole_file(Path(path)) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _is_option(value: Any) -> bool:
    return isinstance(value, str | int | float)
