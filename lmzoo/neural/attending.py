"""The transformer behind the scoring interface; its state is the keys and values of the last tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzoo.errors import TokenError
from lmzoo.interface import Tokens
from lmzoo.neural.config import TransformerConfig
from lmzoo.neural.models import NeuralModel
from lmzoo.neural.transformer import TransformerNetwork

# tokens scored at a time where a layer sees fewer: shorter pieces spend their time on calls, longer ones on scores
# outside the band
_LEAST_CHUNK = 64


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Keys and values, side by side, of the last M tokens of B rows in K layers, and what the output layer reads next.

    Both float32 and read-only; M grows from 0 to the span of a layer.
    """

    kept_KxBxMxKv: npt.NDArray[np.floating[Any]]
    newest_BxH: npt.NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        self.kept_KxBxMxKv.flags.writeable = False
        self.newest_BxH.flags.writeable = False

    @property
    def batch_size(self) -> int:
        return len(self.newest_BxH)

    def select(self, rows: npt.NDArray[Any]) -> TransformerState:
        return TransformerState(self.kept_KxBxMxKv[:, rows], self.newest_BxH[rows])


class TransformerModel(NeuralModel[TransformerState]):
    """A causal transformer (Vaswani et al. 2017, Radford et al. 2019) behind the scoring interface."""

    kind = "transformer"
    config_class = TransformerConfig
    network_class = TransformerNetwork
    network: TransformerNetwork
    config: TransformerConfig

    @property
    def context_size(self) -> int:  # type: ignore[override]
        """A layer reaches `span` tokens back from where the layer above it looks: K spans and the newest token."""
        return self.config.layers * self.config.span + 1

    def _kernel(self) -> str:
        return f"torch-{self.network.device.type}"

    @torch.inference_mode()
    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> TransformerState:
        """The state after `<s>`; or nothing seen, and zeros for the output layer."""
        self._check_batch_size(batch_size)
        kept = self.network.zero_state(1)
        newest_1xH = kept.new_zeros(1, self.config.hidden)
        if bos:
            ids_1x1 = torch.tensor([[self.vocab.bos_id]], device=self.network.device)
            (newest_1xH,), kept = self.network(ids_1x1, kept)
        kept, newest_BxH = kept.expand(-1, batch_size, -1, -1), newest_1xH.expand(batch_size, -1)
        return TransformerState(kept.cpu().contiguous().numpy(), newest_BxH.cpu().contiguous().numpy())

    def _check_state(self, state: TransformerState) -> None:
        layers, span, hidden = self.config.layers, self.config.span, self.config.hidden
        shape = state.kept_KxBxMxKv.shape if isinstance(state, TransformerState) else ()
        if (shape[:1], shape[3:]) != ((layers,), (2 * hidden,)) or shape[2] > span:
            found = f"shape {shape}" if shape else type(state).__name__
            raise TokenError(
                f"a state of this transformer has shape ({layers}, B, up to {span}, {2 * hidden}), got {found}"
            )

    def _newest(self, state: TransformerState) -> Tensor:
        return self._on_device(state.newest_BxH)

    def histories(self, tokens_BxL: Tokens, state: TransformerState) -> Iterator[tuple[Tensor, TransformerState]]:
        longest = max(self.config.span, _LEAST_CHUNK)
        # the widest arrays are queries, keys and values, the units of a feed-forward layer, and the scores
        n_cells = max(3 * self.config.hidden, self.config.feed_forward, 2 * longest * self.config.heads)
        for span in self._chunks(tokens_BxL, n_cells, longest=longest):
            before_BxH = self._newest(state)
            ids_TxB = torch.from_numpy(tokens_BxL[:, span].T.astype(np.int64)).to(self.network.device)
            outputs_TxBxH, kept = self.network(ids_TxB, self._on_device(state.kept_KxBxMxKv))
            # a copy: a view would keep the outputs of all steps alive
            state = TransformerState(kept.cpu().numpy(), outputs_TxBxH[-1].cpu().numpy().copy())
            yield torch.cat((before_BxH[None], outputs_TxBxH[:-1])).transpose(0, 1), state

    def _on_device(self, values: npt.NDArray[Any]) -> Tensor:
        # a writable copy: torch warns of read-only arrays
        return torch.from_numpy(values.copy()).to(self.network.device)
