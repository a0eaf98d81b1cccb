"""The folder of a search: `tune.json`, a sealed file for each attempt, and `recipe.json`, the best so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.records import SCHEMA_VERSION
from bench.sealed import read_json, read_sealed, schema_version, sealed
from bench.store import TRIALS, RunStore, StoreError, WriteError, published_record
from bench.tuning.attempts import Attempt, Search
from lmzoo.errors import CorruptFileError, NewerFileError, StorageError
from lmzoo.recipe_files import write_recipe

SEARCH_FILE = "tune.json"
RECIPE_FILE = "recipe.json"
# what is asked of a text; its other facts follow from its content
_ASKED_OF_TEXT = {"name", "normalize", "tokenizer", "documents", "min_freq", "vocabulary_of"}


class SearchStore(RunStore):
    """One search's folder; a context manager that holds it locked, as that of a run is."""

    def write_search(self, search: Search) -> None:
        self._write(self.folder / SEARCH_FILE, search.model_dump_json(indent=1).encode() + b"\n")

    def write_attempt(self, attempt: Attempt) -> None:
        """Write an attempt, without the folders of what it was trained on."""
        trainings = tuple(map(published_record, attempt.trainings))
        published = attempt.model_copy(update={"trainings": trainings})
        self._write(self.folder / TRIALS / _name_of(attempt), sealed(published))

    def write_recipe(self, model: str, options: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        try:
            write_recipe(self.folder / RECIPE_FILE, model, options, found)
        except StorageError as error:
            raise WriteError(f"{error}; what was finished is safe, go on with --resume") from error

    def set_recipe_aside(self) -> None:
        """Take a recipe that no attempt stands for out of the way."""
        path = self.folder / RECIPE_FILE
        if os.path.lexists(path):
            aside = self._set_aside(path, "outdated")
            self._warn(f"no complete attempt stands for {path.name}; it is now {aside.name}")

    def search(self) -> Search | None:
        """What was asked of the search that the folder holds; None where it holds none.  Raises `StoreError`."""
        try:
            return Search.model_validate(read_json(self.folder / SEARCH_FILE))
        except FileNotFoundError:
            return None
        except (CorruptFileError, ValidationError) as error:
            raise StoreError(
                f"{self.folder / SEARCH_FILE} cannot be read, so nobody knows what was asked; use another --out, "
                "or begin anew with --force"
            ) from error

    def attempts(self, is_own: Callable[[Attempt], bool]) -> list[Attempt]:
        """The attempts in the order of their numbers.

        What cannot be read, is another attempt than its file's name says, or is of another search, is set aside as if
        it had never been made.

        Args:
            is_own: whether an attempt is one of this search.
        """
        found = []
        for path in sorted((self.folder / TRIALS).glob("*.json")):
            try:
                attempt = read_sealed(path, Attempt)
            except NewerFileError as error:
                raise self._newer(error) from error
            except CorruptFileError:
                self._set_attempt_aside(path, "cannot be read")
                continue
            fault = _fault_of(attempt, path.name, is_own)
            if fault is None:
                found.append(attempt)
            else:
                self._set_attempt_aside(path, fault)
        return sorted(found, key=lambda attempt: attempt.number)

    def _set_attempt_aside(self, path: Path, fault: str) -> None:
        aside = self._set_aside(path, "bad")
        self._warn(f"{TRIALS}/{path.name} {fault}; it is now {aside.name}")

    def _check_is_run(self) -> None:
        """Raise `StoreError` for a folder that holds something else."""
        if os.path.lexists(self.folder / SEARCH_FILE) or not any(self.folder.iterdir()):
            return
        raise StoreError(
            f"{self.folder} is no search that could be gone on with: it has no {SEARCH_FILE}; use another --out"
        )

    def _check_version(self) -> None:
        path = self.folder / SEARCH_FILE
        try:
            version = schema_version(read_json(path))
        except (FileNotFoundError, CorruptFileError):
            return
        if version > SCHEMA_VERSION:
            raise self._newer(f"{path.name} has schema {version}, this version reads up to {SCHEMA_VERSION}")


def _name_of(attempt: Attempt) -> str:
    return f"{attempt.number:05}.json"


def _fault_of(attempt: Attempt, name: str, is_own: Callable[[Attempt], bool]) -> str | None:
    """Why an attempt is not what a file of this name may hold, or None."""
    if name != _name_of(attempt):
        return f"holds attempt {attempt.number}"
    return None if is_own(attempt) else "is of another search"


def require_same_search(folder: Path, before: Search, now: Search) -> None:
    """Raise `StoreError` where what decides the outcomes is not the same as when a search began."""
    for part in ("asked", "corpus"):
        held, asked = getattr(before, part), getattr(now, part)
        different = [name for name in type(held).model_fields if getattr(held, name) != getattr(asked, name)]
        if "sha256" in different and not _ASKED_OF_TEXT & set(different):
            raise StoreError(
                f"{folder} is a search on another text: the content of {held.name} has changed since it began "
                f"(sha256 {held.sha256[:8]}…, now {asked.sha256[:8]}…); begin anew with --force, or use another --out"
            )
        if different:
            name = different[0]
            raise StoreError(
                f"{folder} is another search: its {name} is {getattr(held, name)}, asked is {getattr(asked, name)}; "
                "give the same options, or use another --out"
            )
