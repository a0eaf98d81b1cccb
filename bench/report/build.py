"""From a run's folder to its tables, plots, Markdown and HTML.  What cannot be made is a warning, never a loss."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report.across import Across, across_of, largest_fraction, write_across
from bench.report.content import Figure, Report, report_of
from bench.report.document import document_of, to_json
from bench.report.markdown import to_markdown
from bench.report.profile_tables import write_profiles
from bench.report.reading import NOT_RUN, Run, read_run
from bench.report.rows import Group, Pair, groups_of, pairs_of, rows_of
from bench.report.scaling import Series, series_of, write_scaling
from bench.report.tables import write_tables
from bench.store import TRIALS, remove_abandoned, write_text

# nobody looks through the plots of hundreds of texts, and those of one take a second
MOST_DRAWN = 12


def build_report(folder: Path) -> list[str]:
    """Write `tables/`, `plots/`, `report.md`, `report.html` and `report.json` from the records in a run's folder.

    Returns what the reader should know: what could not be drawn or written, and why.
    Raises `InputError` for a folder that is no run, `NewerFileError` for one from a newer schema.
    """
    run = read_run(folder)
    remove_abandoned(folder, time.time())
    groups = groups_of(rows_of(run))
    pairs = {group: pairs_of(rows) for group, rows in groups.items()}
    # tables first: nothing that follows can lose them
    write_tables(folder / "tables", run.info, groups, [pair for members in pairs.values() for pair in members])
    write_profiles(folder / "tables", groups)
    across = across_of(groups)
    write_across(folder / "tables", across)
    several = series_of(groups)
    write_scaling(folder / "tables", several)
    drawn = several[:MOST_DRAWN]
    largest = [one for one in across if one.group.train_fraction == largest_fraction(across)]
    figures, warnings = _draw(folder / "plots", drawn, largest[:MOST_DRAWN], pairs)
    if len(drawn) < len(several):
        some = f"plots are there for {len(drawn)} of {len(several)} texts"
        run = dataclasses.replace(run, warnings=(*run.warnings, f"{some}; the figures of all are in tables/"))
    tables = sorted(path.name for path in (folder / "tables").glob("*.csv"))
    report = report_of(run, several, pairs, figures, across, tables)
    write_text(folder / "report.md", to_markdown(report))
    write_text(folder / "report.json", to_json(document_of(run, groups, pairs, across)))
    return [*run.warnings, *_about_records(run), *warnings, *_write_html(folder, report)]


def _about_records(run: Run) -> list[str]:
    """Files of records that cannot be used; in the report itself their rows say so."""
    return [f"{TRIALS}/{one.trial_id}.json: {one.reason}" for one in run.missing if one.reason != NOT_RUN]


def _draw(
    folder: Path, several: Sequence[Series], across: Sequence[Across], pairs: Mapping[Group, Sequence[Pair]]
) -> tuple[list[Figure], list[str]]:
    if missing := _missing("matplotlib"):
        return [], [f"no plots: {missing}"]
    try:
        from bench.report.plots import draw_all
    # matplotlib refuses to load for many reasons (settings of the user's, broken fonts); the tables do without it
    except Exception as error:
        return [], [f"no plots: matplotlib cannot be loaded: {type(error).__name__}: {error}"]
    return draw_all(folder, several, across, pairs)


def _write_html(folder: Path, report: Report) -> list[str]:
    if missing := _missing("jinja2"):
        return [f"no report.html: {missing}"]
    from bench.report.html import to_html

    write_text(folder / "report.html", to_html(report, folder / "plots"))
    return []


def _missing(library: str) -> str | None:
    """Why an optional library cannot be used, with the cure; None where it can."""
    if importlib.util.find_spec(library) is None:
        return f"{library} is not installed: python -m pip install 'lmzoo[plots]'"
    return None
