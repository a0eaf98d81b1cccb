"""Characters of a text: counted by hand."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmzoo.characters import character_counts, code_of, invisible, name_of, normal_forms, script_of, scripts
from lmzoo.segments import Segments

pytestmark = pytest.mark.plain

# é in one character and in two
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@given(st.lists(st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs"]))))
@example(["\U0001f600a", "\U0010ffff"])
def test_every_character_is_counted_with_a_line_end_behind_each_segment(texts: list[str]) -> None:
    counts = character_counts([Segments.of(texts)])
    assert counts == Counter("".join(text + "\n" for text in texts))


def test_what_nobody_sees() -> None:
    text = "a\tb\u00a0c\u200bd\u0000\ufffd e\u2028\ue000\n"
    found = invisible(Counter(text))
    assert [code_of(c) for c in found] == ["U+0009", "U+00A0", "U+200B", "U+0000", "U+FFFD", "U+2028", "U+E000"]
    assert [name_of(c) for c in found] == [
        "control character",
        "NO-BREAK SPACE",
        "ZERO WIDTH SPACE",
        "control character",
        "REPLACEMENT CHARACTER",
        "LINE SEPARATOR",
        "private use",
    ]
    assert name_of("\ud800") == "half of a surrogate pair"
    assert name_of("\U000e0fff") == "unassigned"


@pytest.mark.parametrize(
    ("letter", "script"),
    [
        ("a", "Latin"),
        ("é", "Latin"),
        ("я", "Cyrillic"),
        ("红", "Han"),
        ("あ", "Hiragana"),
        ("Ａ", "Latin"),
        ("ب", "Arabic"),
    ],
)
def test_scripts_are_what_the_names_of_letters_say(letter: str, script: str) -> None:
    assert script_of(letter) == script


def test_scripts_count_letters_alone_the_most_frequent_first() -> None:
    assert scripts(Counter("я 红楼梦 12,!")) == {"Han": 3, "Cyrillic": 1}
    assert list(scripts(Counter("я 红楼梦"))) == ["Han", "Cyrillic"]


def test_words_in_several_forms() -> None:
    text = f"{COMPOSED} {DECOMPOSED} {DECOMPOSED}\nA\u030angstro\u0308m plain"
    found = normal_forms([Segments.lines_of(text)])
    # e with its mark twice, A with its ring and o with its marks once: two characters each
    assert (found.n_changed, found.n_words, found.examples) == (8, 1, (COMPOSED,))


def test_forms_are_found_across_parts() -> None:
    found = normal_forms([Segments.of([COMPOSED]), Segments.of([DECOMPOSED])])
    assert (found.n_changed, found.n_words) == (2, 1)
    assert normal_forms([Segments.of([COMPOSED, "café"])]).n_words == 0


@given(st.lists(st.text(alphabet="ae\u0301\u00e9 \n")))
def test_nothing_is_changed_exactly_where_nfc_changes_nothing(texts: list[str]) -> None:
    segments = Segments.of(texts)
    found = normal_forms([segments])
    assert (found.n_changed == 0) == unicodedata.is_normalized("NFC", segments.text)
    words = set(segments.text.split())
    forms = Counter(unicodedata.normalize("NFC", word) for word in words)
    assert found.n_words == sum(n > 1 for n in forms.values())
