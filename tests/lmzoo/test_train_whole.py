"""`train` on several files: cut as one text, or all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lmzoo
from lmzoo.cli import run

A, B = "the cat sat on the mat\nthe dog sat on the cat\n" * 10, "a dog ate the mat\nthe end of it" + "\na cat ran" * 10

# a text as small as this one has no discounts of its own
pytestmark = [pytest.mark.plain, pytest.mark.filterwarnings("ignore:order")]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "a.txt").write_text(A, encoding="utf-8")
    (tmp_path / "b.txt").write_text(B, encoding="utf-8")
    return [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]


def test_several_files_are_cut_as_one_text(files: list[str], tmp_path: Path) -> None:
    assert run(["train", "trigram", *files, "--tokens", "word", "-o", str(tmp_path / "m.lm")]) == 0
    corpus = lmzoo.corpus_from_texts({"whole": A + B}, tokens="word")
    wanted = lmzoo.save(lmzoo.train("trigram", corpus), tmp_path / "wanted.lm")
    assert (tmp_path / "m.lm").read_bytes() == wanted.read_bytes()


@pytest.mark.parametrize("bound", [[], ["--max-memory", "64M"]])
def test_all_of_it(files: list[str], tmp_path: Path, bound: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--all", "--tokens", "word", "--min-freq", "2", *bound]
    assert run(["train", "trigram", *files, *options, "-o", str(tmp_path / "m.lm")]) == 0
    model = lmzoo.train_ngram([A, B], order=3, min_freq=2)
    wanted = lmzoo.save(model, tmp_path / "wanted.lm")
    assert (tmp_path / "m.lm").read_bytes() == wanted.read_bytes()
    n_tokens = len((A + B).split()) + len((A + B).splitlines())
    told = capsys.readouterr().err.splitlines()[-1]
    assert f": {n_tokens} training tokens, {len(model.vocab)} symbols, written to " in told


def test_characters_unless_words_are_asked_for(files: list[str], tmp_path: Path) -> None:
    assert run(["train", "trigram", *files, "--all", "-o", str(tmp_path / "m.lm")]) == 0
    # each file is a document of its own
    assert lmzoo.load(tmp_path / "m.lm").vocab.counts_V[1] == 2


def test_a_bound_on_memory_beside_a_text_that_is_cut(files: list[str], tmp_path: Path) -> None:
    for n, bound in enumerate(([], ["--max-memory", "64M"])):
        assert run(["train", "kn5", files[0], "--tokens", "word", *bound, "-o", str(tmp_path / f"{n}.lm")]) == 0
    assert (tmp_path / "0.lm").read_bytes() == (tmp_path / "1.lm").read_bytes()


def test_what_is_fitted_takes_a_validation_text(files: list[str], tmp_path: Path) -> None:
    arguments = ["train", "ngram:smoothing=jm", files[0], "--all", "--valid", files[1], "-o", str(tmp_path / "m.lm")]
    assert run(arguments) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["lstm-scratch", "A", "--all"],
            "--all is for counting models, such as kn5 or ngram:order=4",
        ),
        (["lstm-scratch", "A", "--max-memory", "1G"], "lstm-scratch has no option 'max_memory'"),
        (["kn5", "--all"], "--all takes TEXT files"),
        (["kn5", "A", "--all", "--corpus", "genesis"], "--all takes TEXT files"),
        (["kn5", "A", "nowhere", "--all"], "no file 'nowhere'"),
        (["kn5", "A", "nowhere"], "no file 'nowhere'"),
        (["kn5:max_memory=1G", "A", "--max-memory", "1G"], "'max_memory' is given twice"),
        (["kn5", "A", "--all", "--max-memory", "1k"], "max_memory must be at least 16M, got 1k"),
        (["ngram:smoothing=jm", "A", "--all"], "smoothing=jm is fitted on validation text, and there is none"),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(
    files: list[str], tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [files[0] if argument == "A" else argument for argument in arguments]
    assert run(["train", *filled, "-o", str(tmp_path / "m.lm")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "m.lm").exists()
