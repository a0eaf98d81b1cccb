"""A counting model of anything that can be read once: files, documents, ids, more of them than memory holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.corpus import Split, encode_split
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID, Decoding, Invalid
from lmzoo.errors import InputError, TokenError, TooShortError, VocabularyMismatchError
from lmzoo.inputs import File, StandardInput, can_be_read_again, files_of
from lmzoo.ngram.columns import Column, Room, Spool
from lmzoo.ngram.config import NgramConfig
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.reading import CHUNK_CHARS, Chunk, Places, chunks_of, items_of, texts_of
from lmzoo.ngram.trainer import model_of, room_for
from lmzoo.normalizers import named_normalizer
from lmzoo.parts import Policy, cut_segments, named_policy
from lmzoo.spec import configure
from lmzoo.tokenizers import Tokenizer, kind_of
from lmzoo.tokens import normalized, taken, tokens_of
from lmzoo.vocab import Ids, Vocab, vocab_of

_DEFAULT_TOKENS, _DEFAULT_NORMALIZE = "word", "none"


def train_ngram(
    source: Any,
    *,
    vocab: Vocab | None = None,
    order: int = 5,
    smoothing: str = "mkn",
    tokens: str = _DEFAULT_TOKENS,
    normalize: str = _DEFAULT_NORMALIZE,
    documents: str | None = None,
    min_freq: int = 1,
    valid: Any = None,
    max_memory: str | int | None = None,
    encoding: str = DEFAULT_ENCODING,
    invalid: Invalid = DEFAULT_INVALID,
    **options: Any,
) -> NgramModel:
    """A counting model of all of a text, which is read from first to last and never held as a whole.

    Args:
        source: a path (str or Path) of a file, packed or not, or of a folder; a pattern such as `news-*.txt`, or `-`
            for standard input; an iterable of texts (str), each cut into documents like a file that holds it, and of
            files (Path); or, with `vocab`, an iterable of documents as arrays of ids, `</s>` included where it is to
            be predicted.
        vocab: the vocabulary, with its own tokenizer and normaliser; None: that of the text.
        order, smoothing, options: of `NgramConfig`: cutoffs, prune, discounts, …
        tokens: a name of `lmzoo.tokenizers`, such as `word`, `char` or `bpe:8000`, or the path of a tokenizer.json.
            What is learned from the text (`bpe`, `unigram-lm`) has it read twice, so it has to be in files or a list.
        normalize: `none`, `lower`, `letters`, a normal form such as `nfc`, or a chain, `nfc+lower`.
        documents: the context policy: file, line, paragraph or running (default: line where documents end, else file).
        min_freq: rarer tokens become `<unk>`.
        valid: text of the same kinds as `source`, or a Split, for what is fitted (smoothing=jm, discounts=tuned, the k
            of addk); it is held in memory.
        max_memory: bytes beside the vocabulary, such as "200M"; the text's ids and the n-grams go to temporary files,
            and the model is read from them as it is used.
        encoding, invalid: of files, as for `load_corpus`; a `ReplacedWarning` tells how much was replaced.

    The same text gives the same model to the last bit, however it comes and whatever `max_memory` is.

    Raises `InputError` and its kinds for what cannot be read, `TooShortError` for a source without any token, and
    `StorageError` where the disk is full.
    """
    given = {"order": order, "smoothing": smoothing, "max_memory": max_memory}
    config = configure(NgramConfig, {**given, **options}, "train_ngram")
    if config.fitted and valid is None:
        # said before the text is read, not after
        raise InputError(f"{config.fitted} is fitted on validation text, and there is none; give valid")
    decoding = Decoding(encoding=encoding, invalid=invalid)
    reader = _Reader(vocab, decoding, tokens=tokens, normalize=normalize, documents=documents, min_freq=min_freq)
    with room_for(config) as room:
        stream_N, vocab = reader.read(source, room)
        held_out = reader.held_out(valid, vocab)
        decoding.warn_of_replaced()
        return model_of(config, vocab, stream_N, held_out, room)


class _Reader:
    """From any source to a stream of ids, each document after its `<s>`, and the vocabulary."""

    def __init__(
        self,
        vocab: Vocab | None,
        decoding: Decoding,
        *,
        tokens: str,
        normalize: str,
        documents: str | None,
        min_freq: int,
    ) -> None:
        self._decoding = decoding
        self._vocab = _checked_vocab(vocab, tokens, normalize)
        self._normalizer = named_normalizer(vocab.normalizer if vocab else normalize)
        self._kind = kind_of(tokens) if vocab is None else None
        self._documents = documents
        if self._kind is not None:
            default = self._kind.documents
        else:
            default = "line" if vocab is not None and vocab.eos_id is not None else "file"
        self._policy: Policy = named_policy(documents or default)
        self._min_freq = min_freq

    def read(self, source: Any, room: Room) -> tuple[Column, Vocab]:
        """Raises `TooShortError` for a source without any token."""
        if isinstance(source, str | Path):
            return self._read_texts(source, room)
        items = items_of(source)
        first = next(items, None)
        if first is None:
            raise TooShortError("the source is empty, at least 1 token is needed")
        # a list may tell more about itself than its items
        again = source if isinstance(source, list | tuple) else chain((first,), items)
        return self._read_ids(again, room) if isinstance(first, np.ndarray) else self._read_texts(again, room)

    def held_out(self, valid: Any, vocab: Vocab) -> Split | None:
        """The validation text under the vocabulary of the text that was read."""
        if valid is None:
            return None
        if isinstance(valid, Split):
            if valid.vocab.fingerprint != vocab.fingerprint:
                raise VocabularyMismatchError("valid has another vocabulary than the text; give it as text")
            return valid
        texts = ("".join(pieces) for pieces in texts_of(valid, self._decoding))
        segments = [s for text in texts for s in cut_segments(text, self._policy, self._normalizer)[0]]
        split = encode_split("valid", segments, vocab, self._policy)
        if not split.n_tokens:
            raise TooShortError("the validation text has 0 tokens, at least 1 is needed")
        return split

    def _read_texts(self, source: Any, room: Room) -> tuple[Column, Vocab]:
        numbering = _Numbering(room.spool(np.int32))
        tokenizer = self._tokenizer_for(source)
        for chunk in self._chunks(source, tokenizer.places, self._decoding):
            numbering.add(tokens_of(chunk.segments, tokenizer), is_open=chunk.is_open)
        vocab = self._vocab or vocab_of(
            numbering,
            normalizer=self._normalizer.name,
            tokenizer=tokenizer,
            has_eos=self._policy != "file",
            n_starts=1 if self._policy == "running" else None,
            own_unk=False,
            min_freq=self._min_freq,
        )
        return self._stream(numbering, vocab, room), vocab

    def _tokenizer_for(self, source: Any) -> Tokenizer:
        """The vocabulary's tokenizer, or that of the name; where it is learned from the text, after a first reading."""
        if self._kind is None:
            assert self._vocab is not None
            return self._vocab.cutter
        if not self._kind.is_trained:
            return self._kind.make(())
        _require_twice(source, self._kind.name)
        # what is replaced is counted where the text is
        uncounted = replace(self._decoding)
        chunks = self._chunks(source, self._kind.places, uncounted)
        return self._kind.make(s for chunk in chunks for s in chunk.segments)

    def _chunks(self, source: Any, places: Places, decoding: Decoding) -> Iterator[Chunk]:
        """The segments of the source, normalised."""
        for chunk in chunks_of(texts_of(source, decoding), self._policy, self._normalizer, places):
            yield chunk._replace(segments=normalized(chunk.segments, self._normalizer))

    def _stream(self, numbering: _Numbering, vocab: Vocab, room: Room) -> Column:
        """Ids for numbers, with `</s>` and `<s>` between documents."""
        eos_id = None if self._policy == "file" else vocab.eos_id
        is_running = self._policy == "running"
        n_ends = 0 if eos_id is None else numbering.n_segments
        n_positions = numbering.n_tokens + n_ends + (1 if is_running else numbering.n_segments)
        if not numbering.n_tokens + n_ends:
            raise TooShortError("the source has 0 tokens, at least 1 is needed")
        found = np.array([vocab.unk_id if eos_id is None else eos_id, *vocab.ids_of(numbering.different)], np.int32)
        ids_K1 = np.where(found < 0, vocab.unk_id, found)
        stream_N = room.empty(n_positions, np.int32)
        stream_N[0:1] = np.array([vocab.bos_id], np.int32)
        n = 1
        for numbers_T in numbering.spool:
            ids_T = _with_edges(taken(ids_K1, numbers_T), numbers_T == 0, vocab, eos_id, is_running=is_running)
            # no document follows the last one
            part = slice(n, min(n + len(ids_T), n_positions))
            stream_N[part] = ids_T[: part.stop - part.start]
            n = part.stop
        return stream_N

    def _read_ids(self, source: Any, room: Room) -> tuple[Column, Vocab]:
        if self._vocab is None:
            raise InputError("documents of ids need the vocabulary that they belong to: give vocab=")
        if self._documents is not None:
            raise InputError("documents= says how text is cut; each array of ids is a document already")
        vocab = self._vocab
        spool = room.spool(np.int32)
        n_tokens = 0
        for batch in _batches(_checked_ids(number, ids, vocab) for number, ids in enumerate(source, start=1)):
            bos = np.array([vocab.bos_id], np.int32)
            spool.append(np.concatenate([part for ids_L in batch for part in (bos, ids_L)]))
            n_tokens += sum(map(len, batch))
        if not n_tokens:
            raise TooShortError("the source has 0 tokens, at least 1 is needed")
        return spool.joined(), vocab


def _with_edges(
    ids_T: Ids, is_end_T: npt.NDArray[np.bool_], vocab: Vocab, eos_id: int | None, *, is_running: bool
) -> Ids:
    """Ids with what stands between two documents, where they end; there stands `</s>` already, or nothing yet."""
    if is_running:
        return ids_T if eos_id is not None else ids_T[~is_end_T]
    if eos_id is not None:
        return np.insert(ids_T, np.flatnonzero(is_end_T) + 1, vocab.bos_id)
    ids_T[is_end_T] = vocab.bos_id
    return ids_T


class _Numbering:
    """Tokens numbered in the order of their first places, and counted; 0 is the end of a segment.

    The numbers go to a spool; what stays in memory grows with the different tokens alone.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.n_segments = 0
        self._numbers: dict[str, int] = {}
        self._counts_K1 = np.zeros(1, np.int64)

    @property
    def different(self) -> list[str]:
        return list(self._numbers)

    @property
    def counts_K(self) -> npt.NDArray[np.int64]:
        return self._counts_K1[1 : len(self._numbers) + 1]

    @property
    def n_tokens(self) -> int:
        return int(self.counts_K.sum())

    def add(self, tokens: Any, *, is_open: bool) -> None:
        """Number some tokens; `is_open`: their last segment goes on."""
        known = self._numbers
        number_K1 = np.array([0, *(known.setdefault(t, len(known) + 1) for t in tokens.different)], np.int32)
        if len(known) >= len(self._counts_K1):
            self._counts_K1 = np.concatenate((self._counts_K1, np.zeros(len(known) + 1, np.int64)))
        self._counts_K1[number_K1[1:]] += tokens.counts_K
        numbers_T = taken(number_K1, tokens.numbers_T)
        self.spool.append(numbers_T[:-1] if is_open else numbers_T)
        self.n_segments += tokens.n_segments - is_open


def _require_twice(source: Any, name: str) -> None:
    """Raise `InputError` for a source that cannot be read twice."""
    if not isinstance(source, str | Path | list | tuple) or not all(map(can_be_read_again, _files_in(source))):
        raise InputError(
            f"{name} is learned from the text before the text is counted, so it is read twice; give files or a list of "
            "texts, or the vocabulary of another model"
        )


def _files_in(source: Any) -> Iterator[File]:
    """The files that a source names, texts beside them left out."""
    for item in [source] if isinstance(source, str | Path) else source:
        if isinstance(item, StandardInput):
            yield item
        elif item is source or isinstance(item, Path):
            yield from files_of(item)


def _batches(documents: Iterable[Ids]) -> Iterator[list[Ids]]:
    batch: list[Ids] = []
    n_tokens = 0
    for ids_L in documents:
        batch.append(ids_L)
        n_tokens += len(ids_L) + 1
        if n_tokens >= CHUNK_CHARS:
            yield batch
            batch, n_tokens = [], 0
    if batch:
        yield batch


def _checked_ids(number: int, ids_L: Any, vocab: Vocab) -> Ids:
    """The ids of one document.  Raises `TokenError` for what is none."""
    if not isinstance(ids_L, np.ndarray) or ids_L.dtype.kind not in "iu" or ids_L.ndim != 1:
        what = f"{ids_L.dtype} of shape {ids_L.shape}" if isinstance(ids_L, np.ndarray) else type(ids_L).__name__
        raise TokenError(f"document {number} is an array of whole numbers of shape (L,), got {what}")
    least, most = (int(ids_L.min()), int(ids_L.max())) if len(ids_L) else (0, 0)
    if least < 0 or most >= len(vocab):
        raise TokenError(
            f"document {number} has id {least if least < 0 else most}, the vocabulary has 0 to {len(vocab) - 1}"
        )
    if (ids_L == vocab.bos_id).any():
        raise TokenError(f"document {number} has id {vocab.bos_id}, <s>; it is put before each document here")
    return ids_L.astype(np.int32, copy=False)


def _checked_vocab(vocab: Vocab | None, tokens: str, normalize: str) -> Vocab | None:
    if vocab is None:
        return None
    if not isinstance(vocab, Vocab):
        raise InputError(f"vocab is a Vocab, such as that of a corpus or a model, got {type(vocab).__name__}")
    for name, given, default, own in (
        ("tokens", tokens, _DEFAULT_TOKENS, vocab.tokenizer),
        ("normalize", normalize, _DEFAULT_NORMALIZE, vocab.normalizer),
    ):
        if given not in (default, own):
            raise InputError(f"the vocabulary has {name}={own}, got {name}={given}; leave it out")
    return vocab
