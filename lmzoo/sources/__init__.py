"""Corpora by name: where their text comes from, what it is, and how it is read when nothing else is asked.

A file is looked for under the folder named by `LMZOO_DATA`, then in the user's cache, then downloaded; whatever was
found is checked against what is known of it: a checksum, its size, or nothing, and then it is called unverified.  The
text of `markov:…` is drawn from its seed, that of `nltk:…` comes from NLTK's data, that of `hf:…` from Hugging Face
`datasets`.
"""

from __future__ import annotations

from lmzoo.sources.files import DATA_VARIABLE, DataFile, FileState, UnverifiedDataWarning
from lmzoo.sources.names import (
    CHAIN,
    DEFAULT_CORPUS,
    PATTERNS,
    SOURCES,
    default_tokens,
    is_named,
    named_source,
)
from lmzoo.sources.source import Readers, Source

__all__ = [
    "CHAIN",
    "DATA_VARIABLE",
    "DEFAULT_CORPUS",
    "PATTERNS",
    "SOURCES",
    "DataFile",
    "FileState",
    "Readers",
    "Source",
    "UnverifiedDataWarning",
    "default_tokens",
    "is_named",
    "named_source",
]
