"""Generating and ranking text: written once, for every model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import encode_split
from lmzoo.errors import InputError, NotNormalizedError, described, require_kind, require_number, require_whole
from lmzoo.evaluation import token_nats
from lmzoo.interface import LanguageModel, LogProbs, policy_of, require_model
from lmzoo.normalizers import named_normalizer
from lmzoo.vocab import Vocab


class Ranked(NamedTuple):
    """A text and ln p of it: the sum over its tokens, `</s>` included where the vocabulary has one."""

    text: str
    logprob: float


class NextToken(NamedTuple):
    """A symbol and ln p of it coming next."""

    token: str
    logprob: float


class Continuation:
    """A text that goes on token by token; `sample` is the text that it comes to.

    Attributes:
        ids: of the prompt, then of what was drawn, without `</s>`.
        logprob: ln p of what was drawn, by the model itself, whatever temperature and cuts made of it; `</s>` and the
            tokens of `stop` are in it.
        is_over: `</s>` was drawn, or the text of `stop` came up.
    """

    def __init__(
        self,
        model: LanguageModel[Any],
        prompt: str = "",
        *,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | None = None,
    ) -> None:
        """The arguments are those of `sample`."""
        require_model(model)
        require_kind(prompt, str, "prompt", "a text")
        _check_drawing(seed, temperature, top_k, top_p, stop)
        prompt_ids = model.vocab.encode(prompt)
        self.ids: list[int] = prompt_ids.tolist()
        self.logprob = 0.0
        self.is_over = False
        self._model, self._n_prompt, self._stop = model, len(prompt_ids), stop
        self._cut = (temperature, top_k, top_p)
        self._state = _state_after(model, prompt_ids)
        self._rng = np.random.default_rng(int(seed))

    def grow(self) -> bool:
        """Draw one token more; False once the text is over."""
        if self.is_over:
            return False
        vocab = self._model.vocab
        logprobs_V = _next_logprobs(self._model, self._state)
        p_V = _probabilities(logprobs_V, vocab.unk_id, *self._cut)
        drawn = int(self._rng.choice(len(p_V), p=p_V))
        self.logprob += float(logprobs_V[drawn])
        if drawn == vocab.eos_id:
            self.is_over = True
            return False
        self.ids.append(drawn)
        self.is_over = self._stop is not None and self._stop in self._last_characters(len(self._stop))
        if not self.is_over:
            _, self._state = self._model.logprobs(np.array([[drawn]], np.int32), self._state)
        return True

    @property
    def text(self) -> str:
        """The prompt and what was drawn, up to where `stop` starts."""
        text = self._model.vocab.decode(self.ids)
        if self._stop is None:
            return text
        end = text.find(self._stop, len(self._model.vocab.decode(self.ids[: self._n_prompt])))
        return text if end < 0 else text[:end]

    def _last_characters(self, n: int) -> str:
        """At least so many characters at the end of what was drawn."""
        # a character has at most four tokens, which are its bytes; +1: what separates words belongs to none of them
        return self._model.vocab.decode(self.ids[max(self._n_prompt, len(self.ids) - 4 * n - 1) :])


def sample(
    model: LanguageModel[Any],
    prompt: str = "",
    length: int = 50,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: str | None = None,
) -> str:
    """The prompt and up to `length` sampled tokens after it; the prompt warms the state, as in the textbook.

    Temperature 0 takes the most probable token each time.  Stops at `</s>`; `<unk>` is never drawn while anything else
    has probability.  Only its own generator is used: the same seed gives the same text.

    Args:
        temperature: divides ln p before anything is cut off.
        top_k: draw among the k most probable tokens (Fan et al. 2018).
        top_p: draw among the fewest tokens that have at least this much of the probability, the nucleus (Holtzman et
            al. 2020, eq. 2 and 3); with `top_k` too, of the probability of those k.
        stop: the text ends before this, should it come up.
    """
    require_whole(length, "length", 0)
    written = Continuation(model, prompt, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p, stop=stop)
    for _ in range(length):
        if not written.grow():
            break
    return written.text


def _check_drawing(seed: int, temperature: float, top_k: int | None, top_p: float | None, stop: str | None) -> None:
    require_number(temperature, "temperature")
    if not 0 <= temperature < math.inf:
        raise InputError(f"temperature must be at least 0 and finite, got {temperature}")
    if top_k is not None:
        require_whole(top_k, "top_k", 1)
    if top_p is not None:
        require_number(top_p, "top_p")
        # written so that NaN is refused too
        if not 0 < top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, got {top_p}")
    require_whole(seed, "seed", 0)
    if stop is not None:
        require_kind(stop, str, "stop", "a text")
        if not stop:
            raise InputError("stop is a text of at least one character, got ''; None never stops")


def rank(model: LanguageModel[Any], texts: Iterable[str]) -> list[Ranked]:
    """The texts with their log-probabilities, the most probable first; each is scored as a document of its own.

    Of equals the first stays first; what a model gives no number (NaN) comes last.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"texts are a list of texts, got {described(texts)}; one text: [text]")
    texts = list(texts)
    ranked = map(Ranked, texts, text_logprobs(model, texts))
    return sorted(ranked, key=lambda r: (math.isnan(r.logprob), -r.logprob))


def text_logprobs(model: LanguageModel[Any], texts: Sequence[str]) -> list[float]:
    """ln p of each text as a document of its own, in their order."""
    require_model(model)
    for number, text in enumerate(texts, start=1):
        require_kind(text, str, f"text {number}", "a str")
    split = encode_split("texts", texts, model.vocab, policy_of(model))
    nats_N = token_nats(model, split)
    return [-float(nats_N[a:b].sum()) for a, b in pairwise(split.starts_D1.tolist())]


def top_k(
    model: LanguageModel[Any], context: str = "", k: int = 10, *, all_symbols: bool = True, prefix: str = ""
) -> list[NextToken]:
    """The k most probable symbols after a context, the most probable first; fewer where there are no more.

    Args:
        all_symbols: `<unk>` and `</s>` are among them.  Whoever is to choose has no use for them, and without
            them the probabilities of all that can be listed sum to less than 1.
        prefix: only symbols that start so, as a keyboard completes a word.
    """
    require_model(model)
    require_kind(context, str, "context", "a text")
    require_kind(prefix, str, "prefix", "a text")
    require_whole(k, "k", 1)
    ids_C = _candidates(model.vocab, all_symbols, prefix)
    logprobs_C = _next_logprobs(model, _state_after(model, model.vocab.encode(context)))[ids_C]
    k = min(k, len(ids_C))
    if not k:
        return []
    # sorting the whole vocabulary would take longer than predicting it; of equals the lowest id comes first
    least = np.partition(logprobs_C, -k)[-k]
    likely = np.flatnonzero(logprobs_C >= least)
    best = likely[np.argsort(-logprobs_C[likely], kind="stable")[:k]]
    return [NextToken(model.vocab.tokens[ids_C[i]], float(logprobs_C[i])) for i in best]


def _candidates(vocab: Vocab, all_symbols: bool, prefix: str) -> npt.NDArray[np.int64]:
    """The ids of what may be suggested."""
    is_candidate_V = np.ones(len(vocab), bool)
    if prefix:
        start = named_normalizer(vocab.normalizer).apply(prefix)
        is_candidate_V[:] = [token.startswith(start) for token in vocab.tokens]
    # the start is never predicted
    is_candidate_V[vocab.bos_id] = False
    if not all_symbols:
        is_candidate_V[[vocab.unk_id, vocab.unk_id if vocab.eos_id is None else vocab.eos_id]] = False
    return np.flatnonzero(is_candidate_V)


def _state_after(model: LanguageModel[Any], ids: npt.NDArray[np.int32]) -> Any:
    state = model.initial_state()
    if len(ids):
        _, state = model.logprobs(ids[None, :], state)
    return state


def _next_logprobs(model: LanguageModel[Any], state: Any) -> LogProbs:
    """ln p of every symbol that may come next, shape (V,).  Raises `NotNormalizedError` where nothing can be chosen."""
    logprobs_V: LogProbs = model.next_logprobs(state)[0]
    # the largest of values one of which is NaN is NaN
    if not logprobs_V.max() > -np.inf:
        raise NotNormalizedError(
            "the model has no probabilities for what comes next, only NaN or zero; what is wrong with it is told by: "
            "python -m lmzoo check"
        )
    return logprobs_V


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
