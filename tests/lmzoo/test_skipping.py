"""n-grams with gaps: by hand, and by their formula place by place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.errors import SpecError, TokenError
from lmzoo.interface import context_classes
from lmzoo.skipping import SkipConfig, SkipModel, count


def corpus_of(train: str, test: str = "ab") -> Corpus:
    return lmzoo.corpus_from_texts({"train": train, "valid": "ab", "test": test}, documents="line", tokens="word")


def test_a_token_is_told_by_the_last_but_one() -> None:
    # c followed a b-something twice: "a x c" and "a y c"; d never followed an a at that distance
    corpus = corpus_of("a x c\na y c\nb x d\nb y d", "a y d")
    model = lmzoo.train("skip:back=2", corpus)
    _, state = model.logprobs(corpus.test.ids_N[None, :2], model.initial_state())
    p_V = np.exp(model.next_logprobs(state)[0])
    c, d = (p_V[corpus.vocab.token_to_id[token]] for token in "cd")
    assert c > 5 * d
    assert p_V.sum() == pytest.approx(1, abs=1e-12)


def by_formula(texts: list[list[str]], before: list[str], token: str, back: list[int], n_symbols: int) -> float:
    """p of a token after others, from counts made anew for each context."""

    def context(words: list[str], place: int, length: int) -> tuple[str, ...]:
        padded = [""] * 40 + ["<s>", *words]
        return tuple(padded[41 + place - o] for o in back[:length])

    p = 1 / n_symbols
    for length in range(len(back) + 1):
        counts: dict[tuple[str, ...], dict[str, int]] = {}
        for words in texts:
            for place, word in enumerate(words):
                own = counts.setdefault(context(words, place, length), {})
                own[word] = own.get(word, 0) + 1
        every = [n for own in counts.values() for n in own.values()]
        once, twice = every.count(1), every.count(2)
        discount = once / (once + 2 * twice) if once and twice else 0.5
        here = counts.get(context(before, len(before), length))
        if here is None:
            break
        total = sum(here.values())
        p = max(here.get(token, 0) - discount, 0) / total + discount * len(here) / total * p
    return p


words = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), min_size=1, max_size=6)


@given(words, st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.sampled_from(["1", "2/3", "3/1", "2/1/4"]))
@settings(max_examples=60, deadline=None)
def test_it_is_its_formula(train: list[list[str]], test: list[str], back: str) -> None:
    lines = [["a", "b", "c"], *train]
    corpus = corpus_of("\n".join(" ".join(line) for line in lines), " ".join(test))
    model = SkipModel(corpus.vocab, SkipConfig(back=back), count(corpus.train, SkipConfig(back=back)))
    logprobs, _ = model.logprobs(corpus.test.ids_N[None, :], model.initial_state())
    ended = [[*line, "</s>"] for line in lines]
    wanted = [
        by_formula(ended, test[:t], token, SkipConfig(back=back).places, corpus.vocab.n_predictable)
        for t, token in enumerate([*test, "</s>"])
    ]
    np.testing.assert_allclose(np.exp(logprobs[0]), wanted, rtol=1e-12)


def test_classes_count_the_tokens_known() -> None:
    corpus = corpus_of("a x c\nb y d", "y d d")
    model = lmzoo.train("skip:back=2", corpus)
    # the last but one is nothing, <s>, y, and d, which training had nowhere but at the end
    assert context_classes(model, corpus.test.ids_N[None, :3], model.initial_state()).tolist() == [[1, 1, 1, 0]]


def test_a_file_gives_the_same(tmp_path: Path) -> None:
    corpus = corpus_of("a x c\na y c\nb x d", "a y d")
    model = lmzoo.train("skip:back=2/1", corpus)
    back = lmzoo.load(lmzoo.save(model, tmp_path / "m.lm"))
    assert lmzoo.evaluate(back, corpus.test) == lmzoo.evaluate(model, corpus.test)


@pytest.mark.parametrize("back", ["0", "2/2", "33", "2,3", "", "-1", "two", "1/", "1" * 500])
def test_no_places(back: str) -> None:
    with pytest.raises(SpecError, match="back is different numbers from 1 to 32 such as 2/3"):
        lmzoo.train(f'skip:back="{back}"', corpus_of("a b"))


def test_a_state_has_its_shape() -> None:
    model = lmzoo.train("skip", corpus_of("a b c d"))
    for state in (np.zeros((1, 2), np.int64), np.zeros((1, 3)), np.zeros(3, np.int64), None):
        with pytest.raises(TokenError, match=r"a state is ids of shape \(B, 3\)"):
            model.next_logprobs(state)
