"""What to try next, and what not to go on with: optuna's answers, each a function of what was tried so far.

A study is made anew in memory for each question, from the attempts alone.  So the records of a search are all that
there is to keep, and one that was interrupted proposes what it would have proposed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.tuning.attempts import Attempt, Report
from bench.tuning.spaces import Choice, Dimension, Numbers, Space, Value
from lmzoo.errors import MissingLibraryError

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

# proposals in a row that are nothing new: before they are drawn at random, before the space is taken to hold no more
_REPEATS_BEFORE_CHANCE, MOST_REPEATS = 20, 150
# attempts at random before there is anything to learn from, and before anything is given up
_RANDOM_ATTEMPTS = 8
_COMPLETE_BEFORE_PRUNING = 5


def require_optuna() -> Any:
    """The library.  Raises `MissingLibraryError`."""
    try:
        import optuna
    except ImportError as error:
        raise MissingLibraryError(
            "a search needs optuna, which is not installed: python -m pip install 'lmzoo[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def propose(
    space: Space,
    attempts: Sequence[Attempt],
    *,
    seed: int,
    is_possible: Callable[[Mapping[str, Value]], bool],
) -> dict[str, Value] | None:
    """Values for everything in the space that were not tried yet, or None where nothing new is found.

    Tree-structured Parzen estimators (Bergstra et al. 2011); chance, where these only repeat what was tried.  What is
    proposed follows from the attempts and the seed.

    Args:
        is_possible: whether a model has such options at all.
    """
    optuna = require_optuna()
    tried = [attempt.options for attempt in attempts]
    for repeat in range(MOST_REPEATS):
        n_random = _RANDOM_ATTEMPTS if repeat < _REPEATS_BEFORE_CHANCE else len(attempts) + 1
        sampler = optuna.samplers.TPESampler(seed=_derived(seed, len(attempts), repeat), n_startup_trials=n_random)
        study = _study(optuna, space, attempts, sampler=sampler)
        trial = study.ask()
        values = {name: dimension.suggest(trial, name) for name, dimension in space.items()}
        if values not in tried and is_possible(values):
            return values
    return None


def is_hopeless(attempts: Sequence[Attempt], reports: Sequence[Report], *, warm_up: int) -> bool:
    """Whether a training under way is worse than the median of the complete ones was at the same validation.

    Only its best validation counts, from place `warm_up` of the schedule on, and once five attempts are complete.
    """
    if not reports:
        return False
    optuna = require_optuna()
    pruner = optuna.pruners.MedianPruner(n_startup_trials=_COMPLETE_BEFORE_PRUNING, n_warmup_steps=warm_up)
    study = _study(optuna, {}, attempts)
    running: FrozenTrial = optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING, intermediate_values=_intermediate(reports)
    )
    return bool(pruner.prune(study, running))


def importances(space: Space, attempts: Sequence[Attempt]) -> dict[str, float]:
    """How much each option matters for being among the better attempts (PED-ANOVA, Watanabe et al. 2023), 0 to 1.

    Empty where too few are complete to say.
    """
    complete = [attempt for attempt in attempts if attempt.outcome == "complete"]
    if len({attempt.valid_perplexity for attempt in complete}) < _RANDOM_ATTEMPTS:
        return {}
    optuna = require_optuna()
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    study = _study(optuna, space, complete)
    found: dict[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return found


def _study(optuna: Any, space: Space, attempts: Sequence[Attempt], *, sampler: Any = None) -> Study:
    study: Study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.NopPruner())
    distributions = {name: _distribution(optuna, dimension) for name, dimension in space.items()}
    states = optuna.trial.TrialState
    for attempt in attempts:
        is_complete = attempt.outcome == "complete"
        held = {name: attempt.options[name] for name, d in space.items() if d.holds(attempt.options.get(name))}
        study.add_trial(
            optuna.trial.create_trial(
                # what failed counts as given up before its first validation: worse than anything that was seen
                state=states.COMPLETE if is_complete else states.PRUNED,
                value=attempt.valid_perplexity if is_complete else None,
                params=held,
                distributions={name: distributions[name] for name in held},
                intermediate_values=_intermediate(attempt.reports) if attempt.outcome != "failed" else {},
            )
        )
    return study


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        return optuna.distributions.CategoricalDistribution(dimension.values)
    assert isinstance(dimension, Numbers)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _intermediate(reports: Sequence[Report]) -> dict[int, float]:
    return {report.place: report.perplexity for report in reports}


def _derived(*numbers: int) -> int:
    """A seed for numpy that follows from some numbers."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:4], "little")
