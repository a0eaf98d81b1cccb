"""The transformer against a plain one written here, over the whole text at once, with an explicit band."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo

torch = pytest.importorskip("torch")

from lmzoo.batches import sequential_batches  # noqa: E402
from lmzoo.errors import TokenError  # noqa: E402
from lmzoo.neural import attending  # noqa: E402
from lmzoo.neural.attending import TransformerModel, TransformerState  # noqa: E402
from lmzoo.neural.config import TransformerConfig  # noqa: E402
from lmzoo.neural.network import NOTHING, Dropout, Dropouts, initialize  # noqa: E402
from lmzoo.neural.training import recurrent_losses  # noqa: E402
from lmzoo.neural.transformer import TransformerNetwork  # noqa: E402

pytestmark = pytest.mark.torch

V, BOS = 7, 2
# float64 through a few layers: the design's bound for the cells written out
TOLERANCE = 1e-10

Weights = dict[str, "torch.Tensor"]


def network_of(config: TransformerConfig) -> TransformerNetwork:
    network = TransformerNetwork(config, V, BOS).double()
    drawing = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.weights().values():
            weight.normal_(0, 0.7, generator=drawing)
    return network


def plain_norm(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * gain + bias


def turned(x_LxE: torch.Tensor) -> torch.Tensor:
    """The vector at place m times a matrix of rotations: block i by m x 10000^(-2i/E) (Su et al. 2021, eq. 15)."""
    rows = []
    for m, x_E in enumerate(x_LxE):
        size = len(x_E)
        angles = [m * 10_000.0 ** (-2 * i / size) for i in range(size // 2)]
        blocks = [np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in angles]
        turn_ExE = torch.block_diag(*map(torch.from_numpy, blocks))
        rows.append(turn_ExE @ x_E)
    return torch.stack(rows)


def plain_attention(x_LxH: torch.Tensor, weights: Weights, heads: int, span: int) -> torch.Tensor:
    """Softmax of scores over the band alone, token by token and head by head."""
    projected = plain_norm(x_LxH, weights["norm.gain"], weights["norm.bias"]) @ weights["inner.weight"].T
    queries, keys, values = (projected + weights["inner.bias"]).chunk(3, dim=1)
    size = x_LxH.shape[1] // heads
    mixed = []
    for a in range(heads):
        part = slice(a * size, (a + 1) * size)
        query, key, value = turned(queries[:, part]), turned(keys[:, part]), values[:, part]
        rows = []
        for t in range(len(x_LxH)):
            band = slice(max(t - span, 0), t + 1)
            scores = key[band] @ query[t] / math.sqrt(size)
            shares = torch.exp(scores) / torch.exp(scores).sum()
            rows.append(shares @ value[band])
        mixed.append(torch.stack(rows))
    return torch.cat(mixed, dim=1) @ weights["outer.weight"].T + weights["outer.bias"]


def plain_feed_forward(x: torch.Tensor, weights: Weights) -> torch.Tensor:
    inner = (
        plain_norm(x, weights["norm.gain"], weights["norm.bias"]) @ weights["inner.weight"].T + weights["inner.bias"]
    )
    # x times the normal distribution's mass below x (Hendrycks & Gimpel 2016)
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    return inner @ weights["outer.weight"].T + weights["outer.bias"]


def plain_transformer(network: TransformerNetwork, config: TransformerConfig, ids_L: torch.Tensor) -> torch.Tensor:
    """What the output layer reads after each token of one text, (L, H)."""
    weights = network.weights()

    def under(prefix: str) -> Weights:
        return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}

    x_LxH = weights["embedding"][ids_L]
    for k in range(config.layers):
        x_LxH = x_LxH + plain_attention(x_LxH, under(f"block{k}.attention."), config.heads, config.span)
        x_LxH = x_LxH + plain_feed_forward(x_LxH, under(f"block{k}.feed_forward."))
    return plain_norm(x_LxH, weights["norm.gain"], weights["norm.bias"])


@st.composite
def configs(draw: st.DrawFn) -> TransformerConfig:
    heads, layers = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return TransformerConfig(
        heads=heads,
        layers=layers,
        hidden=2 * heads * draw(st.integers(1, 2)),
        context_size=layers * draw(st.integers(1, 5)) + 1,
        feed_forward=draw(st.integers(1, 9)),
    )


@given(config=configs(), cuts=st.lists(st.integers(1, 8), max_size=3), n_rows=st.integers(1, 3))
@settings(max_examples=25)
def test_it_is_the_plain_one_in_values_and_gradients(config: TransformerConfig, cuts: list[int], n_rows: int) -> None:
    """In whatever pieces it reads; gradients where nothing is cut."""
    network = network_of(config)
    ids_LxB = torch.from_numpy(np.random.default_rng(1).integers(V, size=(9, n_rows)))
    wanted = torch.stack([plain_transformer(network, config, ids_L) for ids_L in ids_LxB.T], dim=1)

    state, pieces = network.zero_state(n_rows), []
    for start, end in itertools.pairwise([0, *sorted(set(cuts)), 9]):
        hidden, state = network(ids_LxB[start:end], state)
        pieces.append(hidden)
        assert state.shape == (config.layers, n_rows, min(end, config.span), 2 * config.hidden)
    got = torch.cat(pieces)
    torch.testing.assert_close(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)

    aim = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    read = [weight for name, weight in network.weights().items() if not name.startswith("output")]
    mine, theirs = (torch.autograd.grad((out * aim).mean(), read) for out in (got, wanted))
    for left, right in zip(mine, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-8, atol=TOLERANCE)


@given(config=configs())
@settings(max_examples=30)
def test_a_prediction_depends_on_its_context_and_on_nothing_else(config: TransformerConfig) -> None:
    """The gradient of the last output at every token's embedding: 0 to the last bit beyond the context."""
    network = network_of(config)
    length = config.layers * config.span + 4
    # one symbol a place, so that a row of the embedding is a place
    network.embedding = torch.nn.Parameter(
        torch.randn(length, config.hidden, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    )
    hidden_LxBxH, _ = network(torch.arange(length)[:, None], network.zero_state(1))
    aim_H = torch.arange(1.0, config.hidden + 1, dtype=torch.float64) ** 2
    (gradient_LxH,) = torch.autograd.grad(hidden_LxBxH[-1, 0] @ aim_H, network.embedding)
    is_seen_L = (gradient_LxH != 0).any(dim=1)
    assert is_seen_L.tolist() == [False] * 3 + [True] * (config.layers * config.span + 1)


def test_a_batch_goes_on_where_the_one_before_ended() -> None:
    """Losses of batch after batch are those of whole columns read at once."""
    texts = {"train": "abcadbacbdabcadcbabd" * 3, "valid": "ab", "test": "ab"}
    corpus = lmzoo.corpus_from_texts(texts, tokens="char")
    config = TransformerConfig(hidden=8, heads=2, batch_size=3, num_steps=4, context_size=7)
    network = TransformerNetwork(config, len(corpus.vocab), corpus.vocab.bos_id)
    initialize(network, torch.Generator().manual_seed(1))
    batches = list(sequential_batches(corpus.train, batch_size=3, num_steps=4, rng=np.random.default_rng(2)))
    inputs_MxB = np.concatenate([batch.inputs_TxB for batch in batches]).astype(np.int64)
    targets_MxB = np.concatenate([batch.targets_TxB for batch in batches]).astype(np.int64)
    with torch.no_grad():
        hidden_MxBxH, _ = network(torch.from_numpy(inputs_MxB), network.zero_state(3))
        logprobs_MxBxV = torch.log_softmax(network.logits(hidden_MxBxH), dim=-1).numpy()
    nats_MxB = -np.take_along_axis(logprobs_MxBxV, targets_MxB[..., None], 2)[..., 0]
    wanted = nats_MxB.reshape(-1, 4 * 3).mean(axis=1)
    turns = recurrent_losses(config, network, corpus.train, np.random.default_rng(2), NOTHING)
    got = [float(next(turns).loss_nats.detach()) for _ in batches]
    assert got == pytest.approx(wanted.tolist(), rel=1e-5)


def test_no_gradient_reaches_the_batch_before() -> None:
    """A symbol that only the first batch reads has no gradient from the second, though its keys are attended to."""
    texts = {"train": "z" * 11 + "ab" * 20, "valid": "ab", "test": "ab"}
    corpus = lmzoo.corpus_from_texts(texts, tokens="char")
    config = TransformerConfig(hidden=8, heads=2, batch_size=1, num_steps=10, context_size=41)
    network = TransformerNetwork(config, len(corpus.vocab), corpus.vocab.bos_id)
    initialize(network, torch.Generator().manual_seed(1))
    z = corpus.vocab.encode("z")[0]
    first, second, *_ = sequential_batches(corpus.train, batch_size=1, num_steps=10, rng=np.random.default_rng(0))
    assert z in first.inputs_TxB
    assert z not in second.inputs_TxB
    turns = recurrent_losses(config, network, corpus.train, np.random.default_rng(0), NOTHING)
    sizes = []
    for _ in range(2):
        (gradient,) = torch.autograd.grad(next(turns).loss_nats, network.embedding)
        sizes.append(float(gradient[z].abs().max()))
    assert sizes[0] > 0
    assert sizes[1] == 0


def test_dropout_drops_the_embedding_and_what_every_layer_adds() -> None:
    """All but nothing is left: every row becomes the norm's own bias."""
    network = network_of(TransformerConfig(hidden=8, layers=2, heads=2, context_size=5))
    dropout = Dropout(1 - 1e-12, torch.Generator().manual_seed(0))
    hidden, _ = network(
        torch.zeros(4, 2, dtype=torch.int64), network.zero_state(2), Dropouts(input=dropout, hidden=dropout)
    )
    torch.testing.assert_close(hidden, network.norm.bias.expand_as(hidden))


def test_a_state_of_another_model_is_refused() -> None:
    vocab = lmzoo.corpus_from_texts({"train": "ab", "valid": "ab", "test": "ab"}, tokens="char").vocab
    model = TransformerModel(vocab, TransformerConfig(hidden=8, layers=2, context_size=5))
    others = [
        TransformerModel(vocab, TransformerConfig(hidden=16, layers=2, context_size=5)).initial_state(),
        TransformerModel(vocab, TransformerConfig(hidden=8, layers=1, context_size=5)).initial_state(),
        TransformerState(np.zeros((2, 1, 3, 16), np.float32), np.zeros((1, 8), np.float32)),
    ]
    for state in others:
        with pytest.raises(TokenError, match=r"has shape \(2, B, up to 2, 16\), got shape"):
            model.next_logprobs(state)
    with pytest.raises(TokenError, match="got int"):
        model.logprobs(np.zeros((1, 1), np.int64), 3)  # type: ignore[arg-type]


def test_a_long_text_is_read_a_span_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores outside the band are little waste, whatever the length of the text."""
    vocab = lmzoo.corpus_from_texts({"train": "ab", "valid": "ab", "test": "ab"}, tokens="char").vocab
    monkeypatch.setattr(attending, "_LEAST_CHUNK", 4)
    model = TransformerModel(vocab, TransformerConfig(hidden=8, layers=1, context_size=7))
    lengths: list[int] = []
    true_forward = model.network.forward

    def spied(ids_TxB: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.append(len(ids_TxB))
        return true_forward(ids_TxB, state)

    monkeypatch.setattr(model.network, "forward", spied)
    model.logprobs(np.zeros((1, 20), np.int64), model.initial_state())
    # `<s>`, then spans of 6 tokens
    assert lengths == [1, 6, 6, 6, 2]
