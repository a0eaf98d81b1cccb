"""Data sets through Hugging Face `datasets`: which splits are which part, which column is the text."""

from __future__ import annotations

import json
import sys

import pytest

from lmzoo.corpus import load_corpus
from lmzoo.errors import CorpusError, MissingDataError, MissingLibraryError
from lmzoo.sources import named_source
from lmzoo.sources.hub import open_dataset

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

LINES = "".join(f"line {n}\n" for n in range(40))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for a data set, and an empty cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    made = tmp_path / "small"
    made.mkdir()
    return made


def texts_of(folder):
    return {part: read() for part, read in open_dataset(str(folder)).items()}


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_text_files_come_back_line_by_line(folder):
    (folder / "train.txt").write_text("a b\n\nc\n", encoding="utf-8")
    (folder / "validation.txt").write_text("d\n", encoding="utf-8")
    (folder / "test.txt").write_text("红楼\n", encoding="utf-8")
    assert texts_of(folder) == {"train": "a b\n\nc\n", "valid": "d\n", "test": "红楼\n"}


def test_rows_of_json_end_their_lines_once_and_the_missing_are_left_out(folder):
    rows = [
        {"text": " = Title = \n", "n": 1},
        {"text": "", "n": 2},
        {"text": None, "n": 3},
        {"text": "two\nlines", "n": 4},
    ]
    write_rows(folder / "train.jsonl", *rows)
    write_rows(folder / "test.jsonl", {"text": "x", "n": 5})
    assert texts_of(folder) == {"train": " = Title = \n\ntwo\nlines\n", "test": "x\n"}


def test_parquet_by_any_name_of_its_only_texts(folder):
    table = datasets.Dataset.from_dict({"n": [1, 2], "story": ["once", "upon"]})
    table.to_parquet(folder / "train.parquet")
    table.select([1]).to_parquet(folder / "test.parquet")
    assert texts_of(folder) == {"train": "once\nupon\n", "test": "upon\n"}


def test_a_single_split_is_cut_as_any_text_is(folder):
    (folder / "train.txt").write_text(LINES, encoding="utf-8")
    assert texts_of(folder) == {"whole": LINES}
    corpus = load_corpus(f"hf:{folder}", tokens="word")
    assert corpus.name == "hf:small"
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [33, 4, 3]


def test_validation_is_the_test_part_where_there_is_no_other(folder):
    (folder / "train.txt").write_text("a\n", encoding="utf-8")
    (folder / "validation.txt").write_text("b\n", encoding="utf-8")
    assert texts_of(folder) == {"train": "a\n", "test": "b\n"}


def test_two_columns_of_texts_and_none_called_text_is_a_question(folder):
    write_rows(folder / "train.jsonl", {"title": "a", "body": "b", "n": 1})
    with pytest.raises(CorpusError, match=r"has 2 columns of texts, none called 'text'; its columns are: .*title"):
        open_dataset(str(folder))


def test_a_folder_of_nothing_readable_is_told(folder):
    (folder / "README").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(MissingDataError, match=r"cannot be had: .*; a folder holds files of one kind, such as"):
        open_dataset(str(folder))


def test_files_of_several_kinds_are_refused(folder):
    (folder / "train.txt").write_text("a\n", encoding="utf-8")
    write_rows(folder / "test.jsonl", {"text": "b"})
    with pytest.raises(MissingDataError, match=r"files of one kind, such as .*, or all \.jsonl, or all \.txt"):
        open_dataset(str(folder))


def test_no_code_of_a_data_set_is_run(folder):
    (folder / "small.py").write_text("raise SystemExit('it was run')\n", encoding="utf-8")
    with pytest.raises(MissingDataError, match="cannot be had"):
        open_dataset(str(folder))


def test_offline_the_error_says_what_to_do(monkeypatch):
    def fail(*args):
        raise ConnectionError("Couldn't reach 'owner/name' on the Hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(
        MissingDataError,
        match=r"hf:owner/name:config cannot be had: ConnectionError: Couldn't reach .* on the Hub; offline only what",
    ):
        open_dataset("owner/name:config")


def test_a_name_and_its_config_are_asked_for_as_they_are(monkeypatch):
    asked = []

    def load(*args):
        asked.append(args)
        return {"train": datasets.Dataset.from_dict({"text": ["a"]})}

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert open_dataset("owner/name:config")["whole"]() == "a\n"
    open_dataset("name")
    assert asked == [("owner/name", "config"), ("name", None)]


def test_a_name_may_be_downloaded_and_a_folder_is_not(folder):
    assert named_source("hf:owner/name").is_remote
    source = named_source(f"hf:{folder}")
    assert not source.is_remote
    assert source.origin == f"the folder {folder}"


def test_without_datasets_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingLibraryError, match=r"python -m pip install 'lmzoo\[datasets\]'"):
        open_dataset("owner/name")
