"""What a file of KenLM says of itself without KenLM: its words, counts of n-grams, and whether figures are rounded.

KenLM's module for Python scores words by name but lists none.  An ARPA file lists them as its 1-grams; a binary file
(format 5) ends with them, each followed by a zero byte, `<unk>` first, where it was built with them.
"""

from __future__ import annotations

import gzip
import itertools
import lzma
import mmap
import re
import struct
import zlib
from bz2 import BZ2File
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lmzoo.errors import StorageError
from lmzoo.markers import UNK

_MAGIC = b"mmap lm http://kheafield.com/code format version"
_VERSION = 5
# the magic line is padded to a multiple of 8; three floats, two numbers of words and a long number follow, which only
# tell whether the machine that wrote the file is like this one
_SANITY_BYTES = 88
# order, space multiplier, kind of structure, whether the words are inside, version of the search
_PARAMETERS = struct.Struct("<B3xfI?3xI")
# kinds of structure: tries with quantised figures, plain and with compressed pointers
_QUANTIZED = (3, 5)
_MAX_ORDER = 32

_COUNT = re.compile(rb"ngram\s+\d+\s*=\s*(\d{1,18})\s*")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
_OPENERS: Mapping[bytes, Callable[[IO[bytes]], Any]] = {b"\x1f\x8b": gzip.open, b"BZ": BZ2File, b"\xfd7": lzma.LZMAFile}


@dataclass(frozen=True, kw_only=True)
class KenlmFile:
    """A file's own account.

    Attributes:
        counts: n-grams of each order.
        words: as KenLM has them, in the file's order.
        tokens: what they stand for: a `\\u{20}` in a word is that character.
    """

    path: Path
    n_bytes: int
    counts: tuple[int, ...]
    words: tuple[str, ...]
    tokens: tuple[str, ...]
    is_quantized: bool


def inspect_file(path: Path) -> KenlmFile:
    """Look at an ARPA or a binary file.  Raises `StorageError` for what is neither, or has no words."""
    try:
        if not path.is_file():
            raise StorageError(f"cannot read {path}: {'it is a folder' if path.is_dir() else 'no such file'}")
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
            counts, raw, is_quantized = _of_binary(file, path) if start == _MAGIC else (*_of_arpa(file, path), False)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    # KenLM takes both spellings for its own marker
    words = tuple(UNK if word.lower() == UNK else word for word in (_decoded(word, path) for word in raw))
    tokens = tuple(map(_unescaped, words))
    if len(set(tokens)) < len(tokens):
        again = next(token for i, token in enumerate(tokens) if token in tokens[:i])
        raise StorageError(f"{path} lists {again!r} twice")
    return KenlmFile(
        path=path,
        n_bytes=path.stat().st_size,
        counts=counts,
        words=words,
        tokens=tokens,
        is_quantized=is_quantized,
    )


def _of_arpa(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], list[bytes]]:
    """Counts of n-grams by order, and the words of the 1-grams."""
    file.seek(0)
    opener = _OPENERS.get(file.read(2))
    file.seek(0)
    lines = (line.strip(b" \t\r\n") for line in (opener(file) if opener is not None else file))
    if b"\\data\\" not in lines:
        raise StorageError(f"{path} is neither an ARPA file (no line \\data\\) nor a binary file of KenLM")
    counts: list[int] = []
    for line in lines:
        if line == b"\\1-grams:":
            return tuple(counts), [
                _word_of(entry, path) for entry in itertools.takewhile(_is_entry, filter(None, lines))
            ]
        if (count := _COUNT.fullmatch(line)) is not None:
            counts.append(int(count[1]))
    raise StorageError(f"{path} is cut short: it has no section \\1-grams:")


def _is_entry(line: bytes) -> bool:
    """Whether a line still belongs to a section."""
    return not line.startswith(b"\\")


def _word_of(entry: bytes, path: Path) -> bytes:
    fields = entry.replace(b"\t", b" ").split(b" ")
    if len(fields) < 2:
        raise StorageError(f"{path} is cut short or damaged: a 1-gram is a figure and a word, got {entry[:40]!r}")
    return fields[1]


def _of_binary(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], list[bytes], bool]:
    """Counts of n-grams by order, the words, and whether figures are quantised."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        version = data[len(_MAGIC) : len(_MAGIC) + 3].split(b"\n")[0].strip()
        if version != str(_VERSION).encode():
            raise StorageError(
                f"{path} is a binary file of format {version.decode(errors='replace')}, format {_VERSION} is read; "
                "build it again from its ARPA file: build_binary model.arpa model.bin"
            )
        end = _SANITY_BYTES + _PARAMETERS.size
        if len(data) < end:
            raise StorageError(f"{path} is cut short within its header")
        order, _, structure, has_words, _ = _PARAMETERS.unpack_from(data, _SANITY_BYTES)
        if not 1 <= order <= _MAX_ORDER or len(data) < end + 8 * order:
            raise StorageError(f"{path} is damaged: its header says order {order}")
        if not has_words:
            raise StorageError(
                f"{path} was built without its words (build_binary -v); build it without -v, or give its ARPA file"
            )
        counts = struct.unpack_from(f"<{order}Q", data, end)
        return counts, _last_words(data, counts[0], path), structure in _QUANTIZED


def _last_words(data: mmap.mmap, n_listed: int, path: Path) -> list[bytes]:
    """The words at the end of a binary file: its 1-grams, and `<unk>` where its ARPA file did not list it."""
    end = len(data) - 1
    for n_words in (n_listed + 1, n_listed):
        # what stands before the first word is any byte, so it is told by its name and the others by the zeros between
        start = end
        for _ in range(n_words - 1):
            start = max(data.rfind(b"\0", 0, start), 0)
        if data[end:] == b"\0" and data[max(start - len(UNK), 0) : start] == UNK.encode():
            return [UNK.encode(), *data[start + 1 : end].split(b"\0")]
    raise StorageError(f"{path} is cut short or damaged: it does not end with its {n_listed} words")


def _decoded(word: bytes, path: Path) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError as error:
        raise StorageError(f"{path} holds a word that is not UTF-8: {word[:40]!r}") from error


def _unescaped(word: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), word)
