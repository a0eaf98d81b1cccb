"""Options of a counting model; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmzoo.errors import OptionValueError

Smoothing = Literal["mkn", "addk", "mle"]

MAX_ORDER = 32


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """An n-gram model.

    Attributes:
        order: n, 1 to 32; the context is n-1 tokens.
        smoothing: `mkn` interpolated modified Kneser-Ney; `addk` (c + k) / (C + k V); `mle` relative frequency.
        k: of `addk`; None: fitted on the validation text.
        discounts: of `mkn`; `exact`: from the counts of counts as defined; `kenlm`: as KenLM estimates them, taking
            the plain count of the very last n-gram of each lower order (its figures come out to the last digit).
    """

    order: int = 5
    smoothing: Smoothing = "mkn"
    k: float | None = None
    discounts: Literal["exact", "kenlm"] = "exact"

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            raise OptionValueError(f"order must be 1 to {MAX_ORDER}, got {self.order}")
        if self.k is not None and self.smoothing != "addk":
            raise OptionValueError(f"k belongs to smoothing=addk, got smoothing={self.smoothing}")
        if self.discounts != "exact" and self.smoothing != "mkn":
            raise OptionValueError(f"discounts belongs to smoothing=mkn, got smoothing={self.smoothing}")
        if self.k is not None and not 0 < self.k < float("inf"):
            raise OptionValueError(f"k must be above 0 and finite, got {self.k}; for k = 0 take smoothing=mle")
