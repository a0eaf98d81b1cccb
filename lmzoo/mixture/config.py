"""Options of a mixture; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lmzoo.errors import OptionValueError, described, did_you_mean

Kind = Literal["linear", "loglinear"]
Weights = Literal["one", "context"]
KINDS: tuple[str, ...] = get_args(Kind)
WEIGHTS: tuple[str, ...] = get_args(Weights)


@dataclass(frozen=True, kw_only=True)
class MixtureConfig:
    """A mixture.

    Attributes:
        kind: linear (a weighted mean of probabilities; Jelinek & Mercer 1980) or loglinear (a weighted product,
            normalised; Klakow 1998).
        weights: `one` for each part, or `context`: others where the parts know more or less of what was said before,
            such as a longer n-gram that training had (Jelinek & Mercer 1980).  None: `context` where `kind` is linear.
        parts: the config of each part, by its spec.
    """

    kind: Kind = "linear"
    weights: Weights | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice(self.kind, "kind", KINDS)
        if self.weights is not None:
            require_choice(self.weights, "weights", WEIGHTS)
        require_distributions(
            {name: getattr(part, "is_normalized", True) for name, part in self.parts.items()}, self.kind
        )
        if self.weights == "context" and self.kind != "linear":
            raise OptionValueError(f"weights=context belongs to kind=linear, got kind={self.kind}")

    @property
    def by_context(self) -> bool:
        """Whether there are weights for each class of contexts."""
        return self.kind == "linear" and self.weights != "one"


def require_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise `OptionValueError` for what is none of the values that an option of a mixture has."""
    if not isinstance(value, str) or value not in choices:
        close = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise OptionValueError(f"{name} of mixture is one of {', '.join(choices)}, got {described(value)}.{close}")


def require_distributions(is_normalized: Mapping[str, bool], kind: Kind) -> None:
    """Raise `OptionValueError` for a linear mixture of what are no distributions.

    Weights are fitted to what is gained by being right, and scores that sum to more than 1 gain without.

    Args:
        is_normalized: of each model, by what a message calls it.
    """
    odd = [name for name, is_one in is_normalized.items() if not is_one]
    if odd and kind == "linear":
        raise OptionValueError(
            f"the scores of {', '.join(odd)} do not sum to 1, so they have no weight in a mean of probabilities; "
            "leave it out, or take kind=loglinear (--kind loglinear), which makes them sum to 1"
        )
