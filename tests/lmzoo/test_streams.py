"""Streams that take no more: lost notes change nothing, and only a reader of results who leaves ends a command."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from lmzoo.cli import run

TEXT = "the cat sat on the mat\n" * 20
# read by a process of its own: the command with its standard error closed
CLOSED = "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, '-m', 'lmzoo', *sys.argv[1:]])"


@contextmanager
def left():
    """A pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


@contextmanager
def full():
    """A disk without room."""
    with open("/dev/full", "wb", buffering=0) as device:  # noqa: PTH123
        yield device.fileno()


def status_of(*arguments, code=("-m", "lmzoo"), **streams):
    done = subprocess.run([sys.executable, *code, *map(str, arguments)], stdin=subprocess.DEVNULL, **streams)
    return done.returncode


@pytest.mark.parametrize("gone", [left, full])
def test_notes_that_nobody_is_told_do_not_stop_the_work(tmp_path, gone):
    (tmp_path / "text").write_text(TEXT)
    with gone() as stderr:
        # with warnings, a note and the figures at the end
        assert status_of("train", "kn5", tmp_path / "text", "-o", tmp_path / "m.lm", stderr=stderr) == 0
        assert (tmp_path / "m.lm").stat().st_size > 0
        assert status_of("train", "no-such-model", tmp_path / "text", "-o", tmp_path / "n.lm", stderr=stderr) == 2


def test_nor_does_a_closed_standard_error(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    arguments = (tmp_path / "text", "-o", tmp_path / "m.lm")
    assert status_of("train", "bigram", *arguments, code=("-c", CLOSED)) == 0
    assert (tmp_path / "m.lm").stat().st_size > 0
    assert status_of("train", "no-such-model", *arguments, code=("-c", CLOSED)) == 2


def test_standard_error_in_a_pipe_that_is_read_says_what_it_did(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    command = [sys.executable, "-m", "lmzoo", "train", "no-such-model", str(tmp_path / "text"), "-o", "n.lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no model 'no-such-model'.")


def test_a_reader_who_leaves_ends_a_card_quietly(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    with left() as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "lmzoo", "describe", str(tmp_path / "text")], stdout=stdout, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_standard_error_that_was_put_in_its_place_is_left_alone(capsys):
    before = sys.stderr
    assert run(["no-such-command"]) == 2
    assert sys.stderr is before
    assert capsys.readouterr().err.startswith("error: ")
