"""`info`: what a model file holds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.opening import is_there, open_model
from lmzoo.cli.rows import Rows, json_lines_option

if TYPE_CHECKING:
    from lmzoo.interface import LanguageModel

# details that are lists over the orders
_BY_ORDER = ("discounts", "weights", "ngrams_before_pruning")


@cli.command(epilog="\b\nExamples:\n  python -m lmzoo info book.lm\n  python -m lmzoo info book.lm --json")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tab-separated rows.")
@json_lines_option
def info(model: str, as_json: bool, json_lines: bool) -> None:
    """Tell what a MODEL holds: vocabulary, sizes, options, and how its probabilities were made.

    MODEL is a model file, or a spec such as kenlm:lm.arpa.
    """
    loaded = open_model(model)
    n_bytes = Path(model).stat().st_size if is_there(model) else None
    facts = {"file_bytes": n_bytes, **facts_of(loaded), "vocabulary": _vocabulary(loaded)}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, allow_nan=False, indent=2))
        return
    rows = Rows(("fact", "value"), json_lines=json_lines)
    for name, value in _flat(facts):
        rows.write(name, value)


def facts_of(model: LanguageModel[Any]) -> dict[str, Any]:
    """What is worth knowing of a model, as JSON values; of a mixture, of each part too."""
    from lmzoo.mixture import MixtureModel
    from lmzoo.ngram.model import NgramModel

    facts: dict[str, Any] = {
        "kind": getattr(model, "kind", type(model).__name__),
        "context_size": model.context_size,
        "is_normalized": model.is_normalized,
        "is_adaptive": model.is_adaptive,
        "kernel": getattr(model, "kernel_name", None),
        "n_params": getattr(model, "n_params", None),
    }
    if isinstance(model, NgramModel):
        facts |= _of_ngrams(model)
    elif isinstance(model, MixtureModel):
        parts = zip(model.components, model.weights_K.tolist(), strict=True)
        facts |= {
            "mixing": model.mixing,
            "parts": [{"weight": weight, **facts_of(part)} for part, weight in parts],
        }
    elif hasattr(model, "config"):
        facts["options"] = dataclasses.asdict(model.config)
    return facts


def _of_ngrams(model: Any) -> dict[str, Any]:
    """Smoothing and its options, then the facts of each order."""
    from lmzoo.ngram.sparsity import bytes_by_order

    details = dict(model.details)
    fallbacks = details.pop("fallbacks", {})
    listed = {name: details.pop(name) for name in list(details) if name in _BY_ORDER}
    sizes = [end - start for start, end in pairwise(model.trie.bounds)]
    orders = []
    for number, (n_ngrams, n_bytes) in enumerate(zip(sizes, bytes_by_order(model), strict=True), start=1):
        facts: dict[str, Any] = {"ngrams": n_ngrams, "bytes": n_bytes}
        facts |= {name: values[number - 1] for name, values in listed.items()}
        if "discounts" in listed:
            facts["fallback"] = fallbacks.get(str(number))
        orders.append(facts)
    return {"order": model.order, **details, "orders": orders}


def _vocabulary(model: LanguageModel[Any]) -> dict[str, Any]:
    vocab = model.vocab
    return {
        "symbols": len(vocab),
        "predictable": vocab.n_predictable,
        "tokenizer": vocab.tokenizer,
        "normalizer": vocab.normalizer,
        "min_freq": vocab.min_freq,
        "has_document_end": vocab.eos_id is not None,
        "own_unk": vocab.own_unk,
        "fingerprint": vocab.fingerprint,
    }


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of JSON values with their paths; places in a list are counted from 1, lists of numbers stay whole."""
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        inner = [(str(place), item) for place, item in enumerate(value, start=1)]
    else:
        yield name, _written(value)
        return
    for key, item in inner:
        yield from _flat(item, f"{name}.{key}" if name else key)


def _written(value: Any) -> str | int | float | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(f"{item:.6g}" if isinstance(item, float) else str(item) for item in value)
    return value  # type: ignore[no-any-return]
