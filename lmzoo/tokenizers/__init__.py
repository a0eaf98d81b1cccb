"""Tokenizers: text to tokens and back, one table of them.

What becomes of the tokens is `vocab.py`'s and `corpus.py`'s affair.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmzoo.errors import InputError, did_you_mean, require_kind
from lmzoo.tokenizers.plain import BYTE, CHAR, GRAPHEME, WORD, join_words, split_words
from lmzoo.tokenizers.subword import (
    BYTE_LEVEL_PLACES,
    DEFAULT_SYMBOLS,
    LEAST_SYMBOLS,
    MOST_SYMBOLS,
    from_state,
    read_state,
    train_bpe,
    train_unigram,
)
from lmzoo.tokenizers.tokenizer import Tokenizer, last_place, pieces_of
from lmzoo.tokenizers.words import JIEBA, TREEBANK, WORD_PUNCT

__all__ = [
    "TOKENIZERS",
    "TOKENIZER_KINDS",
    "TRAINED",
    "Kind",
    "Tokenizer",
    "join_words",
    "kind_of",
    "last_place",
    "pieces_of",
    "restored_tokenizer",
    "split_words",
    "tokenizer_for",
]

# those that are the same for every text
TOKENIZERS: Mapping[str, Tokenizer] = {t.name: t for t in (CHAR, GRAPHEME, BYTE, WORD, TREEBANK, WORD_PUNCT, JIEBA)}
# those that are learned from the training text: symbols wanted, texts -> state
TRAINED: Mapping[str, Callable[[int, Iterable[str]], str]] = {"bpe": train_bpe, "unigram-lm": train_unigram}
# all that can be asked for, as help and errors list it
TOKENIZER_KINDS = (*TOKENIZERS, *(f"{name}:N" for name in TRAINED), "or a tokenizer.json")

# more digits than any number of symbols has
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is known of a tokenizer before any text was read.

    `documents`: the context policy where none is asked for.  `places`: as in `Tokenizer`.  `is_trained`: it is learned
    from the training text, which is read for that first.
    """

    name: str
    make: Callable[[Iterable[str]], Tokenizer]
    documents: Literal["file", "line"]
    places: re.Pattern[str] | None
    is_trained: bool = False


def kind_of(name: str) -> Kind:
    """The kind of tokenizer that a name such as `word`, `bpe:8000` or `my/tokenizer.json` asks for.

    Raises `InputError` for what is none, naming the closest, and for a number of symbols out of range.
    """
    require_kind(
        name, str, "a tokenizer", f"one of {', '.join((*TOKENIZERS, *TRAINED))}, or the path of a tokenizer.json"
    )
    head, _, number = name.partition(":")
    if head in TRAINED:
        n_symbols = _symbols_of(name, number) if ":" in name else DEFAULT_SYMBOLS
        return Kind(
            name=name,
            make=lambda texts: from_state(name, TRAINED[head](n_symbols, texts)),
            documents="file",
            places=BYTE_LEVEL_PLACES,
            is_trained=True,
        )
    tokenizer = TOKENIZERS.get(name) or _from_file(name)
    return Kind(name=tokenizer.name, make=lambda _: tokenizer, documents=tokenizer.documents, places=tokenizer.places)


def _symbols_of(name: str, number: str) -> int:
    n_symbols = int(number) if _NUMBER.fullmatch(number) else -1
    if not LEAST_SYMBOLS <= n_symbols <= MOST_SYMBOLS:
        head = name.partition(":")[0]
        raise InputError(
            f"{head}:N has N symbols, {LEAST_SYMBOLS} (one for each byte) to {MOST_SYMBOLS}, got {name!r}; "
            f"such as {head}:{DEFAULT_SYMBOLS}"
        )
    return n_symbols


def _from_file(name: str) -> Tokenizer:
    """The tokenizer of a file; an absolute path is remembered by the file's name alone."""
    if not name.endswith(".json") and os.sep not in name:
        listed = (*TOKENIZERS, *TRAINED)
        raise InputError(
            f"no tokenizer {name!r}.{did_you_mean(name, listed)} There are: {', '.join(sorted(listed))}, "
            "or the path of a tokenizer.json"
        )
    path = Path(name)
    return from_state(path.name if path.is_absolute() else name, read_state(path))


def tokenizer_for(name: str, texts: Callable[[], Iterable[str]]) -> Tokenizer:
    """The tokenizer of this name, learned from the texts (the training part alone) where it has to be.

    Raises `InputError` as `kind_of` does, and `MissingLibraryError`.
    """
    kind = kind_of(name)
    return kind.make(texts() if kind.is_trained else ())


def restored_tokenizer(name: str, state: str | None) -> Tokenizer:
    """The tokenizer of a vocabulary, from its name and what it was trained to.

    Raises `InputError` for a name that says nothing without a state.
    """
    if state is not None:
        return from_state(name, state)
    if name in TOKENIZERS:
        return TOKENIZERS[name]
    kind = kind_of(name)
    if kind.is_trained:
        raise InputError(f"{name} is learned from a text; a vocabulary of it comes with what it learned")
    return kind.make(())
