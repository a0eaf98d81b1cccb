"""Rewriting text: what each normaliser does, by line or as a whole, and where what it makes can be cut."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from lmzoo.corpus import corpus_from_texts
from lmzoo.errors import InputError
from lmzoo.normalizers import NORMALIZERS, named_normalizer, raw_length

pytestmark = pytest.mark.plain

texts = st.text(st.characters(exclude_categories=["Cs"]))
# letters, marks that join them in several ways, Hangul in parts, white space, what is compatible with something else
marked = st.text("aZl \n1.\u0130\u03a3\u00e9\u0301\u0304\u0323\u1100\u1161\u11a8\u00a0\ufb01\u09c7\u09be", max_size=20)
FORMS = ("nfc", "nfd", "nfkc", "nfkd")
CHAINS = ("nfc+lower", "nfkc+letters", "nfd+letters", "lower+nfc", "nfkc+lower+letters")
names = st.sampled_from([*sorted(NORMALIZERS), *CHAINS])
# E ACUTE in one character and in two
ONE, TWO = "\u00e9", "e\u0301"


class TestNormalizers:
    def test_letters_is_the_textbooks_cleaning(self):
        assert NORMALIZERS["letters"].apply("The Time Machine, by H. G. Wells [1898]\n\nI\n") == (
            "the time machine by h g wells i "
        )

    @given(texts)
    def test_letters_leaves_a_to_z_and_single_spaces(self, text):
        cleaned = NORMALIZERS["letters"].apply(text)
        assert set(cleaned) <= set("abcdefghijklmnopqrstuvwxyz ")
        assert "  " not in cleaned

    @given(marked | texts, names)
    def test_by_line_is_line_by_line(self, text, name):
        normalizer = named_normalizer(name)
        assert normalizer.apply_by_line(text) == "\n".join(map(normalizer.apply, text.split("\n")))

    @given(texts)
    def test_letters_is_what_a_regular_expression_leaves(self, text):
        assert NORMALIZERS["letters"].apply(text) == re.sub("[^A-Za-z]+", " ", text).lower()

    @given(texts)
    def test_letters_twice_is_letters(self, text):
        apply = NORMALIZERS["letters"].apply
        assert apply(apply(text)) == apply(text)

    def test_letters_turns_no_foreign_letter_into_a_latin_one(self):
        # the Kelvin sign lower-cases to k, the dotted capital I to i and a dot: neither is a letter of a-z
        assert NORMALIZERS["letters"].apply("a\u212ab\u0130c") == "a b c"

    @given(texts)
    def test_none_changes_nothing(self, text):
        assert NORMALIZERS["none"].apply(text) == text
        assert NORMALIZERS["none"].lossless

    @given(texts, st.sampled_from(["none", "lower", "letters", "lower+letters"]), st.data())
    def test_raw_length_is_the_longest_prefix_that_is_short_enough(self, text, name, data):
        normalizer = named_normalizer(name)
        wanted = data.draw(st.integers(0, len(normalizer.apply(text))))
        by_trying = max(r for r in range(len(text) + 1) if len(normalizer.apply(text[:r])) <= wanted)
        assert raw_length(text, wanted, normalizer) == by_trying


class TestNormalForms:
    @given(marked | texts, st.sampled_from(FORMS))
    def test_they_are_those_of_unicode(self, text, form):
        assert named_normalizer(form).apply(text) == unicodedata.normalize(form.upper(), text)

    @given(marked, st.sampled_from(["nfc", "nfd"]))
    def test_texts_that_are_canonically_the_same_become_the_same(self, text, form):
        apply = named_normalizer(form).apply
        assert apply(text) == apply(unicodedata.normalize("NFD", text)) == apply(unicodedata.normalize("NFC", text))

    @given(marked | texts, st.sampled_from(FORMS))
    def test_a_text_that_has_the_form_changes_in_no_character_and_any_other_in_some(self, text, form):
        normalizer = named_normalizer(form)
        assert (normalizer.n_changed(text) == 0) == (normalizer.apply(text) == text)
        assert normalizer.n_changed(normalizer.apply(text)) == 0

    @pytest.mark.parametrize(
        ("text", "form", "n_changed"),
        [
            (f"caf{ONE} caf{TWO}", "nfc", 2),
            (f"caf{ONE} caf{TWO}", "nfd", 1),
            # a full-width letter, a ligature, a no-break space
            ("\uff21\ufb01\u00a0x", "nfkc", 3),
            ("\uff21\ufb01\u00a0x", "nfc", 0),
            # two marks in the other order: both change, and so does the letter that they stand on
            ("xa\u0301\u0323y", "nfd", 3),
            # a Hangul syllable of three parts; a vowel sign of Bengali of two
            ("\u1100\u1161\u11a8", "nfc", 3),
            ("\u09c7\u09be.", "nfc", 2),
            ("plain\nASCII", "nfkd", 0),
        ],
    )
    def test_characters_changed_by_hand(self, text, form, n_changed):
        assert named_normalizer(form).n_changed(text) == n_changed

    def test_a_form_makes_one_word_of_two_spellings(self):
        text = f"caf{ONE}\ncaf{TWO}\n" * 10
        found = {n: corpus_from_texts({"whole": text}, tokens="word", normalize=n) for n in ("none", "nfc", "nfd")}
        assert {n: corpus.vocab.tokens[3:] for n, corpus in found.items()} == {
            "none": (f"caf{TWO}", f"caf{ONE}"),
            "nfc": (f"caf{ONE}",),
            "nfd": (f"caf{TWO}",),
        }
        # of each of ten lines, two characters or one
        assert {n: corpus.n_normalized for n, corpus in found.items()} == {"none": 0, "nfc": 20, "nfd": 10}

    @pytest.mark.parametrize(("normalize", "has_bytes"), [("none", True), ("nfc", False), ("nfc+lower", False)])
    def test_bits_per_byte_are_those_of_a_text_that_is_as_it_was_read(self, normalize, has_bytes):
        corpus = corpus_from_texts({"whole": f"caf{TWO}\n" * 20}, normalize=normalize)
        tally = lmzoo.evaluate(lmzoo.train("ngram:smoothing=wb", corpus), corpus.test)
        assert (tally.bits_per_byte is not None) == has_bytes
        assert tally.bits_per_char is not None


class TestChains:
    @given(marked | texts, st.sampled_from(CHAINS))
    def test_the_first_one_is_first(self, text, chain):
        step_by_step = text
        for name in chain.split("+"):
            step_by_step = NORMALIZERS[name].apply(step_by_step)
        assert named_normalizer(chain).apply(text) == step_by_step

    def test_order_matters(self):
        assert named_normalizer("nfkc+letters").apply("\uff21\u00a0b") == "a b"
        assert named_normalizer("letters+nfkc").apply("\uff21\u00a0b") == " b"

    def test_changes_are_those_of_each_form_on_what_it_is_given(self):
        assert named_normalizer("nfd+lower").n_changed(ONE) == 1
        assert named_normalizer("letters+nfd").n_changed(ONE) == 0
        assert named_normalizer("nfc+nfd").n_changed(ONE + TWO) == 2 + 2

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("nfc+lowr", "no normaliser 'lowr'. Did you mean 'lower'"),
            ("nfc+", "no normaliser ''"),
            ("none+nfc", "'none' changes nothing; leave it out of 'none\\+nfc'"),
        ],
    )
    def test_each_is_known(self, name, message):
        with pytest.raises(InputError, match=message):
            named_normalizer(name)


class TestCutting:
    @given(marked, names, st.data())
    def test_no_letter_is_parted_from_its_marks_and_no_run_that_becomes_one_space_in_two(self, text, name, data):
        normalizer = named_normalizer(name)
        whole = normalizer.apply(text)
        here = raw_length(text, data.draw(st.integers(0, len(whole))), normalizer)
        parts = [normalizer.apply(part) for part in (text[:here], text[here:])]
        # a form of lower case may hang on what follows, but not its length
        assert sum(map(len, parts)) == len(whole)
        assert name.startswith("lower") or "".join(parts).lower() == whole.lower()

    @pytest.mark.parametrize("form", FORMS)
    def test_at_a_white_space_it_is_exactly_the_first_so_many_characters(self, form):
        text = f"caf{TWO} caf{ONE} \ufb01n"
        apply = named_normalizer(form).apply
        for i, character in enumerate(apply(text)):
            if character == " ":
                assert apply(text[: raw_length(text, i, named_normalizer(form))]) == apply(text)[:i]

    def test_a_mark_that_changes_the_count_backwards(self):
        # l with macron are two characters, with a dot below too they are one: lengths of prefixes 1, 2, 1
        assert raw_length("l\u0304\u0323x", 1, named_normalizer("nfc")) == 3
