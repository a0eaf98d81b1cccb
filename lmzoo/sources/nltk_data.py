"""`nltk:brown` and its like: any corpus under NLTK's data path, its tokens as NLTK gives them.

A corpus becomes a text whose words stand between single spaces: a line for each sentence that its reader gives; of
plain text (which NLTK needs another download for to cut into sentences) a line for each line; of a word list a line
for each word.  White space inside a token becomes `_`, so that cutting into words gives NLTK's tokens back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lmzoo.errors import CorpusError, MissingDataError, MissingLibraryError, UnknownCorpusError

_WHITE_SPACE = re.compile(r"\s+")


def nltk_text(name: str) -> str:
    """The text of an NLTK corpus, such as `brown`.

    Raises:
        MissingLibraryError: nltk is not installed.
        MissingDataError: the corpus is not under NLTK's data path; the message tells how to get it.
        CorpusError: it has no words.
    """
    reader = _reader(name)
    text = "".join(f"{' '.join(words)}\n" for words in _lines(name, reader) if words)
    if not text:
        raise CorpusError(f"nltk's corpus {name!r} is empty")
    return text


def _reader(name: str) -> Any:
    """The reader of a corpus whose files are here."""
    try:
        import nltk
        from nltk.corpus.reader import CorpusReader, PlaintextCorpusReader
        from nltk.corpus.util import LazyCorpusLoader
    except ImportError as error:
        raise MissingLibraryError("corpora of nltk need it: python -m pip install 'lmzoo[text]'") from error
    known = getattr(nltk.corpus, name, None) if name.isidentifier() else None
    try:
        if isinstance(known, CorpusReader | LazyCorpusLoader):
            known.fileids()
            return known
        # one that nltk has no reader for, put there by somebody
        return PlaintextCorpusReader(nltk.data.find(f"corpora/{name}"), r".*\.txt")
    except (LookupError, OSError, AttributeError) as error:
        raise MissingDataError(
            f"nltk has no corpus {name!r} here; get it with: python -m nltk.downloader {name}  "
            f"(looked for in {', '.join(nltk.data.path)}; NLTK_DATA names another folder)"
        ) from error


def _lines(name: str, reader: Any) -> Iterator[list[str]]:
    """The tokens of each line."""
    from nltk.corpus.reader import PlaintextCorpusReader

    if isinstance(reader, PlaintextCorpusReader):
        for file in reader.fileids():
            yield from map(_words, _by_line(reader.words(file), reader.raw(file)))
    elif hasattr(reader, "sents"):
        yield from map(_words, reader.sents())
    elif hasattr(reader, "words"):
        yield from (_words([word]) for word in reader.words())
    else:
        raise CorpusError(f"nltk's corpus {name!r} has no words: it is read by {type(reader).__name__}")


def _by_line(words: Iterable[str], text: str) -> Iterator[list[str]]:
    """The words of each line of the text that they were cut from; all that are left, where one is not found in it."""
    waiting = iter(words)
    word = next(waiting, None)
    for line in text.splitlines():
        found, place = [], 0
        while word is not None and line.startswith(word, place := _after_space(line, place)):
            found.append(word)
            place += len(word)
            word = next(waiting, None)
        yield found
    if word is not None:
        yield [word, *waiting]


def _after_space(line: str, place: int) -> int:
    while place < len(line) and line[place].isspace():
        place += 1
    return place


def _words(tokens: Iterable[str]) -> list[str]:
    return [_WHITE_SPACE.sub("_", token) for token in tokens if token]


def checked_name(name: str) -> str:
    """A corpus name that can be asked of NLTK.  Raises `UnknownCorpusError` for any other."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", name):
        raise UnknownCorpusError(f"a corpus of nltk is named like nltk:brown, got 'nltk:{name}'")
    return name
