"""The files of named corpora: where they lie, what is known of them, how one that is missing is fetched.

A file lies in its place as it is, or inside the zip that its publisher hands out.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmzoo.errors import MissingDataError

DATA_VARIABLE = "LMZOO_DATA"

# checked against a checksum; against its size at most; not what was published; not here
FileState = Literal["verified", "unverified", "altered", "missing"]


class UnverifiedDataWarning(UserWarning):
    """A text was read of which no checksum is known: nothing shows that it is the one its name promises."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a corpus, and what is known of it.

    Args:
        path: its place below a data folder.
        n_bytes: its size as published.
        checksum: algorithm and hex digits, `sha256:8424…`.  None: never verified, so it is never downloaded.
        archive: the zip that it is published in, beside which it may also lie unpacked; its name there is `path`.
        url: where it, or the archive, is published.
    """

    path: str
    n_bytes: int | None = None
    checksum: str | None = None
    archive: str | None = None
    url: str | None = None

    @property
    def is_fetched(self) -> bool:
        """Whether it is downloaded when it is missing."""
        return self.url is not None and self.checksum is not None

    @property
    def check(self) -> str:
        """What it is compared with whenever it is read."""
        if self.checksum is not None:
            return self.checksum.partition(":")[0]
        return "unverified" if self.n_bytes is None else "unverified (size alone)"


@dataclass(frozen=True)
class Found:
    """A corpus file on this machine: a file, or a member of a zip."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    @property
    def n_bytes(self) -> int:
        """Its size, unpacked.  Raises `MissingDataError` for what is no zip or lacks the member."""
        if self.member is None:
            return self.path.stat().st_size
        with self._archive() as archive:
            return archive.getinfo(self.member).file_size

    def read(self) -> bytes:
        """All of it.  Raises as `n_bytes` does."""
        if self.member is None:
            try:
                return self.path.read_bytes()
            except OSError as error:
                raise MissingDataError(f"cannot read {self.path}: {error.strerror or error}") from error
        with self._archive() as archive:
            return archive.read(self.member)

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except KeyError as error:
            raise MissingDataError(f"{self.path} has no {self.member} in it") from error
        except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
            raise MissingDataError(f"cannot read {self.path} as a zip: {error}") from error


def read_file(corpus: str, file: DataFile) -> bytes:
    """The verified bytes of a corpus file, fetched if need be.

    Raises `MissingDataError` when it is nowhere and cannot be downloaded, or is not what was published.
    """
    found = find_file(file)
    if found is None:
        return fetch_file(corpus, file)
    return _checked(corpus, found, file)


def fetch_file(corpus: str, file: DataFile) -> bytes:
    """The same; a file of the cache that is not what was published is downloaded anew."""
    found = find_file(file)
    if found is not None:
        try:
            return _checked(corpus, found, file)
        except MissingDataError:
            if not (file.is_fetched and _is_cached(found)):
                raise
            found.path.unlink(missing_ok=True)
    if not file.is_fetched:
        why = "has no download" if file.url is None else "is not downloaded, as no checksum of it is known"
        raise MissingDataError(f"corpus {corpus!r} needs {file.path}, which {why}; {where_to_put(file)}")
    return _downloaded(corpus, file)


def find_file(file: DataFile) -> Found | None:
    """Where a corpus file lies on this machine, not looked into; None: nowhere."""
    for folder in _folders():
        if (folder / file.path).is_file():
            return Found(folder / file.path)
        if file.archive is not None and (folder / file.archive).is_file():
            return Found(folder / file.archive, file.path)
    return None


def state_of(file: DataFile) -> FileState:
    """Whether a file is here and what was published; reads all of it, and asks no network."""
    found = find_file(file)
    if found is None:
        return "missing"
    try:
        return "altered" if _fault(found, file) else "unverified" if file.checksum is None else "verified"
    except MissingDataError:
        return "altered"


def where_to_put(file: DataFile) -> str:
    name = file.path if file.archive is None else file.archive
    place = f"put the file at ${DATA_VARIABLE}/{name} or at {cache_folder() / name}"
    return place if file.url is None or file.is_fetched else f"it is published at {file.url}; {place}"


def cache_folder() -> Path:
    """Where downloads are kept, as the operating system has it."""
    import pooch

    return Path(pooch.os_cache("lmzoo"))


def _folders() -> Iterator[Path]:
    """Where a corpus file may lie; the cache comes last, as asking for it loads a library."""
    if os.environ.get(DATA_VARIABLE):
        yield Path(os.environ[DATA_VARIABLE]).expanduser()
    yield cache_folder()


def _is_cached(found: Found) -> bool:
    return found.path.is_relative_to(cache_folder())


def _checked(corpus: str, found: Found, file: DataFile) -> bytes:
    data = found.read() if _has_size(found, file) else b""
    fault = _fault_of(found, file, data)
    if fault is None:
        return data
    is_ours = file.is_fetched and _is_cached(found)
    cure = f"python -m lmzoo corpora {corpus} --fetch gets it anew" if is_ours else "replace or remove the file"
    raise MissingDataError(f"{found} {fault}; {cure}")


def _fault(found: Found, file: DataFile) -> str | None:
    """What is wrong with a file, or None."""
    return _fault_of(found, file, found.read() if _has_size(found, file) else b"")


def _has_size(found: Found, file: DataFile) -> bool:
    """Asked before it is read: a zip may claim to hold anything."""
    return file.n_bytes is None or found.n_bytes == file.n_bytes


def _fault_of(found: Found, file: DataFile, data: bytes) -> str | None:
    if not _has_size(found, file):
        return f"has {found.n_bytes} bytes, {file.n_bytes} are wanted"
    if file.checksum is None:
        return None
    algorithm, _, wanted = file.checksum.partition(":")
    digest = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
    return None if digest == wanted else f"has {algorithm} {digest}, {wanted} is wanted"


def _downloaded(corpus: str, file: DataFile) -> bytes:
    """Fetch a file into the cache.  pooch gives it its name once it is whole, so several may fetch at once."""
    import pooch

    target = cache_folder() / (file.path if file.archive is None else file.archive)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(file.url, file.checksum if file.archive is None else None, target.name, target.parent)
    except Exception as error:  # any library below pooch may raise its own kind
        raise MissingDataError(
            f"corpus {corpus!r} needs {file.path}, which is not here and could not be downloaded "
            f"from {file.url} ({type(error).__name__}); {where_to_put(file)}"
        ) from error
    found = Found(target, None if file.archive is None else file.path)
    try:
        return _checked(corpus, found, file)
    except MissingDataError:
        target.unlink(missing_ok=True)
        raise


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
