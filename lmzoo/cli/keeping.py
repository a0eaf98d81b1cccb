"""A trained model is never lost for want of room where it was to be written."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmzoo.errors import StorageError

if TYPE_CHECKING:
    from lmzoo.interface import LanguageModel


def save_or_keep(model: LanguageModel[Any], output: str, *others: str | None) -> None:
    """Write a model; where that fails, beside one of `others` (files) or in the folder of temporary files.

    Raises `click.ClickException`, which names the file that it is kept in, or says that there is none.
    """
    from lmzoo.storage import save

    try:
        save(model, output)
    except StorageError as error:
        folders = [*(Path(other).parent for other in others if other), Path(tempfile.gettempdir())]
        kept = _kept(model, Path(output).stem, folders)
        if kept is None:
            shown = ", ".join(map(str, folders))
            raise click.ClickException(f"{error}; nor could it be kept in {shown}: the model is lost") from error
        raise click.ClickException(f"{error}; the model is kept in {kept}: move it once there is room") from error


def _kept(model: LanguageModel[Any], stem: str, folders: list[Path]) -> Path | None:
    from lmzoo.storage import save

    for folder in folders:
        try:
            # a name that nothing has yet, and no longer than the system allows
            return save(model, folder / f"{stem[:32]}-{secrets.token_hex(4)}.lm")
        except StorageError:
            continue
    return None
