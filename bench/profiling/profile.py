"""The profile of a model from what its evaluation gave, and a little more of the model itself."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from bench.environment import publishable
from bench.profiled import Passage, Profile, Sample
from bench.profiling import surprisal
from bench.profiling.guesses import Guesses
from bench.profiling.matches import MOST_TEST_TOKENS, MOST_TRAIN_TOKENS, Orders, longest_matches
from bench.profiling.place import prompt_of, read_tokens, unknown_in
from lmzoo.corpus import Corpus, Split
from lmzoo.evaluation import Nats
from lmzoo.interface import LanguageModel, matched_orders
from lmzoo.sampling import Continuation

SAMPLE_SEED = 0
# about what a sample has, and the bounds of its length
_SAMPLE_CHARS = 200
_LEAST_DRAWN, _MOST_DRAWN = 20, 400
# a sample goes on in another document so often
_MOST_DOCUMENTS = 8
# of one whose tokens are very long, the rest is left out
_MOST_SIGNS = 2000
NO_TEXT = "the run was made without text (--no-text)"
_TOO_LONG = (
    f"looked for in texts of up to {MOST_TRAIN_TOKENS:,} training and {MOST_TEST_TOKENS:,} test tokens, "
    "beyond which it would take more than a few seconds"
)


def profile_of(
    model: LanguageModel[Any], corpus: Corpus, nats_N: Nats, guesses: Guesses, place: range, *, with_text: bool
) -> Profile:
    """The profile on the test text of `corpus`, whose tokens cost `nats_N`.

    Args:
        place: of the passage; `guesses` has the choices there.
        with_text: without, there is neither passage nor sample.
    """
    test = corpus.test
    counts_V = surprisal.counts_in(corpus.train)
    orders_N = _orders(corpus, counts_V)
    absent = {} if orders_N is not None else {"by_order": _TOO_LONG}
    profile = Profile(
        by_frequency=surprisal.by_frequency(test, nats_N, counts_V),
        by_position=surprisal.by_position(test, nats_N),
        by_order=() if orders_N is None else surprisal.by_order(nats_N, orders_N),
        confidences=guesses.confidences,
        absent=absent,
    )
    if not with_text:
        return profile.model_copy(update={"absent": absent | dict.fromkeys(("passage", "sample"), NO_TEXT)})
    try:
        model_orders = _model_orders(model, test, place)
    # what a model cannot tell costs it nothing else
    except Exception as error:
        model_orders = ()
        absent["model_orders"] = _said(error)
    passage = _passage(test, nats_N, guesses, place, orders_N).model_copy(update={"model_orders": model_orders})
    return profile.model_copy(update={"passage": passage, "sample": sample_of(model, test), "absent": absent})


def _orders(corpus: Corpus, counts_V: surprisal.Counts) -> Orders | None:
    if corpus.train.n_tokens > MOST_TRAIN_TOKENS or corpus.test.n_tokens > MOST_TEST_TOKENS:
        return None
    return longest_matches(corpus.train, corpus.test, counts_V)


def _passage(split: Split, nats_N: Nats, guesses: Guesses, place: range, orders_N: Orders | None) -> Passage:
    nats = nats_N[place.start : place.stop].tolist()
    eos_id = split.vocab.eos_id
    starts = split.starts_D1[(split.starts_D1 >= place.start) & (split.starts_D1 < place.stop)]
    choices = [guesses.choices[at] for at in place]
    return Passage(
        start=place.start,
        tokens=tuple(read_tokens(split, place)),
        separator=" " if split.vocab.cutter.by_words else "",
        unknown=tuple(unknown_in(split, place)),
        ends=tuple(n for n, at in enumerate(place) if split.ids_N[at] == eos_id),
        starts=tuple(dict.fromkeys((starts - place.start).tolist())),
        nats=tuple(value if math.isfinite(value) else None for value in nats),
        orders=() if orders_N is None else tuple(orders_N[place.start : place.stop].tolist()),
        choices=tuple(tokens for tokens, _ in choices),
        choices_p=tuple(p for _, p in choices),
    )


def _model_orders(model: LanguageModel[Any], split: Split, place: range) -> tuple[int, ...]:
    """The order of the n-gram that the model itself matched at each token; none for models that have no such thing."""
    found: list[int] = []
    for start, end in itertools.pairwise(split.starts_D1.tolist()):
        if start >= place.stop:
            break
        if end <= place.start:
            continue
        ids_1xL = split.ids_N[None, start : min(end, place.stop)]
        orders_1xL = matched_orders(model, ids_1xL, model.initial_state(1, bos=True))
        if orders_1xL is None:
            return ()
        found += orders_1xL[0, max(place.start - start, 0) :].tolist()
    if len(found) != len(place):
        raise ValueError(f"matched_orders told of {len(found)} tokens, {len(place)} were asked about")
    return tuple(found)


def sample_of(model: LanguageModel[Any], split: Split) -> Sample:
    """About 200 characters in the model's own words, after the first words of a text; the same seed for every model.

    Where `</s>` ends a document before, the next one begins without a prompt.
    """
    prompt = prompt_of(split)
    try:
        text = _written(model, prompt, _n_drawn(split))
    # a model that cannot write has been measured all the same
    except Exception as error:
        return Sample(prompt=prompt, seed=SAMPLE_SEED, text=None, reason=_said(error))
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return Sample(prompt=prompt, seed=SAMPLE_SEED, text=whole[:_MOST_SIGNS])


def _said(error: Exception) -> str:
    return publishable(" ".join(f"{type(error).__name__}: {error}".split()))


def _n_drawn(split: Split) -> int:
    """How many tokens are about 200 characters of this text."""
    n_chars = int(split.chars_D.sum())
    wanted = -(-_SAMPLE_CHARS * split.n_tokens // n_chars) if n_chars else 0
    return int(np.clip(wanted, _LEAST_DRAWN, _MOST_DRAWN))


def _written(model: LanguageModel[Any], prompt: str, n_drawn: int) -> str:
    lines: list[str] = []
    for number in range(_MOST_DOCUMENTS):
        if n_drawn <= 0:
            break
        own = prompt if number == 0 else ""
        continuation = Continuation(model, own, seed=SAMPLE_SEED + number)
        n_before = len(continuation.ids)
        while len(continuation.ids) - n_before < n_drawn and continuation.grow():
            pass
        n_drawn -= max(len(continuation.ids) - n_before, 1)
        start = len(model.vocab.decode(continuation.ids[:n_before]))
        lines.append(continuation.text[start:])
        if not continuation.is_over:
            break
    return "\n".join(lines)
