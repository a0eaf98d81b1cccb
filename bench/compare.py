"""The command line of comparisons: two runs side by side, or a figure over many.

`python -m bench.compare A B` pairs the rows of both runs that were measured on the same text under the same rules, and
judges each figure of B against A (`bench/comparing/judging.py` has the rule).  With three runs or more one figure is
shown over all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from bench.comparing.comparison import compare_runs
from bench.comparing.files import require_free, write_history_page, write_page, write_record
from bench.comparing.gate import Tolerance, checked, threshold_of
from bench.comparing.history import history_of
from bench.comparing.metrics import METRICS
from bench.comparing.pages import comparison_page
from bench.comparing.records import comparison_record, history_record
from bench.comparing.showing import Screen, show_comparison, show_history
from bench.store import CANNOT_WRITE, WriteError
from lmzoo.arguments import OnceCommand
from lmzoo.errors import InputError, LmzooError, named
from lmzoo.streams import leaving_when_output_fails, never_raise_on_output

OK, FAILED, BAD_INPUT = 0, 1, 2
_DEFAULT_METRIC = "test_perplexity"


@click.command(
    cls=OnceCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 the runs were compared, whatever changed, and no --fail-on was met; 1 a --fail-on was met, "
    "or something could not be written; 2 bad arguments, a folder that is no run, two runs that have nothing in "
    "common, fewer than two runs.",
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
def main(runs: tuple[Path, ...], html: Path | None, json: Path | None, **options: Any) -> None:
    """Show what changed from one run to another, and whether it is more than noise; of three or more, a figure over
    all of them, ordered by their start."""
    never_raise_on_output()
    try:
        _refuse_contradictions(runs, options)
        require_free(html, json)
        if len(runs) == 2:
            status = _compare(runs[0], runs[1], html, json, options)
        else:
            status = _follow(runs, html, json, options["metric"] or _DEFAULT_METRIC)
    except WriteError as error:
        _end(str(error), CANNOT_WRITE)
    except LmzooError as error:
        _end(str(error), BAD_INPUT)
    except OSError as error:
        # no room even for the plots on their way into the page
        _end(f"{error.filename or 'a file'}: {error.strerror or error}", CANNOT_WRITE)
    sys.exit(status)


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
    if json is not None:
        write_record(json, comparison_record(found, checks))
    if html is not None:
        write_page(html, comparison_page(found, checks), html.parent)
    with leaving_when_output_fails():
        show_comparison(Screen(), found, checks)
    return FAILED if any(check.failures for check in checks) else OK


def _follow(runs: Sequence[Path], html: Path | None, json: Path | None, metric: str) -> int:
    found = history_of(runs, named(metric, METRICS, "figure"))
    warnings = []
    if json is not None:
        write_record(json, history_record(found))
    if html is not None:
        warnings = write_history_page(html, found)
    with leaving_when_output_fails():
        show_history(Screen(), found, warnings)
    return OK


def _end(message: str, status: int) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    main(prog_name="python -m bench.compare")
