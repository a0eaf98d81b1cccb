"""Scoring: how the networks meet the interface, whatever computes them."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo import storage
from lmzoo.errors import CorruptFileError, InputError, LmzooError, TokenError, TooLargeError

torch = pytest.importorskip("torch")

from lmzoo.neural import models  # noqa: E402
from lmzoo.neural.attending import TransformerModel  # noqa: E402
from lmzoo.neural.config import Config, RecurrentConfig, TransformerConfig, WindowConfig  # noqa: E402
from lmzoo.neural.models import NeuralModel, RecurrentModel, WindowModel  # noqa: E402
from lmzoo.neural.network import initialize  # noqa: E402

pytestmark = pytest.mark.torch

CORPUS = lmzoo.corpus_from_texts(
    {"train": "a cab, a dab; abracadabra", "valid": "a bad cab", "test": "dad"}, tokens="char"
)
VOCAB = CORPUS.vocab
V = len(VOCAB)
# chunks and batches: the design's bound for neural models, a token
TOKEN_TOLERANCE = 1e-4

CONFIGS = {
    **{
        f"{cell}-{kernel}-{layers}-{embedding}": RecurrentConfig(
            cell=cell,  # type: ignore[arg-type]
            kernel=kernel,  # type: ignore[arg-type]
            layers=layers,
            embedding=embedding,
            hidden=6,
        )
        for cell, kernel, (layers, embedding) in itertools.product(
            ("rnn", "gru", "lstm"), ("scratch", "library"), ((1, 0), (2, 3))
        )
    },
    "rnn-relu": RecurrentConfig(cell="rnn", hidden=6, activation="relu"),
    "rnn-onehot": RecurrentConfig(cell="rnn", hidden=6, input="onehot"),
    "gru-loop": RecurrentConfig(cell="gru", hidden=6, impl="loop"),
    "mlp": WindowConfig(hidden=6, context_size=3, embedding=4),
    "mlp-deep": WindowConfig(hidden=6, layers=2, context_size=1, embedding=4, activation="relu"),
    "mlp-residual": WindowConfig(hidden=6, layers=2, context_size=3, embedding=4, variant="residual"),
    # shorter contexts than the texts below
    "transformer": TransformerConfig(hidden=6, layers=1, heads=3, context_size=5),
    "transformer-deep": TransformerConfig(hidden=6, layers=2, heads=1, context_size=3, feed_forward=5),
}
MODELS = {RecurrentConfig: RecurrentModel, WindowConfig: WindowModel, TransformerConfig: TransformerModel}


def model_of(config: Config) -> NeuralModel:
    model = MODELS[type(config)](VOCAB, config)
    initialize(model.network, torch.Generator().manual_seed(5))
    with torch.no_grad():
        for name, weight in model.network.weights().items():
            # far from uniform, so that a wrong state shows; scores of attention go with the square of a gain
            weight.mul_(1 if name.endswith("gain") else 3)
    return model


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> NeuralModel:
    return model_of(CONFIGS[request.param])


def text(n_rows: int, length: int, seed: int = 0) -> np.ndarray:
    tokens = np.random.default_rng(seed).integers(V - 1, size=(n_rows, length))
    return tokens + (tokens >= VOCAB.bos_id)


def test_scores_are_those_of_the_network_itself(model: NeuralModel) -> None:
    """The network run plainly over `<s>` and the text, against the interface."""
    tokens_BxL = text(2, 9)
    inputs_BxL = np.concatenate((np.full((2, 1), VOCAB.bos_id), tokens_BxL[:, :-1]), axis=1)
    with torch.no_grad():
        if not isinstance(model, WindowModel):
            hidden, _ = model.network(torch.from_numpy(inputs_BxL.T.copy()), model.network.zero_state(2))
            hidden = hidden.transpose(0, 1)
        else:
            size = model.config.context_size
            padded = np.concatenate((np.full((2, size - 1), VOCAB.bos_id), inputs_BxL), axis=1)
            windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1).copy()
            hidden = model.network(torch.from_numpy(windows).flatten(0, 1)).unflatten(0, (2, 9))
        wanted = torch.log_softmax(model.network.logits(hidden), dim=-1).numpy()
    got = model.all_logprobs(tokens_BxL, model.initial_state(2))
    # relative too: the logits of a relu have no bound
    np.testing.assert_allclose(got, wanted, atol=1e-5, rtol=1e-5)
    picked, _ = model.logprobs(tokens_BxL, model.initial_state(2))
    np.testing.assert_allclose(
        picked, np.take_along_axis(wanted, tokens_BxL[..., None], 2)[..., 0], atol=1e-5, rtol=1e-5
    )


def test_every_history_sums_to_1_without_the_start(model: NeuralModel) -> None:
    _, state = model.logprobs(text(3, 5), model.initial_state(3))
    for history in (state, model.initial_state(3), model.initial_state(3, bos=False)):
        logprobs_BxV = model.next_logprobs(history)
        np.testing.assert_allclose(np.exp(logprobs_BxV.astype(np.float64)).sum(axis=1), 1, atol=1e-5)
        assert np.isneginf(logprobs_BxV[:, VOCAB.bos_id]).all()
        assert (logprobs_BxV <= 0).all()


@given(cuts=st.lists(st.integers(0, 12), max_size=4), name=st.sampled_from(sorted(CONFIGS)))
@settings(max_examples=60)
def test_any_chunks_give_the_same(cuts: list[int], name: str) -> None:
    model = model_of(CONFIGS[name])
    tokens_BxL = text(2, 12)
    whole, last = model.logprobs(tokens_BxL, model.initial_state(2))
    state, parts = model.initial_state(2), []
    for start, end in itertools.pairwise([0, *sorted(cuts), 12]):
        part, state = model.logprobs(tokens_BxL[:, start:end], state)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=TOKEN_TOLERANCE)
    np.testing.assert_allclose(model.next_logprobs(state), model.next_logprobs(last), atol=TOKEN_TOLERANCE)


def test_memory_is_bounded_without_changing_a_score(model: NeuralModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens_BxL = text(3, 40)
    whole, last = model.logprobs(tokens_BxL, model.initial_state(3))
    everything = model.all_logprobs(tokens_BxL, model.initial_state(3))
    limit = 3 * 4 * 6 * 5
    monkeypatch.setattr(models, "_MAX_CELLS", limit)
    sizes: list[int] = []
    true_logits = model.network.logits

    def spied(hidden_NxH: torch.Tensor) -> torch.Tensor:
        sizes.append(len(hidden_NxH) * V)
        return true_logits(hidden_NxH)

    monkeypatch.setattr(model.network, "logits", spied)
    bounded, state = model.logprobs(tokens_BxL, model.initial_state(3))
    np.testing.assert_allclose(bounded, whole, atol=TOKEN_TOLERANCE)
    np.testing.assert_allclose(model.next_logprobs(state), model.next_logprobs(last), atol=TOKEN_TOLERANCE)
    np.testing.assert_allclose(model.all_logprobs(tokens_BxL, model.initial_state(3)), everything, atol=TOKEN_TOLERANCE)
    assert max(sizes) <= limit < tokens_BxL.size * V


def test_a_row_alone_is_the_row_in_a_batch(model: NeuralModel) -> None:
    tokens_BxL = text(7, 6)
    together, state = model.logprobs(tokens_BxL, model.initial_state(7))
    for b in range(7):
        alone, state_alone = model.logprobs(tokens_BxL[b : b + 1], model.initial_state(1))
        np.testing.assert_allclose(alone[0], together[b], atol=TOKEN_TOLERANCE)
        chosen = model.next_logprobs(model.select(state, [b]))
        np.testing.assert_allclose(chosen, model.next_logprobs(state_alone), atol=TOKEN_TOLERANCE)


def test_the_future_leaves_the_past_bit_equal(model: NeuralModel) -> None:
    one = text(2, 10)
    other = one.copy()
    other[:, 6:] = text(2, 4, seed=9)
    left, _ = model.logprobs(one, model.initial_state(2))
    right, _ = model.logprobs(other, model.initial_state(2))
    np.testing.assert_array_equal(left[:, :6], right[:, :6])


def test_a_state_is_a_value(model: NeuralModel) -> None:
    start = model.initial_state(2)
    first = model.next_logprobs(start)
    _, later = model.logprobs(text(2, 4), start)
    model.logprobs(text(2, 3), later)
    np.testing.assert_array_equal(model.next_logprobs(start), first)
    thawed = pickle.loads(pickle.dumps(later))
    np.testing.assert_array_equal(model.next_logprobs(thawed), model.next_logprobs(later))
    with pytest.raises(ValueError, match="read-only"):
        next(iter(vars(later).values()))[...] = 0


def test_an_empty_text_changes_nothing(model: NeuralModel) -> None:
    state = model.initial_state(2)
    logprobs, after = model.logprobs(np.zeros((2, 0), np.int32), state)
    assert logprobs.shape == (2, 0)
    assert model.all_logprobs(np.zeros((2, 0), np.int32), state).shape == (2, 0, V)
    np.testing.assert_array_equal(model.next_logprobs(after), model.next_logprobs(state))


def test_inputs_may_be_read_only_and_strided(model: NeuralModel) -> None:
    tokens_BxL = np.repeat(text(2, 8), 2, axis=1)[:, ::2].astype(np.int32)
    tokens_BxL.flags.writeable = False
    strided, _ = model.logprobs(tokens_BxL, model.initial_state(2))
    plain, _ = model.logprobs(text(2, 8), model.initial_state(2))
    np.testing.assert_array_equal(strided, plain)


@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        (np.array([[0, -1]]), "-1 is outside"),
        (np.array([[V]]), f"{V} is outside 0..{V - 1}"),
        (np.zeros((1, 2)), "float64"),
        (np.zeros((1, 2), np.bool_), "bool"),
        (np.zeros(3, np.int64), r"shape \(3,\)"),
        (np.zeros((2, 3), np.int64), "2 rows"),
        ([[0, 1]], "list"),
    ],
)
def test_bad_tokens_are_named(model: NeuralModel, tokens: np.ndarray, named: str) -> None:
    for method in (model.logprobs, model.all_logprobs):
        with pytest.raises(TokenError, match=named):
            method(tokens, model.initial_state(1))


def test_a_batch_has_a_row(model: NeuralModel) -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        model.initial_state(0)


BOUNDED = {
    "mlp of 1": (WindowConfig(hidden=6, context_size=1, embedding=4), 1),
    "mlp of 3": (WindowConfig(hidden=6, context_size=3, embedding=4), 3),
    # a layer reaches as many tokens as the layers share out, and the newest is seen besides
    "1 layer": (TransformerConfig(hidden=8, layers=1, context_size=5), 5),
    "2 layers": (TransformerConfig(hidden=8, layers=2, context_size=6), 5),
    "3 layers": (TransformerConfig(hidden=8, layers=3, context_size=4), 4),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_what_is_older_than_the_context_is_forgotten(name: str) -> None:
    config, size = BOUNDED[name]
    model = model_of(config)
    assert model.context_size == size
    one, other = text(1, 8), text(1, 8, seed=1)
    other[:, -size:] = one[:, -size:]
    scores = [model.next_logprobs(model.logprobs(t, model.initial_state())[1]) for t in (one, other)]
    np.testing.assert_array_equal(*scores)
    other[:, -size] = 0 if one[0, -size] else 2
    oldest = model.next_logprobs(model.logprobs(other, model.initial_state())[1])
    assert np.abs(np.exp(oldest) - np.exp(scores[0])).max() > 1e-4


def test_parts_make_the_same_model_for_either_kernel(model: NeuralModel) -> None:
    options, arrays = model.to_parts()
    again = type(model).from_parts(VOCAB, options, arrays)
    score, _ = model.logprobs(text(2, 9), model.initial_state(2))
    np.testing.assert_array_equal(again.logprobs(text(2, 9), again.initial_state(2))[0], score)
    assert again.config == model.config
    if isinstance(model, RecurrentModel) and model.config.embedding:
        other = {"scratch": "library", "library": "scratch"}[model.config.kernel]
        swapped = RecurrentModel.from_parts(VOCAB, {**options, "kernel": other, "impl": "fused"}, arrays)
        swapped_score, _ = swapped.logprobs(text(2, 9), swapped.initial_state(2))
        # relative too: the logits of a relu have no bound
        np.testing.assert_allclose(swapped_score, score, atol=1e-5, rtol=1e-5)


def test_a_network_that_does_not_fit_is_told_by_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99999999999 bytes.")

    monkeypatch.setattr(RecurrentModel, "network_class", refuse)
    with pytest.raises(TooLargeError, match=r"does not fit into memory \(hidden=9, layers=1, embedding=64\)") as caught:
        RecurrentModel(VOCAB, RecurrentConfig(hidden=9))
    # a trial of the harness is out of memory, a command has one line
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, LmzooError)


def token_by_token(model: NeuralModel, tokens_L: np.ndarray) -> tuple[list[float], np.ndarray]:
    """ln p of the tokens read one at a time, and the distribution after each."""
    state, picked, nexts = model.initial_state(), [], []
    for token in tokens_L:
        logprobs, state = model.logprobs(np.array([[token]]), state)
        picked.append(logprobs.item())
        nexts.append(model.next_logprobs(state)[0])
    return picked, np.array(nexts)


@pytest.fixture(params=["0", "1"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "1":
        pytest.importorskip("numba")
    monkeypatch.setenv("LMZOO_COMPILED", request.param)


@pytest.mark.usefixtures("compiled")
def test_a_text_read_token_by_token_is_the_text_read_at_once(model: NeuralModel) -> None:
    tokens_1xL = text(1, 12)
    picked, nexts = token_by_token(model, tokens_1xL[0])
    whole = model.all_logprobs(tokens_1xL, model.initial_state())[0]
    np.testing.assert_allclose(nexts[:-1], whole[1:], rtol=1e-5, atol=TOKEN_TOLERANCE)
    np.testing.assert_allclose(picked, whole[np.arange(12), tokens_1xL[0]], rtol=1e-5, atol=TOKEN_TOLERANCE)


SCRATCH = [
    name for name, config in CONFIGS.items() if isinstance(config, RecurrentConfig) and config.kernel == "scratch"
]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", SCRATCH)
def test_weights_are_read_at_every_call(name: str) -> None:
    """Changed by torch, changed through memory that they share, and moved elsewhere."""
    model, state = model_of(CONFIGS[name]), model_of(CONFIGS[name]).initial_state()
    token = np.array([[3]])

    def answers() -> list[np.ndarray]:
        logprobs, after = model.logprobs(token, state)
        return [logprobs, model.next_logprobs(after)]

    def fresh() -> list[np.ndarray]:
        other = type(model).from_parts(VOCAB, *model.to_parts())
        logprobs, after = other.logprobs(token, state)
        return [logprobs, other.next_logprobs(after)]

    def halve_in_place(weight: torch.nn.Parameter) -> None:
        weight.mul_(0.5)

    def halve_memory(weight: torch.nn.Parameter) -> None:
        np.multiply(weight.numpy(), 0.5, out=weight.numpy())

    def move(weight: torch.nn.Parameter) -> None:
        weight.data = weight.data * 0.5

    for name_of_weight, weight in model.network.weights().items():
        for change in (halve_in_place, halve_memory, move):
            answers()
            with torch.no_grad():
                # away from 0, where biases are, and by much, so that each change shows
                weight.data[...] += 1
                change(weight.detach() if change is halve_memory else weight)
            for got, wanted in zip(answers(), fresh(), strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{change.__name__} {name_of_weight}")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_has_weights_of_its_own(copied: Callable[[NeuralModel], NeuralModel]) -> None:
    model = model_of(CONFIGS["gru-scratch-2-3"])
    before = model.next_logprobs(model.initial_state())
    other = copied(model)
    with torch.no_grad():
        other.network.weights()["output.weight"].mul_(2)
    np.testing.assert_array_equal(model.next_logprobs(model.initial_state()), before)
    assert np.abs(other.next_logprobs(other.initial_state())[0, 2:] - before[0, 2:]).max() > 1e-3


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", SCRATCH)
def test_one_token_of_weights_that_diverged_is_nan_without_a_word(name: str) -> None:
    model = model_of(CONFIGS[name])
    state = model.initial_state()
    with torch.no_grad():
        model.network.weights()["output.weight"][3] = math.inf
        model.network.weights()["output.weight"][4] = -math.inf
    assert np.isnan(model.next_logprobs(state)).all()


def test_a_network_in_float64_answers_too() -> None:
    model = model_of(CONFIGS["lstm-scratch-1-0"])
    wanted, _ = token_by_token(model, text(1, 5)[0])
    model.network.double()
    got, _ = token_by_token(model, text(1, 5)[0])
    np.testing.assert_allclose(got, wanted, atol=TOKEN_TOLERANCE)


def test_a_file_gives_the_same_model(model: NeuralModel) -> None:
    again = storage.from_bytes(storage.to_bytes(model), "the bytes")
    score, _ = model.logprobs(text(1, 9), model.initial_state())
    np.testing.assert_array_equal(again.logprobs(text(1, 9), again.initial_state())[0], score)


def test_parts_are_a_copy(model: NeuralModel) -> None:
    _, arrays = model.to_parts()
    before = {name: array.copy() for name, array in arrays.items()}
    initialize(model.network, torch.Generator().manual_seed(8))
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_weights_of_another_shape_are_refused(model: NeuralModel) -> None:
    options, arrays = model.to_parts()
    # (1, ...) would broadcast without a word
    with pytest.raises(ValueError, match=r"output.weight has shape \(1, 6\)"):
        type(model).from_parts(VOCAB, options, {**arrays, "output.weight": arrays["output.weight"][:1]})


def test_a_file_with_unknown_options_is_damaged() -> None:
    model = model_of(WindowConfig(hidden=6, context_size=3, embedding=4))
    options, arrays = model.to_parts()
    model.to_parts = lambda: ({**options, "flavour": "sweet"}, arrays)  # type: ignore[method-assign]
    with pytest.raises(CorruptFileError, match="flavour"):
        storage.from_bytes(storage.to_bytes(model), "the bytes")


def test_parameters_are_counted() -> None:
    # one layer: V x 4H input, H x 4H recurrent, 2 x 4H biases, H x V output and its V biases
    lstm = model_of(RecurrentConfig(cell="lstm", hidden=6, embedding=0))
    assert lstm.n_params == V * 24 + 6 * 24 + 2 * 24 + 6 * V + V
    # V x 4 embeddings, 12 x 6 and 6 of the hidden layer, 6 x V and V
    assert model_of(CONFIGS["mlp"]).n_params == V * 4 + 12 * 6 + 6 + 6 * V + V
    # in a block two maps 6 x 6 and a norm of two numbers a unit, and a last norm
    residual = V * 4 + 12 * 6 + 6 + 2 * (2 * (36 + 6) + 12) + 12 + 6 * V + V
    assert model_of(CONFIGS["mlp-residual"]).n_params == residual
    # queries, keys, values and what is made of them; 24 units of a feed-forward layer; two norms and a last one
    block = 4 * (36 + 6) + (6 * 24 + 24) + (24 * 6 + 6) + 2 * 12
    assert model_of(CONFIGS["transformer"]).n_params == V * 6 + block + 12 + 6 * V + V


def test_kernels_are_named() -> None:
    configs = ("gru-scratch-1-0", "gru-library-1-0", "mlp", "transformer")
    names = [model_of(CONFIGS[c]).kernel_name for c in configs]
    assert names == ["scratch", "torch-cpu", "torch-cpu", "torch-cpu"]
