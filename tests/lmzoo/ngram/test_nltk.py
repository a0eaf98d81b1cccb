"""nltk.lm as an oracle where it is right: relative frequencies after contexts that were seen.

Not for single words, where it counts `<s>` as if it were predicted, and not for Kneser-Ney, which does not sum to 1.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from nltk.lm import MLE
from nltk.lm.preprocessing import padded_everygram_pipeline

import lmzoo

TRAIN = [
    "the old man sells red apples at the market",
    "the old woman buys red apples and green pears",
    "the woman near the river buys nothing at all",
    "a man and a woman walk to the market",
]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_relative_frequencies(order: int) -> None:
    corpus = lmzoo.corpus_from_texts({"train": "\n".join(TRAIN), "valid": "a", "test": "a"}, tokens="word")
    model = lmzoo.train(f"ngram:order={order},smoothing=mle", corpus)
    oracle = MLE(order)
    oracle.fit(*padded_everygram_pipeline(order, [line.split() for line in TRAIN]))
    for line in (*TRAIN, "the old woman buys nothing at the market"):
        words = [*line.split(), "</s>"]
        ids = np.array([[corpus.vocab.token_to_id[word] for word in words]])
        got = model.logprobs(ids, model.initial_state())[0][0]
        padded = ["<s>"] * (order - 1) + words
        for place, (word, logprob) in enumerate(zip(words, got.tolist(), strict=True)):
            context = padded[place : place + order - 1]
            if oracle.context_counts(oracle.vocab.lookup(context)).N():
                p = oracle.score(word, context)
                assert logprob == pytest.approx(math.log(p) if p else -math.inf), (context, word)
