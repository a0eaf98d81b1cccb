"""Checks of causality, of states as values, and of batches as texts side by side."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lmzoo.conformance.subject import NotApplicableError, Subject, checks_of, require, require_batches, require_close
from lmzoo.interface import context_classes, n_context_classes, select

_LENGTH = 17
# where a text of that length is cut: evenly, unevenly, with an empty piece, one token at a time
_CUTS = ((0, 8, 17), (0, 1, 5, 16, 17), (0, 6, 6, 17), tuple(range(18)))
# long enough for what adds up to show: products that vanish, rounding, counters, windows that fill
_LONG_LENGTH = 3_000
_PIECE_LENGTH = 500
# above this, two texts that differ only before the window would cost too much
_LONGEST_WINDOW = 2_000


def future_is_invisible(subject: Subject) -> None:
    """A change of later tokens leaves the earlier answers equal to the last bit."""
    changed = subject.tokens(1, _LENGTH)
    original = changed.copy()
    middle = _LENGTH // 2
    # another symbol at each place, whatever the first draw was
    places = np.searchsorted(subject.usable_V1, changed[:, middle:])
    changed[:, middle:] = subject.usable_V1[(places + 1) % len(subject.usable_V1)]
    got, wanted = subject.logprobs(changed)[:, :middle], subject.logprobs(original)[:, :middle]
    require(np.array_equal(got, wanted), f"tokens from {middle} on change the answers before {middle}")


def right_padding(subject: Subject) -> None:
    """Padding on the right leaves the answers for the text as they were."""
    tokens_1xL = subject.tokens(1, _LENGTH)
    wanted = subject.logprobs(tokens_1xL)
    for pad_id in (0, int(subject.usable_V1[-1])):
        padded = np.concatenate([tokens_1xL, np.full((1, 9), pad_id)], axis=1)
        got = subject.logprobs(padded)[:, :_LENGTH]
        require_close(got, wanted, subject.token_tolerance, f"logprobs of a text padded with {pad_id}")


def chunks(subject: Subject) -> None:
    """A text in pieces, the state handed on, is the same text."""
    tokens_1xL = subject.tokens(1, _LENGTH)
    wanted, end = subject.model.logprobs(tokens_1xL, subject.model.initial_state(1))
    for cuts in _CUTS:
        state = subject.model.initial_state(1)
        pieces = []
        for start, stop in pairwise(cuts):
            piece, state = subject.model.logprobs(tokens_1xL[:, start:stop], state)
            pieces.append(piece)
        require_close(
            np.concatenate(pieces, axis=1), wanted, subject.token_tolerance, f"logprobs in pieces cut at {cuts}"
        )
        got_next, wanted_next = subject.model.next_logprobs(state), subject.model.next_logprobs(end)
        require_close(got_next, wanted_next, subject.token_tolerance, f"next_logprobs after pieces cut at {cuts}")


def classes_of_contexts(subject: Subject) -> None:
    """Classes of contexts, where a model has them, are whole numbers below their count, the same in pieces."""
    model, n_classes = subject.model, n_context_classes(subject.model)
    if n_classes == 1:
        raise NotApplicableError("the model sorts its contexts into no classes")
    tokens_1xL = subject.tokens(1, _LENGTH)
    wanted = np.asarray(context_classes(model, tokens_1xL, model.initial_state(1)))
    require(wanted.shape == (1, _LENGTH + 1), f"context_classes has shape {wanted.shape}, {(1, _LENGTH + 1)} is wanted")
    require(np.issubdtype(wanted.dtype, np.integer), f"context_classes has dtype {wanted.dtype}, integers are wanted")
    is_class = (wanted >= 0) & (wanted < n_classes)
    require(bool(is_class.all()), f"context_classes has {wanted[~is_class]}, n_context_classes is {n_classes}")
    for cuts in _CUTS:
        state = model.initial_state(1)
        for start, stop in pairwise(cuts):
            got = context_classes(model, tokens_1xL[:, start:stop], state)
            _, state = model.logprobs(tokens_1xL[:, start:stop], state)
            is_same = np.array_equal(got, wanted[:, start : stop + 1])
            require(is_same, f"context_classes of tokens {start} to {stop} differ in a piece of its own")


def old_states_stay_valid(subject: Subject) -> None:
    """A state that was kept says the same after the model went on from it, and forks do not meet."""
    kept = subject.state_after(subject.tokens(1, 4))
    left, right = subject.tokens(1, 6, seed=1), subject.tokens(1, 6, seed=2)
    first_next = np.array(subject.model.next_logprobs(kept))
    first_left = np.array(subject.model.logprobs(left, kept)[0])
    subject.model.logprobs(right, kept)
    require(np.array_equal(subject.model.next_logprobs(kept), first_next), "next_logprobs of a kept state changed")
    again = subject.model.logprobs(left, kept)[0]
    require(np.array_equal(again, first_left), "logprobs from a kept state changed after a fork went another way")


def repeated_call(subject: Subject) -> None:
    """The same call gives the same answer to the last bit, whatever was scored in between."""
    tokens_1xL = subject.tokens(1, _LENGTH)
    first = np.array(subject.logprobs(tokens_1xL))
    first_next = np.array(subject.next_after(tokens_1xL))
    subject.logprobs(subject.tokens(1, 5, seed=9))
    require(np.array_equal(subject.logprobs(tokens_1xL), first), "the second logprobs of a text differs from the first")
    again = subject.next_after(tokens_1xL)
    require(np.array_equal(again, first_next), "the second next_logprobs after a text differs from the first")


def long_text(subject: Subject) -> None:
    """A long text is scored to its end as a short one is: by numbers, of sum 1, the same in pieces as at once."""
    model, tokens_1xL = subject.model, subject.tokens(1, _LONG_LENGTH, seed=11)
    has_sums = _sums_to_one(subject)
    state = model.initial_state(1)
    pieces = []
    for start in range(0, _LONG_LENGTH + 1, _PIECE_LENGTH):
        next_V = np.asarray(model.next_logprobs(state), np.float64).reshape(-1)
        if has_sums:
            total = np.exp(next_V).sum()
            require_close(total, 1.0, subject.tolerance, f"the sum of the probabilities after {start} tokens")
        logprobs_1xM, state = model.logprobs(tokens_1xL[:, start : start + _PIECE_LENGTH], state)
        pieces.append(logprobs_1xM)
    what = f"logprobs of {_LONG_LENGTH} tokens at once against pieces of {_PIECE_LENGTH}"
    require_close(subject.logprobs(tokens_1xL), np.concatenate(pieces, axis=1), subject.token_tolerance, what)


def _sums_to_one(subject: Subject) -> bool:
    """Whether short texts have sums of 1; where they have none, that is told by another check."""
    sums = (np.exp(np.asarray(next_NxV, np.float64)).sum(axis=-1) for _, next_NxV in subject.distributions)
    return all(bool((np.abs(sums_N - 1) <= subject.tolerance).all()) for sums_N in sums)


def context_size_is_true(subject: Subject) -> None:
    """Tokens older than `context_size`, and the start of the document among them, change nothing."""
    size = subject.model.context_size
    if size is None:
        raise NotApplicableError("the model looks back without limit (context_size is None)")
    if subject.model.is_adaptive:
        raise NotApplicableError("an adaptive model learns from older tokens too")
    if size > _LONGEST_WINDOW:
        raise NotApplicableError(f"a context of {size} tokens is checked up to {_LONGEST_WINDOW}")
    window = subject.tokens(1, size, seed=3)
    wanted = subject.next_after(np.concatenate([subject.usable_V1[None, :1], window], axis=1))
    for oldest in subject.usable_V1[-3:].tolist():
        text = np.concatenate([[[oldest]], window], axis=1)
        got = subject.next_after(text)
        require_close(got, wanted, subject.token_tolerance, f"next_logprobs after a token {size + 1} back changed")
        no_start = subject.next_after(text, bos=False)
        require_close(no_start, wanted, subject.token_tolerance, f"next_logprobs without a start {size + 2} back")


def rows_alone(subject: Subject) -> None:
    """A text alone is the same as in a batch of 1, 2 or 7."""
    require_batches(subject)
    for batch_size in subject.batch_sizes:
        tokens_BxL = subject.tokens(batch_size, 9, seed=batch_size)
        together, nexts = subject.logprobs(tokens_BxL), subject.next_after(tokens_BxL)
        for row in range(batch_size):
            alone = tokens_BxL[row : row + 1]
            what = f"row {row} of a batch of {batch_size} against itself alone"
            require_close(
                together[row : row + 1], subject.logprobs(alone), subject.token_tolerance, f"logprobs of {what}"
            )
            require_close(
                nexts[row : row + 1], subject.next_after(alone), subject.token_tolerance, f"next_logprobs of {what}"
            )


def row_order(subject: Subject) -> None:
    """The order of the rows of a batch changes nothing but the order of the answers."""
    require_batches(subject)
    tokens_BxL = subject.tokens(7, 9)
    order = np.random.default_rng(0).permutation(7)
    got, wanted = subject.logprobs(tokens_BxL[order]), subject.logprobs(tokens_BxL)[order]
    require_close(got, wanted, subject.token_tolerance, f"logprobs of rows in the order {order.tolist()}")


def selected_rows(subject: Subject) -> None:
    """The state of some rows of a batch goes on as those rows would."""
    require_batches(subject)
    state = subject.state_after(subject.tokens(7, 5))
    rows = [4, 0, 0, 6]
    if not hasattr(subject.model, "select") and not isinstance(state, np.ndarray):
        raise NotApplicableError("the model has no select and its state is no array")
    got = subject.model.next_logprobs(select(subject.model, state, rows))
    wanted = subject.model.next_logprobs(state)[rows]
    require_close(got, wanted, subject.token_tolerance, f"next_logprobs of the selected rows {rows}")


CAUSALITY_CHECKS = checks_of("causality", (future_is_invisible, right_padding))
STATE_CHECKS = checks_of(
    "state",
    (chunks, classes_of_contexts, long_text, old_states_stay_valid, repeated_call, context_size_is_true),
)
BATCH_CHECKS = checks_of("batch", (rows_alone, row_order, selected_rows))
