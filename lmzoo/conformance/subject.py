"""What is checked: a model, the texts it is tried on, the tolerances it is held to, and the words for the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.interface import LanguageModel, LogProbs, Tokens
from lmzoo.spec import Spec

# the loosest precision that a model may claim for itself: quantised weights
LOOSEST_TOLERANCE = 2e-2
# a claim above this says that the arithmetic is coarse, so it holds for single tokens as well
_COARSE_TOLERANCE = 1e-3
# contexts are never longer than this, however far a model looks back
_LONGEST_CONTEXT = 2_000
_LONG_CONTEXT = 40
# of a large vocabulary so many symbols are tried one by one
_N_SPREAD_SYMBOLS = 60


class CheckResult(NamedTuple):
    """How one check went.  `status`: `passed`, `failed`, `expected` (failed, as declared) or `skipped`."""

    name: str
    status: str
    message: str


class BrokenLawError(Exception):
    """The model breaks the law that a check states; never leaves this package."""


class NotApplicableError(Exception):
    """The check has no meaning for this model; never leaves this package."""


class Context(NamedTuple):
    """A history: token ids after the start of a document (`bos`) or after nothing."""

    name: str
    ids_1xL: Tokens
    bos: bool


@dataclass(frozen=True)
class Subject:
    """A model under test.  Everything random comes from fixed seeds, so a verdict repeats.

    Args:
        model: the model; nothing is asked of it before a check runs.
        spec: how to train its like, for the training checks.
        check_names: what `expected_failures` may name.
    """

    model: LanguageModel[Any]
    spec: Spec | str | None = None
    check_names: frozenset[str] = frozenset()

    @property
    def n_symbols(self) -> int:
        """V: the symbols of the vocabulary, `<s>` among them."""
        return len(self.model.vocab)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return (1,) if self.model.is_adaptive else (1, 2, 7)

    @cached_property
    def usable_V1(self) -> Tokens:
        """Every id that can stand in a text: all but `<s>`."""
        return np.delete(np.arange(self.n_symbols), self.model.vocab.bos_id)

    def tokens(self, batch_size: int, length: int, *, seed: int = 0) -> Tokens:
        """Random ids, shape (B, L), int64, each symbol but `<s>` as likely as another."""
        return np.random.default_rng(seed).choice(self.usable_V1, (batch_size, length))

    def logprobs(self, tokens_BxL: Tokens, *, bos: bool = True) -> LogProbs:
        """What the model says of tokens from the start of a document."""
        return self.model.logprobs(tokens_BxL, self.model.initial_state(len(tokens_BxL), bos=bos))[0]

    def state_after(self, tokens_BxL: Tokens, *, bos: bool = True) -> Any:
        """The model's state after tokens from the start of a document."""
        state = self.model.initial_state(len(tokens_BxL), bos=bos)
        return self.model.logprobs(tokens_BxL, state)[1] if tokens_BxL.shape[1] else state

    def next_after(self, tokens_BxL: Tokens, *, bos: bool = True) -> LogProbs:
        """The model's distribution after tokens from the start of a document, shape (B, V)."""
        return self.model.next_logprobs(self.state_after(tokens_BxL, bos=bos))

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """Histories of every kind: none, likely ones, unlikely ones, with `<unk>`, longer than the model looks back."""
        unk_id = self.model.vocab.unk_id
        reach = _LONG_CONTEXT if self.model.context_size is None else self.model.context_size
        empty = np.zeros((1, 0), np.int64)
        return (
            Context("the start of a document", empty, True),
            Context("the null context", empty, False),
            Context("its own likeliest text", self._likely_text(6), True),
            Context("random symbols", self.tokens(1, 3, seed=1), True),
            Context("random symbols without a start", self.tokens(1, 3, seed=2), False),
            Context("<unk>", np.array([[unk_id]]), False),
            Context("<unk> twice", np.array([[unk_id, unk_id]]), True),
            Context("a long text", self.tokens(1, min(reach + 3, _LONGEST_CONTEXT), seed=3), True),
        )

    @cached_property
    def spread_symbols_N(self) -> Tokens:
        """Ids from the whole vocabulary, the reserved ones among them; every id of a small one."""
        spread = np.linspace(0, self.n_symbols - 1, min(self.n_symbols, _N_SPREAD_SYMBOLS)).astype(np.int64)
        return np.unique(np.concatenate([np.arange(min(3, self.n_symbols)), spread]))

    @cached_property
    def distributions(self) -> tuple[tuple[str, LogProbs], ...]:
        """`next_logprobs`, (N, V), in every kind of context and, where texts go side by side, after many a symbol."""
        found = [(name, np.array(self.next_after(ids_1xL, bos=bos))) for name, ids_1xL, bos in self.contexts]
        if not self.model.is_adaptive:
            symbols_N = np.setdiff1d(self.spread_symbols_N, [self.model.vocab.bos_id])
            found.append(("a single symbol", np.array(self.next_after(symbols_N[:, None], bos=False))))
        return tuple(found)

    def _likely_text(self, length: int) -> Tokens:
        """The likeliest symbol each time: the surest way to histories that were seen in training."""
        ids: list[int] = []
        for _ in range(length):
            logprobs_V = np.array(self.next_after(np.array([ids], np.int64))[0], np.float64)
            logprobs_V[self.model.vocab.bos_id] = -np.inf
            ids.append(int(logprobs_V.argmax()))
        return np.array([ids])

    @cached_property
    def is_double(self) -> bool:
        """Whether the model answers in float64, and so is held to double precision."""
        return np.asarray(self.logprobs(self.tokens(1, 2))).dtype == np.float64

    @cached_property
    def tolerance(self) -> float:
        """How far a sum of probabilities may be from 1."""
        claimed = getattr(self.model, "tolerance", None)
        if isinstance(claimed, float) and 0 < claimed <= LOOSEST_TOLERANCE:
            return claimed
        return 1e-9 if self.is_double else 1e-5

    @cached_property
    def token_tolerance(self) -> float:
        """How far two ways to the same token may be apart, in nats."""
        own = 1e-9 if self.is_double else 1e-4
        return max(own, self.tolerance) if self.tolerance > _COARSE_TOLERANCE else own

    @cached_property
    def total_tolerance(self) -> float:
        """How far two ways to the same total may be apart, relative to it."""
        own = 1e-9 if self.is_double else 1e-5
        return max(own, self.tolerance) if self.tolerance > _COARSE_TOLERANCE else own


@dataclass(frozen=True)
class Check:
    """One law by name, and the function that raises `BrokenLawError` where a model breaks it."""

    name: str
    run: Callable[[Subject], None]

    @property
    def law(self) -> str:
        """The law in a sentence."""
        return (self.run.__doc__ or "").partition("\n")[0]


def checks_of(group: str, functions: Sequence[Callable[[Subject], None]]) -> tuple[Check, ...]:
    """The checks of a group, named `group.function`."""
    return tuple(Check(f"{group}.{function.__name__}", function) for function in functions)


def require(condition: bool, message: str) -> None:
    """Raise `BrokenLawError` with the message unless the condition holds."""
    if not condition:
        raise BrokenLawError(message)


def require_close(got: npt.ArrayLike, wanted: npt.ArrayLike, tolerance: float, what: str) -> None:
    """Two arrays agree: same shape, equal infinities, no NaN, finite values at most `tolerance` apart."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    require(got.shape == wanted.shape, f"{what}: shape {got.shape} instead of {wanted.shape}")
    with np.errstate(invalid="ignore"):
        gaps = np.where(got == wanted, 0.0, np.abs(got - wanted))
    # written so that NaN is refused too
    bad = np.argwhere(~(gaps <= tolerance))
    if len(bad):
        where = tuple(bad[0].tolist())
        raise BrokenLawError(
            f"{what}: {got[where]:.12g} instead of {wanted[where]:.12g} at {where} (tolerance {tolerance:g})"
        )


def require_batches(subject: Subject) -> None:
    """Raise `NotApplicableError` for a model that takes one text at a time."""
    if subject.model.is_adaptive:
        raise NotApplicableError("an adaptive model takes one text at a time")
