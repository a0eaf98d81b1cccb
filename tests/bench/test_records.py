"""The schema of records: numbers within bounds, and figures that follow from the sums beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bench.records import Figure, TrialRecord
from bench.report.reading import UNREADABLE, read_run
from bench.sealed import sealed
from lmzoo.errors import InputError
from tests.bench.synthetic import facts, ok, trial, write

# what was altered does not fit the schema that it is written by
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")

RECORD = ok(trial("kn5"), 4.4, corpus=facts(n_test_oov=90))
BEYOND_FLOAT = 10**400


def altered(data: dict[str, Any], place: Sequence[str | int], value: object) -> dict[str, Any]:
    """A copy of what JSON holds with another value at a place."""
    copied: dict[str, Any] = json.loads(json.dumps(data))
    inner: Any = copied
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return copied


def reread(folder: Path, place: Sequence[str | int], value: object) -> list[str]:
    """Why records are missing from a run whose one record was altered and sealed anew."""
    write(folder, [RECORD])
    data = altered(json.loads(RECORD.model_dump_json()), place, value)
    path = folder / "trials" / f"{RECORD.trial.trial_id}.json"
    # the seal is of whatever is there
    path.write_bytes(sealed(TrialRecord.model_construct(**data)))
    return [missing.reason for missing in read_run(folder).missing]


def test_a_record_that_adds_up_is_read(tmp_path: Path) -> None:
    assert reread(tmp_path, ("measured", "test", "n_zero"), 0) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("measured", "test", "perplexity", "value"), 4.3),
        (("measured", "test", "perplexity", "value"), 0.0),
        (("measured", "valid", "perplexity", "value"), -4.4),
        (("measured", "test", "perplexity"), {"infinite": True, "reason": "impossible"}),
        (("measured", "test", "perplexity", "infinite"), True),
        (("measured", "test", "bits_per_char", "value"), 0.1),
        (("measured", "test", "n_zero"), 1),
        (("measured", "test", "n_oov"), 91),
        (("measured", "valid", "n_oov"), 20_001),
        (("measured", "top1_accuracy", "value"), 7.0),
        (("measured", "top1_accuracy", "value"), -0.1),
        (("measured", "next_token_us", "median"), -30.0),
        (("measured", "next_token_us", "median"), 99.0),
        (("measured", "next_token_us_p99"), -1.0),
        (("corpus", "n_test_tokens"), 19_999),
        (("corpus", "n_test_oov"), 0),
        (("corpus", "n_blank_lines"), -1),
        (("memory", "peak_rss_bytes"), BEYOND_FLOAT),
        (("measured", "test", "n_tokens"), BEYOND_FLOAT),
        (("measured", "valid", "n_chars"), BEYOND_FLOAT),
        (("measured", "n_params"), BEYOND_FLOAT),
        (("environment", "memory_total_bytes"), BEYOND_FLOAT),
        (("wall_s",), BEYOND_FLOAT),
    ],
    ids=str,
)
def test_a_record_whose_numbers_cannot_be_is_unreadable(tmp_path: Path, place: tuple[str, ...], value: object) -> None:
    assert reread(tmp_path, place, value) == [UNREADABLE]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("target_perplexities",), [0.0]),
        (("target_perplexities",), [-5.0]),
        (("target_perplexities",), [BEYOND_FLOAT]),
        (("train_fractions",), [0.0]),
        (("plan", 0, "train_fraction"), -1.0),
        (("plan", 0, "memory_limit_bytes"), BEYOND_FLOAT),
        (("plan", 0, "time_limit_s"), BEYOND_FLOAT),
        (("corpora", 0, "n_test_oov"), BEYOND_FLOAT),
        (("environment", "memory_total_bytes"), BEYOND_FLOAT),
        (("threads",), BEYOND_FLOAT),
    ],
    ids=str,
)
def test_a_run_whose_numbers_cannot_be_is_none_in_one_line(
    tmp_path: Path, place: tuple[str | int, ...], value: object
) -> None:
    write(tmp_path, [RECORD])
    path = tmp_path / "run.json"
    path.write_text(json.dumps(altered(json.loads(path.read_bytes()), place, value)), encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_run(tmp_path)
    assert "run.json, " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("make", [lambda: Figure(value=5.0, infinite=True), lambda: Figure()])
def test_a_figure_is_a_number_or_infinite_or_has_a_reason(make: Callable[[], Figure]) -> None:
    with pytest.raises(ValidationError):
        make()
