"""The CSV tables of profiles: costs by kind of token, confidence, passages, samples; one without rows is no file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.profiled import N_BINS, Profile
from bench.report.rows import Group, Row
from bench.report.tables import GROUP_COLUMNS, Cell, row_columns, write_csv

_SHARED = ("model", *GROUP_COLUMNS, "device", "seed")
SURPRISAL_COLUMNS = (*_SHARED, "sorted_by", "low", "high", "n_tokens", "nats")
CALIBRATION_COLUMNS = (
    *(*_SHARED, "confidence_low", "confidence_high", "n_tokens", "mean_confidence", "accuracy"),
    "calibration_error",
)
PASSAGE_COLUMNS = (
    *(*_SHARED, "place", "token", "kind", "nats", "longest_match", "matched_order"),
    *("likeliest", "likeliest_p"),
)
SAMPLE_COLUMNS = (*_SHARED, "prompt", "sample_seed", "text", "reason")

Line = dict[str, Cell]


def write_profiles(folder: Path, groups: Mapping[Group, Sequence[Row]]) -> None:
    """Write the tables into a folder that is there; those that have nothing in them are removed."""
    rows = [row for members in groups.values() for row in members]
    tables: dict[str, tuple[Sequence[str], Callable[[Profile], Iterable[Line]]]] = {
        "surprisal": (SURPRISAL_COLUMNS, _surprisal),
        "calibration": (CALIBRATION_COLUMNS, _calibration),
        "passage": (PASSAGE_COLUMNS, _passage),
        "samples": (SAMPLE_COLUMNS, _sample),
    }
    for name, (columns, lines_of) in tables.items():
        lines = (shared | line for shared, profile in _profiles(rows) for line in lines_of(profile))
        write_csv(folder / f"{name}.csv", columns, lines)


def _profiles(rows: Iterable[Row]) -> Iterator[tuple[Line, Profile]]:
    for row in rows:
        for record in row.fine:
            if record.measured is not None and record.measured.profile is not None:
                yield row_columns(row) | {"seed": record.trial.seed}, record.measured.profile


def _surprisal(profile: Profile) -> Iterator[Line]:
    for kind, buckets in profile.sorted_tokens():
        for bucket in buckets:
            nats = math.inf if bucket.nats is None else bucket.nats
            yield {
                "sorted_by": kind,
                "low": bucket.low,
                "high": bucket.high,
                "n_tokens": bucket.n_tokens,
                "nats": nats,
            }


def _calibration(profile: Profile) -> Iterator[Line]:
    for number, one in enumerate(profile.confidences):
        if one.n_tokens:
            yield {
                "confidence_low": number / N_BINS,
                "confidence_high": (number + 1) / N_BINS,
                "n_tokens": one.n_tokens,
                "mean_confidence": one.p_sum / one.n_tokens,
                "accuracy": one.n_right / one.n_tokens,
                "calibration_error": profile.calibration_error,
            }


def _passage(profile: Profile) -> Iterator[Line]:
    passage = profile.passage
    if passage is None:
        return
    kinds = dict.fromkeys(passage.unknown, "oov") | dict.fromkeys(passage.ends, "end")
    for at, token in enumerate(passage.tokens):
        nats, choices = passage.nats[at], passage.choices[at]
        yield {
            "place": passage.start + at,
            "token": token,
            "kind": kinds.get(at),
            "nats": math.inf if nats is None else nats,
            "longest_match": passage.orders[at] if passage.orders else None,
            "matched_order": passage.model_orders[at] if passage.model_orders else None,
            "likeliest": choices[0] if choices else None,
            "likeliest_p": passage.choices_p[at][0] if choices else None,
        }


def _sample(profile: Profile) -> Iterator[Line]:
    sample = profile.sample
    if sample is not None:
        yield {"prompt": sample.prompt, "sample_seed": sample.seed, "text": sample.text, "reason": sample.reason}
