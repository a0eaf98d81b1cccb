"""The optimisers are torch's, step by step; clipping and schedules by their arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from lmzoo.neural.optimizers import OPTIMIZERS, SCHEDULES, Averaging, clip_global_norm, phase_of  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("name", "oracle", "options"), [("sgd", "SGD", {}), ("adam", "Adam", {}), ("adamw", "AdamW", {"weight_decay": 0.3})]
)
def test_an_optimizer_is_torchs(name: str, oracle: str, options: dict[str, float]) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(3, 4, generator=generator, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)]
    theirs = [p.clone().requires_grad_() for p in ours]
    mine, yours = OPTIMIZERS[name](ours, **options), getattr(torch.optim, oracle)(theirs, lr=0.1, **options)
    for step in range(20):
        gradients = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in ours]
        yours.param_groups[0]["lr"] = 0.1 / (step + 1)
        mine.step(gradients, 0.1 / (step + 1))
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        yours.step()
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right.detach(), rtol=1e-12, atol=1e-12)


def test_an_average_is_over_all_steps_or_the_last_of_them() -> None:
    # SGD of rate 1 with gradients of -1 counts 1, 2, 3, ...
    for k, weights in ((0.0, [1 / 4, 1 / 4, 1 / 4, 1 / 4]), (1.0, [1 / 10, 2 / 10, 3 / 10, 4 / 10])):
        # what stood there before has no share in it
        parameter, mean = torch.zeros(1), torch.full((1,), 99.0)
        optimizer = Averaging(OPTIMIZERS["sgd"]([parameter]), [parameter], [mean], k)
        for _ in weights:
            optimizer.step([torch.full((1,), -1.0)], 1.0)
        assert float(mean) == pytest.approx(sum(w * n for n, w in enumerate(weights, 1)))
        assert (float(parameter), optimizer.n_steps) == (4.0, 4)


def test_clipping_scales_all_gradients_by_one_factor() -> None:
    # sqrt(3^2 + 4^2) = 5, so theta = 1 divides by 5
    gradients = [torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])]
    assert float(clip_global_norm(gradients, 1.0)) == 5.0
    torch.testing.assert_close(gradients[0], torch.tensor([0.6]))
    torch.testing.assert_close(gradients[1], torch.tensor([[0.0, 0.8]]))


@pytest.mark.parametrize("largest", [5.0, 6.0, 0.0])
def test_gradients_within_the_limit_stay_as_they_are(largest: float) -> None:
    gradients = [torch.tensor([3.0, 4.0])]
    clip_global_norm(gradients, largest)
    assert gradients[0].tolist() == [3.0, 4.0]


def test_gradients_of_zero_stay_zero() -> None:
    gradients = [torch.zeros(2)]
    assert float(clip_global_norm(gradients, 1.0)) == 0.0
    assert gradients[0].tolist() == [0.0, 0.0]


def test_a_norm_that_is_not_finite_is_told() -> None:
    assert not math.isfinite(float(clip_global_norm([torch.tensor([math.nan, 1.0])], 1.0)))
    assert not math.isfinite(float(clip_global_norm([torch.tensor([math.inf])], 1.0)))


@pytest.mark.parametrize("name", list(SCHEDULES))
@given(used=st.floats(0, 1), step=st.integers(1, 10**6))
def test_a_schedule_gives_a_share_above_0(name: str, used: float, step: int) -> None:
    assert 0 < SCHEDULES[name](used, step) <= 1


def test_the_cosine_rises_over_20_steps_and_falls_with_the_budget() -> None:
    cosine = SCHEDULES["cosine"]
    assert cosine(0.0, 10) == pytest.approx(0.5)
    # a budget without limits is never used: the whole rate for ever
    assert cosine(0.0, 10**6) == pytest.approx(1.0)
    # half way: 0.01 + 0.99 / 2
    assert cosine(0.5, 100) == pytest.approx(0.505)
    assert cosine(1.0, 100) == pytest.approx(0.01)


def test_the_trapezoid_falls_straight_from_60_percent_on() -> None:
    trapezoid = SCHEDULES["trapezoid"]
    assert [trapezoid(used, 100) for used in (0.0, 0.6)] == [1.0, 1.0]
    assert trapezoid(0.0, 10) == pytest.approx(0.5)
    # half of what falls: 0.01 + 0.99 / 2
    assert trapezoid(0.8, 100) == pytest.approx(0.505)
    assert trapezoid(1.0, 100) == pytest.approx(0.01)


def test_what_a_schedule_does_is_told_in_words() -> None:
    assert [phase_of("trapezoid", used, 100) for used in (0.3, 0.61, 0.9)] == ["whole", "fall", "at most 1/2"]
    assert phase_of("trapezoid", 0.0, 3) == "rise"
    assert phase_of("constant", 0.9, 3) == "constant"
