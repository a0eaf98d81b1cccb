"""The neural cache against its formula, written out position by position."""

from __future__ import annotations

import numpy as np
import pytest

import lmzoo
from lmzoo import storage

torch = pytest.importorskip("torch")

from lmzoo.neural.caching import DEFAULT_SHARE, CachingModel, fitted  # noqa: E402
from lmzoo.neural.config import RecurrentConfig  # noqa: E402
from lmzoo.neural.models import RecurrentModel  # noqa: E402
from lmzoo.neural.network import initialize  # noqa: E402

pytestmark = pytest.mark.torch

CORPUS = lmzoo.corpus_from_texts({"train": "abcd " * 9, "valid": "abc dab " * 9, "test": "dad"}, tokens="char")
SIZE, SHARE, SHARPNESS = 7, 0.3, 0.9


def plain() -> RecurrentModel:
    model = RecurrentModel(CORPUS.vocab, RecurrentConfig(hidden=6, embedding=0, adapt="cache", adapt_size=SIZE))
    initialize(model.network, torch.Generator().manual_seed(5))
    with torch.no_grad():
        for weight in model.network.weights().values():
            weight.mul_(3)
    return model


def test_each_token_has_the_probability_of_the_formula() -> None:
    """Grave et al. 2017, eqs. 3 to 5: over the last positions alone, each with the token that followed it."""
    network = plain()
    ids_L = CORPUS.valid.ids_N[:30]
    state, outputs, wanted = network.initial_state(), [], []
    for t, token in enumerate(ids_L.tolist()):
        p_V = np.exp(network.next_logprobs(state)[0].astype(np.float64))
        query = state.values_SxKxBxH[0, -1, 0].astype(np.float64)
        weights = {i: np.exp(SHARPNESS * outputs[i] @ query) for i in range(max(t - SIZE, 0), t)}
        if weights:
            same = sum(weight for i, weight in weights.items() if ids_L[i] == token)
            wanted.append((1 - SHARE) * p_V[token] + SHARE * same / sum(weights.values()))
        else:
            wanted.append(p_V[token])
        outputs.append(query)
        _, state = network.logprobs(np.array([[token]]), state)
    model = CachingModel(network, SHARE, SHARPNESS)
    got_1xL, _ = model.logprobs(ids_L[None], model.initial_state())
    assert np.exp(got_1xL[0]) == pytest.approx(wanted, rel=1e-4)
    # the same one token at a time
    state, pieces = model.initial_state(), []
    for token in ids_L:
        piece, state = model.logprobs(np.array([[token]]), state)
        pieces.append(piece[0, 0])
    assert pieces == pytest.approx(got_1xL[0], abs=1e-4)


def test_rows_go_on_by_themselves() -> None:
    model = CachingModel(plain(), SHARE, SHARPNESS)
    texts_2xL = CORPUS.valid.ids_N[:24].reshape(2, 12)
    together_2xL, state = model.logprobs(texts_2xL, model.initial_state(2))
    for row, text_L in enumerate(texts_2xL):
        alone_1xL, after = model.logprobs(text_L[None], model.initial_state())
        assert alone_1xL[0] == pytest.approx(together_2xL[row], abs=1e-5)
        assert model.next_logprobs(model.select(state, [row])) == pytest.approx(model.next_logprobs(after), abs=1e-5)


def test_fitted_rates_are_no_worse_than_none_and_survive_the_file() -> None:
    network = plain()
    model = fitted(network, CORPUS.valid)
    assert lmzoo.evaluate(model, CORPUS.valid).nll_nats <= lmzoo.evaluate(network, CORPUS.valid).nll_nats + 1e-3
    assert model.share > 0
    back = storage.from_bytes(storage.to_bytes(model), "a file")
    assert isinstance(back, CachingModel)
    assert back.details == model.details
    assert fitted(network, CORPUS.valid.head(0)).share == DEFAULT_SHARE


def test_a_trained_network_becomes_adaptive_at_its_end() -> None:
    model = lmzoo.train("lstm-scratch:hidden=6,batch_size=1,num_steps=8,adapt=cache", CORPUS, max_steps=2)
    assert isinstance(model, CachingModel)
    assert model.is_adaptive
