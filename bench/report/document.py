"""`report.json`: what the report says, for programs, in full precision.

It holds neither NaN nor infinity: a number that is missing or infinite is null with a reason beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from bench.records import CorpusFacts, Environment, Recorded
from bench.report import wording
from bench.report.across import Across
from bench.report.across_sheet import across_sentence
from bench.report.answer import answer, caveats
from bench.report.content import warnings_of
from bench.report.passages import sharing
from bench.report.profile_document import PassageDocument, ProfileDocument, passage_document, profile_document
from bench.report.provenance import corpora_of
from bench.report.quantity import Quantity as Quantity
from bench.report.reading import Run
from bench.report.reasons import reason_of
from bench.report.rows import Group, Pair, Row, ranked_first
from bench.report.sheets import against_first
from bench.report.tables import SUMMARY_COLUMNS, Cell, number, summary_of, targets_of
from bench.report.tried import configurations
from bench.stats import Crossing

DOCUMENT_VERSION = 1

# columns of the summary that are no measured figures: they stand in fields of their own
_NO_FIGURES = {
    *(
        "model",
        "corpus",
        "normalize",
        "tokenizer",
        "documents",
        "train_fraction",
        "device",
        "status",
        "reason",
        "reused",
    ),
    *("n_seeds", "is_adaptive", "vocab_fingerprint", "kernel", "threads", "rules_version", "energy_source", "family"),
    "vocabulary_of",
}
_ENDS = ("_low", "_high")


class RowDocument(Recorded):
    """A row of the ranking.  `figures` has the columns of `summary.csv` by name."""

    rank: int | None = Field(description="from 1; null: not ranked; `reason`, or that of its test perplexity, says why")
    model: str
    device: str
    family: str
    status: str
    reason: str | None
    is_adaptive: bool
    reused: bool
    n_seeds: int
    seeds: tuple[int, ...]
    kernel: str | None
    threads: int | None
    energy_source: str | None
    against_best: Literal["best", "~", "worse", "better"] | None = Field(description="null: the two were not tested")
    figures: dict[str, Quantity]
    profile: ProfileDocument | None = Field(default=None, description="null: its records have none")


class TargetDocument(Recorded):
    """When a seed came to a target: between two validations, in training seconds and on the wall clock."""

    model: str
    device: str
    seed: int
    target_name: str
    target_perplexity: float
    reached: bool
    after_s: float
    by_s: float | None = Field(description="null: not reached")
    after_wall_s: float
    by_wall_s: float | None = Field(description="null: not reached")
    train_tokens: int | None


class PairDocument(Recorded):
    """Nats per token of model a less those of model b: below 0, a is better."""

    device: str
    model_a: str
    model_b: str
    diff_nats_per_token: Quantity
    p_holm: float | None
    verdict: Literal["a", "b", "~"]


class TextDocument(Recorded):
    """What is about one text under one vocabulary and one share of the training text."""

    corpus: str
    normalize: str
    tokenizer: str
    documents: str
    train_fraction: float
    sha256: str
    vocab_fingerprint: str
    vocabulary_of: str | None
    answer: tuple[str, ...]
    caveats: tuple[str, ...]
    rows: tuple[RowDocument, ...]
    targets: tuple[TargetDocument, ...]
    significance: tuple[PairDocument, ...]
    passage: PassageDocument | None = Field(default=None, description="null: no record holds one")


class AcrossDocument(Recorded):
    """What compares all tokenizers and vocabularies of a text that was read in one way."""

    corpus: str
    normalize: str
    documents: str
    train_fraction: float
    sha256: str
    unit: Literal["byte", "char"]
    answer: str


class Provenance(Recorded):
    """Where the figures come from."""

    command: str
    started_utc: str
    schema_version: int = Field(description="of the records")
    executor: str
    threads: int
    models: tuple[str, ...]
    descriptions: dict[str, str] = Field(default_factory=dict, description="what each model is")
    devices: tuple[str, ...]
    seeds: tuple[int, ...]
    train_fractions: tuple[float, ...]
    target_perplexities: tuple[float, ...]
    reused: tuple[str, ...] = Field(description="ids of the trials whose record was there already")
    configurations: tuple[str, ...] = Field(description="how many were measured on each test text")
    corpora: tuple[CorpusFacts, ...]
    environment: Environment


class Document(Recorded):
    """The whole of `report.json`."""

    document_version: int = DOCUMENT_VERSION
    rules_version: int
    run_id: str
    texts: tuple[TextDocument, ...]
    across: tuple[AcrossDocument, ...]
    provenance: Provenance
    unavailable: dict[str, str]
    warnings: tuple[str, ...]


def document_of(
    run: Run,
    groups: Mapping[Group, Sequence[Row]],
    pairs: Mapping[Group, Sequence[Pair]],
    across: Sequence[Across] = (),
) -> Document:
    """The document of a run; `pairs` are those of each group."""
    given = run.info.target_perplexities
    return Document(
        rules_version=run.info.rules_version,
        run_id=run.info.run_id,
        texts=tuple(_text(group, rows, pairs[group], given) for group, rows in groups.items()),
        across=tuple(
            AcrossDocument(
                **{
                    name: getattr(one.group, name)
                    for name in ("corpus", "normalize", "documents", "train_fraction", "sha256")
                },
                unit=one.unit,
                answer=across_sentence(one),
            )
            for one in across
        ),
        provenance=_provenance(run),
        unavailable=run.info.unavailable,
        warnings=tuple(warnings_of(run)),
    )


def to_json(document: Document) -> str:
    """Indented JSON, keys in the order of the schema."""
    return json.dumps(document.model_dump(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _text(group: Group, rows: Sequence[Row], pairs: Sequence[Pair], given: Sequence[float]) -> TextDocument:
    order = ranked_first(rows)
    against = against_first(order, pairs)
    shared = {id(row) for row, _ in sharing(rows)}
    return TextDocument(
        **{
            name: getattr(group, name)
            for name in ("corpus", "normalize", "tokenizer", "documents", "train_fraction", "sha256")
        },
        vocab_fingerprint=group.vocab_fingerprint,
        vocabulary_of=group.vocabulary_of or None,
        answer=tuple(answer(rows, pairs, given)),
        caveats=tuple(caveats(rows, pairs)),
        rows=tuple(
            _row(row, place if row.is_ranked else None, seen, id(row) in shared)
            for place, (row, seen) in enumerate(zip(order, against, strict=True), start=1)
        ),
        targets=tuple(_target(row, seed, name, level, c) for row, seed, name, level, c in targets_of(rows, given)),
        significance=tuple(map(_pair, pairs)),
        passage=passage_document(rows),
    )


def _row(row: Row, rank: int | None, against_best: str, is_sharing: bool) -> RowDocument:
    summary = summary_of(row)
    columns = [name for name in SUMMARY_COLUMNS if name not in _NO_FIGURES and not name.endswith(_ENDS)]
    own = (
        "model",
        "device",
        "status",
        "reason",
        "reused",
        "n_seeds",
        "is_adaptive",
        "kernel",
        "threads",
        "energy_source",
    )
    return RowDocument.model_validate(
        {
            **{name: summary[name] for name in own},
            "rank": rank,
            "family": row.family,
            "seeds": tuple(trial.seed for trial in row.trials),
            "against_best": None if against_best == wording.NOT_AVAILABLE else against_best,
            "figures": {name: _quantity(row, name, summary) for name in columns},
            "profile": profile_document(row, is_sharing=is_sharing),
        }
    )


def _quantity(row: Row, column: str, summary: Mapping[str, Cell]) -> Quantity:
    value, (low, high) = summary[column], (number(summary.get(f"{column}{end}")) for end in _ENDS)
    shown = number(value)
    if shown is None or not math.isfinite(shown):
        return Quantity(infinite=shown is not None, reason=reason_of(row, column))
    has_ends = low is not None and high is not None and math.isfinite(high)
    return Quantity.model_validate({"value": value, **({"low": low, "high": high} if has_ends else {})})


def _target(row: Row, seed: int, name: str, level: float, crossing: Crossing) -> TargetDocument:
    return TargetDocument(
        model=row.model,
        device=row.device,
        seed=seed,
        target_name=name,
        target_perplexity=level,
        reached=crossing.reached,
        after_s=crossing.after_s,
        by_s=crossing.by_s if crossing.reached else None,
        after_wall_s=crossing.after_wall_s,
        by_wall_s=crossing.by_wall_s if crossing.reached else None,
        train_tokens=crossing.train_tokens,
    )


def _pair(pair: Pair) -> PairDocument:
    diff = pair.test.diff
    if diff is None:
        shown = Quantity(reason="both held some token impossible")
    elif math.isinf(diff):
        shown = Quantity(infinite=True, reason=f"{(pair.a if diff > 0 else pair.b).model} held some token impossible")
    else:
        shown = Quantity(value=diff, low=pair.test.low, high=pair.test.high)
    return PairDocument(
        device=pair.device,
        model_a=pair.a.model,
        model_b=pair.b.model,
        diff_nats_per_token=shown,
        p_holm=pair.p_holm,
        verdict=pair.verdict,
    )


def _provenance(run: Run) -> Provenance:
    info = run.info
    return Provenance(
        command=info.command,
        started_utc=info.started_utc,
        schema_version=info.schema_version,
        executor=info.executor,
        threads=info.threads,
        models=tuple(dict.fromkeys(trial.model for trial in info.plan)),
        descriptions=info.descriptions,
        devices=tuple(dict.fromkeys(trial.device for trial in info.plan)),
        seeds=tuple(sorted({trial.seed for trial in info.plan})),
        train_fractions=info.train_fractions,
        target_perplexities=info.target_perplexities,
        reused=info.reused,
        configurations=tuple(configurations(run)),
        corpora=tuple(corpora_of(run)),
        environment=info.environment,
    )
