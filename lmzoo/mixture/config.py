"""Options of a mixture; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lmzoo.errors import OptionValueError

Kind = Literal["linear", "loglinear"]


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
    weights: Literal["one", "context"] | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weights == "context" and self.kind != "linear":
            raise OptionValueError(f"weights=context belongs to kind=linear, got kind={self.kind}")

    @property
    def by_context(self) -> bool:
        """Whether there are weights for each class of contexts."""
        return self.kind == "linear" and self.weights != "one"
