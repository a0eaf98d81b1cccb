"""The models of nltk.lm, counted and scored by nltk itself.

What it leaves to its users is settled so that each is a distribution over what can come next:

* It is given n-grams that end in a token of the text or in `</s>`; with all of the padded text it would also predict
  `<s>`, and one `</s>` after another.
* `<s>` stands in contexts alone and is not counted among the symbols.
* `nltk-mle` has nothing to say after a context that it never saw: there the context is shortened until it was seen.
* `nltk-kn` counts the continuations of a context anew at each question, a walk through all n-grams; here they are
  counted once.  The probability of a token is nltk's own `score`; those of a whole vocabulary are `nltk_formulas.py`'s.

`nltk-stupid` stays what it is: its scores do not sum to 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmzoo.adapters.nltk_formulas import Continuations, Formulas
from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import InputError, LmzooError, MissingLibraryError, OptionValueError, TokenError, TooLargeError
from lmzoo.interface import Arrays, Progress, Tokens
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.integer[Any]]
# the last n-1 ids of each row, the newest last; ABSENT where there are fewer
NltkState = npt.NDArray[np.int64]
Smoothing = Literal["mle", "laplace", "lidstone", "kn", "wb", "ad", "stupid"]

ABSENT = -1
MAX_ORDER = 32
# n-grams handed to nltk at a time, which holds them all before it counts
_PIECE = 100_000
# the options that only some have, with the value where none is given: nltk's own where it has one
_OWN_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "lidstone": {"gamma": 0.1},
    "kn": {"discount": 0.1},
    "ad": {"discount": 0.75},
    "stupid": {"alpha": 0.4},
}


@dataclass(frozen=True, kw_only=True)
class NltkConfig:
    """A model of nltk.lm.

    Attributes:
        smoothing: which one; the model's name sets it.
        order: n; the context is n-1 tokens.
        gamma: of `nltk-lidstone`: what is added to every count.
        discount: of `nltk-kn` and `nltk-ad`: what is taken off every count.
        alpha: of `nltk-stupid`: what a score costs for each order that it backs off.
    """

    smoothing: Smoothing
    order: int = 3
    gamma: float | None = None
    discount: float | None = None
    alpha: float | None = None

    def __post_init__(self) -> None:
        # Kneser-Ney counts single symbols by what they follow
        least = 2 if self.smoothing == "kn" else 1
        if not least <= self.order <= MAX_ORDER:
            raise OptionValueError(f"order must be {least} to {MAX_ORDER}, got {self.order}")
        own = _OWN_OPTIONS.get(self.smoothing, {})
        for name in ("gamma", "discount", "alpha"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, own.get(name))
            elif name not in own:
                owners = [f"nltk-{smoothing}" for smoothing, options in _OWN_OPTIONS.items() if name in options]
                raise OptionValueError(f"{name} belongs to {' and '.join(owners)}, not to nltk-{self.smoothing}")
        if self.gamma is not None and not 0 < self.gamma < float("inf"):
            raise OptionValueError(f"gamma must be above 0 and finite, got {self.gamma}; for 0 take nltk-mle")
        if self.discount is not None and not 0 <= self.discount <= 1:
            raise OptionValueError(f"discount must be 0 to 1, got {self.discount}")
        if self.alpha is not None and not 0 < self.alpha <= 1:
            raise OptionValueError(f"alpha must be above 0 and at most 1, got {self.alpha}")

    @property
    def options(self) -> dict[str, float]:
        """Those that the formula has, with add-one as one of add-gamma."""
        own = {name: getattr(self, name) for name in _OWN_OPTIONS.get(self.smoothing, {})}
        return {"gamma": 1.0} if self.smoothing == "laplace" else own


class NltkModel:
    """One of nltk's models behind the interface.

    Args:
        ids_N, starts_D1: the training text: document d is `ids_N[starts_D1[d]:starts_D1[d + 1]]`.
    """

    kind = "nltk"
    is_adaptive = False
    kernel_name = "nltk"

    def __init__(self, vocab: Vocab, config: NltkConfig, ids_N: Ids, starts_D1: npt.NDArray[np.int64]) -> None:
        self.vocab = vocab
        self.config = config
        self.context_size: int | None = config.order - 1
        # one symbol alone needs no backing off
        self.is_normalized = config.smoothing != "stupid" or config.order == 1
        self._text = (ids_N, starts_D1)
        self._nltk = _fitted(vocab, config, ids_N, starts_D1)
        # a context that is asked for becomes an entry of nltk's, so they are counted before
        counts = self._nltk.counts
        self.n_params = len(counts.unigrams) + sum(
            len(following) for order in range(2, config.order + 1) for following in counts[order].values()
        )
        self._score = _seen_only(self._nltk) if config.smoothing == "mle" else self._nltk.unmasked_score
        self._formulas = Formulas(
            config.smoothing, config.order, config.options, counts, vocab.token_to_id, vocab.bos_id
        )

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> NltkState:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        return np.full((batch_size, self.config.order - 1), self.vocab.bos_id if bos else ABSENT, np.int64)

    def logprobs(self, tokens_BxL: Tokens, state: NltkState) -> tuple[Floats, NltkState]:
        """ln p of each token, float64: nltk is asked token by token."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"{len(tokens_BxL)} rows of tokens, but the state has {len(state)}")
        read_BxN = np.concatenate([state, tokens_BxL], axis=1)
        p_BxL = np.zeros(tokens_BxL.shape)
        size = state.shape[1]
        for row, ids in enumerate(read_BxN.tolist()):
            for column in range(tokens_BxL.shape[1]):
                p_BxL[row, column] = self._p(ids[column + size], ids[column : column + size])
        after = read_BxN[:, read_BxN.shape[1] - size :].astype(np.int64)
        return _ln(p_BxL), after

    def next_logprobs(self, state: NltkState) -> Floats:
        """ln p over the whole vocabulary, shape (B, V), by nltk's formulas."""
        return _ln(np.stack([self._formulas.distribution(self._words(ids)) for ids in state.tolist()]))

    def _p(self, token: int, context: Sequence[int]) -> float:
        if token == self.vocab.bos_id:
            return 0.0
        return float(self._score(self.vocab.tokens[token], self._words(context)))

    def _words(self, context: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.vocab.tokens[i] for i in context if i != ABSENT)

    def to_parts(self) -> tuple[dict[str, Any], Arrays]:
        """The options and the training text, which is counted again when it is loaded."""
        ids_N, starts_D1 = self._text
        return {"config": asdict(self.config)}, {"ids": np.asarray(ids_N, np.int32), "starts": starts_D1}

    @classmethod
    def from_parts(cls, vocab: Vocab, options: Mapping[str, Any], arrays: Arrays) -> NltkModel:
        """The inverse of `to_parts`.  Raises `ValueError` for arrays that are no text of this vocabulary."""
        ids_N, starts_D1 = arrays["ids"], arrays["starts"]
        is_text = (
            len(starts_D1) and starts_D1[0] == 0 and starts_D1[-1] == len(ids_N) and (np.diff(starts_D1) >= 0).all()
        )
        if not is_text or not ((ids_N >= 0) & (ids_N < len(vocab))).all():
            raise ValueError("its arrays are no text of its vocabulary")
        return cls(vocab, NltkConfig(**options["config"]), ids_N, starts_D1)


class NltkTrainer:
    """Has nltk count the training text; the validation text plays no part, and there is no device path."""

    def __init__(self, config: NltkConfig, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self._vocab = vocab
        self._model: NltkModel | None = None

    @property
    def model(self) -> NltkModel:
        if self._model is None:
            raise LmzooError("nothing was counted yet; run steps() first")
        return self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Count, and yield once, at the end."""
        self._model = NltkModel(self._vocab, self.config, train.ids_N, train.starts_D1)
        yield Progress(tokens=train.n_tokens)


def _library() -> Any:
    try:
        import nltk.lm
    except ImportError as error:
        raise MissingLibraryError("nltk is not installed: python -m pip install 'lmzoo[text]'") from error
    return nltk


def _fitted(vocab: Vocab, config: NltkConfig, ids_N: Ids, starts_D1: npt.NDArray[np.int64]) -> Any:
    """The model of nltk's, fitted by nltk."""
    nltk = _library()
    model = _unfitted(nltk, config, _symbols(nltk, vocab))
    ngrams = _ngrams(vocab, config.order, ids_N, starts_D1)
    try:
        # counts add up, so it makes no difference where the text is cut
        model.fit(iter(lambda: list(itertools.islice(ngrams, _PIECE)), []))
    except ValueError as error:
        raise TooLargeError(
            f"nltk counts no more than so many n-grams: {error}; take a lower order, less text or a larger min_freq"
        ) from error
    if config.smoothing == "kn":
        model.estimator = _counted_once(nltk, model, config)
    return model


def _unfitted(nltk: Any, config: NltkConfig, symbols: Any) -> Any:
    lm, order = nltk.lm, config.order
    makers: dict[str, Callable[[], Any]] = {
        "mle": lambda: lm.MLE(order, vocabulary=symbols),
        "laplace": lambda: lm.Laplace(order, vocabulary=symbols),
        "lidstone": lambda: lm.Lidstone(config.gamma, order, vocabulary=symbols),
        "kn": lambda: lm.KneserNeyInterpolated(order, discount=config.discount, vocabulary=symbols),
        "wb": lambda: lm.WittenBellInterpolated(order, vocabulary=symbols),
        "ad": lambda: lm.AbsoluteDiscountingInterpolated(order, discount=config.discount, vocabulary=symbols),
        "stupid": lambda: lm.StupidBackoff(config.alpha, order, vocabulary=symbols),
    }
    return makers[config.smoothing]()


def _symbols(nltk: Any, vocab: Vocab) -> Any:
    """nltk's vocabulary of what can come next; `<s>` is known in contexts, but is none of them."""
    bos = vocab.tokens[vocab.bos_id]

    class Predictable(nltk.lm.Vocabulary):  # type: ignore[misc]
        """nltk counts its label of what is unknown as one more symbol; here that label is `<s>`."""

        def __iter__(self) -> Iterator[str]:
            return iter(self.counts)

    return Predictable((token for token in vocab.tokens if token != bos), unk_label=bos)


def _ngrams(vocab: Vocab, order: int, ids_N: Ids, starts_D1: npt.NDArray[np.int64]) -> Iterator[tuple[str, ...]]:
    """The n-grams of orders 1 to n that end in a token of a document, which is padded with n-1 `<s>` on its left."""
    from nltk.util import everygrams

    bos = vocab.tokens[vocab.bos_id]
    for start, end in itertools.pairwise(starts_D1.tolist()):
        words = [bos] * (order - 1) + [vocab.tokens[i] for i in ids_N[start:end].tolist()]
        yield from (ngram for ngram in everygrams(words, max_len=order) if ngram[-1] != bos)


def _seen_only(model: Any) -> Callable[[str, tuple[str, ...]], float]:
    """Relative frequencies after the longest part of a context that was seen."""

    def score(word: str, context: tuple[str, ...]) -> float:
        while context and not model.context_counts(context):
            context = context[1:]
        return float(model.unmasked_score(word, context))

    return score


def _counted_once(nltk: Any, model: Any, config: NltkConfig) -> Any:
    """nltk's estimator of Kneser-Ney, its counts of continuations looked up instead of counted at each question."""
    continuations = Continuations(model.counts, config.order)

    class CountedOnce(nltk.lm.smoothing.KneserNey):  # type: ignore[misc]
        """The same counts."""

        def _continuation_counts(self, word: str, context: tuple[str, ...] = ()) -> tuple[int, int]:
            return continuations.counts[context][word], continuations.totals[context]

    return CountedOnce(model.vocab, model.counts, order=config.order, discount=config.discount)


def _ln(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        # sums of what was rounded may be a hair above 1
        return np.minimum(np.log(p), 0.0)
