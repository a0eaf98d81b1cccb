"""ARPA files: KenLM's read back to their own figures, ours through a round trip, and defective ones by hand."""

from __future__ import annotations

import contextlib
import gzip
import math
from pathlib import Path

import numpy as np
import pytest

import lmzoo
from lmzoo import storage
from lmzoo.errors import InputError, NotNormalizedError, StorageError
from lmzoo.ngram import arpa_file
from lmzoo.ngram.arpa import ArpaError, ArpaWarning, read_arpa, write_arpa
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import largest_sum
from tests.lmzoo.ngram.test_golden import GOLDEN, MARKET, ORDERS, TEXTS, arpa_entries, golden_text, kenlm_like

LN10 = math.log(10)

pytestmark = pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")


def log10_of(model: NgramModel, text: str, *, bos: bool = True) -> list[float]:
    ids = model.vocab.encode(text)
    if model.vocab.eos_id is not None:
        ids = np.append(ids, model.vocab.eos_id)
    return (model.logprobs(ids[None, :], model.initial_state(bos=bos))[0][0] / LN10).tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_kenlm_files_score_as_kenlm_scores(order: int) -> None:
    model = read_arpa(GOLDEN / f"market.{order}.arpa")
    lines = (GOLDEN / "market.test").read_text(encoding="utf-8").splitlines()
    for line, wanted in zip(lines, MARKET[str(order)], strict=True):
        # KenLM adds float32 numbers of 8 digits
        np.testing.assert_allclose(log10_of(model, line), wanted["log10"], atol=2e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_history_of_a_file_sums_to_1(name: str, order: int) -> None:
    model = read_arpa(GOLDEN / f"{name}.{order}.arpa")
    for words, _ in arpa_entries(GOLDEN / f"{name}.{order}.arpa")[::7]:
        ids = np.array([[model.vocab.token_to_id[w] for w in words]])
        _, state = model.logprobs(ids, model.initial_state(bos=False))
        assert np.exp(model.next_logprobs(state)).sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("suffix", [".arpa", ".arpa.gz"])
@pytest.mark.parametrize("name", TEXTS)
def test_round_trip(name: str, suffix: str, tmp_path: Path) -> None:
    model = kenlm_like(golden_text(name), 4)
    write_arpa(model, tmp_path / f"m{suffix}")
    back = read_arpa(tmp_path / f"m{suffix}")
    assert back.vocab.tokens == model.vocab.tokens
    for text in golden_text(name).splitlines()[:5]:
        np.testing.assert_allclose(log10_of(back, text), log10_of(model, text), atol=1e-6)


def test_what_others_would_split_on_comes_back(tmp_path: Path) -> None:
    text = "10\u00a0km\u3000away \u200bhere \\u{20} <unk>\n" * 3
    corpus = lmzoo.corpus_from_texts({"train": text, "valid": text, "test": text}, tokens="word")
    model = lmzoo.train("ngram:order=2", corpus)
    assert isinstance(model, NgramModel)
    write_arpa(model, tmp_path / "m.arpa")
    for line in (tmp_path / "m.arpa").read_text(encoding="utf-8").splitlines():
        # any white space at all, as other readers see it
        assert len(line.split()) == len(line.replace("\t", " ").split(" ")) or not line
    back = read_arpa(tmp_path / "m.arpa")
    assert back.vocab.tokens == model.vocab.tokens
    assert lmzoo.evaluate(back, corpus.test).nll_nats == pytest.approx(lmzoo.evaluate(model, corpus.test).nll_nats)


def test_characters_come_back(tmp_path: Path) -> None:
    corpus = lmzoo.corpus_from_texts({"train": "to be or not\n\tto be", "valid": "to", "test": "be or"})
    model = lmzoo.train("ngram:order=3", corpus)
    assert isinstance(model, NgramModel)
    write_arpa(model, tmp_path / "m.arpa")
    back = read_arpa(tmp_path / "m.arpa", tokenizer="char")
    assert lmzoo.evaluate(back, corpus.test).perplexity == pytest.approx(lmzoo.evaluate(model, corpus.test).perplexity)


def test_a_model_that_never_backs_off_is_refused(tmp_path: Path) -> None:
    corpus = lmzoo.corpus_from_texts({"train": "a b a b", "valid": "a", "test": "b"}, tokens="word")
    with pytest.raises(StorageError, match=r"order 1 never backs off \(mle\)"):
        write_arpa(lmzoo.train("ngram:order=2,smoothing=mle", corpus), tmp_path / "m.arpa")  # type: ignore[arg-type]


GOOD = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.5
-0.3\ta\t-0.25
-0.4\t</s>

\\2-grams:
-0.1\t<s> a
-0.2\ta </s>

\\end\\
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "m.arpa").write_bytes(text.encode())
    return tmp_path / "m.arpa"


def test_absent_back_offs_are_0(tmp_path: Path) -> None:
    model = read_arpa(written(tmp_path, GOOD))
    # <s> a: listed;  a b(unknown): back-off of a, then <unk>;  <unk> </s>: nothing to back off from
    assert log10_of(model, "a b") == pytest.approx([-0.1, -0.25 - 1.0, -0.4], abs=1e-6)
    # <s> b: back-off of <s>;  b a: nothing to back off from;  a </s>: listed
    assert log10_of(model, "b a") == pytest.approx([-0.5 - 1.0, -0.3, -0.2], abs=1e-6)


def test_crlf_blanks_and_spaces_for_tabs(tmp_path: Path) -> None:
    text = "\n\nsome remark\n" + GOOD.replace("\t", "  ").replace("\n", "\r\n")
    assert log10_of(read_arpa(written(tmp_path, text)), "a b") == pytest.approx([-0.1, -1.25, -0.4], abs=1e-6)


def test_no_unk(tmp_path: Path) -> None:
    text = GOOD.replace("-1.0\t<unk>\n", "").replace("1=4", "1=3")
    with pytest.warns(ArpaWarning, match="no <unk>"):
        model = read_arpa(written(tmp_path, text))
    assert log10_of(model, "a b") == pytest.approx([-0.1, -0.25 - 100, -0.4], abs=1e-6)


def test_no_bos(tmp_path: Path) -> None:
    text = GOOD.replace("0\t<s>\t-0.5\n", "").replace("-0.1\t<s> a\n", "").replace("1=4", "1=3").replace("2=2", "2=1")
    assert log10_of(read_arpa(written(tmp_path, text)), "a") == pytest.approx([-0.3, -0.2], abs=1e-6)


def test_an_order_without_ngrams(tmp_path: Path) -> None:
    text = GOOD.replace("ngram 2=2", "ngram 2=2\nngram 3=0").replace("\\end\\", "\\3-grams:\n\n\\end\\")
    assert log10_of(read_arpa(written(tmp_path, text)), "a") == pytest.approx([-0.1, -0.2], abs=1e-6)


def test_a_file_cut_down_to_a_lower_order(tmp_path: Path) -> None:
    text = GOOD.replace("<s> a\n", "<s> a\t-0.7\n")
    with pytest.warns(ArpaWarning, match="highest order 2 has back-offs"):
        model = read_arpa(written(tmp_path, text))
    assert log10_of(model, "a b") == pytest.approx([-0.1, -1.25, -0.4], abs=1e-6)


def test_a_history_that_is_not_listed(tmp_path: Path) -> None:
    text = GOOD.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace("\\end\\", "\\3-grams:\n-0.6\ta a a\n\n\\end\\")
    with pytest.warns(ArpaWarning, match="without their histories; 1 were added"):
        model = read_arpa(written(tmp_path, text))
    # a a is not listed: back-off of a, then a;  a a a: listed
    got = log10_of(model, "a a a", bos=False)
    assert got[:3] == pytest.approx([-0.3, -0.25 - 0.3, -0.6], abs=1e-6)


def test_a_wrong_count_is_told(tmp_path: Path) -> None:
    with pytest.warns(ArpaWarning, match="declares 9 n-grams of order 1, 4 were read"):
        read_arpa(written(tmp_path, GOOD.replace("1=4", "1=9")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "it has no line"),
        ("\\2-grams:", "\\3-grams:", r"line 11: \\2-grams: is wanted"),
        ("-0.3\ta\t", "x\ta\t", "line 8: not a number"),
        ("-0.3\ta\t", "nan\ta\t", "line 8: not a finite number"),
        ("-0.3\ta\t", "0.3\ta\t", "line 8: a log-probability above 0"),
        ("-0.1\t<s> a", "-0.1\t<s> a b c", "line 12: 3 or 4 fields are wanted, got 5"),
        ("-0.1\t<s> a", "-0.1\t<s> b", "'b' stands in an n-gram but not among"),
        ("\n\\end\\\n", "", "may be cut short"),
        ("ngram 1=4\n", "", "order 1 is wanted"),
        ("ngram 1=4", "ngram 1=" + "9" * 5000, "no line 'ngram 1"),
        ("0\t<s>\t-0.5", "0\t<s>\t1e308", "line 7: not a finite number"),
        ("ngram 2=2", "\n".join(f"ngram {k}=2" for k in range(2, 40)), "its order is 39, 32 is the highest"),
    ],
)
def test_damaged_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArpaError, match=message):
        read_arpa(written(tmp_path, GOOD.replace(old, new)))


def test_a_cut_gzip_file(tmp_path: Path) -> None:
    (tmp_path / "m.arpa.gz").write_bytes(gzip.compress(GOOD.encode())[:40])
    with pytest.raises(ArpaError, match="is cut short: its gzip data has no end; get the whole file"):
        read_arpa(tmp_path / "m.arpa.gz")


def test_golden_totals() -> None:
    for order in ORDERS:
        model = read_arpa(GOLDEN / f"market.{order}.arpa")
        lines = (GOLDEN / "market.test").read_text(encoding="utf-8").splitlines()
        wanted = [w["total_log10"] for w in MARKET[str(order)]]
        assert [sum(log10_of(model, line)) for line in lines] == pytest.approx(wanted, abs=1e-5)


def test_a_failed_write_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD)
    model = read_arpa(path)
    monkeypatch.setattr("lmzoo.files.os.fsync", _full_disk)
    with pytest.raises(StorageError, match="No space left on device"):
        write_arpa(model, path)
    assert path.read_text(encoding="utf-8") == GOOD
    assert [p.name for p in tmp_path.iterdir()] == ["m.arpa"]


def _full_disk(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_scores_that_are_no_distribution_are_refused(tmp_path: Path) -> None:
    corpus = lmzoo.corpus_from_texts({"train": "a b a b", "valid": "a", "test": "b"}, tokens="word")
    with pytest.raises(StorageError, match="do not sum to 1"):
        write_arpa(lmzoo.train("ngram:order=2,smoothing=sb", corpus), tmp_path / "m.arpa")


@pytest.mark.parametrize("escape", ["\\u{110000}", "\\u{ffffffffffffffffffffffff}", "\\u{d800}"])
def test_an_escape_of_no_character(escape: str, tmp_path: Path) -> None:
    with pytest.raises(ArpaError, match="line 8: no character has that number"):
        read_arpa(written(tmp_path, GOOD.replace("-0.3\ta\t", f"-0.3\t{escape}\t")))


def test_an_n_gram_listed_twice(tmp_path: Path) -> None:
    twice = GOOD.replace("-0.1\t<s> a\n", "-0.1\t<s> a\n-0.2\t<s> a\n").replace("2=2", "2=3")
    with pytest.raises(ArpaError, match="line 13: '<s> a' is listed twice"):
        read_arpa(written(tmp_path, twice))


def test_words_are_no_characters(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("-0.4\t</s>", "-0.5\tab\n-0.4\t</s>").replace("1=4", "1=5"))
    with pytest.raises(ArpaError, match="'ab' is no single character"):
        read_arpa(path, tokenizer="char")


def test_unknown_words_cannot_be_spelled(tmp_path: Path) -> None:
    model = read_arpa(written(tmp_path, GOOD))
    corpus = lmzoo.corpus_from_texts({"train": "a", "valid": "a", "test": "a b"}, tokens="word")
    tally = lmzoo.evaluate(model, corpus.test.encoded_with(model.vocab))
    assert tally.n_oov == 1
    assert tally.bits_per_char is None
    assert tally.bits_per_char_reason


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_lines_with_and_without_back_offs_side_by_side(piece: int, tmp_path: Path, monkeypatch) -> None:
    # whatever lines are turned into numbers together, and however they are spaced
    text = GOOD.replace("-0.4\t</s>", "-0.4   </s>\n-3 b\t -0.1").replace("1=4", "1=5")
    wanted = log10_of(read_arpa(written(tmp_path, text)), "a b a")
    monkeypatch.setattr(arpa_file, "_PIECE", piece)
    assert log10_of(read_arpa(written(tmp_path, text)), "a b a") == wanted


def test_an_ngram_listed_twice_among_the_words(tmp_path: Path) -> None:
    text = GOOD.replace("-0.3\ta\t-0.25\n", "-0.3\ta\t-0.25\n-0.3\ta\t-0.25\n").replace("1=4", "1=5")
    with pytest.raises(ArpaError, match="line 9: 'a' is listed twice"):
        read_arpa(written(tmp_path, text))


def test_what_hands_out_more_than_there_is_has_no_perplexity(tmp_path: Path) -> None:
    with pytest.warns(ArpaWarning, match=r"is no distribution: .* sums to"):
        model = read_arpa(written(tmp_path, GOOD.replace("-0.3\ta\t-0.25", "-0.3\ta\t5")))
    corpus = lmzoo.corpus_from_texts({"train": "a", "valid": "a", "test": "a"}, tokens="word")
    tally = lmzoo.evaluate(model, corpus.test.encoded_with(model.vocab))
    assert not tally.is_normalized
    with pytest.raises(NotNormalizedError):
        _ = tally.perplexity
    # a file keeps it
    back = lmzoo.load(lmzoo.save(model, tmp_path / "m.lm"))
    assert not back.is_normalized


def test_the_largest_sum_is_that_of_all_histories() -> None:
    model = read_arpa(GOLDEN / "market.3.arpa")
    n_symbols = len(model.vocab)
    pairs_Bx2 = np.stack(np.meshgrid(np.arange(n_symbols), np.arange(n_symbols)), axis=-1).reshape(-1, 2)
    _, state = model.logprobs(pairs_Bx2, model.initial_state(len(pairs_Bx2), bos=False))
    sums_B = np.exp(model.next_logprobs(state)).sum(axis=1)
    assert largest_sum(model) == pytest.approx(sums_B.max(), abs=1e-5)


@pytest.mark.parametrize(
    ("option", "message"), [("tokenizer", "no tokenizer 'xx'"), ("normalizer", "no normaliser 'xx'")]
)
def test_a_tokenizer_that_is_not_there(option: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_arpa(written(tmp_path, GOOD), **{option: "xx"})


def test_any_flipped_bit_of_a_gzip_file_is_an_error_or_the_file(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(GOOD.encode(), mtime=0))
    whole = storage.to_bytes(read_arpa(written(tmp_path, GOOD)))
    for place in range(len(data)):
        data[place] ^= 4
        (tmp_path / "m.arpa.gz").write_bytes(data)
        with contextlib.suppress(StorageError, InputError):
            # a header's bits may change nothing
            assert storage.to_bytes(read_arpa(tmp_path / "m.arpa.gz")) == whole
        data[place] ^= 4
