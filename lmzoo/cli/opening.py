"""Models as commands name them: a model file, or a spec of what another program trained and is read from its file."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmzoo.errors import SpecError, StorageError, did_you_mean

if TYPE_CHECKING:
    from lmzoo.interface import LanguageModel


# names of models have no dots and no folders
_NAME = re.compile(r"[\w-]+")


def open_model(name: str, *, also: Collection[str] = ()) -> LanguageModel[Any]:
    """The model of a file or, where there is no such file, of a spec that is read, such as `kenlm:lm.arpa`.

    Args:
        also: names that the command knows besides, for whoever mistypes one.

    Raises `StorageError`, and `SpecError` for what would have to be trained first.
    """
    from lmzoo import storage
    from lmzoo.registry import all_entries, find_entry, read_model

    known = None if is_there(name) else named_entry(name)
    if known is None:
        typed = name.partition(":")[0]
        close = did_you_mean(typed, [*also, *all_entries()]) if _NAME.fullmatch(typed) else ""
        if close and not is_there(name):
            raise StorageError(f"no model file {name!r}.{close}")
        return storage.load(name)
    if not find_entry(known).is_read:
        raise SpecError(
            f"{name!r} is no file but the name of a model that is trained first: python -m lmzoo train "
            f"{name} TEXT -o FILE"
        )
    return read_model(name)


def is_there(name: str) -> bool:
    """Whether a model's name is that of a file."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a name longer than the system allows, or with a NUL
        return False


def named_entry(spec: str) -> str | None:
    """The name of the model that a spec speaks of, or None where no model is called so."""
    from lmzoo.registry import all_entries
    from lmzoo.spec import parse_spec

    name = spec.partition(":")[0].strip()
    # what cannot be parsed may still be the name of a file
    return parse_spec(spec).name if name in all_entries() else None
