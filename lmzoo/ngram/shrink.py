"""Smaller counting models by all the ways there are, one after the other: fewer n-grams, then fewer bits."""

from __future__ import annotations

from lmzoo.errors import InputError
from lmzoo.ngram.config import WITHOUT_MASS, NgramConfig
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import prune_by_entropy, prune_to_bytes, prune_to_size
from lmzoo.ngram.quantize import quantize


def shrunk(
    model: NgramModel,
    *,
    prune: float | None = None,
    max_ngrams: int | None = None,
    max_bytes: int | None = None,
    bits: int | None = None,
) -> NgramModel:
    """The model with less in it; what is None is left out.  `max_bytes` are those of its file, with `bits` if given.

    Raises `InputError` for what cannot be reached, and for a model that has no mass to give back.
    """
    # the same limits as in training
    NgramConfig(prune=prune, max_ngrams=max_ngrams, max_bytes=max_bytes, bits=bits)
    is_pruned = any(option is not None for option in (prune, max_ngrams, max_bytes))
    if is_pruned and model.details.get("smoothing") in WITHOUT_MASS:
        raise InputError(f"a model of smoothing={model.details['smoothing']} cannot be pruned: no mass to give back")
    if model.details.get("bits") is not None:
        raise InputError("a quantised model cannot be made smaller again; start from the exact one")
    if prune is not None:
        model = prune_by_entropy(model, prune)
    if max_ngrams is not None:
        model = prune_to_size(model, max_ngrams)

    def rounded(exact: NgramModel) -> NgramModel:
        return exact if bits is None else quantize(exact, bits)

    return rounded(model) if max_bytes is None else prune_to_bytes(model, max_bytes, rounded)
