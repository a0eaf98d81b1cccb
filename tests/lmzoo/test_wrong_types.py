"""Arguments of the wrong type: every public name says what it got, what it wants, and raises its own kind of error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lmzoo
from lmzoo.errors import InputError, SpecError, TokenError
from lmzoo.interface import select

from .toy import FixedModel

pytestmark = [pytest.mark.plain, pytest.mark.filterwarnings("ignore:order")]

CORPUS = lmzoo.corpus_from_texts({"train": "ab ab\n" * 30, "valid": "ab\n" * 9, "test": "ab\n" * 9}, documents="line")
VOCAB = CORPUS.vocab


@pytest.fixture(scope="module")
def model():
    return trained("bigram")


def trained(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lmzoo.train(spec, CORPUS, max_steps=1)


# a call of one argument, what it is given, and what the error says of it
CALLS = [
    (lambda m, x: lmzoo.rank(m, x), "a b", "texts are a list of texts, got 'a b' of type str; one text: .text."),
    (lambda m, x: lmzoo.rank(m, x), None, "texts are a list of texts, got None"),
    (lambda m, x: lmzoo.rank(m, x), ["a", 3], "text 2 is a str, got 3 of type int"),
    (
        lambda m, x: lmzoo.rank(x, ["a"]),
        "m.lm",
        "model is a language model, .* got 'm.lm' of type str, which has no vocab",
    ),
    (lambda m, x: lmzoo.evaluate(m, x), "abc", "split is a part of a corpus, such as corpus.test; .* got 'abc'"),
    (lambda m, x: lmzoo.evaluate(m, x), CORPUS, "split is a part of a corpus"),
    (lambda m, x: lmzoo.evaluate(x, CORPUS.test), None, "model is a language model"),
    (lambda m, x: lmzoo.evaluate_blocks(m, x), "abc", "split is a part of a corpus"),
    (lambda m, x: lmzoo.evaluate(m, CORPUS.test, batch_size=x), 1.5, "batch_size must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.evaluate(m, CORPUS.test, chunk_length=x), "2", "chunk_length must be a whole number, got '2'"),
    (lambda m, x: lmzoo.sample(m, x), 3, "prompt is a text, got 3"),
    (lambda m, x: lmzoo.sample(m, length=x), 1.5, "length must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.sample(m, length=x), True, "length must be a whole number, got True of type bool"),
    (lambda m, x: lmzoo.sample(m, seed=x), "0", "seed must be a whole number, got '0'"),
    (lambda m, x: lmzoo.sample(m, temperature=x), "hot", "temperature must be a number, got 'hot'"),
    (lambda m, x: lmzoo.sample(m, top_k=x), 1.5, "top_k must be a whole number"),
    (lambda m, x: lmzoo.sample(m, top_p=x), "all", "top_p must be a number"),
    (lambda m, x: lmzoo.sample(m, stop=x), 3, "stop is a text, got 3"),
    (lambda m, x: lmzoo.sample(m, stop=x), "", "stop is a text of at least one character"),
    (lambda m, x: lmzoo.top_k(m, x), None, "context is a text, got None"),
    (lambda m, x: lmzoo.top_k(m, "a", x), 1.5, "k must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.top_k(m, "a", prefix=x), 3, "prefix is a text, got 3"),
    (lambda m, x: lmzoo.load(x), None, "path is the path of a file, got None"),
    (lambda m, x: lmzoo.load(x), b"m.lm", "path is the path of a file, got b'm.lm' of type bytes"),
    (lambda m, x: lmzoo.save(m, x), 3, "path is the path of a file, got 3"),
    (lambda m, x: lmzoo.save(x, m), "m.lm", "path is the path of a file, got <lmzoo.*NgramModel"),
    (lambda m, x: lmzoo.train(x, CORPUS), 5, "a spec is text such as 'trigram', got int"),
    (lambda m, x: lmzoo.train("bigram", x), "genesis", "a model is trained on a Corpus, got str"),
    (lambda m, x: lmzoo.train("bigram", CORPUS, seed=x), 1.5, "seed must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.train("bigram", CORPUS, budget=x), "9", "seconds of a budget must be a number, got '9'"),
    (lambda m, x: lmzoo.train("bigram", CORPUS, epochs=x), "9", "epochs of a budget must be a number"),
    (lambda m, x: lmzoo.train("bigram", CORPUS, max_steps=x), 1.5, "steps of a budget must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.train("bigram", CORPUS, checkpoint=x), 3, "checkpoint is the path of a file, got 3"),
    (lambda m, x: lmzoo.read_model(x), 3, "a spec is text such as 'trigram', got int"),
    (lambda m, x: lmzoo.load_corpus(x), 3, "a text is named by a str or a Path, or several by a list of them, got 3"),
    (lambda m, x: lmzoo.load_corpus(train=x, test="a"), [3], "a text is named by a str or a Path, got 3"),
    (lambda m, x: lmzoo.load_corpus("genesis", tokens=x), 3, "a tokenizer is one of char, .* got 3"),
    (lambda m, x: lmzoo.load_corpus("genesis", normalize=x), 3, "normalize is the name of a normaliser, got 3"),
    (lambda m, x: lmzoo.load_corpus("genesis", documents=x), 3, "a context policy is one of file, .* got 3"),
    (lambda m, x: lmzoo.load_corpus("genesis", min_freq=x), 1.5, "min_freq must be a whole number, got 1.5"),
    (lambda m, x: lmzoo.corpus_from_texts(x), "abc", "texts is a dict of texts by part"),
    (
        lambda m, x: lmzoo.corpus_from_texts({"whole": x}),
        b"abc",
        "the whole text is a str, or a function that reads one",
    ),
    (lambda m, x: lmzoo.split_from_ids(x, VOCAB), None, "documents is arrays of ids"),
    (lambda m, x: lmzoo.split_from_ids([], x), "v", "vocab is a Vocab, such as model.vocab, got 'v'"),
    (lambda m, x: lmzoo.sparsity(x, CORPUS.test), 3, "counts is NgramCounts of a training text, got 3"),
    (lambda m, x: lmzoo.sparsity(lmzoo.NgramCounts(CORPUS.train, 2), x), "t", "test is a part of a corpus"),
    (lambda m, x: lmzoo.NgramCounts(CORPUS.train, 2).discounts(x), 3, "smoothing is one of mkn, .* got 3"),
    (lambda m, x: lmzoo.Vocab(tokens=x, counts_V=np.zeros(3, int)), 3, "tokens is a tuple of symbols, got 3"),
    (lambda m, x: VOCAB.encode(x), 3, "a text is a str, got 3"),
    (lambda m, x: VOCAB.decode(x), "abc", "ids are whole numbers, got 'abc'"),
    (lambda m, x: VOCAB.decode(x), [1.5], "ids are whole numbers"),
    (
        lambda m, x: CORPUS.with_train_fraction(x),
        "half",
        "a fraction of the training text must be a number, got 'half'",
    ),
    (lambda m, x: CORPUS.train.head(x), "all", "n_tokens must be a whole number, got 'all'"),
    (lambda m, x: CORPUS.train.encoded_with(x), "v", "vocab is a Vocab, such as model.vocab, got 'v'"),
]


@pytest.mark.parametrize(("call", "value", "message"), CALLS, ids=[f"{c[2][:30]}-{i}" for i, c in enumerate(CALLS)])
def test_what_was_got_and_what_is_wanted(model, call, value, message):
    with pytest.raises(InputError, match=message):
        call(model, value)


@pytest.mark.parametrize("family", ["countng", None])
def test_an_entry_of_no_family(family):
    with pytest.raises(SpecError, match=r"family is one of counting, neural, coder, 'mine' has "):
        lmzoo.ModelEntry(name="mine", description="", config="x:y", trainer="x:y", family=family)


SPECS = [
    "bigram",
    "mixture:bigram+cache",
    *(
        pytest.param(spec, marks=pytest.mark.torch)
        for spec in ("gru-scratch:hidden=4", "mlp:hidden=4,embedding=4", "transformer:hidden=4,heads=1")
    ),
]


@pytest.mark.parametrize("spec", SPECS)
class TestModels:
    """The three methods of every kind of model."""

    def test_batch_sizes(self, spec):
        model = trained(spec)
        for bad in (1.5, "2", None, True):
            with pytest.raises(InputError, match="batch_size must be a whole number, got "):
                model.initial_state(bad)
        with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
            model.initial_state(0)

    def test_states_that_are_none_of_it(self, spec):
        model = trained(spec)
        tokens_BxL = np.array([[2], [2]])
        others = [None, 3, "state", np.zeros((2, 9)), (1, 2), [], model.initial_state(3)]
        for state in others:
            with pytest.raises(TokenError, match="state"):
                model.logprobs(tokens_BxL, state)
        for state in others[:-1]:
            with pytest.raises(TokenError, match="state"):
                model.next_logprobs(state)
            with pytest.raises(TokenError, match="state"):
                model.select(state, [0])

    def test_rows_that_are_none(self, spec):
        model = trained(spec)
        state = model.initial_state(2)
        for rows in ([], [2], [-1], "a", [0.0], None, 0, [[0]], [True]):
            with pytest.raises(InputError, match="rows are a list of one or more numbers from 0 to 1, got "):
                model.select(state, rows)
        assert np.array_equal(
            model.next_logprobs(model.select(state, [1, 0, 1])), model.next_logprobs(state)[[1, 0, 1]]
        )


def test_rows_of_an_array_are_checked_alike():
    model = FixedModel(VOCAB, {"a": 1.0})
    with pytest.raises(InputError, match="rows are a list"):
        select(model, np.zeros((2, 1)), [])
    with pytest.raises(InputError, match="rows are a list of one or more numbers from 0 to 1, got \\[2\\]"):
        select(model, np.zeros((2, 1)), [2])
