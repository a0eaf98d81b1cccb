"""The characters of a text: how often each occurs, which nobody sees, of what scripts, and spelled in which forms."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.normalizers import NORMALIZERS
from lmzoo.segments import Segments, blocks
from lmzoo.spelling import code_points

_LINE_END = re.compile(b"\n")
# seen by what they do: they need no mention
_USUAL = {"\n", " "}
# controls, formats, private, unassigned and lone surrogates; separators of lines and paragraphs; spaces
_INVISIBLE = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"}
_SHORT_NAME = 18
_REPLACEMENT = "\ufffd"
# first words of names of letters that say how they are drawn, not of which script they are
_NO_SCRIPTS = {"FULLWIDTH", "HALFWIDTH", "MODIFIER", "SMALL", "CIRCLED", "PARENTHESIZED", "SQUARED"}
# where the name of a letter begins with what nobody calls its script
_SCRIPTS = {"CJK": "Han"}


@dataclass(frozen=True, kw_only=True)
class NormalForms:
    """How far a text mixes the spellings that Unicode calls the same (Standard Annex 15).

    Args:
        n_changed: characters that NFC would change.
        n_words: different words that occur in more than one of these spellings.
        examples: some of them, in NFC.
    """

    n_changed: int
    n_words: int
    examples: tuple[str, ...]


def character_counts(segments: Iterable[Segments]) -> dict[str, int]:
    """How often each character occurs, line ends included, by code point."""
    counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    for text in _texts(segments):
        found = np.bincount(code_points(text))
        if len(found) > len(counts):
            counts = np.concatenate((counts, np.zeros(len(found) - len(counts), np.int64)))
        counts[: len(found)] += found
    return {chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def invisible(counts: Mapping[str, int]) -> dict[str, int]:
    """Those that leave no mark on paper, or stand for what could not be read; not spaces and line ends themselves."""
    return {
        c: n
        for c, n in counts.items()
        if c not in _USUAL and (c == _REPLACEMENT or unicodedata.category(c) in _INVISIBLE)
    }


def scripts(counts: Mapping[str, int]) -> dict[str, int]:
    """How many letters are of each script, the most frequent first, as the names of the letters say it."""
    found: Counter[str] = Counter()
    for c, n in counts.items():
        if unicodedata.category(c).startswith("L"):
            found[script_of(c)] += n
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def script_of(letter: str) -> str:
    """`Latin` for a, `Han` for 红."""
    words = [word for word in unicodedata.name(letter, "UNNAMED").split() if word not in _NO_SCRIPTS]
    first = words[0].split("-")[0] if words else "UNNAMED"
    return _SCRIPTS.get(first, first.capitalize())


def code_of(character: str) -> str:
    """`U+00A0`."""
    return f"U+{ord(character):04X}"


def sign_of(character: str) -> str:
    """What stands for a character that cannot be seen: its Unicode name where that is short, else its code."""
    name = unicodedata.name(character, "")
    return name if 0 < len(name) <= _SHORT_NAME else code_of(character)


def name_of(character: str) -> str:
    """The Unicode name of a character; of one without a name what kind it is of."""
    kinds = {"Cc": "control character", "Co": "private use", "Cs": "half of a surrogate pair"}
    return unicodedata.name(character, kinds.get(unicodedata.category(character), "unassigned"))


def normal_forms(segments: Iterable[Segments], n_examples: int = 5) -> NormalForms:
    """What NFC would change, word by word, and the words that stand in several forms.

    A text that NFC would change is read twice.
    """
    held = list(segments)
    changed: Counter[str] = Counter()
    for text in _texts(held):
        if not unicodedata.is_normalized("NFC", text):
            changed.update(w for w in text.split() if not w.isascii() and not unicodedata.is_normalized("NFC", w))
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for word in changed:
        forms[unicodedata.normalize("NFC", word)].add(word)
    if forms:
        for text in _texts(held):
            for word in forms.keys() & set(text.split()):
                forms[word].add(word)
    mixed = sorted(word for word, found in forms.items() if len(found) > 1)
    n_changed = sum(n * NORMALIZERS["nfc"].n_changed(word) for word, n in changed.items())
    return NormalForms(n_changed=n_changed, n_words=len(mixed), examples=tuple(mixed[:n_examples]))


def _texts(segments: Iterable[Segments]) -> Iterator[str]:
    """The text of segments, some lines at a time."""
    for held in segments:
        for start, end in blocks(held.data, held.start, held.end, _LINE_END):
            yield held.data[start:end].decode("utf-8", "surrogatepass")
