"""Normalisers: named rewritings of text, applied before it is cut into tokens; several in turn as `nfc+lower`."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, get_args

from lmzoo.errors import InputError, named, require_kind

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]

_SPACE = ord(" ")
# any other character than a letter, and the question mark that one beyond ASCII is encoded as, becomes a space
_LETTERS_OR_SPACE = bytes(ord(chr(b).lower()) if chr(b).isascii() and chr(b).isalpha() else _SPACE for b in range(256))
_LETTERS_LF_OR_SPACE = _LETTERS_OR_SPACE[:10] + b"\n" + _LETTERS_OR_SPACE[11:]
# vowels and finals of Hangul, the only characters but marks that normal forms join to the one before them
_JOINING_JAMO = re.compile("[\u1160-\u11ff]")
_THEN = "+"
# characters before a place that tell what becomes of those behind it
_CONTEXT = 64


@dataclass(frozen=True, kw_only=True)
class Normalizer:
    """A named rewriting of text.

    `apply_by_line` rewrites each line on its own, its LF kept, as if `apply` were given them one by one.

    Attributes:
        lossless: the text comes back unchanged.
        squeezes: a run of what it drops becomes one space.
        joins: marks may become one with the character before them.
        n_changed: how many characters of a text normal forms change.
    """

    name: str
    apply: Callable[[str], str]
    apply_by_line: Callable[[str], str]
    lossless: bool = False
    squeezes: bool = False
    joins: bool = False
    n_changed: Callable[[str], int] = lambda _: 0


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


def _normal_form(form: NormalForm) -> Normalizer:
    """A normal form of Unicode (Standard Annex 15): one spelling for texts that are canonically the same."""
    apply = partial(unicodedata.normalize, form)
    # a line end neither joins what stands beside it nor comes of anything else
    return Normalizer(
        name=form.lower(), apply=apply, apply_by_line=apply, joins=True, n_changed=partial(_n_changed, form)
    )


def _n_changed(form: NormalForm, text: str) -> int:
    """Characters of all sequences, each of a character and what joins it, that a normal form spells otherwise."""
    if unicodedata.is_normalized(form, text):
        return 0
    return sum(
        len(sequence)
        for line in text.split("\n")
        if not unicodedata.is_normalized(form, line)
        for sequence in _sequences(line)
        if unicodedata.normalize(form, sequence) != sequence
    )


def _sequences(text: str) -> list[str]:
    starts = [0, *(i for i in range(1, len(text)) if not _joins_before(text[i])), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(starts)]


def _joins_before(character: str) -> bool:
    """Whether normal forms may join a character to the one before it."""
    return unicodedata.category(character)[0] == "M" or _JOINING_JAMO.match(character) is not None


NORMALIZERS: Mapping[str, Normalizer] = {
    n.name: n
    for n in (
        Normalizer(name="none", apply=_unchanged, apply_by_line=_unchanged, lossless=True),
        # no character is lower-cased by what stands in another line: a line end is neither a letter nor part of a word
        Normalizer(name="lower", apply=str.lower, apply_by_line=str.lower),
        # the textbook's cleaning: everything but a-z becomes one space
        Normalizer(name="letters", apply=_letters, apply_by_line=_letters_by_line, squeezes=True),
        *map(_normal_form, get_args(NormalForm)),
    )
}


@lru_cache(maxsize=64)
def named_normalizer(name: str) -> Normalizer:
    """The normaliser of this name, or a chain of several, `nfc+lower`, the first one first.

    Raises `InputError`, naming the closest.
    """
    require_kind(name, str, "a normaliser", f"one of {', '.join(sorted(NORMALIZERS))}, or several joined by +")
    steps = [named(step, NORMALIZERS, "normaliser") for step in name.split(_THEN)]
    if len(steps) == 1:
        return steps[0]
    if NORMALIZERS["none"] in steps:
        raise InputError(f"normaliser 'none' changes nothing; leave it out of {name!r}")
    return Normalizer(
        name=name,
        apply=partial(_in_turn, [step.apply for step in steps]),
        apply_by_line=partial(_in_turn, [step.apply_by_line for step in steps]),
        squeezes=any(step.squeezes for step in steps),
        joins=any(step.joins for step in steps),
        n_changed=partial(_n_changed_in_turn, steps),
    )


def _in_turn(rewritings: Sequence[Callable[[str], str]], text: str) -> str:
    for rewriting in rewritings:
        text = rewriting(text)
    return text


def _n_changed_in_turn(steps: Sequence[Normalizer], text: str) -> int:
    n = 0
    for step in steps:
        n += step.n_changed(text)
        text = step.apply_by_line(text)
    return n


def raw_length(text: str, wanted: int, normalizer: Normalizer) -> int:
    """The length of the longest raw prefix whose normalised form has at most `wanted` characters, by bisection.

    The longest, so that what a normaliser makes one space of is never cut in two; longer yet where a character would be
    parted from the marks that it may be joined with.
    """
    low, high = 0, len(text)
    # between a letter and another ASCII character every normaliser goes on as if the text began there, so what stands
    # before it is measured once
    start, n_before = 0, 0
    while low < high:
        middle = (low + high + 1) // 2
        n_chars = n_before + len(normalizer.apply(text[start:middle]))
        if n_chars > wanted:
            high = middle - 1
            continue
        low = middle
        if _is_between_letter_and_ascii(text, middle):
            start, n_before = middle, n_chars
    return _end_of_joined(text, low, normalizer) if normalizer.joins else low


def _is_between_letter_and_ascii(text: str, at: int) -> bool:
    return text[at - 1].isascii() and text[at - 1].isalpha() and text[at : at + 1].isascii()


def _end_of_joined(text: str, at: int, normalizer: Normalizer) -> int:
    """The first place from `at` on that parts no marks from their character and no run that becomes one space."""
    at = _end_of_sequence(text, at)
    while at < len(text):
        end = _end_of_sequence(text, at + 1)
        before = text[max(at - _CONTEXT, 0) : at]
        if len(normalizer.apply(before + text[at:end])) > len(normalizer.apply(before)):
            return at
        at = end
    return at


def _end_of_sequence(text: str, at: int) -> int:
    while at < len(text) and _joins_before(text[at]):
        at += 1
    return at
