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


def require_same_text(trial: TrialSpec, corpus: Corpus) -> None:
    """The same for the text."""
    if corpus.sha256 != trial.corpus_sha256:
        raise StaleError(
            f"the text has changed since the run began (its sha256 is now {corpus.sha256[:_DIGITS]}…): "
            "start the run again with --resume"
        )
