"""Scoring a split with a model: every token exactly once, whatever the batch size and the chunk length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import VocabularyMismatchError, require_kind, require_whole
from lmzoo.interface import LanguageModel, LogProbs, all_logprobs, require_model, sequence_logprobs
from lmzoo.normalizers import named_normalizer
from lmzoo.tally import Tally

Nats = npt.NDArray[np.float64]

# documents and tokens at once, where the model has no `cells_at_once` of its own
_BATCH_SIZE = 256
_CHUNK_LENGTH = 512
# cells of logprobs (B x L x V) held at once when whole distributions are asked for
_MAX_CELLS = 4_000_000
# intervals rest on at least this many blocks; fewer documents are cut into so many pieces
MIN_BLOCKS = 50
PIECES = 100
# more documents than that are joined with their neighbours: a record stays small, and intervals gain nothing
_MAX_BLOCKS = 1000


def evaluate(
    model: LanguageModel[Any],
    split: Split,
    *,
    batch_size: int | None = None,
    chunk_length: int | None = None,
) -> Tally:
    """Score every token of a split once, each document from `initial_state(bos=True)`.

    `batch_size` and `chunk_length` (None: what suits the model) change speed and memory, never the result.
    Raises `VocabularyMismatchError` when model and split do not share their vocabulary.
    """
    nats_N = token_nats(model, split, batch_size=batch_size, chunk_length=chunk_length)
    return tally_of(model, split, nats_N)


def evaluate_blocks(model: LanguageModel[Any], split: Split) -> list[Tally]:
    """The same as one Tally per block (`block_bounds`)."""
    nats_N = token_nats(model, split)
    return [_tally_between(model, split, nats_N, start, end) for start, end in block_bounds(split)]


def document_tallies(model: LanguageModel[Any], split: Split, nats_N: Nats) -> list[Tally]:
    """The Tally of each document from the nats of all tokens (`token_nats`)."""
    bounds = itertools.pairwise(split.starts_D1.tolist())
    is_odd_N = np.isposinf(nats_N)
    is_odd_N[split.oov_M] = True
    # what is unknown, impossible or dropped is counted for itself; documents without any, the most, have one sum
    n_odd_N1 = np.concatenate(([0], np.cumsum(is_odd_N)))
    is_plain_D = (np.diff(n_odd_N1[split.starts_D1]) == 0) & (split.ends_nats_D == 0)
    sizes_D = zip(is_plain_D.tolist(), split.chars_D.tolist(), split.bytes_D.tolist(), strict=True)
    return [
        _plain_tally(model, split, float(nats_N[start:end].sum()), end - start, n_chars, n_bytes)
        if is_plain
        else _tally_between(model, split, nats_N, start, end)
        for (start, end), (is_plain, n_chars, n_bytes) in zip(bounds, sizes_D, strict=True)
    ]


def block_bounds(split: Split) -> list[tuple[int, int]]:
    """Token positions (start, end) of the blocks of a split; the same for every model.

    Blocks are documents, neighbours joined where there are more than 1,000, or pieces of documents where there are
    fewer than 50.
    """
    bounds = split.starts_D1.tolist()
    if len(split) >= MIN_BLOCKS:
        n_blocks = min(len(split), _MAX_BLOCKS)
        bounds = [bounds[k * len(split) // n_blocks] for k in range(n_blocks + 1)]
        return [(a, b) for a, b in itertools.pairwise(bounds) if b > a]
    length = max(-(-split.n_tokens // PIECES), 1)
    cuts = sorted({*bounds, *(i for a, b in itertools.pairwise(bounds) for i in range(a, b, length))})
    return list(itertools.pairwise(cuts))


def token_nats(
    model: LanguageModel[Any],
    split: Split,
    *,
    batch_size: int | None = None,
    chunk_length: int | None = None,
) -> Nats:
    """-ln p of every token of a split given the document so far, float64 of shape (N,), in the split's order."""
    _check_same_vocabulary(model, split)
    for name, value in (("batch_size", batch_size), ("chunk_length", chunk_length)):
        if value is not None:
            require_whole(value, name, 1)
    if batch_size is None and chunk_length is None:
        at_once_N = sequence_logprobs(model, split.ids_N, split.starts_D1)
        if at_once_N is not None:
            return -np.asarray(at_once_N, np.float64)
    nats_N = np.empty(split.n_tokens, np.float64)
    for positions_BxL, mask_BxL, state in _chunks(model, split.starts_D1, batch_size, chunk_length):
        tokens_BxL = np.where(mask_BxL, split.ids_N[positions_BxL], 0)
        logprobs_BxL, state.value = model.logprobs(tokens_BxL, state.value)
        nats_N[positions_BxL[mask_BxL]] = -np.asarray(logprobs_BxL, np.float64)[mask_BxL]
    return nats_N


def each_distribution(
    model: LanguageModel[Any], split: Split, *, max_tokens: int = 10_000
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], LogProbs]]:
    """ln p of every symbol before each of the first `max_tokens` tokens, given the document so far, piece by piece.

    Yields token positions (B, L), which of them are real, and the distributions (B, L, V).  Whoever lets go of a piece
    before asking for the next has a single one in memory.
    """
    _check_same_vocabulary(model, split)
    split = split.head(max_tokens)
    chunk_length = 64
    batch_size = max(_MAX_CELLS // (chunk_length * len(model.vocab)), 1)
    for positions_BxL, mask_BxL, state in _chunks(model, split.starts_D1, batch_size, chunk_length):
        tokens_BxL = np.where(mask_BxL, split.ids_N[positions_BxL], 0)
        yield positions_BxL, mask_BxL, all_logprobs(model, tokens_BxL, state.value)
        _, state.value = model.logprobs(tokens_BxL, state.value)


def top1_accuracy(model: LanguageModel[Any], split: Split, *, max_tokens: int = 10_000) -> float:
    """How often the most probable next token is the right one (0 to 1), over the first `max_tokens` tokens."""
    n_right = n_tokens = 0
    for positions_BxL, mask_BxL, logprobs_BxLxV in each_distribution(model, split, max_tokens=max_tokens):
        is_right_BxL = logprobs_BxLxV.argmax(axis=-1) == split.ids_N[positions_BxL]
        del logprobs_BxLxV
        n_right += int((is_right_BxL & mask_BxL).sum())
        n_tokens += int(mask_BxL.sum())
    return n_right / n_tokens


def tally_of(model: LanguageModel[Any], split: Split, nats_N: Nats) -> Tally:
    """The Tally of a whole split from its tokens' nats."""
    return _tally_between(model, split, nats_N, 0, split.n_tokens)


class _Carried:
    """The state that goes from one chunk of a batch of documents to the next."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _chunks(
    model: LanguageModel[Any], starts_D1: npt.NDArray[np.int64], batch_size: int | None, chunk_length: int | None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], _Carried]]:
    """Documents of like length side by side, padded right (causality makes that exact), in chunks.

    Yields token positions (B, L), which of them are real, and the carried state that the caller replaces.
    """
    lengths_D = np.diff(starts_D1)
    order = np.argsort(-lengths_D, kind="stable")
    if model.is_adaptive:
        order, batch_size = np.arange(len(lengths_D)), 1
    first = 0
    while first < len(order):
        n_rows, n_columns = _shape(model, int(lengths_D[order[first]]), batch_size, chunk_length)
        documents = order[first : first + n_rows]
        first += n_rows
        starts_B, lengths_B = starts_D1[documents], lengths_D[documents]
        state = _Carried(model.initial_state(len(documents), bos=True))
        for offset in range(0, int(lengths_B.max(initial=0)), n_columns):
            steps_L = np.arange(offset, min(offset + n_columns, int(lengths_B.max())))
            mask_BxL = steps_L[None, :] < lengths_B[:, None]
            positions_BxL = np.where(mask_BxL, starts_B[:, None] + steps_L[None, :], 0)
            yield positions_BxL, mask_BxL, state


def _shape(
    model: LanguageModel[Any], longest: int, batch_size: int | None, chunk_length: int | None
) -> tuple[int, int]:
    """How many documents side by side and how many tokens of each at a time; what is given is obeyed."""
    cells = getattr(model, "cells_at_once", None)
    if cells is None:
        return batch_size or _BATCH_SIZE, chunk_length or _CHUNK_LENGTH
    n_rows = batch_size or max(cells // max(longest, 1), 1)
    return n_rows, chunk_length or max(cells // n_rows, 1)


def _check_same_vocabulary(model: LanguageModel[Any], split: Split) -> None:
    require_model(model)
    cure = "; a text becomes one with lmzoo.load_corpus, or as lmzoo.corpus_from_texts({...}).test"
    require_kind(split, Split, "split", f"a part of a corpus, such as corpus.test{cure}")
    if model.vocab.fingerprint != split.vocab.fingerprint:
        raise VocabularyMismatchError(
            f"the model's vocabulary is {model.vocab.fingerprint} ({len(model.vocab)} symbols), the text was encoded "
            f"with {split.vocab.fingerprint} ({len(split.vocab)}); encode it with split.encoded_with(model.vocab)"
        )


def _tally_between(model: LanguageModel[Any], split: Split, nats_N: Nats, start: int, end: int) -> Tally:
    """The Tally of tokens start..end-1; characters and bytes are known only where whole documents are covered."""
    first, last = np.searchsorted(split.starts_D1, [start, end])
    is_whole = bool(split.starts_D1[first] == start and split.starts_D1[last] == end)
    oov = slice(*np.searchsorted(split.oov_M, [start, end]).tolist())
    nats = nats_N[start:end]
    is_oov = np.zeros(end - start, np.bool_)
    is_oov[split.oov_M[oov] - start] = True
    is_zero = np.isposinf(nats)
    spelling_nats = float(split.spelling_nats_M[oov].sum() + split.ends_nats_D[first:last].sum())
    # a vocabulary that was read from an ARPA file cannot spell what it does not know
    is_whole = is_whole and math.isfinite(spelling_nats)
    return Tally(
        nll_nats=float(nats.sum()),
        n_tokens=end - start,
        n_chars=int(split.chars_D[first:last].sum()) if is_whole else 0,
        n_bytes=int(split.bytes_D[first:last].sum()) if is_whole else 0,
        n_oov=int(is_oov.sum()),
        oov_nll_nats=float(nats[is_oov].sum()),
        n_zero=int(is_zero.sum()),
        n_oov_zero=int((is_zero & is_oov).sum()),
        finite_nll_nats=float(nats[~is_oov & ~is_zero].sum()),
        spelling_nats=spelling_nats if math.isfinite(spelling_nats) else 0.0,
        unit=split.vocab.fingerprint,
        chars_known=is_whole and split.lossless,
        bytes_known=is_whole and split.lossless and named_normalizer(split.vocab.normalizer).lossless,
        ends_known=split.ends_known,
        is_normalized=model.is_normalized,
    )


def _plain_tally(
    model: LanguageModel[Any], split: Split, nats: float, n_tokens: int, n_chars: int, n_bytes: int
) -> Tally:
    """The Tally of a document all of whose tokens are known and possible."""
    return Tally(
        nll_nats=nats,
        n_tokens=n_tokens,
        n_chars=n_chars,
        n_bytes=n_bytes,
        finite_nll_nats=nats,
        unit=split.vocab.fingerprint,
        chars_known=split.lossless,
        bytes_known=split.lossless and named_normalizer(split.vocab.normalizer).lossless,
        ends_known=split.ends_known,
        is_normalized=model.is_normalized,
    )
