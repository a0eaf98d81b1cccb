"""What a trained network becomes where it is to learn from the text that it scores."""

from __future__ import annotations

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.neural.caching import CachingModel, fitted
from lmzoo.neural.dynamic import DynamicModel, fitted_dynamic
from lmzoo.neural.models import RecurrentModel

AdaptiveModel = CachingModel | DynamicModel


def adaptive(plain: RecurrentModel, train: Split, valid: Split, budget: Budget) -> AdaptiveModel | None:
    """The adaptive model that the network's config asks for, its rates fitted on validation text; None: none."""
    if plain.config.adapt == "none":
        return None
    is_cache = plain.config.adapt == "cache"
    model: AdaptiveModel = fitted(plain, valid) if is_cache else fitted_dynamic(plain, train, valid, budget)
    told = " ".join(f"{name}={rate:.3g}" for name, rate in model.details.items())
    budget.note_change(f"adapt={plain.config.adapt}", told, step=budget.steps_done)
    return model
