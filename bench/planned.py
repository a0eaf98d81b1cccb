"""That a trial finds what its plan was made of: anything else would be measured under a key that is not its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import environment
from bench.records import TrialSpec
from lmzoo.errors import InputError

if TYPE_CHECKING:
    # a node of a cluster looks at the code before anything heavy is loaded
    from lmzoo.corpus import Corpus

_DIGITS = 12


class StaleError(InputError):
    """A plan is of another text or of other code."""


def require_same_code(trial: TrialSpec) -> None:
    """Raise `StaleError` where lmzoo and bench are not those that the plan was made by: on other machines, or later."""
    found, wanted = environment.code_sha256(), trial.code_sha256
    if wanted is not None and wanted != found:
        raise StaleError(
            f"the code of lmzoo and bench here (sha256 {found[:_DIGITS]}…) is not the run's ({wanted[:_DIGITS]}…): "
            "install the same version on every machine; where it has changed since the run began, start the run again "
            "with --resume"
        )


def require_same_packages(trial: TrialSpec) -> None:
    """The same for the packages that a model comes from, whose code is among its options."""
    # not at the top: what looks at the code of a trial before its process starts stays light
    from lmzoo.registry import PACKAGES_SHA256, recorded_options

    wanted = trial.options.get(PACKAGES_SHA256)
    if wanted is None:
        return
    found = recorded_options(trial.spec).get(PACKAGES_SHA256)
    if found != wanted:
        raise StaleError(
            f"the code of the package that {trial.model} comes from (sha256 {str(found)[:_DIGITS]}…) is not the run's "
            f"({str(wanted)[:_DIGITS]}…): install the same version on every machine; where it has changed since the "
            "run began, start the run again with --resume"
        )


def require_same_text(trial: TrialSpec, corpus: Corpus) -> None:
    """The same for the text."""
    if corpus.sha256 != trial.corpus_sha256:
        raise StaleError(
            f"the text has changed since the run began (its sha256 is now {corpus.sha256[:_DIGITS]}…): "
            "start the run again with --resume"
        )
