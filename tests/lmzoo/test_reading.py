"""Text to tokens and back, one character set for everybody."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lmzoo.decoding import check_encodable
from lmzoo.errors import InputError, TextError, UndecodableTextError
from lmzoo.inputs import joined_name
from lmzoo.markers import MARKERS, escape_marker, unescape_marker
from lmzoo.reading import decode_bytes, read_text, text_blocks
from lmzoo.tokenizers import TOKENIZERS, join_words, split_words

pytestmark = pytest.mark.plain

NBSP, IDEOGRAPHIC_SPACE, ZERO_WIDTH_SPACE = "\u00a0", "\u3000", "\u200b"

texts = st.text(st.characters(exclude_categories=["Cs"]))
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n"), min_size=1)
marker_like = st.builds(lambda n, marker: "\\" * n + marker, st.integers(0, 4), st.sampled_from(MARKERS))

# every way in which the edge of a block can fall inside something
file_bytes = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", "\u00e9".encode(), "\u4e2d".encode(), "\U0001f600".encode(), b"\xef\xbb\xbf"])
    | st.sampled_from([b"\xff", b"\xc3", b"\x80", b"\xfe"]),
    max_size=12,
).map(b"".join)


@pytest.fixture(scope="module")
def path_of(tmp_path_factory):
    """A file that holds given bytes."""
    path = tmp_path_factory.mktemp("texts") / "a.txt"

    def write(data):
        path.write_bytes(data)
        return path

    return write


def outcome(read):
    """The text, or the error's own words."""
    try:
        return read()
    except TextError as error:
        return type(error), str(error)


class TestReading:
    @given(texts)
    def test_utf8_comes_back_with_line_ends_as_lf(self, text):
        assert decode_bytes(b"." + text.encode(), "x") == "." + text.replace("\r\n", "\n").replace("\r", "\n")

    def test_one_byte_order_mark_is_dropped(self):
        assert decode_bytes(b"\xef\xbb\xbfab", "x") == "ab"
        assert decode_bytes(b"\xef\xbb\xbf\xef\xbb\xbfab", "x") == "\ufeffab"

    @pytest.mark.parametrize(("prefix", "offset"), [(b"", 0), (b"abc", 3), (b"\xef\xbb\xbfabc", 6), ("é".encode(), 2)])
    def test_an_undecodable_byte_is_named_with_its_offset(self, prefix, offset):
        with pytest.raises(UndecodableTextError, match=rf"book\.txt is not UTF-8: byte 0xff at offset {offset};"):
            decode_bytes(prefix + b"\xffabc", "book.txt")

    def test_a_character_cut_off_at_the_end_is_undecodable(self):
        with pytest.raises(UndecodableTextError, match="byte 0xc3 at offset 2"):
            decode_bytes(b"ab\xc3", "x")

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
    def test_utf16_is_told_apart_with_the_cure(self, encoding):
        with pytest.raises(TextError, match=r"UTF-16.*--encoding utf-16"):
            decode_bytes("\ufeffab".encode(encoding) if encoding != "utf-16" else "ab".encode(encoding), "x")

    def test_a_file_that_cannot_be_opened_is_an_error_of_ours(self, tmp_path):
        for path in (tmp_path / "none.txt", tmp_path):
            with pytest.raises(TextError, match="cannot read"):
                read_text(path)

    def test_a_path_that_no_system_has_is_an_error_of_ours(self, tmp_path):
        with pytest.raises(TextError, match="cannot read"):
            read_text(tmp_path / "a\0b")

    def test_read_text_reads(self, tmp_path):
        (tmp_path / "a.txt").write_bytes("Zürich\r\nBern\r".encode())
        assert read_text(tmp_path / "a.txt") == "Zürich\nBern\n"

    @given(data=file_bytes, block_bytes=st.integers(3, 9))
    def test_the_blocks_of_a_file_join_to_its_text(self, data, block_bytes, path_of):
        path = path_of(data)
        assert outcome(lambda: "".join(text_blocks(path, block_bytes=block_bytes))) == outcome(lambda: read_text(path))

    @given(data=file_bytes, block_bytes=st.integers(3, 9))
    def test_blocks_are_small_and_end_after_a_line_end_where_they_hold_one(self, data, block_bytes, path_of):
        assume(isinstance(outcome(lambda: read_text(path_of(data))), str))
        pieces = list(text_blocks(path_of(data), block_bytes=block_bytes))
        assert all(0 < len(piece.encode()) <= 2 * block_bytes for piece in pieces)
        assert all(piece.endswith("\n") or "\n" not in piece for piece in pieces[:-1])

    def test_what_stands_before_a_fault_is_given_first(self, path_of):
        blocks = text_blocks(path_of(b"ab\ncd\n\xff"), block_bytes=3)
        assert next(blocks) == "ab\n"
        with pytest.raises(UndecodableTextError, match="byte 0xff at offset 6;"):
            list(blocks)

    def test_a_file_of_blocks_that_cannot_be_opened_is_an_error_of_ours(self, tmp_path):
        for path in (tmp_path / "none.txt", tmp_path, tmp_path / "a\0b"):
            with pytest.raises(TextError, match="cannot read"):
                next(text_blocks(path))

    def test_a_block_holds_something(self, path_of):
        with pytest.raises(InputError, match=r"at least 1 byte, got 0"):
            text_blocks(path_of(b"a"), block_bytes=0)

    def test_a_joined_text_is_named_after_its_first_file_and_tells_how_many_more_there_are(self):
        assert joined_name(["some/a.txt"]) == "a.txt"
        assert joined_name(["some/a.txt", "b.txt", "a.txt"]) == "a.txt+2 more"

    def test_half_a_surrogate_pair_is_refused_with_its_place(self):
        with pytest.raises(TextError, match=r"the train text has U\+D800.*at character 2"):
            check_encodable("ab\ud800", "the train text")
        check_encodable("ab\U0001f600", "the train text")


class TestWords:
    def test_only_space_tab_and_line_end_separate(self):
        text = f"10{NBSP}km a{IDEOGRAPHIC_SPACE}b\tc{ZERO_WIDTH_SPACE}d\x0be\n"
        assert split_words(text) == [f"10{NBSP}km", f"a{IDEOGRAPHIC_SPACE}b", f"c{ZERO_WIDTH_SPACE}d\x0be"]

    @given(texts)
    def test_no_token_is_empty_and_none_holds_a_separator(self, text):
        tokens = split_words(text)
        assert all(tokens)
        assert not set(" \t\n") & set("".join(tokens))

    @given(st.lists(words))
    def test_words_joined_and_split_are_the_same_words(self, tokens):
        assert split_words(join_words(tokens)) == tokens

    def test_no_space_stands_beside_a_line_end(self):
        assert join_words(["a", "b", "\n", "c", "\n", "\n", "d"]) == "a b\nc\n\nd"

    @pytest.mark.parametrize(
        ("text", "lossless"),
        [("a b", True), (" a b\n", True), ("a  b", False), ("a\tb", False), ("a\nb", False), ("", True)],
    )
    def test_words_lose_all_white_space_but_single_spaces(self, text, lossless):
        assert TOKENIZERS["word"].loses_nothing(text) is lossless

    @given(texts)
    def test_characters_lose_nothing(self, text):
        chars = TOKENIZERS["char"]
        assert chars.join(chars.split(text)) == text
        assert chars.loses_nothing(text)


class TestMarkers:
    @given(st.one_of(words, marker_like))
    def test_no_escaped_token_is_a_marker_and_it_comes_back(self, token):
        assert escape_marker(token) not in MARKERS
        assert unescape_marker(escape_marker(token)) == token

    @given(st.lists(st.one_of(words, marker_like), unique=True))
    def test_different_tokens_stay_different(self, tokens):
        assert len({escape_marker(t) for t in tokens}) == len(tokens)

    def test_a_marker_gets_one_backslash(self):
        assert escape_marker("<s>") == "\\<s>"
        assert escape_marker("\\<s>") == "\\\\<s>"
        assert escape_marker("a<s>") == "a<s>"
