"""Ways to take the same steps: by compiled gates, with arrays kept from batch to batch, on a GPU."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from lmzoo.neural.cells import CELLS  # noqa: E402
from lmzoo.neural.recurrence import RECURRENCES, Steps, recur  # noqa: E402

pytestmark = pytest.mark.torch

KINDS = list(RECURRENCES)
GATED = [kind for kind in KINDS if kind[0] != "rnn"]
H = 5


def leaves_of(kind: tuple[str, str], n_steps: int, n_columns: int, seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Inputs of a recurrence, drawn wide enough that gates saturate here and there."""
    cell = CELLS[kind[0]]
    drawing = torch.Generator().manual_seed(seed)
    n_gates = cell.n_gates * H
    sizes = [(n_steps, n_columns, n_gates), (n_gates, H), (H if cell.has_inner_bias else 0,)]
    sizes += [(n_columns, H)] * cell.n_states
    # relu has no bound: small weights keep it from growing
    scales = [2.0, 0.3 if kind[1] == "relu" else 1.0, 1.0, *[0.9] * cell.n_states]
    return [
        (torch.randn(size, generator=drawing, dtype=dtype) * scale).requires_grad_()
        for size, scale in zip(sizes, scales, strict=True)
    ]


def everything(steps: Steps, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs, last states, and all gradients of a sum that reaches every output and state."""
    x, weight, bias, *states = leaves
    out, last = recur(steps, x.clone(), weight, bias, tuple(states))
    loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view_as(out)).sum()
    loss = loss + sum(state.square().sum() for state in last)
    return [out.detach(), *(state.detach() for state in last), *torch.autograd.grad(loss, leaves)]


@given(kind=st.sampled_from(GATED), n_steps=st.integers(1, 6), n_columns=st.integers(1, 5), seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_compiled_gates_are_as_near_to_float64_as_torchs(
    kind: tuple[str, str], n_steps: int, n_columns: int, seed: int
) -> None:
    """1e-5 of the largest entry, the design's bound for kernels that claim to be the same."""
    pytest.importorskip("numba")
    exact = everything(Steps(RECURRENCES[kind]), leaves_of(kind, n_steps, n_columns, seed, torch.float64))
    leaves = [
        leaf.detach().float().requires_grad_() for leaf in leaves_of(kind, n_steps, n_columns, seed, torch.float64)
    ]
    compiled = everything(Steps(RECURRENCES[kind], is_compiled=True), leaves)
    for found, wanted in zip(compiled, exact, strict=True):
        scale = max(float(wanted.abs().max()), 1.0) if wanted.numel() else 1.0
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * scale)


def test_compiled_gates_carry_what_is_not_finite_on() -> None:
    """A divergence has to show."""
    pytest.importorskip("numba")
    for kind in GATED:
        leaves = leaves_of(kind, 2, 2, 0, torch.float32)
        with torch.no_grad():
            leaves[0][0, 0] = float("nan")
        out, *_ = everything(Steps(RECURRENCES[kind], is_compiled=True), leaves)
        assert out[:, 0].isnan().all()
        assert out[:, 1].isfinite().all()


def test_float64_is_never_left_to_compiled_gates() -> None:
    for kind in GATED:
        leaves = leaves_of(kind, 3, 2, 0, torch.float64)
        compiled, plain = (everything(Steps(RECURRENCES[kind], is_compiled=how), leaves) for how in (True, False))
        assert all(torch.equal(left, right) for left, right in zip(compiled, plain, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_takes_the_same_steps(kind: tuple[str, str]) -> None:
    """In float64, values and gradients; with compiled gates asked for, which are the processor's alone."""
    leaves = leaves_of(kind, 6, 3, 2, torch.float64)
    wanted = everything(Steps(RECURRENCES[kind]), leaves)
    on_device = [leaf.detach().cuda().requires_grad_() for leaf in leaves]
    for found, exact in zip(everything(Steps(RECURRENCES[kind], is_compiled=True), on_device), wanted, strict=True):
        torch.testing.assert_close(found.cpu(), exact, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_kept_for_the_next_batch_leak_nothing_into_it(kind: tuple[str, str]) -> None:
    """Batches of other sizes, one after the other and one within the other, against layers that never saw another."""
    batches = [
        leaves_of(kind, n_steps, n_columns, seed, torch.float64)
        for seed, (n_steps, n_columns) in enumerate([(4, 3), (2, 5), (4, 3)])
    ]
    alone = [everything(Steps(RECURRENCES[kind]), leaves) for leaves in batches]
    steps = Steps(RECURRENCES[kind])
    for leaves, wanted in zip([*batches, *batches], [*alone, *alone], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(everything(steps, leaves), wanted, strict=True))
    # forward, forward, back, back
    outputs = [recur(steps, leaves[0].clone(), leaves[1], leaves[2], tuple(leaves[3:]))[0] for leaves in batches]
    apart = [recur(Steps(RECURRENCES[kind]), b[0].clone(), b[1], b[2], tuple(b[3:]))[0] for b in batches]
    for out, other, leaves in zip(outputs, apart, batches, strict=True):
        assert torch.equal(out, other)
        assert torch.equal(*(torch.autograd.grad(o.sum(), leaves[1])[0] for o in (out, other)))
