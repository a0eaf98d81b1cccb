"""Generating and ranking text: written once, for every model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import encode_split
from lmzoo.errors import InputError
from lmzoo.evaluation import token_nats
from lmzoo.interface import LanguageModel


class Ranked(NamedTuple):
    """A text and ln p of it: the sum over its tokens, `</s>` included where the vocabulary has one."""

    text: str
    logprob: float


class NextToken(NamedTuple):
    """A symbol and ln p of it coming next."""

    token: str
    logprob: float


def sample(
    model: LanguageModel[Any],
    prompt: str = "",
    length: int = 50,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> str:
    """The prompt and up to `length` sampled tokens after it; the prompt warms the state, as in the textbook.

    Temperature 0 takes the most probable token each time.  Stops at `</s>`; `<unk>` is never drawn while anything else
    has probability.  Only its own generator is used: the same seed gives the same text.

    Args:
        temperature: divides ln p before anything is cut off.
        top_k: draw among the k most probable tokens (Fan et al. 2018).
        top_p: draw among the fewest tokens that have at least this much of the probability, the nucleus (Holtzman et
            al. 2020, eq. 2 and 3); with `top_k` too, of the probability of those k.
    """
    if length < 0:
        raise InputError(f"length must be at least 0, got {length}")
    if not 0 <= temperature < math.inf:
        raise InputError(f"temperature must be at least 0 and finite, got {temperature}")
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k must be at least 1, got {top_k}")
    # written so that NaN is refused too
    if top_p is not None and not 0 < top_p <= 1:
        raise InputError(f"top_p must be above 0 and at most 1, got {top_p}")
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    rng = np.random.default_rng(seed)
    prompt_ids = model.vocab.encode(prompt)
    state = _state_after(model, prompt_ids)
    ids = prompt_ids.tolist()
    for _ in range(length):
        p_V = _probabilities(model.next_logprobs(state)[0], model.vocab.unk_id, temperature, top_k, top_p)
        drawn = int(rng.choice(len(p_V), p=p_V))
        if drawn == model.vocab.eos_id:
            break
        ids.append(drawn)
        _, state = model.logprobs(np.array([[drawn]], np.int32), state)
    return model.vocab.decode(ids)


def rank(model: LanguageModel[Any], texts: Iterable[str]) -> list[Ranked]:
    """The texts with their log-probabilities, the most probable first; each is scored as a document of its own."""
    texts = list(texts)
    split = encode_split("texts", texts, model.vocab, "file" if model.vocab.eos_id is None else "line")
    nats_N = token_nats(model, split)
    sums = (-float(nats_N[a:b].sum()) for a, b in pairwise(split.starts_D1.tolist()))
    return sorted(map(Ranked, texts, sums), key=lambda r: -r.logprob)


def top_k(model: LanguageModel[Any], context: str = "", k: int = 10) -> list[NextToken]:
    """The k most probable symbols after a context, the most probable first."""
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    logprobs_V = model.next_logprobs(_state_after(model, model.vocab.encode(context)))[0]
    k = min(k, model.vocab.n_predictable)
    # sorting the whole vocabulary would take longer than predicting it; of equals the lowest id comes first
    least = np.partition(logprobs_V, -k)[-k]
    likely = np.flatnonzero(logprobs_V >= least)
    best = likely[np.argsort(-logprobs_V[likely], kind="stable")[:k]]
    return [NextToken(model.vocab.tokens[i], float(logprobs_V[i])) for i in best]


def _state_after(model: LanguageModel[Any], ids: npt.NDArray[np.int32]) -> Any:
    state = model.initial_state()
    if len(ids):
        _, state = model.logprobs(ids[None, :], state)
    return state


def _probabilities(
    logprobs_V: npt.NDArray[np.floating[Any]], unk_id: int, temperature: float, k: int | None, p: float | None
) -> npt.NDArray[np.float64]:
    """The distribution that is drawn from: without `<unk>`, sharpened, cut to the k best, then to the nucleus."""
    logits_V = np.array(logprobs_V, np.float64)
    others = np.delete(logits_V, unk_id)
    if np.isfinite(others).any():
        logits_V[unk_id] = -np.inf
    if temperature == 0:
        best_V = np.zeros(len(logits_V))
        best_V[logits_V.argmax()] = 1.0
        return best_V
    with np.errstate(over="ignore"):  # a tiny temperature sends the others to -inf, which is right
        p_V: npt.NDArray[np.float64] = np.exp((logits_V - logits_V.max()) / temperature)
    p_V /= p_V.sum()
    if k is not None or p is not None:
        # of equals the lowest id comes first
        _keep_first(p_V, np.argsort(-logits_V, kind="stable"), k, p)
    return p_V


def _keep_first(p_V: npt.NDArray[np.float64], order_V: npt.NDArray[np.intp], k: int | None, p: float | None) -> None:
    """Leave the first k of an order and, of these, as few as have the share p of their mass; scaled to sum to 1."""
    if k is not None:
        p_V[order_V[k:]] = 0.0
        p_V /= p_V.sum()
    # all of it has mass 1, whatever rounding makes of the sum
    if p is not None and p < 1:
        # whatever comes after the first place where the mass is reached goes
        n_kept = int(np.searchsorted(np.cumsum(p_V[order_V]), p)) + 1
        p_V[order_V[n_kept:]] = 0.0
        p_V /= p_V.sum()
