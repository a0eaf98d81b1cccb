"""Synthetic profiles for the tests of the report: what a record holds of a passage, a sample and kinds of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bench.profiled import N_BINS, Bucket, Confidence, Passage, Profile, Sample
from bench.records import Measured, TrialRecord

TOKENS = tuple("and god said ")


def passage(tokens: Sequence[str] = TOKENS, **changes: Any) -> Passage:
    """A passage in which each token costs a nat more than the one before."""
    values: dict[str, Any] = {
        "start": 0,
        "tokens": tuple(tokens),
        "nats": tuple(0.25 * at for at in range(len(tokens))),
        "orders": tuple(at % 7 for at in range(len(tokens))),
        "choices": (("e", " "),) * len(tokens),
        "choices_p": ((0.5, 0.25),) * len(tokens),
    }
    return Passage(**(values | changes))


def confidences(**changes: tuple[int, float, int]) -> tuple[Confidence, ...]:
    """Half of the first choices right, as the synthetic records have it: 100 that are, 100 that are too sure."""
    filled = {7: (100, 50.0, 50), 14: (100, 97.0, 50)} | {int(bin_[1:]): one for bin_, one in changes.items()}
    empty = (0, 0.0, 0)
    return tuple(
        Confidence(n_tokens=n, p_sum=p_sum, n_right=n_right)
        for n, p_sum, n_right in (filled.get(number, empty) for number in range(N_BINS))
    )


def profile(n_tokens: int, nats: float, **changes: Any) -> Profile:
    """A tenth of the tokens is rare and takes three tenths of the nats; of infinite ones, the rare have all."""
    rare = (nats * 0.3, nats * 0.7) if math.isfinite(nats) else (None, 1.0)
    n_rare = n_tokens // 10
    parts = ((n_rare, rare[0]), (n_tokens - n_rare, rare[1]))
    bounds = {
        "by_frequency": ((None, None), (100, 999)),
        "by_position": ((1, 1), (2, 3)),
        "by_order": ((0, 0), (6, None)),
    }
    buckets = {
        name: tuple(
            Bucket(low=low, high=high, n_tokens=n, nats=sum_nats)
            for (low, high), (n, sum_nats) in zip(some, parts, strict=True)
        )
        for name, some in bounds.items()
    }
    values: dict[str, Any] = {
        **buckets,
        "confidences": confidences(),
        "passage": passage(),
        "sample": Sample(prompt="and god", seed=0, text=" said unto noah\nand"),
    }
    return Profile(**(values | changes))


def with_profile(record: TrialRecord, **changes: Any) -> TrialRecord:
    """The record with a profile, checked as one that is read."""
    assert record.measured is not None
    test = record.measured.test
    assert test.nll_nats.number is not None
    made = profile(test.n_tokens, test.nll_nats.number, **changes)
    checks = {"probability.sums_to_one": "passed"}
    fields = record.measured.model_dump() | {"profile": made.model_dump(), "checks": checks}
    return record.model_copy(update={"measured": Measured.model_validate(fields)})
