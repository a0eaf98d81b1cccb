"""docs/tables.md has a line for each column of each table, and no other."""

from __future__ import annotations

import re
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bench.report import document
from bench.report.across import ACROSS_COLUMNS
from bench.report.profile_tables import (
    CALIBRATION_COLUMNS,
    PASSAGE_COLUMNS,
    SAMPLE_COLUMNS,
    SURPRISAL_COLUMNS,
)
from bench.report.scaling import SCALING_COLUMNS
from bench.report.tables import CURVE_COLUMNS, SIGNIFICANCE_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
SHARED = "Columns that several tables have"
TABLES = {
    "summary.csv": SUMMARY_COLUMNS,
    "curves.csv": CURVE_COLUMNS,
    "targets.csv": TARGET_COLUMNS,
    "significance.csv": SIGNIFICANCE_COLUMNS,
    "across.csv": ACROSS_COLUMNS,
    "scaling.csv": SCALING_COLUMNS,
    "surprisal.csv": SURPRISAL_COLUMNS,
    "calibration.csv": CALIBRATION_COLUMNS,
    "passage.csv": PASSAGE_COLUMNS,
    "samples.csv": SAMPLE_COLUMNS,
}


def lines_of(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return rows[2:]


def columns_of(section: str) -> list[str]:
    return [name for first, *_ in lines_of(section) for name in re.findall(r"`(\w+)`", first)]


def test_each_table_has_a_section_and_no_other_file_has() -> None:
    assert re.findall(r"^## (\S+\.csv)$", PAGE, flags=re.MULTILINE) == list(TABLES)


@pytest.mark.parametrize("table", list(TABLES))
def test_each_column_has_a_line(table: str) -> None:
    elsewhere = set(columns_of(SHARED)) | (set(SUMMARY_COLUMNS) if table == "scaling.csv" else set())
    wanted = [column for column in TABLES[table] if column not in elsewhere]
    assert columns_of(table) == wanted


def test_what_is_said_once_is_in_several_tables() -> None:
    found = Counter(column for columns in TABLES.values() for column in columns)
    assert not [column for column in columns_of(SHARED) if found[column] < 2]


def test_what_scaling_takes_from_the_summary_is_named() -> None:
    (text,) = re.findall(r"^## scaling.csv\n(.*?)^\| column", PAGE, flags=re.MULTILINE | re.DOTALL)
    taken = [c for c in SCALING_COLUMNS if c not in (*columns_of(SHARED), *columns_of("scaling.csv"))]
    named = re.findall(r"`(\w+)`", text)
    assert named == ["model", "device", *taken]


@pytest.mark.parametrize("section", [SHARED, *TABLES])
def test_each_line_tells_a_meaning_and_how_seeds_are_joined(section: str) -> None:
    for cells in lines_of(section):
        assert len(cells) == (4 if section == "summary.csv" else 3), cells
        assert all(cells[1:-1]), cells


def fields_of(model: type[BaseModel]) -> set[str]:
    """Names of a model's fields, and of those of the models inside it; what others define is theirs."""
    found = set()
    for name, field in model.model_fields.items():
        found.add(name)
        for inner in models_in(field.annotation):
            found |= fields_of(inner)
    return found


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models of the report that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from [annotation] if annotation.__module__.startswith("bench.report.") else []
    for inner in typing.get_args(annotation):
        yield from models_in(inner)


def test_each_field_of_the_document_is_told_of() -> None:
    (text,) = re.findall(r"^## report.json\n(.*)\Z", PAGE, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(\w+)`", text))
    assert fields_of(document.Document) >= {"figures", "low", "verdict", "environment", "likeliest_p"}
    assert not fields_of(document.Document) - named
