"""Model files: a JSON header and arrays.  No pickle; nothing in a file is executed.

Layout: 8 bytes of magic, the header's length (uint64, little-endian), the header (UTF-8 JSON), each array at a multiple
of 64 bytes, and the sha256 (32 bytes) of everything before it.  The header names format, kind, vocabulary, options, and
where each array lies.  A file is mapped, not read: the arrays of a model lie in it, shared by all who loaded it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo.errors import CorruptFileError, ForeignFileError, NewerFileError, StorageError
from lmzoo.files import release_pages, whole_file
from lmzoo.interface import Arrays, LanguageModel, Storable
from lmzoo.registry import MIXTURE, STORED_KINDS, stored_class
from lmzoo.vocab import Vocab

FORMAT = 3
_MAGIC = b"\x89lmzoo\r\n"
_ALIGNMENT = 64
# magic and length stand before the header
_LENGTH = slice(8, 16)
_HEADER_START = 16
_SHA256_BYTES = 32
_PIECE_BYTES = 1 << 24
# mapping a smaller file earns nothing
_LEAST_MAPPED = 1 << 20
_DTYPES = ("|u1", "|i1", "|b1", "<u2", "<i2", "<u4", "<i4", "<i8", "<f2", "<f4", "<f8")


def save(model: LanguageModel[Any], path: str | Path) -> Path:
    """Write a model; the file appears whole or not at all.  Raises `StorageError`."""
    path = Path(path)
    pieces = _pieces(model)
    with whole_file(path) as file:
        for piece in pieces:
            file.write(piece)
    return path


def load(path: str | Path, *, verify: bool = True) -> LanguageModel[Any]:
    """A model from its file, whose large arrays stay in the file: it must not be overwritten in place meanwhile.

    Args:
        verify: compare the checksum first, which reads the whole file (about a second for 2 GB); without it a file is
            ready in milliseconds whatever its size, and only its header and its length are looked at.

    Raises `ForeignFileError`, `NewerFileError`, `CorruptFileError` or `StorageError`.
    """
    try:
        with Path(path).open("rb") as file:
            is_small = Path(path).stat().st_size < _LEAST_MAPPED
            data = file.read() if is_small else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return from_bytes(data, str(path), verify=verify)


def is_model_file(path: str | Path) -> bool:
    """Whether a file starts as a model file does.  Raises `StorageError` for one that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def to_bytes(model: LanguageModel[Any]) -> bytes:
    """A model as the bytes of its file."""
    return b"".join(_pieces(model))


def _pieces(model: LanguageModel[Any]) -> Iterator[bytes | memoryview]:
    """The bytes of a model's file, array by array.  Raises `StorageError` at once, not at the first piece."""
    if not isinstance(model, Storable) or model.kind not in STORED_KINDS:
        raise StorageError(f"{type(model).__name__} cannot be saved: it is no kind of model that a file can name")
    options, arrays = model.to_parts()
    plain = {name: _little_endian(array) for name, array in arrays.items()}
    table = []
    offset = 0
    for name, array in plain.items():
        if array.dtype.str not in _DTYPES:
            raise StorageError(f"array {name} of {model.kind} has type {array.dtype.str}, which no file can hold")
        offset += -offset % _ALIGNMENT
        table.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": offset})
        offset += array.nbytes
    header = {
        "format": FORMAT,
        "kind": model.kind,
        "vocab": model.vocab.to_header(),
        "options": options,
        "arrays": table,
        "bytes": offset,
    }
    text = json.dumps(header, ensure_ascii=True, allow_nan=False).encode()
    text += b" " * (-(_HEADER_START + len(text)) % _ALIGNMENT)
    return _with_checksum([_MAGIC, len(text).to_bytes(8, "little"), text], list(plain.values()))


def _little_endian(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    # the scalar's shape has to survive, so not by ascontiguousarray alone
    plain = np.asarray(array)
    return np.require(plain.astype(plain.dtype.newbyteorder("<"), copy=False), requirements="C")


def _with_checksum(head: list[bytes], arrays: list[np.ndarray[Any, np.dtype[Any]]]) -> Iterator[bytes | memoryview]:
    digest = hashlib.sha256()
    offset = 0
    for start in head:
        digest.update(start)
        yield start
    for array in arrays:
        data: memoryview[int] = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        pieces: list[bytes | memoryview] = [bytes(-offset % _ALIGNMENT)]
        pieces += (data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))
        for piece in pieces:
            digest.update(piece)
            yield piece
            offset += len(piece)
            release_pages(array)
    yield digest.digest()


def from_bytes(data: bytes | mmap.mmap, source: str, *, verify: bool = True) -> LanguageModel[Any]:
    """A model from the bytes of its file; `source` names them in errors, `verify` is as for `load`."""
    header, end = _header(data, source)
    kind = str(header.get("kind"))
    if stored_class(kind) is None:
        raise NewerFileError(f"{source} holds a model of kind {kind!r}, unknown to this version; upgrade lmzoo")
    payload = _payload(data, end, source, verify=verify)
    if payload.nbytes != header.get("bytes"):
        raise CorruptFileError(f"{source} is damaged or cut short: its arrays take {payload.nbytes} bytes")
    try:
        arrays = {entry["name"]: _array(entry, payload) for entry in header["arrays"]}
        vocab = Vocab.from_header(header["vocab"])
        return _build(kind, vocab, header["options"], arrays)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CorruptFileError(f"{source} is damaged: its header does not describe a model ({error})") from error


def _build(kind: str, vocab: Vocab, options: dict[str, Any], arrays: Arrays) -> LanguageModel[Any]:
    """A model of its parts; a mixture builds its own parts the same way."""
    stored: Any = stored_class(kind)
    if stored is None:
        raise ValueError(f"a part of kind {kind!r}")
    model: LanguageModel[Any] = (
        stored.from_parts(vocab, options, arrays, _build)
        if kind == MIXTURE
        else stored.from_parts(vocab, options, arrays)
    )
    return model


def _header(data: bytes | mmap.mmap, source: str) -> tuple[dict[str, Any], int]:
    """The header and where it ends; a later version's file must be known as such before its checksum is looked at."""
    magic = data[: len(_MAGIC)]
    if magic != _MAGIC:
        what = "another kind of file" if magic else "empty"
        if magic and _MAGIC.startswith(magic):
            raise CorruptFileError(f"{source} is cut short: it ends within its first {len(_MAGIC)} bytes")
        raise ForeignFileError(f"{source} is not a model file of lmzoo ({what}); {_cure(data, source)}")
    end = _HEADER_START + int.from_bytes(data[_LENGTH], "little")
    if len(data) < end:
        raise CorruptFileError(f"{source} is cut short or damaged: {len(data)} bytes, its header ends at {end}")
    try:
        header = json.loads(data[_HEADER_START:end])
        found = header["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{source} is damaged: its header cannot be read") from error
    if not isinstance(found, int) or found > FORMAT:
        raise NewerFileError(f"{source} has format {found}, this version reads format {FORMAT}; upgrade lmzoo")
    if found < FORMAT:
        raise StorageError(f"{source} has format {found}, which is no longer read ({FORMAT} is); train the model again")
    return header, end


def _cure(data: bytes | mmap.mmap, source: str) -> str:
    """What to do about a file of another kind."""
    if data[:64].lstrip().startswith(b"\\data\\") or source.endswith((".arpa", ".arpa.gz")):
        return f"it looks like an ARPA file, convert it: python -m lmzoo convert {source} model.lm"
    return "write one with lmzoo.save"


def _payload(data: bytes | mmap.mmap, start: int, source: str, *, verify: bool) -> memoryview:
    """What lies between header and checksum.  Raises `CorruptFileError` where any byte before the checksum changed."""
    view = memoryview(data)
    end = len(view) - _SHA256_BYTES
    if verify and hashlib.sha256(view[:end]).digest() != view[end:]:
        raise CorruptFileError(f"{source} is damaged or cut short: its checksum does not match")
    return view[start:end]


def _array(entry: dict[str, Any], payload: memoryview) -> np.ndarray[Any, np.dtype[Any]]:
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"array of type {entry['dtype']!r}")
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"array of shape {shape}")
    count = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer(payload, dtype, count, entry["offset"]) if count else np.zeros(0, dtype)
    return array.reshape(shape)
