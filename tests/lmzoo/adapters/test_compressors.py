"""Compressors as yardsticks: figures that were measured with other tools, and laws of code lengths."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lmzoo
from lmzoo.adapters import compressors
from lmzoo.corpus import Corpus, corpus_from_texts, load_corpus
from lmzoo.errors import InputError, MissingLibraryError, NotNormalizedError, OptionValueError, SpecError
from lmzoo.interface import cumulative_nats
from lmzoo.registry import create_coder, create_trainer

CODERS = ("ppmd", "xz", "zstd")
LIBRARIES = {"ppmd": "pyppmd", "zstd": "zstandard"}
BIT = math.log(2)


@pytest.fixture(params=CODERS)
def name(request: pytest.FixtureRequest) -> str:
    if request.param in LIBRARIES:
        pytest.importorskip(LIBRARIES[request.param])
    return str(request.param)


def corpus(train: str, test: str, **how: Any) -> Corpus:
    return corpus_from_texts({"train": train, "valid": test, "test": test}, **how)


def noise(n: int, seed: int = 0, alphabet: str = "abcdefgh") -> str:
    return "".join(random.Random(seed).choices(alphabet, k=n))


def test_figures_of_other_tools_on_the_time_machine(data_folder: Path, name: str) -> None:
    # PPMd of order 6 had perplexity 3.688 and `xz -9e` 5.18 there; versions differ by a few bytes
    text = load_corpus("timemachine")
    wanted = {"ppmd": 3.688, "xz": 5.18, "zstd": 5.22}
    assert lmzoo.code_length(name, text).perplexity == pytest.approx(wanted[name], rel=2e-3)


def test_ppmd_of_order_8_on_genesis_as_another_program_has_it() -> None:
    pytest.importorskip("pyppmd")
    assert lmzoo.code_length("ppmd:order=8", load_corpus("genesis")).perplexity == pytest.approx(2.851, abs=1e-3)


def test_a_training_text_that_holds_the_test_text_makes_it_all_but_free(name: str) -> None:
    text = noise(3000)
    known, unknown = (lmzoo.code_length(name, corpus(train, text)) for train in (text, noise(3000, seed=1)))
    assert known.nll_nats < 0.1 * unknown.nll_nats
    # eight symbols at random: 3 bits each, and nothing that could be learnt
    assert unknown.bits_per_byte == pytest.approx(3.0, rel=0.15)


def test_all_of_the_training_text_is_seen(name: str) -> None:
    """Also what stands farther back than a default window or block of these formats would reach."""
    text = noise(2000, seed=3, alphabet="".join(map(chr, range(33, 120))))
    far = text + noise(700_000, alphabet="ab\n")
    fast = {"ppmd": "ppmd", "xz": "xz:level=0,extreme=false", "zstd": "zstd:level=1"}
    assert lmzoo.code_length(fast[name], corpus(far, text)).bits_per_byte < 1.0


def test_a_text_too_short_for_whole_bytes_has_no_figures(name: str) -> None:
    train = "the cat sat on the mat\n" * 50
    length = lmzoo.code_length(name, corpus(train, "the"))
    assert (length.n_tokens, math.isnan(length.nll_nats)) == (3, True)
    assert (length.bits_per_char, length.bits_per_byte) == (None, None)
    why = "the test text is too short for a code that is counted in whole bytes"
    assert {length.bits_per_char_reason, length.bits_per_byte_reason, length.perplexity_reason} == {why}
    with pytest.raises(NotNormalizedError, match=f"{why}: take a longer one"):
        _ = length.perplexity
    # nor has a sum with it
    longer = lmzoo.code_length(name, corpus(train, noise(300)))
    assert longer.bits_per_byte is not None
    assert longer.bits_per_byte > 0
    assert (longer + replace(length, unit=longer.unit)).bits_per_byte is None


def test_the_tokenizer_changes_nothing(name: str) -> None:
    lengths = {
        lmzoo.code_length(name, corpus("a cat sat\n" * 40, "a dog sat\n" * 3, tokens=tokens, documents="line")).nll_nats
        for tokens in ("char", "word")
    }
    assert len(lengths) == 1


class TestBlocksOfPpmd:
    @pytest.fixture(autouse=True)
    def library(self) -> None:
        pytest.importorskip("pyppmd")

    def test_each_is_right_within_two_bytes(self) -> None:
        """The oracle codes each beginning of the text anew, whose end adds the same few bytes to each."""
        text = corpus("the cat sat on the mat\n" * 50 + noise(500), noise(600, seed=5) + "the cat sat on the mat\n" * 9)
        coder = create_coder("ppmd")
        whole = text.test.segments[0]
        ends = list(range(0, len(whole), 50))
        found = cumulative_nats(coder, text.train, text.test, ends)
        assert found is not None
        assert found == sorted(found)
        assert found[0] == 0.0
        for end, nats in list(zip(ends, found, strict=False))[1:]:
            beginning = corpus(text.train.segments[0], whole[:end])
            assert nats / BIT / 8 == pytest.approx(coder.nll_nats(text.train, beginning.test) / BIT / 8, abs=2.0)

    def test_they_add_up_to_the_whole(self) -> None:
        text = corpus("the cat sat on the mat\n" * 50, "a cat sat\n" * 20)
        coder = create_coder("ppmd")
        found = cumulative_nats(coder, text.train, text.test, [0, 7, 7, 150])
        assert found is not None
        assert found[-1] == coder.nll_nats(text.train, text.test)
        assert all(a <= b for a, b in itertools.pairwise(found))

    def test_a_small_memory_costs_and_breaks_nothing(self) -> None:
        text = corpus(noise(200_000, alphabet="abcdefghijklmnopqrstuvwxyz"), noise(500))
        little, much = (lmzoo.code_length(f"ppmd:order=12,memory={mib}", text).nll_nats for mib in (1, 64))
        assert little == pytest.approx(much, rel=0.1)


def test_the_others_tell_no_blocks() -> None:
    text = corpus("abc" * 10, "abc")
    assert cumulative_nats(create_coder("xz"), text.train, text.test, [1]) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ppmd:order=1", "order of ppmd is from 2 to 64, got 1"),
        ("ppmd:memory=0", "memory of ppmd is from 1 to 4095, got 0"),
        ("xz:level=10", "level of xz is from 0 to 9, got 10"),
        ("xz:extreme=maybe", "extreme of xz is true or false"),
        ("zstd:level=0", "level of zstd is from 1 to 22, got 0"),
    ],
)
def test_options_out_of_range_are_named(spec: str, message: str) -> None:
    with pytest.raises(OptionValueError, match=message):
        create_coder(spec)


@pytest.mark.parametrize("name", ["xz", "zstd"])
def test_a_text_beyond_the_window_is_refused_and_not_half_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    monkeypatch.setattr(compressors, "_LARGEST_XZ_WINDOW", 1 << 12)
    monkeypatch.setattr(compressors, "_ZSTD_WINDOW_LOGS", (10, 12))
    with pytest.raises(InputError, match=f"{name} looks back 4,096 bytes at most, and both texts are 4,097 bytes"):
        lmzoo.code_length(name, corpus(noise(4000), noise(97)))
    assert lmzoo.code_length(name, corpus(noise(4000), noise(96))).nll_nats > 0


def test_a_compressor_is_no_model_and_says_what_to_call() -> None:
    text = corpus("abc" * 10, "abc")
    with pytest.raises(SpecError, match=r"a compressor is no model; lmzoo.code_length\('xz', corpus\) tells how many"):
        lmzoo.train("xz", text)
    with pytest.raises(SpecError, match="xz is a compressor, so it is no part of a mixture"):
        create_trainer("mixture:kn5+xz", text.vocab)
    with pytest.raises(SpecError, match="'kn5' is no compressor; those that are: ppmd, xz, zstd"):
        lmzoo.code_length("kn5", text)
    with pytest.raises(InputError, match="make one with load_corpus"):
        lmzoo.code_length("xz", "a text")  # type: ignore[arg-type]


def test_an_absent_library_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingLibraryError, match=r"ppmd: pyppmd .*python -m pip install 'lmzoo\[compress\]'"):
        create_coder("ppmd")
