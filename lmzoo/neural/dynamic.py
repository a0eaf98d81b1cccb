"""Dynamic evaluation: weights go on learning from the text that is scored (Mikolov et al. 2010, Krause et al. 2018).

It learns from the text that it scores, so it is adaptive and starred everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import require_whole
from lmzoo.interface import Arrays, LogProbs, Tokens
from lmzoo.neural.models import RecurrentModel, RecurrentState
from lmzoo.neural.wrapping import WrappedNetwork
from lmzoo.vocab import Vocab

# without validation text, and where the search for better ones begins
DEFAULT_LR, DEFAULT_DECAY = 3e-4, 3e-3
_LRS = (0.0, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
_DECAYS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2)
# the rates are fitted on so many tokens of validation text at most, and within this share of a budget of seconds
FIT_TOKENS = 4_000
FIT_SHARE = 0.1
# mean squares of gradients are taken over so many segments of training text
_MEASURED_SEGMENTS = 200
# numbers for each weight are stored under this and its name
_RMS = "rms/"


@dataclass(frozen=True, eq=False)
class Adapted:
    """One text: weights that its whole segments have changed, and what was read of the segment that is not whole.

    Attributes:
        weights: one tensor for each weight, never written to; None: those that were trained.
        start, now: the network's state at the segment's start, and after the last token.
        read_L: the tokens since the segment's start, fewer than a segment has.
    """

    weights: tuple[Tensor, ...] | None
    start: RecurrentState
    now: RecurrentState
    read_L: npt.NDArray[np.int64]


DynamicState = tuple[Adapted, ...]


class DynamicModel(WrappedNetwork[Adapted]):
    """A trained recurrent network whose weights take a step after every segment of the text.

    Args:
        rms: root mean squares of the gradients in training text, by the names of the weights.
        lr: the rate of a step, in units of gradient over rms.
        decay: the share of the way back to the trained weights that a weight of mean rms goes at each step.
    """

    kind = "recurrent-dynamic"
    row_class = Adapted

    def __init__(self, plain: RecurrentModel, rms: Mapping[str, Tensor], lr: float, decay: float) -> None:
        super().__init__(plain)
        self.lr, self.decay = lr, decay
        self._rms = {name: rms[name] for name in plain.network.weights()}
        self._prepare()

    def _prepare(self) -> None:
        """A network of its own for adapted weights, and how far each weight goes and returns at a step."""
        self._working = RecurrentModel.from_parts(self.vocab, *self.plain.to_parts())
        self._working.move_to(self.plain.device)
        self._used: tuple[Tensor, ...] | None = None
        self._trained = tuple(weight.detach().clone() for weight in self.plain.network.weights().values())
        self._rms = {name: values.to(self.plain.device) for name, values in self._rms.items()}
        # float64 sums on the processor: a small difference here is one of all weights
        n = sum(values.numel() for values in self._rms.values())
        mean = sum(float(values.double().sum()) for values in self._rms.values()) / n or 1.0
        self._scales = [self.lr / (values + mean) for values in self._rms.values()]
        self._pulls = [(values * (self.decay / mean)).clamp(max=1.0) for values in self._rms.values()]

    def with_rates(self, lr: float, decay: float) -> DynamicModel:
        """The same network with other rates."""
        return DynamicModel(self.plain, self._rms, lr, decay)

    def move_to(self, device: str) -> None:
        """Put the network onto a device; states stay where they were made."""
        self.plain.move_to(device)
        self._prepare()

    @property
    def details(self) -> dict[str, Any]:
        """The fitted rates, for records."""
        return {"lr": self.lr, "decay": self.decay}

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> DynamicState:
        """The trained weights, nothing read."""
        require_whole(batch_size, "batch_size", 1)
        state = self.plain.initial_state(1, bos=bos)
        return (Adapted(None, state, state, np.zeros(0, np.int64)),) * batch_size

    def logprobs(self, tokens_BxL: Tokens, state: DynamicState) -> tuple[LogProbs, DynamicState]:
        """ln p of each token, float32 of shape (B, L), and the state after the last one."""
        tokens_BxL = self._checked(tokens_BxL, state)
        out_BxL = np.empty(tokens_BxL.shape, np.float32)
        after = []
        for b, row in enumerate(state):
            start, size = 0, self.config.adapt_steps
            while start < tokens_BxL.shape[1]:
                piece_L = tokens_BxL[b, start : start + size - len(row.read_L)].astype(np.int64)
                out_BxL[b, start : start + len(piece_L)], row = self._read(piece_L, row)
                start += len(piece_L)
            after.append(row)
        return out_BxL, tuple(after)

    def next_logprobs(self, state: DynamicState) -> LogProbs:
        """ln p over the whole vocabulary, float32 of shape (B, V)."""
        self._check_state(state)
        return np.concatenate([self._with(row.weights).next_logprobs(row.now) for row in state])

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        options, arrays = self.plain.to_parts()
        measured = {_RMS + name: values.cpu().numpy() for name, values in self._rms.items()}
        return {"config": options, "lr": self.lr, "decay": self.decay}, {**arrays, **measured}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> DynamicModel:
        """The inverse of `to_parts`, on the CPU.  Raises `ValueError` where an array has another shape."""
        plain = RecurrentModel.from_parts(vocab, options["config"], arrays)
        rms = {name: torch.tensor(arrays[_RMS + name]) for name in plain.network.weights()}
        for name, weight in plain.network.weights().items():
            if rms[name].shape != weight.shape:
                raise ValueError(f"{_RMS}{name} has shape {tuple(rms[name].shape)}, wanted {tuple(weight.shape)}")
        return cls(plain, rms, float(options["lr"]), float(options["decay"]))

    def _read(self, piece_L: npt.NDArray[np.int64], row: Adapted) -> tuple[LogProbs, Adapted]:
        """ln p of tokens up to the segment's end at most, and the row after them."""
        model = self._with(row.weights)
        read_L = np.concatenate((row.read_L, piece_L))
        if len(read_L) < self.config.adapt_steps:
            logprobs_1xL, now = model.logprobs(piece_L[None], row.now)
            return logprobs_1xL[0], Adapted(row.weights, row.start, now, read_L)
        # the whole segment from its start, so that the step is the same to the last bit however the text is cut
        logprobs_L, gradients, after = segment_gradients(model, read_L, row.start)
        weights = tuple(self._stepped(row.weights or self._trained, gradients))
        return logprobs_L[len(row.read_L) :], Adapted(weights, after, after, read_L[:0])

    def _stepped(self, weights: tuple[Tensor, ...], gradients: list[Tensor]) -> list[Tensor]:
        """Krause et al. 2018, section 4.2: against the gradient over its rms, and back towards what was trained."""
        parts = zip(weights, self._trained, self._pulls, gradients, self._scales, strict=True)
        return [
            torch.lerp(weight, trained, pull).addcmul_(gradient, scale, value=-1.0)
            for weight, trained, pull, gradient, scale in parts
        ]

    @torch.no_grad()
    def _with(self, weights: tuple[Tensor, ...] | None) -> RecurrentModel:
        """The working network, with these weights."""
        wanted = weights or self._trained
        if self._used is not wanted:
            for own, weight in zip(self._working.network.weights().values(), wanted, strict=True):
                own.copy_(weight)
            self._used = wanted
        return self._working


def segment_gradients(
    model: RecurrentModel, tokens_T: npt.NDArray[np.int64], state: RecurrentState
) -> tuple[LogProbs, list[Tensor], RecurrentState]:
    """ln p of each token of a segment, the gradients of their mean nats, and the state after the last.

    `<s>`, which is never predicted, counts as nothing.
    """
    network = model.network
    ids_T = torch.from_numpy(tokens_T).to(network.device)
    # a writable copy: torch warns of read-only arrays
    before_SxKx1xH = torch.from_numpy(state.values_SxKxBxH.copy()).to(network.device)
    outputs_Tx1xH, after = network(ids_T[:, None], before_SxKx1xH)
    hidden_TxH = torch.cat((before_SxKx1xH[0, -1], outputs_Tx1xH[:-1, 0]))
    picked_T = torch.log_softmax(network.logits(hidden_TxH), dim=-1).gather(1, ids_T[:, None]).squeeze(1)
    nats = -picked_T[ids_T != model.vocab.bos_id].sum() / len(ids_T)
    gradients = torch.autograd.grad(nats, list(network.weights().values()))
    # rows that were looked up come as sparse tensors
    dense = [gradient.to_dense() if gradient.is_sparse else gradient for gradient in gradients]
    return picked_T.detach().cpu().numpy(), dense, RecurrentState(after.detach().cpu().numpy())


def gradient_rms(plain: RecurrentModel, train: Split) -> dict[str, Tensor]:
    """Root mean squares of the gradients over the first segments of the training text, by the weights' names."""
    size = plain.config.adapt_steps
    ids_N = train.ids_N[: _MEASURED_SEGMENTS * size].astype(np.int64)
    squares = [torch.zeros_like(weight) for weight in plain.network.weights().values()]
    state = plain.initial_state()
    starts = range(0, max(len(ids_N) - size, 0) + 1, size)
    for start in starts:
        _, gradients, state = segment_gradients(plain, ids_N[start : start + size], state)
        for square, gradient in zip(squares, gradients, strict=True):
            square.addcmul_(gradient, gradient)
    return {name: (square / len(starts)).sqrt_() for name, square in zip(plain.network.weights(), squares, strict=True)}


def fitted_dynamic(plain: RecurrentModel, train: Split, valid: Split, budget: Budget) -> DynamicModel:
    """The network with the rates, of a grid, that make the head of the validation text most probable.

    From the defaults on a step is taken to a better neighbour as long as there is one; under a budget of seconds no
    trial begins once `FIT_SHARE` of them was spent on it.
    """
    until_s = math.inf if budget.seconds is None else budget.watch.elapsed_s + FIT_SHARE * budget.seconds
    found = DynamicModel(plain, gradient_rms(plain, train), DEFAULT_LR, DEFAULT_DECAY)
    head = valid.head(FIT_TOKENS)
    if not head.n_tokens:
        return found
    tried: dict[tuple[int, int], float] = {}
    at = (_LRS.index(DEFAULT_LR), _DECAYS.index(DEFAULT_DECAY))
    while True:
        for place in (at, *_neighbours(at)):
            if place not in tried and (not tried or budget.watch.elapsed_s < until_s):
                tried[place] = _nats(found.with_rates(_LRS[place[0]], _DECAYS[place[1]]), head)
        best = min(tried, key=lambda place: tried[place])
        if best == at:
            return found.with_rates(_LRS[at[0]], _DECAYS[at[1]])
        at = best


def _neighbours(at: tuple[int, int]) -> list[tuple[int, int]]:
    """Rates beside these in the grid."""
    places = [(at[0] + 1, at[1]), (at[0] - 1, at[1]), (at[0], at[1] + 1), (at[0], at[1] - 1)]
    return [(i, j) for i, j in places if 0 <= i < len(_LRS) and 0 <= j < len(_DECAYS)]


def _nats(model: DynamicModel, head: Split) -> float:
    """Those of a text; infinite where they are no number."""
    parts = (model.logprobs(d.ids_L[None], model.initial_state())[0] for d in head)
    total = -sum(float(part_1xL.sum(dtype=np.float64)) for part_1xL in parts)
    return total if math.isfinite(total) else math.inf
