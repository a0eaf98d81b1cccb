"""Texts drawn from sources whose every expectation is known, and models trained on small samples of them.

A model's expected figures are exact: all contexts are gone through, those at the start of a document by themselves.
Characters take one to three bytes, so that bits per byte are not bits per character under another name.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.quality import blocks_record
from lmzoo import train
from lmzoo.corpus import Split, corpus_from_texts, encode_split
from lmzoo.errors import InputError
from lmzoo.evaluation import tally_of, token_nats
from lmzoo.interface import LanguageModel
from lmzoo.markov import MarkovConfig, MarkovSource

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Rng = np.random.Generator

ALPHABET = "etaonséбд山"
_BYTES_V = np.array([len(sign.encode()) for sign in ALPHABET], np.float64)
_CODE_POINTS_V = np.array([ord(sign) for sign in ALPHABET], "<u4")
# drawn so many corpora at a time: a step of a chain takes as long for one as for many
_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a test text is cut: so many documents, the length of each drawn from a few, all equally likely."""

    n_documents: int
    lengths: tuple[int, ...]

    @property
    def mean_length(self) -> float:
        return sum(self.lengths) / len(self.lengths)

    def draw(self, source: MarkovSource, n_corpora: int, rng: Rng) -> Iterator[list[Ids]]:
        """So many test texts, each a list of documents (symbols)."""
        longest = max(self.lengths)
        together = max(_AT_ONCE // self.n_documents, 1)
        for first in range(0, n_corpora, together):
            n_texts = min(together, n_corpora - first)
            drawn_DxL = source.sample_documents(n_texts * self.n_documents, longest, rng)
            lengths_D = rng.choice(self.lengths, size=len(drawn_DxL))
            documents = [ids_L[:length] for ids_L, length in zip(drawn_DxL, lengths_D.tolist(), strict=True)]
            for start in range(0, len(documents), self.n_documents):
                yield documents[start : start + self.n_documents]


def plain_source(*, symmetric: bool = False) -> MarkovSource:
    """Each symbol depends on the two before it."""
    return MarkovSource.of(MarkovConfig(order=2, symbols=len(ALPHABET), seed=1, concentration=0.3, symmetric=symmetric))


def sticky_source(stay: float = 0.9) -> MarkovSource:
    """A symbol mostly comes again, so that a text stays with what is easy or hard; symmetric under the exchange."""
    n_symbols = len(ALPHABET)
    drawn_VxV = np.random.default_rng(7).dirichlet(np.full(n_symbols, 0.5), size=n_symbols) + 0.001
    exchange_V = np.array([1, 0, *range(2, n_symbols)])
    drawn_VxV = drawn_VxV + drawn_VxV[exchange_V][:, exchange_V]
    drawn_VxV /= drawn_VxV.sum(axis=1, keepdims=True)
    return MarkovSource(stay * np.eye(n_symbols) + (1 - stay) * drawn_VxV, order=1)


def text_of(ids_L: Ids) -> str:
    """The characters of symbols."""
    return _CODE_POINTS_V[ids_L].tobytes().decode("utf-32-le")


@dataclass(frozen=True, eq=False)
class Expected:
    """Exact expectations over a document of a layout, by symbol: how often each comes, and the nats it costs in all."""

    counts_V: Floats
    nats_V: Floats
    is_known_V: npt.NDArray[np.bool_]
    spelling_V: Floats

    @property
    def nats_per_token(self) -> float:
        return float(self.nats_V.sum() / self.counts_V.sum())

    @property
    def nats_per_known_token(self) -> float:
        return float(self.nats_V[self.is_known_V].sum() / self.counts_V[self.is_known_V].sum())

    @property
    def bits_per_char(self) -> float:
        return self._bits / float(self.counts_V.sum())

    @property
    def bits_per_byte(self) -> float:
        return self._bits / float(self.counts_V @ _BYTES_V)

    @cached_property
    def _bits(self) -> float:
        return float(self.nats_V.sum() + self.counts_V @ self.spelling_V) / math.log(2)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, and what it is expected to cost on texts of one layout."""

    model: LanguageModel[Any]
    expected: Expected

    def scored(self, documents: Sequence[Ids]) -> tuple[Split, Floats]:
        """A test text, encoded, and the nats of each of its tokens."""
        split = encode_split("test", [text_of(ids_L) for ids_L in documents], self.model.vocab, "file")
        return split, token_nats(self.model, split)

    def blocks(self, documents: Sequence[Ids]) -> dict[str, Any]:
        """The blocks of a test text as a record holds them."""
        split, nats_N = self.scored(documents)
        return blocks_record(split, nats_N, tally_of(self.model, split, nats_N))


def trained(spec: str, source: MarkovSource, layout: Layout, n_train: int, rng: Rng, *, unknown: str = "") -> Trained:
    """A model trained on a small sample of the source; symbols in `unknown` are taken out of the sample."""
    known = [i for i, sign in enumerate(ALPHABET) if sign not in unknown]
    sample_N = source.sample(n_train, rng)
    # each known symbol once: what a sample happens to lack is no part of the vocabulary
    text = text_of(np.concatenate([known, sample_N[np.isin(sample_N, known)]]))
    corpus = corpus_from_texts({"train": text, "valid": text[:100], "test": text[:100]}, tokens="char")
    with warnings.catch_warnings():
        # small samples have no discounts of their own, and say so
        warnings.simplefilter("ignore")
        model = train(spec, corpus)
    return Trained(model, expected(model, source, layout))


def expected(model: LanguageModel[Any], source: MarkovSource, layout: Layout) -> Expected:
    """The exact expectations of a model of bounded context over a document of a layout."""
    if model.context_size is None:
        raise InputError(f"{type(model).__name__} looks back without limit: its contexts cannot all be gone through")
    size = max(source.order, model.context_size)
    if min(layout.lengths) < size:
        raise InputError(f"documents are at least as long as the contexts, {size}, got {min(layout.lengths)}")
    first_V = np.sum([_nats_by_symbol(model, source, n, bos=True) for n in range(size)], axis=0)
    far_V = _nats_by_symbol(model, source, size, bos=False)
    vocab = model.vocab
    is_known_V = np.array([sign in vocab.token_to_id for sign in ALPHABET])
    return Expected(
        counts_V=source.joint_of(1) * layout.mean_length,
        nats_V=first_V + (layout.mean_length - size) * far_V,
        is_known_V=is_known_V,
        spelling_V=np.where(is_known_V, 0.0, [vocab.spelling_nats(sign) for sign in ALPHABET]),
    )


def _nats_by_symbol(model: LanguageModel[Any], source: MarkovSource, n_before: int, *, bos: bool) -> Floats:
    """Expected nats of the symbol that comes after so many others, by which symbol it is."""
    ids_V = model.vocab.encode(ALPHABET)
    joint_RxV = source.joint_of(n_before + 1).reshape(-1, source.symbols)
    powers_L = source.symbols ** np.arange(n_before - 1, -1, -1, dtype=np.int64)
    symbols_RxL = np.arange(len(joint_RxV))[:, None] // powers_L % source.symbols
    _, state = model.logprobs(ids_V[symbols_RxL], model.initial_state(len(joint_RxV), bos=bos))
    logprobs_RxV = np.asarray(model.next_logprobs(state), np.float64)[:, ids_V]
    nats_V: Floats = -(joint_RxV * logprobs_RxV).sum(axis=0)
    return nats_V
