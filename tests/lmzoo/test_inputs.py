"""What a text is named by: files, folders, patterns, standard input."""

from __future__ import annotations

import io
import os
import sys

import pytest

from lmzoo.errors import InputError, TextError
from lmzoo.inputs import StandardInput, files_of, is_text, joined_name, size_bytes, watched_by
from lmzoo.reading import read_text, read_texts

pytestmark = pytest.mark.plain


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of texts that is the current one."""
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/.hidden", ".git/config", "B.txt", "a b/ü.txt", "z"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*asked):
    return [file.as_posix() for file in files_of(asked)]


@pytest.fixture
def typed_in(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


class TestNames:
    def test_a_folder_is_its_files_sorted_without_hidden_ones(self, folder):
        assert names(".") == ["B.txt", "a b/ü.txt", "a.txt", "b.txt", "sub/c.txt", "z"]
        assert names("sub/", "a.txt") == ["sub/c.txt", "a.txt"]

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.txt", ["B.txt", "a.txt", "b.txt"]),
            ("[ab].txt", ["a.txt", "b.txt"]),
            ("**/*.txt", ["B.txt", "a b/ü.txt", "a.txt", "b.txt", "sub/c.txt"]),
            # a folder that it matches is its files
            ("s*", ["sub/c.txt"]),
        ],
    )
    def test_a_pattern_is_what_it_matches(self, folder, pattern, found):
        assert names(pattern) == found
        assert is_text(pattern)

    def test_what_is_there_is_no_pattern(self, folder):
        (folder / "[ab].txt").write_text("x")
        assert names("[ab].txt") == ["[ab].txt"]

    @pytest.mark.parametrize("name", ["C:\\texts\\a.txt", "genesis", "con.txt ", "a\nb", "%s", "--", "é\u0301", "~"])
    def test_odd_names_are_names(self, folder, name):
        (folder / name).write_text("x\n")
        assert read_text(name) == "x\n"
        assert is_text(name)

    def test_a_file_called_like_standard_input_is_asked_for_by_its_path(self, folder, typed_in):
        typed_in(b"typed")
        (folder / "-").write_text("in the file")
        assert [read_text(name) for name in ("./-", folder / "-", "-")] == ["in the file", "in the file", "typed"]
        (standard,) = files_of("-")
        assert isinstance(standard, StandardInput)

    def test_standard_input_is_read_once(self):
        with pytest.raises(InputError, match=r"standard input \(-\) is named twice"):
            files_of(["-", "a.txt", "-"])

    @pytest.mark.parametrize(
        ("name", "message"),
        [("*.md", r"no file matches '\*.md'"), ("empty", r"no file in the folder empty \(hidden ones do not count\)")],
    )
    def test_nothing_found_is_an_error(self, folder, name, message):
        (folder / "empty").mkdir()
        (folder / "empty" / ".hidden").touch()
        with pytest.raises(TextError, match=message):
            files_of(name)

    @pytest.mark.parametrize("name", ["nowhere.txt", "x" * 5000, "a\0b", ""])
    def test_what_is_not_there_is_an_error_where_it_is_read(self, name):
        assert not is_text(name)
        with pytest.raises(TextError, match="cannot read"):
            list(read_texts(name))

    def test_links_are_followed_but_not_round_and_round(self, folder):
        (folder / "sub" / "link.txt").symlink_to("../a.txt")
        (folder / "sub" / "up").symlink_to("..")
        (folder / "sub" / "beside").symlink_to(folder / "a b")
        # what stands above is not gone into again, neither from here nor from there
        assert names("sub") == [
            "sub/beside/ü.txt",
            "sub/c.txt",
            "sub/link.txt",
            *(f"sub/up/{name}" for name in ("B.txt", "a b/ü.txt", "a.txt", "b.txt", "z")),
        ]

    def test_a_link_to_nothing_is_an_error_and_a_pipe_in_a_folder_is_no_text(self, folder):
        os.mkfifo(folder / "sub" / "pipe")
        assert names("sub") == ["sub/c.txt"]
        (folder / "sub" / "broken").symlink_to("nowhere")
        with pytest.raises(TextError, match=r"cannot read sub/broken: No such file"):
            names("sub")

    @pytest.mark.parametrize(
        ("asked", "name"),
        [
            ("-", "stdin"),
            ("texts/", "texts"),
            ("texts/news-*.txt", "news-*.txt"),
            (["a/b.txt", "-"], "b.txt+1 more"),
            ("/", "text"),
        ],
    )
    def test_what_a_text_is_called(self, asked, name):
        assert joined_name(asked) == name

    def test_the_current_folder_has_its_name(self, folder):
        assert joined_name(".") == folder.name


class TestWatching:
    def test_the_bytes_read_are_told(self, folder):
        told = []
        with watched_by(told.append):
            assert read_text("a.txt") == "a.txt\n"
        read_text("b.txt")
        assert told == [6]

    def test_sizes_are_known_of_files_that_are_there(self, folder):
        assert size_bytes(files_of(["a.txt", "b.txt"])) == 12
        assert size_bytes(files_of(["a.txt", "-"])) is None
        assert size_bytes(files_of("nowhere")) is None
        os.mkfifo(folder / "pipe")
        assert size_bytes(files_of("pipe")) is None
