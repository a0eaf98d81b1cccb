"""What a tokenizer is, and where a long text can be cut without changing its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

# white space that may go at the ends of a document
_BLANKS = " \t\n"
# how far from the end of a text a place to cut is looked for first
_FIRST_REACH = 1 << 8


def utf8(token: str) -> bytes:
    """The bytes of a token that is written as it is."""
    return token.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A named cutting of text into tokens and its inverse.

    Args:
        name: as it was asked for, such as `bpe:8000`.
        split, join: `join(split(text))` equals `text` but for what the tokenizer drops.
        split_many: the same as `split` of each of several texts, where that is faster.
        by_words: white space separates tokens and is dropped.
        is_lossless: `join(split(text)) == text` for every text.
        is_single: every token is written as one character.
        documents: the context policy where none is asked for.
        places: an empty match wherever a text can be cut so that both parts, each cut into tokens alone, have the
            tokens of the whole; among them are places before white space.  None: nowhere.
        symbols: every token there can be, where that is a closed set.
        state: what it was trained to, as JSON text; None where the name says it all.
        spelled: the UTF-8 bytes that a token stands for, which may be a part of a character.
    """

    name: str
    split: Callable[[str], list[str]]
    join: Callable[[Sequence[str]], str]
    split_many: Callable[[Sequence[str]], Iterable[list[str]]] | None = None
    by_words: bool = False
    is_lossless: bool = True
    is_single: bool = False
    documents: Literal["file", "line"] = "file"
    places: re.Pattern[str] | None = None
    symbols: tuple[str, ...] | None = None
    state: str | None = None
    spelled: Callable[[str], bytes] = utf8

    def loses_nothing(self, text: str) -> bool:
        """Whether the tokens of this text give it back but for white space at its ends."""
        return self.is_lossless or self.gives_back(text, self.split(text))

    def gives_back(self, text: str, tokens: Sequence[str]) -> bool:
        """Whether these tokens give back this text but for white space at its ends."""
        return self.is_lossless or self.join(tokens).strip(_BLANKS) == text.strip(_BLANKS)


def pieces_of(text: str, places: re.Pattern[str] | None, n_chars: int) -> Iterator[str]:
    """A text in pieces of at least `n_chars` characters, cut at such places; the last may be shorter."""
    start = 0
    while places is not None and len(text) - start > n_chars:
        found = places.search(text, start + n_chars)
        if found is None or found.start() == len(text):
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:] if start else text


def last_place(text: str, places: re.Pattern[str]) -> int:
    """The last place inside a text where it can be cut; 0: nowhere."""
    reach = _FIRST_REACH
    while True:
        start = max(len(text) - reach, 0)
        found = [at for match in places.finditer(text, start) if 0 < (at := match.start()) < len(text)]
        if found or not start:
            return found[-1] if found else 0
        reach <<= 3
