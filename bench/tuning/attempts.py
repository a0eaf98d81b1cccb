"""What a search keeps: what was asked of it, and of each attempt what it was and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, model_validator

from bench.records import SCHEMA_VERSION, CorpusFacts, Environment, Figure, Recorded, TrialRecord
from bench.report.rows import geometric_mean
from bench.tuning.spaces import Value

Outcome = Literal["complete", "pruned", "failed"]


class Report(Recorded):
    """A validation under way: which of the schedule, and its perplexity on the first 100,000 validation tokens."""

    place: int
    perplexity: float


class Attempt(Recorded):
    """One configuration that was tried, with as many trainings as the search has seeds.

    `used_s`: seconds of the search until its end, this one included.
    """

    schema_version: int = SCHEMA_VERSION
    number: int = Field(ge=0, description="0: the recipe that the search starts from")
    spec: str
    options: dict[str, str | int | float | bool | None] = Field(description="values of everything that is searched")
    outcome: Outcome
    reason: str | None = None
    valid_perplexity: float | None = Field(
        default=None, description="of the whole validation text: the geometric mean over the seeds"
    )
    reports: tuple[Report, ...] = Field(default=(), description="validations of the training with the first seed")
    trainings: tuple[TrialRecord, ...] = ()
    used_s: float
    sha256: str | None = Field(default=None, description="of everything else in its file")

    @property
    def is_adaptive(self) -> bool:
        """Whether what it trained learns from the text that it scores."""
        return any(record.is_adaptive for record in self.trainings)

    @model_validator(mode="after")
    def _has_a_perplexity_or_a_reason(self) -> Attempt:
        if (self.outcome == "complete") != (self.valid_perplexity is not None):
            raise ValueError("an attempt that is complete, and no other, has a perplexity")
        if self.outcome != "complete" and not self.reason:
            raise ValueError("an attempt that is not complete has a reason")
        return self


class Asked(Recorded):
    """What decides the outcomes of a search, but for the text."""

    model: str
    space: dict[str, str] = Field(description="what is searched, in words")
    seeds: int
    seed: int = Field(description="of the search itself; the trainings have the seeds 0, 1 …")
    device: str
    threads: int
    budget_s: float | None
    epochs: float | None
    max_steps: int | None


class Search(Recorded):
    """`tune.json`: what was asked.  What is `asked` has to be the same when a search is gone on with."""

    schema_version: int = SCHEMA_VERSION
    command: str
    started_utc: str
    asked: Asked
    search_seconds: float
    most_trials: int | None
    corpus: CorpusFacts
    code_sha256: str
    environment: Environment


def best_of(attempts: Iterable[Attempt]) -> Attempt | None:
    """The complete attempt with the lowest perplexity, of equal ones the first."""
    ranked = ranking(attempts)
    return ranked[0] if ranked else None


def ranking(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The complete attempts, the best first."""
    complete = [attempt for attempt in attempts if attempt.valid_perplexity is not None]
    return sorted(complete, key=lambda attempt: (attempt.valid_perplexity, attempt.number))


def perplexity_of(trainings: Sequence[TrialRecord]) -> Figure:
    """Of the whole validation text, over the seeds; none where a training has none, with the reason."""
    figures = [record.valid.perplexity if record.valid else Figure(reason="not scored") for record in trainings]
    without = next((figure for figure in figures if figure.value is None), None)
    if without is not None:
        return without
    return Figure.of(geometric_mean(figure.value for figure in figures))


def changed_options(attempt: Attempt, first: dict[str, Value]) -> dict[str, Value]:
    """What of an attempt differs from the recipe that the search started from."""
    return {name: value for name, value in attempt.options.items() if value != first.get(name)}
