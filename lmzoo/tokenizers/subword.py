"""Subwords: learned from the training text, or as a trained `tokenizer.json` of Hugging Face's library has them.

Whatever was trained is kept as the text of such a file, which is data alone: reading it runs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from lmzoo.decoding import check_encodable
from lmzoo.errors import InputError, missing_library
from lmzoo.reading import read_text
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS, bytes_of, join_bytes
from lmzoo.tokenizers.tokenizer import Tokenizer, pieces_of, utf8

DEFAULT_SYMBOLS = 8000
LEAST_SYMBOLS, MOST_SYMBOLS = len(BYTE_SYMBOLS), 1_000_000

# What the byte-level rule cuts into words before subwords are learned and looked up (Radford et al. 2019) takes white
# space only where a word starts, and changes between letters and other signs everywhere.
BYTE_LEVEL_PLACES = re.compile(r"(?<=\w)(?=[ \n])|(?<=[\u4e00-\u9fff])(?=[，。！？；：])")

# characters that the trainer is given, and that are cut into subwords, at a time: it keeps notes on each
_CHUNK_CHARS = 1 << 16
# Candidates for each subword kept; all substrings of a text without spaces would be millions
_SEEDS_PER_SYMBOL = 25
_LEAST_SEEDS = 20_000
# Scores of the unigram model (natural logarithms) are kept to so many digits.  Its sums are made in an order that
# changes from run to run, so the 14th digit does; a thousandth of a nat decides no cut that matters.
_SCORE_DIGITS = 3
# what the trainer adds to the lowest score for each further byte that it has not seen, in an order that changes too
_UNSEEN_STEP = 1e-4


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise missing_library("tokenizers", "text", "subword tokens (bpe, unigram-lm, tokenizer.json)") from error
    return tokenizers


def train_bpe(n_symbols: int, texts: Iterable[str]) -> str:
    """The state of a byte-pair encoding (Sennrich et al. 2016) over bytes, of at most so many symbols."""
    hf = _library()
    model = hf.Tokenizer(hf.models.BPE())
    trainer = hf.trainers.BpeTrainer(
        vocab_size=n_symbols, initial_alphabet=list(BYTE_SYMBOLS), special_tokens=[], show_progress=False
    )
    return _canonical(_trained(model, trainer, texts))


def train_unigram(n_symbols: int, texts: Iterable[str]) -> str:
    """The state of a unigram language model of subwords (Kudo 2018) over bytes, of about so many symbols."""
    hf = _library()
    model = hf.Tokenizer(hf.models.Unigram())
    trainer = hf.trainers.UnigramTrainer(
        vocab_size=n_symbols,
        initial_alphabet=list(BYTE_SYMBOLS),
        special_tokens=[],
        show_progress=False,
        seed_size=max(_LEAST_SEEDS, _SEEDS_PER_SYMBOL * n_symbols),
    )
    spec = _trained(model, trainer, texts)
    spec["model"]["vocab"] = _settled(spec["model"]["vocab"])
    return _canonical(spec)


def _trained(model: Any, trainer: Any, texts: Iterable[str]) -> dict[str, Any]:
    hf = _library()
    model.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    model.decoder = hf.decoders.ByteLevel()
    model.train_from_iterator(_checked_pieces(texts), trainer)
    spec: dict[str, Any] = json.loads(model.to_str())
    return spec


def _checked_pieces(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        check_encodable(text, "the training text")
        yield from pieces_of(text, BYTE_LEVEL_PLACES, _CHUNK_CHARS)


def _settled(scores: Sequence[tuple[str, float | None]]) -> list[list[Any]]:
    """The same scores whatever the order that they were added up in, highest first."""
    # without any text there is no score
    low = min((score for _, score in scores if score is not None), default=0.0)
    unseen = low + len(BYTE_SYMBOLS) * _UNSEEN_STEP
    settled = (
        (low if score is None or (len(piece) == 1 and score <= unseen) else score, piece) for piece, score in scores
    )
    ordered = sorted((-round(score, _SCORE_DIGITS), piece) for score, piece in settled)
    return [[piece, -negative] for negative, piece in ordered]


def read_state(path: Path) -> str:
    """The state of a tokenizer file.  Raises `InputError` for what is none, naming the file.

    The file's special tokens are not looked for in text, nothing is added around a text, and none is cut short: text
    is text.
    """
    text, hf = read_text(path), _library()
    try:
        spec = json.loads(text)
        added = [token for token in spec.get("added_tokens") or () if not token["special"]]
        edited = {**spec, "added_tokens": added, "post_processor": None, "truncation": None, "padding": None}
        # as the library writes it: every key is there
        full = json.loads(hf.Tokenizer.from_str(json.dumps(edited)).to_str())
        if "dropout" in full["model"]:
            # merges left out at random are for those who train a network on the tokens
            full["model"]["dropout"] = None
        state = _canonical(full)
        from_state(path.name, state)
    except Exception as error:  # the library has no kind of its own for what it cannot read
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is no tokenizer file of Hugging Face's library (tokenizer.json): {why}") from error
    return state


def _canonical(spec: Mapping[str, Any]) -> str:
    return json.dumps(spec, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _pieces(model: Mapping[str, Any]) -> list[str]:
    vocab = model["vocab"]
    return [piece for piece, _ in vocab] if isinstance(vocab, list) else list(vocab)


def _unknown_piece(model: Mapping[str, Any]) -> str | None:
    """What the model gives for a piece that it does not know, where it has that."""
    if isinstance(model["vocab"], list):
        number = model.get("unk_id")
        return None if number is None else str(model["vocab"][number][0])
    return model.get("unk_token")


@lru_cache(maxsize=8)
def from_state(name: str, state: str) -> Tokenizer:
    """The tokenizer of a state that `train_bpe`, `train_unigram` or `read_state` gave."""
    spec = json.loads(state)
    pieces, unknown = _pieces(spec["model"]), _unknown_piece(spec["model"])
    by_bytes = _is_byte_level(spec)
    is_whole = by_bytes and spec["normalizer"] is None and not spec["added_tokens"] and set(BYTE_SYMBOLS) <= set(pieces)
    cutter = _Cutter(state, None if is_whole else unknown)
    return Tokenizer(
        name=name,
        split=cutter.split,
        split_many=cutter.split_many,
        join=join_bytes if by_bytes else cutter.join,
        is_lossless=is_whole,
        places=BYTE_LEVEL_PLACES if is_whole and spec["pre_tokenizer"].get("use_regex") else None,
        symbols=tuple(piece for piece in pieces if piece and piece != unknown),
        state=state,
        spelled=bytes_of if by_bytes else _spelled,
    )


def _is_byte_level(spec: Mapping[str, Any]) -> bool:
    """Whether all that comes before the subwords is that text is cut, dropping nothing, and its bytes written out."""
    before, model = spec["pre_tokenizer"] or {}, spec["model"]
    *cuts, last = (before.get("pretokenizers") or [{}]) if before.get("type") == "Sequence" else [before]
    if any(model.get(mark) for mark in ("continuing_subword_prefix", "end_of_word_suffix")):
        return False
    drops_nothing = all(cut["type"] == "Digits" or cut.get("behavior") not in (None, "Removed") for cut in cuts)
    is_plain = last.get("type") == "ByteLevel" and not last["add_prefix_space"]
    return drops_nothing and is_plain and (spec["decoder"] or {}).get("type") == "ByteLevel"


def _spelled(token: str) -> bytes:
    """Without what other kinds of subwords write for a space before a word, or for none."""
    return utf8(token.removeprefix("##").replace("▁", " "))


class _Cutter:
    """Hugging Face's tokenizer of a state, made when it is first used."""

    def __init__(self, state: str, unknown: str | None) -> None:
        self._state, self._unknown = state, unknown

    @cached_property
    def _hf(self) -> Any:
        return _library().Tokenizer.from_str(self._state)

    @cached_property
    def _piece_of_id(self) -> Mapping[int, str]:
        return {number: piece for piece, number in self._hf.get_vocab().items()}

    def split(self, text: str) -> list[str]:
        return next(self.split_many([text]))

    def split_many(self, texts: Sequence[str]) -> Iterator[list[str]]:
        for text in texts:
            check_encodable(text, "the text")
        if self._unknown is None:
            for encoding in self._hf.encode_batch_fast(list(texts), add_special_tokens=False):
                yield list(map(self._piece_of_id.__getitem__, encoding.ids))
            return
        for text, encoding in zip(texts, self._hf.encode_batch(list(texts), add_special_tokens=False), strict=True):
            yield [
                self._as_read(text[slice(*place)]) if piece == self._unknown else piece
                for piece, place in zip(encoding.tokens, encoding.offsets, strict=True)
            ]

    def _as_read(self, piece: str) -> str:
        """An unknown piece as it stands in the text, marked where it reads like a known one."""
        is_known = piece != self._unknown and self._hf.token_to_id(piece) is not None
        return piece + "\ufffd" if is_known else piece

    def join(self, tokens: Sequence[str]) -> str:
        decoder = self._hf.decoder
        return str(decoder.decode(list(tokens))) if decoder is not None else " ".join(tokens)
