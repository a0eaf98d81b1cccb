"""What the two ways to adapt share: a trained network inside, whose texts go their own ways, a row each."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy.typing as npt

from lmzoo.errors import TokenError
from lmzoo.interface import Tokens, checked_rows
from lmzoo.neural.models import RecurrentModel
from lmzoo.vocab import Vocab

Row = TypeVar("Row")


class WrappedNetwork(Generic[Row]):
    """A trained recurrent network that learns from the text it scores; a state is a tuple of one `Row` a text."""

    is_normalized = True
    is_adaptive = True
    context_size: int | None = None
    row_class: type[Row]

    def __init__(self, plain: RecurrentModel) -> None:
        self.plain = plain
        self.vocab: Vocab = plain.vocab
        self.config = plain.config

    @property
    def n_params(self) -> int:
        """Those of the network and the two rates."""
        return self.plain.n_params + 2

    @property
    def kernel_name(self) -> str:
        return self.plain.kernel_name

    @property
    def device(self) -> str:
        return self.plain.device

    def select(self, state: tuple[Row, ...], rows: npt.ArrayLike) -> tuple[Row, ...]:
        self._check_state(state)
        return tuple(state[int(r)] for r in checked_rows(rows, len(state)))

    def _checked(self, tokens_BxL: Tokens, state: tuple[Row, ...]) -> Tokens:
        """Raise `TokenError` for tokens and a state that do not go together."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {len(state)}; use select()")
        return tokens_BxL

    def _check_state(self, state: tuple[Row, ...]) -> None:
        """Raise `TokenError` for what is no state of this model."""
        if not isinstance(state, tuple) or not all(isinstance(row, self.row_class) for row in state):
            raise TokenError("this is no state of this model; get one from initial_state() or logprobs()")
