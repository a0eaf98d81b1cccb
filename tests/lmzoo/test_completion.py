"""The script `lmzoo`: what a shell completes, and how it ends before anything is loaded."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lmzoo import registry
from lmzoo.cli import completion, run
from lmzoo.parts import POLICIES
from lmzoo.registry import MODELS, ModelEntry
from lmzoo.sources import SOURCES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def completed(monkeypatch, capsys):
    """What bash is told can follow the words typed, the last of which is being typed: (kind, value) pairs."""

    def ask(*words):
        monkeypatch.setenv(completion.VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("lmzoo", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert run([]) == 0
        return [tuple(line.split(",", 1)) for line in capsys.readouterr().out.splitlines()]

    return ask


class TestWhatIsCompleted:
    def test_commands(self, completed):
        assert completed("c") == [("plain", name) for name in ("check", "completion", "convert", "corpora", "counts")]

    @pytest.mark.parametrize(
        ("words", "names"),
        [
            (("train", ""), list(MODELS)),
            (("train", "kn5", "--corpus", ""), list(SOURCES)),
            (("counts", "--documents", ""), list(POLICIES)),
            (("train", "kn5", "--normalize", "l"), ["letters", "lower"]),
            (("rank", "book.lm", "--format", ""), ["lines", "nbest", "tsv", "json"]),
            (("completion", ""), ["bash", "zsh", "fish"]),
            (("score", "book.lm", "--per-t"), ["--per-token"]),
        ],
    )
    def test_names(self, completed, words, names):
        assert set(names) <= {value for kind, value in completed(*words) if kind == "plain"}

    def test_tokenizers(self, completed):
        assert {("plain", "char"), ("plain", "word")} <= set(completed("train", "kn5", "--tokens", ""))

    @pytest.mark.parametrize(
        "words", [("score", ""), ("score", "book.lm", ""), ("train", "kn5", "--valid", ""), ("train", "kn5", "-o", "b")]
    )
    def test_files_are_left_to_the_shell(self, completed, words):
        assert ("file", words[-1]) in completed(*words)

    def test_a_model_is_a_file_or_what_is_read(self, completed, monkeypatch):
        borrowed = ModelEntry(
            name="borrowed", description="", config="x:y", reader="x:y", family="counting", value="path"
        )
        monkeypatch.setattr(registry, "all_entries", lambda: {**MODELS, "borrowed": borrowed})
        assert completed("next", "bor") == [("plain", "borrowed:"), ("file", "bor")]


class TestScripts:
    @pytest.mark.parametrize("shell", completion.SHELLS)
    def test_each_shell_has_one(self, capsys, shell):
        assert run(["completion", shell]) == 0
        assert f"{completion.VARIABLE}={shell}_complete" in capsys.readouterr().out

    def test_another_shell(self, capsys):
        assert run(["completion", "tcsh"]) == 2
        assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err

    def test_bash_completes_by_it(self, tmp_path):
        (tmp_path / "lmzoo").write_text(f'#!/bin/sh\nexec {sys.executable} -m lmzoo "$@"\n')
        (tmp_path / "lmzoo").chmod(0o755)
        script = (
            'eval "$(lmzoo completion bash)"; COMP_WORDS=(lmzoo train lstm-s); COMP_CWORD=2; '
            "$(complete -p lmzoo | sed 's/.*-F \\([^ ]*\\).*/\\1/') lmzoo; echo ${COMPREPLY[@]}"
        )
        path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
        )
        assert done.stdout == "lstm-scratch\n", done.stderr

    def test_the_installed_script_is_the_module(self):
        named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
        assert list(named) == [completion.SCRIPT]
        module, _, function = named[completion.SCRIPT].partition(":")
        assert getattr(importlib.import_module(module), function).__module__ == "lmzoo.__main__"


class TestTheFirstMoments:
    def test_ctrl_c_while_modules_are_loaded_prints_nothing(self, tmp_path):
        (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
        path = os.pathsep.join((str(tmp_path), str(ROOT)))
        done = subprocess.run(
            [sys.executable, "-m", "lmzoo", "models"], capture_output=True, env={**os.environ, "PYTHONPATH": path}
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
