"""Training a counting model: count the text once, smooth, done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError, OptionValueError
from lmzoo.interface import Progress
from lmzoo.ngram.columns import IN_MEMORY, Column, Room, disk_room
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.counts import count_levels, with_starts
from lmzoo.ngram.levels import Level
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.planting import planted
from lmzoo.ngram.prune import prune_by_count
from lmzoo.ngram.shrink import shrunk
from lmzoo.ngram.smoothing import Counted, smooth
from lmzoo.vocab import Vocab

# Bytes that work takes: of the arrays that exist at once, for each token sorted, for each n-gram smoothed, for each
# value looked up
_BYTES_A_POSITION = 96
_BYTES_A_GRAM = 256
_BYTES_A_VALUE = 32
# bytes on disk, at most, for each token of the text: of one order, and of the runs of the order that is counted
_DISK_BYTES_AN_ORDER = 44
_DISK_BYTES_OF_RUNS = 36


class NgramTrainer:
    """Counts the training text; the validation text fits options of smoothing where there are any, and nothing else.

    `device` is accepted for the sake of one call for all models: counting has no device path.
    """

    def __init__(self, config: NgramConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self._vocab = vocab
        self._model: NgramModel | None = None

    @property
    def model(self) -> NgramModel:
        if self._model is None:
            raise LmzooError("nothing was counted yet; run steps() first")
        return self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Count, smooth, and yield once, at the end."""
        stream_N = with_starts(train)
        with room_for(self.config) as room:
            self._model = model_of(self.config, self._vocab, stream_N, valid, room)
        yield Progress(tokens=train.n_tokens)


@contextlib.contextmanager
def room_for(config: NgramConfig) -> Iterator[Room]:
    """Room to count in, as the config bounds it; temporary files are gone at its end."""
    n_bytes = config.max_memory_bytes
    if n_bytes is None:
        yield IN_MEMORY
        return
    with disk_room(
        n_grams=n_bytes // _BYTES_A_GRAM,
        n_positions=n_bytes // _BYTES_A_POSITION,
        n_values=n_bytes // _BYTES_A_VALUE,
        need=f"up to {_DISK_BYTES_AN_ORDER * config.order + _DISK_BYTES_OF_RUNS} bytes for each token of the text",
    ) as room:
        yield room


def check_memory(config: NgramConfig, vocab: Vocab) -> None:
    """Raise `OptionValueError` where the continuations of one history, up to one for each symbol, would not fit."""
    n_bytes, least = config.max_memory_bytes, _BYTES_A_GRAM * len(vocab)
    if n_bytes is not None and n_bytes < least:
        raise OptionValueError(
            f"max_memory={config.max_memory} is too little for {len(vocab)} symbols, any of which may follow one "
            f"history: at least {-(-least >> 20)}M is needed, or a larger min_freq"
        )


def model_of(config: NgramConfig, vocab: Vocab, stream_N: Column, held_out: Split | None, room: Room) -> NgramModel:
    """The model of documents laid end to end, each after its `<s>`.

    Raises `OptionValueError` where they cannot be counted in so little memory.
    """
    check_memory(config, vocab)
    levels = count_levels(stream_N, vocab, config.order, room)
    counted = Counted(
        config=config,
        vocab=vocab,
        levels=levels,
        stream_N=stream_N,
        held_out=held_out,
        room=room,
        # pruning by count is yet to come
        is_last_use=config.cutoffs is None,
    )
    figures, details = smooth(counted)
    model = NgramModel(vocab, planted(levels, figures, room), details)
    return _smaller(model, config, levels) if config.is_pruned or config.bits is not None else model


def _smaller(model: NgramModel, config: NgramConfig, levels: Sequence[Level]) -> NgramModel:
    if config.cutoffs is not None:
        model = prune_by_count(model, [level.counts_G[:] for level in levels], config.least_counts)
    return shrunk(
        model, prune=config.prune, max_ngrams=config.max_ngrams, max_bytes=config.max_file_bytes, bits=config.bits
    )
