"""Specs: what the user types, taken apart, and configs filled from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.errors import OptionValueError, SpecError, UnknownOptionError
from lmzoo.spec import Spec, configure, parse_parts, parse_spec, parse_specs, quoted

pytestmark = pytest.mark.plain

names = st.text("abcxyz0123456789-_", min_size=1, max_size=8)
options = st.dictionaries(names, names, max_size=4)


@dataclass(frozen=True, kw_only=True)
class Config:
    order: int = 3
    rate: float = 0.5
    verbose: bool = False
    kind: Literal["slow", "fast"] = "slow"
    window: int | None = None

    def __post_init__(self) -> None:
        if self.order < 1:
            raise OptionValueError(f"order must be at least 1, got {self.order}")


def written(name, options):
    items = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}:{items}" if items else name


class TestParse:
    @given(names, options)
    def test_what_was_written_is_read(self, name, options):
        spec = parse_spec(written(name, options))
        assert (spec.name, spec.value, dict(spec.options)) == (name, None, options)
        assert str(spec) == spec.text == written(name, options)

    def test_a_bare_first_item_is_the_value(self):
        assert parse_spec("kenlm:/a/b.arpa,unk=1") == Spec(
            text="kenlm:/a/b.arpa,unk=1", name="kenlm", value="/a/b.arpa", options={"unk": "1"}
        )

    def test_commas_and_signs_inside_parentheses_belong_to_the_value(self):
        spec = parse_spec("mixture:kn5+lstm(hidden=5,lr=1)+cache,weight=2")
        assert (spec.value, dict(spec.options)) == ("kn5+lstm(hidden=5,lr=1)+cache", {"weight": "2"})

    def test_space_around_is_no_part(self):
        assert parse_spec(" ngram:order = 2 , k = 1 ").options == {"order": "2", "k": "1"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "starts with a name"),
            (":order=2", "starts with a name"),
            ("ngram:", "nothing follows the colon"),
            ("ngram:order=2,fast", "'fast' in 'ngram:order=2,fast' is not key=value"),
            ("ngram:order=2,", "'' in .* is not key=value"),
            ("ngram:order=2,order=3", "'order' is given twice"),
            ("ngram:order=2, order=3", "'order' is given twice"),
            ("mixture:a(b", r"a '\(' without its '\)'"),
            ("mixture:a)b", r"a '\)' without its '\('"),
        ],
    )
    def test_the_item_at_fault_is_quoted(self, text, message):
        with pytest.raises(SpecError, match=message):
            parse_spec(text)


class TestList:
    @given(st.lists(st.tuples(names, options), min_size=1, max_size=4))
    def test_a_list_is_its_specs(self, specs):
        texts = [written(name, options) for name, options in specs]
        assert [s.text for s in parse_specs(",".join(texts))] == texts

    @pytest.mark.parametrize(
        ("text", "specs"),
        [
            ("unigram,kn5", ["unigram", "kn5"]),
            ("kn5,lstm:hidden=5,lr=1,rnn", ["kn5", "lstm:hidden=5,lr=1", "rnn"]),
            ("kn5, lstm:hidden=5, lr=1", ["kn5", "lstm:hidden=5,lr=1"]),
            ("ngram,order=2", ["ngram:order=2"]),
            ("kenlm:/a=b,kn5", ["kenlm:/a=b", "kn5"]),
            ("kn5,lstm(h=1)", ["kn5", "lstm(h=1)"]),
            ("mixture:kn5+lstm(h=1,l=2),kn5", ["mixture:kn5+lstm(h=1,l=2)", "kn5"]),
        ],
    )
    def test_an_option_continues_the_spec_before_it(self, text, specs):
        assert [s.text for s in parse_specs(text)] == specs

    @pytest.mark.parametrize("text", ["", "a,,b", "a,", ",a"])
    def test_an_empty_item_is_refused(self, text):
        with pytest.raises(SpecError, match="an empty item"):
            parse_specs(text)


class TestQuotes:
    """A value in quotes is taken as it stands."""

    @given(st.text(), st.sampled_from("\"'"))
    def test_any_text_can_be_a_value(self, value, quote):
        written_value = quote + value.replace(quote, quote * 2) + quote
        alone, followed = parse_specs(f"kn5,kenlm:{written_value}"), parse_specs(f"kenlm:{written_value},unk=1,kn5")
        assert [(s.name, s.value) for s in alone] == [("kn5", None), ("kenlm", value)]
        assert [(s.name, s.value, dict(s.options)) for s in followed] == [
            ("kenlm", value, {"unk": "1"}),
            ("kn5", None, {}),
        ]
        assert parse_spec(f"kenlm:path={written_value},unk=1").options == {"path": value, "unk": "1"}
        assert parse_parts(parse_spec(f"mixture:a({written_value})+b"))[0].value == value

    @given(st.text(min_size=1))
    def test_what_is_quoted_is_read_back(self, value):
        assert parse_spec(f"kenlm:{quoted(value)}").value == value

    def test_a_plain_path_needs_none(self):
        assert quoted("models/a-1.arpa") == "models/a-1.arpa"
        assert quoted('a "b".arpa') == '"a ""b"".arpa"'

    @pytest.mark.parametrize(
        "path", ["it's.arpa", "it''s.arpa", "a b.arpa", "C:\\a=b.arpa", "a(1).arpa", "a(b=1,c).arpa"]
    )
    def test_these_stand_for_themselves(self, path):
        assert [s.value for s in parse_specs(f"kenlm:{path},kn5")] == [path, None]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('kenlm:"a', 'a " without its end in .*; inside quotes the same quote is written twice'),
            ('kenlm:"a"b', "goes on after its closing quote"),
            ("kenlm:a(1.arpa", r"a '\(' without its '\)' in .*is written in quotes, such as kenlm:\"a,b.arpa\""),
        ],
    )
    def test_a_quote_without_its_end_is_an_error(self, text, message):
        with pytest.raises(SpecError, match=message):
            parse_specs(text)


class TestConfigure:
    def test_each_option_takes_its_fields_type(self):
        given_ = {"order": "5", "rate": "1e-3", "verbose": "yes", "kind": "fast", "window": "7"}
        assert configure(Config, given_, "toy") == Config(order=5, rate=1e-3, verbose=True, kind="fast", window=7)

    def test_none_is_a_word_where_there_may_be_none(self):
        assert configure(Config, {"window": "none"}, "toy").window is None

    def test_values_that_are_no_text_pass(self):
        assert configure(Config, {"order": 4, "verbose": True}, "toy") == Config(order=4, verbose=True)

    @pytest.mark.parametrize(("word", "value"), [("true", True), ("1", True), ("No", False), ("0", False)])
    def test_words_for_true_and_false(self, word, value):
        assert configure(Config, {"verbose": word}, "toy").verbose is value

    def test_an_unknown_option_names_the_close_match_and_all(self):
        with pytest.raises(
            UnknownOptionError, match=r"toy has no option 'ordre'\. Did you mean 'order'\? Options: kind"
        ):
            configure(Config, {"ordre": "2"}, "toy")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"order": "two"}, "order of toy is of type int, got 'two'"),
            ({"order": ""}, "order of toy is of type int, got ''"),
            ({"order": "2.5"}, "of type int"),
            ({"rate": "x"}, "rate of toy is of type float, got 'x'"),
            ({"verbose": "maybe"}, "verbose of toy is true or false, got 'maybe'"),
            ({"kind": "fats"}, r"kind of toy is one of slow, fast, got 'fats'\. Did you mean 'fast'"),
            ({"window": "wide"}, "window of toy is of type int"),
            ({"order": "0"}, "toy: order must be at least 1, got 0"),
        ],
    )
    def test_a_bad_value_is_named_with_what_is_wanted(self, options, message):
        with pytest.raises(OptionValueError, match=message):
            configure(Config, options, "toy")
