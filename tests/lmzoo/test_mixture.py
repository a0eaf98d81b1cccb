"""Mixtures: still distributions, weights that are best where they were fitted, and caches that learn as they read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.budget import Budget
from lmzoo.cache import CacheConfig, CacheModel, CacheTrainer
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, SpecError
from lmzoo.interface import LanguageModel, Progress, context_classes, n_context_classes
from lmzoo.mixture import MixtureConfig, MixtureModel, MixtureTrainer
from lmzoo.mixture.fitting import fit_classes, fit_contexts, fit_linear, fit_loglinear
from lmzoo.mixture.model import ContextWeights, context_keys, log_sum
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


def test_a_mixture_fits_the_validation_text_at_least_as_well_as_its_parts() -> None:
    corpus = corpus_of()
    mixture = mixed("mixture:unigram+trigram+kn5", corpus)
    nats = [lmzoo.evaluate(m, corpus.valid).nll_nats for m in (mixture, *mixture.components)]
    assert nats[0] <= min(nats[1:]) + 1e-7 * corpus.valid.n_tokens


@pytest.mark.parametrize(
    "spec",
    [
        "mixture:kn5+bigram,weights=one",
        "mixture:kn5+cache(order=2,size=20)",
        "mixture:bigram+unigram,kind=loglinear",
    ],
)
def test_every_part_survives_a_file(spec: str, tmp_path: Path) -> None:
    corpus = corpus_of()
    model = mixed(spec, corpus)
    back = lmzoo.load(lmzoo.save(model, tmp_path / "m.lm"))
    assert lmzoo.evaluate(back, corpus.test) == lmzoo.evaluate(model, corpus.test)
    assert back.is_adaptive == ("cache" in spec)


# long enough for its halves to say that weights by context are worth having
LONG = TEXT * 8 + "".join(TEXT.split(" ")[::-1]) * 8


def by_context() -> tuple[MixtureModel, Corpus]:
    corpus = lmzoo.corpus_from_texts({"train": TEXT, "valid": LONG, "test": LONG[::-1]})
    return mixed("mixture:trigram+unigram+cache(order=3)", corpus), corpus


def test_weights_by_context_are_those_of_the_class_of_what_came_before() -> None:
    model, corpus = by_context()
    assert model.contexts is not None
    assert len(model.contexts.keys_U) > 3
    weights_of = dict(zip(model.contexts.keys_U.tolist(), model.contexts.weights_UxK, strict=True))
    tokens = corpus.test.ids_N[None, :60]
    state = model.initial_state()
    for t in range(tokens.shape[1]):
        n_known = [
            context_classes(part, tokens[:, :0], s)[0, 0] for part, s in zip(model.components, state, strict=True)
        ]
        # a trigram model knows 0 to 2 tokens of a context, a unigram model none, a cache of order 3 has 0 to 3 orders
        assert n_known[0] <= 2
        assert n_known[1] == 0
        assert n_known[2] <= 3
        weights_K = weights_of.get(n_known[0] * 4 + n_known[2], model.weights_K)
        parts = [np.exp(part.next_logprobs(s)[0]) for part, s in zip(model.components, state, strict=True)]
        p_V = np.exp(model.next_logprobs(state)[0])
        np.testing.assert_allclose(p_V, weights_K @ parts, rtol=1e-12)
        assert p_V.sum() == pytest.approx(1, abs=1e-12)
        logprob, state = model.logprobs(tokens[:, t : t + 1], state)
        assert np.exp(logprob[0, 0]) == pytest.approx(p_V[tokens[0, t]], rel=1e-12)


def test_weights_by_context_survive_a_file_and_whole_distributions_have_them(tmp_path: Path) -> None:
    model, corpus = by_context()
    back = lmzoo.load(lmzoo.save(model, tmp_path / "m.lm"))
    assert isinstance(back, MixtureModel)
    assert back.contexts is not None
    assert back.n_params == model.n_params
    tokens = corpus.test.ids_N[None, :40]
    logprobs, _ = model.logprobs(tokens, model.initial_state())
    whole = back.all_logprobs(tokens, back.initial_state())
    np.testing.assert_allclose(np.take_along_axis(whole, tokens[:, :, None], 2)[:, :, 0], logprobs, rtol=1e-12)


def test_equal_weights_in_every_class_are_the_plain_mixture() -> None:
    model, corpus = by_context()
    assert model.contexts is not None
    alike = ContextWeights(
        keys_U=model.contexts.keys_U,
        weights_UxK=np.repeat(model.weights_K[None, :], len(model.contexts.keys_U), axis=0),
    )
    models = [MixtureModel(model.components, model.weights_K, contexts=contexts) for contexts in (alike, None)]
    first, second = (m.logprobs(corpus.test.ids_N[None, :], m.initial_state())[0] for m in models)
    assert first.tobytes() == second.tobytes()


tokens_of_classes = st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 3)), min_size=1)


@given(tokens_of_classes, st.floats(0.05, 0.95), st.sampled_from([0.5, 8.0, 512.0]))
def test_no_class_is_worse_off_than_by_the_weights_of_all(
    rows: list[tuple[float, float, int]], weight: float, strength: float
) -> None:
    p_MxK, class_M = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    all_K = np.array([weight, 1 - weight])
    weights_UxK = fit_classes(p_MxK, class_M, 4, all_K, strength)
    np.testing.assert_allclose(weights_UxK.sum(axis=1), 1)
    for k in range(4):
        own = p_MxK[class_M == k]
        # rounding of a sum of logarithms
        assert np.log(own @ weights_UxK[k]).sum() >= np.log(own @ all_K).sum() - 1e-9
        if not len(own):
            np.testing.assert_array_equal(weights_UxK[k], all_K)


def test_a_class_by_hand() -> None:
    # 3 tokens that the first model alone finds possible, and 2 more that ask for half and half: (3 + 1) / (3 + 2)
    weights = fit_classes(np.array([[1.0, 0.0]] * 3), np.zeros(3, np.int64), 1, np.array([0.5, 0.5]), 2.0)
    assert weights[0] == pytest.approx([0.8, 0.2])


def test_classes_that_mislead_are_left_alone() -> None:
    n_tokens = 4000
    is_odd = np.arange(n_tokens) % 2
    # in every other block of 500 tokens the same class asks for the other model
    right = (is_odd + np.arange(n_tokens) // 500) % 2
    logprobs_MxK = np.log(np.where(right[:, None] == [0, 1], 0.9, 0.1))
    assert fit_contexts(logprobs_MxK, is_odd).weights_UxK.shape == (0, 2)
    # where the classes say which model is right there are weights for each
    logprobs_MxK = np.log(np.where(is_odd[:, None] == [0, 1], 0.9, 0.1))
    np.testing.assert_allclose(fit_contexts(logprobs_MxK, is_odd).weights_UxK, np.eye(2), atol=0.01)


def test_a_text_too_short_to_be_halved_has_weights_of_all() -> None:
    model = mixed("mixture:trigram+cache", corpus_of())
    assert model.contexts is not None
    assert not len(model.contexts.keys_U)


@given(st.text("the cat", max_size=30), st.integers(0, 30), st.text("the cat", max_size=5))
@settings(max_examples=30)
def test_classes_depend_on_what_came_before_alone(text: str, cut: int, other: str) -> None:
    corpus = corpus_of()
    for model in (lmzoo.train("trigram", corpus), CacheModel(corpus.vocab, CacheConfig(order=3, size=9, decay=0.9))):
        ids = corpus.vocab.encode(text)[None, :]
        classes = context_classes(model, ids, model.initial_state())
        assert classes.shape == (1, len(text) + 1)
        assert (classes >= 0).all()
        assert (classes < n_context_classes(model)).all()
        cut = min(cut, len(text))
        _, state = model.logprobs(ids[:, :cut], model.initial_state())
        rest = corpus.vocab.encode(text[cut:])[None, :]
        assert (context_classes(model, rest, state) == classes[:, cut:]).all()
        changed = np.concatenate((ids[:, :cut], corpus.vocab.encode(other)[None, :]), axis=1)
        assert (context_classes(model, changed, model.initial_state())[:, : cut + 1] == classes[:, : cut + 1]).all()


def test_a_class_is_the_longest_context_that_training_had() -> None:
    corpus = lmzoo.corpus_from_texts({"train": "abcabc", "valid": "abc", "test": "cbabca"})
    model = lmzoo.train("trigram", corpus)
    # <s>; c; b after c was never seen: b; a after b neither: a; ab; bc; ca
    assert context_classes(model, corpus.test.ids_N[None, :], model.initial_state()).tolist() == [[1, 1, 1, 1, 2, 2, 2]]


def test_keys_number_the_products_of_classes() -> None:
    corpus = lmzoo.corpus_from_texts({"train": "abcabc", "valid": "abc", "test": "ab"})
    parts: list[LanguageModel[Any]] = [lmzoo.train(spec, corpus) for spec in ("trigram", "bigram")]
    state = tuple(part.initial_state() for part in parts)
    # after <s> both know one token, after a both know a; one of 3 classes and one of 2
    assert context_keys(parts, corpus.test.ids_N[None, :], state).tolist() == [[1 * 2 + 1, 2 * 2 + 1]]


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
        ("mixture:kn5+cache(size=99999999999)", "size of a cache must be at most 1000000, got 99999999999"),
        ("mixture:kn5+cache(order=0)", "order of a cache must be at least 1, got 0"),
        ("mixture:kn5+cache(order=33)", "order of a cache must be at most 32, got 33"),
        ("mixture:kn5+cache(decay=nan)", "decay of a cache must be above 0 and at most 1, got nan"),
        ("mixture:kn5+cache(discount=2)", "discount of a cache must be 0 to 1, got 2"),
        ("mixture:kn5+cache,kind=loglinear,weights=context", "weights=context belongs to kind=linear"),
        ("mixture:kn5+cache,weights=contexts", "weights of mixture is one of one, context"),
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


def test_bad_weights_by_context() -> None:
    corpus = corpus_of()
    parts = [lmzoo.train(spec, corpus) for spec in ("bigram", "trigram")]

    def with_contexts(keys: list[int], weights: list[list[float]], **options: Any) -> None:
        contexts = ContextWeights(keys_U=np.array(keys), weights_UxK=np.array(weights))
        MixtureModel(parts, [0.5, 0.5], contexts=contexts, **options)

    with pytest.raises(InputError, match="1 in sum"):
        with_contexts([0], [[0.5, 0.6]])
    with pytest.raises(InputError, match="1 classes need as many rows of 2 weights"):
        with_contexts([0], [[1.0]])
    with pytest.raises(InputError, match=r"ascending numbers from 0 to 5, got \[0, 6\]"):
        with_contexts([0, 6], [[1, 0], [1, 0]])
    with pytest.raises(InputError, match="of a linear mixture, got mixing loglinear"):
        with_contexts([0], [[1, 0]], mixing="loglinear")


class _Stepping:
    """A trainer of so many steps within a budget; its model stays what it is, and counts how often it is asked."""

    def __init__(self, model: LanguageModel[Any]) -> None:
        self.model = model
        self.n_steps = 0

    def steps(self, train: object, valid: object, rng: object, budget: Budget) -> Iterator[Progress]:
        while not budget.is_spent:
            self.n_steps += 1
            budget.note(steps_done=self.n_steps, epochs_done=0.0)
            yield Progress(tokens=self.n_steps, steps=self.n_steps)


class _Asked(CacheModel):
    n_asked = 0

    def logprobs(self, tokens_BxL: Any, state: Any) -> Any:
        type(self).n_asked += 1
        return super().logprobs(tokens_BxL, state)


def test_every_part_makes_all_the_steps() -> None:
    corpus = corpus_of()
    parts = [_Stepping(lmzoo.train(spec, corpus)) for spec in ("bigram", "trigram", "unigram")]
    config = MixtureConfig(parts=dict.fromkeys("abc"))
    budget = Budget(steps=10)
    told = list(MixtureTrainer(config, parts).steps(corpus.train, corpus.valid, np.random.default_rng(0), budget))
    assert [part.n_steps for part in parts] == [10, 10, 10]
    assert budget.steps_done == 10
    assert told[-1].steps == 10
    # first, after each eighth of the budget, which is a step or two, and at last
    assert [change.step for change in budget.changes] == [1, 3, 5, 7, 9, 10]


def test_what_learns_no_more_is_asked_once_for_each_text() -> None:
    corpus = corpus_of()
    cache = CacheTrainer(CacheConfig(), corpus.vocab)
    cache.model = _Asked(corpus.vocab, CacheConfig())
    networks = [_Stepping(lmzoo.train("bigram", corpus))]
    trainer = MixtureTrainer(MixtureConfig(parts={"a": None, "b": None}), [*networks, cache])
    budget = Budget(steps=40)
    for _ in trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), budget):
        pass
    # when it has just made its step, then once more, and for the weights at the end
    assert _Asked.n_asked == 3
    assert budget.steps_done == 40


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
