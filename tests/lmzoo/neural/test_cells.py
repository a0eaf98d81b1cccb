"""The cells written out are torch's own layers: values, gradients, whole trainings; by hand and by the plain loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from lmzoo.neural.cells import CELLS  # noqa: E402
from lmzoo.neural.config import RecurrentConfig  # noqa: E402
from lmzoo.neural.library import LibraryLayer  # noqa: E402
from lmzoo.neural.network import Dropout, Dropouts, RecurrentNetwork, initialize  # noqa: E402
from lmzoo.neural.optimizers import OPTIMIZERS, clip_global_norm  # noqa: E402
from lmzoo.neural.recurrence import RECURRENCES, Steps, recur  # noqa: E402
from lmzoo.neural.scan import SCANS, input_product  # noqa: E402
from lmzoo.neural.scratch import ScratchLayer  # noqa: E402

pytestmark = pytest.mark.torch

T, B, N_INPUTS, H = 12, 3, 5, 7
# as the design asks: rounding of each type, through T steps
TOLERANCES = {"float32": 1e-5, "float64": 1e-10}
KINDS = [("rnn", "tanh"), ("rnn", "relu"), ("gru", "tanh"), ("lstm", "tanh")]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def twins(
    cell: str, activation: str, dtype: torch.dtype, *, by_loop: bool = False
) -> tuple[ScratchLayer, torch.nn.RNNBase]:
    """A layer written out and torch's layer, made by torch itself, with the same weights."""
    theirs = getattr(torch.nn, cell.upper())(N_INPUTS, H, **({"nonlinearity": activation} if cell == "rnn" else {})).to(
        dtype
    )
    ours = ScratchLayer(cell, N_INPUTS, H, activation=activation, by_loop=by_loop).to(dtype)
    drawing = generator()
    with torch.no_grad():
        for name, weight in ours.weights().items():
            weight.uniform_(-0.8, 0.8, generator=drawing)
            getattr(theirs, f"{name}_l0").copy_(weight)
    return ours, theirs


@pytest.mark.parametrize("by_loop", [False, True], ids=["fused", "loop"])
@pytest.mark.parametrize("dtype_name", TOLERANCES)
@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_a_cell_is_torchs_layer_in_values_and_gradients(
    cell: str, activation: str, dtype_name: str, by_loop: bool
) -> None:
    dtype, tolerance = getattr(torch, dtype_name), TOLERANCES[dtype_name]
    ours, theirs = twins(cell, activation, dtype, by_loop=by_loop)
    drawing = generator(1)
    x = torch.randn(T, B, N_INPUTS, generator=drawing, dtype=dtype)
    states = tuple(torch.randn(B, H, generator=drawing, dtype=dtype) for _ in range(CELLS[cell].n_states))
    before = tuple(s[None].clone() for s in states)

    leaves = [t.requires_grad_() for t in (x, *states)]
    outputs, after = ours(x, states)
    their_x = x.detach().clone().requires_grad_()
    their_states = tuple(s.detach().requires_grad_() for s in before)
    their_outputs, their_after = theirs(their_x, their_states if len(states) > 1 else their_states[0])
    their_after = their_after if isinstance(their_after, tuple) else (their_after,)

    # relu lets states grow to tens, whose last bits are larger
    share = tolerance / 10 if activation == "relu" else 0.0
    torch.testing.assert_close(outputs, their_outputs, rtol=share, atol=tolerance)
    for mine, yours in zip(after, their_after, strict=True):
        torch.testing.assert_close(mine, yours[0], rtol=share, atol=tolerance)

    aim = torch.randn(outputs.shape, generator=drawing, dtype=dtype)
    mine = torch.autograd.grad((outputs * aim).mean() + after[-1].sum(), [*leaves, *ours.weights().values()])
    their_weights = [getattr(theirs, f"{name}_l0") for name in ours.weights()]
    yours = torch.autograd.grad(
        (their_outputs * aim).mean() + their_after[-1].sum(), [their_x, *their_states, *their_weights]
    )
    for left, right in zip(mine, yours, strict=True):
        torch.testing.assert_close(left, right.reshape(left.shape), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_the_wrapped_layer_is_torchs_layer(cell: str, activation: str) -> None:
    ours, theirs = twins(cell, activation, torch.float64)
    wrapped = LibraryLayer(cell, N_INPUTS, H, activation=activation).double()
    with torch.no_grad():
        for name, weight in wrapped.weights().items():
            weight.copy_(ours.weights()[name])
    x = torch.randn(T, B, N_INPUTS, generator=generator(), dtype=torch.float64)
    zeros = (torch.zeros(B, H, dtype=torch.float64),) * CELLS[cell].n_states
    assert torch.equal(wrapped(x, zeros)[0], theirs(x)[0])


@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_a_scan_is_the_cell(cell: str, activation: str) -> None:
    ours, _ = twins(cell, activation, torch.float64)
    drawing = generator(2)
    ids_TxB = torch.randint(N_INPUTS, (T, B), generator=drawing)
    states = tuple(torch.randn(B, H, generator=drawing, dtype=torch.float64) for _ in range(CELLS[cell].n_states))
    with torch.no_grad():
        outputs, after = ours(ids_TxB, states)
        weight = ours.weight_ih.numpy()
        # a scan adds all biases of the state where one of them stands inside the step
        bias = (ours.bias_ih if CELLS[cell].has_inner_bias else ours.bias_ih + ours.bias_hh).numpy()
    x = input_product(ids_TxB.numpy().reshape(-1), None, weight, bias).reshape(T, B, -1)
    values_SxBxH = np.stack([s.numpy() for s in states])
    scanned = np.empty((T, B, H))
    arrays = (ours.weight_hh.detach().numpy(), ours.bias_hh.detach().numpy())
    SCANS[cell, activation](x, *arrays, values_SxBxH, scanned)
    np.testing.assert_allclose(scanned, outputs, atol=TOLERANCES["float64"], rtol=0)
    np.testing.assert_allclose(values_SxBxH, torch.stack(after), atol=TOLERANCES["float64"], rtol=0)


@given(
    kind=st.sampled_from(KINDS),
    sizes=st.tuples(*[st.integers(1, 5)] * 4),
    cut=st.integers(0, 5),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_gradients_written_out_are_autograds_for_any_shape(
    kind: tuple[str, str], sizes: tuple[int, int, int, int], cut: int, seed: int
) -> None:
    """By hand and by the loop, in float64: whole, and cut in two chunks with the state's gradient going through."""
    n_steps, batch_size, n_inputs, hidden = sizes
    cut = min(cut, n_steps)
    drawing = generator(seed)
    results = []
    layers = [ScratchLayer(kind[0], n_inputs, hidden, activation=kind[1], by_loop=how).double() for how in (0, 1)]
    with torch.no_grad():
        for name, weight in layers[0].weights().items():
            weight.uniform_(-1, 1, generator=drawing)
            layers[1].weights()[name].copy_(weight)
    x = torch.randn(n_steps, batch_size, n_inputs, generator=drawing, dtype=torch.float64)
    aim = torch.randn(n_steps, batch_size, hidden, generator=drawing, dtype=torch.float64)
    zeros = [torch.zeros(batch_size, hidden, dtype=torch.float64) for _ in range(layers[0].cell.n_states)]
    for layer in layers:
        leaves = [x.clone().requires_grad_(), *(zero.clone().requires_grad_() for zero in zeros)]
        states, outputs = tuple(leaves[1:]), []
        for chunk in (leaves[0][:cut], leaves[0][cut:]):
            if len(chunk):
                out, states = layer(chunk, states)
                outputs.append(out)
        loss = (torch.cat(outputs) * aim).sum() + sum(state.square().sum() for state in states)
        results.append([loss, *torch.autograd.grad(loss, [*leaves, *layer.weights().values()])])
    for by_hand, by_autograd in zip(*results, strict=True):
        torch.testing.assert_close(by_hand, by_autograd, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_gradients_written_out_are_those_of_small_differences(cell: str, activation: str) -> None:
    """Against the definition itself, (f(w + e) - f(w - e)) / 2e, so that no twin can share a mistake."""
    kind, n_gates, n_states = RECURRENCES[cell, activation], CELLS[cell].n_gates, CELLS[cell].n_states
    drawing = generator(4)
    sizes = [(3, 2, n_gates * 2), (n_gates * 2, 2), (2 if CELLS[cell].has_inner_bias else 0,), *[(2, 2)] * n_states]
    leaves = [torch.randn(size, generator=drawing, dtype=torch.float64).requires_grad_() for size in sizes]

    def outputs(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *states: torch.Tensor) -> tuple[object, ...]:
        out, last = recur(Steps(kind), x.clone(), weight, bias, states)
        return out, *last

    assert torch.autograd.gradcheck(outputs, leaves)


@pytest.mark.parametrize("embedding", [0, 4])
@pytest.mark.parametrize("n_steps", [1, T])
def test_a_table_of_symbols_serves_as_well_as_a_product_a_token(embedding: int, n_steps: int) -> None:
    """One step of three columns is less than the six symbols, twelve steps are more."""
    made = network("scratch", embedding=embedding).double()
    ids_TxB = torch.randint(6, (n_steps, B), generator=generator())
    outputs, _ = made(ids_TxB, made.zero_state(B))
    rows = torch.eye(6, dtype=torch.float64) if made.embedding is None else made.embedding
    wanted, _ = made.layers[0](rows[ids_TxB], made.zero_state(B)[:, 0].unbind(0))
    torch.testing.assert_close(outputs, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_a_long_scan_is_its_parts(cell: str, activation: str) -> None:
    """Weights are laid out anew for many steps only."""
    rng = np.random.default_rng(0)
    n_rows = CELLS[cell].n_gates * H
    x = rng.normal(size=(300, 1, n_rows))
    weight, bias = rng.uniform(-0.3, 0.3, size=(n_rows, H)), rng.normal(size=n_rows)
    results = []
    for size in (300, 5):
        states, out = np.zeros((CELLS[cell].n_states, 1, H)), np.empty((300, 1, H))
        for start in range(0, 300, size):
            SCANS[cell, activation](x[start : start + size], weight, bias, states, out[start : start + size])
        results.append((out, states))
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(whole, parts, rtol=TOLERANCES["float64"], atol=TOLERANCES["float64"])


@pytest.mark.parametrize("embedding", [None, np.arange(20.0).reshape(5, 4)])
def test_the_input_product_is_the_same_by_table_and_by_token(embedding: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 5 if embedding is None else 4))
    ids = rng.integers(5, size=50)
    by_table = input_product(ids, embedding, weight, np.ones(6))
    by_token = np.concatenate([input_product(ids[i : i + 1], embedding, weight, np.ones(6)) for i in range(50)])
    np.testing.assert_allclose(by_table, by_token, rtol=1e-12)
    rows = np.eye(5) if embedding is None else embedding
    np.testing.assert_allclose(by_table, rows[ids] @ weight.T + 1, rtol=1e-12)


def network(kernel: str, cell: str = "lstm", **options: object) -> RecurrentNetwork:
    config = RecurrentConfig(cell=cell, kernel=kernel, **{"hidden": H, "embedding": 4, **options})  # type: ignore[arg-type]
    made = RecurrentNetwork(config, n_symbols=6, bos_id=1)
    initialize(made, generator(3))
    return made


@pytest.mark.parametrize("embedding", [0, 4])
@pytest.mark.parametrize("cell", list(CELLS))
def test_one_hot_and_lookup_are_equal(cell: str, embedding: int) -> None:
    looked_up, multiplied = (
        network("scratch", cell, embedding=embedding, input=how).double() for how in ("lookup", "onehot")
    )
    ids_TxB = torch.randint(6, (T, B), generator=generator())
    results = []
    for made in (looked_up, multiplied):
        outputs, state = made(ids_TxB, made.zero_state(B))
        weights = [w for name, w in made.weights().items() if not name.startswith("output")]
        results.append([outputs, state, *torch.autograd.grad(outputs.square().sum(), weights)])
    for left, right in zip(*results, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("cell", "activation"), KINDS)
def test_200_steps_of_all_kernels_follow_one_loss_curve(cell: str, activation: str) -> None:
    """In float64, two layers: within 1e-6 all the way (the design's rule for kernels that claim to be the same)."""
    ways = ({"kernel": "scratch"}, {"kernel": "scratch", "impl": "loop"}, {"kernel": "library"})
    fused, loop, library = (
        _loss_curve(network(cell=cell, layers=2, activation=activation, **way).double()) for way in ways
    )
    np.testing.assert_allclose(fused, library, atol=1e-6, rtol=0)
    np.testing.assert_allclose(loop, library, atol=1e-6, rtol=0)
    assert fused[-1] < 0.5 * fused[0]


def _loss_curve(made: RecurrentNetwork) -> list[float]:
    # a cycle of 5 symbols, <s> (1) left out
    text = torch.tensor(list(itertools.islice(itertools.cycle([0, 2, 3, 4, 5]), T + 1)))
    ids_TxB = torch.stack([text.roll(k) for k in range(B)], dim=1)
    weights = list(made.weights().values())
    optimizer = OPTIMIZERS["adam"](weights)
    curve = []
    for _ in range(200):
        hidden, _ = made(ids_TxB[:-1], made.zero_state(B))
        loss = torch.nn.functional.cross_entropy(made.logits(hidden.flatten(0, 1)), ids_TxB[1:].flatten())
        gradients = torch.autograd.grad(loss, weights)
        clip_global_norm(gradients, 1.0)
        optimizer.step(gradients, 0.005)
        curve.append(float(loss.detach()))
    return curve


@pytest.mark.parametrize("kernel", ["scratch", "library"])
def test_the_forget_gate_starts_open_and_kernels_start_alike(kernel: str) -> None:
    weights = network(kernel).weights()
    bias = weights["layer0.bias_ih"]
    assert bias[H : 2 * H].tolist() == [1.0] * H
    assert bias.sum() == H
    for name, weight in network("scratch").weights().items():
        assert torch.equal(weight, weights[name])


def test_dropout_keeps_one_mask_for_a_sequence_and_the_mean() -> None:
    dropped = Dropout(0.25, generator())(torch.ones(T, 50, 200))
    assert torch.equal(dropped[0].expand_as(dropped), dropped)
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.75)}
    # 10,000 independent units: the standard error of the share is 0.0043
    assert float((dropped[0] == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("kernel", ["scratch", "library"])
def test_dropout_reaches_every_place_it_is_meant_for(kernel: str) -> None:
    made = network(kernel, layers=2)
    places: list[tuple[int, ...]] = []

    class Spy(Dropout):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            places.append(tuple(x.shape))
            return super().__call__(x)

    spies = {place: Spy(0.5, generator()) for place in ("input", "hidden", "output")}
    made(torch.zeros(T, B, dtype=torch.long), made.zero_state(B), Dropouts(**spies))
    # the embeddings, between the layers, before the output
    assert places == [(T, B, 4), (T, B, H), (T, B, H)]


def test_dropout_that_is_not_locked_has_a_mask_for_each_step() -> None:
    dropped = Dropout(0.25, generator(), is_locked=False)(torch.ones(T, 50, 200))
    assert not torch.equal(dropped[0], dropped[1])
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("cell", list(CELLS))
@pytest.mark.parametrize(("kernel", "impl"), [("scratch", "fused"), ("scratch", "loop"), ("library", "fused")])
def test_dropped_weights_are_those_of_a_layer_without_them(kernel: str, impl: str, cell: str) -> None:
    """All steps of a batch are those of a layer whose weights between states lack what was dropped."""
    made = network(kernel, cell, impl=impl)
    ids, dropout = torch.randint(2, 5, (T, B)), Dropout(0.5, generator())
    outputs, _ = made(ids, made.zero_state(B), Dropouts(weights=dropout))
    (layer,) = made.recurrent_layers()
    with torch.no_grad():
        weight = layer.weights()["weight_hh"]
        weight.copy_(Dropout(0.5, generator())(weight))
    torch.testing.assert_close(outputs, made(ids, made.zero_state(B))[0])


def test_making_a_network_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    for kernel in ("scratch", "library"):
        network(kernel)
    assert torch.equal(torch.get_rng_state(), before)
