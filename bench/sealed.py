"""A record as it lies in a file: sealed with a hash of its content, and read without ever waiting for a writer."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from bench.records import SCHEMA_VERSION, Recorded, TrialRecord
from lmzoo.errors import CorruptFileError, NewerFileError

Kind = TypeVar("Kind", bound=Recorded)

# the field of a record that holds it
_SEAL = "sha256"
_BEFORE_SEALS = 1
# a FIFO would block its reader for ever, a link may lead out of the folder; systems without them have no such flags
_REGULAR_ONLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def sealed(record: Recorded) -> bytes:
    """The file of a record: JSON that holds the sha256 of everything else in it."""
    seal = _seal_of(json.loads(record.model_dump_json(exclude={_SEAL})))
    return record.model_copy(update={_SEAL: seal}).model_dump_json(indent=1).encode() + b"\n"


def read_record(path: Path) -> TrialRecord:
    """The record of a trial's file; raises as `read_sealed` does."""
    return read_sealed(path, TrialRecord)


def read_sealed(path: Path, kind: type[Kind]) -> Kind:
    """The record of this kind that a file holds.

    Raises `FileNotFoundError`; `NewerFileError` for one that a newer version wrote; `CorruptFileError` for one that was
    cut short or altered, is no regular file or cannot be read.  A record of schema 1 has no seal: it only has to fit
    the schema.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise CorruptFileError(f"{path.name} holds no JSON object; it was cut short or altered")
    if (version := schema_version(data)) > SCHEMA_VERSION:
        raise NewerFileError(f"{path.name} has schema {version}, this version reads up to {SCHEMA_VERSION}")
    seal = data.pop(_SEAL, None)
    if seal != _seal_of(data) and not (seal is None and version == _BEFORE_SEALS):
        raise CorruptFileError(f"the content of {path.name} is not what was written; it was altered")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise CorruptFileError(f"{path.name} does not fit the schema: {error.errors()[0]['msg']}") from error


def read_json(path: Path) -> Any:
    """The JSON of a regular file.  Raises `FileNotFoundError`, and `CorruptFileError` for whatever else is wrong."""
    try:
        # a file of JSON that nests deeper than Python's stack was not written here
        return json.loads(_read_regular(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path.name} is not JSON; it was cut short or altered") from error


def schema_version(data: Any) -> int:
    """The schema that a file's content names; 0 where it names none, or one that is no integer as JSON has them."""
    version = data.get("schema_version", 0) if isinstance(data, dict) else 0
    # true is an int in Python
    return version if type(version) is int else 0


def _read_regular(path: Path) -> bytes:
    descriptor = os.open(path, _REGULAR_ONLY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CorruptFileError(f"{path.name} is no regular file")
        return file.read()


def _seal_of(data: dict[str, Any]) -> str:
    """The same for equal content, however it is laid out: a tool may indent the file otherwise."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
