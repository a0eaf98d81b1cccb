"""Compiled scoring against the loop over orders: the same answers to the last bit, whatever the model and the batch."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmzoo import compiled
from lmzoo.corpus import encode_split
from lmzoo.errors import CorruptFileError, TokenError
from lmzoo.evaluation import token_nats
from lmzoo.ngram import model as model_module
from lmzoo.ngram.model import NgramModel
from lmzoo.ngram.prune import prune_by_count, prune_to_size
from lmzoo.ngram.quantize import quantize
from tests.lmzoo.ngram.test_laws import corpus_of, counted, lines

pytest.importorskip("numba")

ROOT = Path(__file__).resolve().parents[3]

CHANGES: list[Callable[[NgramModel], NgramModel]] = [
    lambda model: model,
    lambda model: quantize(model, 8),
    lambda model: quantize(model, 10),
    lambda model: prune_to_size(model, (len(model.vocab) + model.n_params) // 2),
    # suffixes are taken out and longer n-grams stay
    lambda model: prune_by_count(model, [np.arange(len(k)) % 3 for k in model.trie.packed_keys()], [0, 1]),
]


@contextmanager
def forced(is_compiled: bool) -> Iterator[None]:
    before = os.environ.get(compiled.VARIABLE)
    os.environ[compiled.VARIABLE] = str(int(is_compiled))
    try:
        yield
    finally:
        if before is None:
            del os.environ[compiled.VARIABLE]
        else:
            os.environ[compiled.VARIABLE] = before


def scored(model: NgramModel, tokens_BxL: np.ndarray, cut: int, *, is_compiled: bool, bos: bool) -> list[list[float]]:
    """ln p of all tokens, in two calls, and the state after the last as numbers."""
    with forced(is_compiled):
        state = model.initial_state(len(tokens_BxL), bos=bos)
        first, state = model.logprobs(tokens_BxL[:, :cut], state)
        second, state = model.logprobs(tokens_BxL[:, cut:], state)
    return [*np.concatenate((first, second), axis=1).tolist(), *state.tolist()]


@pytest.mark.whole
@settings(deadline=None)
@given(
    lines,
    st.integers(1, 6),
    st.sampled_from(["mkn", "wb", "katz", "mle", "sb"]),
    st.sampled_from(CHANGES),
    st.lists(st.text("abcde", min_size=9, max_size=9), min_size=1, max_size=20),
    st.integers(0, 9),
    st.booleans(),
)
def test_the_same_to_the_last_bit(train, order, smoothing, change, texts, cut, bos) -> None:
    model = counted(corpus_of(train), order, smoothing)
    # relative frequencies are not pruned: nothing takes what was taken out
    model = change(model) if smoothing not in ("mle", "sb") else model
    tokens_BxL = np.stack([model.vocab.encode(text) for text in texts])
    plain, fast = (scored(model, tokens_BxL, cut, is_compiled=is_compiled, bos=bos) for is_compiled in (False, True))
    assert fast == plain


@pytest.mark.parametrize("lane", [1, 2, 7])
@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_a_long_text_is_cut_into_lanes_and_shared_among_threads(lane, threads, monkeypatch) -> None:
    monkeypatch.setattr(model_module, "_LANE", lane)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    model = counted(corpus_of(["abracadabra", "cadabra", "barbara"]), 4)
    tokens_BxL = np.random.default_rng(0).integers(0, len(model.vocab), (3, 50))
    plain, fast = (scored(model, tokens_BxL, 20, is_compiled=is_compiled, bos=True) for is_compiled in (False, True))
    assert fast == plain


@settings(deadline=None)
@given(lines, st.integers(1, 6), lines, st.sampled_from([1, 3, 1024]))
def test_all_documents_at_once(train, order, texts, lane) -> None:
    model = counted(corpus_of(train), order)
    split = encode_split("test", texts, model.vocab, "line")
    with forced(False):
        plain = token_nats(model, split).tolist()
    before, model_module._LANE = model_module._LANE, lane
    try:
        with forced(True):
            assert token_nats(model, split).tolist() == plain
    finally:
        model_module._LANE = before


@pytest.mark.whole
def test_it_is_loaded_for_a_large_task_or_after_several_middling_ones() -> None:
    script = (
        "from lmzoo import compiled\n"
        "small = [compiled.is_worth_it(100_000, 100) for _ in range(100)]\n"
        "middling = [compiled.is_worth_it(2_000_000, 100) for _ in range(4)]\n"
        "print(any(small), *middling, compiled.is_worth_it(1, 1))"
    )
    environment = {name: value for name, value in os.environ.items() if name != compiled.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    # 0.2 s of gain each against 0.6 s of loading; 0.01 s is too little to count, however often
    assert done.stdout.split() == ["False", "False", "False", "False", "True", "False"]
    large = "from lmzoo import compiled; print(compiled.is_worth_it(10_000_000, 100))"
    done = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout.split() == ["True"]


def test_it_is_taken_where_it_pays(monkeypatch) -> None:
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    # numba is loaded here, so only the call is weighed
    assert compiled.is_worth_it(1_000_000, 100)
    assert not compiled.is_worth_it(10, 100)
    monkeypatch.setenv(compiled.VARIABLE, "1")
    assert compiled.is_worth_it(10, 100)
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert not compiled.is_worth_it(1_000_000, 100)


@pytest.mark.parametrize(("given", "wanted"), [("3", 3), ("2,1", 2), ("", None), ("0", None), ("x", None)])
def test_threads_follow_the_environment(given, wanted, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert compiled.n_threads() == (wanted or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("n_items", [0, 1, 2, 5, 100])
def test_every_item_is_done_once(n_items, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    done = np.zeros(n_items, np.int64)

    def work(low: int, high: int) -> None:
        done[low:high] += 1

    compiled.in_parallel(n_items, work)
    assert done.tolist() == [1] * n_items


def test_a_forked_child_scores_too(monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    model = counted(corpus_of(["abracadabra", "cadabra"]), 3)
    tokens_BxL = np.ones((8, 4), np.int64)
    plain = scored(model, tokens_BxL, 2, is_compiled=True, bos=True)
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sending.send(scored(model, tokens_BxL, 2, is_compiled=True, bos=True)))
    child.start()
    try:
        assert receiving.poll(60), "the child hangs"
        assert receiving.recv() == plain
    finally:
        child.kill()
        child.join()


def test_numba_that_cannot_be_used_is_told_once_and_numpy_does_the_work(tmp_path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ImportError('no such numpy')")
    environment = {**os.environ, compiled.VARIABLE: "1", "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    script = (
        "import lmzoo\n"
        "corpus = lmzoo.corpus_from_texts({'whole': 'abc abd ' * 30})\n"
        "model = lmzoo.train('ngram:order=3,smoothing=wb', corpus)\n"
        "print(lmzoo.evaluate(model, corpus.test).nll_nats, lmzoo.evaluate(model, corpus.test).nll_nats)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    assert done.stderr.count("CompiledWarning: compiled code cannot be used here") == 1
    first, second = map(float, done.stdout.split())
    assert first == second > 0


def test_arrays_that_lead_nowhere_are_refused_before_compiled_code_follows_them() -> None:
    model = counted(corpus_of(["abracadabra"]), 3, "wb")
    options, arrays = model.to_parts()
    first = arrays["first"].copy()
    first[2] = 10**9
    within = arrays["within"].copy()
    within[1:-1] += 60_000
    tokens = np.full_like(arrays["tokens"], 200)
    for changed in ({"first": first}, {"within": within}, {"tokens": tokens}):
        broken = NgramModel.from_parts(model.vocab, options, {**arrays, **changed})
        with forced(True), pytest.raises(CorruptFileError, match="places that are not there"):
            broken.logprobs(np.ones((2, 3), np.int64), broken.initial_state(2))


@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_is_no_state_of_the_model_is_refused(is_compiled) -> None:
    model = counted(corpus_of(["abracadabra"]), 3)
    good = model.initial_state(2)
    for state in (good + 10**9, good.astype(np.float64), good.astype(np.int32), np.full_like(good, -2)):
        with forced(is_compiled), pytest.raises(TokenError, match="no state of this model"):
            model.logprobs(np.ones((2, 3), np.int64), state)


def test_what_scored_is_named() -> None:
    model = counted(corpus_of(["abracadabra"]), 3)
    tokens_BxL = np.ones((2, 3), np.int64)
    with forced(False):
        model.logprobs(tokens_BxL, model.initial_state(2))
    assert model.kernel_name == "numpy"
    with forced(True):
        model.logprobs(tokens_BxL, model.initial_state(2))
    assert model.kernel_name == "numba"
