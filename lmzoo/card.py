"""What a corpus is like: sizes, repetitions, characters, how its words are spread, how much of it is new.

Every figure is counted on the corpus as it is loaded; presentation stands elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import lzma
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.characters import NormalForms, character_counts, code_of, invisible, name_of, normal_forms, scripts
from lmzoo.corpus import Corpus, Split
from lmzoo.errors import InputError
from lmzoo.ngram.questions import NgramCounts
from lmzoo.ngram.sparsity import SparsityTable, sparsity
from lmzoo.parts import Policy
from lmzoo.segments import Segments

# n-grams are counted in so many training tokens at most: more would take minutes and gigabytes, and show the same
MOST_NGRAM_TOKENS = 10_000_000
# as orientation: more of the text would take long and compress hardly better
MOST_COMPRESSED_BYTES = 1 << 20
_N_SYMBOLS = 40
_N_CHARACTERS = 60
_N_POINTS = 60
_START_CHARS = 60
_SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_MIN_FREQS = (1, 2, 3, 5, 10)
_BLOCK = 1 << 20

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LongestLine:
    """The longest line of a part: its number among those held (from 1, blank ones may be skipped), and its start."""

    number: int
    n_chars: int
    start: str


@dataclass(frozen=True, kw_only=True)
class PartCard:
    """One part.  Lines are compared without white space at their ends, and blank ones are none.

    Args:
        n_chars, n_bytes: of its documents; characters of the normalised text, bytes of the text as read.
        n_types: different symbols of the vocabulary that occur in it, the ends of documents left out.
        n_repeated_documents, n_repeated_lines: how many are the same as one before them.
    """

    name: str
    n_documents: int
    n_lines: int
    n_tokens: int
    n_types: int
    n_oov: int
    n_chars: int
    n_bytes: int
    n_repeated_documents: int
    n_repeated_lines: int
    longest_line: LongestLine | None


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of one part stands word for word in another, which was read before it; 0 to 1."""

    part: str
    found_in: str
    documents: float
    lines: float


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What a smaller vocabulary would leave unknown: the most frequent `n_symbols` of the training text.

    Shares of tokens, 0 to 1; None of a part without any.
    `min_freq`: the cut-off that gives this vocabulary, where one was asked about.
    """

    n_symbols: int
    min_freq: int | None
    train_oov: float | None
    valid_oov: float | None
    test_oov: float | None


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A symbol, a character or a script, and how often it occurs; of characters code point and name too."""

    what: str
    count: int
    code: str | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Card:
    """What `describe` found.

    Args:
        n_symbols: predictable ones, as a uniform model sees them.
        n_blank_lines, n_markers, n_normalized, n_replaced: as of `Corpus`.
        coverage: by size of the vocabulary, then by `min_freq`.
        symbols: the most frequent of the training part.
        characters: of all parts as read, by code point; `n_characters` is how many different ones there are.
        frequencies: (rank, count) of symbols of the training part, at ranks that grow by the same factor (Zipf).
        growth: (tokens read, different ones seen) of the training part, likewise (Heaps).
        ngrams: of the first `n_ngram_tokens` training tokens, seen from the test part.
        xz_bits_per_byte: of the first `n_compressed_bytes` of the training text.
    """

    name: str
    sha256: str
    tokenizer: str
    normalize: str
    documents: str
    min_freq: int
    n_symbols: int
    n_blank_lines: int
    n_markers: int
    n_normalized: int
    n_replaced: int
    parts: tuple[PartCard, ...]
    overlaps: tuple[Overlap, ...]
    coverage: tuple[Coverage, ...]
    normal_forms: NormalForms
    n_characters: int
    characters: tuple[Counted, ...]
    invisible: tuple[Counted, ...]
    scripts: tuple[Counted, ...]
    symbols: tuple[Counted, ...]
    frequencies: tuple[tuple[int, int], ...]
    growth: tuple[tuple[int, int], ...]
    ngrams: SparsityTable
    n_ngram_tokens: int
    xz_bits_per_byte: float
    n_compressed_bytes: int

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values; shares that there are none of are None."""
        facts = dataclasses.asdict(self)
        facts["ngrams"] = [
            dataclasses.asdict(row)
            | {name: getattr(row, name) for name in ("seen_share", "once_share", "new_token_share", "new_type_share")}
            for row in self.ngrams
        ]
        return facts


def describe(corpus: Corpus, *, order: int = 5) -> Card:
    """The card of a corpus.

    Args:
        order: the most tokens counted together.

    Raises `InputError` for an order that cannot be counted, or what is no corpus.
    """
    if not isinstance(corpus, Corpus):
        raise InputError(f"a corpus is described, as load_corpus gives it; got a {type(corpus).__name__}")
    splits = [split for split in _splits(corpus) if split.n_tokens]
    looked_at = [_looked_at(split) for split in splits]
    texts = [_held(split) for split in splits]
    counts = _characters(texts, corpus.documents)
    kept = corpus.train.head(MOST_NGRAM_TOKENS)
    counted = NgramCounts(kept, order)
    bits, n_compressed = _compressibility(corpus.train)
    return Card(
        name=corpus.name,
        sha256=corpus.sha256,
        tokenizer=corpus.tokenizer,
        normalize=corpus.normalize,
        documents=corpus.documents,
        min_freq=corpus.vocab.min_freq,
        n_symbols=corpus.vocab.n_predictable,
        n_blank_lines=corpus.n_blank,
        n_markers=corpus.n_markers,
        n_normalized=corpus.n_normalized,
        n_replaced=corpus.n_replaced,
        parts=tuple(looked.card for looked in looked_at),
        overlaps=tuple(_overlap(part, before) for before, part in itertools.combinations(looked_at, 2)),
        coverage=tuple(_coverage(corpus)),
        normal_forms=normal_forms(texts),
        n_characters=len(counts),
        characters=_most_frequent(counts),
        invisible=tuple(itertools.starmap(_character, invisible(counts).items())),
        scripts=tuple(Counted(what=script, count=n) for script, n in scripts(counts).items()),
        symbols=tuple(_symbols(corpus)),
        frequencies=tuple(_frequencies(corpus)),
        growth=tuple(_growth(corpus)),
        ngrams=sparsity(counted, corpus.test),
        n_ngram_tokens=kept.n_tokens,
        xz_bits_per_byte=bits,
        n_compressed_bytes=n_compressed,
    )


@dataclass(frozen=True)
class _Looked:
    """A part, and hashes of its documents and lines: 64 bits each, so equal ones are equal texts."""

    card: PartCard
    documents: Hashes
    lines: Hashes


def _held(split: Split) -> Segments:
    return split.segments if isinstance(split.segments, Segments) else Segments.of(split.segments)


def _looked_at(split: Split) -> _Looked:
    held = _held(split)
    documents = _hashes([held.text] if split.documents == "running" else held)
    lines, longest = _lines(held)
    ids_U = np.unique(split.ids_N)
    card = PartCard(
        name=split.name,
        n_documents=len(split),
        n_lines=len(lines),
        n_tokens=split.n_tokens,
        n_types=len(ids_U) - int(split.vocab.eos_id in ids_U),
        n_oov=split.n_oov,
        n_chars=int(split.chars_D.sum()),
        n_bytes=int(split.bytes_D.sum()),
        n_repeated_documents=_n_repeated(documents),
        n_repeated_lines=_n_repeated(lines),
        longest_line=longest,
    )
    return _Looked(card, documents, lines)


def _hashes(texts: Iterable[str]) -> Hashes:
    """Of texts without white space at their ends; of blank ones none."""
    hashes = array("q", (hash(bare) for text in texts if (bare := text.strip())))
    return np.frombuffer(hashes, np.int64)


def _lines(held: Segments) -> tuple[Hashes, LongestLine | None]:
    """Hashes of the lines, and the longest one, in one pass."""
    hashes = array("q")
    longest, number, start = 0, 0, ""
    for n, line in enumerate(held.lines(), start=1):
        if bare := line.strip():
            hashes.append(hash(bare))
        if len(line) > longest:
            longest, number, start = len(line), n, line[:_START_CHARS]
    found = LongestLine(number=number, n_chars=longest, start=start) if longest else None
    return np.frombuffer(hashes, np.int64), found


def _n_repeated(hashes: Hashes) -> int:
    return len(hashes) - len(np.unique(hashes))


def _overlap(part: _Looked, before: _Looked) -> Overlap:
    documents, lines = (
        float(np.isin(a, b).mean()) if len(a) else 0.0
        for a, b in ((part.documents, before.documents), (part.lines, before.lines))
    )
    return Overlap(part=part.card.name, found_in=before.card.name, documents=documents, lines=lines)


def _coverage(corpus: Corpus) -> Iterator[Coverage]:
    """By size of the vocabulary, all of it last, then by `min_freq`; of a closed set of symbols all of it alone."""
    counts_K = corpus.vocab.counts_V[_n_reserved(corpus) :]
    sizes: list[tuple[int, int | None]] = [(len(counts_K), None)]
    if corpus.vocab.cutter.symbols is None:
        sizes = [*((size, None) for size in _SIZES if size < len(counts_K)), *sizes]
        sizes += [(int((counts_K >= k).sum()), k) for k in _MIN_FREQS if k >= corpus.vocab.min_freq]
    for size, min_freq in sizes:
        shares = [_unknown_share(split, _n_reserved(corpus) + size) for split in _splits(corpus)]
        yield Coverage(n_symbols=size, min_freq=min_freq, train_oov=shares[0], valid_oov=shares[1], test_oov=shares[2])


def _unknown_share(split: Split, n_ids: int) -> float | None:
    """Of the tokens of a part those that a vocabulary of the first ids lacks."""
    if not split.n_tokens:
        return None
    return (int(np.count_nonzero(split.ids_N >= n_ids)) + split.n_oov) / split.n_tokens


def _n_reserved(corpus: Corpus) -> int:
    """The first ids, which are no text: symbols follow by falling frequency."""
    return 2 + (corpus.vocab.eos_id is not None)


def _splits(corpus: Corpus) -> tuple[Split, Split, Split]:
    return corpus.train, corpus.valid, corpus.test


def _characters(texts: Sequence[Segments], documents: Policy) -> dict[str, int]:
    counts = character_counts(texts)
    if documents == "file":
        # what ends a segment is no character of a file
        counts["\n"] -= sum(map(len, texts))
    return {c: n for c, n in counts.items() if n}


def _most_frequent(counts: Mapping[str, int]) -> tuple[Counted, ...]:
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_N_CHARACTERS]
    return tuple(itertools.starmap(_character, best))


def _character(character: str, count: int) -> Counted:
    return Counted(what=character, count=count, code=code_of(character), name=name_of(character))


def _symbols(corpus: Corpus) -> Iterator[Counted]:
    counts_V = corpus.vocab.counts_V.copy()
    # context, never predicted
    counts_V[corpus.vocab.bos_id] = 0
    for i in np.argsort(-counts_V, kind="stable")[:_N_SYMBOLS].tolist():
        if counts_V[i]:
            yield Counted(what=corpus.vocab.tokens[i], count=int(counts_V[i]))


def _frequencies(corpus: Corpus) -> Iterator[tuple[int, int]]:
    vocab = corpus.vocab
    counts_K = vocab.counts_V[_n_reserved(corpus) :]
    if vocab.own_unk:
        counts_K = np.append(counts_K, vocab.counts_V[vocab.unk_id])
    # a closed set has symbols that the text has not
    counts_K = np.sort(counts_K[counts_K > 0])[::-1]
    for rank in _growing(len(counts_K)):
        yield rank, int(counts_K[rank - 1])


def _growth(corpus: Corpus) -> Iterator[tuple[int, int]]:
    """Symbols seen so far, ends of documents left out."""
    ids_N = corpus.train.ids_N
    if corpus.vocab.eos_id is not None:
        ids_N = ids_N[ids_N != corpus.vocab.eos_id]
    firsts_V = np.full(len(corpus.vocab), len(ids_N))
    for end in range(len(ids_N), 0, -_BLOCK):
        start = max(end - _BLOCK, 0)
        # of a symbol that is given several places the last one given stays: its first in the text
        firsts_V[ids_N[start:end][::-1]] = np.arange(end - 1, start - 1, -1)
    firsts_V.sort()
    for n in _growing(len(ids_N)):
        yield n, int(np.searchsorted(firsts_V, n))


def _growing(most: int) -> list[int]:
    """Whole numbers from 1 to `most`, each larger than the one before by about the same factor."""
    return sorted({round(most ** (i / _N_POINTS)) for i in range(_N_POINTS + 1)}) if most else []


def _compressibility(split: Split) -> tuple[float, int]:
    """Bits a byte that xz needs for the start of a text, its own framing included, and how many bytes that is."""
    held = _held(split)
    data = _start_of_files(held) if split.documents == "file" else bytes(held.view[:MOST_COMPRESSED_BYTES])
    return 8 * len(lzma.compress(data)) / len(data), len(data)


def _start_of_files(held: Segments) -> bytes:
    """The first bytes of files, without the LF that each is held with."""
    start = bytearray()
    for s in range(len(held)):
        start += held[s : s + 1].view[:-1][: MOST_COMPRESSED_BYTES - len(start)]
        if len(start) == MOST_COMPRESSED_BYTES:
            break
    return bytes(start)
