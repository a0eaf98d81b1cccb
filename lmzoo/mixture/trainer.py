"""Training the parts of a mixture side by side, and fitting their weights."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import LmzooError
from lmzoo.evaluation import token_nats
from lmzoo.interface import LanguageModel, Progress, Trainer, all_logprobs, n_context_classes
from lmzoo.mixture.config import Kind, MixtureConfig, require_distributions
from lmzoo.mixture.fitting import fit_contexts, fit_linear, fit_loglinear
from lmzoo.mixture.model import (
    MOST_KEYS,
    ContextWeights,
    MixtureModel,
    context_keys,
    n_context_keys,
    require_few_keys,
)

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

# log-linear weights are fitted on so many cells of validation text at most
_FIT_CELLS = 20_000_000
# while networks train, weights are fitted anew each time so much more of the budget is used, on so many tokens: this
# is on the training clock
_REFIT_SHARE = 1 / 8
_REFIT_TOKENS = 5_000


class MixtureWarning(UserWarning):
    """The text that weights were fitted on does not suit the models."""


class MixtureTrainer:
    """Trains the parts side by side within one budget, a step of each in turn, and fits their weights.

    Every part has the whole of a budget of steps or epochs; seconds are shared.

    Args:
        trainers: of the parts, in order.
    """

    def __init__(self, config: MixtureConfig, trainers: Sequence[Trainer]) -> None:
        self.config = config
        self._trainers = list(trainers)
        self._weights_K = np.full(len(trainers), 1 / len(trainers))
        self._contexts: ContextWeights | None = None
        self._is_ready = False

    @property
    def model(self) -> MixtureModel:
        if not self._is_ready:
            raise LmzooError("nothing was trained yet; run steps() first")
        models = [trainer.model for trainer in self._trainers]
        return MixtureModel(models, self._weights_K, mixing=self.config.kind, contexts=self._contexts)

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Learn; yields after each round of steps once every part has made its first."""
        budgets = [dataclasses.replace(budget) for _ in self._trainers]
        running = {
            k: trainer.steps(train, valid, child, budgets[k])
            for k, (trainer, child) in enumerate(zip(self._trainers, rng.spawn(len(self._trainers)), strict=True))
        }
        names = list(self.config.parts)
        latest: dict[int, Progress] = {}
        whole, part = HeldOut(valid), HeldOut(valid.head(_REFIT_TOKENS))
        fitted_at = -1.0
        while running:
            for k in list(running):
                with budgets[k].part(names[k]):
                    progress = next(running[k], None)
                if progress is None:
                    del running[k]
                else:
                    latest[k] = progress
            _note_progress(budget, budgets, running)
            if running and budget.used < fitted_at + _REFIT_SHARE:
                yield self._progress(latest)
                continue
            fitted_at = budget.used
            self._fit(part if running else whole, frozenset(running))
            self._is_ready = True
            told = self._progress(latest)
            weights = " ".join(f"{weight:.3g}" for weight in self._weights_K.tolist())
            budget.note_change("weights of the mixture", weights, step=told.steps)
            yield told

    def _progress(self, latest: Mapping[int, Progress]) -> Progress:
        return Progress(tokens=sum(p.tokens for p in latest.values()), steps=max(p.steps for p in latest.values()))

    def _fit(self, held_out: HeldOut, running: frozenset[int]) -> None:
        """Weights anew; those parts change still that are `running`."""
        models = [trainer.model for trainer in self._trainers]
        names = list(self.config.parts)
        # what a config cannot tell of the models of other packages
        require_distributions({name: m.is_normalized for name, m in zip(names, models, strict=True)}, self.config.kind)
        self._weights_K, self._contexts = fitted_weights(models, held_out, self.config, running, names=names)


def fitted_weights(
    models: Sequence[LanguageModel[Any]],
    held_out: HeldOut,
    config: MixtureConfig,
    running: frozenset[int] = frozenset(),
    *,
    names: Sequence[str],
) -> tuple[Floats, ContextWeights | None]:
    """The weights of a mixture, and those by context where the config wants them.

    Where nobody asks for weights by context and the classes are too many to be numbered, there are none.

    Args:
        running: places of those models that change still; once there are none, a `MixtureWarning` tells of tokens that
            the mixture finds impossible.
        names: what messages call the models.

    Raises `InputError` for weights by context where the classes are too many.
    """
    if config.weights == "context":
        require_few_keys(n_context_keys(models))
    if config.kind == "loglinear":
        parts = held_out.distributions(models, running)
        tokens_M = held_out.fitting_head(len(models)).ids_N
        observed_MxK = np.stack([part[np.arange(len(tokens_M)), tokens_M] for part in parts], axis=1)
        weights_K, contexts = fit_loglinear(parts, tokens_M), None
    else:
        observed_MxK = held_out.logprobs(models, running)
        is_by_context = config.by_context and n_context_keys(models) <= MOST_KEYS
        weights_K = fit_linear(observed_MxK)
        contexts = fit_contexts(observed_MxK, held_out.keys(models, running)) if is_by_context else None
    if not running:
        _warn_of_impossible(observed_MxK, names, config.kind)
    return weights_K, contexts


def _warn_of_impossible(logprobs_MxK: Floats, names: Sequence[str], kind: Kind) -> None:
    """Warn of tokens that models give probability 0 so that the mixture does too."""
    is_zero_MxK = np.isneginf(logprobs_MxK)
    if kind == "linear":
        n_zero = int(is_zero_MxK.all(axis=1).sum())
        who, cure = "every model", "mix in a model that finds nothing impossible, such as kn5"
    else:
        n_zero = int(is_zero_MxK.any(axis=1).sum())
        who = " or ".join(names[k] for k in np.flatnonzero(is_zero_MxK.any(axis=0)).tolist())
        cure = "no weights help: take kind=linear (--kind linear), or models that find nothing impossible, such as kn5"
    if n_zero:
        warnings.warn(
            f"{n_zero} of the {len(logprobs_MxK)} tokens that weights are fitted on have probability 0 by {who}, and "
            f"by the mixture: its perplexity is infinite; {cure}",
            MixtureWarning,
            stacklevel=4,
        )


def _note_progress(budget: Budget, budgets: Sequence[Budget], running: Collection[int]) -> None:
    """Where the part stands that has most of its budget before it; in the end, the one that did most."""
    left = [budgets[k] for k in running]
    own = min(left, key=lambda b: b.used) if left else max(budgets, key=lambda b: (b.steps_done, b.epochs_done))
    budget.note(steps_done=own.steps_done, epochs_done=own.epochs_done)


class HeldOut:
    """A text that weights are fitted on, and what parts that learn no more say of it: they are asked once."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._logprobs: dict[int, Floats] = {}
        self._classes: dict[int, Ids] = {}
        self._distributions: dict[int, Floats] = {}

    def logprobs(self, models: Sequence[LanguageModel[Any]], running: frozenset[int]) -> Floats:
        """ln p of each of M tokens by each of K models, shape (M, K)."""
        found = _of_each(models, running, self._logprobs, lambda model: -token_nats(model, self._split))
        return np.stack(found, axis=1)

    def keys(self, models: Sequence[LanguageModel[Any]], running: frozenset[int]) -> Ids:
        """The class of each token's context, as `MixtureModel` numbers it; shape (M,)."""
        keys_M = np.zeros(self._split.n_tokens, np.int64)
        found = _of_each(models, running, self._classes, lambda model: _classes_of(model, self._split))
        for model, classes_M in zip(models, found, strict=True):
            keys_M = keys_M * n_context_classes(model) + classes_M
        return keys_M

    def distributions(self, models: Sequence[LanguageModel[Any]], running: frozenset[int]) -> list[Floats]:
        """Of each model ln p over the vocabulary before each token of `fitting_head`, (M, V)."""
        head = self.fitting_head(len(models))
        return _of_each(models, running, self._distributions, lambda model: _distributions_of(model, head))

    def fitting_head(self, n_models: int) -> Split:
        """The first tokens, as many as whole distributions of all models are worked on."""
        return self._split.head(max(_FIT_CELLS // (n_models * len(self._split.vocab)), 1))


def _of_each(
    models: Sequence[LanguageModel[Any]],
    running: frozenset[int],
    kept: dict[int, npt.NDArray[Any]],
    ask: Callable[[LanguageModel[Any]], npt.NDArray[Any]],
) -> list[npt.NDArray[Any]]:
    """What each model answers; the answers of those that are not `running` are kept."""
    found = []
    for k, model in enumerate(models):
        answer = kept.get(k)
        if answer is None:
            answer = ask(model)
            if k not in running:
                kept[k] = answer
        found.append(answer)
    return found


def _distributions_of(model: LanguageModel[Any], split: Split) -> Floats:
    """ln p over the vocabulary before each token of a split, float64 of shape (M, V)."""
    found = [all_logprobs(model, d.ids_L[None, :], model.initial_state())[0] for d in split]
    return np.concatenate(found).astype(np.float64)


def _classes_of(model: LanguageModel[Any], split: Split) -> Ids:
    """The class of what precedes each token of a split, document by document."""
    found = [context_keys([model], d.ids_L[None, :], (model.initial_state(),))[0] for d in split]
    return np.concatenate(found)
