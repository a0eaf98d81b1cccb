"""The public contract of a language model, as named checks that anyone can run on a model of their own.

Each check is a small function whose first line states the law.  It raises where the law is broken; here that becomes a
`CheckResult`, so that a faulty model gives results and never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmzoo.conformance import accounting, api, persistence, probability, sampling, state, training
from lmzoo.conformance.subject import BrokenLawError, Check, CheckResult, NotApplicableError, Subject
from lmzoo.errors import UnavailableError
from lmzoo.interface import LanguageModel
from lmzoo.spec import Spec

__all__ = [
    "CHECKS",
    "QUICK_CHECKS",
    "Check",
    "CheckResult",
    "Subject",
    "check_language_model",
    "each_check",
    "quick_check",
    "run_check",
]

CHECKS: tuple[Check, ...] = (
    *api.CHECKS,
    *probability.CHECKS,
    *state.CAUSALITY_CHECKS,
    *state.STATE_CHECKS,
    *state.BATCH_CHECKS,
    *sampling.CHECKS,
    *persistence.CHECKS,
    *training.CHECKS,
    *accounting.CHECKS,
)

_QUICK = (probability.never_above_zero, probability.never_nan, probability.sums_to_one, probability.two_ways_agree)
QUICK_CHECKS: tuple[Check, ...] = tuple(check for check in CHECKS if check.run in _QUICK)

_NAMES = frozenset(check.name for check in CHECKS)
_MESSAGE_LENGTH = 300

# what a model that declares itself no distribution is expected to break
_UNNORMALIZED: Mapping[str, str] = dict.fromkeys(
    ("probability.sums_to_one", "probability.strings_sum_to_one"),
    "the model declares that its scores do not sum to 1 (is_normalized is False)",
)


def check_language_model(model: LanguageModel[Any], spec: Spec | str | None = None) -> list[CheckResult]:
    """Every check of the contract, run on a model; a few seconds for a small one.

    Args:
        model: any object with the methods of `interface.LanguageModel`; the optional ones may be missing.
        spec: how its like is trained, such as `"lstm-scratch:hidden=8"`; without it the training checks are skipped.

    Tolerances follow the dtype of `logprobs`: sums of probabilities to 1e-9 in float64 and to 1e-5 otherwise, tokens to
    1e-9 and 1e-4 nats, totals to 1e-9 and 1e-5 of themselves.  A model whose probabilities are coarser says so in an
    attribute `tolerance`, a float up to 2e-2 for the sums (1e-4: read from a file of few digits; 2e-2: quantised);
    above 1e-3 it holds for tokens and totals as well.

    A model that cannot pass a check declares it in an attribute `expected_failures`, a mapping from the check's name to
    the reason; `is_normalized=False` declares the two checks of sums.  Such a failure has status `expected`; where the
    check passes all the same, the declaration is wrong and the status is `failed`.
    """
    return list(each_check(model, spec))


def each_check(model: LanguageModel[Any], spec: Spec | str | None = None) -> Iterator[CheckResult]:
    """The same one by one, each as soon as it is known."""
    subject = Subject(model, spec, _NAMES)
    return (run_check(check, subject) for check in CHECKS)


def quick_check(model: LanguageModel[Any]) -> list[CheckResult]:
    """Only whether the answers are probabilities: never above 0, no NaN, sum to 1, both ways of asking agree."""
    subject = Subject(model, None, _NAMES)
    return [run_check(check, subject) for check in QUICK_CHECKS]


def run_check(check: Check, subject: Subject) -> CheckResult:
    """One check; whatever the model raises is a failure of it."""
    reason = None
    try:
        reason = _expected_failures(subject.model).get(check.name)
        check.run(subject)
    except (NotApplicableError, UnavailableError) as error:
        return CheckResult(check.name, "skipped", _one_line(str(error)))
    except BrokenLawError as error:
        found = _one_line(str(error))
    except Exception as error:
        # in one line, whatever it was: a broken model is a result, not a traceback
        found = _one_line(f"{type(error).__name__}: {error}")
    else:
        if reason is None:
            return CheckResult(check.name, "passed", "")
        return CheckResult(check.name, "failed", f"passed, though declared to fail: {reason}")
    if reason is None:
        return CheckResult(check.name, "failed", found)
    return CheckResult(check.name, "expected", f"{reason}: {found}")


def _expected_failures(model: object) -> Mapping[str, str]:
    """What a model declares that it breaks; a declaration that is no mapping is left to the check of attributes."""
    implied = {} if getattr(model, "is_normalized", True) else _UNNORMALIZED
    declared = getattr(model, "expected_failures", None)
    return {**implied, **declared} if isinstance(declared, Mapping) else implied


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_LENGTH else line[: _MESSAGE_LENGTH - 1] + "…"
