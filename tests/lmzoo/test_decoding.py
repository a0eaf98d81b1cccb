"""Bytes to text: every encoding the same way, nothing misread, replacements counted."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.decoding import Decoding
from lmzoo.errors import InputError, TextError, UndecodableTextError

pytestmark = pytest.mark.plain

UNICODE = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "gb18030", "utf-8-sig")
# no text of the first character begins like a mark of another encoding
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map("a".__add__)


def decoded(data, chunk=3, **options):
    """The text of bytes that come in chunks, and how much was replaced."""
    decoding = Decoding(**options)
    text = "".join(decoding.texts(iter([data[i : i + chunk] for i in range(0, len(data), chunk)]), "book"))
    return text, decoding.n_replaced


def with_line_feeds(text):
    return text.replace("\r\n", "\n").replace("\r", "\n")


class TestEncodings:
    @given(texts, st.sampled_from(UNICODE), st.integers(1, 9))
    def test_a_text_comes_back_however_its_bytes_are_cut(self, text, encoding, chunk):
        assert decoded(text.encode(encoding), chunk, encoding=encoding) == (with_line_feeds(text), 0)

    @given(texts, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "gb18030"]))
    def test_one_byte_order_mark_is_dropped_and_no_more(self, text, encoding):
        data = f"\ufeff\ufeff{text}".encode(encoding)
        assert decoded(data, encoding=encoding)[0] == f"\ufeff{with_line_feeds(text)}"

    @pytest.mark.parametrize("family", ["utf-16", "utf-32"])
    @pytest.mark.parametrize("order", ["le", "be"])
    def test_the_mark_says_the_order_of_bytes(self, family, order):
        data = "\ufeffa\u4e2db".encode(f"{family}-{order}")
        assert decoded(data, encoding=family) == ("a\u4e2db", 0)

    @pytest.mark.parametrize(
        ("data", "encoding", "text"),
        [
            (b"caf\xe9", "latin-1", "café"),
            (b"caf\xe9", "ISO-8859-1", "café"),
            (b"\x93a\x94", "cp1252", "“a”"),
            (b"\xd6\xd0", "gb18030", "中"),
            (b"\x93\xfa", "shift_jis", "日"),
            (b"\xcc\xc9\xd3", "koi8-r", "лис"),
        ],
    )
    def test_encodings_by_name(self, data, encoding, text):
        assert decoded(data, 1, encoding=encoding) == (text, 0)

    @pytest.mark.parametrize(
        "name", ["utf8x", "", "rot13", "base64", "a\0b", "undefined", 8, "idna", "punycode", "utf-7", "unicode_escape"]
    )
    def test_what_is_no_encoding_of_text(self, name):
        with pytest.raises(InputError, match=r"no encoding .*; some there are: utf-8, utf-16, latin-1"):
            Decoding(encoding=name)


class TestNothingIsMisread:
    @pytest.mark.parametrize(
        ("written", "asked"),
        [
            ("utf-16", "utf-8"),
            ("utf-32", "utf-8"),
            ("utf-16", "latin-1"),
            ("utf-16", "utf-16-be"),
            ("utf-8", "cp1252"),
            ("utf-8", "utf-16"),
            ("utf-32", "utf-16"),
        ],
    )
    def test_a_mark_of_another_encoding_is_refused_with_the_cure(self, written, asked):
        # little-endian where there are two orders
        data = "\ufeffthe cat".encode(written if written == "utf-8" else f"{written}-le")
        with pytest.raises(TextError, match=f"book is {written.upper()}, .* is wanted; .* --encoding {written} "):
            decoded(data, encoding=asked)

    @pytest.mark.parametrize("order", ["le", "be"])
    def test_utf16_without_a_mark_is_recognised(self, order):
        data = "the cat sat, “so it is”\n".encode(f"utf-16-{order}") * 3
        with pytest.raises(TextError, match=rf"UTF-16-{order.upper()}, UTF-8 is wanted; .*--encoding utf-16-{order}"):
            decoded(data, 1)
        assert decoded(data, encoding=f"utf-16-{order}")[0] == "the cat sat, “so it is”\n" * 3

    @pytest.mark.parametrize("data", [b"a\0b\0", b"the \0\0\0\0\0\0\0\0 cat", b"\0" * 40, "a\0é\0".encode() * 20])
    def test_a_text_with_nuls_is_a_text(self, data):
        assert decoded(data) == (data.decode(), 0)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_an_order_of_bytes_is_never_guessed(self, encoding):
        with pytest.raises(TextError, match=f"no byte order mark; say which order: {encoding}-le or {encoding}-be"):
            decoded("abcd".encode(f"{encoding}-le"), encoding=encoding)
        assert decoded(b"", encoding=encoding) == ("", 0)


class TestInvalidBytes:
    @given(texts, st.integers(1, 5), st.binary(max_size=3))
    def test_utf8_is_replaced_as_python_replaces(self, text, chunk, more):
        data = text.encode() + b"\xff" + more + b"\xe4\xb8"
        wanted = with_line_feeds(data.decode("utf-8", "replace"))
        n_own = text.count("\ufffd") + more.decode("utf-8", "ignore").count("\ufffd")
        assert decoded(data, chunk, invalid="replace") == (wanted, wanted.count("\ufffd") - n_own)

    @pytest.mark.parametrize(
        ("data", "encoding", "text", "n_replaced"),
        [
            # a first byte without the rest, twice; then a byte that none begins with
            (b"a\xe4\xb8b\xe4\xb8\xffc", "utf-8", "a\ufffdb\ufffd\ufffdc", 3),
            # what stands for itself is no replacement
            ("a\ufffd".encode() + b"\xff", "utf-8", "a\ufffd\ufffd", 1),
            (b"\xff\xfea\0\0\xd8b\0", "utf-16", "a\ufffdb", 1),
            (b"a\x81b", "cp1252", "a\ufffdb", 1),
            (b"ab\xe4", "gb18030", "ab\ufffd", 1),
        ],
    )
    @pytest.mark.parametrize("chunk", [1, 2, 9])
    def test_each_invalid_sequence_is_one_replacement(self, data, encoding, text, n_replaced, chunk):
        assert decoded(data, chunk, encoding=encoding, invalid="replace") == (text, n_replaced)

    @pytest.mark.parametrize(
        ("data", "encoding", "offset"),
        [
            (b"abc\xff", "utf-8", 3),
            (codecs.BOM_UTF8 + b"abc\xe4\xb8", "utf-8", 6),
            (codecs.BOM_UTF16_LE + b"a\0\0\xd8b\0", "utf-16", 4),
            (b"ab\x81", "cp1252", 2),
            (b"abc\xe4", "gb18030", 3),
        ],
    )
    @pytest.mark.parametrize("chunk", [1, 2, 9])
    def test_the_offset_is_that_of_the_first_one_however_the_bytes_are_cut(self, data, encoding, offset, chunk):
        with pytest.raises(UndecodableTextError, match=rf"at offset {offset};"):
            decoded(data, chunk, encoding=encoding)

    def test_replacements_add_up_over_texts(self):
        decoding = Decoding(invalid="replace")
        for _ in range(2):
            assert list(decoding.texts(iter([b"a\xff\n"]), "book")) == ["a\ufffd\n"]
        assert decoding.n_replaced == 2

    def test_what_is_done_with_them_is_named(self):
        with pytest.raises(InputError, match=r"invalid='repalce'\. Did you mean 'replace'\? There are: error, replace"):
            Decoding(invalid="repalce")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "gb18030", "shift_jis", "iso2022_jp"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_what_stands_before_a_fault_is_given_however_the_bytes_are_cut(encoding, size):
    text = "day\r\n日本\n"
    # a lone second half of a pair in UTF-16, and a byte that the others have nowhere
    bad = b"\x00\xdc" if encoding == "utf-16-le" else b"\xff"
    data = text.encode(encoding) + bad + b"ab"
    given = []
    texts = Decoding(encoding=encoding).texts(iter([data[i : i + size] for i in range(0, len(data), size)]), "x")
    with pytest.raises(UndecodableTextError, match=f"at offset {len(data) - 2 - len(bad)};"):
        given.extend(texts)
    assert "".join(given) == with_line_feeds(text)
