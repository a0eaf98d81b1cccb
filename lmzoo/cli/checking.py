"""`check`: whether a model keeps the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.opening import is_there, named_entry, open_model
from lmzoo.cli.rows import Rows, json_lines_option
from lmzoo.errors import LmzooError, UnknownModelError, did_you_mean

if TYPE_CHECKING:
    from lmzoo.conformance import CheckResult

CHECK_FAILED = 1

# what `check` trains a spec on
_CHECK_CORPUS = "genesis"

_EXAMPLES = """\b
Examples:
  python -m lmzoo check book.lm
  python -m lmzoo check kenlm:lm.arpa
  python -m lmzoo check lstm-scratch:hidden=8 --max-steps 20
  python -m lmzoo check my-model --corpus letters.txt --tokens word --json-lines
"""


@cli.command(epilog=_EXAMPLES)
@click.argument("model", metavar="MODEL|SPEC")
@click.option(
    "--corpus",
    metavar="NAME",
    help=f"For a SPEC: what it is trained on, a corpus or a text (default: {_CHECK_CORPUS}).",
)
@click.option("--tokens", metavar="KIND", help="For a SPEC: how that is cut (default: the corpus's own, else char).")
@click.option("--budget", type=float, metavar="SECONDS", help="For a SPEC: seconds of training before the checks.")
@click.option("--max-steps", type=int, metavar="N", help="For a SPEC: steps of training before the checks.")
@json_lines_option
def check(model: str, json_lines: bool, **training: Any) -> None:
    """Check that a MODEL, or one that is trained here from SPEC, keeps the contract.  Exit status 1 if it fails.

    MODEL is a model file, or a spec of what is read such as kenlm:lm.arpa.  Each check is a row as soon as it is done.
    Models of installed packages are checked by their names.
    """
    rows = Rows(("status", "check", "message"), json_lines=json_lines)
    counts: Counter[str] = Counter()
    for result in _results(model, {name: value for name, value in training.items() if value is not None}):
        rows.write(result.status, result.name, result.message)
        rows.flush()
        counts[result.status] += 1
    click.echo(", ".join(f"{n} {status}" for status, n in sorted(counts.items())), err=True)
    if counts["failed"]:
        raise click.exceptions.Exit(CHECK_FAILED)


def _results(model: str, training: dict[str, Any]) -> Iterator[CheckResult]:
    from lmzoo.conformance import each_check
    from lmzoo.registry import find_entry

    name = None if is_there(model) else named_entry(model)
    if name is not None and not find_entry(name).is_read:
        return _results_of_training(model, **training)
    if name is None and not is_there(model):
        _raise_unknown(model)
    if training:
        option = next(iter(training)).replace("_", "-")
        raise click.UsageError(f"--{option} is for a model that is trained here, and {model} is read from its file")
    return each_check(open_model(model))


def _results_of_training(
    spec: str, *, corpus: str = _CHECK_CORPUS, tokens: str | None = None, **limits: Any
) -> Iterator[CheckResult]:
    from lmzoo import driver
    from lmzoo.conformance import CheckResult, each_check
    from lmzoo.corpus import load_corpus

    text = load_corpus(corpus, tokens=tokens)
    try:
        trained = driver.train(spec, text, **limits)
    except LmzooError:
        raise
    except Exception as error:
        # whatever a package's model does: to tell so is what this command is for
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return iter([CheckResult("training.ends", "failed", message)])
    return each_check(trained, spec=spec)


def _raise_unknown(spec: str) -> None:
    from lmzoo.registry import all_entries
    from lmzoo.spec import parse_spec

    raise UnknownModelError(
        f"no model file and no model {spec!r}.{did_you_mean(parse_spec(spec).name, all_entries())} "
        "List them: python -m lmzoo models"
    )
