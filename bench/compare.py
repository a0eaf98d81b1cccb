"""The command line of comparisons: two runs side by side, or a figure over many.

`python -m bench.compare A B` pairs the rows of both runs that were measured on the same text under the same rules, and
judges each figure of B against A (`bench/comparing/judging.py` has the rule).  With three runs or more one figure is
shown over all of them.

Exit status: 0 the runs were compared and no `--fail-on` was met; 1 a `--fail-on` was met, or something could not be
written; 2 bad arguments or input; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from bench.comparing.comparison import compare_runs
from bench.comparing.files import require_free, write_history_page, write_page, write_record
from bench.comparing.gate import Tolerance, checked, threshold_of
from bench.comparing.history import history_of
from bench.comparing.metrics import METRICS
from bench.comparing.pages import comparison_page
from bench.comparing.records import comparison_record, history_record
from bench.comparing.showing import Screen, show_comparison, show_history
from bench.ending import end_tidily_on_signals
from bench.entry import status_of
from bench.running import OK, SOME_FAILED, complain
from bench.store import WriteError
from lmzoo.arguments import OnceCommand
from lmzoo.errors import InputError, named

_DEFAULT_METRIC = "test_perplexity"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are one line on standard error."""
    return status_of(command, "python -m bench.compare", arguments)


@click.command(
    cls=OnceCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 the runs were compared, whatever changed, and no --fail-on was met; 1 a --fail-on was met, "
    "or something could not be written; 2 bad arguments, a path that is not there, one of two folders that is no run, "
    "two runs that have nothing in common, fewer than two runs; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path(path_type=Path))
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write the same as a page, plots inside.")
@click.option("--json", metavar="FILE", type=click.Path(path_type=Path), help="Write the same for programs.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="FIGURE:SHARE",
    help="Exit with status 1 where this figure of any row is worse by more than this share of the first run's "
    "(test_perplexity:1%), or by more than an amount in its own unit (test_perplexity:+0.05), or cannot be compared; "
    "may be repeated.",
)
@click.option("--allow-noise", is_flag=True, help="With --fail-on: what the tests find within noise is no failure.")
@click.option(
    "--allow-missing",
    is_flag=True,
    help="With --fail-on: a figure that the second run lacks, or that cannot be compared, is no failure.",
)
@click.option(
    "--metric",
    metavar="NAME",
    help=f"With three runs or more: the figure to show, a column of summary.csv.  [default: {_DEFAULT_METRIC}]",
)
def command(runs: tuple[Path, ...], html: Path | None, json: Path | None, **options: Any) -> int:
    """Show what changed from one run to another, and whether it is more than noise; of three or more, a figure over
    all of them, ordered by their start."""
    _refuse_contradictions(runs, options)
    require_free(html, json)
    if len(runs) == 2:
        return _compare(runs[0], runs[1], html, json, options)
    return _follow(runs, html, json, options["metric"] or _DEFAULT_METRIC)


def _refuse_contradictions(runs: Sequence[Path], options: dict[str, Any]) -> None:
    if len(runs) == 1:
        raise InputError(f"one run was given, {runs[0]}; give a second to compare it with")
    if len(runs) > 2 and options["fail_on"]:
        raise InputError(f"--fail-on compares two runs, and {len(runs)} were given; give the ones before and after")
    if len(runs) == 2 and options["metric"]:
        raise InputError("--metric is for three runs or more; two are compared by all figures")
    for flag in ("allow_noise", "allow_missing"):
        if options[flag] and not options["fail_on"]:
            raise InputError(f"--{flag.replace('_', '-')} says what --fail-on lets pass; give --fail-on too")


def _compare(before: Path, after: Path, html: Path | None, json: Path | None, options: dict[str, Any]) -> int:
    thresholds = list(map(threshold_of, options["fail_on"]))
    found = compare_runs(before, after, {threshold.metric.key for threshold in thresholds})
    tolerance = Tolerance(noise=options["allow_noise"], missing=options["allow_missing"])
    checks = [checked(found, threshold, tolerance) for threshold in thresholds]
    # what is written does not depend on who reads the terminal
    with _told_last() as lost:
        if json is not None:
            with _noted(lost):
                write_record(json, comparison_record(found, checks))
        if html is not None:
            with _noted(lost):
                write_page(html, comparison_page(found, checks), html.parent)
        show_comparison(Screen(), found, checks)
    return SOME_FAILED if lost or any(check.failures for check in checks) else OK


def _follow(runs: Sequence[Path], html: Path | None, json: Path | None, metric: str) -> int:
    found = history_of(runs, named(metric, METRICS, "figure"))
    warnings: list[str] = []
    with _told_last() as lost:
        if json is not None:
            with _noted(lost):
                write_record(json, history_record(found))
        if html is not None:
            with _noted(lost):
                warnings += write_history_page(html, found)
        show_history(Screen(), found, warnings)
    return SOME_FAILED if lost else OK


@contextmanager
def _told_last() -> Iterator[list[str]]:
    """A list of faults that are told when all else has been shown, or could not be."""
    faults: list[str] = []
    try:
        yield faults
    finally:
        for fault in faults:
            complain(fault, SOME_FAILED)


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """A file that cannot be written ends nothing: what was found is worth more than where it was to stand."""
    try:
        yield
    except WriteError as error:
        faults.append(str(error))


if __name__ == "__main__":
    end_tidily_on_signals()
    sys.exit(main())
