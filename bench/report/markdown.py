"""The report as Markdown (with pipe tables, as GitHub and most viewers read them)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from bench.report import wording
from bench.report.content import Report, Section
from bench.report.sheets import Sheet

# what can start markup in the middle of a line, or end a cell; an underscore inside a word or a lone ~ cannot
_MARKUP = re.compile(r"[\\`*\[\]<|$]|(?<!\w)_|_(?!\w)|~(?=.)|(?<=.)~|&(?=#?\w+;)")
# what is markup at the start of a line only
_LINE_START = re.compile(r"^(?:(\d+)(?=[.)](?:\s|$))|(?=[-+=#>]))")
# isolates of names are the report's own: FSI opens them, PDI closes them
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")
_RULES = {"l": ":---", "n": ":---", "r": "---:", "s": ":---:"}


def to_markdown(report: Report) -> str:
    """The whole report; every name and every reason is escaped."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Text on one line that Markdown shows as it is, HTML in it included; not for the start of a line.

    What a viewer would obey, controls and what turns the rest of a line, is spelt out.
    """
    line = "".join(wording.spelt(sign) if _is_obeyed(sign) else sign for sign in " ".join(text.split()))
    return _MARKUP.sub(lambda match: f"\\{match[0]}", line)


def _is_obeyed(sign: str) -> bool:
    return unicodedata.category(sign) in ("Cc", "Cs") or unicodedata.bidirectional(sign) in _TURNING


def escaped_line(text: str) -> str:
    """The same for a text that stands at the start of a line, where numbers and dashes would make a list."""
    return _LINE_START.sub(lambda match: f"{match[1] or ''}\\", escaped(text), count=1)


def _lines(report: Report) -> Iterator[str]:
    yield f"# {escaped_line(report.title)}"
    if report.command:
        yield from ("", *_code_lines(report.command))
    for section in report.sections:
        yield from ("", f"{'#' * section.level} {escaped_line(section.title)}")
        yield from _section_lines(section)


def _code_lines(text: str) -> Iterator[str]:
    """A line of code to copy, fenced by more backticks than it has in a row."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    yield from (fence, " ".join(text.split()), fence)


def _section_lines(section: Section) -> Iterator[str]:
    for paragraph in section.paragraphs:
        yield from ("", escaped_line(paragraph))
    for figure in section.figures:
        yield from ("", f"![{escaped(figure.alt)}](plots/{figure.stem}.png)")
    for sheet in section.sheets:
        yield from ("", f"{escaped_line(sheet.caption)}:", "", *_table_lines(sheet))
        if sheet.notes:
            yield from ("", *[f"- {escaped_line(note)}" for note in sheet.notes])
    if section.bullets:
        yield from ("", *[f"- {escaped_line(bullet)}" for bullet in section.bullets])


def _table_lines(sheet: Sheet) -> Iterator[str]:
    yield _table_line([escaped(header) for header in sheet.headers])
    yield _table_line([_RULES[letter] for letter in sheet.align])
    for row in sheet.rows:
        yield _table_line([escaped(cell) for cell in row])


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
