"""Gradients of some rows alone: the same numbers as dense ones, and what the optimisers make of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from lmzoo.neural.optimizers import OPTIMIZERS, clip_global_norm  # noqa: E402
from lmzoo.neural.rows import lookup  # noqa: E402

pytestmark = pytest.mark.torch


def gradient_of(ids: Any, weight: Any, by: Any) -> Any:
    """The gradient of a sum in which every number that was looked up has a factor of its own."""
    found = by(ids, weight)
    factors = torch.arange(1, found.numel() + 1, dtype=weight.dtype).view_as(found)
    return torch.autograd.grad((found * factors).sum(), weight)[0]


@given(ids=st.lists(st.integers(0, 11), min_size=1, max_size=24), n_rows=st.integers(12, 15))
def test_looking_up_is_torchs_embedding(ids: list[int], n_rows: int) -> None:
    ids_2xN = torch.tensor([ids, ids[::-1]])
    weight = torch.arange(n_rows * 3, dtype=torch.float64).view(n_rows, 3).requires_grad_()
    assert torch.equal(lookup(ids_2xN, weight), functional.embedding(ids_2xN, weight))
    ours, theirs = (gradient_of(ids_2xN, weight, by) for by in (lookup, functional.embedding))
    assert ours.is_sparse == (2 * len(ids) < n_rows)
    torch.testing.assert_close(ours.to_dense(), theirs)
    if ours.is_sparse:
        assert ours.is_coalesced()
        assert ours.indices()[0].tolist() == sorted(set(ids))


def rows_gradient(seed: int = 0) -> Any:
    values = torch.randn(3, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.sparse_coo_tensor(torch.tensor([[1, 4, 6]]), values, (9, 2), is_coalesced=True, check_invariants=True)


def test_clipping_counts_and_scales_rows_as_if_they_were_dense() -> None:
    sparse, other = rows_gradient(), torch.ones(4, dtype=torch.float64)
    dense, other_again = sparse.to_dense(), other.clone()
    norms = [clip_global_norm(gradients, 0.5) for gradients in ([sparse, other], [dense, other_again])]
    torch.testing.assert_close(*norms)
    torch.testing.assert_close(sparse.to_dense(), dense)
    torch.testing.assert_close(other, other_again)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_step_by_rows_is_the_dense_step_of_those_rows_and_leaves_the_others(name: str) -> None:
    ours, theirs = torch.ones(9, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    by_rows, dense = OPTIMIZERS[name]([ours]), OPTIMIZERS[name]([theirs])
    for step in range(4):
        by_rows.step([rows_gradient(step)], 0.1)
        dense.step([rows_gradient(step).values()], 0.1)
    torch.testing.assert_close(ours, torch.ones_like(ours).index_copy(0, rows_gradient(0).indices()[0], theirs))


def test_adam_by_rows_is_torchs_own() -> None:
    ours, theirs = torch.ones(9, 2, dtype=torch.float64), torch.ones(9, 2, dtype=torch.float64, requires_grad=True)
    by_rows, sparse = OPTIMIZERS["adam"]([ours]), torch.optim.SparseAdam([theirs], lr=0.1)
    for step in range(4):
        by_rows.step([rows_gradient(step)], 0.1)
        theirs.grad = rows_gradient(step)
        sparse.step()
    torch.testing.assert_close(ours, theirs.detach())
