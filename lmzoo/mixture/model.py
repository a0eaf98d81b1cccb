"""A mixture: several models as one, with weights that may depend on what the models know of a context."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError, StorageError, TokenError, described
from lmzoo.interface import (
    Arrays,
    LanguageModel,
    LogProbs,
    Storable,
    Tokens,
    all_logprobs,
    context_classes,
    device_of,
    move,
    n_context_classes,
    select,
)
from lmzoo.mixture.config import KINDS, Kind, require_choice
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
MixtureState = tuple[Any, ...]

# cells of whole distributions (positions x V) worked on at once
_MAX_CELLS = 4_000_000
# classes of contexts are numbered from 0 to below it
MOST_KEYS = 1 << 62


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextWeights:
    """Weights of U classes of contexts.

    Attributes:
        keys_U: the classes, ascending (`context_keys`).
        weights_UxK: the weights of the models in each.
    """

    keys_U: Ids
    weights_UxK: Floats


class MixtureModel:
    """Several models as one.

    Args:
        weights_K: of a linear mixture at least 0 and 1 in sum, of a log-linear one any finite numbers.
        mixing: linear or log-linear; the scores of a linear mixture of what are no distributions are none either.
        contexts: of a linear mixture, the weights in some classes of contexts; `weights_K` in all others.
    """

    kind = "mixture"

    def __init__(
        self,
        components: Sequence[LanguageModel[Any]],
        weights_K: npt.ArrayLike,
        *,
        mixing: Kind = "linear",
        contexts: ContextWeights | None = None,
    ) -> None:
        require_choice(mixing, "kind", KINDS)
        self.components = tuple(components)
        self.weights_K = np.asarray(weights_K, np.float64)
        self.mixing = mixing
        self.contexts = contexts
        if not components or self.weights_K.shape != (len(components),):
            raise InputError(f"{len(components)} models need as many weights, got {self.weights_K.shape}")
        if len({model.vocab.fingerprint for model in components}) > 1:
            raise InputError("the models of a mixture share one vocabulary, got several")
        if mixing == "linear":
            _check_weights(self.weights_K)
        elif not np.isfinite(self.weights_K).all():
            raise InputError(f"log-linear weights are finite numbers, got {self.weights_K.tolist()}")
        if contexts is not None:
            _check_contexts(contexts, self.components, mixing)
        self.vocab: Vocab = components[0].vocab
        sizes = [model.context_size for model in components]
        self.context_size = None if None in sizes else max(s for s in sizes if s is not None)
        self.is_normalized = mixing == "loglinear" or all(model.is_normalized for model in components)
        self.is_adaptive = any(model.is_adaptive for model in components)

    @property
    def cells_at_once(self) -> int | None:
        """What suits the part that is best handed most, where a text is scored by itself; else what is usual."""
        own = [getattr(model, "cells_at_once", None) or 0 for model in self.components]
        return max(own) or None if self.is_adaptive else None

    @property
    def n_params(self) -> int:
        """Those of the parts, and the weights."""
        n_weights = len(self.weights_K) + (0 if self.contexts is None else self.contexts.weights_UxK.size)
        return n_weights + sum(getattr(model, "n_params", 0) for model in self.components)

    @property
    def kernel_name(self) -> str:
        names = [str(getattr(model, "kernel_name", "numpy")) for model in self.components]
        return "+".join(dict.fromkeys(names))

    @property
    def device(self) -> str:
        """Where the networks among its parts compute."""
        return next((device for model in self.components if (device := device_of(model)) != "cpu"), "cpu")

    def move_to(self, device: str) -> None:
        """Put the networks among its parts onto a device."""
        for model in self.components:
            move(model, device)

    @property
    def details(self) -> dict[str, Any]:
        """The weights, for records."""
        n_contexts = 1 if self.contexts is None else len(self.contexts.keys_U)
        return {"mixing": self.mixing, "weights": self.weights_K.tolist(), "context_classes": n_contexts}

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> MixtureState:
        return tuple(model.initial_state(batch_size, bos=bos) for model in self.components)

    def logprobs(self, tokens_BxL: Tokens, state: MixtureState) -> tuple[LogProbs, MixtureState]:
        """ln p of each token and the states of all parts after the last one; as exact as the least exact part."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if self.mixing == "loglinear":
            picked_BxL = np.take_along_axis(
                self.all_logprobs(tokens_BxL, state), tokens_BxL[:, :, None].astype(np.int64), axis=2
            )[:, :, 0]
            return picked_BxL, self._after(tokens_BxL, state)
        pairs = [m.logprobs(tokens_BxL, s) for m, s in zip(self.components, state, strict=True)]
        logprobs = [logprobs_BxL for logprobs_BxL, _ in pairs]
        mixed_BxL = self._mix(logprobs, self._weights(tokens_BxL, state))
        return mixed_BxL, tuple(after for _, after in pairs)

    def next_logprobs(self, state: MixtureState) -> LogProbs:
        """ln p over the whole vocabulary, of shape (B, V)."""
        self._check_state(state)
        parts = [m.next_logprobs(s) for m, s in zip(self.components, state, strict=True)]
        # of what comes next nothing is known
        any_Bx1 = np.zeros((len(parts[0]), 1), np.int64)
        return self._mix(parts, self._weights(any_Bx1, state), is_whole=True)

    def all_logprobs(self, tokens_BxL: Tokens, state: MixtureState) -> LogProbs:
        """ln p over the whole vocabulary before each token, of shape (B, L, V)."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        out_BxLxV = np.empty((*tokens_BxL.shape, len(self.vocab)), self.next_logprobs(state).dtype)
        length = max(_MAX_CELLS // max(len(tokens_BxL) * len(self.vocab), 1), 1)
        for start in range(0, tokens_BxL.shape[1], length):
            chunk_BxM = tokens_BxL[:, start : start + length]
            parts = [all_logprobs(model, chunk_BxM, s) for model, s in zip(self.components, state, strict=True)]
            weights = self._weights(chunk_BxM, state)[:, :, None]
            out_BxLxV[:, start : start + length] = self._mix(parts, weights, is_whole=True)
            state = self._after(chunk_BxM, state)
        return out_BxLxV

    def select(self, state: MixtureState, rows: npt.ArrayLike) -> MixtureState:
        self._check_state(state)
        return tuple(select(model, s, rows) for model, s in zip(self.components, state, strict=True))

    def _check_state(self, state: MixtureState) -> None:
        """Raise `TokenError` for what cannot be the states of all parts."""
        if not isinstance(state, tuple) or len(state) != len(self.components):
            raise TokenError(f"a state has {len(self.components)} parts, one of each model, got {described(state)}")

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        """The weights, and each part as a file of its own would have it, its arrays numbered."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        parts = []
        for k, model in enumerate(self.components):
            if not isinstance(model, Storable):
                raise StorageError(f"{type(model).__name__} cannot be saved, so no mixture with it can")
            options, own = model.to_parts()
            parts.append({"kind": model.kind, "options": options, "arrays": list(own)})
            arrays |= {f"{k}/{name}": array for name, array in own.items()}
        if self.contexts is not None:
            arrays |= {"context_keys": self.contexts.keys_U, "context_weights": self.contexts.weights_UxK}
        return {"mixing": self.mixing, "weights": self.weights_K.tolist(), "parts": parts}, arrays

    @classmethod
    def from_parts(
        cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays, build: Callable[..., LanguageModel[Any]]
    ) -> MixtureModel:
        """The inverse of `to_parts`; `build(kind, vocab, options, arrays)` makes a part."""
        components = [
            build(part["kind"], vocab, part["options"], {name: arrays[f"{k}/{name}"] for name in part["arrays"]})
            for k, part in enumerate(options["parts"])
        ]
        contexts = None
        if "context_keys" in arrays:
            keys_U, weights_UxK = arrays["context_keys"], arrays["context_weights"]
            contexts = ContextWeights(keys_U=keys_U, weights_UxK=weights_UxK)
        return cls(components, options["weights"], mixing=options["mixing"], contexts=contexts)

    def _after(self, tokens_BxL: Tokens, state: MixtureState) -> MixtureState:
        return tuple(m.logprobs(tokens_BxL, s)[1] for m, s in zip(self.components, state, strict=True))

    def _weights(self, tokens_BxL: Tokens, state: MixtureState) -> Floats:
        """The weights before each token, shape (B, L, K)."""
        if self.contexts is None:
            return np.broadcast_to(self.weights_K, (*tokens_BxL.shape, len(self.weights_K)))
        keys_BxL = context_keys(self.components, tokens_BxL, state)
        keys_U = self.contexts.keys_U
        place_BxL = np.searchsorted(keys_U, keys_BxL)
        is_there_BxL = np.append(keys_U, -1)[place_BxL] == keys_BxL
        weights_U1xK = np.concatenate((self.contexts.weights_UxK, self.weights_K[None, :]))
        return np.asarray(weights_U1xK[np.where(is_there_BxL, place_BxL, -1)])

    def _mix(self, parts: Sequence[LogProbs], weights: Floats, *, is_whole: bool = False) -> LogProbs:
        """ln of the mixture, taken in float64 and given in the type of the least exact part.

        Linear: ln of the weighted mean, `weights` of shape (…, K).  Log-linear: the weighted sum, normalised where
        the parts are `is_whole` distributions.
        """
        exact = [np.asarray(part, np.float64) for part in parts]
        mixed = _log_mean(exact, weights) if self.mixing == "linear" else log_product(exact, self.weights_K)
        if self.mixing == "loglinear" and is_whole:
            mixed = mixed - log_sum(mixed)
        return mixed.astype(min((part.dtype for part in parts), key=lambda dtype: dtype.itemsize), copy=False)


def _log_mean(parts: Sequence[Floats], weights: Floats) -> Floats:
    """ln of the weighted mean; a part of weight 0 says nothing, even where it is impossible."""
    mixed = np.full(parts[0].shape, -np.inf)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    for k, part in enumerate(parts):
        mixed = np.logaddexp(mixed, part + log_weights[..., k])
    return mixed


def context_keys(components: Sequence[LanguageModel[Any]], tokens_BxL: Tokens, state: MixtureState) -> Ids:
    """The classes that all parts give to what precedes each token, as one number each; (B, L)."""
    keys_BxL = np.zeros(tokens_BxL.shape, np.int64)
    for model, s in zip(components, state, strict=True):
        # the last token is not asked about
        classes_BxL = context_classes(model, tokens_BxL[:, :-1], s)[:, : tokens_BxL.shape[1]]
        keys_BxL = keys_BxL * n_context_classes(model) + classes_BxL
    return keys_BxL


def n_context_keys(components: Sequence[LanguageModel[Any]]) -> int:
    """How many classes all parts together sort contexts into."""
    return math.prod(n_context_classes(model) for model in components)


def _check_weights(weights: Floats) -> None:
    """Raise `InputError` for what are no weights over the last axis."""
    if not (np.isclose(weights.sum(axis=-1), 1.0, rtol=1e-9, atol=0).all() and (weights >= 0).all()):
        raise InputError(f"linear weights are at least 0 and 1 in sum, got {weights.tolist()}")


def _check_contexts(contexts: ContextWeights, components: Sequence[LanguageModel[Any]], mixing: Kind) -> None:
    """Raise `InputError` for weights that are not those of classes of contexts."""
    n_keys = n_context_keys(components)
    if mixing != "linear":
        raise InputError(f"weights by context are those of a linear mixture, got mixing {mixing}")
    require_few_keys(n_keys)
    keys_U, weights_UxK = contexts.keys_U, contexts.weights_UxK
    if weights_UxK.shape != (len(keys_U), len(components)):
        raise InputError(
            f"{len(keys_U)} classes need as many rows of {len(components)} weights, got {weights_UxK.shape}"
        )
    if (np.diff(keys_U) <= 0).any() or ((keys_U < 0) | (keys_U >= n_keys)).any():
        raise InputError(f"classes of contexts are ascending numbers from 0 to {n_keys - 1}, got {keys_U.tolist()}")
    _check_weights(weights_UxK)


def require_few_keys(n_keys: int) -> None:
    """Raise `InputError` for more classes of contexts than can be numbered."""
    if n_keys > MOST_KEYS:
        raise InputError(
            f"the models sort contexts into {n_keys:.3g} classes together, more than {MOST_KEYS:.3g}; give fewer "
            "models, or have one weight for each with weights=one (--weights one)"
        )


def log_product(parts: Sequence[Floats], weights_K: Floats) -> Floats:
    """The weighted sum of log-probabilities; impossible in one part that counts, impossible in all."""
    total = np.zeros(parts[0].shape)
    for weight, part in zip(weights_K.tolist(), parts, strict=True):
        total += np.where(np.isneginf(part), -np.inf, weight * np.where(np.isneginf(part), 0.0, part))
    return total


def log_sum(logits: Floats) -> Floats:
    """ln of the sum of exponentials over the last axis, which is kept."""
    highest = logits.max(axis=-1, keepdims=True)
    return np.asarray(highest + np.log(np.exp(logits - highest).sum(axis=-1, keepdims=True)))
