"""What a search may try: for each kind of model its options and their ranges, as tables.  Loads no library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmzoo.errors import InputError, did_you_mean
from lmzoo.ngram.config import UNNORMALIZED
from lmzoo.registry import find_entry
from lmzoo.spec import Spec, quoted

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

# of an option, as records hold it
Value = str | int | float | bool | None

_DIGITS = 3


class SpaceError(InputError):
    """A model, or an option, that no search knows how to vary."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """All numbers from `low` to `high`; `log`: each doubling of them as likely as another."""

    low: float
    high: float
    log: bool = False

    def suggest(self, trial: BaseTrial, name: str) -> Value:
        """A number of few digits, so that it can be typed."""
        found = float(f"{trial.suggest_float(name, self.low, self.high, log=self.log):.{_DIGITS}g}")
        return min(max(found, self.low), self.high)

    def including(self, value: Value) -> Dimension:
        """The same, wide enough for a value.  What is no number, or 0 on a logarithmic scale, stays outside."""
        if isinstance(value, bool) or not isinstance(value, int | float) or (self.log and value <= 0):
            return self
        return Numbers(low=min(self.low, value), high=max(self.high, value), log=self.log)

    def holds(self, value: Value) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', logarithmic' if self.log else ''}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of some values."""

    values: tuple[Value, ...]

    def suggest(self, trial: BaseTrial, name: str) -> Value:
        value: Value = trial.suggest_categorical(name, self.values)
        return value

    def including(self, value: Value) -> Dimension:
        """The same, with a value among them."""
        return self if value in self.values else Choice(values=(value, *self.values))

    def holds(self, value: Value) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ", ".join(map(shown_value, self.values))


Dimension = Numbers | Choice
Space = Mapping[str, Dimension]


def _powers(*values: int) -> Choice:
    return Choice(values=values)


_DROPOUTS = Choice(values=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
_TRAINING: Space = {
    "lr": Numbers(low=5e-4, high=0.05, log=True),
    "batch_size": _powers(8, 16, 32, 64),
    "clip": Choice(values=(0.25, 0.5, 1.0, 2.0, 5.0)),
    "dropout_input": _DROPOUTS,
    "dropout_hidden": _DROPOUTS,
    "dropout_output": _DROPOUTS,
    "schedule": Choice(values=("constant", "cosine", "trapezoid")),
    "averaging": Choice(values=(0.0, 4.0, 8.0, 16.0)),
    "label_smoothing": Choice(values=(0.0, 0.01, 0.03)),
}
# by the class of a model's options
SPACES: Mapping[str, Space] = {
    "RecurrentConfig": {
        **_TRAINING,
        "hidden": _powers(96, 128, 192, 256, 384, 512, 768),
        "layers": _powers(1, 2),
        "embedding": _powers(16, 32, 64, 128, 256),
        "num_steps": _powers(16, 32, 64, 96),
        "num_steps_spread": Choice(values=(0.0, 0.3)),
        "weight_drop": _DROPOUTS,
    },
    "WindowConfig": {
        **_TRAINING,
        "batch_size": _powers(64, 128, 256, 512),
        "hidden": _powers(128, 192, 256, 384, 512, 768),
        "layers": _powers(1, 2, 3),
        "embedding": _powers(8, 16, 32, 64, 128),
        "context_size": _powers(4, 6, 8, 10, 12, 16),
        "variant": Choice(values=("plain", "residual")),
    },
    "TransformerConfig": {
        **_TRAINING,
        # an even multiple of each number of heads
        "hidden": _powers(32, 48, 64, 96, 128, 192),
        "layers": _powers(1, 2, 3, 4),
        "heads": _powers(2, 4, 8),
        "context_size": _powers(33, 65, 129, 257),
        "num_steps": _powers(16, 32, 64, 96),
    },
    "NgramConfig": {
        "order": _powers(2, 3, 4, 5, 6, 7, 8, 9),
        "smoothing": Choice(values=("mkn", "kn", "ad", "wb", "jm", "katz")),
        "discounts": Choice(values=("exact", "tuned")),
        "cutoffs": Choice(values=(None, "1/1/2", "1/1/1/2", "1/2")),
    },
}


def space_of(spec: Spec, default: Mapping[str, Value], *, only: Sequence[str] = ()) -> Space:
    """What is searched for a model: its table without what its name or its spec fixes, wide enough for its default.

    Args:
        default: every option of the model as the spec alone resolves it.
        only: names of options; where there are any, the others keep their defaults.

    Raises `SpaceError` for a model without a table or without a perplexity, an option that is none of it, and where
    nothing is left.
    """
    entry = find_entry(spec.name)
    table = SPACES.get(entry.config.rpartition(":")[2])
    if table is None:
        known = "networks such as lstm-scratch, and counting models such as ngram"
        raise SpaceError(f"there is no search space for {spec.name}; there are for {known}")
    if default.get("smoothing") in UNNORMALIZED:
        raise SpaceError(
            f"scores of smoothing={default['smoothing']} are no distribution, so {spec.text} has no perplexity to "
            "search by; take another smoothing, such as smoothing=wb"
        )
    free = {name: dimension for name, dimension in table.items() if name not in {*entry.fixed, *spec.options}}
    unknown = next((name for name in only if name not in free), None)
    if unknown is not None:
        why = "is fixed in the model" if unknown in table else "is not among what is searched"
        raise SpaceError(f"{unknown!r} {why}.{did_you_mean(unknown, free)} There are: {', '.join(free) or 'none'}")
    space = {name: dimension.including(default[name]) for name, dimension in free.items() if not only or name in only}
    space = {name: dimension for name, dimension in space.items() if _can_vary(dimension)}
    if not space:
        raise SpaceError(f"everything of {spec.text} is fixed: nothing is left to search; leave an option out")
    return space


def _can_vary(dimension: Dimension) -> bool:
    if isinstance(dimension, Choice):
        return len(dimension.values) > 1
    return dimension.low < dimension.high


def with_options(spec: Spec, options: Mapping[str, Value]) -> str:
    """The text of a spec with more options."""
    items = [] if spec.value is None else [quoted(spec.value)]
    given = {key: quoted(value) for key, value in spec.options.items()}
    items += [f"{key}={text}" for key, text in {**given, **_typed(options)}.items()]
    return f"{spec.name}:{','.join(items)}" if items else spec.name


def _typed(options: Mapping[str, Value]) -> dict[str, str]:
    return {key: quoted(shown_value(value)) for key, value in options.items()}


def shown_value(value: Value) -> str:
    """A value as a spec has it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
