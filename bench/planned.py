"""That a trial finds what its plan was made of: anything else would be measured under a key that is not its own."""

from __future__ import annotations

from bench import environment
from bench.records import TrialSpec
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError


class StaleError(InputError):
    """A plan is of another text or of other code."""


def require_same_code(trial: TrialSpec) -> None:
    """Raise `StaleError` where the sources of lmzoo or bench have changed since the plan was made."""
    if trial.code_sha256 not in (None, environment.code_sha256()):
        raise StaleError(
            "the code of lmzoo or bench has changed since the run began: start the run again with --resume"
        )


def require_same_text(trial: TrialSpec, corpus: Corpus) -> None:
    """The same for the text."""
    if corpus.sha256 != trial.corpus_sha256:
        raise StaleError(
            f"the text has changed since the run began (its sha256 is now {corpus.sha256[:12]}…): "
            "start the run again with --resume"
        )
