"""Documents that are ids already, cut by a tokenizer of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import TokenError, require_kind
from lmzoo.vocab import Vocab


def split_from_ids(documents: Iterable[npt.NDArray[np.integer[Any]]], vocab: Vocab, *, name: str = "ids") -> Split:
    """A split of documents that are ids already, by a tokenizer of one's own; `</s>` included where it is predicted.

    Its bits per character are unknown.  Raises `TokenError` for what is no 1-D array of ids that can be predicted.
    """
    require_kind(vocab, Vocab, "vocab", "a Vocab, such as model.vocab")
    require_kind(documents, Iterable, "documents", "arrays of ids, one of each document")
    held = []
    for number, ids_L in enumerate(documents, start=1):
        if not isinstance(ids_L, np.ndarray) or ids_L.ndim != 1:
            got = f"shape {ids_L.shape}" if isinstance(ids_L, np.ndarray) else type(ids_L).__name__
            raise TokenError(f"document {number} is a 1-D array of ids, got {got}")
        if (ids_L == vocab.bos_id).any():
            raise TokenError(f"document {number} has id {vocab.bos_id}, <s>; every document is scored after one anyway")
        held.append(vocab.checked(ids_L[None, :])[0].astype(np.int32))
    starts_D1 = np.concatenate(([0], np.cumsum([len(ids_L) for ids_L in held], dtype=np.int64)))
    none_D = np.zeros(len(held), np.int64)
    return Split(
        name=name,
        vocab=vocab,
        documents="file" if vocab.eos_id is None else "line",
        segments=("",) * len(held),
        ids_N=np.concatenate([np.zeros(0, np.int32), *held]),
        starts_D1=starts_D1,
        chars_D=none_D,
        bytes_D=none_D,
        oov_M=np.zeros(0, np.int64),
        spelling_nats_M=np.zeros(0),
        ends_nats_D=np.zeros(len(held)),
        lossless=False,
    )
