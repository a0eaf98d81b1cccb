"""bfloat16 in training: refused where it would be emulated, close to float32, and never in what is kept."""

from __future__ import annotations

import numpy as np
import pytest

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.errors import MissingDeviceError
from lmzoo.registry import create_trainer

torch = pytest.importorskip("torch")

from lmzoo.neural.config import RecurrentConfig, TransformerConfig, WindowConfig  # noqa: E402
from lmzoo.neural.network import Network, RecurrentNetwork, WindowNetwork, initialize  # noqa: E402
from lmzoo.neural.optimizers import clip_global_norm  # noqa: E402
from lmzoo.neural.precision import WorkingCopy, has_bfloat16  # noqa: E402
from lmzoo.neural.transformer import TransformerNetwork  # noqa: E402

pytestmark = pytest.mark.torch

needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(torch.device("cpu")), reason="this processor has no bfloat16 instructions"
)
MODELS = ["rnn-scratch", "gru-scratch", "lstm-scratch", "lstm-scratch:impl=loop", "lstm-cudnn", "gru-cudnn"]
MODELS += ["mlp", "mlp:variant=residual", "transformer"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return lmzoo.corpus_from_texts({"train": "abcd" * 60, "valid": "abcdabcd", "test": "abcd"}, tokens="char")


def small(name: str, options: str = "") -> str:
    own = {"mlp": "embedding=5", "transformer": "heads=2,context_size=9,num_steps=6"}
    shared = f"hidden=12,batch_size=4,precision=bfloat16,{own.get(name.partition(':')[0], 'embedding=5,num_steps=6')}"
    return f"{name}{',' if ':' in name else ':'}{shared}{options}"


@needs_bfloat16
@pytest.mark.parametrize("options", ["", ",dropout=0.2,layers=2", ",softmax=sampled,samples=3,lr=0.01"])
@pytest.mark.parametrize("name", MODELS)
def test_a_cycle_is_learnt_and_float32_is_kept(name: str, options: str, corpus: Corpus) -> None:
    # a transformer of so few units takes as long in float32
    model = lmzoo.train(small(name, options), corpus, max_steps=400 if name == "transformer" else 200)
    assert lmzoo.evaluate(model, corpus.valid).perplexity < 2
    arrays = model.to_parts()[1]
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    # no multiple of what bfloat16 can tell apart: the small steps of training were not lost to rounding
    assert any((array.view(np.uint32) & 0xFFFF).any() for array in arrays.values())
    assert "+bfloat16" in model.kernel_name


@needs_bfloat16
@pytest.mark.parametrize("name", ["gru-scratch", "lstm-cudnn", "mlp"])
def test_the_same_seed_gives_the_same_bits(name: str, corpus: Corpus) -> None:
    first, again = (lmzoo.train(small(name), corpus, seed=3, max_steps=5).to_parts()[1] for _ in range(2))
    for weight, array in first.items():
        np.testing.assert_array_equal(array, again[weight])


def networks() -> list[Network]:
    made = [
        *(
            RecurrentNetwork(RecurrentConfig(cell=cell, hidden=32, embedding=8), 20, 1)
            for cell in ("rnn", "gru", "lstm")
        ),
        WindowNetwork(WindowConfig(hidden=32, embedding=8, context_size=6), 20, 1),
        WindowNetwork(WindowConfig(hidden=32, embedding=8, context_size=6, variant="residual"), 20, 1),
        TransformerNetwork(TransformerConfig(hidden=32, heads=2, context_size=9), 20, 1),
    ]
    for network in made:
        initialize(network, torch.Generator().manual_seed(0))
    return made


def loss_of(network: Network) -> torch.Tensor:
    ids = torch.randint(2, 20, (6, 6), generator=torch.Generator().manual_seed(1))
    if isinstance(network, RecurrentNetwork | TransformerNetwork):
        hidden = network(ids, network.zero_state(6))[0].flatten(0, 1)
        return network.mean_nats(hidden, ids.flatten())
    return network.mean_nats(network(ids), ids[:, 0])


@needs_bfloat16
def test_gradients_are_those_of_float32_up_to_rounding() -> None:
    """bfloat16 has 8 significant bits, so a factor is off by up to 1/512; a chain of products by a few times that."""
    for network in networks():
        exact = torch.autograd.grad(loss_of(network), list(network.weights().values()))
        working = WorkingCopy(network, "bfloat16")
        loss = loss_of(working.network)
        assert loss.dtype == torch.float32
        for ours, theirs in zip(working.gradients(loss), exact, strict=True):
            assert ours.dtype == torch.float32
            assert float((ours - theirs).norm()) < 0.05 * float(theirs.norm())


@pytest.mark.parametrize(
    "spec", ["lstm-scratch:impl=loop", "lstm-scratch:embedding=0", "gru-cudnn", "mlp", "transformer"]
)
def test_no_two_gradients_share_their_numbers(spec: str, corpus: Corpus) -> None:
    """Autograd hands the terms of a sum, as two biases are, one and the same: clipped in place, it would be twice."""
    network = create_trainer(spec, corpus.vocab).model.network
    initialize(network, torch.Generator().manual_seed(0))
    if isinstance(network, WindowNetwork):
        hidden = network(torch.randint(2, 5, (6, 8)))
    else:
        hidden = network(torch.randint(2, 5, (4, 3)), network.zero_state(3))[0].flatten(0, 1)
    working = WorkingCopy(network, "float32")
    gradients = working.gradients(network.mean_nats(hidden, torch.randint(2, 5, (len(hidden),))))
    assert len({gradient.data_ptr() for gradient in gradients}) == len(gradients)
    clip_global_norm(gradients, 1e-3)
    assert float(torch.cat([g.flatten() for g in gradients]).norm()) == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_clip_that_bites_leaves_the_loop_and_the_gradients_by_hand_alike(cell: str, corpus: Corpus) -> None:
    spec = f"{cell}-scratch:hidden=12,embedding=0,batch_size=4,num_steps=6,optimizer=sgd,lr=1,clip=0.05"
    fused, loop = (lmzoo.train(f"{spec},impl={impl}", corpus, max_steps=30).to_parts()[1] for impl in ("fused", "loop"))
    for name, weight in fused.items():
        np.testing.assert_allclose(loop[name], weight, atol=1e-5)


def test_the_copy_follows_the_weights_that_are_kept() -> None:
    (network, *_) = networks()
    working = WorkingCopy(network, "bfloat16")
    with torch.no_grad():
        network.output_bias.add_(1.0)
    assert (working.network.output_bias == 0).all()
    working.refresh()
    assert (working.network.output_bias == 1).all()


def test_in_float32_there_is_no_copy() -> None:
    (network, *_) = networks()
    assert WorkingCopy(network, "float32").network is network


@pytest.mark.parametrize("found", [{}, {"avx512_bf16": False, "amx_bf16": False, "avx512_f": True}])
def test_a_processor_that_would_emulate_it_is_refused(
    found: dict[str, bool], corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    with pytest.raises(MissingDeviceError, match=r"this cpu has no bfloat16 instructions .* use precision=float32"):
        create_trainer(small("mlp"), corpus.vocab)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_cuda_learns_a_cycle_too(name: str, corpus: Corpus) -> None:
    model = lmzoo.train(small(name), corpus, max_steps=200, device="cuda")
    assert lmzoo.evaluate(model, corpus.valid).perplexity < 2
