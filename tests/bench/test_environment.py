"""The machine as a record may show it, and the environment that a trial starts in."""

from __future__ import annotations

import getpass
import json
import platform
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import environment
from bench.environment import distinct_names
from bench.records import CorpusSpec, Environment

FOLDER_NAMES = st.text(st.characters(categories=["Lu", "Ll", "Nd"], include_characters="._- "), min_size=1).filter(
    lambda name: name.strip() == name
)


def test_nothing_says_whose_machine_it_is() -> None:
    text = json.dumps(environment.describe())
    assert Environment.model_validate_json(text).n_cpus_usable >= 1
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text
    for name in (platform.node(), getpass.getuser()):
        assert not re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text)


def test_every_thread_variable_holds_the_number_and_a_cpu_trial_sees_no_gpu() -> None:
    inherited = {"OMP_NUM_THREADS": "64", "PYTHONIOENCODING": "cp1252", "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1"}
    on_cpu = environment.trial_environment(3, "cpu", inherited=inherited)
    # OpenMP, the two libraries of linear algebra that numpy and torch come with, and numba
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        assert on_cpu.get(f"{library}_NUM_THREADS") == "3"
    assert {on_cpu[name] for name in environment.THREAD_VARIABLES} == {"3"}
    assert (on_cpu["CUDA_VISIBLE_DEVICES"], on_cpu["PATH"]) == ("", "/bin")
    assert "PYTHONIOENCODING" not in on_cpu
    assert environment.trial_environment(3, "cuda:0", inherited=inherited)["CUDA_VISIBLE_DEVICES"] == "1"


@given(folders=st.lists(FOLDER_NAMES, min_size=1), name=FOLDER_NAMES)
def test_an_argument_keeps_the_file_name_of_an_absolute_path_and_nothing_before_it(
    folders: list[str], name: str
) -> None:
    path = "/".join(["", *folders, name])
    shown = environment.command_line("run", ["--train", path, f"--out={path}"])
    assert shlex.split(shown) == ["run", "--train", name, f"--out={name}"]


@given(
    st.lists(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" ", exclude_characters="/~\\")))
)
def test_a_recorded_command_can_be_run_again(arguments: list[str]) -> None:
    assert shlex.split(environment.command_line("run", arguments)) == ["run", *arguments]


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("*.py", "'*.py'"),
        # folders that are not absolute stay, whatever stands before a slash
        ("src/**/*.py", "'src/**/*.py'"),
        ("data/[ab]/x.txt", "'data/[ab]/x.txt'"),
        ("copy (1)/x.txt", "'copy (1)/x.txt'"),
        # of a pattern, what follows the folders that have no signs of one
        ("/home/jo/src/**/*.py", "'**/*.py'"),
        ("kn5,kenlm:/home/jo/m.arpa", "kn5,kenlm:m.arpa"),
        ("mixture:kn5+lstm(hidden=5)", "'mixture:kn5+lstm(hidden=5)'"),
    ],
)
def test_an_argument_is_recorded_as_a_shell_takes_it(argument: str, shown: str) -> None:
    assert environment.command_line("run", [argument]) == f"run {shown}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read '/home/jo/a.txt': no", "cannot read 'a.txt': no"),
        ("kenlm:/data/models/x.bin", "kenlm:x.bin"),
        ("~/texts/a.txt", "a.txt"),
        (r"C:\Users\jo\a.txt", "a.txt"),
        ("results/mine and ../up", "results/mine and ../up"),
        ("12 tokens/s, 3 / 4", "12 tokens/s, 3 / 4"),
    ],
)
def test_texts_without_folders(text: str, shown: str) -> None:
    assert environment.without_folders(text) == shown


@given(st.text())
def test_a_safe_name_is_ascii_and_never_hidden(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", environment.safe_name(text))


def test_the_age_of_a_process_grows() -> None:
    first = environment.process_age_s()
    assert environment.process_age_s() >= first >= 0


def test_a_message_is_published_on_one_line_spelt_out_and_not_too_long() -> None:
    assert environment.publishable("the model at /home/jo/m.bin \x1b[31mbroke\n\tbadly\u202e") == (
        "the model at m.bin \\x1b[31mbroke badly\\u202e"
    )
    assert environment.publishable("红楼梦 שלום é") == "红楼梦 שלום é"
    assert len(environment.publishable("x" * 5000)) == 500


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (["a.txt", "b.txt"], ["a.txt", "b.txt"]),
        (["a.txt", "a.txt"], ["a.txt", "a.txt"]),
        (["x/a.txt", "y/a.txt", "z/b.txt"], ["x/a.txt", "y/a.txt", "b.txt"]),
        (["x/p/a.txt", "y/p/a.txt", "x/p/a.txt"], ["x/p/a.txt", "y/p/a.txt", "x/p/a.txt"]),
        (["a.txt", "x/a.txt"], ["a.txt", "x/a.txt"]),
        (["../a.txt", "./a.txt"], ["../a.txt", "a.txt"]),
        (["x/*.py", "y/*.py"], ["x/*.py", "y/*.py"]),
        (["/home/ann/*.py", "/home/bob/*.py"], ["*.py", "*.py (2)"]),
        # whose folders may name a user
        (["/home/ann/a.txt", "/home/bob/a.txt"], ["a.txt", "a.txt (2)"]),
        (["~/a.txt", "x/a.txt", "y/a.txt"], ["a.txt", "a.txt (2)", "a.txt (3)"]),
    ],
)
def test_texts_of_one_name_are_told_apart_by_folders_or_numbers(paths: list[str], wanted: list[str]) -> None:
    names = [path.rpartition("/")[2] for path in paths]
    by_name = [CorpusSpec(name=path) for path in paths]
    assert distinct_names(names, by_name) == wanted
    by_parts = [CorpusSpec(train=(path, "more.txt"), test="test.txt") for path in paths]
    several = [f"{name}+1 more" for name in names]
    ending = re.compile(r"( \(\d\))?$")
    assert distinct_names(several, by_parts) == [ending.sub(r"+1 more\1", name, count=1) for name in wanted]


def test_a_corpus_and_a_file_called_like_it_are_told_apart() -> None:
    assert distinct_names(["genesis", "genesis"], [CorpusSpec(name="genesis"), CorpusSpec(name="./genesis")]) == [
        "genesis",
        "genesis (2)",
    ]
