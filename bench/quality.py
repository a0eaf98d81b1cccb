"""How good a model is, as a record holds it: the sums of a split, what follows from them, and the blocks below them.

Intervals and tests rest on the blocks.  Where a block is a piece of a document, the document's characters and bytes
are apportioned to it by what its tokens' symbols would take when written out.  For one-character tokens that is exact;
in any case the blocks' characters and bytes add up to the text's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.records import Figure, TallyRecord
from lmzoo.corpus import Split
from lmzoo.evaluation import Nats, block_bounds
from lmzoo.markers import unescape_marker
from lmzoo.tally import Tally
from lmzoo.tokenizers import TOKENIZERS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def tally_record(tally: Tally) -> TallyRecord:
    """The sums of a scored split and its figures, each with a reason where it is missing or infinite."""
    impossible = _impossible(tally)
    return TallyRecord(
        nll_nats=Figure.of(tally.nll_nats, impossible),
        n_tokens=tally.n_tokens,
        n_chars=tally.n_chars,
        n_bytes=tally.n_bytes,
        n_oov=tally.n_oov,
        n_zero=tally.n_zero,
        perplexity=perplexity_figure(tally),
        perplexity_no_oov=Figure.of(
            tally.perplexity_no_oov, "every token is out of vocabulary" if tally.n_oov == tally.n_tokens else impossible
        ),
        bits_per_char=Figure.of(tally.bits_per_char, tally.bits_per_char_reason or impossible),
        bits_per_byte=Figure.of(tally.bits_per_byte, tally.bits_per_byte_reason or impossible),
    )


def perplexity_figure(tally: Tally) -> Figure:
    """The perplexity, infinite with its reason where a token was impossible."""
    return Figure.of(tally.perplexity, _impossible(tally))


def blocks_record(split: Split, nats_N: Nats, tally: Tally) -> dict[str, Any]:
    """The fields `block_...` of `Measured` from the nats of all tokens and their Tally.

    Characters and bytes are empty where nothing is divided by them, and the spelling's nats with them.
    """
    bounds_B1 = np.array([0, *(end for _, end in block_bounds(split))], np.int64)
    is_oov_N = np.zeros(split.n_tokens, np.bool_)
    is_oov_N[split.oov_M] = True
    spelling_N = np.zeros(split.n_tokens)
    spelling_N[split.oov_M] = split.spelling_nats_M
    has_chars, has_bytes = tally.bits_per_char_reason is None, tally.bits_per_byte_reason is None
    return {
        "block_nats": _finite(_sums(nats_N, bounds_B1)),
        "block_tokens": tuple(np.diff(bounds_B1).tolist()),
        "block_chars": _apportioned(split, split.chars_D, len, bounds_B1) if has_chars else (),
        "block_bytes": _apportioned(split, split.bytes_D, _n_bytes, bounds_B1) if has_bytes else (),
        "block_spelling_nats": tuple(_sums(spelling_N, bounds_B1).tolist()) if has_chars or has_bytes else (),
        "block_known_nats": _finite(_sums(np.where(is_oov_N, 0.0, nats_N), bounds_B1)),
        "block_known_tokens": tuple(np.diff(bounds_B1 - np.searchsorted(split.oov_M, bounds_B1)).tolist()),
    }


def _apportioned(split: Split, sizes_D: Ints, size: Callable[[str], int], bounds_B1: Ints) -> tuple[float, ...]:
    """What each block has of its documents' characters or bytes; `size` is what a written symbol takes of them."""
    written_N1 = np.concatenate(([0.0], np.cumsum(_written_sizes(split, size))))
    before_D1 = np.concatenate(([0], np.cumsum(sizes_D)))
    # the document that each bound lies in or starts; the end of the text starts none
    document_B1 = np.searchsorted(split.starts_D1, bounds_B1, side="right") - 1
    inside_B1 = bounds_B1 > split.starts_D1[document_B1]
    at_B1 = before_D1[document_B1].astype(np.float64)
    cut = document_B1[inside_B1]
    first, end = written_N1[split.starts_D1[cut]], written_N1[split.starts_D1[cut + 1]]
    # nothing but line ends between words takes nothing; whatever takes something takes at least 1
    at_B1[inside_B1] += sizes_D[cut] * ((written_N1[bounds_B1[inside_B1]] - first) / np.maximum(end - first, 1))
    return tuple(np.diff(at_B1).tolist())


def _written_sizes(split: Split, size: Callable[[str], int]) -> Floats:
    """What each token takes when written out, with what separates it from the next; an unknown one, their mean."""
    vocab = split.vocab
    n_between = len(TOKENIZERS[vocab.tokenizer].join(("a", "b"))) - 2
    sizes_V = np.array([size(unescape_marker(token)) + n_between for token in vocab.tokens], np.float64)
    if vocab.eos_id is not None:
        # a line end separates words too
        sizes_V[vocab.eos_id] = 1 - n_between
    sizes_N = sizes_V[split.ids_N]
    is_known_N = np.ones(split.n_tokens, np.bool_)
    is_known_N[split.oov_M] = False
    known = sizes_N[is_known_N & (sizes_N > 0)]
    sizes_N[~is_known_N] = known.mean() if len(known) else 1.0
    return sizes_N


def _n_bytes(text: str) -> int:
    return len(text.encode())


def _sums(values_N: Floats, bounds_B1: Ints) -> Floats:
    # a sum for each block and not np.add.reduceat, whose plain running sums are less exact
    return np.array([values_N[start:end].sum() for start, end in itertools.pairwise(bounds_B1)])


def _finite(nats_B: Floats) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in nats_B.tolist())


def _impossible(tally: Tally) -> str | None:
    return f"{tally.n_zero} tokens of probability zero" if tally.n_zero else None
