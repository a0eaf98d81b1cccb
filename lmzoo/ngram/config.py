"""Options of a counting model; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmzoo.errors import OptionValueError

Smoothing = Literal["mkn", "kn", "ad", "wb", "jm", "katz", "addk", "mle", "sb"]

MAX_ORDER = 32
# beyond it the distribution is uniform to the last digit
_MOST_K = 1e12
# those that take discounts off counts, so that interpolated= and discounts= have a meaning
_DISCOUNTING = ("mkn", "kn", "ad")


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """An n-gram model.

    Attributes:
        order: n, 1 to 32; the context is n-1 tokens.
        smoothing: `mkn` modified Kneser-Ney, `kn` Kneser-Ney with one discount, `ad` absolute discounting, `wb`
            Witten-Bell, `jm` Jelinek-Mercer, `katz` Katz with Good-Turing discounts, `addk` (c + k) / (C + k V), `mle`
            relative frequency, `sb` stupid backoff (no distribution: it has no perplexity).
        k: of `addk`; None: fitted on the validation text.
        interpolated: of `mkn`, `kn`, `ad`: lower orders join in everywhere, not only where a token was never seen.
        discounts: of `mkn`, `kn`, `ad`; `exact`: from the counts of counts as defined; `tuned`: fitted on the
            validation text; `kenlm` (`mkn` only): as KenLM estimates them, taking the plain count of the very last
            n-gram of each lower order (its figures come out to the last digit).
        cutoffs: keep n-grams seen at least so often, a number for each order and the last for all above: 1/1/2.
        prune: take out n-grams whose removal raises the model's own perplexity by a smaller share than this: 1e-8.
        max_ngrams: take out those that matter least until so many are left, single symbols included.
    """

    order: int = 5
    smoothing: Smoothing = "mkn"
    k: float | None = None
    interpolated: bool = True
    discounts: Literal["exact", "tuned", "kenlm"] = "exact"
    cutoffs: str | None = None
    prune: float | None = None
    max_ngrams: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            raise OptionValueError(f"order must be 1 to {MAX_ORDER}, got {self.order}")
        if self.k is not None and self.smoothing != "addk":
            raise OptionValueError(f"k belongs to smoothing=addk, got smoothing={self.smoothing}")
        if self.k is not None and not 0 < self.k <= _MOST_K:
            raise OptionValueError(f"k must be above 0 and at most {_MOST_K:g}, got {self.k}; for 0 take smoothing=mle")
        self._check_discounting()
        self._check_pruning()

    @property
    def least_counts(self) -> list[int]:
        """`cutoffs` as numbers; [1] where there are none."""
        return [int(part) for part in (self.cutoffs or "1").split("/")]

    @property
    def is_pruned(self) -> bool:
        return any(option is not None for option in (self.cutoffs, self.prune, self.max_ngrams))

    def _check_pruning(self) -> None:
        if self.is_pruned and self.smoothing in ("mle", "sb"):
            raise OptionValueError(
                f"a model of smoothing={self.smoothing} cannot be pruned: it has no mass to give back"
            )
        if self.cutoffs is not None and not all(part.isdecimal() for part in self.cutoffs.split("/")):
            raise OptionValueError(f"cutoffs are numbers such as 1/1/2, got {self.cutoffs!r}")
        if self.prune is not None and not 0 <= self.prune < float("inf"):
            raise OptionValueError(f"prune must be a number of at least 0, got {self.prune}")
        if self.max_ngrams is not None and self.max_ngrams < 1:
            raise OptionValueError(f"max_ngrams must be at least 1, got {self.max_ngrams}")

    def _check_discounting(self) -> None:
        for name, is_given in (("interpolated=false", not self.interpolated), ("discounts", self.discounts != "exact")):
            if is_given and self.smoothing not in _DISCOUNTING:
                raise OptionValueError(
                    f"{name} belongs to smoothing={', '.join(_DISCOUNTING)}, got smoothing={self.smoothing}"
                )
        if self.discounts == "kenlm" and self.smoothing != "mkn":
            raise OptionValueError(f"discounts=kenlm belongs to smoothing=mkn, got smoothing={self.smoothing}")
        if self.discounts == "tuned" and not self.interpolated:
            raise OptionValueError("discounts=tuned belongs to interpolated=true, got interpolated=false")
