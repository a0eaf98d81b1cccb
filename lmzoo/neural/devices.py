"""Where training runs, and how it deals with a device that works on its own while the program goes on."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lmzoo.budget import Stopwatch
from lmzoo.errors import DivergedError, MissingDeviceError, OptionValueError, require_kind
from lmzoo.neural.optimizers import numbers_of

# beyond it the perplexity is no finite number, though the loss itself may be: saturated units can hide a divergence
_LARGEST_LOSS_NATS = math.log(sys.float_info.max)
# the clock has to be asked now and then, and a divergence noticed: at most so long, and so many steps, later
_LONGEST_QUEUE_S = 0.1
_MOST_QUEUED = 64
# cuBLAS takes the same way each time only with a workspace of fixed size, which it asks for when it is first used
_CUBLAS_VARIABLE, _CUBLAS_FIXED = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"


def find_device(name: str) -> torch.device:
    """The device of this name.  Raises `MissingDeviceError` with what was found and the cure."""
    require_kind(name, str, "device", "cpu, cuda or cuda:n")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise OptionValueError(f"device is cpu, cuda or cuda:n, got {name!r}")
    if kind == "cuda":
        with warnings.catch_warnings():
            # an old driver is told of in a warning; the error below says what matters
            warnings.simplefilter("ignore")
            n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= n_devices:
            build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU alone"
            raise MissingDeviceError(
                f"device {name} is not here: torch {torch.__version__}, built for {build}, finds {n_devices} CUDA "
                "devices; use device cpu, or a CUDA build of torch with a driver: https://pytorch.org/get-started/locally"
            )
        # float32 means float32, for every kernel: cuDNN's recurrent layers would round their factors to 10 bits
        torch.backends.cudnn.allow_tf32 = False
    return torch.device(name)


def require_deterministic(device: torch.device) -> None:
    """Make ready for deterministic algorithms.  Raises `OptionValueError` where it is too late for that."""
    if device.type != "cuda" or _CUBLAS_VARIABLE in os.environ:
        return
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise OptionValueError(
            f"deterministic=true has to be known before CUDA is first used: set {_CUBLAS_VARIABLE}={_CUBLAS_FIXED} in "
            "the environment, or train in a process of its own"
        )
    os.environ[_CUBLAS_VARIABLE] = _CUBLAS_FIXED


@contextlib.contextmanager
def algorithms(is_deterministic: bool) -> Iterator[None]:
    """Torch's algorithms within a `with` block: where asked for, those that give the same bits each time."""
    if not is_deterministic or torch.are_deterministic_algorithms_enabled():
        yield
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@dataclass(kw_only=True)
class Queue:
    """Steps that a device was given and nobody has waited for: one on the processor, some 0.1 s of them on CUDA.

    Waiting after every step would leave a GPU idle while the next step is prepared.
    """

    watch: Stopwatch
    is_waiting: bool = True
    _losses: list[Tensor] = field(default_factory=list)
    _norms: list[Tensor] = field(default_factory=list)
    _longest: int = 1
    _begun_s: float = 0.0

    def add(self, loss: Tensor, norm: Tensor, gradients: Sequence[Tensor]) -> None:
        """One more step, before its gradients change a weight; where they are not finite they are made 0."""
        if not self._losses:
            self._begun_s = self.watch.elapsed_s
        self._losses.append(loss.detach())
        self._norms.append(norm)
        if not self.is_waiting:
            is_bad = ~(torch.isfinite(loss.detach()) & torch.isfinite(norm))
            for numbers in numbers_of(gradients):
                numbers.masked_fill_(is_bad, 0.0)

    @property
    def is_full(self) -> bool:
        return len(self._losses) >= self._longest

    def settle(self, n_steps: int) -> float:
        """Wait, and give the loss of the last of `n_steps` steps.

        Raises `DivergedError` with the first of those added whose loss, gradient or perplexity is not finite.
        """
        losses, norms = torch.stack(self._losses).tolist(), torch.stack(self._norms).tolist()
        self._losses, self._norms = [], []
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), n_steps - len(losses) + 1):
            if not (loss < _LARGEST_LOSS_NATS and math.isfinite(norm)):
                raise DivergedError(step)
        if not self.is_waiting:
            self._pace(len(losses))
        return float(losses[-1])

    def _pace(self, n_steps: int) -> None:
        """As many steps the next time as fit, at most twice as many as now."""
        step_s = max((self.watch.elapsed_s - self._begun_s) / n_steps, 1e-9)
        self._longest = max(1, min(2 * n_steps, int(_LONGEST_QUEUE_S / step_s), _MOST_QUEUED))
