"""`train --checkpoint`: requests to end, going on, and what is refused."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lmzoo import checkpoints
from lmzoo.budget import Budget
from lmzoo.cli import run
from lmzoo.cli.stopping import held_back, stoppable

pytestmark = pytest.mark.torch

TEXT = "the cat sat on the mat and the dog ate the mat " * 40
SPEC = "mlp:hidden=4,batch_size=8,dropout=0.2"
STATUS_OF = {signal.SIGINT: 130, signal.SIGTERM: 128 + signal.SIGTERM}


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a text, and give its status and error text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")

    def call(*arguments):
        status = run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert out == ""
        return status, err

    return call


def signalled_at(monkeypatch, number, *steps):
    """Send this process a signal in the middle of these steps."""
    note = Budget.note

    def noted(self, *, steps_done, epochs_done):
        if steps_done in steps:
            os.kill(os.getpid(), number)
        note(self, steps_done=steps_done, epochs_done=epochs_done)

    monkeypatch.setattr(Budget, "note", noted)


TRAIN = ("train", SPEC, "text", "--max-steps", 12)
LASTING = (*TRAIN, "--checkpoint", "x.ckpt", "-o", "x.lm")


@pytest.mark.parametrize("number", STATUS_OF)
def test_a_request_to_end_waits_for_a_checkpoint_and_the_same_command_goes_on(typed, tmp_path, number):
    assert typed(*TRAIN, "-o", "whole.lm")[0] == 0
    handlers = [signal.getsignal(n) for n in STATUS_OF]
    with pytest.MonkeyPatch.context() as patch:
        signalled_at(patch, number, 5)
        status, err = typed(*LASTING, "--resume")
    assert status == STATUS_OF[number]
    assert err.endswith(
        "training was stopped after step 5; x.ckpt goes on from there with the same command and --resume\n"
    )
    assert checkpoints.read(tmp_path / "x.ckpt").facts["steps"] == 5
    assert not (tmp_path / "x.lm").exists()
    assert [signal.getsignal(n) for n in STATUS_OF] == handlers
    assert typed(*LASTING, "--resume")[0] == 0
    assert (tmp_path / "x.lm").read_bytes() == (tmp_path / "whole.lm").read_bytes()


@pytest.mark.parametrize("number", STATUS_OF)
def test_a_second_request_does_not_wait(typed, tmp_path, monkeypatch, number):
    note = Budget.note
    done = []

    def noted(self, *, steps_done, epochs_done):
        note(self, steps_done=steps_done, epochs_done=epochs_done)
        if steps_done == 5:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        done.append(steps_done)

    monkeypatch.setattr(Budget, "note", noted)
    status, err = typed(*LASTING)
    assert status == STATUS_OF[number]
    assert done == [1, 2, 3, 4]
    assert "goes on" not in err
    assert not (tmp_path / "x.ckpt").exists()


@pytest.mark.parametrize("number", STATUS_OF)
def test_without_a_checkpoint_there_is_nothing_to_wait_for(typed, tmp_path, monkeypatch, number):
    signalled_at(monkeypatch, number, 5)
    status, err = typed(*TRAIN, "-o", "x.lm")
    assert (status, err) == (STATUS_OF[number], "")
    assert not (tmp_path / "x.lm").exists()


def test_options_reach_the_library(typed, monkeypatch):
    from lmzoo import driver

    asked, train = {}, driver.train
    monkeypatch.setattr(driver, "train", lambda *a, **k: asked.update(k) or train(*a, **k))
    assert typed(*LASTING, "--checkpoint-every", 7.5, "--resume")[0] == 0
    assert {name: asked[name] for name in ("checkpoint", "checkpoint_every", "resume")} == {
        "checkpoint": "x.ckpt",
        "checkpoint_every": 7.5,
        "resume": True,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*TRAIN, "-o", "x.lm", "--resume"), "resume is about a checkpoint, and none is given"),
        ((*TRAIN, "-o", "x.lm", "--checkpoint-every", 3), "checkpoint_every is about a checkpoint"),
        ((*TRAIN, "-o", "x.lm", "--checkpoint", "./x.lm"), "model and checkpoint are two files, got x.lm for both"),
        ((*TRAIN, "-o", "x.lm", "--checkpoint", "text"), "text is read and would be overwritten"),
        ((*TRAIN, "-o", "x.lm", "--checkpoint", "none/x"), "cannot write none/x: there is no folder none"),
        (("train", "kn5", "text", "-o", "x.lm", "--checkpoint", "x.ckpt"), "kn5 counts its text once"),
        (("train", "kn5", "text", "--all", "-o", "x.lm", "--checkpoint", "x.ckpt"), "kn5 counts its text once"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_work(typed, tmp_path, arguments, message):
    status, err = typed(*arguments)
    assert status == 2
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["text"]  # noqa: PTH208


def test_links_that_lead_round_in_a_circle_are_one_line(typed, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for arguments in (("-o", "x.lm", "--checkpoint", "loop"), ("-o", "loop")):
        status, err = typed(*TRAIN, *arguments)
        assert status == 2
        assert err == "error: cannot write loop: Too many levels of symbolic links\n"


def test_another_training_and_a_file_that_is_there_are_refused(typed, tmp_path):
    assert typed(*LASTING)[0] == 0
    before = (tmp_path / "x.ckpt").read_bytes()
    assert "x.ckpt is there already" in typed(*LASTING)[1]
    status, err = typed(*LASTING, "--resume", "--seed", 4)
    assert (status, err) == (
        2,
        "error: x.ckpt is of a training with seed 0, this one has 4; give what it was started with, or start anew with "
        "another checkpoint\n",
    )
    (tmp_path / "x.ckpt").write_bytes(before[:-1])
    assert "x.ckpt is damaged or cut short" in typed(*LASTING, "--resume")[1]


def test_of_a_training_that_diverged_nothing_is_written_and_it_says_so(typed, tmp_path):
    spec = f"{SPEC},lr=1e6,clip=0,optimizer=sgd,schedule=constant"
    status, err = typed("train", spec, "text", "--max-steps", 50, "-o", "x.lm")
    assert status == 2
    assert err.startswith("error: training diverged at step ")
    assert "x.lm is not written" in err
    assert not (tmp_path / "x.lm").exists()


@pytest.mark.filterwarnings("default::lmzoo.batches.ShortTextWarning")
def test_a_text_shorter_than_a_batch_is_told_in_one_line(typed, tmp_path):
    (tmp_path / "short").write_text("a cat sat on a mat")
    status, err = typed("train", "lstm-scratch:hidden=4", "short", "--max-steps", 2, "-o", "x.lm")
    assert status == 0
    told = [line for line in err.splitlines() if line.startswith("warning: the training text (")]
    assert len(told) == 1
    assert "does not fill a batch of 32 x 32 (batch_size x num_steps)" in told[0]


@pytest.mark.parametrize("text", ["", "a", "ab"])
@pytest.mark.parametrize("spec", ["mlp", "lstm-scratch"])
def test_a_text_too_short_for_anything_is_refused_in_one_line(typed, tmp_path, spec, text):
    (tmp_path / "short").write_text(text)
    status, err = typed("train", spec, "short", "-o", "x.lm")
    assert status == 2
    assert "0 tokens, at least 1 is needed" in err
    assert err.count("\n") == 1


def test_outside_the_main_thread_signals_are_left_alone():
    seen = []

    def look():
        with stoppable(), held_back() as request:
            seen.append((signal.getsignal(signal.SIGTERM), request()))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(before, False)]
