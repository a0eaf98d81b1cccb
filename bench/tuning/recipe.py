"""The recipe that a search leaves: the best options so far, and how they were found."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bench.records import ModelFacts
from bench.tuning.attempts import Attempt, Search, best_of
from bench.tuning.spaces import with_options
from lmzoo.registry import find_entry, resolve_config
from lmzoo.spec import Spec, parse_spec


def recipe_of(
    spec: Spec, best: ModelFacts, attempts: Sequence[Attempt], search: Search
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the recipe, and how they were found.

    Args:
        spec: the model that the search is for.
        best: the best attempt's model, every option of it resolved.
    """
    return _own_options(spec, best, search.asked.space), _found(attempts, search)


def spec_of_recipe(spec: Spec, path: Path) -> str:
    """The spec that has the options of the recipe file, those that were given among them."""
    return with_options(parse_spec(spec.name), {"recipe": str(path)})


def _own_options(spec: Spec, best: ModelFacts, searched: Collection[str]) -> dict[str, Any]:
    """Every option that was given, searched, or filled or changed by the recipe that the search started from."""
    fields = dataclasses.fields(resolve_config(spec))
    given = {*spec.options, *searched, *(field.name for field in fields if field.default is None)}
    given |= {field.name for field in fields if best.options[field.name] != field.default}
    fixed = {*find_entry(spec.name).fixed, "recipe"}
    own = [field.name for field in fields if field.name in given - fixed]
    return {name: best.options[name] for name in own if best.options[name] is not None}


def _found(attempts: Sequence[Attempt], search: Search) -> dict[str, Any]:
    best, corpus, asked = best_of(attempts), search.corpus, search.asked
    assert best is not None
    valid = best.trainings[0].valid if best.trainings else None
    default = next((attempt for attempt in attempts if attempt.number == 0), None)
    return {
        "corpus": corpus.name,
        "corpus_sha256": corpus.sha256,
        "normalize": corpus.normalize,
        "tokens": corpus.tokenizer,
        "documents": corpus.documents,
        "min_freq": corpus.min_freq,
        "searched": dict(asked.space),
        "training": {name: getattr(asked, name) for name in ("budget_s", "epochs", "max_steps", "device", "threads")},
        "seeds": asked.seeds,
        "search_seed": asked.seed,
        "search_seconds_used": round(max(attempt.used_s for attempt in attempts), 1),
        "n_configurations_tried": len(attempts),
        "n_pruned": sum(attempt.outcome == "pruned" for attempt in attempts),
        "n_failed": sum(attempt.outcome == "failed" for attempt in attempts),
        "n_valid_tokens": valid.n_tokens if valid else None,
        "n_valid_oov": valid.n_oov if valid else None,
        "valid_perplexity": best.valid_perplexity,
        "default_valid_perplexity": default.valid_perplexity if default else None,
        "versions": {**search.environment.versions, "optuna": importlib.metadata.version("optuna")},
        "code_sha256": search.code_sha256,
    }
