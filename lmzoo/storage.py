"""Model files: a JSON header and arrays.  No pickle; nothing in a file is executed.

Layout: 8 bytes of magic, the header's length (uint64, little-endian), the header (UTF-8 JSON), each array at a multiple
of 64 bytes, and the sha256 (32 bytes) of everything before it.  The header names format, kind, vocabulary, options, and
where each array lies.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo.errors import CorruptFileError, ForeignFileError, NewerFileError, StorageError
from lmzoo.files import whole_file
from lmzoo.interface import Arrays, LanguageModel, Storable
from lmzoo.registry import MIXTURE, STORED_KINDS, stored_class
from lmzoo.vocab import Vocab

FORMAT = 2
_MAGIC = b"\x89lmzoo\r\n"
_ALIGNMENT = 64
# magic and length stand before the header
_LENGTH = slice(8, 16)
_HEADER_START = 16
_SHA256_BYTES = 32
_DTYPES = ("|u1", "|i1", "|b1", "<u2", "<i2", "<u4", "<i4", "<i8", "<f2", "<f4", "<f8")


def save(model: LanguageModel[Any], path: str | Path) -> Path:
    """Write a model; the file appears whole or not at all.  Raises `StorageError`."""
    path = Path(path)
    data = to_bytes(model)
    with whole_file(path) as file:
        file.write(data)
    return path


def load(path: str | Path) -> LanguageModel[Any]:
    """Read a model.  Raises `ForeignFileError`, `NewerFileError`, `CorruptFileError` or `StorageError`."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return from_bytes(data, str(path))


def to_bytes(model: LanguageModel[Any]) -> bytes:
    """A model as the bytes of its file."""
    if not isinstance(model, Storable) or model.kind not in STORED_KINDS:
        raise StorageError(f"{type(model).__name__} cannot be saved: it is no kind of model that a file can name")
    options, arrays = model.to_parts()
    payload = bytearray()
    table = []
    for name, array in arrays.items():
        payload += bytes(-len(payload) % _ALIGNMENT)
        plain = np.asarray(array).astype(np.asarray(array).dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _DTYPES:
            raise StorageError(f"array {name} of {model.kind} has type {plain.dtype.str}, which no file can hold")
        table.append({"name": name, "dtype": plain.dtype.str, "shape": list(np.shape(array)), "offset": len(payload)})
        payload += plain.tobytes()
    header = {
        "format": FORMAT,
        "kind": model.kind,
        "vocab": model.vocab.to_header(),
        "options": options,
        "arrays": table,
    }
    text = json.dumps(header, ensure_ascii=True, allow_nan=False).encode()
    text += b" " * (-(_HEADER_START + len(text)) % _ALIGNMENT)
    body = b"".join((_MAGIC, len(text).to_bytes(8, "little"), text, payload))
    return body + hashlib.sha256(body).digest()


def from_bytes(data: bytes, source: str) -> LanguageModel[Any]:
    """A model from the bytes of its file; `source` names them in errors."""
    header, end = _header(data, source)
    kind = str(header.get("kind"))
    if stored_class(kind) is None:
        raise NewerFileError(f"{source} holds a model of kind {kind!r}, unknown to this version; upgrade lmzoo")
    payload = _payload(data, end, source)
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


def _header(data: bytes, source: str) -> tuple[dict[str, Any], int]:
    """The header and where it ends; a later version's file must be known as such before its checksum is looked at."""
    if not data.startswith(_MAGIC):
        what = "empty" if not data else "another kind of file"
        if data and _MAGIC.startswith(data):
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


def _cure(data: bytes, source: str) -> str:
    """What to do about a file of another kind."""
    if data[:64].lstrip().startswith(b"\\data\\") or source.endswith((".arpa", ".arpa.gz")):
        return f"it looks like an ARPA file, convert it: python -m lmzoo convert {source} model.lm"
    return "write one with lmzoo.save"


def _payload(data: bytes, start: int, source: str) -> memoryview:
    """What lies between header and checksum.  Raises `CorruptFileError` where any byte before the checksum changed."""
    view = memoryview(data)
    end = len(data) - _SHA256_BYTES
    if hashlib.sha256(view[:end]).digest() != view[end:]:
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
