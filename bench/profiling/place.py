"""The passage of a test text that all models of a vocabulary are shown on: where it lies and how its tokens are read.

Nothing here looks at a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lmzoo.corpus import Split
from lmzoo.normalizers import named_normalizer
from lmzoo.vocab import Vocab

# the passage lies within the tokens whose whole distributions are asked for, as for top-1 accuracy
HEAD_TOKENS = 10_000
# it has so many characters, and tokens between these bounds
LEAST_CHARS = 240
LEAST_TOKENS, MOST_TOKENS = 60, 300
# so far into a first document of at least twice that length, so that models with a long memory have something in it
_INTO = 1000
# from there the next word is looked for
_REACH = 100
# a prompt is the first words of the text, within so many characters
_PROMPT_CHARS = 24
# of a token that is longer, the rest is left out
_MOST_SIGNS = 60
# a token of text is longer than that so seldom that it need not be told as the text has it
_CHARS_A_TOKEN = 40


def place_of(split: Split) -> range:
    """The places of the passage's tokens in a test text.

    It starts with the first document, or 1,000 tokens into it where that has 2,000 or more, there with the next word;
    and it ends where it has 240 characters, but has 60 tokens at least and 300 at most, as far as there are any.
    """
    n_tokens = split.head(HEAD_TOKENS).n_tokens
    start = _start_of(split)
    n_chars = 0
    for at in range(start, min(n_tokens, start + MOST_TOKENS)):
        if n_chars >= LEAST_CHARS and at - start >= LEAST_TOKENS:
            return range(start, at)
        n_chars += len(written(split.vocab, int(split.ids_N[at]))) + int(split.vocab.cutter.by_words)
    return range(start, min(n_tokens, start + MOST_TOKENS))


def _start_of(split: Split) -> int:
    if split.lengths_D[0] < 2 * _INTO:
        return 0
    if split.vocab.cutter.by_words:
        return _INTO
    texts = [written(split.vocab, number) for number in split.ids_N[_INTO - 1 : _INTO + _REACH].tolist()]
    return next((_INTO + n for n, text in enumerate(texts[:-1]) if text[-1:].isspace()), _INTO)


def written(vocab: Vocab, number: int) -> str:
    """How a symbol is read: a part of a character as the vocabulary writes it, and so are markers."""
    token = vocab.tokens[number]
    if number in (vocab.unk_id, vocab.bos_id, vocab.eos_id):
        return token
    try:
        return _shown(vocab.cutter.spelled(token).decode("utf-8") or token)
    except UnicodeDecodeError:
        return _shown(token)


def read_tokens(split: Split, place: range) -> list[str]:
    """How the tokens of a passage are read; unknown ones as they stand in the text, where they can be found there."""
    texts = [written(split.vocab, int(split.ids_N[at])) for at in place]
    unknown = unknown_in(split, place)
    if unknown:
        found = _as_they_stand(split, place.stop)
        for at in unknown:
            texts[at] = found.get(place.start + at, texts[at])
    return texts


def unknown_in(split: Split, place: range) -> list[int]:
    """Which tokens of a passage are out of vocabulary, by their place in it."""
    first, last = np.searchsorted(split.oov_M, [place.start, place.stop]).tolist()
    return [int(at) - place.start for at in split.oov_M[first:last]]


def prompt_of(split: Split) -> str:
    """The first words of a test text, as its normaliser leaves them; some characters where nothing is a word."""
    vocab = split.vocab
    text = named_normalizer(vocab.normalizer).apply(split.segments[0][: 4 * _PROMPT_CHARS]).lstrip()
    head = text[:_PROMPT_CHARS]
    if len(text) > _PROMPT_CHARS and any(map(str.isspace, head)):
        head = head.rsplit(None, 1)[0]
    # behind a character a word would go on; words and their parts bring the space that is before them
    end = " " if vocab.cutter.is_single and len(text) > len(head) and text[len(head)].isspace() else ""
    return _shown(head.rstrip() + end)


def _as_they_stand(split: Split, stop: int) -> dict[int, str]:
    """Tokens of the text by their place, up to place `stop`, as far as cutting it again gives the same ids."""
    found: dict[int, str] = {}
    start = 0
    for segment in _segments(split):
        reach = _CHARS_A_TOKEN * (stop - start)
        is_cut = len(segment) > reach
        texts = _cut(split.vocab, segment[:reach])
        if is_cut:
            # the last one may be a part
            texts = texts[:-1]
        ids, _ = split.vocab.encode_tokens(texts)
        wanted = split.ids_N[start : start + len(ids)]
        is_other = ids[: len(wanted)] != wanted
        n_same = int(is_other.argmax()) if is_other.any() else len(wanted)
        found |= {start + n: _shown(text) for n, text in enumerate(texts[:n_same])}
        start += len(texts) + int(_has_ends(split))
        if is_cut or start >= stop or n_same < len(texts):
            break
    return found


def _segments(split: Split) -> Iterator[str]:
    return (split.segments[number] for number in range(len(split.segments)))


def _cut(vocab: Vocab, text: str) -> Sequence[str]:
    return vocab.cutter.split(named_normalizer(vocab.normalizer).apply(text))


def _has_ends(split: Split) -> bool:
    return split.documents != "file" and split.vocab.eos_id is not None


def _shown(text: str) -> str:
    """Short, and without halves of surrogate pairs, which no file can hold."""
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return whole if len(whole) <= _MOST_SIGNS else f"{whole[: _MOST_SIGNS - 1]}…"
