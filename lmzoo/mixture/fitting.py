"""Weights of mixtures that make held-out text most probable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.mixture.model import ContextWeights, log_sum

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

_EM_ROUNDS = 2000
_EM_TOLERANCE = 1e-7
_NEWTON_ROUNDS = 25
_NEWTON_TOLERANCE = 1e-7
# a class of contexts is fitted as if so many more of its tokens had asked for the weights of all
_STRENGTHS = (2.0, 8.0, 32.0, 128.0, 512.0)
_CLASS_ROUNDS = 50
# the strength is chosen by fitting on some blocks of this many tokens and scoring the others
_BLOCK = 500
_FOLDS = 2


def fit_linear(logprobs_MxK: Floats) -> Floats:
    """Weights of a linear mixture that make held-out tokens most probable, by expectation maximisation.

    Args:
        logprobs_MxK: ln p of each of M tokens by each of K models.
    """
    n_models = logprobs_MxK.shape[1]
    possible = np.isfinite(logprobs_MxK).any(axis=1)
    p_MxK = _relative(logprobs_MxK[possible])
    weights_K = np.full(n_models, 1 / n_models)
    for _ in range(_EM_ROUNDS if len(p_MxK) else 0):
        gain_K = (p_MxK / (p_MxK @ weights_K)[:, None]).mean(axis=0)
        # by concavity the best weights are at most this much better, in nats a token
        if gain_K.max() - 1 < _EM_TOLERANCE:
            break
        weights_K = weights_K * gain_K
    normalized_K: Floats = weights_K / weights_K.sum()
    return normalized_K


def _relative(logprobs_MxK: Floats) -> Floats:
    """Probabilities of tokens that some model finds possible, relative to its best model, so that none underflows."""
    return np.asarray(np.exp(logprobs_MxK - logprobs_MxK.max(axis=1, keepdims=True)))


def fit_contexts(logprobs_MxK: Floats, keys_M: Ids) -> ContextWeights:
    """Weights of a linear mixture for each class of contexts, drawn towards those of all.

    How strongly is chosen from a few strengths: each is fitted on half of the text, in blocks, and scored on the other.
    Where the weights of all do better than any, and in a text too short to be halved, there are none by class, and
    classes that the text does not have go by the weights of all too.

    Args:
        logprobs_MxK: ln p of each of M tokens by each of K models.
        keys_M: the class of each token's context.
    """
    possible = np.isfinite(logprobs_MxK).any(axis=1)
    keys_U, class_M = np.unique(keys_M[possible], return_inverse=True)
    logprobs_MxK = logprobs_MxK[possible]
    p_MxK = _relative(logprobs_MxK)
    strength = _best_strength(p_MxK, class_M, len(keys_U))
    if strength is None:
        return ContextWeights(keys_U=keys_U[:0], weights_UxK=np.zeros((0, p_MxK.shape[1])))
    weights_UxK = fit_classes(p_MxK, class_M, len(keys_U), fit_linear(logprobs_MxK), strength)
    return ContextWeights(keys_U=keys_U, weights_UxK=weights_UxK)


def fit_classes(p_MxK: Floats, class_M: Ids, n_classes: int, all_K: Floats, strength: float) -> Floats:
    """The weights of each class by expectation maximisation from `all_K` on, shape (n_classes, K).

    Each class is fitted as if `strength` more tokens had been shared out among the models by `all_K`; that is the most
    probable under a Dirichlet prior.  Its own tokens never become less probable than they are by `all_K`.

    Args:
        p_MxK: probabilities of tokens, each row up to a factor.
    """
    order = np.argsort(class_M, kind="stable")
    p_MxK, class_M = p_MxK[order], class_M[order]
    n_U = np.bincount(class_M, minlength=n_classes)
    weights_UxK = np.repeat(all_K[None, :], n_classes, axis=0)
    present = np.flatnonzero(n_U)
    starts = np.cumsum(n_U)[present] - n_U[present]
    for _ in range(_CLASS_ROUNDS if len(present) else 0):
        shares_MxK = p_MxK * weights_UxK[class_M]
        shares_MxK /= shares_MxK.sum(axis=1, keepdims=True)
        asked_PxK = np.add.reduceat(shares_MxK, starts, axis=0) + strength * all_K
        weights_UxK[present] = asked_PxK / asked_PxK.sum(axis=1, keepdims=True)
    return weights_UxK


def _best_strength(p_MxK: Floats, class_M: Ids, n_classes: int) -> float | None:
    """The strength whose weights, fitted on one half of the tokens, suit the other half best; None: those of all do."""
    fold_M = np.arange(len(p_MxK)) // _BLOCK % _FOLDS
    if fold_M.max(initial=0) == 0:
        return None
    nats: dict[float | None, float] = dict.fromkeys((None, *_STRENGTHS), 0.0)
    for fold in range(_FOLDS):
        is_scored_M = fold_M == fold
        own, own_class_M, class_S = p_MxK[~is_scored_M], class_M[~is_scored_M], class_M[is_scored_M]
        with np.errstate(divide="ignore"):
            all_K = fit_linear(np.log(own))
            for strength in nats:
                weights_UxK = np.repeat(all_K[None, :], n_classes, axis=0)
                if strength is not None:
                    weights_UxK = fit_classes(own, own_class_M, n_classes, all_K, strength)
                nats[strength] -= float(np.log((p_MxK[is_scored_M] * weights_UxK[class_S]).sum(axis=1)).sum())
    return min(nats, key=lambda strength: nats[strength])


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
