"""Mixtures: still distributions, weights that are best where they were fitted, and caches that learn as they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.cache import CacheConfig, CacheModel
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, SpecError
from lmzoo.mixture import MixtureModel, fit_linear, fit_loglinear, log_sum
from lmzoo.registry import create_trainer

pytestmark = pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")

TEXT = "the cat sat on the mat and the dog sat on the log while the cow sat in the bog "


def corpus_of(test: str = "the cow sat on the cat", documents: str | None = None) -> Corpus:
    return lmzoo.corpus_from_texts(
        {"train": TEXT, "valid": "the dog sat on the mat", "test": test}, documents=documents
    )


def mixed(spec: str, corpus: Corpus) -> MixtureModel:
    model = lmzoo.train(spec, corpus)
    assert isinstance(model, MixtureModel)
    return model


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=3), st.text("the cat", max_size=12))
@settings(max_examples=40)
def test_a_linear_mixture_is_the_weighted_mean(weights: list[float], history: str) -> None:
    corpus = corpus_of()
    parts = [lmzoo.train(spec, corpus) for spec in ("unigram", "bigram", "trigram")[: len(weights)]]
    weights_K = np.array(weights) / sum(weights)
    model = MixtureModel(parts, weights_K)
    ids = corpus.vocab.encode(history)[None, :]
    _, state = model.logprobs(ids, model.initial_state())
    wanted = sum(w * np.exp(part.next_logprobs(s)) for w, part, s in zip(weights_K, parts, state, strict=True))
    np.testing.assert_allclose(np.exp(model.next_logprobs(state)), wanted, rtol=1e-12)


def test_log_linear_is_the_normalised_product() -> None:
    corpus = corpus_of()
    parts = [lmzoo.train(spec, corpus) for spec in ("bigram", "trigram")]
    model = MixtureModel(parts, [0.3, 0.9], mixing="loglinear")
    tokens = corpus.test.ids_N[None, :5]
    _, state = model.logprobs(tokens, model.initial_state())
    product = np.prod(
        [np.exp(p.next_logprobs(s)) ** w for w, p, s in zip((0.3, 0.9), parts, state, strict=True)], axis=0
    )
    np.testing.assert_allclose(np.exp(model.next_logprobs(state)), product / product.sum(), rtol=1e-12)


def test_two_parts_may_be_alike() -> None:
    corpus = corpus_of()
    model = mixed("mixture:kn5+kn5", corpus)
    assert lmzoo.evaluate(model, corpus.test).nll_nats == pytest.approx(
        lmzoo.evaluate(lmzoo.train("kn5", corpus), corpus.test).nll_nats
    )


def test_one_model_with_all_the_weight_is_that_model() -> None:
    corpus = corpus_of()
    parts = [lmzoo.train(spec, corpus) for spec in ("ngram:order=2,smoothing=mle", "trigram")]
    # the first would make the test text impossible
    tally = lmzoo.evaluate(MixtureModel(parts, [0.0, 1.0]), corpus.test)
    assert tally.nll_nats == pytest.approx(lmzoo.evaluate(parts[1], corpus.test).nll_nats, rel=1e-12)


def test_weights_by_hand() -> None:
    # a token is 4 times as likely by the first model, the other 4 times as likely by the second: half and half
    logp = np.log([[0.4, 0.1], [0.1, 0.4]])
    assert fit_linear(logp) == pytest.approx([0.5, 0.5])
    # 3 of 4 tokens possible by the first model alone: maximum of w^3 (1 - w)
    logp = np.log(np.array([[0.5, 1e-300], [0.5, 1e-300], [0.5, 1e-300], [1e-300, 0.5]]))
    assert fit_linear(logp) == pytest.approx([0.75, 0.25])


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=3, max_size=30))
def test_no_other_linear_weights_are_better(rows: list[tuple[float, float]]) -> None:
    p = np.array(rows)
    best = fit_linear(np.log(p))
    others = [np.log(p @ [w, 1 - w]).sum() for w in np.linspace(0, 1, 21)]
    # EM stops when no weights can be better by 1e-7 a token
    assert np.log(p @ best).sum() >= max(others) - 1e-7 * len(p)


def test_no_other_log_linear_weights_are_better() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 300, 5))
    parts = [part - log_sum(part) for part in logits]
    truth = 0.6 * parts[0] + 1.1 * parts[1]
    p = np.exp(truth - log_sum(truth))
    tokens = np.array([rng.choice(5, p=row) for row in p])

    def mean_logp(weights: np.ndarray) -> float:
        mix = np.tensordot(weights, np.stack(parts), axes=1)
        return float((mix - log_sum(mix))[np.arange(300), tokens].mean())

    best = fit_loglinear(parts, tokens)
    for step in np.array([[1, 0], [0, 1], [1, 1], [1, -1]]) * 1e-2:
        assert mean_logp(best) > max(mean_logp(best + step), mean_logp(best - step))


def test_a_cache_by_hand() -> None:
    corpus = corpus_of()
    cache = CacheModel(corpus.vocab, CacheConfig(size=4))
    ids = corpus.vocab.encode("that")[None, :]
    logprobs, state = cache.logprobs(ids, cache.initial_state())
    # nothing said: uniform;  t: never said h;  th: never said a;  tha: t once of three
    uniform = 1 / corpus.vocab.n_predictable
    np.testing.assert_allclose(np.exp(logprobs[0]), [uniform, 0, 0, 1 / 3])
    # 4 tokens are remembered: t h a t
    p = np.exp(cache.next_logprobs(state)[0])
    assert p[corpus.vocab.token_to_id["t"]] == pytest.approx(0.5)
    assert p.sum() == pytest.approx(1)


def test_a_cache_of_order_2_asks_what_followed() -> None:
    corpus = corpus_of()
    cache = CacheModel(corpus.vocab, CacheConfig(order=2))
    _, state = cache.logprobs(corpus.vocab.encode("the cat, th".replace(",", ""))[None, :], cache.initial_state())
    p = np.exp(cache.next_logprobs(state)[0])
    # h was followed by e once, and by nothing else
    assert p[corpus.vocab.token_to_id["e"]] == pytest.approx(1)


def test_decay_favours_the_latest() -> None:
    corpus = corpus_of()
    cache = CacheModel(corpus.vocab, CacheConfig(decay=0.5))
    _, state = cache.logprobs(corpus.vocab.encode("ta")[None, :], cache.initial_state())
    p = np.exp(cache.next_logprobs(state)[0])
    # weights 0.5 and 1
    assert p[corpus.vocab.token_to_id["t"]] == pytest.approx(1 / 3)
    assert p[corpus.vocab.token_to_id["a"]] == pytest.approx(2 / 3)


def test_a_mixture_fits_the_validation_text_at_least_as_well_as_its_parts() -> None:
    corpus = corpus_of()
    mixture = mixed("mixture:unigram+trigram+kn5", corpus)
    nats = [lmzoo.evaluate(m, corpus.valid).nll_nats for m in (mixture, *mixture.components)]
    assert nats[0] <= min(nats[1:]) + 1e-7 * corpus.valid.n_tokens


@pytest.mark.parametrize(
    "spec", ["mixture:kn5+bigram", "mixture:kn5+cache(order=2,size=20)", "mixture:bigram+unigram,kind=loglinear"]
)
def test_every_part_survives_a_file(spec: str, tmp_path: Path) -> None:
    corpus = corpus_of()
    model = mixed(spec, corpus)
    back = lmzoo.load(lmzoo.save(model, tmp_path / "m.lm"))
    assert lmzoo.evaluate(back, corpus.test) == lmzoo.evaluate(model, corpus.test)
    assert back.is_adaptive == ("cache" in spec)


@pytest.mark.torch
def test_counting_and_neural_models_mix() -> None:
    corpus = corpus_of()
    spec = "mixture:kn5+lstm-scratch(hidden=8,embedding=4,batch_size=4,num_steps=8)"
    first, second = (lmzoo.train(spec, corpus, max_steps=12, seed=3) for _ in range(2))
    assert lmzoo.evaluate(first, corpus.test) == lmzoo.evaluate(second, corpus.test)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cache", "only inside a mixture"),
        ("mixture", "mixture:kn5\\+cache"),
        ("mixture:kn5", "at least two"),
        ("mixture:kn5+trigam", "Did you mean 'trigram'"),
        ("mixture:kn5+mixture(x=1)", "no mixture inside a mixture"),
        ("mixture:kn5+cache(sise=3)", "Did you mean 'size'"),
        ("mixture:kn5+bigram,kind=log", "kind of mixture is one of linear, loglinear"),
        ("mixture:kn5++cache", "empty part"),
        ("mixture:kn5+cache,parts=x", "named after its colon"),
        ("mixture:kn5+cache(size=99999999999)", "size of a cache must be at most"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        lmzoo.train(spec, corpus_of())


def test_bad_weights() -> None:
    corpus = corpus_of()
    parts = [lmzoo.train(spec, corpus) for spec in ("bigram", "trigram")]
    with pytest.raises(InputError, match="1 in sum"):
        MixtureModel(parts, [0.5, 0.6])
    with pytest.raises(InputError, match="2 models need as many weights"):
        MixtureModel(parts, [1.0])


def test_only_the_networks_of_a_mixture_know_of_devices() -> None:
    pytest.importorskip("torch")
    corpus = corpus_of()
    networks = [create_trainer(f"{name}:hidden=4", corpus.vocab).model for name in ("rnn-cudnn", "gru-scratch")]
    model = MixtureModel([lmzoo.train("unigram", corpus), *networks], [1 / 3] * 3)
    assert model.device == "cpu"
    # no numbers are there, and no device is needed
    model.move_to("meta")
    assert model.device == "meta"
    assert [getattr(part, "device", None) for part in model.components] == [None, "meta", "meta"]
