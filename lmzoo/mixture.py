"""Mixtures of any models over one vocabulary; weights are fitted on validation text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import InputError, LmzooError, StorageError, TokenError, described
from lmzoo.evaluation import token_nats
from lmzoo.interface import (
    Arrays,
    LanguageModel,
    LogProbs,
    Progress,
    Storable,
    Tokens,
    Trainer,
    all_logprobs,
    device_of,
    move,
    select,
)
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
MixtureState = tuple[Any, ...]
Kind = Literal["linear", "loglinear"]

_EM_ROUNDS = 2000
_EM_TOLERANCE = 1e-7
_NEWTON_ROUNDS = 25
_NEWTON_TOLERANCE = 1e-7
# cells of whole distributions (positions x V) worked on at once
_MAX_CELLS = 4_000_000
# log-linear weights are fitted on so many cells of validation text at most
_FIT_CELLS = 20_000_000
# while networks train, weights are fitted anew each time so much more of the budget is used
_REFIT_SHARE = 1 / 8


@dataclass(frozen=True, kw_only=True)
class MixtureConfig:
    """A mixture.

    Attributes:
        kind: linear (a weighted mean of probabilities; Jelinek & Mercer 1980) or loglinear (a weighted product,
            normalised; Klakow 1998).
        parts: the config of each part, by its spec.
    """

    kind: Kind = "linear"
    parts: Mapping[str, Any] = field(default_factory=dict)


class MixtureModel:
    """Several models as one.

    Args:
        weights_K: of a linear mixture at least 0 and 1 in sum, of a log-linear one any finite numbers.
    """

    kind = "mixture"

    def __init__(
        self, components: Sequence[LanguageModel[Any]], weights_K: npt.ArrayLike, *, mixing: Kind = "linear"
    ) -> None:
        self.components = tuple(components)
        self.weights_K = np.asarray(weights_K, np.float64)
        self.mixing = mixing
        if not components or self.weights_K.shape != (len(components),):
            raise InputError(f"{len(components)} models need as many weights, got {self.weights_K.shape}")
        if len({model.vocab.fingerprint for model in components}) > 1:
            raise InputError("the models of a mixture share one vocabulary, got several")
        if mixing == "linear" and not (math.isclose(self.weights_K.sum(), 1.0) and (self.weights_K >= 0).all()):
            raise InputError(f"linear weights are at least 0 and 1 in sum, got {self.weights_K.tolist()}")
        self.vocab: Vocab = components[0].vocab
        sizes = [model.context_size for model in components]
        self.context_size = None if None in sizes else max(s for s in sizes if s is not None)
        self.is_normalized = mixing == "loglinear" or all(model.is_normalized for model in components)
        self.is_adaptive = any(model.is_adaptive for model in components)

    @property
    def n_params(self) -> int:
        """Those of the parts, and the weights."""
        return len(self.weights_K) + sum(getattr(model, "n_params", 0) for model in self.components)

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
        return {"mixing": self.mixing, "weights": self.weights_K.tolist()}

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
        return self._mix([logprobs_BxL for logprobs_BxL, _ in pairs]), tuple(after for _, after in pairs)

    def next_logprobs(self, state: MixtureState) -> LogProbs:
        """ln p over the whole vocabulary, of shape (B, V)."""
        self._check_state(state)
        return self._mix([m.next_logprobs(s) for m, s in zip(self.components, state, strict=True)], is_whole=True)

    def all_logprobs(self, tokens_BxL: Tokens, state: MixtureState) -> LogProbs:
        """ln p over the whole vocabulary before each token, of shape (B, L, V)."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        out_BxLxV = np.empty((*tokens_BxL.shape, len(self.vocab)), self.next_logprobs(state).dtype)
        length = max(_MAX_CELLS // max(len(tokens_BxL) * len(self.vocab), 1), 1)
        for start in range(0, tokens_BxL.shape[1], length):
            chunk_BxM = tokens_BxL[:, start : start + length]
            parts = [all_logprobs(model, chunk_BxM, s) for model, s in zip(self.components, state, strict=True)]
            out_BxLxV[:, start : start + length] = self._mix(parts, is_whole=True)
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
        return cls(components, options["weights"], mixing=options["mixing"])

    def _after(self, tokens_BxL: Tokens, state: MixtureState) -> MixtureState:
        return tuple(m.logprobs(tokens_BxL, s)[1] for m, s in zip(self.components, state, strict=True))

    def _mix(self, parts: Sequence[LogProbs], *, is_whole: bool = False) -> LogProbs:
        """ln of the mixture, taken in float64 and given in the type of the least exact part.

        Linear: ln of the weighted mean.  Log-linear: the weighted sum, normalised where the parts are `is_whole`
        distributions.
        """
        exact = [np.asarray(part, np.float64) for part in parts]
        mixed = self._log_mean(exact) if self.mixing == "linear" else log_product(exact, self.weights_K)
        if self.mixing == "loglinear" and is_whole:
            mixed = mixed - log_sum(mixed)
        return mixed.astype(min((part.dtype for part in parts), key=lambda dtype: dtype.itemsize), copy=False)

    def _log_mean(self, parts: Sequence[Floats]) -> Floats:
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights_K)
        mixed = np.full(parts[0].shape, -np.inf)
        for log_weight, part in zip(log_weights, parts, strict=True):
            # a part of weight 0 says nothing, even where it is impossible
            mixed = np.logaddexp(mixed, part + log_weight) if np.isfinite(log_weight) else mixed
        return mixed


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


def fit_linear(logprobs_MxK: Floats) -> Floats:
    """Weights of a linear mixture that make held-out tokens most probable, by expectation maximisation.

    Args:
        logprobs_MxK: ln p of each of M tokens by each of K models.
    """
    n_models = logprobs_MxK.shape[1]
    possible = np.isfinite(logprobs_MxK).any(axis=1)
    # relative to the best model of each token, so that nothing underflows
    p_MxK = np.exp(logprobs_MxK[possible] - logprobs_MxK[possible].max(axis=1, keepdims=True))
    weights_K = np.full(n_models, 1 / n_models)
    for _ in range(_EM_ROUNDS if len(p_MxK) else 0):
        gain_K = (p_MxK / (p_MxK @ weights_K)[:, None]).mean(axis=0)
        # by concavity the best weights are at most this much better, in nats a token
        if gain_K.max() - 1 < _EM_TOLERANCE:
            break
        weights_K = weights_K * gain_K
    normalized_K: Floats = weights_K / weights_K.sum()
    return normalized_K


def fit_loglinear(parts: Sequence[Floats], tokens_M: npt.NDArray[np.integer[Any]]) -> Floats:
    """Weights of a log-linear mixture that make held-out tokens most probable, by Newton's method (it is concave).

    Args:
        parts: of each model ln p over the vocabulary before each token, (M, V).
    """
    usable_V = np.all([np.isfinite(part).all(axis=0) for part in parts], axis=0)
    kept_M = usable_V[tokens_M]
    place_V = np.cumsum(usable_V) - 1
    logps_KxMxV = np.stack([part[kept_M][:, usable_V] for part in parts])
    tokens_M = place_V[tokens_M[kept_M]]
    weights_K = np.full(len(parts), 1 / len(parts))
    if not len(tokens_M):
        return weights_K
    observed_KxM = logps_KxMxV[:, np.arange(len(tokens_M)), tokens_M]
    for _ in range(_NEWTON_ROUNDS):
        logits_MxV = np.tensordot(weights_K, logps_KxMxV, axes=1)
        p_MxV = np.exp(logits_MxV - log_sum(logits_MxV))
        mean_KxM = (logps_KxMxV * p_MxV).sum(axis=2)
        gradient_K = (observed_KxM - mean_KxM).mean(axis=1)
        spread = logps_KxMxV - mean_KxM[:, :, None]
        curvature_KxK = np.einsum("kmv,lmv,mv->kl", spread, spread, p_MxV) / len(tokens_M)
        # a ridge keeps the step sensible where two models say the same
        step_K = np.linalg.solve(curvature_KxK + 1e-6 * np.eye(len(parts)), gradient_K)
        weights_K = weights_K + np.clip(step_K, -0.5, 0.5)
        if np.abs(step_K).max() < _NEWTON_TOLERANCE:
            break
    return weights_K


class MixtureTrainer:
    """Trains the parts side by side within one budget, a step of each in turn, and fits their weights.

    Args:
        trainers: of the parts, in order.
    """

    def __init__(self, config: MixtureConfig, trainers: Sequence[Trainer]) -> None:
        self.config = config
        self._trainers = list(trainers)
        self._weights_K = np.full(len(trainers), 1 / len(trainers))
        self._is_ready = False

    @property
    def model(self) -> MixtureModel:
        if not self._is_ready:
            raise LmzooError("nothing was trained yet; run steps() first")
        return MixtureModel([t.model for t in self._trainers], self._weights_K, mixing=self.config.kind)

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Learn; yields after each round of steps once every part has made its first."""
        running = {
            k: trainer.steps(train, valid, child, budget)
            for k, (trainer, child) in enumerate(zip(self._trainers, rng.spawn(len(self._trainers)), strict=True))
        }
        names = list(self.config.parts)
        latest: dict[int, Progress] = {}
        fitted_at = -1.0
        while running:
            for k in list(running):
                with budget.part(names[k]):
                    progress = next(running[k], None)
                if progress is None:
                    del running[k]
                else:
                    latest[k] = progress
            if running and budget.used < fitted_at + _REFIT_SHARE:
                yield self._progress(latest)
                continue
            self._is_ready = True
            fitted_at = budget.used
            self._weights_K = self._fit(valid)
            told = self._progress(latest)
            weights = " ".join(f"{weight:.3g}" for weight in self._weights_K.tolist())
            budget.note_change("weights of the mixture", weights, step=told.steps)
            yield told

    def _progress(self, latest: Mapping[int, Progress]) -> Progress:
        return Progress(tokens=sum(p.tokens for p in latest.values()), steps=max(p.steps for p in latest.values()))

    def _fit(self, valid: Split) -> Floats:
        models = [trainer.model for trainer in self._trainers]
        if self.config.kind == "linear":
            return fit_linear(np.stack([-token_nats(model, valid) for model in models], axis=1))
        head = valid.head(max(_FIT_CELLS // (len(models) * len(valid.vocab)), 1))
        parts = [
            np.concatenate([all_logprobs(model, d.ids_L[None, :], model.initial_state())[0] for d in head])
            for model in models
        ]
        return fit_loglinear([np.asarray(part, np.float64) for part in parts], head.ids_N)
