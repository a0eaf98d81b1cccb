"""A recurrent network as anybody would train it with torch's own layers: the other side of comparisons."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainTraining:
    """One-hot inputs, `nn.RNN`, `nn.GRU` or `nn.LSTM`, `nn.Linear`, SGD with clipping; state goes on from step to step.

    Args:
        text_TxB: ids of a made-up text; the same batch serves every step, which costs what any other would.
    """

    def __init__(self, cell: str, text_TxB: Tensor, n_symbols: int, hidden: int, *, lr: float = 1.0) -> None:
        self._layer = getattr(nn, cell.upper())(n_symbols, hidden)
        self._output = nn.Linear(hidden, n_symbols)
        self._parameters = [*self._layer.parameters(), *self._output.parameters()]
        self._optimizer = torch.optim.SGD(self._parameters, lr=lr)
        self._inputs_TxB, self._targets_TxB = text_TxB[:-1], text_TxB[1:]
        self._n_symbols = n_symbols
        self._state: Tensor | tuple[Tensor, Tensor] | None = None

    def step(self) -> int:
        """Learn one batch; how many tokens it had."""
        one_hot_TxBxV = functional.one_hot(self._inputs_TxB, self._n_symbols).to(torch.float32)
        hidden_TxBxH, state = self._layer(one_hot_TxBxV, self._state)
        logits_NxV = self._output(hidden_TxBxH).flatten(0, 1)
        loss = functional.cross_entropy(logits_NxV, self._targets_TxB.flatten())
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        return self._targets_TxB.numel()
