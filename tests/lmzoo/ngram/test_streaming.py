"""Training from anything: one text gives one model, however it comes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import Corpus
from lmzoo.errors import InputError, TextError, TokenError, TooShortError
from lmzoo.ngram import reading
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.ngram.model import NgramModel
from lmzoo.normalizers import NORMALIZERS
from lmzoo.parts import cut_segments
from tests.lmzoo.ngram.test_bounded import assert_same
from tests.lmzoo.tokenizing import INSTALLED, tokenizer_of

# what can stand at the edge of a piece: letters, what is none, all separators, blank lines, markers, other scripts
alphabet = st.sampled_from([*"aBbΣé1-中 \t\n", " ", "\n", "\n\n", "<s>", "<unk>"])
texts = st.lists(alphabet, max_size=40).map("".join)
policies = st.sampled_from(["file", "line", "paragraph", "running"])
kinds = st.sampled_from(INSTALLED)
rewritings = st.sampled_from(["none", "lower", "letters"])


def quietly(*args: Any, **options: Any) -> NgramModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        return lmzoo.train_ngram(*args, **options)


def as_corpus(text: str, spec: str, **options: Any) -> tuple[NgramModel, Corpus]:
    """The model of the same text by way of a corpus."""
    corpus = lmzoo.corpus_from_texts({"train": text, "valid": "a b", "test": "a"}, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        model = lmzoo.train(spec, corpus)
    assert isinstance(model, NgramModel)
    return model, corpus


def assert_twins(one: NgramModel, other: NgramModel) -> None:
    """The same to the last bit, vocabulary and all."""
    assert one.vocab.to_header() == other.vocab.to_header()
    assert_same(one, other)


def has_tokens(text: str, policy: str, tokens: str, normalize: str) -> bool:
    segments, _ = cut_segments(text, policy, NORMALIZERS[normalize])  # type: ignore[arg-type]
    split = tokenizer_of(tokens).split
    return any(policy != "file" or split(NORMALIZERS[normalize].apply(s)) for s in segments)


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that every edge falls inside something."""
    monkeypatch.setattr(reading, "CHUNK_CHARS", 3)


@settings(max_examples=300)
@given(texts, policies, kinds, rewritings, st.integers(1, 5))
def test_pieces_of_any_size_make_the_same_segments(
    text: str, policy: str, tokens: str, normalize: str, size: int
) -> None:
    # what is tokenized piece by piece is what is tokenized whole
    normalizer, tokenizer = NORMALIZERS[normalize], tokenizer_of(tokens)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_CHARS", size)
        found: list[list[str]] = [[]]
        for segments, is_open in reading.chunks_of([iter(pieces)], policy, normalizer, tokenizer.places):  # type: ignore[arg-type]
            for i, segment in enumerate(segments):
                found[-1] += tokenizer.split(normalizer.apply(segment))
                if not is_open or i < len(segments) - 1:
                    found.append([])
    assert found.pop() == []
    whole, _ = cut_segments(text, policy, normalizer)  # type: ignore[arg-type]
    assert found == [tokenizer.split(normalizer.apply(s)) for s in whole]


# a unigram model of subwords takes too long to train for each example
@pytest.mark.whole
@settings(max_examples=150)
@given(texts, policies, kinds.filter(lambda kind: not kind.startswith("unigram")), rewritings, st.integers(1, 3))
def test_a_text_gives_the_model_of_its_corpus(
    text: str, policy: str, tokens: str, normalize: str, min_freq: int
) -> None:
    options = {"tokens": tokens, "normalize": normalize, "documents": policy, "min_freq": min_freq}
    if not has_tokens(text, policy, tokens, normalize):
        with pytest.raises(TooShortError, match="0 tokens"):
            quietly([text], order=3, **options)
        return
    wanted, corpus = as_corpus(text, "ngram:order=3", **options)
    assert_twins(quietly([text], order=3, **options), wanted)
    assert_twins(quietly([text], order=3, **options, max_memory="16M"), wanted)
    assert_twins(quietly([text], order=3, vocab=corpus.vocab, documents=policy), wanted)
    assert_twins(quietly((d.ids_L for d in corpus.train), order=3, vocab=corpus.vocab), wanted)


def test_a_file_is_a_list_of_files_is_its_lines(tmp_path: Path, tiny_chunks: None) -> None:
    lines = ["the cat sat", "", "the dog ran off", "a cat", "the  mat"]
    whole = tmp_path / "whole.txt"
    whole.write_text("\n".join(lines), encoding="utf-8")
    parts = [tmp_path / "1.txt", tmp_path / "2.txt"]
    parts[0].write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines[:3]).encode())
    parts[1].write_text("\n".join(lines[3:]) + "\n", encoding="utf-8")
    wanted, _ = as_corpus("\n".join(lines), "ngram:order=3,smoothing=wb", tokens="word")
    for max_memory in (None, "16M"):
        sources = (whole, str(whole), parts, tuple(parts), iter(parts), lines, iter(lines), (f"{x}\n" for x in lines))
        for source in sources:
            assert_twins(quietly(source, order=3, smoothing="wb", max_memory=max_memory), wanted)


@pytest.mark.parametrize("tokens", ["bpe:270", "unigram-lm:270"])
@pytest.mark.parametrize("normalize", ["none", "lower", "letters"])
def test_what_is_learned_from_a_text_in_pieces_is_what_is_learned_from_the_whole(
    tmp_path: Path, tokens: str, normalize: str
) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "text"
    text = "The cat sat, the CAT ran; the cats.\nThe dog\tdidn't \u4e2d\u56fd\u4eba\uff0c\u4e2d\n" * 20
    path.write_text(text, encoding="utf-8")
    options = {"tokens": tokens, "normalize": normalize}
    wanted, _ = as_corpus(text, "ngram:order=2", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_CHARS", 50)
        for source in (path, str(path), [path], (path,)):
            assert_twins(quietly(source, order=2, **options), wanted)


def test_what_is_learned_from_a_text_needs_it_twice(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source in (iter(["a b"]), [pipe], pipe, str(pipe)):
        with pytest.raises(InputError, match=r"bpe:300 is learned from the text .* so it is read twice; give files"):
            quietly(source, tokens="bpe:300")


@given(st.permutations(["the cat", "a dog ran", "the dog", "cats", "a\nb"]))
def test_the_order_of_documents_is_immaterial(shuffled: list[str]) -> None:
    assert_twins(quietly(shuffled, order=3), quietly(sorted(shuffled), order=3))


@pytest.mark.parametrize("options", [{"smoothing": "jm"}, {"smoothing": "addk"}, {"discounts": "tuned"}])
def test_what_is_fitted_is_fitted_on_the_validation_text(options: dict[str, Any]) -> None:
    text, valid = "the cat sat\nthe dog sat\na cat ran", "a dog sat\nthe cat ran"
    corpus = lmzoo.corpus_from_texts({"train": text, "valid": valid, "test": "a"}, tokens="word")
    spec = ",".join(f"{k}={v}" for k, v in options.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        wanted = lmzoo.train(f"ngram:order=3,{spec}", corpus)
    for given_valid in ([valid], valid.split("\n"), corpus.valid):
        assert_twins(quietly([text], order=3, valid=given_valid, **options), wanted)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is fitted on validation text, and there is none; give valid"):
        quietly([text], order=3, **options)


def test_kenlm_discounts_and_pruning_are_those_of_a_corpus() -> None:
    text = "the cat sat on the mat\nthe dog sat on the log\nthe cow ran"
    for options in ({"discounts": "kenlm"}, {"cutoffs": "1/1/2"}, {"max_ngrams": 20}):
        spec = ",".join(f"{k}={v}" for k, v in options.items())
        wanted, _ = as_corpus(text, f"ngram:order=3,{spec}", tokens="word")
        assert_twins(quietly(text.split("\n"), order=3, **options), wanted)


def test_an_iterator_is_read_once_and_never_held() -> None:
    alive: list[int] = []

    class Text(str):
        def __new__(cls, text: str) -> Text:
            alive.append(1)
            return super().__new__(cls, text)

        def __del__(self) -> None:
            alive.pop()

    most = 0

    def documents() -> Iterator[str]:
        nonlocal most
        for n in range(300):
            most = max(most, len(alive))
            yield Text(f"word{n % 7} word{n % 5}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_CHARS", 100)
        model = quietly(documents(), order=2)
    assert model.vocab.counts_V[model.vocab.bos_id] == 300
    # 100 characters are eight documents
    assert most < 20


VOCAB = lmzoo.corpus_from_texts({"train": "a b", "valid": "a", "test": "a"}, tokens="word").vocab


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ([], {}, TooShortError, "the source is empty"),
        ([""], {}, TooShortError, "0 tokens"),
        (["  \n\t\n"], {}, TooShortError, "0 tokens"),
        (5, {}, InputError, "text comes as a path, or as an iterable of paths, texts or arrays of ids, got int"),
        (["a", 5], {}, InputError, "document 2 is a text .str. or the Path of one, got int"),
        (["a", b"b"], {}, InputError, "document 2 is a text .str. or the Path of one, got bytes"),
        (["a", "b\ud800"], {}, TextError, "document 2 has U[+]D800"),
        ("no-such-file", {}, TextError, "cannot read no-such-file"),
        ([Path("no-such-file")], {}, TextError, "cannot read no-such-file"),
        (["a"], {"order": 0}, InputError, "order must be 1 to 32, got 0"),
        (["a"], {"order": "x"}, InputError, "order of train_ngram is of type int, got 'x'"),
        (["a"], {"order": 2.5}, InputError, "order must be a whole number, got 2.5"),
        (["a"], {"smoothing": "mkm"}, InputError, "Did you mean 'mkn'"),
        (["a"], {"tokens": "wrod"}, InputError, "Did you mean 'word'"),
        (["a"], {"normalize": "non"}, InputError, "Did you mean 'none'"),
        (["a"], {"documents": "lines"}, InputError, "Did you mean 'line'"),
        (["a"], {"min_freq": 0}, InputError, "min_freq must be at least 1, got 0"),
        (["a"], {"ordr": 3}, InputError, "Did you mean 'order'"),
        (["a"], {"max_memory": "lots"}, InputError, "max_memory is a size such as 200M"),
        (["a"], {"max_memory": "1M"}, InputError, "max_memory must be at least 16M, got 1M"),
        (["a"], {"max_memory": "64M", "prune": 1e-8}, InputError, "prune needs the whole model in memory"),
        (["a"], {"max_memory": "64M", "smoothing": "jm"}, InputError, "smoothing=jm needs the whole model in memory"),
        (["a"], {"valid": [""]}, TooShortError, "the validation text has 0 tokens"),
        (["a"], {"vocab": ["a"]}, InputError, "vocab is a Vocab, such as that of a corpus or a model, got list"),
        (["a"], {"vocab": VOCAB, "tokens": "char"}, InputError, "the vocabulary has tokens=word, got tokens=char"),
        ([np.array([3])], {}, InputError, "give vocab="),
        ([np.array([3])], {"vocab": VOCAB, "documents": "line"}, InputError, "each array of ids is a document"),
        ([np.array([3, 9])], {"vocab": VOCAB}, TokenError, "document 1 has id 9, the vocabulary has 0 to 4"),
        ([np.array([3, -1])], {"vocab": VOCAB}, TokenError, "document 1 has id -1"),
        ([np.array([3, 1])], {"vocab": VOCAB}, TokenError, "has id 1, <s>; it is put before each document here"),
        ([np.array([3]), np.array([0.5])], {"vocab": VOCAB}, TokenError, "document 2 is an array of whole numbers"),
        ([np.array([[3]])], {"vocab": VOCAB}, TokenError, r"got int64 of shape \(1, 1\)"),
        ([np.array([3]), "a"], {"vocab": VOCAB}, TokenError, "got str"),
        ([np.zeros(0, int)], {"vocab": VOCAB}, TooShortError, "0 tokens"),
    ],
)
def test_errors(source: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quietly(source, **options)


def test_a_validation_text_of_another_vocabulary_is_refused() -> None:
    other = lmzoo.corpus_from_texts({"train": "x y", "valid": "x", "test": "x"}, tokens="word")
    with pytest.raises(lmzoo.LmzooError, match="valid has another vocabulary than the text"):
        quietly(["a b"], smoothing="jm", valid=other.valid)


def test_a_list_of_names_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"names a file; in a list, give pathlib.Path"):
        quietly([str(path)])


def test_a_literal_marker_is_never_the_internal_symbol() -> None:
    model = quietly(["a <s> b", "a </s>", "<unk> c"], order=2)
    assert {"\\<s>", "\\</s>", "\\<unk>"} <= set(model.vocab.tokens)
