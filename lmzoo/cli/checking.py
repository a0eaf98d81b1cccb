"""`check`: whether a model keeps the contract."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows
from lmzoo.errors import UnknownModelError, did_you_mean

CHECK_FAILED = 1

# what `check` trains a spec on
_CHECK_CORPUS = "genesis"


@cli.command(epilog="\b\nExamples:\n  python -m lmzoo check book.lm\n  python -m lmzoo check lstm-scratch:hidden=8")
@click.argument("model", metavar="MODEL|SPEC")
@click.option("--budget", type=float, metavar="SECONDS", help="For a SPEC: seconds of training before the checks.")
def check(model: str, budget: float | None) -> None:
    """Check that a model file, or a model trained here from SPEC, keeps the contract.  Exit status 1 if it fails."""
    import lmzoo

    if Path(model).is_file():
        results = lmzoo.check_language_model(lmzoo.load(model))
    else:
        _require_known(model)
        trained = lmzoo.train(model, lmzoo.load_corpus(_CHECK_CORPUS), budget=budget)
        results = lmzoo.check_language_model(trained, spec=model)
    rows = Rows(("status", "check", "message"))
    for result in results:
        rows.write(result.status, result.name, result.message)
    counts = Counter(result.status for result in results)
    click.echo(", ".join(f"{n} {status}" for status, n in sorted(counts.items())), err=True)
    if counts["failed"]:
        sys.stdout.flush()
        raise click.exceptions.Exit(CHECK_FAILED)


def _require_known(spec: str) -> None:
    from lmzoo.registry import all_entries
    from lmzoo.spec import parse_spec

    name = parse_spec(spec).name
    if name not in all_entries():
        raise UnknownModelError(
            f"no model file and no model {spec!r}.{did_you_mean(name, all_entries())} List them: python -m lmzoo models"
        )
