"""bfloat16 in training: products of half the bytes, and several times as fast where the processor has them.

The weights that are kept, changed, scored and stored are float32; training computes with a rounded copy of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lmzoo.errors import MissingDeviceError
from lmzoo.neural.config import Precision
from lmzoo.neural.network import Network

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class WorkingCopy:
    """The network that training computes with: the kept one itself in float32, a rounded copy of it otherwise."""

    def __init__(self, kept: Network, precision: Precision) -> None:
        self._kept = list(kept.weights().values())
        self._is_kept = precision == "float32"
        self.network = kept if self._is_kept else copy.deepcopy(kept).to(DTYPES[precision])
        self._weights = list(self.network.weights().values())

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Gradients of the loss by every weight, of the type of the kept weights."""
        found = torch.autograd.grad(loss, self._weights)
        return [own.to(weight.dtype) for own, weight in zip(_apart(found), self._kept, strict=True)]

    @torch.no_grad()
    def refresh(self) -> None:
        """Round the kept weights once more, after a step has changed them."""
        if not self._is_kept:
            for weight, kept in zip(self._weights, self._kept, strict=True):
                weight.copy_(kept)


def _apart(gradients: Sequence[Tensor]) -> Iterator[Tensor]:
    """Each gradient with numbers of its own, to be changed in place: autograd gives the terms of a sum the same one."""
    seen: set[int] = set()
    for gradient in gradients:
        address = (gradient.values() if gradient.is_sparse else gradient).data_ptr()
        yield gradient.clone() if address in seen else gradient
        seen.add(address)


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raise `MissingDeviceError` where the device has no products of this precision and could only emulate them."""
    if precision != "bfloat16" or has_bfloat16(device):
        return
    raise MissingDeviceError(
        f"precision bfloat16 is not here: this {device.type} has no bfloat16 instructions and would be slower with "
        "them emulated; use precision=float32, or a CPU with AVX512-BF16 or AMX, or a CUDA device from Ampere on"
    )


def has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if hasattr(torch.cpu, "get_capabilities"):
        found = torch.cpu.get_capabilities()
        return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    # older releases of torch know of x86 alone
    return bool(torch.cpu._is_avx512_bf16_supported())
