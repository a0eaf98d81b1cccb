"""Reading text: files, standard input and bytes in, packed or not; text with LF line ends out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lmzoo.archives import unpacked
from lmzoo.decoding import Decoding
from lmzoo.errors import InputError
from lmzoo.inputs import File, Name, chunks_of, file_of, files_of

# decoded at once: more would not stay in the processor's cache
BLOCK_BYTES = 1 << 18


def read_text(name: Name | File, decoding: Decoding | None = None) -> str:
    """The text of a file, or of standard input for `-`: one BOM dropped, CRLF and CR turned into LF, all else kept.

    A file packed by gzip, xz, zstd or bzip2 is unpacked.  `decoding` says what its bytes are (None: UTF-8, and any
    other byte is an error).  Raises `TextError` for what cannot be opened, unpacked or decoded.
    """
    return "".join(_texts(file_of(name), decoding, BLOCK_BYTES))


def read_texts(names: Name | Sequence[Name], decoding: Decoding | None = None) -> Iterator[str]:
    """The texts of all files that names stand for, see `inputs.files_of`, one after the other."""
    return (read_text(file, decoding) for file in files_of(names))


def text_blocks(name: Name | File, decoding: Decoding | None = None, block_bytes: int = BLOCK_BYTES) -> Iterator[str]:
    """The text of a file or of standard input, as `read_text` gives it, in pieces of about `block_bytes` bytes.

    A piece ends after a line end; only the last piece, and one of a line longer than a block, may not.  At most a few
    blocks are in memory at a time.  Raises as `read_text` does, after the pieces before the fault.
    """
    if block_bytes < 1:
        raise InputError(f"a block has at least 1 byte, got {block_bytes}")
    return _by_lines(_texts(file_of(name), decoding, block_bytes))


def decode_blocks(chunks: Iterator[bytes], source: str) -> Iterator[str]:
    """The same of UTF-8 bytes in chunks, however cut, that are not packed; `source` names them in errors."""
    return _by_lines(Decoding().texts(chunks, source))


def decode_bytes(data: bytes, source: str) -> str:
    """The text of UTF-8 bytes; see `read_text`.  `source` names them in errors."""
    return "".join(Decoding().texts(iter([data]), source))


def _texts(file: File, decoding: Decoding | None, block_bytes: int) -> Iterator[str]:
    data, is_packed = unpacked(chunks_of(file, block_bytes), str(file))
    within = " of what is packed in it" if is_packed else ""
    yield from (decoding or Decoding()).texts(data, str(file), within)


def _by_lines(texts: Iterable[str]) -> Iterator[str]:
    waiting = ""
    for text in texts:
        waiting += text
        end = waiting.rfind("\n") + 1 or len(waiting)
        yield waiting[:end]
        waiting = waiting[end:]
    if waiting:
        yield waiting


def with_line_feeds(text: str) -> str:
    """The text with LF for CRLF and CR."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")
