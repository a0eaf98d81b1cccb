"""One tokenizer of every kind, and the texts that tokenizers have stumbled over."""

from __future__ import annotations

import importlib.util
import json
from functools import cache

import pytest
from hypothesis import strategies as st

from lmzoo.tokenizers import Tokenizer, tokenizer_for

LEARNED_FROM = (
    "the cat sat on the mat\nthe dog sat on the log, didn't it?\n",
    "<s> the </s> <unk> <s><s> caf\u00e9 \u4e2d\u56fd\u4eba \U0001f468\u200d\U0001f469",
)
# a library that a kind needs
LIBRARIES = {
    "grapheme": "regex",
    "nltk": "nltk",
    "nltk:wordpunct": "nltk",
    "jieba": "jieba",
    "bpe:300": "tokenizers",
    "unigram-lm:300": "tokenizers",
}
LOSSLESS = ("char", "grapheme", "byte", "bpe:300", "unigram-lm:300", "jieba")
KINDS = (*LOSSLESS, "word", "nltk", "nltk:wordpunct")
# those that can be tried here
INSTALLED = tuple(
    kind for kind in KINDS if kind not in LIBRARIES or importlib.util.find_spec(LIBRARIES[kind]) is not None
)

ODD = (
    "",
    " ",
    "\n",
    "\ufeffa\ufeffb\ufeff",
    "a\r\nb\rc\n\r",
    "a\u2028b\u2029c\x85d",
    "a\0b\0",
    "\u0301e\u0301\u0301 \u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea\U0001f1eb",
    "10\u00a0km\u3000\u4e2d\u200b\u56fd",
    "<s> struck </s> <unk>\\<s> <<s>> \u0120the\u010a",
    "  two  spaces\t\ttabs \n\n\n lines  ",
    "\u4eba\u751f\u82e5\u53ea\u5982\u521d\u89c1\uff0c\u4f55\u4e8b\u79cb\u98ce\u60b2\u753b\u6247\u3002",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0600 \u0661",
    "x" * 5000 + " " + "\u4e2d" * 3000,
    "it's 'tis I'LL can't 3,14 ...",
    "\x1c\x1d\x1e\x1f\x0b\x0c",
)
PIECES = (
    *"aBz09 \n\t'.,<>/\\\0",
    "  ",
    "\r\n",
    "\u0301",
    "\u200d",
    "\U0001f468",
    "\u4e2d",
    "\uff0c",
    "\u3000",
    "\u00a0",
)
PIECES += ("\u2028", "\ufeff", "<s>", "</s>", "<unk>", "the", " cat", "n't", "\u0600", "\u05e9", "\U0001f1e9", "\u0120")
odd_texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=30
)


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    """The tokenizer of a kind, trained on a few lines; the test is skipped where its library is not installed."""
    library = LIBRARIES.get(kind)
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return tokenizer_for(kind, lambda: LEARNED_FROM)


# tokenizer files by hand: the parts that the library needs, the pieces, and a piece for what is not known

_EMPTY = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}
_EMPTY |= {"pre_tokenizer": None, "post_processor": None, "decoder": None}


def special(number: int, content: str) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **flags}


# words by their spaces and punctuation; it writes marks around a text and cuts it after three tokens
WORD_LEVEL = {
    **_EMPTY,
    "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "added_tokens": [special(0, "<unk>"), special(1, "<s>")],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    },
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "<s>": 1, "a": 2, "b": 3}, "unk_token": "<unk>"},
}
WORD_PIECE = {
    **_EMPTY,
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "un": 1, "##do": 2, "##ne": 3, "it": 4, ".": 5},
    },
}


def of_file(spec: dict[str, object], folder: object) -> Tokenizer:
    """The tokenizer of a file that holds this."""
    from pathlib import Path

    pytest.importorskip("tokenizers")
    path = Path(str(folder)) / "tokenizer.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return tokenizer_for(str(path), tuple)
