"""Dynamic evaluation against its rule, written out step by step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo import storage
from lmzoo.budget import Budget, Stopwatch

torch = pytest.importorskip("torch")

from lmzoo.neural import dynamic  # noqa: E402
from lmzoo.neural.config import RecurrentConfig  # noqa: E402
from lmzoo.neural.dynamic import DynamicModel, fitted_dynamic, gradient_rms  # noqa: E402
from lmzoo.neural.models import RecurrentModel  # noqa: E402
from lmzoo.neural.network import initialize  # noqa: E402

pytestmark = pytest.mark.torch

CORPUS = lmzoo.corpus_from_texts({"train": "abcd " * 9, "valid": "abc dab " * 9, "test": "dad"}, tokens="char")
STEPS, LR, DECAY = 4, 0.05, 0.2
IDS_L = CORPUS.valid.ids_N[:23].astype(np.int64)


def plain(embedding: int = 5) -> RecurrentModel:
    config = RecurrentConfig(hidden=6, embedding=embedding, adapt="dynamic", adapt_steps=STEPS)
    model = RecurrentModel(CORPUS.vocab, config)
    initialize(model.network, torch.Generator().manual_seed(5))
    return model


def dynamic_model() -> DynamicModel:
    network = plain()
    return DynamicModel(network, gradient_rms(network, CORPUS.train), LR, DECAY)


MODEL = dynamic_model()


def nats_of(network: RecurrentModel, history_L: npt.NDArray[np.int64], carried: object) -> object:
    ids_T = torch.from_numpy(history_L)
    outputs, after = network.network(ids_T[:, None], carried)
    hidden = torch.cat((carried[0, -1][None], outputs))[:-1, 0]  # type: ignore[index]
    return torch.nn.functional.cross_entropy(network.network.logits(hidden), ids_T, reduction="none"), after


def test_each_segment_is_scored_before_the_weights_take_the_step_of_the_rule() -> None:
    """Krause et al. 2018, eq. 5: a gradient over its rms, and back to what was trained, more where rms is large."""
    network, trained = plain(), plain()
    rms = gradient_rms(network, CORPUS.train)
    mean = torch.cat([values.flatten() for values in rms.values()]).double().mean().item()
    carried = torch.from_numpy(network.initial_state().values_SxKxBxH.copy())
    wanted: list[float] = []
    for start in range(0, len(IDS_L), STEPS):
        piece_L = IDS_L[start : start + STEPS]
        nats_T, after = nats_of(network, piece_L, carried)  # type: ignore[misc]
        wanted += (-nats_T).tolist()
        if len(piece_L) == STEPS:
            weights = network.network.weights()
            gradients = torch.autograd.grad(nats_T.mean(), list(weights.values()))
            with torch.no_grad():
                for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                    back = (DECAY * rms[name] / mean).clamp(max=1.0)
                    pulled = (trained.network.weights()[name] - weight) * back
                    weight += pulled - LR * gradient.to_dense() / (rms[name] + mean)
        carried = after.detach()
    got_1xL, _ = MODEL.logprobs(IDS_L[None], MODEL.initial_state())
    assert got_1xL[0] == pytest.approx(wanted, abs=1e-4)
    unchanged_1xL, _ = MODEL.plain.logprobs(IDS_L[None], MODEL.plain.initial_state())
    assert got_1xL[0, :STEPS] == pytest.approx(unchanged_1xL[0, :STEPS], abs=1e-5)
    assert np.abs(got_1xL - unchanged_1xL).max() > 0.01


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_the_weights_are_the_same_bits_however_the_text_is_cut(lengths: list[int]) -> None:
    ids_L = IDS_L[: sum(lengths)]
    whole_1xL, (after,) = MODEL.logprobs(ids_L[None], MODEL.initial_state())
    state, pieces, start = MODEL.initial_state(), [], 0
    for length in lengths:
        piece_1xM, state = MODEL.logprobs(ids_L[None, start : start + length], state)
        pieces.append(piece_1xM)
        start += length
    assert np.concatenate(pieces, axis=1) == pytest.approx(whole_1xL, abs=1e-5)
    (cut,) = state
    assert (cut.weights is None) == (after.weights is None)
    for one, other in zip(cut.weights or (), after.weights or (), strict=True):
        assert torch.equal(one, other)


def test_rows_and_old_states_go_on_by_themselves() -> None:
    texts_2xL = IDS_L[:22].reshape(2, 11)
    together_2xL, after = MODEL.logprobs(texts_2xL, MODEL.initial_state(2))
    before = MODEL.next_logprobs(after)
    for row, text_L in enumerate(texts_2xL):
        alone_1xL, _ = MODEL.logprobs(text_L[None], MODEL.initial_state())
        assert alone_1xL[0] == pytest.approx(together_2xL[row], abs=1e-5)
        MODEL.logprobs(texts_2xL[:1], MODEL.select(after, [row]))
    assert (MODEL.next_logprobs(after) == before).all()


@pytest.mark.parametrize("embedding", [0, 5])
def test_gradients_are_measured_on_the_training_text(embedding: int) -> None:
    """The root of the mean square over its whole segments, the state going on."""
    network = plain(embedding)
    carried = torch.from_numpy(network.initial_state().values_SxKxBxH.copy())
    squares = []
    for start in range(0, CORPUS.train.n_tokens - STEPS + 1, STEPS):
        nats_T, after = nats_of(network, CORPUS.train.ids_N[start : start + STEPS].astype(np.int64), carried)  # type: ignore[misc]
        gradients = torch.autograd.grad(nats_T.mean(), list(network.network.weights().values()))
        squares.append([gradient.to_dense().square() for gradient in gradients])
        carried = after.detach()
    for k, values in enumerate(gradient_rms(network, CORPUS.train).values()):
        assert torch.allclose(values, torch.stack([row[k] for row in squares]).mean(0).sqrt(), atol=1e-6)


def test_fitted_rates_are_no_worse_than_the_defaults_and_survive_the_file() -> None:
    network = plain()
    model = fitted_dynamic(network, CORPUS.train, CORPUS.valid, Budget(steps=1))
    default = model.with_rates(dynamic.DEFAULT_LR, dynamic.DEFAULT_DECAY)
    assert lmzoo.evaluate(model, CORPUS.valid).nll_nats < lmzoo.evaluate(default, CORPUS.valid).nll_nats
    back = storage.from_bytes(storage.to_bytes(model), "a file")
    assert isinstance(back, DynamicModel)
    assert back.details == model.details
    assert lmzoo.evaluate(back, CORPUS.valid).nll_nats == lmzoo.evaluate(model, CORPUS.valid).nll_nats
    unfitted = fitted_dynamic(network, CORPUS.train, CORPUS.valid.head(0), Budget(steps=1))
    assert unfitted.details == default.details


def test_a_budget_of_seconds_bounds_the_fit() -> None:
    """A clock that runs a second at each look: of 10 s one may be spent, so that the defaults alone are tried."""
    ticks = iter(range(1000))
    budget = Budget(seconds=10.0, watch=Stopwatch(lambda: float(next(ticks))))
    with budget.watch.running():
        model = fitted_dynamic(plain(), CORPUS.train, CORPUS.valid, budget)
    assert model.details == {"lr": dynamic.DEFAULT_LR, "decay": dynamic.DEFAULT_DECAY}


def test_a_file_with_measures_of_another_shape_is_refused() -> None:
    options, arrays = MODEL.to_parts()
    with pytest.raises(ValueError, match=r"rms/output\.bias has shape"):
        DynamicModel.from_parts(MODEL.vocab, options, arrays | {"rms/output.bias": np.zeros(2, np.float32)})
