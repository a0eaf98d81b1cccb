"""What all that a run writes has in common: frozen values in bounds that all can hold, and figures with reasons."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

# how many there are of something, bytes too: what a signed 64-bit integer holds, and so any float nearly
Count = Annotated[int, Field(ge=0, lt=2**63)]
# a share of the whole that there is something of
Fraction = Annotated[float, Field(gt=0, le=1)]


class Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Figure(Recorded):
    """A number, or why there is none.  `infinite`: the value is infinity, which JSON cannot hold."""

    value: float | None = None
    infinite: bool = False
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Figure:
        if self.value is None and not self.reason:
            raise ValueError("a figure without a value needs a reason")
        if self.value is not None and self.infinite:
            raise ValueError(f"a figure is {self.value} or infinite, not both")
        return self

    @property
    def number(self) -> float | None:
        """The value, `inf`, or None where there is none."""
        return math.inf if self.infinite else self.value

    @classmethod
    def of(cls, value: float | None, reason: str | None = None) -> Figure:
        """A figure of any float; infinite and NaN ones become null with a reason."""
        if value is None:
            return cls(reason=reason or "not measured")
        if math.isnan(value):
            return cls(reason=reason or "not a number")
        if math.isinf(value):
            return cls(infinite=True, reason=reason or "infinite")
        return cls(value=value)
