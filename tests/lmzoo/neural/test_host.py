"""The compiled cells are the plain ones, and both are exact to the rounding of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmzoo.neural.scan import SCANS, log_softmax

numba = pytest.importorskip("numba")

from lmzoo.compiled import cells  # noqa: E402

# numbers of states and of gates
SIZES = {"rnn": (1, 1), "gru": (1, 3), "lstm": (2, 4)}
# the design's bound for a cell in float32
TOLERANCE = 1e-5
# half the distance between 1 and the next float32
UNIT = 2.0**-24

kinds = st.sampled_from(sorted(SCANS))
# four rows are added at a time, so remainders of 1 to 3 matter
widths = st.integers(1, 21)
seeds = st.integers(0, 2**16)


class Case:
    """Weights of one layer, and what it reads."""

    def __init__(self, kind: tuple[str, str], n_inputs: int, hidden: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n_states, n_gates = SIZES[kind[0]]
        self.kind, self.hidden = kind, hidden
        shapes = {"weight_ih": (n_gates * hidden, n_inputs), "weight_hh": (n_gates * hidden, hidden)}
        shapes |= {"bias_ih": (n_gates * hidden,), "bias_hh": (n_gates * hidden,)}
        self.weights = {k: rng.uniform(-0.8, 0.8, shape).astype(np.float32) for k, shape in shapes.items()}
        self.rng = rng

    def states(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=(self.n_states, *shape, self.hidden)).astype(np.float32)

    def x(self, inputs_TxBxI: np.ndarray) -> np.ndarray:
        """The input product and the biases outside the step, in float64."""
        bias = self.weights["bias_ih"].astype(np.float64)
        if self.kind[0] != "gru":
            bias = bias + self.weights["bias_hh"]
        return inputs_TxBxI @ self.weights["weight_ih"].T.astype(np.float64) + bias

    def exact(self, x_TxBxG: np.ndarray, states_SxBxH: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and states by the plain scan in float64."""
        states_SxBxH = states_SxBxH.astype(np.float64)
        out_TxBxH = np.empty((*x_TxBxG.shape[:2], self.hidden))
        arrays = (self.weights[name].astype(np.float64) for name in ("weight_hh", "bias_hh"))
        SCANS[self.kind](x_TxBxG.astype(np.float64), *arrays, states_SxBxH, out_TxBxH)
        return out_TxBxH, states_SxBxH


@settings(deadline=None)
@given(kinds, widths, st.integers(0, 12), st.integers(1, 3), seeds)
def test_a_compiled_scan_is_the_plain_one(kind, hidden, length, n_texts, seed) -> None:
    case = Case(kind, 3, hidden, seed)
    # a relu has no bound: few steps keep its numbers, and so its rounding, small
    length = min(length, 3) if kind[1] == "relu" else length
    x = case.x(case.rng.normal(size=(length, n_texts, 3))).astype(np.float32)
    states = case.states(n_texts)
    wanted, wanted_states = case.exact(x, states)
    out = np.empty(wanted.shape, np.float32)
    cells.scan(cells.KINDS[kind], x, case.weights["weight_hh"], case.weights["bias_hh"], states, out)
    np.testing.assert_allclose(out, wanted, atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_allclose(states, wanted_states, atol=TOLERANCE, rtol=TOLERANCE)


@settings(deadline=None)
@given(kinds, widths, widths, st.booleans(), st.integers(1, 3), seeds)
def test_a_compiled_step_is_one_of_the_scan(kind, n_inputs, hidden, is_token, n_layers, seed) -> None:
    case = Case(kind, n_inputs, hidden, seed)
    token, layer = seed % n_inputs, seed % n_layers
    vector = np.eye(n_inputs)[token] if is_token else case.rng.normal(size=n_inputs)
    before = case.states(n_layers, 1)
    before.flags.writeable = False
    wanted, wanted_states = case.exact(case.x(vector[None, None]), before[:, layer])
    after = np.full_like(before, 7)
    given_input = np.zeros(0, np.float32) if is_token else vector.astype(np.float32)
    weights = (case.weights[name] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    cells.step(cells.KINDS[kind], token if is_token else -1, given_input, *weights, before, layer, after)
    np.testing.assert_allclose(after[:, layer], wanted_states, atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_allclose(after[0, layer], wanted[0], atol=TOLERANCE, rtol=TOLERANCE)
    # the other layers are not its business
    assert (np.delete(after, layer, axis=1) == 7).all()


@settings(deadline=None)
@given(st.sampled_from([log_softmax, cells.log_softmax]), widths, st.integers(2, 70), st.floats(0.1, 300), seeds)
def test_a_distribution_is_exact_to_rounding(function, hidden, n_symbols, scale, seed) -> None:
    rng = np.random.default_rng(seed)
    h = rng.uniform(-1, 1, hidden).astype(np.float32)
    # whole multiples of a small binary fraction: the logits themselves are exact in float32
    h, weight = np.round(h * 64) / 64, np.round(rng.uniform(-scale, scale, (n_symbols, hidden))).astype(np.float32)
    bias, mask = rng.integers(-9, 9, n_symbols).astype(np.float32), np.zeros(n_symbols, np.float32)
    mask[n_symbols // 2] = -np.inf
    out = np.empty(n_symbols, np.float32)
    function(h, weight, bias, mask, out)
    logits = weight.astype(np.float64) @ h + bias + mask
    wanted = logits - np.logaddexp.reduce(logits)
    # the sum has the rounding of its terms and ln p that of the largest logit
    largest = np.abs(logits[np.isfinite(logits)]).max()
    np.testing.assert_allclose(out, wanted, atol=2e-6 + 2 * UNIT * largest, rtol=2 * UNIT)
    assert np.isneginf(out[n_symbols // 2])
    assert (out <= 0).all()


# every 997th of all float32 there are
NUMBERS = np.arange(0, 2**32, 997, dtype=np.uint64).astype(np.uint32).view(np.float32)


def over_all(function: Callable[[float], float], numbers: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return numba.vectorize(["float32(float32)"])(function.py_func)(numbers)


def test_tanh_is_exact_to_rounding() -> None:
    numbers = NUMBERS[~np.isnan(NUMBERS)]
    wanted = np.tanh(numbers.astype(np.float64))
    got = over_all(cells.tanh, numbers)
    # relative down to the smallest normal number
    assert np.abs(got - wanted).max() <= UNIT * 3
    is_normal = np.abs(wanted) > 2.0**-126
    assert (np.abs(got - wanted)[is_normal] / np.abs(wanted[is_normal])).max() <= 3 * UNIT


def test_sigmoid_is_exact_to_rounding() -> None:
    numbers = NUMBERS[~np.isnan(NUMBERS)]
    wanted = (np.tanh(numbers.astype(np.float64) / 2) + 1) / 2
    assert np.abs(over_all(cells.sigmoid, numbers) - wanted).max() <= 2 * UNIT


def test_exp_is_exact_to_rounding() -> None:
    numbers = NUMBERS[NUMBERS <= 0]
    wanted = np.exp(numbers.astype(np.float64))
    got = over_all(cells.exp, numbers)
    has_normal = numbers >= -87
    assert (np.abs(got - wanted)[has_normal] / wanted[has_normal]).max() <= 3 * UNIT
    assert (np.abs(got - wanted)[~has_normal] < 2.0**-125).all()


@pytest.mark.parametrize("function", [cells.tanh, cells.sigmoid, cells.exp])
def test_nan_stays_nan(function: Callable[[float], float]) -> None:
    assert np.isnan(over_all(function, np.array([np.nan], np.float32))).all()
