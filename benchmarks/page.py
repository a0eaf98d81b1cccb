"""What opening a report takes in a browser: `python -m benchmarks.page` prints medians over fresh pages.

The pages are those of the committed reference run, and of a run of 50 models that holds its records again and again
under other names.  The browser is the system's Chromium, driven by Playwright (the extra `browser`).
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.records import TrialRecord
from bench.report.build import build_report
from bench.report.reading import Run, read_run
from bench.sealed import sealed

_ROOT = Path(__file__).parents[1]
_N_RUNS = 9
_N_MODELS = 50
# the names that systems give it
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# when all that the page has to run has run, and the first frame after it was drawn
_LAID_OUT = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
})"""
# a reader's act, and what the browser does until all of the page has its place again
_ACT = """(act) => {
  const start = performance.now();
  if (act === "sort") document.querySelectorAll(".sheet th")[1].querySelector("button").click();
  else {
    document.getElementById("filter").value = "size<10MB";
    document.getElementById("filter").dispatchEvent(new Event("input"));
  }
  document.body.getBoundingClientRect();
  return performance.now() - start;
}"""


class Opened(NamedTuple):
    """One page: its elements, and milliseconds until it was laid out, was sorted, was filtered."""

    n_elements: int
    laid_out_ms: float
    sort_ms: float
    filter_ms: float


def browser_path() -> str | None:
    """The system's own browser."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """The system's browser, without a window."""
    from playwright.sync_api import sync_playwright

    path = browser_path()
    if path is None:
        raise SystemExit(f"no browser: none of {', '.join(_NAMES)} is on the PATH; install Debian's chromium")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path)
        try:
            yield chromium
        finally:
            chromium.close()


def crowd(run: Run, folder: Path, n_models: int) -> Path:
    """A run of so many models: the records of another, again and again under other names."""
    n_own = len(run.records)
    records = [_renamed(run.records[place % n_own], place // n_own) for place in range(n_models)]
    (folder / "trials").mkdir(parents=True)
    info = run.info.model_copy(update={"plan": tuple(record.trial for record in records)})
    (folder / "run.json").write_text(info.model_dump_json(), encoding="utf-8")
    for record in records:
        (folder / "trials" / f"{record.trial.trial_id}.json").write_bytes(sealed(record))
    return folder


def _renamed(record: TrialRecord, turn: int) -> TrialRecord:
    """The record of a model that stands for another, from the second turn on."""
    if not turn:
        return record
    trial = record.trial
    changes = {name: f"{getattr(trial, name)}-{turn}" for name in ("model", "trial_id", "content_key")}
    return record.model_copy(update={"trial": trial.model_copy(update=changes)})


def opened(chromium: Any, page: Path) -> Opened:
    """What one fresh page takes."""
    tab = chromium.new_page()
    try:
        tab.goto(page.as_uri())
        laid_out_ms = tab.evaluate(_LAID_OUT)
        n_elements = tab.evaluate("document.querySelectorAll('*').length")
        return Opened(n_elements, laid_out_ms, tab.evaluate(_ACT, "sort"), tab.evaluate(_ACT, "filter"))
    finally:
        tab.close()


def lines(chromium: Any, pages: Mapping[str, Path], n_runs: int = _N_RUNS) -> Iterator[str]:
    """A row per page: medians; the pages take turns, so that other load meets all of them alike."""
    yield "| page | MB | elements | laid out, ms | sorted, ms | filtered, ms |"
    yield "|---|---:|---:|---:|---:|---:|"
    turns = [[opened(chromium, page) for page in pages.values()] for _ in range(n_runs)]
    for (name, page), found in zip(pages.items(), zip(*turns, strict=True), strict=True):
        n_elements, *times_ms = (statistics.median(column) for column in zip(*found, strict=True))
        megabytes = page.stat().st_size / 1e6
        yield f"| {name} | {megabytes:.2f} | {n_elements:.0f} | {' | '.join(f'{ms:.0f}' for ms in times_ms)} |"


def main() -> None:
    run = read_run(_ROOT / "results" / "reference")
    with tempfile.TemporaryDirectory() as room, browser() as chromium:
        pages = {}
        for n_models in (len(run.records), _N_MODELS):
            folder = crowd(run, Path(room) / str(n_models), n_models)
            build_report(folder)
            pages[f"{n_models} models"] = folder / "report.html"
        print(*lines(chromium, pages), sep="\n")


if __name__ == "__main__":
    main()
