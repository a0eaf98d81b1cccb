"""The profiles in `report.json`: what kinds of tokens cost, how sure a model was, a passage and a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from bench.profiled import N_BINS, Confidence, SortedBy
from bench.records import Recorded
from bench.report.passages import passage_of, sharing
from bench.report.profiles import (
    Cost,
    calibration_error_of,
    confidences_of,
    costs_of,
    guesses_of,
    profiles_of,
    sample_of,
    sums_to_one,
)
from bench.report.quantity import Quantity
from bench.report.rows import Row

_KINDS: Sequence[SortedBy] = ("frequency", "position", "order")
_IMPOSSIBLE = Quantity(infinite=True, reason="impossible tokens")


class CostDocument(Recorded):
    """Test tokens that are alike: `low` and `high` are the ends of their values; without both, out of vocabulary."""

    low: int | None
    high: int | None
    n_tokens: int
    bits_per_token: Quantity


class ConfidenceDocument(Recorded):
    """Predictions that were about as sure of their first choice."""

    confidence_low: float
    confidence_high: float
    n_tokens: int
    mean_confidence: float
    accuracy: float


class SampleDocument(Recorded):
    """What a model wrote after the prompt; without a text, the reason says why."""

    prompt: str
    seed: int
    text: str | None
    reason: str | None


class SeenDocument(Recorded):
    """What a model made of the passage: a value for each of its tokens."""

    bits: tuple[float | None, ...] = Field(description="null: it held the token impossible")
    matched_order: tuple[int, ...] = Field(description="of the n-gram that a counting model took; empty: not told")
    likeliest: tuple[str | None, ...] = Field(description="null: no token was")
    likeliest_p: tuple[float | None, ...]


class ProfileDocument(Recorded):
    """Where a row pays what, its seeds joined; `seen` is null where it is not ranked, or of another passage."""

    costs: dict[SortedBy, tuple[CostDocument, ...]]
    calibration_error: float | None
    mean_confidence: float | None
    accuracy: float | None = Field(description="of the first choices whose confidence was counted")
    confidences: tuple[ConfidenceDocument, ...]
    sums_to_one: str = Field(description="passed, failed, expected, skipped; empty: not told")
    sample: SampleDocument | None
    seen: SeenDocument | None


class PassageDocument(Recorded):
    """A passage of the test text; `start` is its first token's place in it, from 0."""

    start: int
    tokens: tuple[str, ...]
    separator: str
    unknown: tuple[int, ...] = Field(description="places in it, from 0, that are out of vocabulary")
    ends: tuple[int, ...] = Field(description="places of </s>")
    longest_match: tuple[int, ...] = Field(description="tokens, 6: or more; empty: not told")


def passage_document(rows: Sequence[Row]) -> PassageDocument | None:
    """The passage that the rows of a text share, if their records have one."""
    shared = sharing(rows)
    if not shared:
        return None
    first = shared[0][1]
    return PassageDocument(
        start=first.start,
        tokens=first.tokens,
        separator=first.separator,
        unknown=first.unknown,
        ends=first.ends,
        longest_match=first.orders,
    )


def profile_document(row: Row, *, is_sharing: bool) -> ProfileDocument | None:
    """The profile of a row; None where its records have none.  `is_sharing`: its passage is that of its text."""
    if not profiles_of(row):
        return None
    costs = {kind: costs_of(row, kind) for kind in _KINDS}
    guesses = guesses_of(row)
    sample = sample_of(row)
    return ProfileDocument(
        costs={kind: tuple(map(_cost, found.values())) for kind, found in costs.items() if found},
        calibration_error=calibration_error_of(row),
        mean_confidence=guesses.mean_confidence if guesses else None,
        accuracy=guesses.accuracy if guesses else None,
        confidences=tuple(_confidence(n, one) for n, one in enumerate(confidences_of(row)) if one.n_tokens),
        sums_to_one=sums_to_one(row),
        sample=None if sample is None else SampleDocument.model_validate(sample.model_dump()),
        seen=_seen(row) if is_sharing else None,
    )


def _cost(cost: Cost) -> CostDocument:
    low, high = cost.bounds
    bits = Quantity(value=cost.bits) if math.isfinite(cost.bits) else _IMPOSSIBLE
    return CostDocument(low=low, high=high, n_tokens=cost.n_tokens, bits_per_token=bits)


def _confidence(number: int, one: Confidence) -> ConfidenceDocument:
    return ConfidenceDocument(
        confidence_low=number / N_BINS,
        confidence_high=(number + 1) / N_BINS,
        n_tokens=one.n_tokens,
        mean_confidence=one.p_sum / one.n_tokens,
        accuracy=one.n_right / one.n_tokens,
    )


def _seen(row: Row) -> SeenDocument | None:
    passage = passage_of(row)
    if passage is None:
        return None
    return SeenDocument(
        bits=tuple(None if nats is None else nats / math.log(2) for nats in passage.nats),
        matched_order=passage.model_orders,
        likeliest=tuple(choices[0] if choices else None for choices in passage.choices),
        likeliest_p=tuple(choices_p[0] if choices_p else None for choices_p in passage.choices_p),
    )
