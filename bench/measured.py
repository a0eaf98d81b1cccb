"""What the test text of a trial gave, as records hold it: figures, their blocks, and that these add up.

`bench/records.py` has the rest of the schema, and gives these names too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field, model_validator

from bench.profiled import Profile
from bench.recorded import Count as Count
from bench.recorded import Figure as Figure
from bench.recorded import Recorded as Recorded
from lmzoo.tally import Tally

_NotNegative = Annotated[float, Field(ge=0)]
# the relative difference that the order of a sum may make
_ROUNDING = 1e-9


class TallyRecord(Recorded):
    """The sums of one scored split and what follows from them."""

    nll_nats: Figure
    n_tokens: Count
    n_chars: Count
    n_bytes: Count
    n_oov: Count
    n_zero: Count
    perplexity: Figure
    perplexity_no_oov: Figure
    bits_per_char: Figure
    bits_per_byte: Figure

    @model_validator(mode="after")
    def _figures_follow_from_the_sums(self) -> TallyRecord:
        nats = self.nll_nats.number
        if max(self.n_oov, self.n_zero) > self.n_tokens:
            raise ValueError(f"of {self.n_tokens} tokens {self.n_oov} are out of vocabulary, {self.n_zero} impossible")
        if nats is None:
            return self
        if (nats == math.inf) != (self.n_zero > 0):
            raise ValueError(f"{self.n_zero} impossible tokens cannot have {nats} nats")
        # without what spelling adds: of tokens out of vocabulary, and of white space that tokens drop
        least = Tally(nll_nats=nats, n_tokens=self.n_tokens, n_chars=self.n_chars, n_bytes=self.n_bytes)
        for name, figure, want in (
            ("perplexity", self.perplexity, least.perplexity),
            ("bits_per_char", self.bits_per_char, least.bits_per_char),
            ("bits_per_byte", self.bits_per_byte, least.bits_per_byte),
            ("perplexity_no_oov", self.perplexity_no_oov, None if self.n_oov else least.perplexity),
        ):
            got = figure.number
            if got is None or want is None or math.isclose(got, want, rel_tol=_ROUNDING):
                continue
            if not (name.startswith("bits") and got > want):
                raise ValueError(f"{name} is {got!r}, but {nats!r} nats make {want!r}")
        return self


class Repeats(Recorded):
    """Raw values of one repeated measurement, with the unit in the name of the field that holds it."""

    values: tuple[_NotNegative, ...]
    median: _NotNegative
    low_quartile: _NotNegative
    high_quartile: _NotNegative
    unstable: bool = Field(description="the interquartile range is over 10 % of the median")

    @model_validator(mode="after")
    def _are_in_order(self) -> Repeats:
        if not self.low_quartile <= self.median <= self.high_quartile:
            raise ValueError(f"a median of {self.median} is not between {self.low_quartile} and {self.high_quartile}")
        return self


# what a compressor or a model that is read may not have; each with a reason in `absent`
_MAY_BE_ABSENT = ("train_tokens", "train_tokens_per_s", "eval_tokens_per_s", "next_token_us", "next_token_us_p99")
_TEXT_FIELDS = ("text_nats", "text_chars", "text_bytes")
_BLOCK_FIELDS = tuple(f"block_{of}" for of in ("nats", "chars", "bytes", "spelling_nats", "known_nats", "known_tokens"))


def _sum_of(values: Iterable[float | None]) -> float:
    """The exact sum, rounded once; infinite where a value is null."""
    return math.fsum(math.inf if value is None else value for value in values)


class Measured(Recorded):
    """What a trial that reached its end measured."""

    test: TallyRecord
    valid: TallyRecord
    top1_accuracy: Figure
    block_nats: tuple[float | None, ...] = Field(
        description="nats of each block of the test part; null: infinite; empty: `absent` has the reason"
    )
    block_tokens: tuple[Count, ...]
    # a value for each block, in the order of `block_nats`; empty in records of schema 1
    block_chars: tuple[float, ...] = Field(default=(), description="characters; empty where nothing is divided by them")
    block_bytes: tuple[float, ...] = Field(default=(), description="bytes; empty where nothing is divided by them")
    block_spelling_nats: tuple[float, ...] = Field(default=(), description="what spelling its OOV tokens costs")
    block_known_nats: tuple[float | None, ...] = Field(default=(), description="nats without OOV; null: infinite")
    block_known_tokens: tuple[Count, ...] = Field(default=(), description="tokens that are in the vocabulary")
    # pieces of long documents, cut at the same characters whatever the tokenizer; empty where blocks are documents
    text_nats: tuple[float | None, ...] = Field(default=(), description="nats, spelling included; null: infinite")
    text_chars: tuple[Count, ...] = ()
    text_bytes: tuple[Count, ...] = Field(default=(), description="empty where nothing is divided by them")
    device_agreement: Figure = Field(
        default=Figure(reason="not measured"),
        description="largest difference of ln p, over a fixed sample, of the model on its device and loaded on the CPU",
    )
    n_params: Count | None
    model_bytes: Figure
    train_tokens: Count | None = None
    train_tokens_per_s: _NotNegative | None = None
    eval_tokens_per_s: Repeats | None = None
    next_token_us: Repeats | None = Field(
        default=None, description="microseconds from a state to the next token's distribution and state"
    )
    next_token_us_p99: _NotNegative | None = None
    profile: Profile | None = Field(default=None, description="None: no distribution, or a record before schema 4")
    checks: dict[str, str] = Field(default_factory=dict, description="what came of each check of probabilities")
    absent: dict[str, str] = Field(default_factory=dict, description="why a figure does not exist, by its name")
    kernel: str
    kept: str = Field(description="whose weights were scored: 'last', or 'best validation at N s'")

    @model_validator(mode="after")
    def _accuracy_is_a_share(self) -> Measured:
        share = self.top1_accuracy.number
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"top1_accuracy is a share of 0 to 1, got {share}")
        return self

    @model_validator(mode="after")
    def _what_is_absent_has_a_reason(self) -> Measured:
        for name in _MAY_BE_ABSENT:
            if getattr(self, name) is None and name not in self.absent:
                raise ValueError(f"{name} is missing, and nothing says why")
        return self

    @model_validator(mode="after")
    def _blocks_add_up(self) -> Measured:
        """What was altered or half written shows: the blocks are the test text, in every unit that they have."""
        if "block_nats" in self.absent:
            held = [name for name in (*_BLOCK_FIELDS, *_TEXT_FIELDS, "block_tokens") if getattr(self, name)]
            if held:
                raise ValueError(f"there are no blocks ({self.absent['block_nats']}), but {held[0]} holds some")
            return self
        if len(self.text_nats) != len(self.text_chars) or len(self.text_bytes) not in (0, len(self.text_nats)):
            raise ValueError("the pieces of the text have not all the same number")
        lengths = {name: len(getattr(self, name)) for name in _BLOCK_FIELDS}
        wanted = len(self.block_tokens)
        uneven = [name for name, n in lengths.items() if n != wanted and (n or name == "block_nats")]
        if uneven:
            raise ValueError(f"{wanted} blocks have tokens, but {uneven[0]} holds {lengths[uneven[0]]} values")
        for name, got, want, tolerance in self._sums():
            # an infinite sum equals only an infinite one
            if got != want and not abs(got - want) <= tolerance * abs(want):
                raise ValueError(f"{name}: the blocks' sum is {got!r}, that of the test text is {want!r}")
        return self

    def _sums(self) -> Iterator[tuple[str, float, float, float]]:
        """Each sum over the blocks with what the tally says of it, and the relative difference allowed."""
        yield from self._sums_of_tokens()
        yield from self._sums_of_text()
        yield from self._sums_of_profile()

    def _sums_of_profile(self) -> Iterator[tuple[str, float, float, float]]:
        test, profile = self.test, self.profile
        if profile is None:
            return
        for kind, buckets in profile.sorted_tokens():
            yield f"tokens by {kind}", sum(bucket.n_tokens for bucket in buckets), test.n_tokens, 0.0
            if test.nll_nats.number is not None:
                yield f"nats by {kind}", _sum_of(bucket.nats for bucket in buckets), test.nll_nats.number, _ROUNDING
        n_guesses = sum(one.n_tokens for one in profile.confidences)
        if n_guesses and self.top1_accuracy.value is not None:
            n_right = sum(one.n_right for one in profile.confidences)
            yield "right guesses", n_right, self.top1_accuracy.value * n_guesses, _ROUNDING

    def _sums_of_tokens(self) -> Iterator[tuple[str, float, float, float]]:
        test = self.test
        yield "tokens", sum(self.block_tokens), test.n_tokens, 0.0
        if test.nll_nats.number is not None:
            yield "nats", _sum_of(self.block_nats), test.nll_nats.number, _ROUNDING
        if self.block_known_tokens:
            yield "known tokens", sum(self.block_known_tokens), test.n_tokens - test.n_oov, 0.0
        if self.block_known_nats and test.perplexity_no_oov.value is not None:
            n_known = test.n_tokens - test.n_oov
            nats = n_known * math.log(test.perplexity_no_oov.value)
            yield "known nats", _sum_of(self.block_known_nats), nats, _ROUNDING

    def _sums_of_text(self) -> Iterator[tuple[str, float, float, float]]:
        test, nats = self.test, _sum_of(self.block_nats)
        for name, got, want, tolerance in (
            ("characters", self.block_chars, test.n_chars, 1e-6),
            ("bytes", self.block_bytes, test.n_bytes, 1e-6),
            ("characters of pieces", self.text_chars, test.n_chars, 0.0),
            ("bytes of pieces", self.text_bytes, test.n_bytes, 0.0),
        ):
            if got:
                yield name, _sum_of(got), want, tolerance
        for size, bits in ((test.n_chars, test.bits_per_char.value), (test.n_bytes, test.bits_per_byte.value)):
            if self.block_spelling_nats and bits is not None:
                yield "spelling", nats + _sum_of(self.block_spelling_nats), bits * size * math.log(2), _ROUNDING
            if self.text_nats and bits is not None:
                yield "nats of pieces", _sum_of(self.text_nats), bits * size * math.log(2), _ROUNDING
