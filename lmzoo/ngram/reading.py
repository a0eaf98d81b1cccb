"""Text from anywhere, piece by piece: how files and documents become segments without ever being held as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lmzoo.decoding import Decoding, check_encodable
from lmzoo.errors import InputError
from lmzoo.inputs import StandardInput, files_of
from lmzoo.normalizers import Normalizer
from lmzoo.parts import Policy, cut_segments
from lmzoo.reading import text_blocks, with_line_feeds
from lmzoo.segments import Segments
from lmzoo.tokenizers import last_place

# characters of segments worked on at once, and bytes of a file read at once
CHUNK_CHARS = 1 << 20

# what is no ASCII might be a mark that the letter is joined with
_END_OF_LETTERS = re.compile(r"(?<=[A-Za-z])(?=[\0-@\[-`{-\x7f])")
_BEFORE_SPACE = r"(?=[ \t\n])"

Pieces = Iterator[str]
Places = re.Pattern[str] | None


class Chunk(NamedTuple):
    """Some segments; the last of them may go on in the next chunk."""

    segments: Segments
    is_open: bool


def texts_of(source: Any, decoding: Decoding) -> Iterator[Pieces]:
    """The texts of a path, or of an iterable of paths and texts, each in pieces.  Line ends are LF.

    A path is that of a file, or whatever else names texts, see `inputs.files_of`.

    Raises `InputError` and its kinds for what is neither, and for what cannot be read.
    """
    if isinstance(source, str | Path):
        yield from (text_blocks(file, decoding, CHUNK_CHARS) for file in files_of(source))
        return
    if isinstance(source, list | tuple) and source and all(isinstance(s, str) and _is_file(s) for s in source):
        raise InputError(f"{source[0]!r} names a file; in a list, give pathlib.Path({source[0]!r}) to have it read")
    for number, item in enumerate(items_of(source), start=1):
        if isinstance(item, Path):
            yield from (text_blocks(file, decoding, CHUNK_CHARS) for file in files_of(item))
        elif isinstance(item, StandardInput):
            yield text_blocks(item, decoding, CHUNK_CHARS)
        elif isinstance(item, str):
            check_encodable(item, f"document {number}")
            yield iter((with_line_feeds(item),))
        else:
            raise InputError(f"document {number} is a text (str) or the Path of one, got {type(item).__name__}")


def items_of(source: Any) -> Iterator[Any]:
    """The items of an iterable.  Raises `InputError` for what is none."""
    if not isinstance(source, Iterable):
        raise InputError(
            f"text comes as a path, or as an iterable of paths, texts or arrays of ids, got {type(source).__name__}"
        )
    return iter(source)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than a name can be, or with a NUL
        return False


def chunks_of(texts: Iterable[Pieces], policy: Policy, normalizer: Normalizer, places: Places) -> Iterator[Chunk]:
    """The segments of texts as a corpus has them, a bounded number of characters at a time.

    `places`: where its tokenizer allows a text to be cut.  Only a paragraph, and what has no place where it could be
    cut in two, is in memory as a whole however long.
    """
    if policy == "file":
        return _whole_texts(texts, normalizer, places)
    if policy == "paragraph":
        return _paragraphs(_in_batches(_ended(texts, "\n\n")), normalizer)
    return _lines(_in_batches(_ended(texts, "\n")), normalizer, places)


def _whole_texts(texts: Iterable[Pieces], normalizer: Normalizer, places: Places) -> Iterator[Chunk]:
    """Short texts together, long ones in parts."""
    short: list[str] = []
    n_chars = 0
    for pieces in texts:
        waiting, is_open = "", False
        place_to_cut = _Patient(normalizer, places)
        for piece in pieces:
            waiting += piece
            cut = place_to_cut(waiting)
            if cut:
                yield Chunk(Segments.of(short), is_open=False)
                yield Chunk(Segments.of([waiting[:cut]]), is_open=True)
                short, waiting, is_open = [], waiting[cut:], True
        if waiting or is_open:
            short.append(waiting)
            n_chars += len(waiting)
        if is_open or n_chars >= CHUNK_CHARS:
            yield Chunk(Segments.of(short), is_open=False)
            short, n_chars = [], 0
    yield Chunk(Segments.of(short), is_open=False)


def _lines(batches: Iterable[str], normalizer: Normalizer, places: Places) -> Iterator[Chunk]:
    waiting, is_open = "", False
    place_to_cut = _Patient(normalizer, places)
    for batch in batches:
        n_before = len(waiting)
        waiting += batch
        end = waiting.rfind("\n", n_before) + 1
        whole, waiting = waiting[:end], waiting[end:]
        if whole and is_open:
            last, _, whole = whole.partition("\n")
            yield Chunk(Segments.of([last]), is_open=False)
            is_open = False
        segments, _ = cut_segments(whole, "line", normalizer)
        yield Chunk(segments, is_open=False)
        cut = place_to_cut(waiting)
        # a line that is blank so far may be no segment at all
        if cut and (is_open or not _is_blank(waiting[:cut], normalizer)):
            yield Chunk(Segments.of([waiting[:cut]]), is_open=True)
            waiting, is_open = waiting[cut:], True


def _paragraphs(batches: Iterable[str], normalizer: Normalizer) -> Iterator[Chunk]:
    waiting = ""
    for batch in batches:
        lines = (waiting + batch).split("\n")
        # behind the last line end there is no line yet
        last_blank = next((i for i in range(len(lines) - 2, -1, -1) if _is_blank(lines[i], normalizer)), -1)
        segments, _ = cut_segments("\n".join(lines[: last_blank + 1]), "paragraph", normalizer)
        yield Chunk(segments, is_open=False)
        waiting = "\n".join(lines[last_blank + 1 :])


def _is_blank(line: str, normalizer: Normalizer) -> bool:
    return not normalizer.apply(line).strip(" \t")


def _ended(texts: Iterable[Pieces], end: str) -> Pieces:
    """All texts as one, each closed so that nothing of it joins what follows."""
    for pieces in texts:
        yield from pieces
        yield end


def _in_batches(pieces: Iterable[str]) -> Iterator[str]:
    batch: list[str] = []
    n_chars = 0
    for piece in pieces:
        batch.append(piece)
        n_chars += len(piece)
        if n_chars >= CHUNK_CHARS:
            yield "".join(batch)
            batch, n_chars = [], 0
    yield "".join(batch)


class _Patient:
    """Where a text that grows can be cut; where there was no place, none is looked for until it is twice as long."""

    def __init__(self, normalizer: Normalizer, places: Places) -> None:
        self._normalizer, self._places = normalizer, places
        self._n_chars = self._least = 0

    def __call__(self, waiting: str) -> int:
        is_another = len(waiting) < self._n_chars
        self._n_chars = len(waiting)
        if not is_another and len(waiting) < self._least:
            return 0
        cut = _cut(waiting, self._normalizer, self._places)
        self._least = 0 if cut else 2 * len(waiting)
        return cut


def _cut(text: str, normalizer: Normalizer, places: Places) -> int:
    """Where a long text can be cut in two parts that are normalised and tokenized each alone; 0: nowhere, or short.

    White space runs become one space under `letters`; how other normalisers rewrite a character may depend on those
    around it, but not across white space.
    """
    if len(text) < CHUNK_CHARS or places is None:
        return 0
    if normalizer.squeezes:
        return last_place(text, _END_OF_LETTERS)
    return last_place(text, places if normalizer.lossless else re.compile(f"(?:{places.pattern}){_BEFORE_SPACE}"))
