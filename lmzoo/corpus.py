"""Corpora: loading, the 80/10/10 split, and the context policy (how a split is cut into documents).

The context policy is decided here and nowhere else; models and `evaluate` only ever see documents.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID, Decoding, Invalid
from lmzoo.ends import Ends
from lmzoo.errors import CorpusError, TooShortError, require_kind, require_number, require_whole
from lmzoo.inputs import Name, files_of, is_text, joined_name, names_of
from lmzoo.markov import MarkovSource, parse_markov
from lmzoo.normalizers import named_normalizer
from lmzoo.parts import Policy, Text, content_sha256, cut_parts, named_policy, nothing_left, share_of_lines
from lmzoo.reading import read_texts
from lmzoo.segments import Segments
from lmzoo.sources import Source, is_named, named_source
from lmzoo.tokenizers import kind_of, tokenizer_for
from lmzoo.tokens import Tokens, normalized, tokens_of
from lmzoo.vocab import Ids, Vocab, count_markers, encode_all, vocab_of

_PARTS = ({"whole"}, {"train", "test"}, {"train", "valid", "test"})


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document: its text as read, its ids (with `</s>` where the policy has one), its size in the two units."""

    text: str
    ids_L: Ids
    n_chars: int
    n_bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """One part of a corpus, encoded: documents laid end to end.

    `ids_N` holds all documents; document d is `ids_N[starts_D1[d]:starts_D1[d + 1]]`.  `chars_D` and `bytes_D` are the
    characters of the normalised text and the UTF-8 bytes of the text as read, each line with its LF.  `oov_M` are the
    positions of out-of-vocabulary tokens, `spelling_nats_M` what their spelling costs.  `lossless`: the tokens give
    back the normalised text but for white space at the ends of lines and documents, which
    costs `ends_nats_D` to tell.
    """

    name: str
    vocab: Vocab
    documents: Policy
    segments: Sequence[str] = field(repr=False)
    ids_N: Ids = field(repr=False)
    starts_D1: npt.NDArray[np.int64] = field(repr=False)
    chars_D: npt.NDArray[np.int64] = field(repr=False)
    bytes_D: npt.NDArray[np.int64] = field(repr=False)
    oov_M: npt.NDArray[np.int64] = field(repr=False)
    spelling_nats_M: npt.NDArray[np.float64] = field(repr=False)
    ends_nats_D: npt.NDArray[np.float64] = field(repr=False)
    lossless: bool

    @property
    def n_tokens(self) -> int:
        return len(self.ids_N)

    @property
    def n_oov(self) -> int:
        return len(self.oov_M)

    @property
    def ends_known(self) -> bool:
        """Whether the ids hold every line end that is counted among characters and bytes."""
        return self.documents == "file" or self.vocab.eos_id is not None

    def __len__(self) -> int:
        return len(self.chars_D)

    def __getitem__(self, d: int) -> Document:
        d = operator.index(d)
        if not -len(self) <= d < len(self):
            raise IndexError(f"document {d} of {len(self)}")
        d %= len(self)
        text = "".join(s + "\n" for s in self.segments) if self.documents == "running" else self.segments[d]
        ids_L = self.ids_N[self.starts_D1[d] : self.starts_D1[d + 1]]
        return Document(text=text, ids_L=ids_L, n_chars=int(self.chars_D[d]), n_bytes=int(self.bytes_D[d]))

    def __iter__(self) -> Iterator[Document]:
        return (self[d] for d in range(len(self)))

    @cached_property
    def lengths_D(self) -> npt.NDArray[np.int64]:
        return np.diff(self.starts_D1)

    def encoded_with(self, vocab: Vocab) -> Split:
        """The same text under another vocabulary."""
        require_kind(vocab, Vocab, "vocab", "a Vocab, such as model.vocab")
        return encode_split(self.name, self.segments, vocab, self.documents)

    def head(self, n_tokens: int) -> Split:
        """The first documents, as many whole ones as fit in `n_tokens`; if the first is longer, it alone, cut there."""
        require_whole(n_tokens, "n_tokens", 0)
        if self.n_tokens <= n_tokens:
            return self
        whole = int(np.searchsorted(self.starts_D1, n_tokens, side="right")) - 1
        return self._first(max(whole, 1), int(self.starts_D1[whole]) if whole else n_tokens)

    def at_least(self, n_tokens: int) -> Split:
        """The first documents that hold so many tokens; if there is only one, it alone, cut there."""
        if self.n_tokens <= n_tokens:
            return self
        n_docs = int(np.searchsorted(self.starts_D1, n_tokens))
        return self._first(n_docs, int(self.starts_D1[n_docs]) if len(self) > 1 else n_tokens)

    def _first(self, n_docs: int, end: int) -> Split:
        """The first documents, the last one cut after token `end` of the split."""
        n_oov = int(np.searchsorted(self.oov_M, end))
        return replace(
            self,
            segments=self.segments[:n_docs] if self.documents != "running" else self.segments,
            ids_N=self.ids_N[:end],
            starts_D1=np.minimum(self.starts_D1[: n_docs + 1], end),
            chars_D=self.chars_D[:n_docs],
            bytes_D=self.bytes_D[:n_docs],
            oov_M=self.oov_M[:n_oov],
            spelling_nats_M=self.spelling_nats_M[:n_oov],
            ends_nats_D=self.ends_nats_D[:n_docs],
            # a cut document's characters are not counted, so nothing may be divided by them
            lossless=self.lossless and bool(end == self.starts_D1[n_docs]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Three splits under one vocabulary, and the facts that a record needs about them.

    Attributes:
        n_blank: blank lines that were skipped.
        n_markers: words that read like `<s>`, `</s>` or `<unk>`.
        test_overlap: share of test lines that stand in the training text.
        n_normalized: characters that normal forms of Unicode changed.
        n_replaced: invalid sequences of bytes that U+FFFD stands for.
        entropy_nats: nats per token of the source that the text was drawn from, where that is known.
    """

    name: str
    train: Split
    valid: Split
    test: Split
    vocab: Vocab
    documents: Policy
    sha256: str
    n_blank: int
    n_markers: int
    test_overlap: float
    n_normalized: int = 0
    n_replaced: int = 0
    entropy_nats: float | None = None

    @property
    def tokenizer(self) -> str:
        return self.vocab.tokenizer

    @property
    def normalize(self) -> str:
        return self.vocab.normalizer

    def with_train_fraction(self, fraction: float) -> Corpus:
        """The same corpus with less to learn from: the first documents that hold this share of the training tokens.

        A single document is cut there.  The symbols, and the other two parts, stay as they are, so that perplexities
        are on one scale; how often each symbol occurs is counted anew.

        Raises `CorpusError` for what is no share, `TooShortError` for less than one token.
        """
        require_number(fraction, "a fraction of the training text")
        if not 0 < fraction <= 1:
            raise CorpusError(f"a fraction of the training text is above 0 and at most 1, got {fraction:g}")
        n_wanted = fraction * self.train.n_tokens
        if n_wanted < 1:
            raise TooShortError(
                f"{fraction:g} of the {self.train.n_tokens:,} training tokens of {self.name} is less than one token; "
                "take a larger fraction or more text"
            )
        train = self.train.at_least(math.ceil(n_wanted))
        counts_V = np.bincount(train.ids_N, minlength=len(self.vocab)).astype(np.int64)
        counts_V[self.vocab.bos_id] = len(train)
        vocab = replace(self.vocab, counts_V=counts_V)
        train, valid, test = (replace(part, vocab=vocab) for part in (train, self.valid, self.test))
        return replace(self, train=train, valid=valid, test=test, vocab=vocab)


def load_corpus(
    name: Name | Sequence[Name] | None = None,
    *,
    train: Name | Sequence[Name] | None = None,
    valid: Name | Sequence[Name] | None = None,
    test: Name | Sequence[Name] | None = None,
    tokens: str | None = None,
    normalize: str | None = None,
    documents: str | None = None,
    min_freq: int = 1,
    encoding: str = DEFAULT_ENCODING,
    invalid: Invalid = DEFAULT_INVALID,
    uncut_if_short: bool = False,
    with_test: bool = True,
) -> Corpus:
    """A corpus by name or of texts (cut 80/10/10 unless its publishers cut it), or of `train`, `valid`, `test` texts.

    A text is a file, packed or not, a folder of files, a pattern such as `news-*.txt`, or `-` for standard input.
    Several are read one after the other, and under `documents="file"` each file is a document.

    Args:
        name: a name in `sources.SOURCES`, a chain such as `markov:order=1`, or texts.
        train, valid, test: texts; without `valid` the last tenth of the training text serves.
        tokens: a name of `lmzoo.tokenizers`, such as `char`, `word` or `bpe:8000`, or the path of a trained
            tokenizer.json (default: the corpus's own, else `char`).
        normalize: `letters`, `lower`, `none`, a normal form `nfc`, `nfd`, `nfkc` or `nfkd`, or a chain such as
            `nfc+lower` (default: the corpus's own, else `none`).
        documents: the context policy: file, line, paragraph or running (default: line for words, file for all else).
        min_freq: rarer training tokens become `<unk>`.
        encoding: of texts of one's own, any that Python knows.
        invalid: `error`, or `replace` by U+FFFD bytes that the encoding does not have.
        uncut_if_short: a text too short for three parts is all training part, to be looked at; an error otherwise.
        with_test: without, the test part is empty: no text of it is read, or what is cut off for it is dropped.

    Raises `CorpusError`, `TextError` and their kinds, and `InputError` for an option that is none.
    """
    decoding = Decoding(encoding=encoding, invalid=invalid)
    given = {part: files for part, files in (("train", train), ("valid", valid), ("test", test)) if files}
    if (name is None) == (not given):
        raise CorpusError("give either the name or path of one corpus, or train= and test= files")
    if name is not None and not names_of(name):
        raise CorpusError("a corpus of no texts: name one at least")
    if given and not {"train", *(["test"] if with_test else [])} <= set(given):
        raise CorpusError(f"train= and test= are both needed, got {' and '.join(f'{p}=' for p in given)} alone")
    source = None if name is None else _source_of(name)
    if source is None:
        label = joined_name(given["train"] if name is None else name)
        texts: Mapping[str, Text] = _readers(given if name is None else {"whole": name}, decoding)
    else:
        if not decoding.is_default:
            raise CorpusError(f"encoding= and invalid= are for texts of one's own; {source.name} is read as it is")
        label, texts = source.name, source.readers()
        tokens, normalize = tokens or source.tokens, normalize or source.normalize
    corpus = corpus_from_texts(
        texts,
        name=label,
        tokens=tokens or "char",
        normalize=normalize or "none",
        documents=documents,
        min_freq=min_freq,
        own_unk=source is not None and source.own_unk,
        uncut_if_short=uncut_if_short,
        with_test=with_test,
    )
    if source is not None and source.chain is not None:
        return _with_entropy(corpus, source.chain)
    return replace(corpus, n_replaced=decoding.n_replaced)


def _source_of(name: Name | Sequence[Name]) -> Source | None:
    """The corpus of this name; None for texts.  Raises `UnknownCorpusError` for what is neither."""
    if not isinstance(name, str | Path):
        return None
    return named_source(str(name)) if is_named(str(name)) or not is_text(name) else None


def _readers(texts: Mapping[str, Name | Sequence[Name]], decoding: Decoding) -> dict[str, Text]:
    """What reads each part, when it is asked to."""
    # standard input is one text at most
    files_of([name for names in texts.values() for name in names_of(names)])
    return {part: partial(read_texts, names, decoding) for part, names in texts.items()}


def _with_entropy(corpus: Corpus, chain: str) -> Corpus:
    """The corpus and what is known of it: nothing where its tokens are not one by one the symbols of its chain."""
    is_as_drawn = named_normalizer(corpus.normalize).lossless
    is_by_symbols = (corpus.tokenizer, corpus.documents) == ("char", "file") and is_as_drawn
    source = MarkovSource.of(parse_markov(chain))
    # one symbol may be <unk>, two would be taken for one
    n_unknown = int((corpus.vocab.encode(source.alphabet) == corpus.vocab.unk_id).sum())
    return replace(corpus, entropy_nats=source.entropy_nats if is_by_symbols and n_unknown <= 1 else None)


def corpus_from_texts(
    texts: Mapping[str, Text],
    *,
    name: str = "text",
    tokens: str = "char",
    normalize: str = "none",
    documents: str | None = None,
    min_freq: int = 1,
    own_unk: bool = False,
    uncut_if_short: bool = False,
    with_test: bool = True,
) -> Corpus:
    """A corpus from strings: `{"whole": …}`, or `{"train": …, "test": …}` with or without `"valid"`.

    A text may be given by a function that reads it, or the texts of several files, so that it is not kept beside its
    encoded form.  The vocabulary is built from the training part alone.
    """
    require_kind(normalize, str, "normalize", "the name of a normaliser")
    normalizer = named_normalizer(normalize)
    kind = kind_of(tokens)
    require_kind(texts, Mapping, "texts", 'a dict of texts by part, such as {"whole": text}')
    if set(texts) not in _PARTS and (with_test or {*texts, "test"} not in _PARTS):
        raise CorpusError(f"texts are whole, or train and test with or without valid; got {', '.join(texts) or 'none'}")
    policy = named_policy(documents or kind.documents)
    cut = cut_parts(texts, policy, normalizer, uncut_if_short=uncut_if_short, with_test=with_test)
    parts = cut.parts
    tokenizer = tokenizer_for(tokens, lambda: normalized(parts["train"], normalizer))
    tokens_of_part = {p: tokens_of(normalized(s, normalizer), tokenizer, Ends()) for p, s in parts.items()}
    vocab = vocab_of(
        tokens_of_part["train"],
        normalizer=normalize,
        tokenizer=tokenizer,
        has_eos=policy != "file",
        n_starts=1 if policy == "running" else None,
        own_unk=own_unk,
        min_freq=min_freq,
    )
    # before the tokens are used up
    n_markers = _count_markers(parts, tokens_of_part, vocab)
    splits = {part: _encoded(part, segments, tokens_of_part[part], vocab, policy) for part, segments in parts.items()}
    for part, split in splits.items():
        if not split.n_tokens and (part == "train" or not cut.is_uncut) and (part != "test" or with_test):
            n_left = sum(int(tokens.chars_S.sum()) for tokens in tokens_of_part.values())
            raise TooShortError(nothing_left(part, name, cut.n_read, n_left, normalize))
    return Corpus(
        name=name,
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        vocab=vocab,
        documents=policy,
        sha256=content_sha256(parts),
        n_blank=cut.n_blank,
        n_normalized=cut.n_normalized,
        n_markers=n_markers,
        test_overlap=share_of_lines(parts["train"], parts["test"]),
    )


def encode_split(
    name: str, segments: Sequence[str], vocab: Vocab, documents: Policy, *, ends: Ends | None = None
) -> Split:
    """Encode segments (raw text: files, lines or paragraphs) into a split under a context policy.

    `ends`: that of the segments before, where these go on.
    """
    held = segments if isinstance(segments, Segments) else Segments.of(segments)
    tokens = tokens_of(normalized(held, named_normalizer(vocab.normalizer)), vocab.cutter, ends or Ends())
    return _encoded(name, held, tokens, vocab, documents)


def _encoded(name: str, segments: Segments, tokens: Tokens, vocab: Vocab, documents: Policy) -> Split:
    encoded = encode_all(tokens, vocab, None if documents == "file" else vocab.eos_id)
    # the line end belongs to the document
    n_end_chars = int(documents != "file")
    sizes = (encoded.lengths_S, tokens.chars_S + n_end_chars, segments.bytes_S + n_end_chars)
    lengths_D, chars_D, bytes_D = (s.sum(keepdims=True) if documents == "running" else s for s in sizes)
    return Split(
        name=name,
        vocab=vocab,
        documents=documents,
        segments=segments,
        ids_N=encoded.ids_N,
        starts_D1=np.concatenate(([0], np.cumsum(lengths_D))),
        chars_D=chars_D,
        bytes_D=bytes_D,
        oov_M=encoded.oov_M,
        spelling_nats_M=encoded.spelling_nats_M,
        ends_nats_D=tokens.ends_nats_S.sum(keepdims=True) if documents == "running" else tokens.ends_nats_S,
        lossless=tokens.lossless,
    )


def _count_markers(parts: Mapping[str, Segments], tokens_of_part: Mapping[str, Tokens], vocab: Vocab) -> int:
    """Tokens of the text as read that read like a marker."""
    tokenizer = vocab.cutter
    if tokenizer.is_single:
        return 0
    is_as_read = named_normalizer(vocab.normalizer).lossless
    as_read = tokens_of_part.values() if is_as_read else (tokens_of(s, tokenizer) for s in parts.values())
    return sum(count_markers(tokens, own_unk=vocab.marks_unknown) for tokens in as_read)
