"""Models as commands name them: a model file, or a spec of what another program trained and is read from its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmzoo.errors import SpecError

if TYPE_CHECKING:
    from lmzoo.interface import LanguageModel


def open_model(name: str) -> LanguageModel[Any]:
    """The model of a file or, where there is no such file, of a spec that is read, such as `kenlm:lm.arpa`.

    Raises `StorageError`, and `SpecError` for what would have to be trained first.
    """
    from lmzoo import storage
    from lmzoo.registry import find_entry, read_model

    known = None if is_there(name) else named_entry(name)
    if known is None:
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
