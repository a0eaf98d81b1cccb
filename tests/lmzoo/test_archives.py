"""Packed texts: the same text as unpacked, or an error; never a shorter one."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.archives import unpacked
from lmzoo.errors import MissingLibraryError, TextError
from lmzoo.reading import read_text, text_blocks

pytestmark = pytest.mark.plain

TEXT = "the cat sat on the mat\n" * 40


def zstd(data):
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.compress(data)
    return pytest.importorskip("zstandard").compress(data)


PACKERS = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress, "zstd": zstd}
packers = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)


def bytes_of(data, chunk=7):
    chunks, is_packed = unpacked(iter([data[i : i + chunk] for i in range(0, len(data), chunk)]), "book")
    return b"".join(chunks), is_packed


def outcome(data):
    """What is unpacked, or how the error begins."""
    try:
        return bytes_of(data)
    except TextError as error:
        return str(error).partition(":")[0]


@packers
@pytest.mark.parametrize("name", ["book.txt", "book.gz", "book"])
def test_a_packed_text_is_known_by_its_bytes_and_not_by_its_name(pack, name, tmp_path):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert read_text(tmp_path / name) == TEXT
    assert "".join(text_blocks(tmp_path / name, block_bytes=10)) == TEXT


def test_a_text_that_is_called_like_a_packed_one_is_a_text(tmp_path):
    (tmp_path / "book.gz").write_text(TEXT)
    assert read_text(tmp_path / "book.gz") == TEXT


@pytest.mark.parametrize("data", [b"", b"B", b"BZh9", b"BZh9 1AY&SY", b"PK", b"\x1f", b"7z", b"Rar! Rar!"])
def test_what_merely_starts_alike_is_no_archive(data):
    assert bytes_of(data) == (data, False)


@packers
@given(st.binary(max_size=50).map(b".".__add__))
def test_what_was_packed_comes_back(pack, data):
    assert bytes_of(pack(data)) == (data, True)


@packers
def test_several_streams_are_one_text(pack):
    assert bytes_of(pack(b"one ") + pack(b"") + pack(b"two")) == (b"one two", True)


@packers
def test_zeros_behind_a_stream_are_padding(pack):
    assert bytes_of(pack(b"one") + bytes(8) + pack(b"two") + bytes(512)) == (b"onetwo", True)


@packers
def test_a_packed_text_that_is_cut_short_anywhere_is_an_error(pack):
    data = pack(TEXT.encode())
    # the first bytes tell what it is
    for n in range(10, len(data)):
        with pytest.raises(TextError, match=r"^book is cut short: its .* data has no end; get the whole file"):
            bytes_of(data[:n])


@packers
def test_what_follows_a_stream_and_is_none_is_an_error(pack):
    with pytest.raises(TextError, match=r"^book is (damaged|cut short)"):
        bytes_of(pack(TEXT.encode()) + b"garbage, and more of it")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress], ids=["gzip", "xz", "bzip2"])
def test_a_flipped_bit_is_an_error_or_harms_nothing(pack):
    # zstd packs without a checksum unless it is asked for one
    data = pack(TEXT.encode())
    for i in range(10, len(data)):
        flipped = bytearray(data)
        flipped[i] ^= 4
        assert outcome(bytes(flipped)) in ("book is damaged", "book is cut short", (TEXT.encode(), True))


@packers
def test_few_bytes_that_stand_for_many_are_unpacked_piece_by_piece(pack):
    # zstd gives 128 KiB for each four of the 1 KiB that it is given
    n_bytes, most = (1 << 27, 1 << 25) if pack is zstd else (1 << 25, 1 << 20)
    pieces, _ = unpacked(iter([pack(bytes(n_bytes))]), "book")
    sizes = [len(piece) for piece in pieces]
    assert sum(sizes) == n_bytes
    assert max(sizes) <= most


def tarred():
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            info = tarfile.TarInfo("a.txt")
            info.size = len(TEXT)
            archive.addfile(info, io.BytesIO(TEXT.encode()))
        return file.getvalue()


def zipped():
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.txt", TEXT)
        return file.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (tarred(), "tar"),
        (gzip.compress(tarred()), "tar"),
        (zipped(), "zip"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "7z"),
        (b"Rar!\x1a\x07\1", "rar"),
    ],
)
def test_an_archive_of_files_is_no_text(data, kind):
    with pytest.raises(TextError, match=f"book is a {kind} archive, not a text; unpack it"):
        bytes_of(data, 512)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zstd is in the standard library")
def test_zstd_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'lmzoo\[compress\]'"):
        bytes_of(b"\x28\xb5\x2f\xfd" + bytes(20))


def test_an_offset_in_a_packed_text_is_said_to_be_one_of_what_is_packed(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"abc\xff"))
    with pytest.raises(TextError, match="byte 0xff at offset 3 of what is packed in it; name its"):
        read_text(tmp_path / "a")
