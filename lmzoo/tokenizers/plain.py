"""Tokenizers that need neither training nor a library of their own: characters, bytes and words; and graphemes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from lmzoo.errors import missing_library
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS, bytes_of, join_bytes, split_bytes
from lmzoo.tokenizers.tokenizer import Tokenizer

_ANYWHERE = re.compile("")
# two characters that nothing joins: neither is, nor extends, part of a cluster (Unicode Standard Annex 29, rule GB999)
_BETWEEN_PLAIN = re.compile("(?<=[!-~\u4e00-\u9fff])(?=[ -~\n\u4e00-\u9fff])")


def split_words(text: str) -> list[str]:
    """Words between ASCII spaces, tabs and line ends; no other character separates."""
    # str.split on one character is several times as fast as a regular expression; split() alone would cut at U+00A0 too
    return [word for word in text.replace("\t", " ").replace("\n", " ").split(" ") if word]


def join_words(words: Sequence[str]) -> str:
    """Words joined by single spaces, none beside a line end."""
    return re.sub(r" ?\n ?", "\n", " ".join(words))


@cache
def _grapheme() -> Any:
    try:
        import regex
    except ImportError as error:
        raise missing_library("regex", "text", "tokens of kind 'grapheme'") from error
    return regex.compile(r"\X")


def _split_graphemes(text: str) -> list[str]:
    return list(_grapheme().findall(text))


CHAR = Tokenizer(name="char", split=list, join="".join, is_single=True, places=_ANYWHERE)
GRAPHEME = Tokenizer(name="grapheme", split=_split_graphemes, join="".join, places=_BETWEEN_PLAIN)
BYTE = Tokenizer(
    name="byte",
    split=split_bytes,
    join=join_bytes,
    is_single=True,
    places=_ANYWHERE,
    symbols=BYTE_SYMBOLS,
    spelled=bytes_of,
)
WORD = Tokenizer(
    name="word",
    split=split_words,
    join=join_words,
    by_words=True,
    is_lossless=False,
    documents="line",
    places=re.compile(r"(?=[ \t\n])"),
)
