"""The profile of a model, as records hold it: which tokens of the test text cost it how much, and how sure it was.

Sums are over all test tokens.  A passage and a sample hold text, and are absent from records of runs without text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from bench.recorded import Count, Recorded

SortedBy = Literal["frequency", "position", "order"]
# confidence is counted in so many bins of equal width (Guo et al. 2017, section 2)
N_BINS = 15
# the longest match that is looked for: so many tokens, or more
LONGEST = 6


class Bucket(Recorded):
    """Test tokens that are alike: how many, and what they cost.

    `low`, `high`: the least and the largest value of what they are sorted by; without `high` there is no largest, and
    tokens out of vocabulary, which have no value, have neither.
    """

    low: Count | None = None
    high: Count | None = None
    n_tokens: Count
    nats: float | None = Field(description="their sum; null: infinite")


class Confidence(Recorded):
    """Predictions that were about as sure of their first choice: how often it was right."""

    n_tokens: Count
    p_sum: float = Field(ge=0, description="the probabilities of the first choices, in sum")
    n_right: Count

    @model_validator(mode="after")
    def _is_share(self) -> Confidence:
        # a probability may be rounded above 1
        if self.n_right > self.n_tokens or self.p_sum > self.n_tokens * (1 + 1e-6):
            raise ValueError(f"{self.n_tokens} predictions cannot have {self.n_right} right ones, {self.p_sum} in sum")
        return self


class Passage(Recorded):
    """A passage of the test text, token by token; the same for every model of a vocabulary."""

    start: Count = Field(description="its first token's place in the test text, from 0")
    tokens: tuple[str, ...] = Field(description="as they are read; those out of vocabulary as the text has them")
    separator: str = Field(default="", description="what stands between two tokens")
    unknown: tuple[Count, ...] = Field(default=(), description="places in the passage that are out of vocabulary")
    ends: tuple[Count, ...] = Field(default=(), description="places of </s>")
    starts: tuple[Count, ...] = Field(default=(), description="places where a document starts")
    nats: tuple[float | None, ...] = Field(description="as in the evaluation; null: infinite")
    orders: tuple[Count, ...] = Field(
        default=(), description="tokens of the longest n-gram, ending there, that the training text has; 6: or more"
    )
    model_orders: tuple[Count, ...] = Field(default=(), description="order of the n-gram that a counting model took")
    choices: tuple[tuple[str, ...], ...] = Field(description="the most probable tokens at each place, at most 5")
    choices_p: tuple[tuple[float, ...], ...] = Field(description="their probabilities")

    @model_validator(mode="after")
    def _places_have_all(self) -> Passage:
        wanted = len(self.tokens)
        for name in ("nats", "choices", "choices_p"):
            if len(getattr(self, name)) != wanted:
                raise ValueError(f"a passage of {wanted} tokens has {len(getattr(self, name))} {name}")
        for name in ("orders", "model_orders"):
            if len(getattr(self, name)) not in (0, wanted):
                raise ValueError(f"a passage of {wanted} tokens has {len(getattr(self, name))} {name}")
        if any(not 0 <= place < wanted for place in (*self.unknown, *self.ends, *self.starts)):
            raise ValueError(f"a place lies outside a passage of {wanted} tokens")
        if [len(some) for some in self.choices] != [len(some) for some in self.choices_p]:
            raise ValueError("the choices and their probabilities have not the same number")
        return self


class Sample(Recorded):
    """What a model wrote; `reason`: why it could not."""

    prompt: str
    seed: Count
    text: str | None = Field(description="without the prompt; documents are separated by line ends")
    reason: str | None = None

    @model_validator(mode="after")
    def _text_or_reason(self) -> Sample:
        if self.text is None and not self.reason:
            raise ValueError("a sample without a text needs a reason")
        return self


class Profile(Recorded):
    """Where a model pays what, and how sure it is."""

    by_frequency: tuple[Bucket, ...] = Field(description="by how often the token stands in the training text")
    by_position: tuple[Bucket, ...] = Field(description="by the token's place in its document, from 1")
    by_order: tuple[Bucket, ...] = Field(
        default=(), description="by the longest n-gram, ending there, that the training text has; empty: `absent`"
    )
    confidences: tuple[Confidence, ...] = Field(
        description="N_BINS bins of equal width, from 0 to 1, over the tokens of top-1 accuracy; (low, high]"
    )
    passage: Passage | None = None
    sample: Sample | None = None
    absent: dict[str, str] = Field(default_factory=dict, description="why a part does not exist, by its name")

    @model_validator(mode="after")
    def _all_bins(self) -> Profile:
        if len(self.confidences) != N_BINS:
            raise ValueError(f"confidence has {N_BINS} bins, got {len(self.confidences)}")
        return self

    def sorted_tokens(self) -> Iterator[tuple[SortedBy, tuple[Bucket, ...]]]:
        """The buckets of each order that there is."""
        kinds: tuple[tuple[SortedBy, tuple[Bucket, ...]], ...] = (
            ("frequency", self.by_frequency),
            ("position", self.by_position),
            ("order", self.by_order),
        )
        return ((name, buckets) for name, buckets in kinds if buckets)

    def without_text(self) -> Profile:
        """The same without any word of the text."""
        return self.model_copy(update={"passage": None, "sample": None})

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error of the first choices (Guo et al. 2017, eq. 3), 0 to 1; None without any."""
        n_tokens = sum(one.n_tokens for one in self.confidences)
        # the share n/N of a bin times its |right/n - p/n|
        return math.fsum(abs(one.n_right - one.p_sum) for one in self.confidences) / n_tokens if n_tokens else None
