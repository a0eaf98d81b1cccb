"""Tokenizers: text to tokens and back.

What becomes of the tokens is `vocab.py`'s and `corpus.py`'s affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lmzoo.errors import named


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A named cutting of text into tokens and its inverse.

    `join(split(text))` equals `text` but for what the tokenizer drops; `loses_nothing` says whether that is nothing but
    white space at the ends of one given text.
    """

    name: str
    split: Callable[[str], list[str]]
    join: Callable[[Sequence[str]], str]
    by_words: bool

    def loses_nothing(self, text: str) -> bool:
        inner = text.strip(" \t\n")
        return not self.by_words or not any(gap in inner for gap in ("\t", "\n", "  "))


def split_words(text: str) -> list[str]:
    """Words between ASCII spaces, tabs and line ends; no other character separates."""
    # str.split on one character is several times as fast as a regular expression; split() alone would cut at U+00A0 too
    return [word for word in text.replace("\t", " ").replace("\n", " ").split(" ") if word]


def join_words(words: Sequence[str]) -> str:
    """Words joined by single spaces, none beside a line end."""
    return re.sub(r" ?\n ?", "\n", " ".join(words))


TOKENIZERS: Mapping[str, Tokenizer] = {
    t.name: t
    for t in (
        Tokenizer(name="char", split=list, join="".join, by_words=False),
        Tokenizer(name="word", split=split_words, join=join_words, by_words=True),
    )
}


def named_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of this name.  Raises `InputError`, naming the closest."""
    return named(name, TOKENIZERS, "tokenizer")
