"""Tally: sums of nats and counts.  The only place where perplexity is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lmzoo.errors import NotNormalizedError, TallyMismatchError

_NO_ENDS = "this model predicts no line ends, which are a part of the text (--documents file)"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What scoring a text gave: sums first, divided last.  Tallies of like texts add; `Tally()` is zero.

    Attributes:
        nll_nats: -ln p summed over every token; infinite if any token was impossible.
        n_tokens: tokens scored, `</s>` among them, `<s>` not.
        n_chars: characters of the normalised text.
        n_bytes: UTF-8 bytes of the text as read.
        n_oov, oov_nll_nats: the out-of-vocabulary tokens, and their part of `nll_nats`.
        n_zero, n_oov_zero: tokens of probability zero, and how many of them are out of vocabulary.
        finite_nll_nats: nats of the tokens that were possible and in the vocabulary.
        spelling_nats: what it costs to spell the OOV tokens, and to tell the white space at the ends of documents that
            tokens drop; added for the measures per character and byte.
        unit: vocabulary fingerprint; tallies of different units do not add.
        chars_known, bytes_known: whether the tokens give back the text, so that nats may be divided by its size.
        ends_known: whether the model predicts the line ends of the text; by what nobody pays for nothing is divided.
        tokens_known: whether the nats are those of the tokens and no more, so that they may be divided by their number.
        code_known: whether the nats are told at all: a code counted in whole bytes may take none for a few characters.
        is_normalized: False if any part came from a model whose scores are no distribution.
    """

    nll_nats: float = 0.0
    n_tokens: int = 0
    n_chars: int = 0
    n_bytes: int = 0
    n_oov: int = 0
    oov_nll_nats: float = 0.0
    n_zero: int = 0
    n_oov_zero: int = 0
    finite_nll_nats: float | None = None
    spelling_nats: float = 0.0
    unit: str = ""
    chars_known: bool = True
    bytes_known: bool = True
    ends_known: bool = True
    tokens_known: bool = True
    code_known: bool = True
    is_normalized: bool = True

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if self.unit and other.unit and self.unit != other.unit:
            raise TallyMismatchError(f"tallies over vocabularies {self.unit} and {other.unit} cannot be added")
        return Tally(
            nll_nats=self.nll_nats + other.nll_nats,
            n_tokens=self.n_tokens + other.n_tokens,
            n_chars=self.n_chars + other.n_chars,
            n_bytes=self.n_bytes + other.n_bytes,
            n_oov=self.n_oov + other.n_oov,
            oov_nll_nats=self.oov_nll_nats + other.oov_nll_nats,
            n_zero=self.n_zero + other.n_zero,
            n_oov_zero=self.n_oov_zero + other.n_oov_zero,
            finite_nll_nats=self._finite_nll_nats + other._finite_nll_nats,
            spelling_nats=self.spelling_nats + other.spelling_nats,
            unit=self.unit or other.unit,
            chars_known=self.chars_known and other.chars_known,
            bytes_known=self.bytes_known and other.bytes_known,
            ends_known=self.ends_known and other.ends_known,
            tokens_known=self.tokens_known and other.tokens_known,
            code_known=self.code_known and other.code_known,
            is_normalized=self.is_normalized and other.is_normalized,
        )

    def __radd__(self, other: object) -> Tally:
        # so that sum(tallies) works without a start
        return self if other == 0 else NotImplemented

    @property
    def perplexity(self) -> float:
        """exp(nats / token); infinite if any token was impossible.  Raises `NotNormalizedError`."""
        return _perplexity(self._of_tokens().nll_nats, self.n_tokens)

    @property
    def perplexity_no_oov(self) -> float:
        """The same over the tokens that are in the vocabulary: their nats over their number."""
        known_zero = self._of_tokens().n_zero > self.n_oov_zero
        return _perplexity(math.inf if known_zero else self._finite_nll_nats, self.n_tokens - self.n_oov)

    @property
    def nats_per_token(self) -> float:
        return self.nll_nats / self.n_tokens if self.n_tokens else math.nan

    @property
    def bits_per_char(self) -> float | None:
        """Bits per character of the normalised text, every `<unk>` charged its spelling; None: see the reason."""
        return None if self.bits_per_char_reason else self._bits() / self.n_chars

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per UTF-8 byte of the text as read, every `<unk>` charged its spelling; None: see the reason."""
        return None if self.bits_per_byte_reason else self._bits() / self.n_bytes

    @property
    def perplexity_reason(self) -> str | None:
        """Why there is no perplexity although these are probabilities, or None."""
        if self.code_reason:
            return self.code_reason
        if self.tokens_known:
            return None
        return "the code is that of the text, which the tokens do not give back"

    @property
    def code_reason(self) -> str | None:
        """Why nothing can be said of the nats, or None."""
        return None if self.code_known else "the test text is too short for a code that is counted in whole bytes"

    @property
    def bits_per_char_reason(self) -> str | None:
        """Why there is no `bits_per_char`, or None."""
        if self.code_reason:
            return self.code_reason
        if not self.chars_known:
            return "the tokens do not give back the normalised text"
        if not self.ends_known:
            return _NO_ENDS
        return None if self.n_chars else "no characters were counted"

    @property
    def bits_per_byte_reason(self) -> str | None:
        """Why there is no `bits_per_byte`, or None."""
        if self.code_reason:
            return self.code_reason
        if not self.chars_known:
            return "the tokens do not give back the text as read"
        if not self.ends_known:
            return _NO_ENDS
        if not self.bytes_known:
            return "the normaliser does not give back the text as read"
        return None if self.n_bytes else "no bytes were counted"

    @property
    def _finite_nll_nats(self) -> float:
        if self.finite_nll_nats is not None:
            return self.finite_nll_nats
        return self.nll_nats - self.oov_nll_nats if math.isfinite(self.nll_nats) else 0.0

    def _bits(self) -> float:
        return (self._distribution().nll_nats + self.spelling_nats) / math.log(2)

    def _of_tokens(self) -> Tally:
        if self.perplexity_reason:
            cure = "take a longer one" if self.code_reason else "take bits_per_char or bits_per_byte"
            raise NotNormalizedError(f"{self.perplexity_reason}: {cure}")
        return self._distribution()

    def _distribution(self) -> Tally:
        if not self.is_normalized:
            raise NotNormalizedError("these scores do not sum to 1 over the vocabulary, so they have no perplexity")
        return self


def _perplexity(nll_nats: float, n_tokens: int) -> float:
    if not n_tokens:
        return math.nan
    try:
        return math.exp(nll_nats / n_tokens)
    except OverflowError:
        return math.inf
