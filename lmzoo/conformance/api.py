"""Checks of the interface itself: attributes, shapes, kinds of input, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.conformance.subject import LOOSEST_TOLERANCE, BrokenLawError, Subject, checks_of, require, require_close
from lmzoo.errors import TokenError
from lmzoo.interface import Tokens
from lmzoo.vocab import Vocab


def attributes(subject: Subject) -> None:
    """`vocab`, `context_size`, `is_normalized`, `is_adaptive` are of their types, and declarations make sense."""
    model = subject.model
    for name, kind in (("vocab", Vocab), ("is_normalized", bool), ("is_adaptive", bool)):
        value = getattr(model, name)
        require(isinstance(value, kind), f"{name} is a {kind.__name__}, got {value!r:.60}")
    size = model.context_size
    is_size = size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0)
    require(is_size, f"context_size is None or an int of at least 0, got {size!r:.60}")
    claimed = getattr(model, "tolerance", None)
    is_claim = claimed is None or (isinstance(claimed, float) and 0 < claimed <= LOOSEST_TOLERANCE)
    require(is_claim, f"tolerance is a float above 0 and at most {LOOSEST_TOLERANCE:g}, got {claimed!r:.60}")
    _require_known_failures(subject, getattr(model, "expected_failures", {}))


def _require_known_failures(subject: Subject, declared: object) -> None:
    if not isinstance(declared, Mapping):
        raise BrokenLawError(f"expected_failures maps names of checks to reasons, got {declared!r:.60}")
    unknown = sorted(map(str, set(declared) - subject.check_names))
    require(not unknown, f"expected_failures names {', '.join(unknown)}, which is no check")
    silent = sorted(name for name, reason in declared.items() if not (isinstance(reason, str) and reason.strip()))
    require(not silent, f"expected_failures gives no reason for {', '.join(silent)}")


def shapes(subject: Subject) -> None:
    """`logprobs` answers (B, L) and `next_logprobs` (B, V), as arrays of floating point."""
    for batch_size in subject.batch_sizes:
        tokens_BxL = subject.tokens(batch_size, 5)
        logprobs_BxL, state = subject.model.logprobs(tokens_BxL, subject.model.initial_state(batch_size))
        _require_floats(logprobs_BxL, tokens_BxL.shape, "logprobs")
        _require_floats(subject.model.next_logprobs(state), (batch_size, subject.n_symbols), "next_logprobs")


def _require_floats(array: Any, shape: tuple[int, ...], what: str) -> None:
    require(isinstance(array, np.ndarray), f"{what} answers a numpy array, got {type(array).__name__}")
    require(array.shape == shape, f"{what} has shape {array.shape}, {shape} is wanted")
    require(np.issubdtype(array.dtype, np.floating), f"{what} has dtype {array.dtype}, floating point is wanted")


def empty_text(subject: Subject) -> None:
    """No tokens: shape (B, 0), and a state that says the same as before."""
    before = subject.state_after(subject.tokens(1, 3))
    logprobs_1x0, after = subject.model.logprobs(np.zeros((1, 0), np.int64), before)
    require(np.shape(logprobs_1x0) == (1, 0), f"logprobs of no tokens has shape {np.shape(logprobs_1x0)}, not (1, 0)")
    require_close(
        subject.model.next_logprobs(after),
        subject.model.next_logprobs(before),
        subject.token_tolerance,
        "next_logprobs after no tokens",
    )


def kinds_of_input(subject: Subject) -> None:
    """int32, int64, read-only and strided ids are the same text."""
    tokens_BxL = subject.tokens(subject.batch_sizes[-1], 6)
    wanted = subject.logprobs(tokens_BxL)
    read_only = tokens_BxL.copy()
    read_only.flags.writeable = False
    strided = np.zeros((tokens_BxL.shape[1] * 2, len(tokens_BxL)), np.int32).T
    strided[:, ::2] = tokens_BxL
    given: dict[str, Tokens] = {
        "int32": tokens_BxL.astype(np.int32),
        "int64": tokens_BxL.astype(np.int64),
        "read-only": read_only,
        "strided": strided[:, ::2],
    }
    for kind, ids_BxL in given.items():
        require_close(subject.logprobs(ids_BxL), wanted, subject.token_tolerance, f"logprobs of {kind} ids")


def inputs_unmodified(subject: Subject) -> None:
    """The array of ids that was given holds the same ids afterwards."""
    # two texts without a common symbol: whatever is written into them changes one
    for symbol in (0, subject.n_symbols - 1):
        for dtype in (np.int32, np.int64):
            tokens_BxL: Tokens = np.full((subject.batch_sizes[-1], 6), symbol, dtype)
            subject.logprobs(tokens_BxL)
            is_same = bool((tokens_BxL == symbol).all())
            require(is_same, f"logprobs changed the {tokens_BxL.dtype} ids that it was given")


def bad_ids(subject: Subject) -> None:
    """An id outside 0..V-1 raises `TokenError` with the id and the range."""
    last = subject.n_symbols - 1
    # 2**32 is 0 once it is cut to 32 bits
    for bad in (subject.n_symbols, subject.n_symbols + 7, -1, 2**32):
        message = _refusal(subject, np.array([[0, bad]], np.int64), f"the id {bad}")
        require(str(bad) in message, f"the error for the id {bad} does not name it: {message!r}")
        numbers = set(re.findall(r"\d+", message.replace(str(bad), "", 1)))
        in_range = {str(last), str(last + 1)}
        require(
            bool(numbers & in_range), f"the error for the id {bad} does not say that 0..{last} is wanted: {message!r}"
        )


def bad_dtypes(subject: Subject) -> None:
    """Ids that are no integers raise `TokenError` with their dtype."""
    for dtype in (np.float64, np.bool_):
        ids = np.zeros((1, 2), dtype)
        message = _refusal(subject, ids, f"ids of dtype {ids.dtype}")
        require(str(ids.dtype) in message, f"the error for ids of dtype {ids.dtype} does not name it: {message!r}")


def bad_ranks(subject: Subject) -> None:
    """Ids that are not of shape (B, L) raise `TokenError` with their shape."""
    for shape in ((2,), (1, 2, 1)):
        message = _refusal(subject, np.zeros(shape, np.int64), f"ids of shape {shape}")
        require(str(shape) in message, f"the error for ids of shape {shape} does not name it: {message!r}")


def batch_mismatch(subject: Subject) -> None:
    """Ids of another number of rows than the state raise `TokenError`."""
    _refusal(subject, np.zeros((3, 2), np.int64), "3 rows of ids with a state of 1 row")


def _refusal(subject: Subject, tokens: npt.NDArray[Any], what: str) -> str:
    """The message of the `TokenError` that these ids raise."""
    state = subject.model.initial_state(1)
    try:
        subject.model.logprobs(tokens, state)
    except TokenError as error:
        return str(error)
    except Exception as error:
        raise BrokenLawError(f"{what} raise {type(error).__name__} instead of TokenError: {error}") from error
    raise BrokenLawError(f"{what} were accepted, TokenError is wanted")


CHECKS = checks_of(
    "api",
    (
        attributes,
        shapes,
        empty_text,
        kinds_of_input,
        inputs_unmodified,
        bad_ids,
        bad_dtypes,
        bad_ranks,
        batch_mismatch,
    ),
)
