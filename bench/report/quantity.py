"""A figure of `report.json`: JSON has neither NaN nor infinity, so a number that is missing or infinite is null."""

from __future__ import annotations

from pydantic import model_validator

from bench.records import Recorded


class Quantity(Recorded):
    """A figure with the ends of its 95 % interval, where it has one; null: the reason says why."""

    value: float | int | None = None
    infinite: bool = False
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Quantity:
        if self.value is None and not self.reason:
            raise ValueError("a quantity without a value needs a reason")
        return self
