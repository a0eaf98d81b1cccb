"""Files of a JSON header and arrays.  No pickle; nothing in a file is executed.

Layout: 8 bytes of magic, the header's length (uint64, little-endian), the header (UTF-8 JSON), each array at a multiple
of 64 bytes, and the sha256 (32 bytes) of everything before it.  The header names the format, and where each array lies;
the rest of it belongs to whoever writes the file.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import CorruptFileError, ForeignFileError, NewerFileError, StorageError
from lmzoo.files import release_pages

Data = bytes | mmap.mmap

_ALIGNMENT = 64
MAGIC_BYTES = 8
# magic and length stand before the header
_LENGTH = slice(8, 16)
_HEADER_START = 16
_SHA256_BYTES = 32
_PIECE_BYTES = 1 << 24
_DTYPES = ("|u1", "|i1", "|b1", "<u2", "<i2", "<u4", "<i4", "<i8", "<f2", "<f4", "<f8")


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file.

    Attributes:
        magic: its first 8 bytes.
        format: the format that is written and read.
        title: what such a file is, in a sentence.
        remedy: what to do about a file of a format that is no longer read.
    """

    magic: bytes
    format: int
    title: str
    remedy: str


MODEL = FileKind(magic=b"\x89lmzoo\r\n", format=3, title="a model file of lmzoo", remedy="train the model again")
CHECKPOINT = FileKind(magic=b"\x89lmckp\r\n", format=1, title="a checkpoint of lmzoo", remedy="start the training anew")


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """The header of a file, and where it ends in `data`."""

    header: Mapping[str, Any]
    data: Data
    end: int
    source: str


def pieces(
    kind: FileKind, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], what: str
) -> Iterator[bytes | memoryview]:
    """The bytes of a file, array by array.  `what` is told in errors.

    Raises `StorageError` at once, not at the first piece, for an array of a type that no file can hold.
    """
    plain = {name: _little_endian(array) for name, array in arrays.items()}
    table = []
    offset = 0
    for name, array in plain.items():
        if array.dtype.str not in _DTYPES:
            raise StorageError(f"array {name} of {what} has type {array.dtype.str}, which no file can hold")
        offset += -offset % _ALIGNMENT
        table.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": offset})
        offset += array.nbytes
    whole = {"format": kind.format, **header, "arrays": table, "bytes": offset}
    text = json.dumps(whole, ensure_ascii=True, allow_nan=False).encode()
    text += b" " * (-(_HEADER_START + len(text)) % _ALIGNMENT)
    return _with_checksum([kind.magic, len(text).to_bytes(8, "little"), text], list(plain.values()))


def read_head(data: Data, source: str, kind: FileKind, *, cure: str) -> Head:
    """The header of a file; a later version's must be known as such before its checksum is looked at.

    Args:
        source: names the file in errors.
        cure: what to do about a file of another kind.

    Raises `ForeignFileError`, `NewerFileError`, `CorruptFileError` or, for an earlier format, `StorageError`.
    """
    magic = data[:MAGIC_BYTES]
    if magic != kind.magic:
        what = "another kind of file" if magic else "empty"
        if magic and kind.magic.startswith(magic):
            raise CorruptFileError(f"{source} is cut short: it ends within its first {MAGIC_BYTES} bytes")
        raise ForeignFileError(f"{source} is not {kind.title} ({what}); {cure}")
    end = _HEADER_START + int.from_bytes(data[_LENGTH], "little")
    if len(data) < end:
        raise CorruptFileError(f"{source} is cut short or damaged: {len(data)} bytes, its header ends at {end}")
    try:
        header = json.loads(data[_HEADER_START:end])
        found = header["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{source} is damaged: its header cannot be read") from error
    if not isinstance(found, int) or found > kind.format:
        raise NewerFileError(f"{source} has format {found}, this version reads format {kind.format}; upgrade lmzoo")
    if found < kind.format:
        raise StorageError(f"{source} has format {found}, which is no longer read ({kind.format} is); {kind.remedy}")
    return Head(header=header, data=data, end=end, source=source)


def read_arrays(head: Head, *, verify: bool = True) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, which lie in its data.

    Args:
        verify: compare the checksum first, which reads the whole file.

    Raises `CorruptFileError`, and `LookupError`, `TypeError` or `ValueError` where the header's table is no table.
    """
    view = memoryview(head.data)
    end = len(view) - _SHA256_BYTES
    if verify and hashlib.sha256(view[:end]).digest() != view[end:]:
        raise CorruptFileError(f"{head.source} is damaged or cut short: its checksum does not match")
    payload = view[head.end : end]
    if payload.nbytes != head.header.get("bytes"):
        raise CorruptFileError(f"{head.source} is damaged or cut short: its arrays take {payload.nbytes} bytes")
    return {entry["name"]: _array(entry, payload) for entry in head.header["arrays"]}


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # the scalar's shape has to survive, so not by ascontiguousarray alone
    plain = np.asarray(array)
    return np.require(plain.astype(plain.dtype.newbyteorder("<"), copy=False), requirements="C")


def _with_checksum(head: list[bytes], arrays: list[npt.NDArray[Any]]) -> Iterator[bytes | memoryview]:
    digest = hashlib.sha256()
    offset = 0
    for start in head:
        digest.update(start)
        yield start
    for array in arrays:
        data: memoryview[int] = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        parts: list[bytes | memoryview] = [bytes(-offset % _ALIGNMENT)]
        parts += (data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))
        for part in parts:
            digest.update(part)
            yield part
            offset += len(part)
            release_pages(array)
    yield digest.digest()


def _array(entry: Mapping[str, Any], payload: memoryview) -> npt.NDArray[Any]:
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"array of type {entry['dtype']!r}")
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"array of shape {shape}")
    count = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer(payload, dtype, count, entry["offset"]) if count else np.zeros(0, dtype)
    return array.reshape(shape)
