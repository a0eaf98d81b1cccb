"""torch's own recurrent layers behind the same calls: cuDNN's kernels on CUDA, torch's on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from lmzoo.neural.cells import States, one_hot

LAYERS: Mapping[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
# what these layers call, by the name they have for it
_CALLS: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
    "GRU": torch.gru,
    "LSTM": torch.lstm,
}


class LibraryLayer(nn.Module):
    """One recurrent layer of torch's.  Weights start at 0."""

    def __init__(self, cell: str, n_inputs: int, hidden: int, *, activation: str = "tanh") -> None:
        super().__init__()
        options = {"nonlinearity": activation} if cell == "rnn" else {}
        # made without storage first: torch would fill the weights from its global generator
        self.kernel = LAYERS[cell](n_inputs, hidden, device="meta", **options).to_empty(device="cpu")
        with torch.no_grad():
            for parameter in self.kernel.parameters():
                parameter.zero_()

    def weights(self) -> dict[str, nn.Parameter]:
        """The four weights by name, the same names for every kernel."""
        return {name.removesuffix("_l0"): parameter for name, parameter in self.kernel.named_parameters()}

    def forward(
        self,
        inputs: Tensor,
        states: States,
        embedding: Tensor | None = None,
        drop: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, States]:
        """Outputs (T, B, H) and the states (B, H) after the last step, of vectors (T, B, I) or of ids (T, B).

        Args:
            drop: what is done to the weights between states, for all steps.
        """
        if not inputs.is_floating_point():
            inputs = one_hot(inputs, self.weights()["weight_ih"])
        before = tuple(s_BxH.unsqueeze(0).contiguous() for s_BxH in states)
        outputs_TxBxH, *after = self._call(inputs, before, drop)
        return outputs_TxBxH, tuple(s_1xBxH.squeeze(0) for s_1xBxH in after)

    def _call(
        self, inputs_TxBxI: Tensor, before: States, drop: Callable[[Tensor], Tensor] | None
    ) -> tuple[Tensor, ...]:
        if drop is None:
            outputs_TxBxH, after = self.kernel(inputs_TxBxI, before if len(before) > 1 else before[0])
            return outputs_TxBxH, *(after if isinstance(after, tuple) else (after,))
        # the layer itself knows only the weights that it holds
        weights = [drop(w) if name == "weight_hh" else w for name, w in self.weights().items()]
        state = before if len(before) > 1 else before[0]
        # with biases, of one layer, without dropout of torch's own, in training, one way, steps first
        return _CALLS[self.kernel.mode](inputs_TxBxI, state, weights, True, 1, 0.0, True, False, False)

    def compact(self) -> None:
        """Lay the weights side by side, as cuDNN wants them after every move; it warns at each call otherwise."""
        self.kernel.flatten_parameters()
