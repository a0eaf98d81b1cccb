"""Checkpoints: a training that is ended anywhere goes on to the very same bits."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo import checkpoints
from lmzoo.budget import Budget
from lmzoo.checkpoints import Checkpoint, CheckpointWarning
from lmzoo.corpus import Corpus
from lmzoo.errors import CorruptFileError, LmzooError, StoppedError, StorageError, TrainingMismatchError
from lmzoo.registry import MODELS, create_trainer, resolve_config

torch = pytest.importorskip("torch")

from lmzoo.neural import training  # noqa: E402
from lmzoo.neural.checkpoint import Place, Standing, epochs  # noqa: E402
from lmzoo.neural.optimizers import OPTIMIZERS  # noqa: E402

pytestmark = pytest.mark.torch

NEURAL = [name for name, entry in MODELS.items() if entry.family == "neural"]
# long documents, partitioned alone, and short ones, side by side: states carried, fresh, and of several widths
LINES = "abcd" * 20 + "\n" + "acdb" * 15 + "\n" + "ab\nc\ndabcabd\n" * 8
N_STEPS = 20


def corpus_of(train: str = LINES, documents: str = "line") -> Corpus:
    return lmzoo.corpus_from_texts({"train": train, "valid": "abcd\n", "test": "abcd\n"}, documents=documents)


def has_columns(name: str) -> bool:
    """Whether its batches are columns of consecutive tokens."""
    return hasattr(resolve_config(name), "num_steps")


def small(name: str, extra: str = "") -> str:
    return f"{name}:hidden=8,batch_size=4{',num_steps=6' if has_columns(name) else ''}{extra}"


def options_of(name: str) -> Iterator[str]:
    samplings = ["", ",sampling=random"] if has_columns(name) else [""]
    for sampling, rest in itertools.product(
        samplings,
        (",dropout=0.4,layers=2,averaging=3,optimizer=adamw", ",optimizer=sgd,lr=0.5,softmax=sampled,samples=3"),
    ):
        yield sampling + rest


def weights_of(model: Any) -> dict[str, np.ndarray]:
    return dict(model.to_parts()[1])


def assert_same(found: Any, wanted: Any) -> None:
    for name, array in weights_of(wanted).items():
        np.testing.assert_array_equal(weights_of(found)[name], array)


def done_in(path: Path) -> int:
    return checkpoints.read(path).facts["steps"] if path.exists() else 0


@pytest.mark.parametrize(("name", "extra"), [(name, extra) for name in NEURAL for extra in options_of(name)])
def test_a_stopped_training_goes_on_to_the_same_bits(name: str, extra: str, tmp_path: Path) -> None:
    corpus, spec = corpus_of(), small(name, extra)
    whole = lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2)
    for step in (1, 11, N_STEPS):
        path = tmp_path / f"{step}.ckpt"
        stop_after(spec, corpus, path, step)
        assert_same(lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2, checkpoint=path, resume=True), whole)


def stop_after(spec: str, corpus: Corpus, path: Path, step: int) -> None:
    """Train until a step, or until so many more steps where the file is there."""
    asked = itertools.count(1)
    with pytest.raises(StoppedError):
        lmzoo.train(
            spec, corpus, max_steps=N_STEPS, seed=2, checkpoint=path, resume=True, stop=lambda: next(asked) == step
        )


def test_it_may_be_stopped_again_and_again(tmp_path: Path) -> None:
    corpus, spec, path = corpus_of(), small("gru-scratch", ",dropout=0.2"), tmp_path / "x.ckpt"
    for n_more in (3, 1, 7, 5):
        stop_after(spec, corpus, path, n_more)
    assert done_in(path) == 16
    went_on = lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2, checkpoint=path, resume=True)
    assert_same(went_on, lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2))


def test_a_finished_training_is_finished_when_it_is_gone_on_with(tmp_path: Path) -> None:
    corpus, spec, path = corpus_of(), small("mlp"), tmp_path / "x.ckpt"
    model = lmzoo.train(spec, corpus, max_steps=5, checkpoint=path)
    before = checkpoints.read(path)
    steps: list[None] = []
    again = lmzoo.train(spec, corpus, max_steps=5, checkpoint=path, resume=True, stop=lambda: bool(steps.append(None)))
    assert_same(again, model)
    assert not steps
    assert checkpoints.read(path).facts["trainer"] == before.facts["trainer"]


def test_checkpoints_alone_change_nothing(tmp_path: Path) -> None:
    corpus, spec = corpus_of(), small("lstm-scratch", ",dropout=0.3")
    kept = lmzoo.train(spec, corpus, max_steps=9, checkpoint=tmp_path / "x.ckpt", checkpoint_every=0)
    assert_same(kept, lmzoo.train(spec, corpus, max_steps=9))


def test_a_checkpoint_that_cannot_be_written_costs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, spec, path = corpus_of(), small("gru-scratch"), tmp_path / "x.ckpt"

    def full(*_: object) -> None:
        raise StorageError("cannot write x.ckpt: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write", full)
        with pytest.warns(CheckpointWarning, match="No space left on device; the training goes on"):
            model = lmzoo.train(spec, corpus, max_steps=5, seed=2, checkpoint=path, checkpoint_every=0)
        # asked to stop, there is nothing to go on from
        with pytest.raises(StorageError, match="No space left"):
            lmzoo.train(spec, corpus, max_steps=5, seed=2, checkpoint=path, stop=lambda: True)
    assert_same(model, lmzoo.train(spec, corpus, max_steps=5, seed=2))


def test_a_finished_training_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, spec, path = corpus_of(), small("gru-scratch"), tmp_path / "x.ckpt"
    model = lmzoo.train(spec, corpus, max_steps=5, checkpoint=path)
    for name in ("write", "require_writable"):
        monkeypatch.setattr(checkpoints, name, None)
    assert_same(lmzoo.train(spec, corpus, max_steps=5, checkpoint=path, resume=True), model)


def test_what_began_with_compiled_gates_goes_on_with_them_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    corpus, spec, path = corpus_of(), small("gru-scratch"), tmp_path / "x.ckpt"
    monkeypatch.setattr(training, "_LEAST_COMPILED_STEPS", 1)
    monkeypatch.delenv("LMZOO_COMPILED", raising=False)
    whole = lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2)
    stop_after(spec, corpus, path, 7)
    with monkeypatch.context() as patch:
        patch.setenv("LMZOO_COMPILED", "0")
        with pytest.raises(TrainingMismatchError, match="began with compiled gates"):
            lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2, checkpoint=path, resume=True)
    # whatever this process would choose
    monkeypatch.setattr(training, "_LEAST_COMPILED_STEPS", 10**9)
    assert_same(lmzoo.train(spec, corpus, max_steps=N_STEPS, seed=2, checkpoint=path, resume=True), whole)


# Killed between two steps, while a checkpoint is written, when it is about to take the old one's place, and after that
KILLED = """
import itertools, os, pathlib, signal, sys
import lmzoo
import test_checkpoint as t

moment, path = sys.argv[1:]
def kill_at(n, function):
    calls = itertools.count(1)
    def called(*arguments, **options):
        if next(calls) == n:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return called

stop = kill_at(9, lambda: False) if moment == "step" else None
if moment == "write":
    # of each checkpoint the file, then its folder: the seventh file
    os.fsync = kill_at(13, os.fsync)
if moment == "replace":
    pathlib.Path.replace = kill_at(7, pathlib.Path.replace)
if moment == "after":
    pathlib.Path.unlink = kill_at(7, pathlib.Path.unlink)
lmzoo.train(t.KILLED_SPEC, t.corpus_of(), max_steps=t.N_STEPS, checkpoint=path, checkpoint_every=0, stop=stop)
"""
KILLED_SPEC = small("lstm-scratch", ",dropout=0.3,layers=2")


@pytest.mark.parametrize(("moment", "n_kept"), [("step", 8), ("write", 6), ("replace", 6), ("after", 6)])
def test_a_killed_process_loses_what_came_after_its_last_checkpoint(moment: str, n_kept: int, tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    done = subprocess.run([sys.executable, "-c", KILLED, moment, str(path)], cwd=Path(__file__).parent, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done_in(path) == n_kept
    corpus = corpus_of()
    went_on = lmzoo.train(KILLED_SPEC, corpus, max_steps=N_STEPS, checkpoint=path, resume=True)
    assert_same(went_on, lmzoo.train(KILLED_SPEC, corpus, max_steps=N_STEPS))


class TestEpochs:
    @given(
        sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), n_done=st.integers(1, 30), seed=st.integers(0, 99)
    )
    def test_from_any_place_on_they_are_what_they_would_have_been(
        self, sizes: list[int], n_done: int, seed: int
    ) -> None:
        def batches(
            rng: np.random.Generator, after: Place | None = None
        ) -> Iterator[tuple[tuple[int, float], float, Place]]:
            # a number is drawn before each batch: the generator moves within an epoch
            def draw() -> Iterator[tuple[int, float]]:
                return ((sizes[i], rng.random()) for i in rng.permutation(len(sizes)))

            return epochs(draw, lambda batch: batch[0] / sum(sizes), rng, after)

        whole = list(itertools.islice(batches(np.random.default_rng(seed)), n_done + 12))
        place = whole[n_done - 1][2]
        rest = list(itertools.islice(batches(np.random.default_rng(seed + 1), place), 12))
        assert rest == whole[n_done:]

    def test_an_epoch_is_whole_after_its_last_batch(self) -> None:
        # a tail of a tenth is never drawn
        found = epochs(lambda: iter([0.5, 0.4]), lambda share: share, np.random.default_rng(0))
        assert [done for _, done, _ in itertools.islice(found, 4)] == [0.5, 1.0, 1.5, 2.0]


class TestStanding:
    """One tensor, several, and none are carried, of any type that a network may have them in."""

    @pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
    @pytest.mark.parametrize("dtypes", [(), ("float32",), ("bfloat16", "float64", "float16")])
    def test_it_comes_back(self, dtypes: tuple[str, ...], optimizer: str) -> None:
        source = torch.Generator().manual_seed(5)
        weights, others = (
            {"a": torch.randn(3, 2, generator=source), "b": torch.randn(4, generator=source)} for _ in "12"
        )
        standing, back = (self.new(optimizer, w, seed) for w, seed in ((weights, 1), (others, 2)))
        for _ in range(3):
            standing.optimizer.step([torch.randn(w.shape, generator=source) for w in weights.values()], 0.1)
        standing.steps, standing.tokens = 3, 30
        standing.place = Place(epoch=1, n_batches=2, drawn_from=np.random.default_rng(7).bit_generator.state)
        standing.carried = tuple(torch.randn(2, 3, generator=source).to(getattr(torch, dtype)) for dtype in dtypes)
        back.restore(others, *standing.to_parts(weights))
        assert (back.steps, back.tokens, back.place) == (3, 30, standing.place)
        assert [state.dtype for state in back.carried] == [state.dtype for state in standing.carried]
        assert all(torch.equal(a, b) for a, b in zip(back.carried, standing.carried, strict=True))
        draws = [torch.rand(5, generator=s.generators["dropout"]) for s in (standing, back)]
        assert torch.equal(*draws)
        gradients = [torch.randn(w.shape, generator=source) for w in weights.values()]
        for s in (standing, back):
            s.optimizer.step(gradients, 0.1)
        assert all(torch.equal(weights[name], others[name]) for name in weights)

    def new(self, optimizer: str, weights: dict[str, Any], seed: int) -> Standing:
        generator = torch.Generator().manual_seed(seed)
        return Standing(optimizer=OPTIMIZERS[optimizer](list(weights.values())), generators={"dropout": generator})

    def test_there_is_nothing_to_write_before_the_first_step(self) -> None:
        trainer = create_trainer(small("mlp"), corpus_of().vocab)
        with pytest.raises(LmzooError, match="nothing was trained yet"):
            trainer.checkpoint()
        corpus = corpus_of()
        next(trainer.steps(corpus.train, corpus.valid, np.random.default_rng(0), Budget(steps=2)))
        assert trainer.checkpoint()[0]["steps"] == 1


def without(values: Any, key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


FORGED = {
    "no steps": lambda facts, arrays: (without(facts, "steps"), arrays),
    "steps below 0": lambda facts, arrays: ({**facts, "steps": -1}, arrays),
    "a place that is none": lambda facts, arrays: ({**facts, "place": 3}, arrays),
    "another generator": lambda facts, arrays: (
        {**facts, "place": {**facts["place"], "drawn_from": {"bit_generator": "MT19937"}}},
        arrays,
    ),
    "a type that is none": lambda facts, arrays: ({**facts, "carried": ["object"]}, arrays),
    "a state too many": lambda facts, arrays: ({**facts, "carried": ["float32"] * 3}, arrays),
    "no weight": lambda facts, arrays: (facts, without(arrays, "trainer/weight/output.bias")),
    "another shape": lambda facts, arrays: (facts, {**arrays, "trainer/weight/output.bias": np.zeros(2, np.float32)}),
    "no means": lambda facts, arrays: (facts, without(arrays, "trainer/mean/output.bias")),
    "no generator": lambda facts, arrays: (facts, without(arrays, "trainer/generator/dropout")),
    "a generator cut short": lambda facts, arrays: (
        facts,
        {**arrays, "trainer/generator/dropout": arrays["trainer/generator/dropout"][:9]},
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_no_training_wrote_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    """The checksum is right: somebody wrote the file on purpose."""
    corpus, spec, path = corpus_of(), small("lstm-scratch"), tmp_path / "x.ckpt"
    lmzoo.train(spec, corpus, max_steps=3, checkpoint=path)
    written = checkpoints.read(path)
    facts, arrays = FORGED[what](written.facts["trainer"], written.arrays)
    forged = Checkpoint(identity=written.identity, facts={**written.facts, "trainer": facts}, arrays=arrays)
    checkpoints.write(forged, path)
    with pytest.raises(CorruptFileError, match=r"x\.ckpt is damaged: its header does not describe a training"):
        lmzoo.train(spec, corpus, max_steps=3, checkpoint=path, resume=True)
