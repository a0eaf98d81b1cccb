"""Model files: one kind of `container.py`'s, with the model's kind, vocabulary and options in the header.

A file is mapped, not read: the arrays of a model lie in it, shared by all who loaded it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmzoo import container
from lmzoo.container import Data
from lmzoo.errors import CorruptFileError, NewerFileError, StorageError, require_path
from lmzoo.files import whole_file
from lmzoo.interface import Arrays, LanguageModel, Storable
from lmzoo.registry import MIXTURE, stored_class, stored_path
from lmzoo.vocab import Vocab

FORMAT = container.MODEL.format
# mapping a smaller file earns nothing
_LEAST_MAPPED = 1 << 20


def save(model: LanguageModel[Any], path: str | Path) -> Path:
    """Write a model; the file appears whole or not at all.  Raises `StorageError`."""
    require_path(path)
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
    require_path(path)
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
            return file.read(container.MAGIC_BYTES) == container.MODEL.magic
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def to_bytes(model: LanguageModel[Any]) -> bytes:
    """A model as the bytes of its file."""
    return b"".join(_pieces(model))


def _pieces(model: LanguageModel[Any]) -> Iterator[bytes | memoryview]:
    """The bytes of a model's file, array by array.  Raises `StorageError` at once, not at the first piece."""
    if hasattr(model, "file_bytes"):
        raise StorageError(f"{type(model).__name__} cannot be saved: it stays where it was read from; keep that")
    if not isinstance(model, Storable) or stored_path(model.kind) is None:
        raise StorageError(f"{type(model).__name__} cannot be saved: it is no kind of model that a file can name")
    options, arrays = model.to_parts()
    header = {"kind": model.kind, "vocab": model.vocab.to_header(), "options": options}
    return container.pieces(container.MODEL, header, arrays, model.kind)


def from_bytes(data: Data, source: str, *, verify: bool = True) -> LanguageModel[Any]:
    """A model from the bytes of its file; `source` names them in errors, `verify` is as for `load`."""
    head = container.read_head(data, source, container.MODEL, cure=_cure(data, source))
    header = head.header
    kind = str(header.get("kind"))
    if stored_class(kind) is None:
        raise NewerFileError(
            f"{source} holds a model of kind {kind!r}, unknown to this version; upgrade lmzoo, "
            "or install the package that adds it"
        )
    try:
        arrays = container.read_arrays(head, verify=verify)
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


def _cure(data: Data, source: str) -> str:
    """What to do about a file of another kind."""
    if data[:64].lstrip().startswith(b"\\data\\") or source.endswith((".arpa", ".arpa.gz")):
        return f"it looks like an ARPA file, convert it: python -m lmzoo convert {source} model.lm"
    if data[: container.MAGIC_BYTES] == container.CHECKPOINT.magic:
        return "it is a checkpoint: finish its training with --resume, which writes the model"
    return "write one with: python -m lmzoo train … -o FILE, or lmzoo.save"
