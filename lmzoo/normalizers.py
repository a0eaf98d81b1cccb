"""Normalisers: named rewritings of text, applied before it is cut into tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lmzoo.errors import named

_SPACE = ord(" ")
# any other character than a letter, and the question mark that one beyond ASCII is encoded as, becomes a space
_LETTERS_OR_SPACE = bytes(ord(chr(b).lower()) if chr(b).isascii() and chr(b).isalpha() else _SPACE for b in range(256))
_LETTERS_LF_OR_SPACE = _LETTERS_OR_SPACE[:10] + b"\n" + _LETTERS_OR_SPACE[11:]


@dataclass(frozen=True, kw_only=True)
class Normalizer:
    """A named rewriting of text.

    `apply_by_line` rewrites each line on its own, its LF kept, as if `apply` were given them one by one.  `lossless`:
    the text comes back unchanged.
    """

    name: str
    apply: Callable[[str], str]
    apply_by_line: Callable[[str], str]
    lossless: bool


def _unchanged(text: str) -> str:
    return text


def _letters(text: str) -> str:
    return _letters_of(text.encode("ascii", "replace").translate(_LETTERS_OR_SPACE))


def _letters_by_line(text: str) -> str:
    return _letters_of(text.encode("ascii", "replace").translate(_LETTERS_LF_OR_SPACE))


def _letters_of(spaced: bytes) -> str:
    """The text with one space for each run of spaces."""
    import numpy as np  # here: the command line asks for the names of normalisers alone, and answers at once

    codes_N = np.frombuffer(spaced, np.uint8)
    keep_N = codes_N != _SPACE
    keep_N[1:] |= keep_N[:-1].copy()
    keep_N[:1] = True
    return str(codes_N[keep_N].tobytes(), "ascii")


NORMALIZERS: Mapping[str, Normalizer] = {
    n.name: n
    for n in (
        Normalizer(name="none", apply=_unchanged, apply_by_line=_unchanged, lossless=True),
        # no character is lower-cased by what stands in another line: a line end is neither a letter nor part of a word
        Normalizer(name="lower", apply=str.lower, apply_by_line=str.lower, lossless=False),
        # the textbook's cleaning: everything but a-z becomes one space
        Normalizer(name="letters", apply=_letters, apply_by_line=_letters_by_line, lossless=False),
    )
}


def raw_length(text: str, wanted: int, normalizer: Normalizer) -> int:
    """The length of the longest raw prefix whose normalised form has at most `wanted` characters, by bisection.

    The longest, so that what a normaliser makes one space of is never cut in two.
    """
    low, high = 0, len(text)
    # after a letter every normaliser goes on as if the text began there, so what stands before it is measured once
    start, n_before = 0, 0
    while low < high:
        middle = (low + high + 1) // 2
        n_chars = n_before + len(normalizer.apply(text[start:middle]))
        if n_chars > wanted:
            high = middle - 1
            continue
        low = middle
        if text[middle - 1].isascii() and text[middle - 1].isalpha():
            start, n_before = middle, n_chars
    return low


def named_normalizer(name: str) -> Normalizer:
    """The normaliser of this name.  Raises `InputError`, naming the closest."""
    return named(name, NORMALIZERS, "normaliser")
