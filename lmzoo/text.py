"""Text to tokens and back: reading files, normalisers, tokenizers.

Everything here is a plain function of a string; what becomes of the tokens is `vocab.py`'s and `corpus.py`'s affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lmzoo.errors import InputError, TextError, UndecodableTextError, did_you_mean

Named = TypeVar("Named")

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
MARKERS = (UNK, BOS, EOS)

_ESCAPED_MARKER = re.compile(r"\\*(?:<unk>|<s>|</s>)")
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_BOM = b"\xef\xbb\xbf"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file: one BOM dropped, CRLF and CR line ends turned into LF, everything else kept.

    Raises `UndecodableTextError` with the 0-based byte offset of the first byte that is not UTF-8, and `TextError` for
    UTF-16 or a file that cannot be opened.
    """
    with _reading(path):
        data = path.read_bytes()
    return decode_bytes(data, str(path))


def read_joined(paths: Sequence[str | Path]) -> str:
    """The texts of files as one, one after the other; each ends its last line.  One file is as `read_text` gives it."""
    texts = [read_text(Path(path)) for path in paths]
    return texts[0] if len(texts) == 1 else "\n".join(text.removesuffix("\n") for text in texts) + "\n"


def joined_name(paths: Sequence[str | Path]) -> str:
    """What a text of one or more files is called: the first one's name, and how many more there are."""
    name = Path(paths[0]).name
    return name if len(paths) == 1 else f"{name}+{len(paths) - 1} more"


def read_blocks(path: Path, block_bytes: int = 1 << 24) -> Iterator[str]:
    """The text of a file, as `read_text` gives it, in pieces made from about `block_bytes` bytes each.

    A piece ends after a line end; only the last piece, and one of a line longer than a block, may not.  At most a few
    blocks are in memory at a time.  Raises as `read_text` does, after the pieces before the fault.
    """
    if block_bytes < len(_UTF8_BOM):
        raise InputError(f"a block has at least {len(_UTF8_BOM)} bytes (a BOM), got {block_bytes}")
    yield from decode_blocks(_chunks(path, block_bytes), str(path))


def decode_blocks(chunks: Iterator[bytes], source: str) -> Iterator[str]:
    """The same of the bytes of a file in chunks, however cut; `source` names them in errors."""
    waiting = next(chunks, b"")
    while len(waiting) < len(_UTF8_BOM) and (chunk := next(chunks, b"")):
        waiting += chunk
    offset = _bom_length(waiting, source)
    waiting = waiting[offset:]
    for chunk in chunks:
        end = _end_of_lines(waiting)
        if end:
            yield _decoded(waiting[:end], offset, source)
        offset += end
        waiting = waiting[end:] + chunk
    if waiting:
        yield _decoded(waiting, offset, source)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise TextError(f"cannot read {str(path)!r}: {error}") from error


def _chunks(path: Path, chunk_bytes: int) -> Iterator[bytes]:
    with _reading(path), path.open("rb") as file:
        while chunk := file.read(chunk_bytes):
            yield chunk


def _end_of_lines(data: bytes) -> int:
    """How many bytes of a text that goes on can be decoded: up to a line end, else all but the last character."""
    # the last character may be cut off (UTF-8 goes on in at most three bytes 10xxxxxx), or be a CR before its LF
    last = max(len(data) - 1, 0)
    while last > max(len(data) - 4, 0) and data[last] & 0xC0 == 0x80:
        last -= 1
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, last)) + 1 or last


def decode_bytes(data: bytes, source: str) -> str:
    """The text of UTF-8 bytes; see `read_text`.  `source` names them in errors."""
    skipped = _bom_length(data, source)
    return _decoded(data[skipped:], skipped, source)


def _bom_length(data: bytes, source: str) -> int:
    if data[:2] in _UTF16_BOMS:
        raise TextError(f"{source} is UTF-16, UTF-8 is wanted; convert it with: iconv -f UTF-16 -t UTF-8")
    return len(_UTF8_BOM) if data.startswith(_UTF8_BOM) else 0


def _decoded(data: bytes, offset: int, source: str) -> str:
    """The text of bytes that stand at `offset` in their source."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableTextError(
            f"{source} is not UTF-8: byte 0x{data[error.start]:02x} at offset {offset + error.start}; "
            f"convert the file to UTF-8"
        ) from error
    return with_line_feeds(text)


def with_line_feeds(text: str) -> str:
    """The text with LF for CRLF and CR."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_encodable(text: str, source: str) -> None:
    """Raise `TextError` for a text that no UTF-8 file can hold; `source` names it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{source} has U+{ord(text[error.start]):04X}, half of a surrogate pair, at character {error.start}"
        ) from error


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


def escape_marker(token: str) -> str:
    """A token that reads like a marker gets a backslash before it, so that text can never forge `<s>` or `<unk>`."""
    # few tokens end like a marker, and asking for that is much faster
    return "\\" + token if token.endswith(MARKERS) and _ESCAPED_MARKER.fullmatch(token) else token


def unescape_marker(token: str) -> str:
    """The inverse of `escape_marker`."""
    return token[1:] if token.startswith("\\") and _ESCAPED_MARKER.fullmatch(token) else token


def named_normalizer(name: str) -> Normalizer:
    """The normaliser of this name.  Raises `InputError`, naming the closest."""
    return _named(name, NORMALIZERS, "normaliser")


def named_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of this name.  Raises `InputError`, naming the closest."""
    return _named(name, TOKENIZERS, "tokenizer")


def _named(name: str, table: Mapping[str, Named], kind: str) -> Named:
    if name not in table:
        raise InputError(f"no {kind} {name!r}.{did_you_mean(name, table)} There are: {', '.join(sorted(table))}")
    return table[name]
