"""What a compressor makes of a text, as a record holds it.

It has one figure, the length of its code, and the same by blocks where the coder can tell.  Everything else that a
model has is absent for a reason: nothing of it is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.quality import (
    Floats,
    Ints,
    block_sizes,
    bounds_of,
    bytes_before,
    characters_before,
    piece_bounds,
    tally_record,
    text_record,
)
from bench.records import Figure, Measured
from lmzoo.coding import code_tally
from lmzoo.corpus import Corpus
from lmzoo.interface import Coder, cumulative_nats
from lmzoo.tally import Tally

NO_DISTRIBUTION = "a compressor has no distribution over next tokens"
_ONE_GO = "a compressor codes the training text and the test text in one go"
_NO_FILE = "a compressor has no model file: what it learns is gone with the text"
NO_BLOCKS = "the compressor tells the length of the whole code alone"


def measured_code(coder: Coder, corpus: Corpus, timed: Callable[[str, Callable[[], Any]], Any]) -> Measured:
    """Code validation and test text, each given the training text; `timed(part, action)` has the clocks."""
    valid_nats = timed("validate_s", lambda: coder.nll_nats(corpus.train, corpus.valid))
    tally, blocks = timed("test_s", lambda: _of_test(coder, corpus))
    absent = {
        "train_s": _ONE_GO,
        "train_tokens": _ONE_GO,
        "train_tokens_per_s": _ONE_GO,
        "eval_tokens_per_s": _ONE_GO,
        "next_token_us": NO_DISTRIBUTION,
        "next_token_us_p99": NO_DISTRIBUTION,
        "n_params": _NO_FILE,
        "profile": NO_DISTRIBUTION,
    }
    return Measured(
        test=tally_record(tally),
        valid=tally_record(code_tally(valid_nats, corpus.valid)),
        top1_accuracy=Figure(reason=NO_DISTRIBUTION),
        device_agreement=Figure(reason="compressors have no device"),
        n_params=None,
        model_bytes=Figure(reason=_NO_FILE),
        kernel=str(getattr(coder, "kernel_name", type(coder).__name__)),
        kept="all of the training text",
        absent=absent if blocks else absent | {"block_nats": tally.code_reason or NO_BLOCKS},
        **(blocks or {"block_nats": (), "block_tokens": ()}),
    )


def _of_test(coder: Coder, corpus: Corpus) -> tuple[Tally, dict[str, Any]]:
    """The Tally of the test text and its blocks; none where the coder does not tell."""
    split = corpus.test
    chars_B1 = np.rint(characters_before(split, bounds_of(split))).astype(np.int64)
    pieces_P1 = piece_bounds(split)
    places = np.unique(chars_B1 if pieces_P1 is None else np.concatenate((chars_B1, pieces_P1)))
    found = cumulative_nats(coder, corpus.train, split, bytes_before(split, places).tolist())
    if found is None:
        return code_tally(coder.nll_nats(corpus.train, split), split), {}
    tally = code_tally(found[-1], split)
    if tally.code_reason:
        return tally, {}
    upto_P = np.array(found[:-1])
    # at the end of the text stands all of it, the end of the code included
    upto_P[-1] = found[-1]
    nats_B = _between(places, upto_P, chars_B1)
    return tally, {
        "block_nats": tuple(nats_B.tolist()),
        "block_spelling_nats": (0.0,) * len(nats_B),
        **block_sizes(split, tally),
        **({} if pieces_P1 is None else text_record(split, tally, _between(places, upto_P, pieces_P1))),
    }


def _between(places_P: Ints, upto_P: Floats, bounds_B1: Ints) -> Floats:
    """What lies between neighbouring bounds, all of which are places."""
    return np.diff(upto_P[np.searchsorted(places_P, bounds_B1)])
