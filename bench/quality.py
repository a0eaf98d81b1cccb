"""How good a model is, as a record holds it: the sums of a split, what follows from them, and the blocks below them.

Intervals and tests rest on the blocks.  Where a block is a piece of a document, the document's characters and bytes
are apportioned to it by what its tokens' symbols would take when written out.  That is exact where tokens write out
all of the text; in any case the blocks' characters and bytes add up to the text's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.records import Figure, TallyRecord
from lmzoo.coding import coded_bytes
from lmzoo.corpus import Split
from lmzoo.evaluation import MIN_BLOCKS, PIECES, Nats, block_bounds
from lmzoo.markers import unescape_marker
from lmzoo.tally import Tally

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def tally_record(tally: Tally) -> TallyRecord:
    """The sums of a scored split and its figures, each with a reason where it is missing or infinite."""
    impossible = _impossible(tally)
    without = tally.perplexity_reason
    no_oov = "every token is out of vocabulary" if tally.n_oov == tally.n_tokens else impossible
    return TallyRecord(
        nll_nats=Figure.of(tally.nll_nats, tally.code_reason or impossible),
        n_tokens=tally.n_tokens,
        n_chars=tally.n_chars,
        n_bytes=tally.n_bytes,
        n_oov=tally.n_oov,
        n_zero=tally.n_zero,
        perplexity=perplexity_figure(tally),
        perplexity_no_oov=Figure(reason=without) if without else Figure.of(tally.perplexity_no_oov, no_oov),
        bits_per_char=Figure.of(tally.bits_per_char, tally.bits_per_char_reason or impossible),
        bits_per_byte=Figure.of(tally.bits_per_byte, tally.bits_per_byte_reason or impossible),
    )


def perplexity_figure(tally: Tally) -> Figure:
    """The perplexity, infinite with its reason where a token was impossible."""
    if tally.perplexity_reason:
        return Figure(reason=tally.perplexity_reason)
    return Figure.of(tally.perplexity, _impossible(tally))


def blocks_record(split: Split, nats_N: Nats, tally: Tally) -> dict[str, Any]:
    """The fields `block_...` of `Measured` from the nats of all tokens and their Tally.

    Characters and bytes are empty where nothing is divided by them, and the spelling's nats with them.
    """
    bounds_B1 = bounds_of(split)
    is_oov_N = np.zeros(split.n_tokens, np.bool_)
    is_oov_N[split.oov_M] = True
    spelling_N = _ends_nats(split)
    spelling_N[split.oov_M] += split.spelling_nats_M
    has_size = tally.bits_per_char_reason is None or tally.bits_per_byte_reason is None
    return {
        "block_nats": _finite(_sums(nats_N, bounds_B1)),
        **block_sizes(split, tally),
        **text_record(split, tally, piece_nats(split, nats_N + spelling_N)),
        "block_spelling_nats": tuple(_sums(spelling_N, bounds_B1).tolist()) if has_size else (),
        "block_known_nats": _finite(_sums(np.where(is_oov_N, 0.0, nats_N), bounds_B1)),
        "block_known_tokens": tuple(np.diff(bounds_B1 - np.searchsorted(split.oov_M, bounds_B1)).tolist()),
    }


def _ends_nats(split: Split) -> Floats:
    """What telling the white space at the ends of documents costs, spread over their tokens."""
    lengths_D, nats_D = split.lengths_D, split.ends_nats_D
    nats_N = np.repeat(nats_D / np.maximum(lengths_D, 1), lengths_D)
    # of documents without tokens
    nats_N[:1] += nats_D[lengths_D == 0].sum()
    return nats_N


def bounds_of(split: Split) -> Ints:
    """The tokens at which blocks begin, and the number of all tokens."""
    return np.array([0, *(end for _, end in block_bounds(split))], np.int64)


def block_sizes(split: Split, tally: Tally) -> dict[str, tuple[float, ...]]:
    """The tokens of each block, and the characters and bytes of it where something is divided by them."""
    bounds_B1 = bounds_of(split)
    has_chars, has_bytes = tally.bits_per_char_reason is None, tally.bits_per_byte_reason is None
    chars_B1 = characters_before(split, bounds_B1) if has_chars else np.zeros(0)
    bytes_B1 = _places(split, split.bytes_D, len, bounds_B1) if has_bytes else np.zeros(0)
    return {
        "block_tokens": tuple(np.diff(bounds_B1).tolist()),
        "block_chars": tuple(np.diff(chars_B1).tolist()),
        "block_bytes": tuple(np.diff(bytes_B1).tolist()),
    }


def piece_bounds(split: Split) -> Ints | None:
    """The characters at which the pieces of long documents begin, whatever cuts them into tokens, and their number.

    None where there are enough documents, which are the same for every tokenizer.
    """
    if len(split) >= MIN_BLOCKS:
        return None
    ends_D1 = np.concatenate(([0], np.cumsum(split.chars_D)))
    length = max(-(-int(ends_D1[-1]) // PIECES), 1)
    return np.unique(np.concatenate([ends_D1, *(np.arange(a, b, length) for a, b in itertools.pairwise(ends_D1))]))


def text_record(split: Split, tally: Tally, nats_P: Floats) -> dict[str, tuple[float | None, ...]]:
    """The fields `text_...` from the nats, spelling included, of each piece between `piece_bounds`."""
    bounds_P1 = piece_bounds(split)
    if bounds_P1 is None or tally.bits_per_char_reason is not None:
        return {}
    has_bytes = tally.bits_per_byte_reason is None
    return {
        "text_nats": _finite(nats_P),
        "text_chars": tuple(np.diff(bounds_P1).tolist()),
        "text_bytes": tuple(np.diff(bytes_before(split, bounds_P1)).tolist()) if has_bytes else (),
    }


def piece_nats(split: Split, nats_N: Nats) -> Floats:
    """The nats of each piece; none where there are enough documents."""
    bounds_P1 = piece_bounds(split)
    if bounds_P1 is None:
        return np.zeros(0)
    return shared_out(nats_N, characters_before(split, np.arange(split.n_tokens + 1)), bounds_P1)


def shared_out(nats_N: Nats, places_N1: Floats, bounds_P1: Ints) -> Floats:
    """The nats between bounds, from those of tokens between places (characters, both).

    A token that lies across a bound belongs to both sides by its share of characters there; what is impossible makes
    either side so.
    """
    is_finite_N = np.isfinite(nats_N)
    upto_P1, n_impossible_P1 = (
        np.interp(bounds_P1, places_N1, np.concatenate(([0.0], np.cumsum(values_N))))
        for values_N in (np.where(is_finite_N, nats_N, 0.0), ~is_finite_N)
    )
    return np.where(np.diff(n_impossible_P1) > 0, math.inf, np.diff(upto_P1))


def characters_before(split: Split, tokens_B1: Ints) -> Floats:
    """The characters of the normalised text before some tokens; inside of a document they are apportioned."""
    return _places(split, split.chars_D, _n_chars, tokens_B1)


def bytes_before(split: Split, chars_P1: Ints) -> Ints:
    """The bytes of the normalised text before some characters of it, which ascend."""
    text = coded_bytes(split).decode("utf-8", "surrogatepass")
    sizes = [len(text[a:b].encode("utf-8", "surrogatepass")) for a, b in itertools.pairwise(chars_P1.tolist())]
    return np.cumsum([0, *sizes])


def _places(split: Split, sizes_D: Ints, size: Callable[[bytes], int], bounds_B1: Ints) -> Floats:
    """How many characters or bytes stand before some tokens; `size` is what a symbol's bytes take of them."""
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
    return at_B1


def _written_sizes(split: Split, size: Callable[[bytes], int]) -> Floats:
    """What each token takes when written out, with what separates it from the next; an unknown one, their mean."""
    vocab = split.vocab
    cutter = vocab.cutter
    n_between = int(cutter.by_words)
    sizes_V = np.array([size(cutter.spelled(unescape_marker(token))) + n_between for token in vocab.tokens], np.float64)
    if vocab.eos_id is not None:
        # a line end separates words too
        sizes_V[vocab.eos_id] = 1 - n_between
    sizes_N = sizes_V[split.ids_N]
    is_known_N = np.ones(split.n_tokens, np.bool_)
    is_known_N[split.oov_M] = False
    known = sizes_N[is_known_N & (sizes_N > 0)]
    sizes_N[~is_known_N] = known.mean() if len(known) else 1.0
    return sizes_N


def _n_chars(spelled: bytes) -> int:
    """The characters that start among some bytes of UTF-8: all bytes of one but its first are 10xxxxxx."""
    return sum(byte & 0xC0 != 0x80 for byte in spelled)


def _sums(values_N: Floats, bounds_B1: Ints) -> Floats:
    # a sum for each block and not np.add.reduceat, whose plain running sums are less exact
    return np.array([values_N[start:end].sum() for start, end in itertools.pairwise(bounds_B1)])


def _finite(nats_B: Floats) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in nats_B.tolist())


def _impossible(tally: Tally) -> str | None:
    return f"{tally.n_zero} tokens of probability zero" if tally.n_zero else None
