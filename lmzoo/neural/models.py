"""The networks behind the scoring interface: numpy in and out, state a value on the host."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzoo.errors import TokenError, TooLargeError, require_whole
from lmzoo.interface import Arrays, LogProbs, Tokens, checked_rows
from lmzoo.neural.cells import CELLS
from lmzoo.neural.config import Config, RecurrentConfig, WindowConfig, resolved_softmax
from lmzoo.neural.host import HostNetwork
from lmzoo.neural.library import LibraryLayer
from lmzoo.neural.network import Network, RecurrentNetwork, WindowNetwork
from lmzoo.neural.transformer import TransformerNetwork
from lmzoo.vocab import Vocab

# numbers in the largest array that scoring makes at once: 16 MiB of float32, and a few of that size at a time
_MAX_CELLS = 4_194_304


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """S states (h, or h and c) of K layers for B rows, float32, read-only."""

    values_SxKxBxH: npt.NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        self.values_SxKxBxH.flags.writeable = False

    @property
    def batch_size(self) -> int:
        return int(self.values_SxKxBxH.shape[2])

    def select(self, rows: npt.NDArray[Any]) -> RecurrentState:
        return RecurrentState(np.ascontiguousarray(self.values_SxKxBxH[:, :, rows]))


@dataclass(frozen=True, eq=False)
class WindowState:
    """The last C tokens of B rows, the newest last, int64, read-only; `<s>` stands where there are none."""

    tokens_BxC: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        self.tokens_BxC.flags.writeable = False

    @property
    def batch_size(self) -> int:
        return len(self.tokens_BxC)

    def select(self, rows: npt.NDArray[Any]) -> WindowState:
        return WindowState(self.tokens_BxC[rows])


class NeuralState(Protocol):
    """What the states of all networks share."""

    @property
    def batch_size(self) -> int: ...

    def select(self, rows: npt.NDArray[Any]) -> Self: ...


def _sizes(config: Config) -> str:
    names = ("hidden", "layers", "embedding", "context_size", "feed_forward")
    return ", ".join(f"{name}={getattr(config, name)}" for name in names if hasattr(config, name))


State = TypeVar("State", bound=NeuralState)


class NeuralModel(ABC, Generic[State]):
    """What all networks share.  Weights are read at every call: a network in training may be scored.

    Attributes:
        config: the resolved options.
        network: the torch module that holds the weights.
    """

    kind: str
    config_class: ClassVar[type[Config]]
    network_class: ClassVar[type[RecurrentNetwork | WindowNetwork | TransformerNetwork]]
    is_normalized = True
    is_adaptive = False
    context_size: int | None
    network: Network

    def __init__(self, vocab: Vocab, config: Any) -> None:
        self.vocab = vocab
        self.config = config
        try:
            self.network = self.network_class(config, len(vocab), vocab.bos_id)
        except (MemoryError, RuntimeError, TypeError, OverflowError) as error:
            # torch has a type of error for each way in which a size can be too large
            raise TooLargeError(f"a network of these sizes does not fit into memory ({_sizes(config)})") from error

    @property
    def n_params(self) -> int:
        """How many numbers were trained."""
        return sum(weight.numel() for weight in self.network.weights().values())

    @property
    def device(self) -> str:
        """Where the weights are and scores are computed."""
        return str(self.network.device)

    def move_to(self, device: str) -> None:
        """Put the weights onto a device."""
        self.network.to(torch.device(device))
        for module in self.network.modules():
            if isinstance(module, LibraryLayer):
                module.compact()

    @property
    def kernel_name(self) -> str:
        """What answers: scratch, scratch-loop, torch-cpu, torch-cuda or cudnn; how it was trained where that differs
        from the plain way (+sampled, +bfloat16); +numba where compiled code answers."""
        return self.kernel_with(numba=self._is_compiled())

    def kernel_with(self, *, numba: bool) -> str:
        """The name of the kernel with numba or without."""
        choices: tuple[str, str] = (resolved_softmax(self.config, len(self.vocab)), self.config.precision)
        parts = [self._kernel(), *(choice for choice in choices if choice in ("sampled", "bfloat16"))]
        return "+".join([*parts, "numba"] if numba else parts)

    def _is_compiled(self) -> bool:
        """Whether compiled code has answered."""
        return False

    @abstractmethod
    def _kernel(self) -> str:
        """What computes the layers."""

    @abstractmethod
    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> State:
        """The state at the start of a document, or in the null context."""

    @abstractmethod
    def _check_state(self, state: State) -> None:
        """Raise `TokenError` for a state that is none of this model's."""

    @abstractmethod
    def histories(self, tokens_BxL: Tokens, state: State) -> Iterator[tuple[Tensor, State]]:
        """What the output layer reads before each token, (B, M, H) for the next M tokens, and the state after them."""

    @abstractmethod
    def _newest(self, state: State) -> Tensor:
        """What the output layer reads in a state, (B, H)."""

    def logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        """ln p(token | history) of each given token, float32 of shape (B, L), and the state after the last one."""
        return self._logprobs(self._checked(tokens_BxL, state), state)

    @torch.inference_mode()
    def _logprobs(self, tokens_BxL: Tokens, state: State) -> tuple[LogProbs, State]:
        out_BxL = np.empty(tokens_BxL.shape, np.float32)
        start = 0
        for hidden_BxMxH, state_after in self.histories(tokens_BxL, state):
            state = state_after
            end = start + hidden_BxMxH.shape[1]
            targets_N = torch.from_numpy(tokens_BxL[:, start:end].astype(np.int64).reshape(-1)).to(self.network.device)
            picked = [
                logprobs_NxV.gather(1, targets_N[rows, None]).squeeze(1)
                for rows, logprobs_NxV in self._distributions(hidden_BxMxH.flatten(0, 1))
            ]
            out_BxL[:, start:end] = torch.cat(picked).reshape(-1, end - start).cpu().numpy()
            start = end
        return out_BxL, state

    @torch.inference_mode()
    def all_logprobs(self, tokens_BxL: Tokens, state: State) -> LogProbs:
        """ln p(. | history) before each given token, float32 of shape (B, L, V)."""
        tokens_BxL = self._checked(tokens_BxL, state)
        out_BxLxV = np.empty((*tokens_BxL.shape, len(self.vocab)), np.float32)
        start = 0
        for hidden_BxMxH, _ in self.histories(tokens_BxL, state):
            end = start + hidden_BxMxH.shape[1]
            whole = [logprobs_NxV for _, logprobs_NxV in self._distributions(hidden_BxMxH.flatten(0, 1))]
            out_BxLxV[:, start:end] = torch.cat(whole).reshape(len(out_BxLxV), end - start, -1).cpu().numpy()
            start = end
        return out_BxLxV

    def next_logprobs(self, state: State) -> LogProbs:
        """ln p(. | history), float32 of shape (B, V); -inf for `<s>`."""
        self._check_state(state)
        return self._next_logprobs(state)

    @torch.inference_mode()
    def _next_logprobs(self, state: State) -> LogProbs:
        return cast(LogProbs, torch.log_softmax(self.network.logits(self._newest(state)), dim=-1).cpu().numpy())

    def select(self, state: State, rows: npt.ArrayLike) -> State:
        """The state of some rows of a batch."""
        self._check_state(state)
        return state.select(checked_rows(rows, state.batch_size))

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        """Options and weights, named alike for every kernel and device."""
        arrays = {name: weight.detach().cpu().numpy().copy() for name, weight in self.network.weights().items()}
        return dataclasses.asdict(self.config), arrays

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `to_parts`, on the CPU.  Raises `ValueError` where a weight has another shape."""
        model = cls(vocab, cls.config_class(**options))
        with torch.no_grad():
            for name, weight in model.network.weights().items():
                if arrays[name].shape != tuple(weight.shape):
                    raise ValueError(f"{name} has shape {arrays[name].shape}, wanted {tuple(weight.shape)}")
                weight.copy_(torch.tensor(arrays[name]))
        return model

    def _checked(self, tokens_BxL: Tokens, state: State) -> Tokens:
        tokens_BxL = self.vocab.checked(tokens_BxL)
        self._check_state(state)
        if len(tokens_BxL) != state.batch_size:
            raise TokenError(f"tokens have {len(tokens_BxL)} rows, the state has {state.batch_size}; use select()")
        return tokens_BxL

    def _distributions(self, hidden_NxH: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Some rows at a time, and their ln p: a single step of a wide batch may be more than `_MAX_CELLS`."""
        n_rows = max(_MAX_CELLS // len(self.vocab), 1)
        for start in range(0, max(len(hidden_NxH), 1), n_rows):
            rows = slice(start, start + n_rows)
            yield rows, torch.log_softmax(self.network.logits(hidden_NxH[rows]), dim=-1)

    def _check_batch_size(self, batch_size: int) -> None:
        require_whole(batch_size, "batch_size", 1)

    def _chunks(self, tokens_BxL: Tokens, n_cells_a_token: int, *, longest: int = sys.maxsize) -> Iterator[slice]:
        """Spans of at most `longest` tokens that keep every array of a call, distributions too, within `_MAX_CELLS`."""
        widest = max(n_cells_a_token, len(self.vocab))
        length = min(max(_MAX_CELLS // (widest * max(len(tokens_BxL), 1)), 1), longest)
        return (slice(start, start + length) for start in range(0, tokens_BxL.shape[1], length))


class RecurrentModel(NeuralModel[RecurrentState]):
    """A recurrent network (Mikolov et al. 2010) behind the scoring interface."""

    kind = "recurrent"
    config_class = RecurrentConfig
    network_class = RecurrentNetwork
    context_size: int | None = None
    network: RecurrentNetwork
    config: RecurrentConfig

    def __init__(self, vocab: Vocab, config: RecurrentConfig) -> None:
        super().__init__(vocab, config)
        self._views: HostNetwork | None = None
        self._state_shape = (CELLS[config.cell].n_states, config.layers, config.hidden)

    def __getstate__(self) -> dict[str, Any]:
        # addresses mean nothing in another process, and views of a copied network are copies
        return {**vars(self), "_views": None}

    def _is_compiled(self) -> bool:
        return self._views is not None and self._views.is_compiled

    def _kernel(self) -> str:
        if self.config.kernel == "scratch":
            return "scratch" if self.config.impl == "fused" else "scratch-loop"
        return "cudnn" if self.network.device.type == "cuda" else "torch-cpu"

    @torch.inference_mode()
    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> RecurrentState:
        """The state after `<s>`, or zeros."""
        self._check_batch_size(batch_size)
        state = self.network.zero_state(1).cpu().numpy()
        if bos:
            _, state = self._advance(np.full((1, 1), self.vocab.bos_id, np.int64), state)
        return RecurrentState(np.repeat(state, batch_size, axis=2))

    def _check_state(self, state: RecurrentState) -> None:
        shape = state.values_SxKxBxH.shape if isinstance(state, RecurrentState) else ()
        if shape[:2] + shape[3:] != self._state_shape:
            found = f"shape {shape}" if shape else type(state).__name__
            n_states, layers, hidden = self._state_shape
            raise TokenError(
                f"a state of {self.config.cell} has shape ({n_states}, {layers}, B, {hidden}), got {found}"
            )

    def _logprobs(self, tokens_BxL: Tokens, state: RecurrentState) -> tuple[LogProbs, RecurrentState]:
        host = self._host() if tokens_BxL.size == 1 else None
        if host is None:
            return super()._logprobs(tokens_BxL, state)
        logprobs_V = host.logprobs(state.values_SxKxBxH)
        _, values_SxKxBxH = host.advance(tokens_BxL, state.values_SxKxBxH)
        return logprobs_V[tokens_BxL], RecurrentState(values_SxKxBxH)

    def _next_logprobs(self, state: RecurrentState) -> LogProbs:
        host = self._host() if state.batch_size == 1 else None
        if host is None:
            return super()._next_logprobs(state)
        return host.logprobs(state.values_SxKxBxH)[None]

    def _newest(self, state: RecurrentState) -> Tensor:
        # a writable copy: torch warns of read-only arrays
        return torch.from_numpy(state.values_SxKxBxH[0, -1].copy()).to(self.network.device)

    def histories(self, tokens_BxL: Tokens, state: RecurrentState) -> Iterator[tuple[Tensor, RecurrentState]]:
        # the widest arrays are the gates and the one-hot inputs
        n_inputs = len(self.vocab) if self.config.input == "onehot" else self.config.embedding
        for span in self._chunks(tokens_BxL, max(4 * self.config.hidden, n_inputs)):
            before_BxH = self._newest(state)
            ids_TxB = np.ascontiguousarray(tokens_BxL[:, span].T.astype(np.int64))
            outputs_TxBxH, values = self._advance(ids_TxB, state.values_SxKxBxH)
            state = RecurrentState(values)
            yield torch.cat((before_BxH[None], outputs_TxBxH[:-1])).transpose(0, 1), state

    def _advance(
        self, ids_TxB: npt.NDArray[np.int64], values_SxKxBxH: npt.NDArray[Any]
    ) -> tuple[Tensor, npt.NDArray[Any]]:
        """The top layer's outputs on the device and the states after them on the host."""
        host = self._host()
        if host is not None:
            outputs_TxBxH, values_SxKxBxH = host.advance(ids_TxB, values_SxKxBxH)
            return torch.from_numpy(outputs_TxBxH), values_SxKxBxH
        device = self.network.device
        ids, before = torch.from_numpy(ids_TxB).to(device), torch.from_numpy(values_SxKxBxH.copy()).to(device)
        outputs_TxBxH, after = self.network(ids, before)
        return outputs_TxBxH, after.cpu().numpy()

    def _host(self) -> HostNetwork | None:
        """The network as numpy sees it, where that computes it."""
        if self._views is None or not self._views.is_current():
            self._views = HostNetwork.of(self.network, self.config)
        return self._views


class WindowModel(NeuralModel[WindowState]):
    """A feed-forward network over the last C tokens (Bengio et al. 2003) behind the scoring interface.

    Before the start of a document it sees `<s>` C times; it has no other null context.
    """

    kind = "window"
    config_class = WindowConfig
    network_class = WindowNetwork
    network: WindowNetwork
    config: WindowConfig

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.config.context_size

    def _kernel(self) -> str:
        return f"torch-{self.network.device.type}"

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> WindowState:
        """C times `<s>`."""
        self._check_batch_size(batch_size)
        return WindowState(np.full((batch_size, self.config.context_size), self.vocab.bos_id, np.int64))

    def _check_state(self, state: WindowState) -> None:
        shape = state.tokens_BxC.shape if isinstance(state, WindowState) else ()
        if shape[1:] != (self.config.context_size,):
            found = f"shape {shape}" if shape else type(state).__name__
            raise TokenError(f"a state of this window has shape (B, {self.config.context_size}), got {found}")

    def _newest(self, state: WindowState) -> Tensor:
        return cast(Tensor, self.network(torch.from_numpy(state.tokens_BxC.copy()).to(self.network.device)))

    def histories(self, tokens_BxL: Tokens, state: WindowState) -> Iterator[tuple[Tensor, WindowState]]:
        size = self.config.context_size
        known = np.concatenate((state.tokens_BxC, tokens_BxL), axis=1, dtype=np.int64)
        windows_BxL1xC = np.lib.stride_tricks.sliding_window_view(known, size, axis=1)
        for span in self._chunks(tokens_BxL, max(size * self.config.embedding, self.config.hidden)):
            chunk_BxMxC = torch.from_numpy(windows_BxL1xC[:, :-1][:, span].copy()).to(self.network.device)
            hidden_BxMxH = self.network(chunk_BxMxC.flatten(0, 1)).unflatten(0, chunk_BxMxC.shape[:2])
            after = windows_BxL1xC[:, min(span.stop, tokens_BxL.shape[1])].copy()
            yield hidden_BxMxH, WindowState(after)
