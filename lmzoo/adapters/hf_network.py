"""What a network of transformers is asked before it is a model: that it answers, and how its answers hang together.

A network is taken as it is, whatever its class is called: what it does is tried out on a few tokens.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError

# tokens of the texts that it is tried on
_TRIED = 8
# how far a prediction may move when a later token is exchanged, in units of the last place of the largest logit: not at
# all where each token is computed by itself, a little where experts are handed batches of another size
_CAUSAL_UNITS = 4
# how far an answer from a cache may be from one without, as a share of the largest logit: the same sums in other order
_CACHED_SHARE = 1e-3
_CACHED_SHARE_COARSE = 5e-2
_SHOWN = 300


class Network:
    """A causal network and what it takes; every answer is asked for through it.

    Raises `StorageError` for what it raises itself, memory that runs out excepted.
    """

    def __init__(self, network: Any) -> None:
        self.network = network
        takes = inspect.signature(network.forward).parameters
        self._takes_cache_as = "cache" if "cache" in takes else "past_key_values"
        self._can_leave_out = "logits_to_keep" in takes
        self._says_use_cache = "use_cache" in takes
        self.device = "cpu"
        # until it is tried
        self.keeps_cache = False

    def move_to(self, device: str) -> None:
        self.network.to(device)
        self.device = device

    def logits(self, rows_BxN: npt.NDArray[np.int64], cache: Any = None, *, n_last: int) -> tuple[Any, Any]:
        """Those after each of the last tokens, of shape (B, n_last, R), and the new cache, None where there is none.

        What is given stays as it is: the library writes into the cache that it is handed, and states are values.
        """
        import torch

        options: dict[str, Any] = {"logits_to_keep": n_last} if self._can_leave_out else {}
        if self._says_use_cache:
            options["use_cache"] = self.keeps_cache
        if self.keeps_cache:
            options[self._takes_cache_as] = copy.deepcopy(cache)
        with self._told(f"on {rows_BxN.shape[1]} tokens"):
            answer = self.network(input_ids=torch.from_numpy(rows_BxN).to(self.device), **options)
            return answer.logits[:, -n_last:], answer[self._takes_cache_as] if self.keeps_cache else None

    def selected(self, cache: Any, rows_B: npt.NDArray[np.int64]) -> Any:
        """A cache of some of its texts."""
        import torch

        if cache is None:
            return None
        cache = copy.deepcopy(cache)
        with self._told("to select texts"):
            cache.batch_select_indices(torch.from_numpy(rows_B).to(self.device))
        return cache

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        import torch

        try:
            with torch.inference_mode():
                yield
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a network has no kind of its own for what it cannot do
            raise StorageError(
                f"the {type(self.network).__name__} of {self._folder} fails {doing}: {type(error).__name__}: "
                f"{cause(error)}"
            ) from error

    def require_causal(self, n_tokens: int) -> int:
        """How many rows it predicts; it reads at most so many tokens.

        Raises `StorageError` for one that looks ahead, and for one whose answers are no numbers.
        """
        import torch

        n_tokens = min(n_tokens, _TRIED)
        n_rows = int(self.logits(np.zeros((1, n_tokens), np.int64), n_last=1)[0].shape[-1])
        rows_N = np.arange(n_tokens) % n_rows
        before_NxR = self._after_each(rows_N)
        if not torch.isfinite(before_NxR).all():
            raise StorageError(f"{self._folder} is damaged: its network gives no finite numbers")
        # one text at a time: within a batch the last digits depend on the place
        allowed = _CAUSAL_UNITS * torch.finfo(self.network.dtype).eps * float(before_NxR.abs().max())
        for place in sorted({1, n_tokens // 2, n_tokens - 1}):
            for step in {1, n_rows // 2}:
                changed_N = rows_N.copy()
                changed_N[place] = (changed_N[place] + step) % n_rows
                if float((self._after_each(changed_N) - before_NxR)[:place].abs().max()) > allowed:
                    raise StorageError(
                        f"{self._folder} holds no causal model: a later token changes what it says of an earlier one, "
                        "so it has no probability of a text"
                    )
        return n_rows

    def try_cache(self, n_tokens: int, n_rows: int) -> None:
        """Find out whether it can go on from what it has read, text by text; else it reads its window anew each time.

        Networks without a cache, and caches of which no texts can be selected (state spaces), give the same figures at
        more cost.
        """
        import torch

        half = min(n_tokens, _TRIED) // 2
        rows_2xN = np.stack([np.arange(2 * half), np.arange(2 * half)[::-1]]) % n_rows
        wanted = self.logits(rows_2xN[::-1].copy(), n_last=half)[0].float()
        self.keeps_cache = True
        try:
            _, cache = self.logits(rows_2xN[:, :half].copy(), n_last=1)
            found = self.logits(rows_2xN[::-1, half:].copy(), self.selected(cache, np.array([1, 0])), n_last=half)[0]
        except StorageError:
            self.keeps_cache = False
            return
        share = _CACHED_SHARE if self.network.dtype == torch.float32 else _CACHED_SHARE_COARSE
        self.keeps_cache = float((found.float() - wanted).abs().max()) <= share * float(wanted.abs().max())

    def _after_each(self, rows_N: npt.NDArray[np.int64]) -> Any:
        return self.logits(rows_N[None, :], n_last=len(rows_N))[0][0].float()

    @property
    def _folder(self) -> str:
        return str(self.network.config.name_or_path)


def unreadable(folder: Path, error: Exception) -> StorageError:
    """Why transformers could not open a folder, in one sentence of which nothing asks for what is never done."""
    text = str(error)
    if "trust_remote_code" in text:
        return StorageError(
            f"{folder} needs code of its own folder, which is never run: name a model whose class transformers has"
        )
    if "ignore_mismatched_sizes" in text:
        return StorageError(
            f"{folder} is damaged: its weights have other shapes than its config.json says; save it anew"
        )
    return StorageError(f"transformers cannot read {folder}: {type(error).__name__}: {cause(error)}")


def cause(error: Exception) -> str:
    """What an error says, on one line that is not too long."""
    return " ".join(str(error).split())[:_SHOWN] or "it says nothing"
