"""Compressed files: known by their first bytes, whatever they are called, and unpacked piece by piece."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from lmzoo.errors import MissingLibraryError, TextError
from lmzoo.inputs import peeked

# what is unpacked at once, however much of it a few bytes stand for
_PIECE_BYTES = 1 << 20
# zstandard's library gives all that it was given the bytes of: up to 128 KiB for each four of them
_ZSTD_BYTES = 1 << 10
_TAR_AT, _TAR = 257, b"ustar"
_LOOKED_AT = _TAR_AT + len(_TAR)


class _Stream(Protocol):
    """One compressed stream of a file, as `lzma` and `bz2` have it."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Gzip:
    """The same of gzip: its length and checksum are looked at."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._has_more = False

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        # all bytes may be taken while some of what they stand for is still to come
        return not self._has_more

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        piece = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self._has_more = len(piece) == max_length
        return piece


class _Zstandard:
    """The same of zstd, of the library `zstandard`."""

    def __init__(self) -> None:
        self._stream = _zstandard().ZstdDecompressor().decompressobj()
        self._waiting = b""

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data) + self._waiting

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        self._waiting += data
        taken, self._waiting = self._waiting[:_ZSTD_BYTES], self._waiting[_ZSTD_BYTES:]
        return bytes(self._stream.decompress(taken))


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingLibraryError(
            "a .zst file needs zstandard, which is not installed: python -m pip install 'lmzoo[compress]'"
        ) from error
    return zstandard


# each library is loaded by whoever reads a file of its kind


def _xz_stream() -> _Stream:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ)


def _bzip2_stream() -> _Stream:
    import bz2

    return bz2.BZ2Decompressor()


def _zstd_stream() -> _Stream:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor()
    return _Zstandard()


@dataclass(frozen=True, kw_only=True)
class _Format:
    name: str
    magic: re.Pattern[bytes]
    stream: Callable[[], _Stream]


_FORMATS = (
    _Format(name="gzip", magic=re.compile(rb"\x1f\x8b\x08"), stream=_Gzip),
    _Format(name="xz", magic=re.compile(rb"\xfd7zXZ\x00"), stream=_xz_stream),
    # the second is a frame to be skipped, which some writers begin with
    _Format(name="zstd", magic=re.compile(rb"\x28\xb5\x2f\xfd|P\x2a\x4d\x18"), stream=_zstd_stream),
    # a text may start with BZh and a digit too, but not with those of pi, or of its root, behind it
    _Format(name="bzip2", magic=re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), stream=_bzip2_stream),
)
_OTHERS = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar"}
_STARTS = (b"\x1f\x8b\x08", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"P\x2a\x4d\x18", b"BZh", *_OTHERS)


def unpacked(chunks: Iterator[bytes], source: str) -> tuple[Iterator[bytes], bool]:
    """The bytes that a file in chunks holds, and whether they had to be unpacked; `source` names it in errors.

    Several streams, one behind the other, are one file.  Raises `TextError`, with the pieces before the fault given,
    for a file that is cut short or damaged; at once for an archive of several files; `MissingLibraryError` for zstd
    where no library reads it.
    """
    head, chunks = peeked(chunks, _needs_more)
    _refuse_others(head, source)
    found = next((f for f in _FORMATS if f.magic.match(head)), None)
    if found is None:
        return chunks, False
    pieces = _pieces(chunks, found, source)
    return _no_tar(pieces, source), True


def _needs_more(head: bytes) -> bool:
    """Whether the first bytes of a file may be those of a packed one.  Those of a text in a pipe are not waited for."""
    return len(head) < _LOOKED_AT and any(start[: len(head)] == head[: len(start)] for start in _STARTS)


def _refuse_others(head: bytes, source: str) -> None:
    kind = next((kind for magic, kind in _OTHERS.items() if head.startswith(magic)), None)
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        kind = "tar"
    if kind is not None:
        raise TextError(f"{source} is a {kind} archive, not a text; unpack it and give the files or their folder")


def _no_tar(pieces: Iterator[bytes], source: str) -> Iterator[bytes]:
    head, pieces = peeked(pieces, lambda head: len(head) < _LOOKED_AT)
    _refuse_others(head, source)
    yield from pieces


def _pieces(chunks: Iterator[bytes], kind: _Format, source: str) -> Iterator[bytes]:
    waiting = b""
    while True:
        stream = kind.stream()
        while not stream.eof:
            if not waiting and stream.needs_input:
                waiting = next(chunks, b"")
                if not waiting:
                    raise TextError(f"{source} is cut short: its {kind.name} data has no end; get the whole file")
            piece = _decompressed(stream, waiting, kind, source)
            waiting = b""
            if piece:
                yield piece
        # zeros may fill up a block of a tape, or four bytes of xz
        waiting = stream.unused_data.lstrip(b"\0")
        while not waiting and (chunk := next(chunks, b"")):
            waiting = chunk.lstrip(b"\0")
        if not waiting:
            return


def _decompressed(stream: _Stream, data: bytes, kind: _Format, source: str) -> bytes:
    try:
        return stream.decompress(data, _PIECE_BYTES)
    # each library has an error of its own, and zstandard's is known only where it is installed
    except Exception as error:
        raise TextError(f"{source} is damaged: its {kind.name} data cannot be unpacked ({error})") from error
