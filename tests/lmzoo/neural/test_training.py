"""Training: one loop for all neural models."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo.batches import ShortTextWarning, random_batches, sequential_batches
from lmzoo.budget import Budget, Stopwatch
from lmzoo.corpus import Corpus, Split
from lmzoo.errors import (
    DivergedError,
    MissingDeviceError,
    OptionValueError,
    TooShortError,
    VocabularyMismatchError,
)
from lmzoo.interface import Progress
from lmzoo.registry import create_trainer, resolve_config

torch = pytest.importorskip("torch")

from lmzoo.neural import training  # noqa: E402
from lmzoo.neural.config import RecurrentConfig, TransformerConfig, WindowConfig  # noqa: E402
from lmzoo.neural.network import NOTHING, Dropouts, Network, RecurrentNetwork, WindowNetwork, initialize  # noqa: E402
from lmzoo.neural.training import NeuralTrainer, find_device, recurrent_losses, window_losses  # noqa: E402
from lmzoo.neural.transformer import TransformerNetwork  # noqa: E402

pytestmark = pytest.mark.torch

MODELS = [f"{cell}-{kernel}" for kernel in ("scratch", "cudnn") for cell in ("rnn", "gru", "lstm")]
MODELS += ["mlp", "mlp residual", "transformer"]
SMALL = "hidden=12,batch_size=4"
OWN = {
    "mlp": "embedding=5",
    "mlp residual": "embedding=5,variant=residual",
    "transformer": "heads=2,context_size=9,num_steps=6",
}
CYCLE = "abcd" * 60


def corpus_of(train: str = CYCLE, documents: str = "file") -> Corpus:
    texts = {"train": train, "valid": "abcdabcd", "test": "abcd"}
    return lmzoo.corpus_from_texts(texts, tokens="char", documents=documents)


def for_each(steps: Iterator[Progress], act: Callable[[Progress], object]) -> None:
    for progress in steps:
        act(progress)


def small(name: str, extra: str = "", shared: str = SMALL) -> str:
    return f"{name.removesuffix(' residual')}:{shared},{OWN.get(name, 'embedding=5,num_steps=6')}{extra}"


def of_default_batches(name: str) -> str:
    """Few units, batches as they are by default."""
    return small(name, shared="hidden=12").replace(",num_steps=6", "")


def weights_after(spec: str, corpus: Corpus, seed: int = 0, max_steps: int = 8) -> dict[str, np.ndarray]:
    return dict(lmzoo.train(spec, corpus, seed=seed, max_steps=max_steps).to_parts()[1])


@pytest.mark.parametrize("name", MODELS)
def test_a_cycle_is_learnt(name: str) -> None:
    corpus = corpus_of()
    model = lmzoo.train(small(name, ",lr=0.02"), corpus, max_steps=150)
    # 4 symbols in turn: perplexity 1 but for the first
    assert lmzoo.evaluate(model, corpus.valid).perplexity < 1.5


@pytest.mark.parametrize("options", ["", ",dropout=0.3,layers=2", ",optimizer=sgd,lr=1,schedule=constant"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_bits(name: str, options: str) -> None:
    corpus = corpus_of()
    first, again, other = (weights_after(small(name, options), corpus, seed) for seed in (3, 3, 4))
    for weight, array in first.items():
        np.testing.assert_array_equal(array, again[weight])
    assert any((array != other[weight]).any() for weight, array in first.items())


@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_scoring_between_steps_changes_nothing(sampling: str) -> None:
    corpus = corpus_of()
    spec = small("lstm-scratch", f",dropout=0.3,sampling={sampling}")
    trainer = create_trainer(spec, corpus.vocab)
    for _ in trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=8)):
        lmzoo.evaluate(trainer.model, corpus.valid)
        lmzoo.sample(trainer.model, length=3)
    for name, array in weights_after(spec, corpus).items():
        np.testing.assert_array_equal(trainer.model.to_parts()[1][name], array)


@pytest.mark.parametrize("name", ["gru-scratch", "gru-cudnn", "mlp", "transformer"])
def test_global_generators_are_left_alone(name: str) -> None:
    np_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    weights_after(small(name, ",dropout=0.5,layers=2"), corpus_of())
    np.testing.assert_array_equal(np.random.get_state()[1], np_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.parametrize("name", MODELS)
def test_progress_counts_steps_and_tokens(name: str) -> None:
    corpus = corpus_of()
    trainer = create_trainer(small(name), corpus.vocab)
    budget = Budget(epochs=2)
    progress = list(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget))
    assert [p.steps for p in progress] == list(range(1, len(progress) + 1))
    tokens = [p.tokens for p in progress]
    assert all(a < b for a, b in itertools.pairwise(tokens))
    # an epoch of sequential partition loses less than offset + a column's tail: 6 + 4 x 6 tokens
    assert 2 * (len(CYCLE) - 30) <= tokens[-1] <= 2 * len(CYCLE)
    assert budget.epochs_done == 2
    assert all(p.loss_nats is not None and math.isfinite(p.loss_nats) for p in progress)


def test_an_epoch_of_windows_sees_every_token_once() -> None:
    corpus = corpus_of("abc\nda\nbd", documents="line")
    config = WindowConfig(context_size=2, hidden=4, embedding=3, batch_size=4)
    network = WindowNetwork(config, len(corpus.vocab), corpus.vocab.bos_id)
    seen: list[tuple[int, ...]] = []
    true_forward = network.forward

    def spied(windows_NxC: torch.Tensor, dropouts: Dropouts = NOTHING) -> torch.Tensor:
        seen.extend(map(tuple, windows_NxC.tolist()))
        return true_forward(windows_NxC, dropouts)

    network.forward = spied  # type: ignore[method-assign]
    for turn in window_losses(config, network, corpus.train, np.random.default_rng(0), NOTHING):
        if turn.epochs_done >= 1:
            break
    bos = corpus.vocab.bos_id
    wanted = []
    for document in corpus.train:
        ids = [bos, bos, *document.ids_L.tolist()]
        wanted += [(ids[i], ids[i + 1]) for i in range(len(document.ids_L))]
    assert sorted(seen) == sorted(wanted)


def test_a_budget_of_seconds_ends_it() -> None:
    corpus = corpus_of()
    now = [0.0]
    budget = Budget(seconds=5, watch=Stopwatch(lambda: now[0]))
    steps = create_trainer(small("rnn-scratch"), corpus.vocab).steps(
        corpus.train, corpus.valid, np.random.default_rng(0), budget
    )
    n_steps = 0
    while True:
        with budget.watch.running():
            if next(steps, None) is None:
                break
            now[0] += 1
            n_steps += 1
    assert n_steps == 5


UNBOUNDED = ",optimizer=sgd,clip=0,schedule=constant"


@pytest.mark.parametrize("lr", ["1e6", "1e38"])
@pytest.mark.parametrize("name", [*MODELS, "rnn-scratch:activation=relu", "rnn-cudnn:activation=relu"])
def test_a_loss_that_is_not_finite_ends_it_at_its_step(name: str, lr: str) -> None:
    """At 1e38 weights overflow; at 1e6 saturated units keep the loss finite, but not its perplexity."""
    corpus = corpus_of()
    name, _, extra = name.partition(":")
    trainer = create_trainer(small(name, f",lr={lr}{UNBOUNDED}" + (extra and f",{extra}")), corpus.vocab)
    done: list[Progress] = []
    before: dict[str, np.ndarray] = {}

    def note(progress: Progress) -> None:
        done.append(progress)
        before.update({name: array.copy() for name, array in trainer.model.to_parts()[1].items()})

    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=50))
    with pytest.raises(DivergedError) as caught:
        for_each(steps, note)
    assert caught.value.step == len(done) + 1
    # the weights that were left are those of the last step
    for weight, array in trainer.model.to_parts()[1].items():
        np.testing.assert_array_equal(array, before[weight])


@pytest.mark.parametrize("name", MODELS)
def test_what_diverged_holds_the_weights_that_are_kept(name: str) -> None:
    corpus = corpus_of()
    spec = small(name, f",lr=1e6{UNBOUNDED}")
    with pytest.raises(DivergedError) as caught:
        lmzoo.train(spec, corpus, max_steps=50)
    kept = caught.value.model
    # what the same training has after the step before, or nothing where that is no number either
    trainer = create_trainer(spec, corpus.vocab)
    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=50))
    for _ in range(caught.value.step - 1):
        next(steps)
    for weight, array in trainer.model.to_parts()[1].items():
        np.testing.assert_array_equal(kept.to_parts()[1][weight], array)


@pytest.mark.parametrize("name", MODELS)
def test_a_last_step_that_ruins_the_weights_is_a_divergence_too(name: str) -> None:
    """No further loss would tell."""
    with pytest.raises(DivergedError, match="step 1") as caught:
        lmzoo.train(small(name, f",lr=1e38{UNBOUNDED}"), corpus_of(), max_steps=1)
    model = caught.value.model
    assert model is None or all(np.isfinite(array).all() for array in model.to_parts()[1].values())


@pytest.mark.parametrize("limit", [{"max_steps": 3}, {"budget": 60.0}])
def test_of_a_first_step_nothing_is_kept(limit: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    def ruin(network: Network, *_: object) -> None:
        for weight in network.weights().values():
            weight.data.fill_(math.nan)

    monkeypatch.setattr(training, "initialize", ruin)
    with pytest.raises(DivergedError, match="step 1") as caught:
        lmzoo.train(small("mlp"), corpus_of(), **limit)
    assert caught.value.model is None


TEXTS = {
    "1 token": ("a", "file"),
    "2 tokens": ("ab", "file"),
    "3 tokens": ("abc", "file"),
    "10 tokens": ("abcdabcdab", "file"),
    "100 tokens": ("abcd" * 25, "file"),
    "3 documents of one token": ("a\nb\nc\n", "line"),
    "99 documents of one token": ("a\nb\nc\n" * 33, "line"),
}


@pytest.mark.parametrize("sampling", ["sequential", "random"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", MODELS)
def test_a_text_shorter_than_a_batch_will_do(name: str, text: str, sampling: str) -> None:
    """With the defaults of every model; one message says what was asked for and what is used."""
    content, documents = TEXTS[text]
    corpus = corpus_of(content, documents)
    spec = of_default_batches(name)
    if not name.startswith("mlp"):
        spec += f",sampling={sampling}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = lmzoo.train(spec, corpus, max_steps=3)
    assert math.isfinite(lmzoo.evaluate(model, corpus.train).perplexity)
    (warning,) = caught
    assert warning.category is ShortTextWarning
    assert f"({corpus.train.n_tokens} token" in str(warning.message)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_that_fills_a_batch_is_not_remarked_on(name: str) -> None:
    config = resolve_config(of_default_batches(name))
    size = config.batch_size * getattr(config, "num_steps", 1)
    # warnings are errors
    assert lmzoo.train(of_default_batches(name), corpus_of("abcd" * (size // 4)), max_steps=1)


def test_a_text_without_tokens_is_refused() -> None:
    corpus = corpus_of()
    empty = corpus.train.head(240)
    nothing = Split(**{**vars_of(empty), "ids_N": empty.ids_N[:0], "starts_D1": np.zeros(2, np.int64)})
    with pytest.raises(TooShortError, match="at least 1"):
        next(iter_steps(nothing, corpus))


def vars_of(split: Split) -> dict[str, object]:
    return {name: getattr(split, name) for name in split.__dataclass_fields__}


def iter_steps(train: Split, corpus: Corpus) -> Iterator[object]:
    trainer = create_trainer(small("mlp"), corpus.vocab)
    return trainer.steps(train, corpus.valid, np.random.default_rng(0), Budget(steps=1))


def test_a_text_that_is_read_only_will_do() -> None:
    corpus = corpus_of()
    corpus.train.ids_N.flags.writeable = False
    for name in ("rnn-scratch", "mlp", "transformer"):
        # one column: its batches are views of the text, and torch warns of what it cannot write to
        assert weights_after(small(name).replace("batch_size=4", "batch_size=1"), corpus, max_steps=2)


def test_a_text_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(VocabularyMismatchError, match="encoded_with"):
        next(iter_steps(corpus_of("xyz" * 20).train, corpus_of()))


@pytest.mark.parametrize("documents", ["file", "line"])
@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_a_loss_is_the_mean_over_the_real_tokens(sampling: str, documents: str) -> None:
    """Against the network run over each column of each batch by itself, padding left out."""
    corpus = corpus_of("abcd\nbd\nacdbab\nb\n" * 3, documents)
    config = RecurrentConfig(cell="gru", hidden=5, batch_size=3, num_steps=4, sampling=sampling)  # type: ignore[arg-type]
    network = RecurrentNetwork(config, len(corpus.vocab), corpus.vocab.bos_id)
    initialize(network, torch.Generator().manual_seed(1))
    draw = {"sequential": sequential_batches, "random": random_batches}[sampling]
    batches = draw(corpus.train, batch_size=3, num_steps=4, rng=np.random.default_rng(2))
    turns = recurrent_losses(config, network, corpus.train, np.random.default_rng(2), NOTHING)
    states = torch.zeros(0)
    for batch, turn in zip(batches, turns, strict=False):
        n_rows, n_columns = batch.targets_TxB.shape
        if batch.is_fresh:
            states = network.zero_state(n_columns)
        total, after = 0.0, []
        mask_TxB = np.ones((n_rows, n_columns), bool) if batch.mask_TxB is None else batch.mask_TxB
        with torch.no_grad():
            for b in range(n_columns):
                length = int(mask_TxB[:, b].sum())
                ids = torch.from_numpy(batch.inputs_TxB[:, b : b + 1]).long()
                hidden, state = network(ids, states[:, :, b : b + 1])
                after.append(state)
                logprobs = torch.log_softmax(network.logits(hidden[:length, 0]), dim=-1)
                total -= float(logprobs[range(length), batch.targets_TxB[:length, b].tolist()].sum())
        states = torch.cat(after, dim=2)
        assert float(turn.loss_nats.detach()) == pytest.approx(total / batch.n_tokens, rel=1e-5)
        assert turn.n_tokens == batch.n_tokens


@pytest.mark.parametrize("name", ["rnn-scratch", "lstm-cudnn", "mlp", "transformer"])
@pytest.mark.parametrize("output_bias", ["zero", "unigram"])
def test_the_bias_before_the_first_step_is_what_was_asked_for(name: str, output_bias: str) -> None:
    """After a step of a rate that moves nothing, softmax of the bias is each symbol's share, or the same for all."""
    corpus = corpus_of("aab" * 200)
    model: Any = lmzoo.train(f"{name}:hidden=8,batch_size=4,output_bias={output_bias},lr=1e-30", corpus, max_steps=1)
    bias_V = model.network.output_bias.double().detach().numpy()
    counts_V = np.maximum(corpus.vocab.counts_V, 1)
    shares_V = counts_V / counts_V.sum() if output_bias == "unigram" else np.full(len(counts_V), 1 / len(counts_V))
    np.testing.assert_allclose(np.exp(bias_V) / np.exp(bias_V).sum(), shares_V, rtol=1e-6)


def test_with_no_learning_an_epoch_costs_the_same_in_any_order() -> None:
    """Random sampling starts every batch from nothing: with fixed weights its loss depends on its tokens alone."""
    corpus = corpus_of("abcd\n" * 7, "line")
    config = RecurrentConfig(cell="lstm", hidden=5, batch_size=3, num_steps=8, sampling="random")
    network = RecurrentNetwork(config, len(corpus.vocab), corpus.vocab.bos_id)
    initialize(network, torch.Generator().manual_seed(1))
    turns = recurrent_losses(config, network, corpus.train, np.random.default_rng(2), NOTHING)
    # every document is the same, so every batch has the same mean
    losses = [float(next(turns).loss_nats.detach()) for _ in range(9)]
    assert losses == pytest.approx([losses[0]] * 9, rel=1e-6)


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_the_graph_ends_with_the_batch(name: str) -> None:
    corpus = corpus_of()
    kinds: dict[str, tuple[Any, type[Any]]] = {
        "lstm": (RecurrentConfig(cell="lstm", hidden=5, batch_size=3, num_steps=4), RecurrentNetwork),
        "transformer": (TransformerConfig(hidden=8, batch_size=3, num_steps=4, context_size=9), TransformerNetwork),
    }
    config, kind = kinds[name]
    network = kind(config, len(corpus.vocab), corpus.vocab.bos_id)
    initialize(network, torch.Generator().manual_seed(1))
    sizes = []
    for turn, _ in zip(
        recurrent_losses(config, network, corpus.train, np.random.default_rng(0), NOTHING), range(6), strict=False
    ):
        nodes, todo = set(), [turn.loss_nats.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in nodes:
                nodes.add(node)
                todo.extend(following for following, _ in node.next_functions)
        sizes.append(len(nodes))
    assert len(set(sizes)) == 1


def test_a_device_that_is_not_here_is_an_error_with_the_cure() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(MissingDeviceError, match=r"torch .* finds 0 CUDA devices; use device cpu"):
        NeuralTrainer(WindowConfig(), corpus_of().vocab, "cuda")


@pytest.mark.parametrize("name", ["gpu", "cpu:0", "cuda:x", "cuda:-1", ""])
def test_a_device_that_is_none_is_named(name: str) -> None:
    with pytest.raises(OptionValueError, match="device is cpu, cuda or cuda:n"):
        find_device(name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_cuda_learns_what_the_cpu_learns(name: str) -> None:
    corpus = corpus_of()
    on_cpu, on_cuda = (
        lmzoo.train(small(name), corpus, max_steps=8, device=device).to_parts()[1] for device in ("cpu", "cuda")
    )
    for weight, array in on_cpu.items():
        np.testing.assert_allclose(on_cuda[weight], array, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_cuda_scores_as_the_cpu_does(name: str) -> None:
    corpus = corpus_of()
    model = lmzoo.train(small(name, ",layers=2"), corpus, max_steps=8, device="cuda")
    on_cpu = type(model).from_parts(model.vocab, *model.to_parts())
    tokens = corpus.train.ids_N[None, :]
    score, state = model.logprobs(tokens, model.initial_state())
    wanted, state_on_cpu = on_cpu.logprobs(tokens, on_cpu.initial_state())
    np.testing.assert_allclose(score, wanted, atol=1e-4)
    np.testing.assert_allclose(model.next_logprobs(state), on_cpu.next_logprobs(state_on_cpu), atol=1e-4)


def test_what_is_scored_is_the_average_of_what_is_trained() -> None:
    """The mean over all steps of the weights that a training without averaging has after each."""
    corpus, spec = corpus_of(), small("gru-scratch", ",optimizer=sgd,lr=1,schedule=constant")
    trainer = create_trainer(spec, corpus.vocab)
    steps = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(1), Budget(steps=6))
    seen = [trainer.model.to_parts()[1] for _ in steps]  # type: ignore[attr-defined]
    # k near 0: the mean over all
    averaged = create_trainer(spec + ",averaging=1e-9", corpus.vocab)
    for _ in averaged.steps(corpus.train, corpus.valid, np.random.default_rng(1), Budget(steps=6)):
        pass
    for name, array in averaged.model.to_parts()[1].items():  # type: ignore[attr-defined]
        np.testing.assert_allclose(array, np.mean([weights[name] for weights in seen], axis=0), rtol=1e-4, atol=1e-6)


def test_perplexity_as_the_loss_has_the_gradient_of_the_nats_times_the_perplexity() -> None:
    """Under SGD without clipping the first step is as much longer; training tells nats for both."""
    corpus, spec = corpus_of(), small("rnn-scratch", ",optimizer=sgd,lr=0.5,schedule=constant,clip=0")
    start = create_trainer(spec, corpus.vocab)
    steps: dict[str, tuple[dict[str, np.ndarray], float]] = {}
    for loss in ("cross_entropy", "perplexity"):
        trainer = create_trainer(f"{spec},loss={loss}", corpus.vocab)
        (progress,) = trainer.steps(corpus.train, corpus.valid, np.random.default_rng(1), Budget(steps=1))
        steps[loss] = trainer.model.to_parts()[1], progress.loss_nats  # type: ignore[attr-defined,assignment]
    nats, perplexed = steps["cross_entropy"], steps["perplexity"]
    assert nats[1] == perplexed[1]
    drawn = weights_after_drawing(start, corpus)
    for name, array in nats[0].items():
        np.testing.assert_allclose(
            perplexed[0][name] - drawn[name], (array - drawn[name]) * math.exp(nats[1]), rtol=1e-3, atol=1e-6
        )


def weights_after_drawing(trainer: Any, corpus: Any) -> dict[str, np.ndarray]:
    """The weights before the first step: those of a step that is next to none."""
    config = dataclasses.replace(trainer.config, lr=1e-30)
    still = NeuralTrainer(config, corpus.vocab)
    list(still.steps(corpus.train, corpus.valid, np.random.default_rng(1), Budget(steps=1)))
    return dict(still.model.to_parts()[1])


@pytest.mark.parametrize("name", ["lstm-scratch", "lstm-cudnn", "transformer"])
def test_tied_weights_are_one_matrix_in_training_files_and_scores(name: str, tmp_path: Path) -> None:
    corpus = corpus_of()
    shape = f"{name}:hidden=8,layers=2,batch_size=4,num_steps=6"
    model = lmzoo.train(f"{shape},tie=true", corpus, max_steps=5)
    network = model.network  # type: ignore[attr-defined]
    assert network.output_weight is network.embedding
    assert "output.weight" not in model.to_parts()[1]  # type: ignore[attr-defined]
    embedding = "" if name == "transformer" else ",embedding=8"
    untied = lmzoo.train(shape + embedding, corpus, max_steps=5)
    assert untied.n_params - model.n_params == len(corpus.vocab) * 8  # type: ignore[attr-defined]
    lmzoo.save(model, tmp_path / "tied.lmz")
    scored = [lmzoo.evaluate(m, corpus.train).nll_nats for m in (model, lmzoo.load(tmp_path / "tied.lmz"))]
    assert scored[0] == scored[1]
