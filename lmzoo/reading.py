"""Reading text: files and bytes in, text with LF line ends out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lmzoo.errors import InputError, TextError, UndecodableTextError

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
    # whole lines are given as soon as they are there: who writes them may wait for an answer
    for chunk in itertools.chain([b""], chunks):
        waiting += chunk
        end = _end_of_lines(waiting) or (_end_of_characters(waiting) if chunk else 0)
        if end:
            yield _decoded(waiting[:end], offset, source)
        offset += end
        waiting = waiting[end:]
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
    """How many bytes of a text that goes on are whole lines."""
    # a CR at the very end may be the first half of a line end
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(len(data) - 1, 0))) + 1


def _end_of_characters(data: bytes) -> int:
    """How many bytes of a text that goes on are whole characters before the last one, which may be cut off."""
    last = max(len(data) - 1, 0)
    # UTF-8 goes on in at most three bytes 10xxxxxx
    while last > max(len(data) - 4, 0) and data[last] & 0xC0 == 0x80:
        last -= 1
    return last


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
