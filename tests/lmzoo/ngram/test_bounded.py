"""Counting in bounded memory: the same model to the last bit, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
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
from lmzoo.errors import OptionValueError, StorageError
from lmzoo.ngram import counts, planting, runs
from lmzoo.ngram.columns import FOLDER_PREFIX, IN_MEMORY, DiskColumn, Room, disk_room
from lmzoo.ngram.config import LEAST_MEMORY, memory_bytes
from lmzoo.ngram.counts import with_starts
from lmzoo.ngram.discounts import DiscountWarning
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.trainer import model_of
from lmzoo.registry import resolve_config
from tests.lmzoo.ngram.test_laws import corpus_of, lines, orders

BOUNDED = (
    "mkn",
    "mkn,interpolated=false",
    "kn",
    "kn,interpolated=false",
    "ad",
    "ad,interpolated=false",
    "wb",
    "katz",
    "addk,k=0.3",
    "mle",
    "sb",
)
# n-grams, tokens and values at a time
sizes = st.tuples(st.integers(1, 9), st.integers(1, 20), st.integers(1, 9))


def model_in(room: Room, corpus: Corpus, order: int, smoothing: str) -> NgramModel:
    config = resolve_config(f"ngram:order={order},smoothing={smoothing}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiscountWarning)
        return model_of(config, corpus.vocab, with_starts(corpus.train), None, room)


def bounded(corpus: Corpus, order: int, smoothing: str, at_once: tuple[int, int, int]) -> NgramModel:
    n_grams, n_positions, n_values = at_once
    with disk_room(n_grams=n_grams, n_positions=n_positions, n_values=n_values, need="little") as room:
        return model_in(room, corpus, order, smoothing)


def assert_same(one: NgramModel, other: NgramModel) -> None:
    """Equal in every bit and every type."""
    (options, arrays), (other_options, other_arrays) = one.to_parts(), other.to_parts()
    assert options == other_options
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == other_arrays[name].dtype, name
        assert array.tobytes() == other_arrays[name].tobytes(), name


@pytest.mark.whole
@settings(max_examples=150)
@given(lines, orders, st.sampled_from(BOUNDED), sizes)
def test_the_same_model_to_the_last_bit(
    train: list[str], order: int, smoothing: str, at_once: tuple[int, int, int]
) -> None:
    corpus = corpus_of(train)
    assert_same(bounded(corpus, order, smoothing, at_once), model_in(IN_MEMORY, corpus, order, smoothing))


@given(lines, orders, st.sampled_from(BOUNDED), st.integers(1, 9))
def test_blocks_change_no_bit(train: list[str], order: int, smoothing: str, n_grams: int) -> None:
    corpus = corpus_of(train)
    assert_same(
        model_in(Room(n_grams=n_grams), corpus, order, smoothing), model_in(IN_MEMORY, corpus, order, smoothing)
    )


@pytest.mark.parametrize("smoothing", ["mkn", "katz", "addk,k=0.1"])
def test_the_same_model_of_a_real_text(data_folder: object, smoothing: str) -> None:
    corpus = lmzoo.load_corpus("timemachine", tokens="word")
    assert_same(bounded(corpus, 4, smoothing, (500, 3000, 400)), model_in(IN_MEMORY, corpus, 4, smoothing))


def test_long_orders_and_documents_shorter_than_they_are() -> None:
    corpus = corpus_of(["ab", "b", "abcab" * 9])
    for smoothing in ("wb", "mkn,interpolated=false", "addk,k=1"):
        assert_same(bounded(corpus, 32, smoothing, (2, 3, 2)), model_in(IN_MEMORY, corpus, 32, smoothing))


@given(lines, orders, st.sampled_from(BOUNDED), sizes)
def test_ids_of_64_bits_give_the_same_model(
    train: list[str], order: int, smoothing: str, at_once: tuple[int, int, int]
) -> None:
    # as in a text of more than 2^31 tokens
    corpus = corpus_of(train)
    wanted = model_in(IN_MEMORY, corpus, order, smoothing)
    with pytest.MonkeyPatch.context() as patch:
        for module in (counts, planting, runs):
            patch.setattr(module, "node_type", lambda _: np.int64)
        assert_same(model_in(IN_MEMORY, corpus, order, smoothing), wanted)
        assert_same(bounded(corpus, order, smoothing, at_once), wanted)


def test_types_are_as_wide_as_what_they_number() -> None:
    assert [runs.node_type(n) for n in (0, 2**31 - 1, 2**31)] == [np.int32, np.int32, np.int64]
    assert [runs.token_type(n) for n in (2, 256, 257, 2**16, 2**31)] == [
        np.uint8,
        np.uint8,
        np.uint16,
        np.uint16,
        np.uint32,
    ]


def test_more_pairs_than_a_key_can_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_MOST_KEYS", 36)
    with pytest.raises(lmzoo.LmzooError, match=r"order 2 has 6 histories and 6 symbols, 2.63 pairs of the two or more"):
        model_in(IN_MEMORY, corpus_of(["abc"]), 2, "mle")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_model_outlives_the_temporary_files(temporary: Path) -> None:
    seen: list[list[str]] = []

    def documents() -> Iterator[str]:
        yield "the cat sat"
        seen.append([path.name for path in temporary.iterdir()])
        yield "the dog"

    model = lmzoo.train_ngram(documents(), order=3, smoothing="wb", max_memory="16M")
    assert [name.startswith(FOLDER_PREFIX) for name in seen[0]] == [True]
    assert list(temporary.iterdir()) == []
    assert lmzoo.rank(model, ["the cat"])[0].logprob < 0


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_temporary_files_are_gone_after_an_exception(
    temporary: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def documents() -> Iterator[str]:
        yield "the cat sat"
        raise error

    with pytest.raises(error):
        lmzoo.train_ngram(documents(), max_memory="16M")
    assert list(temporary.iterdir()) == []

    def stop(self: object, *given: Any) -> None:
        raise error

    # in the midst of counting
    monkeypatch.setattr(DiskColumn, "mapped", stop)
    with pytest.raises(error):
        lmzoo.train_ngram(["the cat sat"], smoothing="wb", max_memory="16M")
    assert list(temporary.iterdir()) == []


WAITS = """
import sys, lmzoo
def documents():
    yield "the cat sat"
    print("waiting", flush=True)
    sys.stdin.read()
lmzoo.train_ngram(documents(), max_memory="16M")
"""


@pytest.mark.skipif(os.name != "posix", reason="files without a name are POSIX's")
def test_what_survives_a_kill_is_an_empty_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", WAITS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGKILL)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith(FOLDER_PREFIX)
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_said_with_the_folder_and_the_need(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Path("/dev/full").open("r+b", buffering=0))  # noqa: SIM115
    wanted = rf"cannot write temporary files to .*{FOLDER_PREFIX}.*: No space left on device; up to 256 bytes for each"
    with pytest.raises(StorageError, match=wanted):
        lmzoo.train_ngram(["the cat sat"], max_memory="16M")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match=r"cannot make a folder for temporary files in .*nowhere"):
        lmzoo.train_ngram(["the cat sat"], max_memory="16M")


@pytest.mark.parametrize(
    ("size", "n_bytes"),
    [
        ("16M", 1 << 24),
        ("1.5G", 3 << 29),
        ("64m", 1 << 26),
        ("32 MB", 1 << 25),
        ("20000000", 20_000_000),
        (1 << 30, 1 << 30),
    ],
)
def test_sizes(size: str | int, n_bytes: int) -> None:
    assert memory_bytes(size) == n_bytes


@pytest.mark.parametrize("size", ["", "M", "-64M", "64X", "1e9", "nan", "1,5G", LEAST_MEMORY - 1, -1])
def test_no_sizes(size: str | int) -> None:
    with pytest.raises(OptionValueError, match="max_memory"):
        memory_bytes(size)


@pytest.mark.parametrize(
    "options",
    ["smoothing=jm", "smoothing=addk", "discounts=tuned", "discounts=kenlm", "cutoffs=2", "prune=0.1", "max_ngrams=9"],
)
def test_what_needs_the_whole_model_in_memory_is_refused(options: str) -> None:
    with pytest.raises(OptionValueError, match="needs the whole model in memory, so it does not go with max_memory"):
        resolve_config(f"ngram:{options},max_memory=64M")


def test_too_little_for_a_vocabulary() -> None:
    # 256 bytes for each of 70,003 symbols
    text = " ".join(f"w{n}" for n in range(70_000))
    with pytest.raises(
        OptionValueError, match=r"max_memory=16M is too little for 70003 symbols.*at least 18M is needed"
    ):
        lmzoo.train_ngram([text], max_memory="16M")


MEASURED = """
import sys, warnings
import numpy as np
import lmzoo
from bench.memory import peak_rss_bytes
warnings.simplefilter("ignore")
limit = None if sys.argv[1] == "none" else sys.argv[1]
rng = np.random.default_rng(0)
vocab = lmzoo.train_ngram([" ".join(f"w{n}" for n in range(5000))], order=2, max_memory=limit).vocab
def documents():
    # frequent tokens have low ids
    for _ in range(100):
        yield np.append((3 + 5000 * rng.random(15_000) ** 4).astype(np.int32), 2)
base = peak_rss_bytes()
model = lmzoo.train_ngram(documents(), vocab=vocab, order=4, max_memory=limit)
print(peak_rss_bytes() - base, model.n_params)
"""


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a high-water mark of its own is Linux's")
def test_memory_stays_within_its_bound() -> None:
    def measured(limit: str) -> tuple[int, int]:
        command = [sys.executable, "-c", MEASURED, limit]
        peak, n_ngrams = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        return int(peak), int(n_ngrams)

    (bound, n_bounded), (free, n_free) = measured("16M"), measured("none")
    assert n_bounded == n_free > 3_000_000
    # what the allocator keeps for later, and 6 MB of ids that are read at once
    slack = 8 << 20
    assert bound <= memory_bytes("16M") + slack
    assert free > 4 * bound
