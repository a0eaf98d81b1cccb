"""A named corpus: its parts, what they are read from, and how they are read when nothing else is asked."""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from lmzoo.reading import decode_bytes
from lmzoo.sources.files import (
    DataFile,
    UnverifiedDataWarning,
    fetch_file,
    find_file,
    read_file,
    where_to_put,
)

# what reads the text of each part: of the whole, or of train, test and perhaps valid
Readers = dict[str, Callable[[], str]]

_PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A named corpus: one text (`whole`), or the parts its publishers cut.

    Its text is in `files`, or given by `opened`.

    Args:
        name: as reports show it.
        place: where the text comes from that is in no file of ours.
        n_symbols: predictable symbols under the defaults: a uniform model's perplexity; None: not known.
        n_bytes, sha256: of all its text in UTF-8, for one in no file of ours; another text is read with a warning.
        is_remote: reading it may download it.
        cuts: bytes of the one file at which validation and test part start.
        chain: the spec of the Markov chain it is drawn from.
    """

    name: str
    description: str
    licence: str
    normalize: str = "none"
    tokens: str = "char"
    own_unk: bool = False
    files: Mapping[str, DataFile] = field(default_factory=dict)
    opened: Callable[[], Readers] | None = None
    place: str | None = None
    n_symbols: int | None = None
    n_bytes: int | None = None
    sha256: str | None = None
    is_remote: bool = False
    cuts: tuple[int, int] | None = None
    chain: str | None = None

    @property
    def origin(self) -> str:
        """Where its text comes from: the files already here, or where each would be fetched; asks no network."""
        if self.place is not None:
            return self.place
        return ", ".join(dict.fromkeys(_origin_of(file) for file in self.files.values()))

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all its text; None where that is not known of every file."""
        sizes = [file.n_bytes for file in self.files.values()]
        return self.n_bytes if not sizes or None in sizes else sum(filter(None, sizes))

    @property
    def check(self) -> str:
        """What its text is compared with whenever it is read: `sha256`, or `unverified`, or one for each part."""
        if self.chain is not None:
            return "made here"
        checks = {part: file.check for part, file in self.files.items()}
        if not checks:
            return "unverified" if self.sha256 is None else "sha256"
        different = set(checks.values())
        return different.pop() if len(different) == 1 else ", ".join(f"{part} {kind}" for part, kind in checks.items())

    def readers(self) -> Readers:
        """What reads the text of each part: `{"whole": …}` or `{"train": …, "valid": …, "test": …}`."""
        if self.opened is not None:
            return {part: partial(self._given, read) for part, read in self.opened().items()}
        if self.cuts is not None:
            (file,) = self.files.values()
            bounds = (0, *self.cuts, None)
            return {
                part: partial(self._read, file, start, end)
                for part, (start, end) in zip(_PARTS, itertools.pairwise(bounds), strict=True)
            }
        return {part: partial(self._read, file) for part, file in self.files.items()}

    def texts(self) -> dict[str, str]:
        """The text of each part."""
        return {part: read() for part, read in self.readers().items()}

    def fetch(self) -> None:
        """Have all of it on this machine, as published.  Raises `MissingDataError`."""
        for file in self.files.values():
            fetch_file(self.name, file)
        if self.opened is not None:
            self.opened()

    def _given(self, read: Callable[[], str]) -> str:
        text = read()
        if self.sha256 is not None and hashlib.sha256(text.encode()).hexdigest() != self.sha256:
            _warn(f"{self.name}: the text from {self.place} is another than the one whose sha256 is known")
        return text

    def _read(self, file: DataFile, start: int | None = 0, end: int | None = None) -> str:
        data = read_file(self.name, file)
        if file.checksum is None:
            _warn(f"{self.name}: {file.path} is unverified: no checksum of it is known")
        return decode_bytes(data[_character_start(data, start) : _character_start(data, end)], file.path)


def _warn(message: str) -> None:
    # shown once a place of the caller's, whichever that is
    warnings.warn(message, UnverifiedDataWarning, stacklevel=4)


def _character_start(data: bytes, place: int | None) -> int | None:
    """A place in UTF-8 bytes, moved on to where a character starts."""
    while place is not None and place < len(data) and data[place] & 0xC0 == 0x80:
        place += 1
    return place


def _origin_of(file: DataFile) -> str:
    found = find_file(file)
    if found is not None:
        return str(found)
    return str(file.url) if file.is_fetched else where_to_put(file)
