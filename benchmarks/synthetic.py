"""Text from a seed that is like language where counting cares: Zipf's and Heaps' laws, documents, habits."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split
from lmzoo.markers import BOS, EOS, UNK
from lmzoo.vocab import Vocab

# Heaps' law: the words at hand after i tokens (Heaps 1978, section 7.5: exponents of 0.4 to 0.6 for English)
_HEAPS_FACTOR = 10.0
_HEAPS_EXPONENT = 0.6
# how often a word is one of the few that like to follow the word before it
_HABIT = 0.6
_N_SUCCESSORS = 4
_MEAN_LENGTH = 20

# <unk>, <s> and </s>
_N_RESERVED = 3
_EOS_ID = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class ZipfText:
    """Ranks of words laid end to end, document d from `starts_D1[d]` to `starts_D1[d + 1]`; rank r is the word w<r>."""

    ranks_N: npt.NDArray[np.int32]
    starts_D1: npt.NDArray[np.int64]

    def lines(self) -> list[str]:
        """The documents as lines of words."""
        words = [f"w{rank}" for rank in self.ranks_N.tolist()]
        bounds = self.starts_D1.tolist()
        return [" ".join(words[start:end]) for start, end in itertools.pairwise(bounds)]


def zipf_text(n_words: int, seed: int) -> ZipfText:
    """So many words, the same for the same seed.

    A word is drawn by Zipf's law from those at hand or, as often as habit has it, from a few successors of the word
    before it, the first twice as often as the second and so on; without that nearly every long n-gram would be new.
    """
    if n_words < 1:
        raise ValueError(f"n_words must be at least 1, got {n_words}")
    rng = np.random.default_rng(seed)
    starts_D1 = _starts(n_words, rng)
    at_hand_N = 1 + _HEAPS_FACTOR * np.arange(1, n_words + 1) ** _HEAPS_EXPONENT
    ranks_N = _zipf(at_hand_N, rng)
    successors_RxS = _zipf(np.repeat(np.arange(1.0, int(at_hand_N[-1]) + 2)[:, None] + 10, _N_SUCCESSORS, axis=1), rng)
    choice_N = np.minimum(rng.geometric(0.5, n_words) - 1, _N_SUCCESSORS - 1).astype(np.int8)
    follows_N = rng.random(n_words, np.float32) < _HABIT
    follows_N[starts_D1[:-1]] = False
    # a word that follows needs the one before it: all second words of habitual runs at once, then all third ones
    at = _followers(np.flatnonzero(~follows_N), follows_N)
    while len(at):
        ranks_N[at] = successors_RxS[ranks_N[at - 1], choice_N[at]]
        at = _followers(at, follows_N)
    return ZipfText(ranks_N=ranks_N, starts_D1=starts_D1)


class EncodedText(NamedTuple):
    """Ids of words and of the end of each document, which starts at `starts_D1`, and how often each symbol occurs."""

    ids_N: npt.NDArray[np.int32]
    starts_D1: npt.NDArray[np.int64]
    counts_V: npt.NDArray[np.int64]


def encoded(text: ZipfText) -> EncodedText:
    """Ids as a vocabulary gives them: `<unk>`, `<s>`, `</s>`, then words by falling frequency."""
    n_documents = len(text.starts_D1) - 1
    counts_R = np.bincount(text.ranks_N)
    by_frequency = np.argsort(-counts_R, kind="stable")[: np.count_nonzero(counts_R)]
    id_R = np.zeros(len(counts_R), np.int32)
    id_R[by_frequency] = np.arange(len(by_frequency)) + _N_RESERVED
    ids_N = np.insert(id_R[text.ranks_N], text.starts_D1[1:], _EOS_ID)
    counts_V = np.concatenate(([0, n_documents, n_documents], counts_R[by_frequency]))
    return EncodedText(ids_N, text.starts_D1 + np.arange(n_documents + 1), counts_V)


def split_of(encoded: EncodedText) -> Split:
    """The ids as a training text; of its characters nothing is known."""
    ids_N, starts_D1, counts_V = encoded
    words = (f"w{i}" for i in range(len(counts_V) - _N_RESERVED))
    n_documents = len(starts_D1) - 1
    return Split(
        name="made-up",
        vocab=Vocab(tokens=(UNK, BOS, EOS, *words), counts_V=counts_V, tokenizer="word"),
        documents="line",
        segments=(),
        ids_N=ids_N,
        starts_D1=starts_D1,
        chars_D=np.zeros(n_documents, np.int64),
        bytes_D=np.zeros(n_documents, np.int64),
        oov_M=np.zeros(0, np.int64),
        spelling_nats_M=np.zeros(0),
        ends_nats_D=np.zeros(n_documents),
        lossless=False,
    )


def _zipf(at_hand: npt.NDArray[np.floating[Any]], rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """A rank from 1 to V for each V: for uniform u the integer part of (V + 1)^u is r as often as log(1 + 1/r) says."""
    logs = rng.random(at_hand.shape) * np.log(at_hand.astype(np.int64) + 1.0)
    ranks: npt.NDArray[np.int32] = np.exp(logs).astype(np.int32)
    return ranks


def _starts(n_words: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    lengths = 1 + rng.poisson(_MEAN_LENGTH - 1, 2 + 2 * n_words // _MEAN_LENGTH)
    inner = np.cumsum(lengths)
    return np.concatenate(([0], inner[inner < n_words], [n_words]))


def _followers(at: npt.NDArray[np.int64], follows_N: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    after = at[at < len(follows_N) - 1] + 1
    return after[follows_N[after]]
