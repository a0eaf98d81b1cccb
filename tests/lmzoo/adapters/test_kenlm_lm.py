"""KenLM's models behind the interface: its own figures are the oracle."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo.conformance import check_language_model
from lmzoo.corpus import encode_split
from lmzoo.errors import InputError, MissingLibraryError, StorageError
from lmzoo.ngram.arpa import read_arpa, write_arpa
from lmzoo.registry import available_models, recorded_options

GOLDEN = Path(__file__).parents[2] / "golden"
MARKET = json.loads((GOLDEN / "market.test.kenlm.json").read_text(encoding="utf-8"))["market"]
TEST_LINES = (GOLDEN / "market.test").read_text(encoding="utf-8").splitlines()
ARPA = GOLDEN / "market.3.arpa"
ORDERS = sorted(int(order) for order in MARKET)


@pytest.fixture
def kenlm() -> Any:
    return pytest.importorskip("kenlm")


def opened(path: Path, options: str = "") -> Any:
    return lmzoo.read_model(f'kenlm:"{path}"{options}')


@pytest.mark.usefixtures("kenlm")
class TestFigures:
    @pytest.mark.parametrize("order", ORDERS)
    def test_every_token_is_what_kenlm_itself_says(self, order: int) -> None:
        model = opened(GOLDEN / f"market.{order}.arpa")
        split = encode_split("test", TEST_LINES, model.vocab, "line")
        for document, wanted in zip(split, MARKET[str(order)], strict=True):
            logprobs_1xL, _ = model.logprobs(document.ids_L[None, :], model.initial_state())
            # eight digits are printed of float32
            assert logprobs_1xL[0] / np.log(10) == pytest.approx(wanted["log10"], abs=1e-6)
            orders_1xL = model.matched_orders(document.ids_L[None, :], model.initial_state())
            assert orders_1xL[0].tolist() == wanted["matched_order"]

    def test_totals(self) -> None:
        model = opened(ARPA)
        split = encode_split("test", TEST_LINES, model.vocab, "line")
        tally = lmzoo.evaluate(model, split)
        assert tally.nll_nats / np.log(10) == pytest.approx(-sum(w["total_log10"] for w in MARKET["3"]), abs=1e-5)
        assert tally.n_oov == sum(w["oov"] for w in MARKET["3"])

    def test_the_same_file_read_here(self) -> None:
        """Two readers of one file: KenLM, and this project's own."""
        theirs, ours = opened(ARPA), read_arpa(ARPA)
        assert theirs.vocab.fingerprint == ours.vocab.fingerprint
        for bos in (True, False):
            states = [model.initial_state(bos=bos) for model in (theirs, ours)]
            for token in [0, 5, 7, 2, 9]:
                got, wanted = (m.next_logprobs(s) for m, s in zip((theirs, ours), states, strict=True))
                assert got == pytest.approx(wanted, abs=1e-5)
                ids = np.array([[token]])
                states = [m.logprobs(ids, s)[1] for m, s in zip((theirs, ours), states, strict=True)]

    def test_the_contract(self) -> None:
        results = check_language_model(opened(ARPA))
        assert {r.name: r.message for r in results if r.status == "failed"} == {}
        skipped = {r.name for r in results if r.status == "skipped"}
        # it stays in its file, is not trained here, and is asked word by word
        assert {name for name in skipped if not name.startswith(("persistence.", "training."))} == {
            "probability.all_logprobs_agree",
            "state.classes_of_contexts",
        }


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.usefixtures("kenlm")
class TestFiles:
    def perplexity(self, model: Any) -> float:
        return lmzoo.evaluate(model, encode_split("test", TEST_LINES, model.vocab, "line")).perplexity

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / "my, model (1.arpa.gz"
        path.write_bytes(gzip.compress(ARPA.read_bytes()))
        model = opened(path)
        assert model.vocab.tokens == opened(ARPA).vocab.tokens
        assert self.perplexity(model) == self.perplexity(opened(ARPA))

    def test_what_was_exported_here_comes_back(self, tmp_path: Path) -> None:
        """A character model: its space is written as `\\u{20}`, which KenLM takes for a word like others."""
        corpus = lmzoo.corpus_from_texts({"whole": "a cat sat on a mat and ate a rat " * 9}, documents="line")
        ours = lmzoo.train("ngram:order=3,smoothing=wb", corpus)
        write_arpa(ours, tmp_path / "chars.arpa")
        theirs = opened(tmp_path / "chars.arpa", ",tokens=char")
        assert theirs.vocab.tokens == ours.vocab.tokens
        ids = corpus.test.ids_N[None, :]
        wanted, got = (model.logprobs(ids, model.initial_state())[0] for model in (ours, theirs))
        # seven digits are written
        assert got == pytest.approx(wanted, abs=1e-5)

    def test_words_of_a_text_that_marks_its_unknown_words(self, tmp_path: Path) -> None:
        """KenLM takes no `<unk>` in a text, so it is written as a word before; unk= turns it back."""
        path = tmp_path / "spelled.arpa"
        path.write_text(ARPA.read_text(encoding="utf-8").replace("river", "UNKTOK"), encoding="utf-8")
        plain, marked = opened(path), opened(path, ",unk=UNKTOK")
        assert len(marked.vocab) == len(plain.vocab) - 1
        spelled = encode_split("test", ["near the UNKTOK"], plain.vocab, "line")
        as_read = encode_split("test", ["near the <unk>"], marked.vocab, "line")
        assert as_read.n_oov == 0
        got, wanted = lmzoo.evaluate(marked, as_read), lmzoo.evaluate(plain, spelled)
        assert got.nll_nats == wanted.nll_nats

    def test_without_unk_it_has_kenlms_floor(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        lines = ARPA.read_text(encoding="utf-8").replace("ngram 1=28", "ngram 1=27").splitlines(keepends=True)
        (tmp_path / "m.arpa").write_text("".join(line for line in lines if "<unk>" not in line), encoding="utf-8")
        model = opened(tmp_path / "m.arpa")
        assert model.next_logprobs(model.initial_state(bos=False))[0, 0] == pytest.approx(-100 * np.log(10))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda data: b"", "is neither an ARPA file .* nor a binary file of KenLM"),
            (lambda data: b"once upon a time\n", "is neither an ARPA file"),
            (lambda data: data[:40], "is cut short: it has no section"),
            (lambda data: data[:190], "a 1-gram is a figure and a word"),
            (lambda data: data[:-40], "KenLM cannot read"),
            (lambda data: data.replace(b"</s>", b"end"), "KenLM cannot read .*missing </s>"),
            (lambda data: data.replace(b"river", b"\xff\xfe"), "a word that is not UTF-8"),
            (lambda data: data.replace(b"\triver", b"\tri\\u{76}er").replace(b"\twalk", b"\triver"), "'river' twice"),
            (lambda data: gzip.compress(data)[:99], "cannot read .*end-of-stream"),
        ],
    )
    def test_what_cannot_be_read_says_so(self, tmp_path: Path, change: Any, message: str) -> None:
        (tmp_path / "bad.arpa").write_bytes(change(ARPA.read_bytes()))
        with pytest.raises(StorageError, match=message):
            opened(tmp_path / "bad.arpa")

    @pytest.mark.parametrize(
        ("spec", "error", "message"),
        [
            ("kenlm:nowhere.arpa", StorageError, "cannot read nowhere.arpa: no such file"),
            ("kenlm:.", StorageError, "it is a folder"),
            (f"kenlm:'{ARPA}',unk=zebra", StorageError, "has no word 'zebra'"),
            (f"kenlm:'{ARPA}',tokens=char", InputError, "'the' is no single character"),
            (f"kenlm:'{ARPA}',tokens=wrod", InputError, "Did you mean 'word'"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec: str, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            lmzoo.read_model(spec)


class TestBinaries:
    """Made here after KenLM's format 5, so that no program is needed: only what this project reads of it is there."""

    WORDS = ("<unk>", "<s>", "</s>", "the", "\\<unk>", "naïve")

    def binary(self, **changes: Any) -> bytes:
        facts = {"version": b"5", "order": 2, "kind": 0, "has_words": True, "counts": (6, 9), "words": self.WORDS}
        facts |= changes
        magic = b"mmap lm http://kheafield.com/code format version " + facts["version"] + b"\n\0"
        sanity = magic.ljust(52, b"\0") + bytes(36)
        parameters = struct.pack("<B3xfI?3xI", facts["order"], 1.5, facts["kind"], facts["has_words"], 1)
        counts = b"".join(struct.pack("<Q", count) for count in facts["counts"])
        # the tables end with any byte
        words = b"".join(word.encode() + b"\0" for word in facts["words"])
        return sanity + parameters + counts + b"\x07\0tables\0\x07" + words

    def inspected(self, tmp_path: Path, data: bytes) -> Any:
        from lmzoo.adapters.kenlm_words import inspect_file

        (tmp_path / "model.bin").write_bytes(data)
        return inspect_file(tmp_path / "model.bin")

    def test_words_counts_and_kind(self, tmp_path: Path) -> None:
        found = self.inspected(tmp_path, self.binary())
        assert (found.words, found.counts, found.is_quantized) == (self.WORDS, (6, 9), False)

    def test_unk_may_be_left_out_of_the_count(self, tmp_path: Path) -> None:
        assert self.inspected(tmp_path, self.binary(counts=(5, 9))).words == self.WORDS

    @pytest.mark.parametrize(("kind", "is_quantized"), [(0, False), (2, False), (3, True), (4, False), (5, True)])
    def test_rounded_figures_are_known(self, tmp_path: Path, kind: int, is_quantized: bool) -> None:
        assert self.inspected(tmp_path, self.binary(kind=kind)).is_quantized is is_quantized

    @pytest.mark.parametrize(
        ("changes", "cut", "message"),
        [
            ({"has_words": False}, None, r"built without its words \(build_binary -v\); build it without -v"),
            ({"version": b"4"}, None, "a binary file of format 4, format 5 is read; build it again"),
            ({"order": 99}, None, "its header says order 99"),
            ({"counts": (9, 9)}, None, "does not end with its 9 words"),
            ({}, -3, "does not end with its 6 words"),
            ({}, 90, "cut short within its header"),
            ({}, 109, "its header says order 2"),
        ],
    )
    def test_what_is_no_whole_binary_file(self, tmp_path: Path, changes: Any, cut: int | None, message: str) -> None:
        with pytest.raises(StorageError, match=message):
            self.inspected(tmp_path, self.binary(**changes)[:cut])

    def test_what_kenlm_built(self, tmp_path: Path, kenlm: Any) -> None:
        """Where KenLM's programs are: all structures say the same."""
        from benchmarks import kenlm_binaries

        if kenlm_binaries.missing() is not None:
            pytest.skip(kenlm_binaries.missing() or "")
        wanted = opened(ARPA)
        kinds = {kenlm_binaries.PROBING: 1e-4, kenlm_binaries.TRIE: 1e-4, kenlm_binaries.TRIE_8_BITS: 2e-2}
        for structure, tolerance in kinds.items():
            binary = kenlm_binaries.build_binary(ARPA, structure, tmp_path / "model.bin")
            model = opened(binary)
            assert (set(model.vocab.tokens), model.n_params) == (set(wanted.vocab.tokens), wanted.n_params)
            assert model.tolerance == tolerance
            got = [lmzoo.rank(m, TEST_LINES)[0].logprob for m in (model, wanted)]
            assert got[0] == pytest.approx(got[1], abs=1e-5 if tolerance < 1e-3 else 0.1)


def test_a_record_knows_the_file_by_name_and_content(tmp_path: Path) -> None:
    elsewhere = tmp_path / "market.3.arpa"
    elsewhere.write_bytes(ARPA.read_bytes())
    options = recorded_options(f"kenlm:{ARPA}")
    assert options == recorded_options(f"kenlm:'{elsewhere}'")
    assert options["path"] == "market.3.arpa"
    elsewhere.write_bytes(ARPA.read_bytes() + b"\n")
    assert options != recorded_options(f"kenlm:'{elsewhere}'")
    with pytest.raises(StorageError, match="cannot read"):
        recorded_options("kenlm:nowhere.arpa")


def test_without_kenlm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert available_models()["kenlm"].endswith(
        "(not here: kenlm is not installed: python -m pip install 'lmzoo[kenlm]')"
    )
    with pytest.raises(MissingLibraryError, match="kenlm: kenlm is not installed"):
        lmzoo.read_model(f"kenlm:{ARPA}")
