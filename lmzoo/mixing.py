"""Mixing models that are trained already: weights are fitted, and nothing else is learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from lmzoo.cache import CacheConfig, CacheModel
from lmzoo.corpus import Split
from lmzoo.errors import InputError, VocabularyMismatchError, require_kind
from lmzoo.interface import LanguageModel, require_model
from lmzoo.mixture import MixtureConfig, MixtureModel
from lmzoo.mixture.config import Kind
from lmzoo.mixture.trainer import HeldOut, fitted_weights
from lmzoo.registry import find_entry
from lmzoo.spec import configure, parse_spec

_CACHE = "cache"


def mix(
    models: Sequence[LanguageModel[Any] | str],
    valid: Split,
    *,
    kind: Kind = "linear",
    weights: Literal["one", "context"] | None = None,
) -> MixtureModel:
    """A mixture of trained models, its weights fitted on a validation text (`lmzoo.mixture.fitting`).

    Args:
        models: two or more over the vocabulary of `valid`; a text such as `"cache:order=1"` is a cache, which has
            nothing to learn before.
        kind, weights: as the options of a spec `mixture:…` (`MixtureConfig`).

    Raises `InputError` for fewer than two models or a text without tokens, `VocabularyMismatchError` for a model with
    another vocabulary, `SpecError` for a text that names no cache.
    """
    require_kind(valid, Split, "the validation text", "a Split, such as corpus.valid")
    parts = [_cache(model, valid) if isinstance(model, str) else model for model in models]
    if len(parts) < 2:
        raise InputError(f"a mixture has at least two models, got {len(parts)}")
    for model in parts:
        require_model(model)
        if model.vocab.fingerprint != valid.vocab.fingerprint:
            raise VocabularyMismatchError(
                f"a model has the vocabulary {model.vocab.fingerprint}, the validation text {valid.vocab.fingerprint}; "
                "models of a mixture are trained on one corpus, with one kind of tokens"
            )
    if not valid.n_tokens:
        raise InputError("the validation text has no tokens, so there is nothing to fit weights on")
    config = MixtureConfig(kind=kind, weights=weights)
    weights_K, contexts = fitted_weights(parts, HeldOut(valid), config)
    return MixtureModel(parts, weights_K, mixing=kind, contexts=contexts)


def _cache(text: str, valid: Split) -> LanguageModel[Any]:
    spec = parse_spec(text)
    if spec.name != _CACHE:
        # names the closest, or says that it has to be trained
        find_entry(spec.name)
        raise InputError(f"{text!r} has to be trained before it is mixed; only a cache has nothing to learn")
    return CacheModel(valid.vocab, configure(CacheConfig, spec.options, _CACHE))
