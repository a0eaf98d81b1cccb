"""Words by the rules of a library: NLTK's for English, jieba's dictionary for Chinese."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

from lmzoo.errors import missing_library
from lmzoo.tokenizers.plain import join_words
from lmzoo.tokenizers.tokenizer import Tokenizer


@cache
def _treebank() -> Any:
    try:
        from nltk.tokenize.treebank import TreebankWordTokenizer
    except ImportError as error:
        raise missing_library("nltk", "text", "tokens of kind 'nltk'") from error
    return TreebankWordTokenizer()


def _split_treebank(text: str) -> list[str]:
    """Words by the rules of the Penn Treebank, each line taken as one sentence (only a last period is cut off)."""
    return [word for line in text.split("\n") for word in _treebank().tokenize(line)]


@cache
def _word_punct() -> Any:
    try:
        from nltk.tokenize.regexp import WordPunctTokenizer
    except ImportError as error:
        raise missing_library("nltk", "text", "tokens of kind 'nltk:wordpunct'") from error
    return WordPunctTokenizer()


def _split_word_punct(text: str) -> list[str]:
    return list(_word_punct().tokenize(text))


@cache
def _jieba() -> Any:
    try:
        with warnings.catch_warnings():
            # about its own source and how it finds its dictionary, nothing that a caller could mend
            warnings.simplefilter("ignore")
            import jieba
    except ImportError as error:
        raise missing_library("jieba", "zh", "tokens of kind 'jieba'") from error
    cutter = jieba.Tokenizer()
    # its own `initialize` would read a cache from the shared temporary folder, where anybody may have put one
    cutter.FREQ, cutter.total = cutter.gen_pfdict(cutter.get_dict_file())
    cutter.initialized = True
    return cutter


def _split_jieba(text: str) -> list[str]:
    return list(_jieba().cut(text))


TREEBANK = Tokenizer(
    name="nltk",
    split=_split_treebank,
    join=join_words,
    by_words=True,
    is_lossless=False,
    documents="line",
    places=re.compile(r"(?=\n)"),
)
WORD_PUNCT = Tokenizer(
    name="nltk:wordpunct",
    split=_split_word_punct,
    join=join_words,
    by_words=True,
    is_lossless=False,
    documents="line",
    places=re.compile(r"(?=[ \t\n])"),
)
# white space and punctuation are tokens of their own, so nothing is lost
JIEBA = Tokenizer(
    name="jieba",
    split=_split_jieba,
    join="".join,
    documents="line",
    places=re.compile(r"(?= )|(?<!\r)(?=\n)|(?<=[，。！？；：])"),
)
