"""Every kind of token on every odd input: the exact documents, tokens, ids and counts, worked out by hand."""

from __future__ import annotations

import io
import itertools
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lmzoo.corpus import Corpus, corpus_from_texts, load_corpus
from lmzoo.errors import TextError, UndecodableTextError
from lmzoo.markers import unescape_marker
from lmzoo.tokenizers import TOKENIZERS, TRAINED
from lmzoo.tokenizers.byte_level import BYTE_SYMBOLS
from tests.lmzoo.tokenizing import LIBRARIES, LOSSLESS, WORD_PIECE, of_file, tokenizer_of

pytestmark = pytest.mark.plain

# a file with a piece for each byte and nothing to join them by
FILE = "tokenizer.json"
BYTES_ALONE = {
    **WORD_PIECE,
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    "model": {"type": "BPE", "vocab": {symbol: i for i, symbol in enumerate(BYTE_SYMBOLS)}, "merges": []},
}
LEARNED = ("bpe:300", "unigram-lm:300")
KINDS = (*TOKENIZERS, *LEARNED, FILE)
every_kind = pytest.mark.parametrize("kind", KINDS)

Tokens = tuple[tuple[str, ...], ...]


def chars(*documents: str) -> Tokens:
    return tuple(map(tuple, documents))


def words(*documents: str) -> Tokens:
    """Of documents whose tokens are written with a bar behind each but the last."""
    return tuple(tuple(document.split("|")) for document in documents)


@dataclass(frozen=True, kw_only=True)
class Odd:
    """A file, and what it holds: `documents` under the policy `line`, and their tokens.

    What is not given of `nltk`, `punct` and `grapheme` is as `word` and `char`.  `n_bytes` and `n_markers` are of all
    documents, line ends included; `n_markers` are those of words.
    """

    data: bytes
    documents: tuple[str, ...]
    word: Tokens
    jieba: Tokens
    nltk: Tokens | None = None
    punct: Tokens | None = None
    grapheme: Tokens | None = None
    n_bytes: int
    n_blank: int = 0
    n_markers: int = 0
    n_replaced: int = 0
    reading: dict[str, Any] = field(default_factory=dict)

    def tokens(self, kind: str) -> Tokens:
        by_hand: dict[str, Tokens | None] = {
            "word": self.word,
            "nltk": self.nltk or self.word,
            "nltk:wordpunct": self.punct or self.nltk or self.word,
            "jieba": self.jieba,
            "grapheme": self.grapheme or chars(*self.documents),
        }
        return by_hand.get(kind) or chars(*self.documents)


CAT = {"documents": ("the cat", "sat"), "word": words("the|cat", "sat"), "jieba": words("the| |cat", "sat")}
INPUTS = {
    "plain": Odd(data=b"the cat\nsat\n", **CAT, n_bytes=12),
    "no final line end": Odd(data=b"the cat\nsat", **CAT, n_bytes=12),
    "a BOM": Odd(data=b"\xef\xbb\xbfthe cat\nsat\n", **CAT, n_bytes=12),
    "CRLF": Odd(data=b"the cat\r\nsat\r\n", **CAT, n_bytes=12),
    "CR": Odd(data=b"the cat\rsat\r", **CAT, n_bytes=12),
    "blank lines": Odd(data=b"\n \t\nthe cat\r\n\r\nsat\n\n", **CAT, n_bytes=12, n_blank=4),
    "UTF-16": Odd(data="the cat\r\nsat".encode("utf-16"), **CAT, n_bytes=12, reading={"encoding": "utf-16"}),
    "one line": Odd(
        data=b"the cat", documents=("the cat",), word=words("the|cat"), jieba=words("the| |cat"), n_bytes=8
    ),
    # a mark inside a text is a character: the mark in front is dropped once
    "a BOM and another": Odd(
        data="\ufeff\ufeffthe\n".encode(),
        documents=("\ufeffthe",),
        word=words("\ufeffthe"),
        punct=words("\ufeff|the"),
        jieba=words("\ufeff|the"),
        n_bytes=7,
    ),
    "NUL in a word": Odd(
        data=b"a\0b a\0\n",
        documents=("a\0b a\0",),
        word=words("a\0b|a\0"),
        punct=words("a|\0|b|a|\0"),
        jieba=words("a|\0|b| |a|\0"),
        n_bytes=7,
    ),
    # only ASCII space, tab and line end separate words; the expressions of nltk know other white space too
    "no-break and ideographic spaces": Odd(
        data="10\u00a0km a\u3000b\tc\n".encode(),
        documents=("10\u00a0km a\u3000b\tc",),
        word=words("10\u00a0km|a\u3000b|c"),
        nltk=words("10|km|a|b|c"),
        jieba=words("10|\u00a0|km| |a|\u3000|b|\t|c"),
        n_bytes=15,
    ),
    "U+2028, form feed and U+0085": Odd(
        data="a\u2028b\x0cc\u0085d\n".encode(),
        documents=("a\u2028b\x0cc\u0085d",),
        word=words("a\u2028b\x0cc\u0085d"),
        nltk=words("a|b|c|d"),
        jieba=words("a|\u2028|b|\x0c|c|\u0085|d"),
        n_bytes=11,
    ),
    "zero-width space": Odd(
        data="a\u200bb\n".encode(),
        documents=("a\u200bb",),
        word=words("a\u200bb"),
        punct=words("a|\u200b|b"),
        jieba=words("a|\u200b|b"),
        n_bytes=6,
    ),
    "markers": Odd(
        data=b"<s> a </s>\nb<unk> <unk> \\<unk>\n",
        documents=("<s> a </s>", "b<unk> <unk> \\<unk>"),
        # a backslash before what reads like a marker
        word=words("\\<s>|a|\\</s>", "b<unk>|\\<unk>|\\\\<unk>"),
        nltk=words("<|s|>|a|<|/s|>", "b|<|unk|>|<|unk|>|\\|<|unk|>"),
        punct=words("<|s|>|a|</|s|>", "b|<|unk|>|<|unk|>|\\<|unk|>"),
        jieba=words("<|s|>| |a| |<|/|s|>", "b|<|unk|>| |<|unk|>| |\\|<|unk|>"),
        n_bytes=31,
        n_markers=4,
    ),
    "an invalid byte, replaced": Odd(
        data=b"caf\xe9 caf\n",
        documents=("caf\ufffd caf",),
        word=words("caf\ufffd|caf"),
        punct=words("caf|\ufffd|caf"),
        jieba=words("caf|\ufffd| |caf"),
        n_bytes=11,
        n_replaced=1,
        reading={"invalid": "replace"},
    ),
    "another encoding": Odd(
        data=b"caf\xe9\n",
        documents=("café",),
        word=words("café"),
        jieba=words("caf|é"),
        n_bytes=6,
        reading={"encoding": "latin-1"},
    ),
    "marks and joined signs": Odd(
        data="e\u0301 \U0001f468\u200d\U0001f469\n".encode(),
        documents=("e\u0301 \U0001f468\u200d\U0001f469",),
        word=words("e\u0301|\U0001f468\u200d\U0001f469"),
        # to nltk a mark and a joiner are parts of words, a picture is punctuation
        punct=words("e\u0301|\U0001f468|\u200d|\U0001f469"),
        jieba=words("e|\u0301| |\U0001f468|\u200d|\U0001f469"),
        grapheme=words("e\u0301| |\U0001f468\u200d\U0001f469"),
        n_bytes=16,
    ),
    "spaces at the ends and between": Odd(
        data=b"  a  b\t\n",
        documents=("  a  b\t",),
        word=words("a|b"),
        jieba=words(" | |a| | |b|\t"),
        n_bytes=8,
    ),
}


def kind_in(kind: str, folder: Path) -> str:
    """What is asked for; the test is skipped where its library is not installed."""
    if kind != FILE:
        tokenizer_of(kind)
        return kind
    of_file(BYTES_ALONE, folder)
    return str(folder / FILE)


def corpus_of_file(folder: Path, kind: str, data: bytes, **reading: Any) -> Corpus:
    """Its three parts are the same file."""
    path = folder / "text"
    path.write_bytes(data)
    tokens = kind_in(kind, folder)
    return load_corpus(train=path, valid=path, test=path, tokens=tokens, documents="line", **reading)


def tokens_in(corpus: Corpus) -> list[list[str]]:
    assert all(document.ids_L[-1] == corpus.vocab.eos_id for document in corpus.train)
    return [[corpus.vocab.tokens[i] for i in document.ids_L[:-1]] for document in corpus.train]


def test_the_kinds_are_those_of_the_tokenizers() -> None:
    assert {kind.partition(":")[0] for kind in LEARNED} == set(TRAINED)
    assert set(LIBRARIES) <= set(KINDS)


@every_kind
@pytest.mark.parametrize("name", INPUTS)
def test_documents_tokens_and_counts(name: str, kind: str, tmp_path: Path) -> None:
    odd = INPUTS[name]
    corpus = corpus_of_file(tmp_path, kind, odd.data, **odd.reading)
    assert [document.text for document in corpus.train] == list(odd.documents)
    found = tokens_in(corpus)
    if kind in ("byte", FILE, *LEARNED):
        pieces = [[corpus.vocab.cutter.spelled(token) for token in tokens] for tokens in found]
        assert [b"".join(p) for p in pieces] == [document.encode() for document in odd.documents]
        assert kind in LEARNED or all(len(piece) == 1 for document in pieces for piece in document)
    else:
        assert found == [list(tokens) for tokens in odd.tokens(kind)]
    # each line with its end
    assert corpus.train.chars_D.tolist() == [len(document) + 1 for document in odd.documents]
    assert corpus.train.bytes_D.sum() == odd.n_bytes
    assert corpus.train.n_oov == corpus.test.n_oov == 0
    # of three parts
    assert (corpus.n_blank, corpus.n_replaced) == (3 * odd.n_blank, 3 * odd.n_replaced)
    assert corpus.n_markers == (3 * odd.n_markers if kind == "word" else 0)


@every_kind
@pytest.mark.parametrize("name", INPUTS)
def test_ids_fall_by_frequency_and_come_back(name: str, kind: str, tmp_path: Path) -> None:
    odd = INPUTS[name]
    corpus = corpus_of_file(tmp_path, kind, odd.data, **odd.reading)
    counts = Counter(token for tokens in tokens_in(corpus) for token in tokens)
    if not corpus.vocab.cutter.symbols:
        # <unk> 0, <s> 1, </s> 2; equal counts by what stands in the text
        in_order = sorted(counts, key=lambda token: (-counts[token], unescape_marker(token)))
        assert [corpus.vocab.token_to_id[token] for token in in_order] == list(range(3, 3 + len(in_order)))
    for token, n in counts.items():
        assert corpus.vocab.counts_V[corpus.vocab.token_to_id[token]] == n
    assert corpus.vocab.counts_V[:3].tolist() == [0, len(odd.documents), len(odd.documents)]
    if kind in (*LOSSLESS, FILE):
        assert corpus.vocab.decode(corpus.train.ids_N) == "".join(f"{document}\n" for document in odd.documents)


@every_kind
def test_line_ends_of_training_and_test_text_in_all_combinations(kind: str, tmp_path: Path) -> None:
    text = "the cat sat\n\non <s> mats, caf\u00e9\n"
    tokens = kind_in(kind, tmp_path)
    ends = {"unix": b"\n", "windows": b"\r\n", "mac": b"\r"}
    for name, end in ends.items():
        (tmp_path / name).write_bytes(text.encode().replace(b"\n", end))
    corpora = [
        load_corpus(train=tmp_path / a, valid=tmp_path / a, test=tmp_path / b, tokens=tokens)
        for a, b in itertools.product(ends, ends)
    ]
    assert len({(c.sha256, c.vocab.fingerprint, c.n_blank, c.n_markers) for c in corpora}) == 1
    for part in ("train", "test"):
        splits = [getattr(c, part) for c in corpora]
        assert len({(s.ids_N.tobytes(), s.chars_D.tobytes(), s.bytes_D.tobytes()) for s in splits}) == 1


@pytest.mark.whole
@every_kind
def test_one_byte_that_is_none_in_a_thousand_lines(kind: str, tmp_path: Path) -> None:
    lines = [b"the cat\n"] * 1000
    lines[500] = b"the \xff\n"
    with pytest.raises(UndecodableTextError, match=r"text is not UTF-8: byte 0xff at offset 4004;"):
        corpus_of_file(tmp_path, kind, b"".join(lines))
    corpus = corpus_of_file(tmp_path, kind, b"".join(lines), invalid="replace")
    assert (len(corpus.train), corpus.train[500].text, corpus.n_replaced) == (1000, "the \ufffd", 3)


@every_kind
def test_utf16_is_refused_unless_it_is_asked_for(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"text is UTF-16, UTF-8 is wanted; .* --encoding utf-16 "):
        corpus_of_file(tmp_path, kind, "the cat\n".encode("utf-16"))


@every_kind
def test_half_a_surrogate_pair_is_no_text(kind: str, tmp_path: Path) -> None:
    tokens = kind_in(kind, tmp_path)
    with pytest.raises(TextError, match=r"the train text has U\+D800, half of a surrogate pair, at character 4"):
        corpus_from_texts({"train": "the \ud800\n", "test": "the cat"}, tokens=tokens)


# of 100,000 words "ab" with a space between each two
LONG_LINE = {
    **dict.fromkeys(("char", "grapheme", "byte", FILE), 299_999),
    **dict.fromkeys(("word", "nltk", "nltk:wordpunct"), 100_000),
    "jieba": 199_999,
}


@every_kind
def test_a_line_of_a_hundred_thousand_words(kind: str, tmp_path: Path) -> None:
    line = ("ab " * 100_000).rstrip()
    tokens = kind_in(kind, tmp_path)
    corpus = corpus_from_texts({"train": line, "valid": "ab", "test": "ab"}, tokens=tokens, documents="line")
    assert (len(corpus.train), corpus.train.chars_D.sum(), corpus.train.bytes_D.sum()) == (1, 300_000, 300_000)
    if kind in LONG_LINE:
        assert corpus.train.n_tokens == LONG_LINE[kind] + 1
    else:
        assert corpus.vocab.decode(corpus.train.ids_N) == f"{line}\n"


@every_kind
def test_a_pipe_is_read_as_a_file_is(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = INPUTS["blank lines"].data
    of_file_ = corpus_of_file(tmp_path, kind, data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    path = tmp_path / "text"
    piped = load_corpus(train="-", valid=path, test=path, tokens=kind_in(kind, tmp_path), documents="line")
    assert (piped.sha256, piped.vocab.fingerprint) == (of_file_.sha256, of_file_.vocab.fingerprint)
