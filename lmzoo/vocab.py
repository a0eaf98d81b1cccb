"""The vocabulary: which symbols there are, and the two mappings between text and ids."""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lmzoo.errors import InputError, TokenError, described, require_kind, require_whole
from lmzoo.markers import BOS, EOS, MARKERS, UNK, escape_marker, unescape_marker
from lmzoo.normalizers import named_normalizer
from lmzoo.segments import Segments, places_where
from lmzoo.spelling import Spelling, code_points, spelling_of
from lmzoo.tokenizers import Tokenizer, restored_tokenizer, tokenizer_for
from lmzoo.tokens import Tokens, taken, tokens_of

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Vocab:
    """Symbols and their ids: `<unk>` is 0, `<s>` is 1, `</s>` (where documents end) is 2, then by falling frequency.

    Args:
        tokens: the symbols, reserved ones first; the position is the id.
        counts_V: how often each occurs in the training text (`<unk>`: words that fell below `min_freq`).
        normalizer, tokenizer: names of both, as `lmzoo.normalizers` and `lmzoo.tokenizers` have them; `encode` applies
            both.
        tokenizer_state: what the tokenizer was trained to, where it was.
        own_unk: the text marks its unknown words as `<unk>` itself (Penn Treebank, WikiText): such a token is
            `<unk>`, scored like any word, and no OOV.
    """

    tokens: tuple[str, ...]
    counts_V: npt.NDArray[np.int64] = field(repr=False, compare=False)
    normalizer: str = "none"
    tokenizer: str = "char"
    own_unk: bool = False
    min_freq: int = 1
    spelling: Spelling | None = field(default=None, repr=False, compare=False)
    tokenizer_state: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        named_normalizer(self.normalizer)
        # the state of a tokenizer that was named by its file is part of the vocabulary from now on
        object.__setattr__(self, "tokenizer_state", self.cutter.state)
        require_kind(self.tokens, tuple, "tokens", "a tuple of symbols")
        if self.tokens[:2] != (UNK, BOS):
            raise InputError(f"a vocabulary starts with {UNK} and {BOS}, got {self.tokens[:2]}")
        if len(self.tokens) != len(self.counts_V):
            raise InputError(f"{len(self.tokens)} tokens but {len(self.counts_V)} counts")
        if self.cutter.is_single:
            long = next((t for t in self.tokens if len(t) != 1 and t not in MARKERS), None)
            if long is not None:
                raise InputError(
                    f"{long!r} is no single character, so the tokenizer is not {self.tokenizer!r}; take 'word'"
                )

    unk_id = 0
    bos_id = 1

    @cached_property
    def cutter(self) -> Tokenizer:
        """The tokenizer itself."""
        return restored_tokenizer(self.tokenizer, self.tokenizer_state)

    @property
    def marks_unknown(self) -> bool:
        """Whether a token `<unk>` of the text is the symbol: the text has it on purpose, and its words are tokens."""
        return self.own_unk and self.cutter.by_words

    @property
    def eos_id(self) -> int | None:
        """The id of `</s>`, or None where documents have no end."""
        return 2 if self.tokens[2:3] == (EOS,) else None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_predictable(self) -> int:
        """Symbols that can be predicted: all but `<s>`.  A uniform model has this perplexity."""
        return len(self.tokens) - 1

    @cached_property
    def token_to_id(self) -> Mapping[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that two vocabularies share only if they map every text to the same ids."""
        # a trained tokenizer is what it was trained to, whatever it is called
        tokenizer = self.tokenizer if self.tokenizer_state is None else {"state": self.tokenizer_state}
        parts = [self.normalizer, tokenizer, self.own_unk, list(self.tokens)]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()[:16]

    def encode(self, text: str) -> Ids:
        """Ids of a text, normalised and tokenized here; no `<s>` and no `</s>` is added."""
        require_kind(text, str, "a text", "a str")
        return self.encode_normalized(named_normalizer(self.normalizer).apply(text))[0]

    def encode_normalized(self, text: str) -> tuple[Ids, Ids]:
        """Ids of a normalised text and the positions of those that are out of vocabulary."""
        if self.tokenizer == "char":
            return self._encode_chars(text)
        return self.encode_tokens(self.cutter.split(text))

    def encode_tokens(self, tokens: Sequence[str]) -> tuple[Ids, Ids]:
        """Ids of tokens as the tokenizer gave them (literal markers not yet escaped), and the OOV positions."""
        return _unknown_to_unk(self.ids_of(tokens))

    def ids_of(self, tokens: Sequence[str]) -> Ids:
        """Ids of tokens as they stand in the text, -1 for those out of vocabulary."""
        return np.fromiter(map(self._raw_token_to_id.get, tokens, itertools.repeat(-1)), np.int32, len(tokens))

    def _encode_chars(self, text: str) -> tuple[Ids, Ids]:
        codes = code_points(text)
        table = self._code_point_to_id
        return _unknown_to_unk(table[np.minimum(codes, len(table) - 1)])

    @cached_property
    def _raw_token_to_id(self) -> Mapping[str, int]:
        """From tokens as they stand in the text, where a literal `<unk>` is written without its backslash."""
        lookup = dict(zip(self.tokens, range(len(self.tokens)), strict=True))
        for marker in MARKERS:
            lookup.pop(marker, None)
        # few tokens start with a backslash; all are taken out before one is put back under another's name
        written = [(token, lookup.pop(token)) for token in self.tokens if token.startswith("\\")]
        lookup.update((unescape_marker(token), number) for token, number in written)
        if self.marks_unknown:
            lookup[UNK] = self.unk_id
        return lookup

    @cached_property
    def _code_point_to_id(self) -> Ids:
        symbols = {ord(t): i for i, t in enumerate(self.tokens) if t not in MARKERS}
        # the last cell stands for every code point beyond the table and is always unknown
        table = np.full(max(symbols, default=0) + 2, -1, np.int32)
        table[list(symbols)] = list(symbols.values())
        return table

    def checked(self, tokens_BxL: npt.NDArray[Any]) -> npt.NDArray[np.integer[Any]]:
        """The ids given, unchanged: a 2-D array of int32 or int64, every id in the vocabulary, L = 0 allowed.

        Raises `TokenError` with what was got and the range wanted.
        """
        if not isinstance(tokens_BxL, np.ndarray):
            raise TokenError(f"tokens are a numpy array of shape (B, L), got {type(tokens_BxL).__name__}")
        if tokens_BxL.dtype not in (np.int32, np.int64):
            raise TokenError(f"tokens are int32 or int64, got {tokens_BxL.dtype}; convert with .astype(np.int32)")
        if tokens_BxL.ndim != 2:
            raise TokenError(f"tokens are of shape (B, L), got shape {tokens_BxL.shape}; one text: tokens[None, :]")
        if tokens_BxL.size:
            # a single token, as sampling has it: the two calls would take as long as a small model's answer
            least, most = (tokens_BxL.min(), tokens_BxL.max()) if tokens_BxL.size > 1 else (tokens_BxL.item(),) * 2
            if least < 0 or most >= len(self.tokens):
                bad = least if least < 0 else most
                raise TokenError(f"token {bad} is outside 0..{len(self.tokens) - 1}")
        return tokens_BxL

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: `<s>` leaves nothing, `</s>` a line end, `<unk>` its name."""
        try:
            numbers = [operator.index(i) for i in ids]
        except TypeError as error:
            raise TokenError(f"ids are whole numbers, got {described(ids)}") from error
        names = []
        for i in numbers:
            if not 0 <= i < len(self.tokens):
                raise TokenError(f"id {i} is outside 0..{len(self.tokens) - 1}")
            token = self.tokens[i]
            if token == EOS:
                names.append("\n")
            elif token != BOS:
                names.append(unescape_marker(token))
        return self.cutter.join(names)

    def spelling_nats(self, token: str) -> float:
        """What the spelling of an out-of-vocabulary token costs; infinite where the vocabulary knows no spelling."""
        return float("inf") if self.spelling is None else self.spelling.nats(token)

    def to_header(self) -> dict[str, Any]:
        """All of it as plain JSON values, for a model file."""
        return {
            "tokens": list(self.tokens),
            "normalizer": self.normalizer,
            "tokenizer": self.tokenizer,
            "own_unk": self.own_unk,
            "min_freq": self.min_freq,
            "counts": self.counts_V.tolist(),
            "spelling": None if self.spelling is None else self.spelling.to_header(),
            **({} if self.tokenizer_state is None else {"tokenizer_state": self.tokenizer_state}),
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Vocab:
        spelling = header["spelling"]
        return cls(
            tokens=tuple(header["tokens"]),
            counts_V=np.array(header["counts"], np.int64),
            normalizer=header["normalizer"],
            tokenizer=header["tokenizer"],
            own_unk=header["own_unk"],
            min_freq=header["min_freq"],
            spelling=None if spelling is None else Spelling(**spelling),
            tokenizer_state=header.get("tokenizer_state"),
        )


def build_vocab(
    documents: Iterable[str],
    *,
    normalizer: str = "none",
    tokenizer: str = "char",
    has_eos: bool = False,
    n_starts: int | None = None,
    own_unk: bool = False,
    min_freq: int = 1,
) -> Vocab:
    """The vocabulary of training documents (already normalised): tokens seen at least `min_freq` times.

    Ids fall by frequency, ties by the token itself, so the result does not depend on the order of the documents.
    `n_starts`: how many of them open with `<s>` (None: all; running text has one start and many ends).
    """
    segments = Segments.of(documents)
    cutter = tokenizer_for(tokenizer, lambda: segments)
    return vocab_of(
        tokens_of(segments, cutter),
        normalizer=normalizer,
        tokenizer=cutter,
        has_eos=has_eos,
        n_starts=n_starts,
        own_unk=own_unk,
        min_freq=min_freq,
    )


class TokenCounts(Protocol):
    """The different tokens of some segments and how often each occurs."""

    @property
    def different(self) -> Sequence[str]: ...

    @property
    def counts_K(self) -> npt.NDArray[np.int64]: ...

    @property
    def n_segments(self) -> int: ...


def vocab_of(
    tokens: TokenCounts,
    *,
    normalizer: str,
    tokenizer: Tokenizer,
    has_eos: bool,
    n_starts: int | None,
    own_unk: bool,
    min_freq: int,
) -> Vocab:
    """The vocabulary of training documents already cut into tokens; see `build_vocab`.

    Where the tokenizer's symbols are a closed set, it holds every one of them, and `min_freq` leaves none out.
    """
    require_whole(min_freq, "min_freq", 1)
    closed = tokenizer.symbols
    different, counts_K = _with_unseen(tokens, closed)
    by_token_K = np.array(sorted(range(len(different)), key=different.__getitem__), np.int64)
    order_K = by_token_K[np.argsort(-counts_K[by_token_K], kind="stable")]
    if closed is not None:
        known, min_freq = set(closed), 1
        kept = [k for k in order_K.tolist() if different[k] in known]
    else:
        kept = order_K[counts_K[order_K] >= min_freq].tolist()
        if own_unk and tokenizer.by_words:
            kept = [k for k in kept if different[k] != UNK]
    # the text's own <unk>, where it has one, and what is too rare
    reserved = {UNK: int(counts_K.sum() - counts_K[kept].sum())}
    reserved[BOS] = tokens.n_segments if n_starts is None else n_starts
    if has_eos:
        reserved[EOS] = tokens.n_segments
    return Vocab(
        tokens=(*reserved, *map(escape_marker, map(different.__getitem__, kept))),
        counts_V=np.concatenate((list(reserved.values()), counts_K[kept])),
        normalizer=normalizer,
        tokenizer=tokenizer.name,
        tokenizer_state=tokenizer.state,
        own_unk=own_unk,
        min_freq=min_freq,
        spelling=_spelling(tokens, kept, is_single=tokenizer.is_single),
    )


def _spelling(tokens: TokenCounts, kept: Sequence[int], *, is_single: bool) -> Spelling:
    """How unknown tokens are spelled: by all characters or, where tokens are characters, by those that are no symbols.

    A symbol is never unknown: to leave room for it would charge a second time for what `<unk>` said already.
    """
    if not is_single:
        return spelling_of(tokens.different, tokens.counts_K, has_ends=True)
    rare = sorted(set(range(len(tokens.different))).difference(kept))
    return spelling_of([tokens.different[k] for k in rare], tokens.counts_K[rare], has_ends=False)


def _with_unseen(tokens: TokenCounts, closed: Sequence[str] | None) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
    """The different tokens and their counts, and behind them those of a closed set that do not occur."""
    different, counts_K = tokens.different, tokens.counts_K
    if closed is None:
        return different, counts_K
    seen = set(different)
    unseen = [symbol for symbol in closed if symbol not in seen]
    return [*different, *unseen], np.concatenate((counts_K, np.zeros(len(unseen), np.int64)))


class Encoded(NamedTuple):
    """Some segments (S), encoded and laid end to end; `oov_M` are positions in `ids_N`."""

    ids_N: Ids
    lengths_S: npt.NDArray[np.int64]
    oov_M: npt.NDArray[np.int64]
    spelling_nats_M: npt.NDArray[np.float64]


def encode_all(tokens: Tokens, vocab: Vocab, eos_id: int | None) -> Encoded:
    """Encode segments that the vocabulary's tokenizer cut, each followed by `eos_id` if given.

    The tokens are used up: where their numbers take as much room as ids, they become these.
    """
    numbers_T = tokens.numbers_T
    lengths_S = places_where(lambda block: block == 0, numbers_T) + 1
    lengths_S[1:] -= lengths_S[:-1].copy()
    if eos_id is None:
        numbers_T, lengths_S = numbers_T[numbers_T != 0], lengths_S - 1
    ids_K1 = np.insert(vocab.ids_of(tokens.different), 0, eos_id or 0)
    is_unknown_K1 = ids_K1 < 0
    oov_M = places_where(is_unknown_K1.__getitem__, numbers_T) if is_unknown_K1.any() else np.zeros(0, np.int64)
    unknown_K = np.flatnonzero(is_unknown_K1)
    nats_K1 = np.zeros(len(ids_K1))
    nats_K1[unknown_K] = [vocab.spelling_nats(tokens.different[k - 1]) for k in unknown_K.tolist()]
    ids_K1[unknown_K] = vocab.unk_id
    spelling_nats_M = nats_K1[numbers_T[oov_M]]
    ids_N = taken(ids_K1, numbers_T, in_place=True)
    return Encoded(ids_N=ids_N, lengths_S=lengths_S, oov_M=oov_M, spelling_nats_M=spelling_nats_M)


def count_markers(tokens: Tokens, *, own_unk: bool) -> int:
    """How many tokens of a text read like a marker without being one; `own_unk`: `<unk>` is one."""
    ends_like_one = ((k, word) for k, word in enumerate(tokens.different) if word.endswith(MARKERS))
    like = [k for k, word in ends_like_one if escape_marker(word) != word and not (own_unk and word == UNK)]
    return int(tokens.counts_K[like].sum())


def _unknown_to_unk(found: Ids) -> tuple[Ids, Ids]:
    oov = np.flatnonzero(found < 0).astype(np.int32)
    if len(oov):
        found[oov] = Vocab.unk_id
    return found, oov
