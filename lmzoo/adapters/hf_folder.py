"""A folder of Hugging Face's format: which of its files are read, and the vocabulary that tokenizer and model share.

Only data is read: JSON and safetensors.  Weights as pickles, code and the network are left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError
from lmzoo.files import sha256_of
from lmzoo.markers import BOS, EOS, UNK, escape_marker
from lmzoo.tokenizers import tokenizer_for
from lmzoo.vocab import Vocab

Rows = npt.NDArray[np.int64]

CONFIG, TOKENIZER, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"
_WEIGHTS = "*.safetensors"
_READ = (CONFIG, TOKENIZER, SETTINGS, _WEIGHTS, "*.safetensors.index.json")
# the row of what a model never predicts
NOWHERE = -1


def require_files(folder: Path) -> None:
    """Raise `StorageError` where a file that is needed is missing, with what to do about it."""
    if not folder.is_dir():
        what = "it is a file; name the folder that it is in" if folder.is_file() else "no such folder"
        raise StorageError(f"cannot read {folder}: {what}")
    rewrite = f"Auto{{}}.from_pretrained('{folder.name}').save_pretrained('{folder.name}')"
    if not (folder / CONFIG).is_file():
        raise StorageError(f"{folder} holds no {CONFIG}, so it is no folder of a transformers model")
    if not any(folder.glob(_WEIGHTS)):
        raise StorageError(
            f"{folder} holds no weights as safetensors; a .bin or .pt file is a pickle, which can run code, and is not "
            f"opened.  Where you trust it, rewrite it: transformers.{rewrite.format('ModelForCausalLM')}"
        )
    if not (folder / TOKENIZER).is_file():
        raise StorageError(f"{folder} holds no {TOKENIZER}; write one: transformers.{rewrite.format('Tokenizer')}")


def sha256_of_folder(folder: Path) -> str:
    """One sha256 of all files that are read, by name and content."""
    require_files(folder)
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


def weights_bytes(folder: Path) -> int:
    """The size of the files of weights."""
    return sum(path.stat().st_size for path in folder.glob(_WEIGHTS))


def _files(folder: Path) -> Iterator[Path]:
    return iter(sorted({path for pattern in _READ for path in folder.glob(pattern)}))


def read_json(path: Path) -> dict[str, Any]:
    """A file's JSON object; empty where there is no such file.  Raises `StorageError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged: it holds no JSON object")
    return found


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The vocabulary and where its symbols stand among the rows that the network predicts.

    Attributes:
        rows_V: of each symbol the row of its probability; `NOWHERE` for `<s>`, and for `<unk>` where there is none.
        start_row: what the network reads first, the only token that is added to a text.
    """

    vocab: Vocab
    rows_V: Rows
    start_row: int


def read_symbols(folder: Path, n_rows: int) -> Symbols:
    """The symbols of a folder's tokenizer and of a network that predicts so many rows.

    `</s>` is the end token.  Every other row stays a symbol, special tokens and rows without a token too, so that all
    that the network gives sums to 1: these are named `<special …>` and `<unused …>`, which no text has.

    Raises `StorageError` for a tokenizer with tokens beyond the network's rows, and where no token can start a text.
    """
    pieces, special = _pieces(folder)
    beyond = next((piece for piece, row in pieces.items() if row >= n_rows), None)
    if beyond is not None:
        raise StorageError(
            f"{folder}: the tokenizer has {beyond!r} as number {pieces[beyond]}, the model {n_rows} rows"
        )
    start, end, unknown = _marker_rows(folder, pieces)
    names = dict.fromkeys(range(n_rows), "")
    names |= {row: f"<special {piece}>" if piece in special else escape_marker(piece) for piece, row in pieces.items()}
    taken = {row for row in (unknown, end) if row is not None}
    others = {name or f"<unused {row}>": row for row, name in names.items() if row not in taken}
    reserved = {UNK: NOWHERE if unknown is None else unknown, BOS: NOWHERE}
    if end is not None:
        reserved[EOS] = end
    rows = {**reserved, **others}
    cutter = tokenizer_for(str(folder / TOKENIZER), tuple)
    vocab = Vocab(
        tokens=tuple(rows),
        counts_V=np.zeros(len(rows), np.int64),
        tokenizer=f"{folder.name}/{TOKENIZER}",
        tokenizer_state=cutter.state,
    )
    return Symbols(vocab=vocab, rows_V=np.array(list(rows.values()), np.int64), start_row=start)


def _pieces(folder: Path) -> tuple[dict[str, int], set[str]]:
    """The number of each of the tokenizer's pieces, and which of them are special."""
    import tokenizers

    path = folder / TOKENIZER
    added = read_json(path).get("added_tokens") or []
    try:
        pieces = tokenizers.Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
        return pieces, {token["content"] for token in added if token["special"]}
    except Exception as error:  # the library has no kind of its own for what it cannot read
        raise StorageError(f"{path} is no tokenizer of Hugging Face's library: {error}") from error


def _marker_rows(folder: Path, pieces: Mapping[str, int]) -> tuple[int, int | None, int | None]:
    """The rows of the token that starts a text, of the one that ends it, and of the unknown one.

    A network without a start token of its own starts with its end token, as it was most likely trained.
    """
    settings, config = read_json(folder / SETTINGS), read_json(folder / CONFIG)

    def row_of(name: str) -> int | None:
        named = settings.get(f"{name}_token")
        piece = named.get("content") if isinstance(named, dict) else named
        number = config.get(f"{name}_token_id")
        # where there are several, any of them ends a text
        first = next(iter(number), None) if isinstance(number, list) else number
        return pieces.get(str(piece), first)

    start, end, unknown = row_of("bos"), row_of("eos"), row_of("unk")
    first = end if start is None else start
    if first is None:
        raise StorageError(
            f"{folder} names no token that starts or ends a text, and a network has to read something before it can "
            f"predict; set bos_token in {SETTINGS}"
        )
    return first, end, None if unknown in (start, end) else unknown
