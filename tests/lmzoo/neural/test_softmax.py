"""The output layer in training: against torch's loss and autograd, and against the sums written down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import lmzoo  # noqa: E402
from lmzoo.errors import StoppedError  # noqa: E402
from lmzoo.neural import config, softmax  # noqa: E402
from lmzoo.neural.config import RecurrentConfig, WindowConfig, resolved_softmax  # noqa: E402
from lmzoo.neural.softmax import Sampler, full_nats, inclusion_chances, sampled_nats  # noqa: E402

pytestmark = pytest.mark.torch

# what rounding leaves of values and gradients of order 1
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}
BOS = 1


@pytest.fixture(scope="module", autouse=True)
def _written_out_for_small_vocabularies_too() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "_SMALL", 0)
        yield


def layer(n: int, v: int, h: int, dtype: Any = torch.float64, scale: float = 1.0, seed: int = 0) -> tuple[Any, ...]:
    """Hidden (N, H), weight (V, H), bias (V,) with -inf for `<s>`, all with gradients, and targets (N,)."""
    generator = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(m, h, generator=generator, dtype=dtype) for m in (n, v))
    bias = torch.randn(v, generator=generator, dtype=dtype)
    bias[BOS] = -math.inf
    targets = torch.randint(v, (n,), generator=generator)
    targets[targets == BOS] = 0
    return (hidden * scale).requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), targets


def gradients(loss: Any, *tensors: Any) -> list[Any]:
    return [g.to_dense() for g in torch.autograd.grad(loss, tensors)]


shapes = st.tuples(st.integers(1, 9), st.integers(2, 40), st.integers(1, 6))


@given(
    shape=shapes,
    max_cells=st.integers(1, 200),
    dtype=st.sampled_from(list(TOLERANCES)),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    factor=st.sampled_from([1.0, -2.5]),
)
def test_values_and_gradients_are_torchs(
    shape: tuple[int, int, int], max_cells: int, dtype: Any, scale: float, factor: float
) -> None:
    *tensors, targets = layer(*shape, dtype, scale)
    ours = full_nats(*tensors, targets, max_cells=max_cells)
    theirs = functional.cross_entropy(functional.linear(*tensors), targets)
    tolerance = TOLERANCES[dtype] * (1 + scale)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    for a, b in zip(gradients(ours * factor, *tensors), gradients(theirs * factor, *tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_symbols", [12, 300])
@pytest.mark.parametrize("smoothing", [0.1, 0.9])
def test_smoothed_targets_are_torchs(smoothing: float, n_symbols: int) -> None:
    hidden, weight, bias, targets = layer(7, n_symbols, 5, torch.float64, 1.0)
    tensors = [hidden, weight, bias.detach().clamp(min=-3.0).requires_grad_()]
    ours = full_nats(*tensors, targets, smoothing=smoothing, max_cells=3 * n_symbols)
    theirs = functional.cross_entropy(functional.linear(*tensors), targets, label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    for left, right in zip(gradients(ours, *tensors), gradients(theirs, *tensors), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("n_symbols", [12, 300])
def test_smoothed_targets_leave_the_impossible_out(n_symbols: int) -> None:
    """What has no mass gets no share and no gradient: the rest is as if it were not there."""
    hidden, weight, bias, targets = layer(7, n_symbols, 5, torch.float64, 1.0)
    start = torch.zeros(n_symbols, dtype=torch.float64)
    start[3] = -math.inf
    targets = torch.where(targets == 3, 4, targets)
    without = torch.cat((weight[:3], weight[4:])), torch.cat((bias[:3], bias[4:]))
    ours = full_nats(hidden, weight, bias + start, targets, smoothing=0.2)
    theirs = full_nats(hidden, *without, targets - (targets > 3).long(), smoothing=0.2)
    torch.testing.assert_close(ours, theirs)
    assert all(bool(g.isfinite().all()) for g in gradients(ours, hidden, weight, bias))


def test_gradients_are_the_slopes_of_the_value() -> None:
    hidden, weight, bias, targets = layer(5, 7, 3)
    with torch.no_grad():
        bias[BOS] = 0.0
    assert torch.autograd.gradcheck(lambda *tensors: full_nats(*tensors, targets, max_cells=14), (hidden, weight, bias))


def test_a_target_that_is_next_to_impossible_has_a_finite_loss() -> None:
    # ln(e^0 + e^200) - 0: e^-200 is 0 in float32
    hidden, weight = torch.ones(1, 1), torch.tensor([[0.0], [200.0]])
    assert float(full_nats(hidden, weight, torch.zeros(2), torch.tensor([0]))) == 200.0


def test_without_gradients_it_has_the_same_value() -> None:
    *tensors, targets = layer(5, 7, 3)
    with torch.no_grad():
        assert full_nats(*tensors, targets) == full_nats(*layer(5, 7, 3))


class Largest(TorchDispatchMode):  # type: ignore[misc]
    """How many numbers the largest tensor has that any operation gives."""

    n_cells = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.n_cells = max(self.n_cells, result.numel())
        return result


@pytest.mark.parametrize("max_cells", [120, 1000, 4000])
def test_no_more_logits_exist_at_once_than_allowed(max_cells: int) -> None:
    *tensors, targets = layer(50, 60, 2)
    with Largest() as largest:
        gradients(full_nats(*tensors, targets, max_cells=max_cells), *tensors)
    # the weight itself has 120 numbers, and all logits 3000
    assert largest.n_cells <= max_cells
    assert largest.n_cells >= min(max_cells, 3000) / 2


class Fixed(Sampler):
    """Draws what it is told."""

    def __init__(self, ids: list[int], chances_V: Any) -> None:
        self.ids_S = torch.tensor(ids, dtype=torch.int64)
        self.addend_S = -chances_V[self.ids_S].log()

    def draw(self) -> tuple[Any, Any]:
        return self.ids_S, self.addend_S


def test_the_sampled_normaliser_is_right_on_average() -> None:
    """Over all 32 sets that can be drawn, weighed by how likely each is, the estimates of Z sum to Z, for each row."""
    *tensors, targets = layer(4, 6, 3)
    chances_V = torch.tensor([0.9, 0.0, 0.5, 0.2, 1.0, 0.7], dtype=torch.float64)
    logits = functional.linear(*tensors).detach()
    for n in range(4):
        own, total = logits[n, targets[n]], 0.0
        for drawn in itertools.product([False, True], repeat=6):
            likely = math.prod(float(c if d else 1 - c) for c, d in zip(chances_V, drawn, strict=True))
            if likely:
                sampler = Fixed([k for k in range(6) if drawn[k]], chances_V)
                nats = sampled_nats(tensors[0][n : n + 1], *tensors[1:], targets[n : n + 1], sampler)
                total += likely * float((nats.detach() + own).exp())
        assert total == pytest.approx(float(logits[n].exp().sum()), rel=1e-12)


@given(shape=shapes, max_cells=st.integers(1, 200), seed=st.integers(0, 9))
def test_sampled_values_and_gradients_are_those_of_the_formula(
    shape: tuple[int, int, int], max_cells: int, seed: int
) -> None:
    """ln(e^own + sum of e^z / pi over what was drawn but the target) - own."""
    hidden, weight, bias, targets = layer(*shape, seed=seed)
    v = shape[1]
    chances_V = torch.rand(v, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    drawn = [k for k in range(v) if k % 3 != seed % 3 and k != BOS]
    ours = sampled_nats(hidden, weight, bias, targets, Fixed(drawn, chances_V), max_cells=max_cells)
    logits = functional.linear(hidden, weight, bias)
    nats = []
    for row, target in zip(logits, targets.tolist(), strict=True):
        others = [k for k in drawn if k != target]
        terms = torch.cat((row[target : target + 1], row[others] - chances_V[others].log()))
        nats.append(terms.logsumexp(0) - row[target])
    theirs = torch.stack(nats).mean()
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for a, b in zip(gradients(ours, hidden, weight, bias), gradients(theirs, hidden, weight, bias), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_drawing_every_symbol_is_the_full_softmax() -> None:
    *tensors, targets = layer(6, 9, 3)
    sampler = Sampler(np.arange(9), BOS, 9, torch.Generator())
    ours, theirs = sampled_nats(*tensors, targets, sampler), full_nats(*tensors, targets)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients(ours, *tensors), gradients(theirs, *tensors), strict=True):
        torch.testing.assert_close(a, b)


def test_the_gradient_of_the_weight_has_only_the_rows_that_were_drawn_or_wanted() -> None:
    hidden, weight, bias, targets = layer(3, 20, 2)
    sampler = Fixed([4, 7, 19], torch.full((20,), 0.5, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(sampled_nats(hidden, weight, bias, targets, sampler), weight)
    assert gradient.is_coalesced()
    assert gradient.indices()[0].tolist() == sorted({4, 7, 19, *targets.tolist()})


@given(counts=st.lists(st.integers(0, 1000), min_size=2, max_size=30), n_samples=st.integers(1, 40))
def test_chances_are_in_proportion_up_to_1_and_sum_to_what_is_wanted(counts: list[int], n_samples: int) -> None:
    weights = np.array(counts, np.float64)
    chances = inclusion_chances(weights, n_samples)
    n_possible = int((weights > 0).sum())
    assert chances.sum() == pytest.approx(min(n_samples, n_possible))
    assert ((chances == 0) == (weights == 0)).all()
    assert chances.max() <= 1
    free = (chances < 1) & (weights > 0)
    # those below 1 share one factor, with which the others would be above it
    if free.any():
        factor = (chances[free] / weights[free]).mean()
        np.testing.assert_allclose(chances, np.minimum(weights * factor, 1.0), rtol=1e-9)


def test_what_is_drawn_is_decided_by_the_generator_and_never_has_the_start() -> None:
    counts = np.array([5, 10**6, *range(200)])
    first, again, other = (Sampler(counts, BOS, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    for _ in range(20):
        ids, addend = first.draw()
        assert torch.equal(ids, again.draw()[0])
        assert not torch.equal(ids, other.draw()[0])
        assert BOS not in ids
        assert (ids[1:] > ids[:-1]).all()
        assert (addend >= 0).all()


def test_as_many_are_drawn_as_wanted_on_average() -> None:
    sampler = Sampler(np.arange(1000), BOS, 100, torch.Generator().manual_seed(0))
    n_drawn = [len(sampler.draw()[0]) for _ in range(400)]
    # the variance of one draw is at most 100, so that of the mean at most 1/4: six deviations are 3
    assert np.mean(n_drawn) == pytest.approx(100, abs=3)


@pytest.mark.parametrize("make", [RecurrentConfig, WindowConfig])
def test_auto_is_sampled_for_many_symbols(make: Any) -> None:
    limit = config.FULL_SOFTMAX_UP_TO
    assert [resolved_softmax(make(), n) for n in (limit, limit + 1)] == ["full", "sampled"]
    assert resolved_softmax(make(label_smoothing=0.1), limit + 1) == "full"
    for chosen in ("full", "sampled"):
        assert {resolved_softmax(make(softmax=chosen), n) for n in (10, limit + 1)} == {chosen}


SAMPLED = "hidden=8,batch_size=4,optimizer=sgd,lr=1,softmax=sampled,samples=3"


def text() -> Any:
    return lmzoo.corpus_from_texts({"train": "abcdefgh" * 40, "valid": "abcd", "test": "abcd"}, tokens="char")


@pytest.mark.parametrize("name", ["gru-scratch", "lstm-cudnn", "mlp", "transformer"])
def test_what_ran_is_told_and_scoring_is_exact(name: str) -> None:
    corpus = text()
    heads = ",heads=2" if name == "transformer" else ""
    model = lmzoo.train(f"{name}:{SAMPLED}{heads}", corpus, max_steps=3)
    assert "+sampled" in model.kernel_name
    assert model.config.softmax == "sampled"
    assert np.exp(model.next_logprobs(model.initial_state())).sum() == pytest.approx(1, abs=1e-5)
    plain = lmzoo.train(f"{name}:hidden=8,batch_size=4{heads}", corpus, max_steps=1)
    assert "sampled" not in plain.kernel_name
    assert plain.config.softmax == "full"


@pytest.mark.parametrize("name", ["gru-scratch", "mlp"])
def test_a_stopped_training_goes_on_with_the_same_draws(name: str, tmp_path: Any) -> None:
    corpus, spec = text(), f"{name}:{SAMPLED}"
    whole = lmzoo.train(spec, corpus, max_steps=9, seed=2).to_parts()[1]
    asked = itertools.count(1)
    path = tmp_path / "stopped.ckpt"
    with pytest.raises(StoppedError):
        lmzoo.train(spec, corpus, max_steps=9, seed=2, checkpoint=path, stop=lambda: next(asked) == 4)
    went_on = lmzoo.train(spec, corpus, max_steps=9, seed=2, checkpoint=path, resume=True).to_parts()[1]
    for weight, array in whole.items():
        np.testing.assert_array_equal(went_on[weight], array)
