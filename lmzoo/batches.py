"""The textbook's batches: sequential partition and random sampling, with a random offset each epoch.

Inputs are the tokens before the targets; the input of a document's first token is `<s>`.  State never crosses a
document: a document long enough is partitioned alone, shorter ones are laid side by side, one a column, and padded at
the end.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import InputError
from lmzoo.vocab import Ids


class ShortTextWarning(UserWarning):
    """A training text is shorter than one batch, or has fewer columns to offer than were asked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """`num_steps` (T) tokens of each of `batch_size` (B) columns.

    `mask_TxB` is False on padding (None: there is none).  `is_fresh`: state starts anew here; otherwise each column
    goes on where the batch before left it.
    """

    inputs_TxB: Ids
    targets_TxB: Ids
    mask_TxB: npt.NDArray[np.bool_] | None
    is_fresh: bool

    @property
    def n_tokens(self) -> int:
        return self.targets_TxB.size if self.mask_TxB is None else int(self.mask_TxB.sum())


def sequential_batches(
    split: Split, *, batch_size: int, num_steps: int, rng: np.random.Generator, spread: float = 0.0
) -> Iterator[Batch]:
    """One epoch of sequential partition: column b of a batch goes on where column b of the batch before ended.

    Each long document starts at a random offset in [0, num_steps) and loses the tail that fills no column.

    Args:
        spread: the steps of each batch are drawn evenly from num_steps (1 - spread) to num_steps (1 + spread).
    """
    _check_sizes(batch_size, num_steps)
    for documents, is_long in _units(split, batch_size, num_steps, rng):
        if is_long:
            yield from _partition(split, int(documents[0]), batch_size, num_steps, rng, spread)
        else:
            yield from _side_by_side(split, documents, num_steps, rng, spread)


def _spans(n_rows: int, num_steps: int, spread: float, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends within so many rows; the last may end beyond them."""
    start = 0
    while start < n_rows:
        n_steps = max(round(num_steps * rng.uniform(1 - spread, 1 + spread)), 1) if spread else num_steps
        yield start, start + n_steps
        start += n_steps


def random_batches(split: Split, *, batch_size: int, num_steps: int, rng: np.random.Generator) -> Iterator[Batch]:
    """One epoch of random sampling: subsequences of num_steps tokens in random order, each with a fresh state.

    Every document is cut from a random offset in [0, num_steps) on; its beginning and its tail make shorter ones.
    """
    _check_sizes(batch_size, num_steps)
    pieces = np.array([p for d in range(len(split)) for p in _pieces(split, d, num_steps, rng)], np.int64)
    # pieces of like length share a batch, so that little is padded; the order of batches is random
    pieces = rng.permutation(pieces)
    pieces = pieces[np.argsort(pieces[:, 1] - pieces[:, 0], kind="stable")]
    groups = np.array_split(pieces, range(batch_size, len(pieces), batch_size))
    for g in rng.permutation(len(groups)):
        yield _padded(split, groups[g], is_fresh=True)


def largest_batch(split: Split, *, batch_size: int, num_steps: int, is_sequential: bool) -> tuple[int, int]:
    """The most columns and steps that a batch of this text has, whatever is drawn."""
    _check_sizes(batch_size, num_steps)
    lengths_D = split.lengths_D[split.lengths_D > 0]
    if is_sequential:
        is_long_D = _are_long(split, batch_size, num_steps)[split.lengths_D > 0]
        shapes = [(batch_size, min(num_steps, int(n) // batch_size)) for n in lengths_D[is_long_D]]
        short_D = lengths_D[~is_long_D]
        n_pieces = len(short_D)
    else:
        shapes, short_D = [], lengths_D
        # one more where the cut begins inside
        n_pieces = int((1 + np.where(lengths_D > num_steps, -(-(lengths_D - 1) // num_steps), 0)).sum())
    if len(short_D):
        shapes.append((min(batch_size, n_pieces), min(num_steps, int(short_D.max()))))
    return max(shapes, key=lambda shape: (shape[0] * shape[1], shape))


def warn_of_short_text(n_tokens: int, *, asked: tuple[int, ...], used: tuple[int, ...]) -> None:
    """One `ShortTextWarning` where a training text does not fill the batches that were asked for.

    Args:
        asked, used: a batch's columns and steps, or how many predictions it has.
    """
    if used[0] >= asked[0] and n_tokens >= int(np.prod(asked)):
        return
    names = "batch_size x num_steps" if len(asked) > 1 else "batch_size"
    wanted, found = (" x ".join(map(str, sizes)) for sizes in (asked, used))
    warnings.warn(
        f"the training text ({n_tokens} token{'s' * (n_tokens != 1)}) does not fill a batch of {wanted} ({names}); "
        f"batches of at most {found} are used",
        ShortTextWarning,
        stacklevel=2,
    )


def one_hot(ids: npt.NDArray[np.integer], n_symbols: int) -> npt.NDArray[np.float32]:
    """Ids of any shape as rows of the identity: float32 of shape (*ids.shape, n_symbols)."""
    rows: npt.NDArray[np.float32] = np.eye(n_symbols, dtype=np.float32)[ids]
    return rows


def _check_sizes(batch_size: int, num_steps: int) -> None:
    for name, value in (("batch_size", batch_size), ("num_steps", num_steps)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")


def _are_long(split: Split, batch_size: int, num_steps: int) -> npt.NDArray[np.bool_]:
    """Which documents are partitioned alone."""
    # one that has no fellow to lie beside is partitioned as soon as its columns have 2 tokens
    return split.lengths_D >= batch_size * (num_steps if len(split) > 1 else 2)


def _units(
    split: Split, batch_size: int, num_steps: int, rng: np.random.Generator
) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
    """Documents that are batched together, in random order, and whether it is one long one; short ones by length."""
    lengths_D, is_long_D = split.lengths_D, _are_long(split, batch_size, num_steps)
    short = rng.permutation(np.flatnonzero(~is_long_D & (lengths_D > 0)))
    short = short[np.argsort(lengths_D[short], kind="stable")]
    units = [(np.array([d]), True) for d in np.flatnonzero(is_long_D)]
    if len(short):
        units += [(part, False) for part in np.array_split(short, range(batch_size, len(short), batch_size))]
    return (units[u] for u in rng.permutation(len(units)))


def _partition(
    split: Split, d: int, batch_size: int, num_steps: int, rng: np.random.Generator, spread: float
) -> Iterator[Batch]:
    ids_L = split.ids_N[split.starts_D1[d] : split.starts_D1[d + 1]]
    n_spare = max(len(ids_L) - batch_size * min(num_steps, len(ids_L) // batch_size), 0)
    offset = int(rng.integers(min(num_steps, n_spare + 1)))
    n_rows = (len(ids_L) - offset) // batch_size
    num_steps = min(num_steps, n_rows)
    inputs_L = np.concatenate(([split.vocab.bos_id], ids_L[:-1])).astype(np.int32)
    span = slice(offset, offset + n_rows * batch_size)
    inputs_MxB = inputs_L[span].reshape(batch_size, n_rows).T
    targets_MxB = ids_L[span].reshape(batch_size, n_rows).T
    for start, end in _spans(n_rows, num_steps, spread, rng):
        # what is left for the last is lost, unless it is all there is
        if end > n_rows and start:
            return
        rows = slice(start, end)
        yield Batch(
            inputs_TxB=np.ascontiguousarray(inputs_MxB[rows]),
            targets_TxB=np.ascontiguousarray(targets_MxB[rows]),
            mask_TxB=None,
            is_fresh=start == 0,
        )


def _side_by_side(
    split: Split, documents: npt.NDArray[np.int64], num_steps: int, rng: np.random.Generator, spread: float
) -> Iterator[Batch]:
    """Whole documents, one a column, the longest cut into chunks that carry the state on."""
    starts, ends = split.starts_D1[documents], split.starts_D1[documents + 1]
    longest = int((ends - starts).max())
    for offset, end in _spans(longest, num_steps, spread, rng):
        spans = np.stack([np.minimum(starts + offset, ends), np.minimum(starts + end, ends)], axis=1)
        yield _padded(split, spans, is_fresh=offset == 0)


def _pieces(split: Split, d: int, num_steps: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    start, end = int(split.starts_D1[d]), int(split.starts_D1[d + 1])
    offset = int(rng.integers(num_steps)) if end - start > num_steps else 0
    cuts = [start, *range(start + offset, end, num_steps), end]
    return ((a, b) for a, b in itertools.pairwise(cuts) if b > a)


def _padded(split: Split, spans_Bx2: npt.NDArray[np.int64], *, is_fresh: bool) -> Batch:
    """Spans of token positions as the columns of one batch."""
    lengths_B = spans_Bx2[:, 1] - spans_Bx2[:, 0]
    steps_T = np.arange(int(lengths_B.max()))
    mask_TxB = steps_T[:, None] < lengths_B[None, :]
    positions_TxB = np.where(mask_TxB, spans_Bx2[:, 0][None, :] + steps_T[:, None], 0)
    # starts are sorted: looking each up costs nothing, a set of them all would be made anew for every batch
    first_B = split.starts_D1[np.searchsorted(split.starts_D1, spans_Bx2[:, 0])] == spans_Bx2[:, 0]
    inputs_TxB = split.ids_N[np.maximum(positions_TxB - 1, 0)]
    inputs_TxB[0, first_B] = split.vocab.bos_id
    targets_TxB = np.where(mask_TxB, split.ids_N[positions_TxB], 0).astype(np.int32)
    return Batch(
        inputs_TxB=np.where(mask_TxB, inputs_TxB, 0).astype(np.int32),
        targets_TxB=targets_TxB,
        mask_TxB=None if mask_TxB.all() else mask_TxB,
        is_fresh=is_fresh,
    )
