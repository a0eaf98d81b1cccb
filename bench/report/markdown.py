"""The report as Markdown (with pipe tables, as GitHub and most viewers read them)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bench.report.content import Report, Section
from bench.report.sheets import Sheet

# what could start markup anywhere in a line; pipes would end a cell
_MARKUP = re.compile(r"([\\`*_\[\]<>|#&~$])")
# what is markup at the start of a line only
_LINE_START = re.compile(r"^(\d+)([.)])|^([-+=])")
_RULES = {"l": ":---", "r": "---:"}


def to_markdown(report: Report) -> str:
    """The whole report; every name and every reason is escaped."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Text on one line that Markdown shows as it is, HTML in it included."""
    text = _MARKUP.sub(r"\\\1", " ".join(text.split()))
    return _LINE_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", text)


def _lines(report: Report) -> Iterator[str]:
    yield f"# {escaped(report.title)}"
    for section in report.sections:
        yield from ("", f"{'#' * section.level} {escaped(section.title)}")
        yield from _section_lines(section)


def _section_lines(section: Section) -> Iterator[str]:
    for paragraph in section.paragraphs:
        yield from ("", escaped(paragraph))
    for figure in section.figures:
        yield from ("", f"![{escaped(figure.alt)}](plots/{figure.stem}.png)")
    for sheet in section.sheets:
        yield from ("", f"{escaped(sheet.caption)}:", "", *_table_lines(sheet))
    if section.bullets:
        yield from ("", *[f"- {escaped(bullet)}" for bullet in section.bullets])


def _table_lines(sheet: Sheet) -> Iterator[str]:
    yield _table_line([escaped(header) for header in sheet.headers])
    yield _table_line([_RULES[letter] for letter in sheet.align])
    for row in sheet.rows:
        yield _table_line([escaped(cell) for cell in row])


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
