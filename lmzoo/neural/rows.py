"""Rows of a large matrix, of which a batch touches few: taken and looked up so that the gradient has those rows alone.

Such a gradient is a coalesced sparse tensor: ids of rows, ascending, and their numbers.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def lookup(ids: Tensor, weight_VxE: Tensor) -> Tensor:
    """Rows of the weight by ids of any shape; its gradient is sparse where there are fewer ids than rows."""
    if ids.numel() >= len(weight_VxE):
        return functional.embedding(ids, weight_VxE)
    ids_R, places = torch.unique(ids, return_inverse=True)
    return functional.embedding(places, take_rows(weight_VxE, ids_R))


def take_rows(weight_VxH: Tensor, ids_R: Tensor) -> Tensor:
    """Distinct rows of a weight, (R, H), ids ascending; its gradient is sparse."""
    return cast(Tensor, _Rows.apply(weight_VxH, ids_R))  # type: ignore[no-untyped-call]


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_VxH: Tensor, ids_R: Tensor) -> Tensor:
        ctx.ids_R, ctx.shape = ids_R, weight_VxH.shape
        return weight_VxH.index_select(0, ids_R)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_RxH: Tensor) -> tuple[Tensor, None]:
        ids_1xR = ctx.ids_R[None]
        return torch.sparse_coo_tensor(ids_1xR, grad_RxH, ctx.shape, is_coalesced=True, check_invariants=False), None
