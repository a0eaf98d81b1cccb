"""What all that a run writes has in common: frozen values without NaN and infinity, and figures with reasons."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, model_validator


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
