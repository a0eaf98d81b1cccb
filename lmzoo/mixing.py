"""Mixing models that are trained already: weights are fitted, and nothing else is learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lmzoo.cache import CacheConfig, CacheModel
from lmzoo.corpus import Split
from lmzoo.errors import InputError, VocabularyMismatchError, described, require_kind
from lmzoo.interface import LanguageModel, policy_of, require_model
from lmzoo.markers import MARKERS
from lmzoo.mixture import MixtureConfig, MixtureModel, MixtureWarning
from lmzoo.mixture.config import Kind, Weights, require_distributions
from lmzoo.mixture.trainer import HeldOut, fitted_weights
from lmzoo.registry import find_entry
from lmzoo.spec import configure, parse_spec
from lmzoo.vocab import Vocab

CACHE = "cache"
# a text of which the training text is a part is taken for that text with its validation and test parts, up to so many
# times its length; of a much longer one it is a part by chance
_MOST_AROUND = 2


def mix(
    models: Iterable[LanguageModel[Any] | str],
    valid: Split,
    *,
    kind: Kind = "linear",
    weights: Weights | None = None,
    names: Sequence[str] | None = None,
) -> MixtureModel:
    """A mixture of trained models, its weights fitted on a validation text (`lmzoo.mixture.fitting`).

    Args:
        models: two or more over the vocabulary of `valid`; a text such as `"cache:order=1"` is a cache, which has
            nothing to learn before.
        valid: a text that the models were not trained on.
        kind, weights: as the options of a spec `mixture:…` (`MixtureConfig`).
        names: what messages call the models; None: their numbers from 1.

    Warns (`MixtureWarning`) of tokens that the mixture will find impossible, and where `valid` seems to be what the
    models were trained on.  Raises `InputError` for fewer than two models or a text without tokens,
    `VocabularyMismatchError` for a model with another vocabulary, `SpecError` for a text that names no cache, for
    options that there are not, and for models that are no distributions in a linear mixture.
    """
    config = MixtureConfig(kind=kind, weights=weights)
    require_kind(valid, Split, "the validation text", "a Split, such as corpus.valid")
    parts = [_cache(model, valid) if isinstance(model, str) else model for model in _several(models)]
    called = [f"model {k}" for k in range(1, len(parts) + 1)] if names is None else list(names)
    if len(parts) < 2:
        raise InputError(f"a mixture has at least two models, got {len(parts)}")
    if len(called) != len(parts):
        raise InputError(f"{len(parts)} models have as many names, got {len(called)}")
    for model in parts:
        require_model(model)
    _require_one_vocabulary(parts, called, valid)
    require_distributions({name: model.is_normalized for name, model in zip(called, parts, strict=True)}, config.kind)
    if not valid.n_tokens:
        raise InputError("the validation text has no tokens, so there is nothing to fit weights on")
    if holds_training_text(valid):
        warnings.warn(
            "the text that weights are fitted on seems to hold the models' own training text, which they know too "
            "well: weights go to the model that learned most by heart; take a text that none was trained on",
            MixtureWarning,
            stacklevel=2,
        )
    weights_K, contexts = fitted_weights(parts, HeldOut(valid), config, names=called)
    return MixtureModel(parts, weights_K, mixing=kind, contexts=contexts)


def holds_training_text(split: Split) -> bool:
    """Whether a text may be the one that its vocabulary was built from, alone or with its validation and test parts.

    It is, as far as counts of tokens tell: none occurs less often than there.
    """
    counts_V = split.vocab.counts_V.copy()
    counts_V[split.vocab.bos_id] = 0
    n_train = int(counts_V.sum())
    if not 0 < n_train <= split.n_tokens <= _MOST_AROUND * n_train:
        return False
    return bool((np.bincount(split.ids_N, minlength=len(counts_V)) >= counts_V).all())


def _several(models: object) -> list[Any]:
    """Models given one after the other.  Raises `InputError` for a single one, or its name."""
    if isinstance(models, str) or hasattr(models, "logprobs") or not isinstance(models, Iterable):
        raise InputError(f"models are a list of two or more, such as [kn5, network, 'cache'], got {described(models)}")
    return list(models)


def _cache(text: str, valid: Split) -> LanguageModel[Any]:
    spec = parse_spec(text)
    if spec.name != CACHE:
        # names the closest, or says that it has to be trained
        find_entry(spec.name, is_part=True)
        raise InputError(f"{text!r} has to be trained before it is mixed; only a cache has nothing to learn")
    return CacheModel(valid.vocab, configure(CacheConfig, spec.options, CACHE))


def _require_one_vocabulary(models: Sequence[LanguageModel[Any]], names: Sequence[str], valid: Split) -> None:
    """Raise `VocabularyMismatchError` that names who differs from the first model, and in what."""
    # a cache has that of the text
    trained = [k for k, model in enumerate(models) if not isinstance(model, CacheModel)] or [0]
    first, first_name = models[trained[0]], names[trained[0]]
    for k in trained:
        model = models[k]
        if model.vocab.fingerprint != first.vocab.fingerprint:
            raise VocabularyMismatchError(
                f"{names[k]} has another vocabulary than {first_name}: "
                f"{_differences(model.vocab, policy_of(model), first.vocab, policy_of(first))}; models of a mixture "
                "are trained on one text, read and cut in one way"
            )
    if valid.vocab.fingerprint != first.vocab.fingerprint:
        raise VocabularyMismatchError(
            f"the validation text was encoded with another vocabulary than that of {first_name}: "
            f"{_differences(valid.vocab, valid.documents, first.vocab, policy_of(first))}; "
            "encode it with valid.encoded_with(model.vocab)"
        )


def _differences(vocab: Vocab, documents: str, other: Vocab, other_documents: str) -> str:
    """In what two vocabularies differ, called as the options that decide it, each with both values."""
    facts = {
        "tokens": (vocab.tokenizer, other.tokenizer),
        "normalize": (vocab.normalizer, other.normalizer),
        "documents": (documents, other_documents),
        "min-freq": (vocab.min_freq, other.min_freq),
        "</s>": (vocab.eos_id is not None, other.eos_id is not None),
        "<unk> of the text's own": (vocab.own_unk, other.own_unk),
        "symbols": (len(vocab), len(other)),
    }
    found = [f"{name} {_shown(own)} instead of {_shown(its)}" for name, (own, its) in facts.items() if own != its]
    n_own = len(set(vocab.tokens) - set(other.tokens) - set(MARKERS))
    if n_own:
        found.append(f"{n_own} symbols of its own")
    return ", ".join(found) or "its symbols are numbered, or its tokenizer was trained, otherwise"


def _shown(value: object) -> object:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
