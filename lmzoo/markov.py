"""Text of known entropy: a Markov chain over characters, of which everything that measurement estimates is known.

Shapes: V symbols, C = V**order contexts, D documents, L and N symbols.  A context is a number in base V whose last
digit is the latest symbol, so that after symbol s context c becomes (c V + s) mod C.
"""

from __future__ import annotations

import string
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError, OptionValueError, SpecError
from lmzoo.spec import configure, parse_spec

NAME = "markov"
Floats = npt.NDArray[np.float64]
SymbolIds = npt.NDArray[np.int64]

# the stationary distribution is solved for in C x C numbers
MAX_CONTEXTS = 1024
_MAX_ORDER = 10
_MAX_LENGTH = 100_000_000
_MAX_CONCENTRATION = 1e6
# every hundredth symbol is drawn uniformly: whatever the rest is, all contexts are reached and no symbol is impossible
_UNIFORM_SHARE = 0.01
_SINGLES = string.ascii_lowercase + " " + string.ascii_uppercase
_FIRST_IDEOGRAPH = 0x4E00


@dataclass(frozen=True, kw_only=True)
class MarkovConfig:
    """What decides a chain and its text.

    Args:
        order: how many symbols back the next one depends on; 0: on none.
        symbols: how many there are: a-z, then the space, A-Z and Chinese characters.
        seed: of the transitions and of the text.
        length: characters of the text.
        concentration: of the Dirichlet distribution that each context's transitions are drawn from: near 0 one symbol
            takes nearly all, far above 1 all are nearly as likely.
        symmetric: exchanging `a` and `b` everywhere leaves the chain as it is.
    """

    order: int = 2
    symbols: int = 27
    seed: int = 1
    length: int = 200_000
    concentration: float = 0.1
    symmetric: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (
            ("order", 0, _MAX_ORDER),
            ("symbols", 2, MAX_CONTEXTS),
            ("seed", 0, 2**63 - 1),
            ("length", 1, _MAX_LENGTH),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise OptionValueError(f"{name} is a whole number from {least:,} to {most:,}, got {value:,}")
        if not 0 < self.concentration <= _MAX_CONCENTRATION:
            raise OptionValueError(
                f"concentration is above 0 and at most {_MAX_CONCENTRATION:,.0f}, got {self.concentration:g}"
            )
        n_contexts = self.symbols**self.order
        if n_contexts > MAX_CONTEXTS:
            raise OptionValueError(
                f"symbols**order is at most {MAX_CONTEXTS:,}, got {self.symbols}**{self.order} = {n_contexts:,}; "
                "take a lower order or fewer symbols"
            )


def parse_markov(text: str) -> MarkovConfig:
    """The config of `markov:key=value,…`.  Raises `SpecError`, naming the close match of an unknown key."""
    spec = parse_spec(text)
    if spec.value is not None:
        raise SpecError(f"{spec.value!r} in {text!r} is not key=value; write for example {NAME}:order=2,symbols=27")
    return configure(MarkovConfig, spec.options, NAME)


class MarkovSource:
    """A stationary Markov chain over characters.

    Attributes:
        transitions_CxV: p(symbol | context), every one above 0.
        alphabet: the V characters; a symbol's id is its place.
    """

    def __init__(self, transitions_CxV: Floats, *, order: int) -> None:
        """Raises `InputError` for what is no table of V**order distributions without zeros."""
        shape = transitions_CxV.shape
        if order < 0 or len(shape) != 2 or shape[1] < 2 or shape[0] != shape[1] ** order:
            raise InputError(
                f"transitions of order {order} have shape (V**{order}, V) with V of 2 or more, got {shape}"
            )
        if not (transitions_CxV > 0).all() or not np.allclose(transitions_CxV.sum(axis=1), 1.0, rtol=0, atol=1e-9):
            raise InputError("each row of the transitions holds probabilities above 0 that sum to 1")
        self.order = order
        self.transitions_CxV = transitions_CxV
        self.alphabet = _alphabet(shape[1])

    @classmethod
    def of(cls, config: MarkovConfig) -> MarkovSource:
        """The chain of a config: equal configs give equal chains."""
        # a stream of its own, so that the text does not begin with the numbers that made the transitions
        rng = np.random.default_rng([config.seed, 0])
        n_contexts, n_symbols = config.symbols**config.order, config.symbols
        drawn_CxV = rng.dirichlet(np.full(n_symbols, config.concentration), size=n_contexts)
        if config.symmetric:
            drawn_CxV = _made_symmetric(drawn_CxV, config.order)
        mixed_CxV = (1 - _UNIFORM_SHARE) * drawn_CxV + _UNIFORM_SHARE / n_symbols
        return cls(mixed_CxV / mixed_CxV.sum(axis=1, keepdims=True), order=config.order)

    @property
    def symbols(self) -> int:
        return int(self.transitions_CxV.shape[1])

    @property
    def n_contexts(self) -> int:
        return int(self.transitions_CxV.shape[0])

    @cached_property
    def stationary_C(self) -> Floats:
        """p(context) far from any start: the one distribution that a step of the chain leaves as it is.

        Solved for as a system of linear equations; there is one solution, as every context is reached from every other.
        """
        contexts_C, symbols_V = np.arange(self.n_contexts), np.arange(self.symbols)
        next_CxV = (contexts_C[:, None] * self.symbols + symbols_V) % self.n_contexts
        equations_CxC = -np.eye(self.n_contexts)
        # several symbols lead to one context where there is only one
        np.add.at(equations_CxC, (next_CxV, contexts_C[:, None]), self.transitions_CxV)
        # one balance follows from the others; that the weights sum to 1 takes its place
        equations_CxC[-1] = 1.0
        solved_C = np.linalg.solve(equations_CxC, np.where(contexts_C == self.n_contexts - 1, 1.0, 0.0))
        # what is nearly impossible may come out below 0 by rounding
        weights_C: Floats = np.maximum(solved_C, 0.0)
        weights_C /= weights_C.sum()
        return weights_C

    @cached_property
    def entropy_nats(self) -> float:
        """The entropy rate in nats per symbol: no model's expected nats per symbol are below it."""
        row_nats_C = -(self.transitions_CxV * np.log(self.transitions_CxV)).sum(axis=1)
        return float(self.stationary_C @ row_nats_C)

    def joint_of(self, n_symbols: int) -> Floats:
        """p of every string of that many neighbouring symbols, flat: V**n numbers, the latest symbol's digit last."""
        if n_symbols <= self.order:
            fewer: Floats = self.stationary_C.reshape(-1, self.symbols**n_symbols).sum(axis=0)
            return fewer
        before_RxC = self.joint_of(n_symbols - 1).reshape(-1, self.n_contexts)
        joint: Floats = (before_RxC[:, :, None] * self.transitions_CxV).ravel()
        return joint

    def sample(self, n_symbols: int, rng: np.random.Generator) -> SymbolIds:
        """So many symbols in a row, ids of shape (N,); the first ones are drawn from the stationary distribution."""
        context = self._first_contexts(1, rng)
        first = self._digits(context)[0]
        n_drawn = max(n_symbols - len(first), 0)
        return np.concatenate([first, self._walk(int(context[0]), rng.random(n_drawn))])[:n_symbols]

    def sample_documents(self, n_documents: int, length: int, rng: np.random.Generator) -> SymbolIds:
        """Independent stretches of the chain, ids of shape (D, L), each begun like `sample`."""
        context_D = self._first_contexts(n_documents, rng)
        columns = [*self._digits(context_D).T]
        for _ in range(length - len(columns)):
            below_DxV = self._ends_CxV[context_D] <= rng.random(n_documents)[:, None]
            columns.append(below_DxV.sum(axis=1))
            context_D = (context_D * self.symbols + columns[-1]) % self.n_contexts
        return np.stack(columns[:length], axis=1) if length else np.zeros((n_documents, 0), np.int64)

    def text(self, ids_N: SymbolIds) -> str:
        """The characters of symbols; none is a line end."""
        return self._code_points_V[ids_N].tobytes().decode("utf-32-le")

    def exchanged(self, ids: SymbolIds) -> SymbolIds:
        """The same symbols with `a` and `b`, the first two, exchanged."""
        return _exchange_V(self.symbols)[ids]

    @cached_property
    def _ends_CxV(self) -> Floats:
        """Where each symbol's stretch of 0..1 ends; the last one ends nowhere, whatever rounding says."""
        ends_CxV: Floats = self.transitions_CxV.cumsum(axis=1)
        ends_CxV[:, -1] = np.inf
        return ends_CxV

    @cached_property
    def _code_points_V(self) -> npt.NDArray[np.uint32]:
        return np.array([ord(character) for character in self.alphabet], "<u4")

    def _first_contexts(self, n_documents: int, rng: np.random.Generator) -> SymbolIds:
        ends_C = self.stationary_C.cumsum()
        return np.searchsorted(ends_C[:-1], rng.random(n_documents), side="right")

    def _digits(self, contexts_D: SymbolIds) -> SymbolIds:
        """The symbols of contexts, oldest first: shape (D, order)."""
        powers = self.symbols ** np.arange(self.order - 1, -1, -1, dtype=np.int64)
        return contexts_D[:, None] // powers % self.symbols

    def _walk(self, context: int, draws_N: Floats) -> SymbolIds:
        """One symbol for each number drawn from 0..1.  Plain Python: each step waits for the one before."""
        ends, n_symbols, n_contexts = array("d", self._ends_CxV.tobytes()), self.symbols, self.n_contexts
        walked = array("q")
        for draw in draws_N.tolist():
            start = context * n_symbols
            symbol = bisect_right(ends, draw, start, start + n_symbols) - start
            walked.append(symbol)
            context = (start + symbol) % n_contexts
        return np.frombuffer(walked, np.int64) if walked else np.zeros(0, np.int64)


def markov_text(config: MarkovConfig) -> str:
    """The text of a config, the same whenever it is asked for."""
    source = MarkovSource.of(config)
    return source.text(source.sample(config.length, np.random.default_rng([config.seed, 1])))


def _alphabet(n_symbols: int) -> str:
    further = range(_FIRST_IDEOGRAPH, _FIRST_IDEOGRAPH + max(n_symbols - len(_SINGLES), 0))
    return _SINGLES[:n_symbols] + "".join(map(chr, further))


def _exchange_V(n_symbols: int) -> SymbolIds:
    return np.concatenate(([1, 0], np.arange(2, n_symbols)))


def _made_symmetric(drawn_CxV: Floats, order: int) -> Floats:
    """Rows such that p(s' | c') = p(s | c), where ' exchanges the first two symbols.

    Of two contexts that are each other's image, one is taken and the other is its image; a context that is its own
    image shares what the two symbols have.
    """
    n_contexts, n_symbols = drawn_CxV.shape
    exchange_V = _exchange_V(n_symbols)
    image_C = np.zeros(n_contexts, np.int64)
    for place in n_symbols ** np.arange(order, dtype=np.int64):
        image_C += exchange_V[np.arange(n_contexts) // place % n_symbols] * place
    taken_CxV = drawn_CxV[np.minimum(image_C, np.arange(n_contexts))]
    mirrored_CxV = taken_CxV[:, exchange_V]
    is_image_C, is_own_C = image_C < np.arange(n_contexts), image_C == np.arange(n_contexts)
    halves_CxV = (taken_CxV + mirrored_CxV) / 2
    return np.where(is_own_C[:, None], halves_CxV, np.where(is_image_C[:, None], mirrored_CxV, taken_CxV))
