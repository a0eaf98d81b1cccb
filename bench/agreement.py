"""Whether a device computes what the processor computes: the same model on both, on the same tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.records import Figure
from lmzoo import storage
from lmzoo.corpus import Split
from lmzoo.errors import StorageError
from lmzoo.evaluation import Nats, token_nats
from lmzoo.interface import LanguageModel

SAMPLE_TOKENS = 1000
# in nats: what the conformance checks grant two ways to the same token in single precision
TOLERANCE_NATS = 1e-4
_SAME_PROCESSOR = "trained and scored on the CPU"


def device_agreement(model: LanguageModel[Any], test: Split, device: str) -> Figure:
    """The largest difference of ln p, in nats, of a model on `device` and saved and loaded on the CPU.

    Over the first `SAMPLE_TOKENS` tokens of `test`, in whole documents where they are shorter.
    """
    if device == "cpu":
        return Figure(reason=_SAME_PROCESSOR)
    try:
        on_cpu = storage.from_bytes(storage.to_bytes(model), "the trained model")
    except StorageError as error:
        return Figure(reason=" ".join(str(error).split()))
    sample = test.head(SAMPLE_TOKENS)
    return Figure.of(
        largest_difference(token_nats(model, sample), token_nats(on_cpu, sample)),
        "a token that is impossible, or has no number, on one of the two",
    )


def largest_difference(nats_N: Nats, others_N: Nats) -> float:
    """The largest absolute difference in nats; equal infinities are 0 apart, NaN is infinitely far from everything."""
    with np.errstate(invalid="ignore"):
        differences_N = np.where(nats_N == others_N, 0.0, np.abs(nats_N - others_N))
    return float(np.nan_to_num(differences_N, nan=math.inf, posinf=math.inf).max(initial=0.0))


def disagreement(figure: Figure, device: str) -> str | None:
    """A warning where a device computes something else than the processor."""
    if figure.number is None or figure.number <= TOLERANCE_NATS:
        return None
    return (
        f"{device} and the CPU differ by up to {figure.number:.2g} nats a token on the same weights, more than the "
        f"{TOLERANCE_NATS:g} that rounding explains: its figures are not to be relied on"
    )
