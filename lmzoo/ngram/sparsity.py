"""Storage and sparsity: what n-grams cost, and how many of those to come were never counted.

The argument against long n-grams (Zhang et al., Dive into Deep Learning, section 9.3): there are V to the power of n of
them, few are ever seen, most of these once, and each has to be stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import InputError, VocabularyMismatchError, require_kind
from lmzoo.interface import LanguageModel, require_model
from lmzoo.ngram.counts import ABSENT, count_ngrams, find_ngrams, stream_of
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.questions import NgramCounts
from lmzoo.ngram.trie import Values

Sizes = npt.NDArray[np.int64]

# larger numbers of possible n-grams are shown by their size
_MOST_SHOWN = 9_999_999
_PERCENT = 100


@dataclass(frozen=True, kw_only=True)
class OrderSparsity:
    """The n-grams of one order: how many there are and could be, and how many of another text's are new.

    `n_possible`: a predictable symbol at each place; the first may be `<s>` as well.  `n_once`: seen a single time.
    Of the test text, *tokens* are occurrences, each n-gram as often as it stands there; *types* are different n-grams.
    `n_bytes`: of this order in the model's file; None where there is no model.
    """

    order: int
    n_seen: int
    n_possible: int
    n_once: int
    n_test_tokens: int
    n_new_test_tokens: int
    n_test_types: int
    n_new_test_types: int
    n_bytes: int | None

    @property
    def seen_share(self) -> float:
        """Of the n-grams possible, 0 to 1."""
        return self.n_seen / self.n_possible

    @property
    def once_share(self) -> float | None:
        """Of the n-grams seen; None where there are none."""
        return _share(self.n_once, self.n_seen)

    @property
    def new_token_share(self) -> float | None:
        """Of the test text's n-grams, those never seen in training; None where it has none."""
        return _share(self.n_new_test_tokens, self.n_test_tokens)

    @property
    def new_type_share(self) -> float | None:
        """Of the test text's different n-grams, those never seen in training; None where it has none."""
        return _share(self.n_new_test_types, self.n_test_types)

    @property
    def possible_text(self) -> str:
        """`n_possible` as people write it: exact up to seven digits, else as 1.0e20."""
        if self.n_possible <= _MOST_SHOWN:
            return str(self.n_possible)
        return f"{self.n_possible:.1e}".replace("e+", "e")


class SparsityTable(tuple[OrderSparsity, ...]):
    """A record for each order; as a string a table for people, shares in percent."""

    __slots__ = ()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("order", "seen", "possible", "seen %", "once %", "test new %", "types new %", "bytes")
        ]
        rows += [
            (
                str(row.order),
                str(row.n_seen),
                row.possible_text,
                f"{_PERCENT * row.seen_share:.4g}",
                *map(_percent, (row.once_share, row.new_token_share, row.new_type_share)),
                "n/a" if row.n_bytes is None else str(row.n_bytes),
            )
            for row in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def sparsity(counts: NgramCounts, test: Split, model: LanguageModel[Any] | None = None) -> SparsityTable:
    """How sparse the counts of a training text are, order by order, seen from a test text.

    Test tokens are taken as a model sees them: one that the vocabulary lacks is `<unk>`.

    Args:
        model: a counting model, for its bytes; of the orders that it has.

    Raises:
        InputError: the model is none of n-grams.
        VocabularyMismatchError: counts, test text and model do not share their vocabulary.
    """
    require_kind(counts, NgramCounts, "counts", "NgramCounts of a training text")
    require_kind(test, Split, "test", "a part of a corpus, such as corpus.test")
    if model is not None:
        require_model(model)
    _require_one_vocabulary(counts, test, model)
    n_bytes = [] if model is None else bytes_by_order(model)
    n_symbols = counts.vocab.n_predictable
    found = find_ngrams(test, counts.levels)
    _, place_N = stream_of(test)
    rows = []
    for order, (level, nodes_N, test_level) in enumerate(
        zip(counts.levels, found, count_ngrams(test, counts.order), strict=True), start=1
    ):
        # what ends nearer to the start of its document is no n-gram of this order
        nodes_M = nodes_N[place_N >= max(order - 1, 1)]
        seen_M = nodes_M[nodes_M != ABSENT]
        counts_G = level.counts_G[:]
        seen_M = seen_M[counts_G[seen_M] > 0]
        n_types = int(np.count_nonzero(test_level.counts_G[:]))
        rows.append(
            OrderSparsity(
                order=order,
                n_seen=int(np.count_nonzero(counts_G)),
                n_possible=n_symbols if order == 1 else (n_symbols + 1) * n_symbols ** (order - 1),
                n_once=int(np.count_nonzero(counts_G == 1)),
                n_test_tokens=len(nodes_M),
                n_new_test_tokens=len(nodes_M) - len(seen_M),
                n_test_types=n_types,
                n_new_test_types=n_types - len(np.unique(seen_M)),
                n_bytes=n_bytes[order - 1] if order <= len(n_bytes) else None,
            )
        )
    return SparsityTable(rows)


def bytes_by_order(model: LanguageModel[Any]) -> list[int]:
    """The bytes of each order in a counting model's file, its header left out; what orders share goes by n-grams.

    Raises `InputError` for a model that is none of n-grams.
    """
    if not isinstance(model, NgramModel):
        raise InputError(f"a model of n-grams has bytes for each order, got a {type(model).__name__}")
    trie = model.trie.compact()
    n_ngrams = np.diff(trie.bounds)
    # no n-gram of the highest order is a history, and single symbols have starts of their own
    n_histories = np.append(n_ngrams[:-1], 0)
    n_longer = np.append(0, n_histories[1:])
    starts = trie.starts
    n_bytes = _spread((trie.tokens_G,), n_ngrams)
    n_bytes += _spread_values(trie.logp, n_ngrams) + _spread_values(trie.backoff, n_histories)
    n_bytes += _spread((starts.bases_B, starts.within_H1), n_longer)
    n_bytes[0] += starts.first_V1.nbytes
    return [int(n) for n in n_bytes]


def _spread_values(values: Values, n_entries: Sizes) -> Sizes:
    """The bytes of numbers over orders; of a book with a row for each order, each has its own."""
    n_rows = len(values.book_OxC)
    n_read = n_entries if n_rows == 1 else np.arange(len(n_entries)) < n_rows
    return _spread((values.plain_G, values.codes_G), n_entries) + _spread((values.book_OxC,), n_read)


def _spread(arrays: Iterable[npt.NDArray[Any]], n_entries: npt.NDArray[Any]) -> Sizes:
    """The bytes of arrays over orders in proportion to their entries; all at the first where no order has any."""
    total = sum(array.nbytes for array in arrays)
    ends = np.cumsum(n_entries)
    if not ends[-1]:
        ends = np.ones_like(ends)
    return np.diff([total * int(end) // int(ends[-1]) for end in ends], prepend=0)


def _require_one_vocabulary(counts: NgramCounts, test: Split, model: LanguageModel[Any] | None) -> None:
    others = {"the test text": test.vocab} | ({} if model is None else {"the model": model.vocab})
    for what, vocab in others.items():
        if vocab.fingerprint != counts.vocab.fingerprint:
            raise VocabularyMismatchError(
                f"{what} has vocabulary {vocab.fingerprint}, the counts have {counts.vocab.fingerprint}; "
                "take all from one corpus"
            )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{_PERCENT * share:.1f}"
