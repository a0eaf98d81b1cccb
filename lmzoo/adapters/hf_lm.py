"""Causal networks of Hugging Face's transformers, from a folder on this machine.

Windows: a network reads at most W = `context_size` tokens at a time.  The token after a full window is predicted from
it and read in a new one, behind the newest W - W//2, at positions that depend on the place in the document alone.  So
every token is predicted once, after at least half a window of text or all there is, and cutting a text into pieces
changes nothing.
The start token is read once, before the first token.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmzoo.adapters.hf_folder import NOWHERE, Symbols, read_symbols, require_files, sha256_of_folder, weights_bytes
from lmzoo.adapters.hf_network import Network, unreadable
from lmzoo.errors import InputError, OptionValueError, StorageError, TokenError
from lmzoo.interface import Tokens

LogProbs = npt.NDArray[np.float32]

# a window for networks that read more, or say no limit; a longer one has to be asked for
_LONGEST_WINDOW = 4096
# how a network's config names its limit
_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
# float32 numbers of whole distributions (rows x columns x V) held at once
_MAX_CELLS = 1 << 24
# bfloat16 has 8 bits
_TOLERANCE_COARSE = 2e-2


@dataclass(frozen=True, kw_only=True)
class HfConfig:
    """A causal network of transformers.

    Attributes:
        path: its folder: config.json, tokenizer.json and weights as safetensors.
        context_size: tokens of a window; None: what the network can read, at most 4,096.
        dtype: what it computes in.
        device: cpu, cuda or cuda:n; None: where the run is.
    """

    path: str
    context_size: int | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str | None = None

    def __post_init__(self) -> None:
        if self.context_size is not None and self.context_size < 2:
            raise OptionValueError(f"context_size must be at least 2, got {self.context_size}")

    def recorded(self) -> dict[str, Any]:
        """The options as a record holds them: the folder by its name and content."""
        path = Path(self.path)
        return {**asdict(self), "path": path.resolve().name, "sha256": sha256_of_folder(path)}


@dataclass(frozen=True, kw_only=True, eq=False)
class HfState:
    """What a window has read so far.

    Attributes:
        rows_BxN: the tokens, by the network's own numbers.
        cache: their keys and values, never written to again; None: they are read anew.
        logprobs_BxR: ln p of each of the network's rows coming next, a tensor.
    """

    rows_BxN: npt.NDArray[np.int64]
    cache: Any
    logprobs_BxR: Any


class HfModel:
    """A network behind the interface; its probabilities are those of its softmax, over all of its rows.

    Args:
        network: in evaluation mode; that it is causal, and whether it keeps a cache, was tried.
        window: the most tokens that it reads at a time.
        file_bytes: what its weights take on disk.
    """

    is_normalized = True
    is_adaptive = False
    kernel_name = "transformers"
    # its end token ends texts, not lines
    documents = "file"

    def __init__(self, network: Network, symbols: Symbols, window: int, *, file_bytes: int) -> None:
        import torch

        self.vocab = symbols.vocab
        self.context_size: int | None = window
        self.cells_at_once = max(_MAX_CELLS // len(symbols.vocab), 1)
        self.n_params = int(network.network.num_parameters())
        self.file_bytes = file_bytes
        self._network = network
        self._symbols = symbols
        # what has no row of its own is read as a start: it never stands in a text
        self._read_V = np.where(symbols.rows_V == NOWHERE, symbols.start_row, symbols.rows_V)
        if network.network.dtype != torch.float32:
            self.tolerance = _TOLERANCE_COARSE

    @property
    def device(self) -> str:
        return self._network.device

    def move_to(self, device: str) -> None:
        self._network.move_to(device)

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> HfState:
        """After the start token; so is the null context, since a network has to read something before it predicts."""
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        rows_Bx1 = np.full((batch_size, 1), self._symbols.start_row, np.int64)
        logprobs_Bx1xR, cache = self._forward(rows_Bx1, None, 1)
        return HfState(rows_BxN=rows_Bx1, cache=cache, logprobs_BxR=logprobs_Bx1xR[:, -1])

    def logprobs(self, tokens_BxL: Tokens, state: HfState) -> tuple[LogProbs, HfState]:
        """ln p of each token, float32, and the state after the last one."""
        import torch

        tokens_BxL = self._checked(tokens_BxL, state)
        logprobs_BxL = np.empty(tokens_BxL.shape, np.float32)
        for columns, before_BxMxR, after in self._read(tokens_BxL, state):
            rows_BxM = torch.from_numpy(self._read_V[tokens_BxL[:, columns]]).to(self.device)
            picked_BxM = before_BxMxR.gather(2, rows_BxM[:, :, None])[:, :, 0]
            logprobs_BxL[:, columns] = picked_BxM.cpu().numpy()
            state = after
        logprobs_BxL[self._symbols.rows_V[tokens_BxL] == NOWHERE] = -np.inf
        return logprobs_BxL, state

    def next_logprobs(self, state: HfState) -> LogProbs:
        """ln p over the whole vocabulary, float32 of shape (B, V); nothing is computed that the state does not hold."""
        return self._by_symbol(state.logprobs_BxR)

    def all_logprobs(self, tokens_BxL: Tokens, state: HfState) -> LogProbs:
        """ln p over the whole vocabulary before each token, of shape (B, L, V)."""
        tokens_BxL = self._checked(tokens_BxL, state)
        out_BxLxV = np.empty((*tokens_BxL.shape, len(self.vocab)), np.float32)
        for columns, before_BxMxR, _ in self._read(tokens_BxL, state):
            out_BxLxV[:, columns] = self._by_symbol(before_BxMxR)
        return out_BxLxV

    def select(self, state: HfState, rows: npt.ArrayLike) -> HfState:
        import torch

        chosen = np.atleast_1d(np.asarray(rows)).astype(np.int64)
        index = torch.from_numpy(chosen).to(self.device)
        cache = self._network.selected(state.cache, chosen)
        return HfState(rows_BxN=state.rows_BxN[chosen], cache=cache, logprobs_BxR=state.logprobs_BxR[index])

    def _checked(self, tokens_BxL: Tokens, state: HfState) -> Tokens:
        tokens_BxL = self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state.rows_BxN):
            raise TokenError(f"{len(tokens_BxL)} rows of tokens, but the state has {len(state.rows_BxN)}")
        return tokens_BxL

    def _read(self, tokens_BxL: Tokens, state: HfState) -> Iterator[tuple[slice, Any, HfState]]:
        """Read tokens piece by piece: which columns, ln p of every row before each of them, the state after them."""
        import torch

        window = int(self.context_size or 0)
        n_columns = tokens_BxL.shape[1]
        most = max(_MAX_CELLS // (len(tokens_BxL) * len(self.vocab)), 1)
        start = 0
        while start < n_columns:
            if state.rows_BxN.shape[1] == window:
                state = replace(state, rows_BxN=state.rows_BxN[:, window // 2 :], cache=None)
            columns = slice(start, min(start + most, start + window - state.rows_BxN.shape[1], n_columns))
            new_BxM = self._read_V[tokens_BxL[:, columns]]
            unread_BxN = new_BxM if state.cache is not None else np.concatenate([state.rows_BxN, new_BxM], axis=1)
            after_BxMxR, cache = self._forward(unread_BxN, state.cache, new_BxM.shape[1])
            before_BxMxR = torch.cat([state.logprobs_BxR[:, None], after_BxMxR[:, :-1]], dim=1)
            state = HfState(
                rows_BxN=np.concatenate([state.rows_BxN, new_BxM], axis=1), cache=cache, logprobs_BxR=after_BxMxR[:, -1]
            )
            yield columns, before_BxMxR, state
            start = columns.stop

    def _forward(self, rows_BxN: npt.NDArray[np.int64], cache: Any, n_last: int) -> tuple[Any, Any]:
        """ln p of every row after each of the last tokens, float32 of shape (B, n_last, R), and the new cache."""
        import torch

        logits_BxLxR, cache = self._network.logits(rows_BxN, cache, n_last=n_last)
        return torch.log_softmax(logits_BxLxR.float(), dim=-1), cache

    def _by_symbol(self, logprobs_R: Any) -> LogProbs:
        """ln p in the order of the vocabulary, over the last axis."""
        by_symbol: LogProbs = logprobs_R.cpu().numpy()[..., self._read_V]
        by_symbol[..., self._symbols.rows_V == NOWHERE] = -np.inf
        return by_symbol


def read_hf(config: HfConfig, device: str = "cpu") -> HfModel:
    """The network of a folder.

    Raises `StorageError` for a folder that holds none, whose weights are incomplete, or that is not causal;
    `OptionValueError` for a window beyond what the network reads; `MissingDeviceError`.
    """
    from lmzoo.neural.devices import find_device

    folder = Path(config.path)
    require_files(folder)
    found = str(find_device(config.device or device))
    network = Network(_network_of(folder, config))
    window = _window_of(network.network, config)
    n_rows = network.require_causal(window)
    symbols = read_symbols(folder, n_rows)
    network.move_to(found)
    network.try_cache(window, n_rows)
    return HfModel(network, symbols, window, file_bytes=weights_bytes(folder))


def _network_of(folder: Path, config: HfConfig) -> Any:
    import torch
    import transformers

    try:
        with _quiet(transformers.utils.logging):
            network, told = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=getattr(torch, config.dtype),
                output_loading_info=True,
            )
    except Exception as error:  # the library has no kind of its own for what it cannot read
        raise unreadable(folder, error) from error
    lacking = sorted(map(str, {*told["missing_keys"], *told["mismatched_keys"]}))
    if lacking:
        raise StorageError(f"{folder} is incomplete: its weights lack {', '.join(lacking[:3])} ({len(lacking)} in all)")
    return network.eval()


@contextlib.contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Without the library's bars and notes, which end where they were before."""
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


def _window_of(network: Any, config: HfConfig) -> int:
    """Tokens of a window: what is asked for, or what the network says that it can read."""
    own = network.config.get_text_config()
    limit = next((value for name in _LIMITS if isinstance(value := getattr(own, name, None), int) and value > 1), None)
    if config.context_size is None:
        return min(limit or _LONGEST_WINDOW, _LONGEST_WINDOW)
    if limit is not None and config.context_size > limit:
        raise OptionValueError(
            f"context_size is at most {limit}, which {config.path} can read, got {config.context_size}"
        )
    return config.context_size
