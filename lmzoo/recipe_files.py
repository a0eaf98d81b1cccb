"""Recipe files: options of a model that somebody found for his own corpus, to be named as `recipe=<file>.json`."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo.errors import StorageError
from lmzoo.files import whole_file

_FORMAT, _VERSION = "lmzoo-recipe", 1
_SUFFIX = ".json"
_LABEL = re.compile(r".*\.json [0-9a-f]{8}")
# what a search writes has a few thousand
_MOST_BYTES = 1 << 20
# a FIFO would block its reader for ever; systems without them have no such flag
_WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe file that was read.

    Attributes:
        label: its name and the first digits of its sha256, by which models and records know it.
        model: the name of the model that its options were found for.
        options: by name, as a spec has them.
    """

    label: str
    model: str
    options: Mapping[str, Any]


def is_file(recipe: str) -> bool:
    """Whether `recipe=` of a spec names a file rather than a recipe of lmzoo's own."""
    # what looks like the label of a file that was read is, in a spec, nothing but a name
    return recipe.endswith(_SUFFIX) or is_label(recipe)


def is_label(recipe: str) -> bool:
    """Whether this is what a config holds of a file that was read for it."""
    return _LABEL.fullmatch(recipe) is not None


def read_recipe(path: str | Path) -> RecipeFile:
    """What a recipe file holds.  Raises `StorageError` for what cannot be read or is no recipe."""
    path = Path(path)
    written = _bytes_of(path)
    try:
        content = json.loads(written, object_pairs_hook=_each_once, parse_constant=_no_number)
    except StorageError as error:
        raise StorageError(f"{path} is no recipe: {error}; bench.tune writes recipes") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is no recipe: it holds no JSON ({error}); bench.tune writes recipes") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise StorageError(f'{path} is no recipe: it has no "format": "{_FORMAT}"; bench.tune writes recipes')
    version = content.get("version")
    # true and 1.0 equal 1
    if type(version) is not int or version != _VERSION:
        raise StorageError(
            f"{path} is a recipe of version {version!r}, this lmzoo reads version {_VERSION}; "
            "write it again with this bench.tune"
        )
    model, options = content.get("model"), content.get("options")
    if not isinstance(model, str) or not model:
        raise StorageError(f'{path} is no recipe: its "model" must be the name of a model, got {model!r}')
    if not isinstance(options, dict) or not all(map(_is_option, options.values())):
        raise StorageError(f'{path} is no recipe: its "options" must be names with texts, numbers or true and false')
    if "recipe" in options:
        raise StorageError(f"{path} is no recipe: its options name another one; write that one's values among them")
    return RecipeFile(label=f"{path.name} {hashlib.sha256(written).hexdigest()[:8]}", model=model, options=options)


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


def _bytes_of(path: Path) -> bytes:
    """The content of a regular file of sensible size."""
    try:
        descriptor = os.open(path, _WITHOUT_WAITING)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StorageError(f"the recipe {path} cannot be read: it is no regular file")
            written = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise StorageError(f"the recipe {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(written) > _MOST_BYTES:
        raise StorageError(f"{path} is no recipe: it has more than {_MOST_BYTES:,} bytes; bench.tune writes recipes")
    return written


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, none of whose names is there twice: which of two counts, nobody sees."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise StorageError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _no_number(name: str) -> Any:
    raise StorageError(f"{name} is no number")


def _is_option(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
