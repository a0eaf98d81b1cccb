"""What people ask of the counts themselves: how often, after what, before what, and with which discounts."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.errors import InputError, TokenError, did_you_mean, require_kind
from lmzoo.ngram import counts as counting
from lmzoo.ngram.config import MAX_ORDER
from lmzoo.ngram.counts import ABSENT, Counts, Level
from lmzoo.ngram.discounts import ESTIMATES, Discounts
from lmzoo.normalizers import named_normalizer
from lmzoo.vocab import Vocab

# a text, which the vocabulary cuts into tokens, or the ids of tokens
Ngram = str | Sequence[int] | npt.NDArray[np.integer[Any]]
Ids = npt.NDArray[np.int64]


class Following(NamedTuple):
    """A symbol that follows some history, and how often it does."""

    token: str
    n_times: int


class NgramCounts:
    """The n-grams of a text, of orders 1 to `order`, and the answers that can be read off them.

    An n-gram is given as a text (`"of the"` has two words, or six characters) or as ids.  Only ids can name the start
    of a document (`vocab.bos_id`, as the first of them) or its end.  Raises `InputError` for a token that the
    vocabulary does not have, and for more tokens than were counted together; `TokenError` for bad ids.

    Args:
        split: a part of a corpus, usually `corpus.train`.
        order: the most tokens counted together, 1 to 32.
    """

    def __init__(self, split: Split, order: int = 5) -> None:
        self.order = _whole_number("order", order, most=MAX_ORDER)
        self.split = _checked_split(split)
        self.levels: Sequence[Level] = counting.count_ngrams(self.split, self.order)

    @property
    def vocab(self) -> Vocab:
        return self.split.vocab

    def count(self, ngram: Ngram) -> int:
        """How often an n-gram occurs; 0 for `<s>` alone, which is context and never predicted."""
        ids_K = self._ids(ngram, least=1, most=self.order)
        node = self._find(ids_K)
        return 0 if node == ABSENT else int(self.levels[len(ids_K) - 1].counts_G[:][node])

    def continuation_count(self, ngram: Ngram) -> int:
        """Before how many different tokens an n-gram occurs, the start of a document being one (Kneser & Ney 1995).

        0 after `<s>`, which nothing precedes.  An n-gram of the highest order counted has none to be read off: count
        one order more.
        """
        ids_K = self._ids(ngram, least=1, most=self.order - 1)
        node = self._find(ids_K)
        if node == ABSENT or ids_K[0] == self.vocab.bos_id:
            return 0
        return int(self._adjusted[len(ids_K) - 1][node])

    def following(self, history: Ngram = "", k: int | None = 10) -> list[Following]:
        """The k tokens that follow a history most often (None: all that do), the most frequent first."""
        ids_K = self._ids(history, least=0, most=self.order - 1)
        limit = None if k is None else _whole_number("k", k)
        node = self._find(ids_K) if len(ids_K) else 0
        if node == ABSENT:
            return []
        level = self.levels[len(ids_K)]
        n_symbols = len(self.vocab)
        start, end = np.searchsorted(level.keys_G, [node * n_symbols, (node + 1) * n_symbols])
        # order 1 has a place for symbols that were never seen, too
        counts_G = level.counts_G[:]
        here_F = start + np.flatnonzero(counts_G[start:end])
        best_F = here_F[np.argsort(-counts_G[here_F], kind="stable")][:limit]
        return [Following(self.vocab.tokens[level.keys_G[g] % n_symbols], int(counts_G[g])) for g in best_F]

    def counts_of_counts(self, *, continuation: bool = False) -> list[list[int]]:
        """For each order how many n-grams have count 1, 2, 3 and 4.

        Args:
            continuation: of the counts that Kneser-Ney takes: plain ones at the highest order and after `<s>`, below
                it continuation counts.
        """
        return [counting.counts_of_counts(counts_G) for counts_G in self._counts(continuation)]

    def discounts(self, smoothing: str = "mkn") -> list[Discounts]:
        """For each order what a smoothing takes off each count, with the `reason` where it cannot be estimated.

        Args:
            smoothing: mkn, kn, ad or katz.  As interpolated models take them, not tuned.
        """
        require_kind(smoothing, str, "smoothing", f"one of {', '.join(ESTIMATES)}")
        if smoothing not in ESTIMATES:
            raise InputError(
                f"no discounts belong to smoothing {smoothing!r}.{did_you_mean(smoothing, ESTIMATES)} "
                f"They belong to: {', '.join(ESTIMATES)}"
            )
        return [ESTIMATES[smoothing](counts_G) for counts_G in self._counts(smoothing in ("mkn", "kn"))]

    def _counts(self, continuation: bool) -> list[Counts]:
        return self._adjusted if continuation else [level.counts_G[:] for level in self.levels]

    @cached_property
    def _adjusted(self) -> list[Counts]:
        return counting.continuation_counts(self.levels)

    def _find(self, ids_K: Ids) -> int:
        """The id of an n-gram among those of its order, or `ABSENT`."""
        # as the end of a document, wherever it stands in the text
        probe = dataclasses.replace(self.split, ids_N=ids_K.astype(np.int32), starts_D1=np.array([0, len(ids_K)]))
        return int(counting.find_ngrams(probe, self.levels[: len(ids_K)])[-1][-1])

    def _ids(self, ngram: Ngram, *, least: int, most: int) -> Ids:
        ids_K = self._ids_of_text(ngram) if isinstance(ngram, str) else self._checked_ids(ngram)
        if len(ids_K) < least:
            raise InputError(f"an n-gram has at least one token, got none in {ngram!r}")
        if len(ids_K) > most:
            raise InputError(
                f"{len(ids_K)} tokens are asked about, and with order={self.order} at most {most} can be; "
                f"count with order={len(ids_K) + self.order - most}"
            )
        return ids_K

    def _ids_of_text(self, text: str) -> Ids:
        vocab = self.vocab
        normalized = named_normalizer(vocab.normalizer).apply(text)
        ids_K, unknown_M = vocab.encode_normalized(normalized)
        if len(unknown_M):
            token = vocab.cutter.split(normalized)[unknown_M[0]]
            kept = f" at least {vocab.min_freq} times" if vocab.min_freq > 1 else ""
            raise InputError(
                f"{token!r} does not occur in the training text{kept}.{did_you_mean(token, vocab.token_to_id)}"
                f" Unknown tokens count as one, id {vocab.unk_id}"
            )
        return ids_K.astype(np.int64)

    def _checked_ids(self, ngram: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ids:
        try:
            ids_K = np.array([operator.index(i) for i in ngram], np.int64)
        except (TypeError, OverflowError) as error:
            raise TokenError(f"an n-gram is a text or a sequence of ids, got {ngram!r:.80}") from error
        self.vocab.checked(ids_K[None, :])
        return ids_K


def _checked_split(split: Any) -> Split:
    if not isinstance(split, Split):
        got = type(split).__name__
        raise InputError(f"n-grams are counted in a part of a corpus such as corpus.train, got a {got}")
    return split


def _whole_number(name: str, value: int, *, most: int | None = None) -> int:
    """The value, if it is a whole number of at least 1 and at most `most`.  Raises `InputError`."""
    wanted = "at least 1" if most is None else f"1 to {most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, {wanted}, got {value!r:.80}")
    if value < 1 or (most is not None and value > most):
        raise InputError(f"{name} must be {wanted}, got {value}")
    return int(value)
