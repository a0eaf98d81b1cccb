"""Options of a counting model; imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lmzoo.errors import OptionValueError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)B?", re.IGNORECASE)
_MOST_BYTES = 1 << 60
# below it, reading and writing in small pieces takes all the time
LEAST_MEMORY = 16 << 20

Smoothing = Literal["mkn", "kn", "ad", "wb", "jm", "katz", "addk", "mle", "sb"]

# relative frequencies have no mass to hand down, stupid backoff no mass at all
WITHOUT_MASS = ("mle", "sb")
# whose scores are no distribution, so that they have no perplexity
UNNORMALIZED = ("sb",)

MAX_ORDER = 32
# beyond it the distribution is uniform to the last digit
_MOST_K = 1e12
# of a rounded ln p
LEAST_BITS, MOST_BITS = 8, 16
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
        max_bytes: take out those that matter least until the model's file has at most so many bytes: 2M, or a number.
        bits: round every ln p to so many bits, 8 to 16; one byte holds 8, two hold the others.
        max_memory: count and smooth in so many bytes beside the text's ids, the rest on disk: 200M, 1.5G, or a number
            of bytes.  The model is the same to the last bit.
    """

    order: int = 5
    smoothing: Smoothing = "mkn"
    k: float | None = None
    interpolated: bool = True
    discounts: Literal["exact", "tuned", "kenlm"] = "exact"
    cutoffs: str | None = None
    prune: float | None = None
    max_ngrams: int | None = None
    max_bytes: str | int | None = None
    bits: int | None = None
    max_memory: str | int | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.order, "__index__"):
            raise OptionValueError(f"order must be a whole number, got {self.order}")
        if not 1 <= self.order <= MAX_ORDER:
            raise OptionValueError(f"order must be 1 to {MAX_ORDER}, got {self.order}")
        if self.k is not None and self.smoothing != "addk":
            raise OptionValueError(f"k belongs to smoothing=addk, got smoothing={self.smoothing}")
        if self.k is not None and not 0 < self.k <= _MOST_K:
            raise OptionValueError(f"k must be above 0 and at most {_MOST_K:g}, got {self.k}; for 0 take smoothing=mle")
        self._check_discounting()
        self._check_pruning()
        self._check_memory()

    @property
    def is_normalized(self) -> bool:
        """Whether the model is a distribution; stupid backoff to anything is none."""
        return self.smoothing != "sb" or self.order == 1

    @property
    def fitted(self) -> str | None:
        """What is fitted on validation text, or None."""
        if self.smoothing == "addk" and self.k is None:
            return "the k of smoothing=addk"
        if self.discounts == "tuned":
            return "discounts=tuned"
        return "smoothing=jm" if self.smoothing == "jm" else None

    @property
    def max_memory_bytes(self) -> int | None:
        """`max_memory` as a number."""
        return None if self.max_memory is None else memory_bytes(self.max_memory)

    @property
    def max_file_bytes(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else size_in_bytes(self.max_bytes, "max_bytes")

    @property
    def least_counts(self) -> list[int]:
        """`cutoffs` as numbers; [1] where there are none."""
        return [int(part) for part in (self.cutoffs or "1").split("/")]

    @property
    def is_pruned(self) -> bool:
        return any(option is not None for option in (self.cutoffs, self.prune, self.max_ngrams, self.max_bytes))

    def _check_pruning(self) -> None:
        if self.is_pruned and self.smoothing in WITHOUT_MASS:
            raise OptionValueError(
                f"a model of smoothing={self.smoothing} cannot be pruned: it has no mass to give back"
            )
        if self.cutoffs is not None and not all(part.isdecimal() for part in self.cutoffs.split("/")):
            raise OptionValueError(f"cutoffs are numbers such as 1/1/2, got {self.cutoffs!r}")
        if self.prune is not None and not 0 <= self.prune < float("inf"):
            raise OptionValueError(f"prune must be a number of at least 0, got {self.prune}")
        if self.max_ngrams is not None and self.max_ngrams < 1:
            raise OptionValueError(f"max_ngrams must be at least 1, got {self.max_ngrams}")
        if self.max_file_bytes == 0:
            raise OptionValueError("max_bytes must be at least 1, got 0")
        if self.bits is not None and not LEAST_BITS <= self.bits <= MOST_BITS:
            raise OptionValueError(f"bits must be {LEAST_BITS} to {MOST_BITS}, got {self.bits}")

    def _check_memory(self) -> None:
        if self.max_memory_bytes is None:
            return
        unbounded = {
            self.fitted: self.fitted,
            "discounts=kenlm": self.discounts == "kenlm",
            "cutoffs": self.cutoffs,
            "prune": self.prune is not None,
            "max_ngrams": self.max_ngrams,
            "max_bytes": self.max_bytes,
            "bits": self.bits,
        }
        needing = next((name for name, is_given in unbounded.items() if is_given), None)
        if needing is not None:
            raise OptionValueError(f"{needing} needs the whole model in memory, so it does not go with max_memory")

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


def memory_bytes(size: str | int) -> int:
    """The bytes of a size of memory.  Raises `OptionValueError`."""
    n_bytes = size_in_bytes(size, "max_memory")
    if n_bytes < LEAST_MEMORY:
        raise OptionValueError(
            f"max_memory must be at least {LEAST_MEMORY >> 20}M, got {size}: with less, files would be read and "
            f"written a few bytes at a time"
        )
    return n_bytes


def size_in_bytes(size: str | int, name: str) -> int:
    """The bytes of a size such as 64M, 1.5G or 200000000; `name` is the option's.  Raises `OptionValueError`."""
    found = _SIZE.fullmatch(str(size).strip())
    if found is None:
        raise OptionValueError(f"{name} is a size such as 200M, 1.5G or a number of bytes, got {size!r}")
    n_bytes = float(found[1]) * _UNITS[found[2].upper()]
    if n_bytes > _MOST_BYTES:
        raise OptionValueError(f"{name} is at most {_MOST_BYTES >> 40}T, got {str(size)[:20]}…")
    return int(n_bytes)
