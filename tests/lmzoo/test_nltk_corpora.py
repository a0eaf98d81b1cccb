"""Corpora under NLTK's data path: their tokens are those that NLTK's own readers give."""

from __future__ import annotations

import sys

import pytest

from lmzoo.corpus import load_corpus
from lmzoo.errors import CorpusError, MissingDataError, MissingLibraryError
from lmzoo.sources import nltk_data
from lmzoo.sources.nltk_data import nltk_text

pytestmark = pytest.mark.plain

nltk = pytest.importorskip("nltk", reason="nltk is not installed")

SPEECH = "Fellow-Citizens of the Senate:\n\nAmong the vicissitudes, no event could've\nfilled me (U.S.A.).\n"
TAGGED = "The/at jury/nn said/vbd ``/`` no/at ''/'' ./.\n\n\nIt/pps added/vbd ./.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """NLTK's data folder with a few small corpora, laid out as NLTK has them."""
    files = {
        "inaugural/1789-Washington.txt": SPEECH,
        "inaugural/1793-Washington.txt": "I am again called.\n",
        "brown/ca01": TAGGED,
        "brown/cats.txt": "ca01 news\n",
        "words/en": "apple\npear\n",
        "mine/a.txt": "one two\nthree\n",
    }
    for name, text in files.items():
        path = tmp_path / "corpora" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    yield tmp_path
    # a reader that found its files would keep them
    for name in {path.parent.name for path in tmp_path.glob("corpora/*/*")} - {"mine"}:
        getattr(nltk.corpus, name)._unload()


def tokens(text):
    return [word for line in text.splitlines() for word in line.split(" ") if word]


def test_plain_text_keeps_its_lines_and_has_the_words_of_its_reader(folder):
    text = nltk_text("inaugural")
    assert text.splitlines() == [
        "Fellow - Citizens of the Senate :",
        "Among the vicissitudes , no event could ' ve",
        "filled me ( U . S . A .).",
        "I am again called .",
    ]
    assert tokens(text) == list(nltk.corpus.inaugural.words())


def test_a_tagged_corpus_has_a_line_for_each_sentence(folder):
    text = nltk_text("brown")
    assert text == "The jury said `` no '' .\nIt added .\n"
    assert tokens(text) == list(nltk.corpus.brown.words())


def test_a_word_list_has_a_line_for_each_word(folder):
    assert nltk_text("words") == "apple\npear\n"


def test_a_folder_that_nltk_does_not_know_is_plain_text(folder):
    assert nltk_text("mine") == "one two\nthree\n"


def test_white_space_inside_a_token_does_not_cut_it():
    assert nltk_data._words(["New  York", "", "10\u00a0km", "a\nb"]) == ["New_York", "10_km", "a_b"]


def test_words_that_their_text_does_not_spell_are_all_kept():
    # as a tokenizer that rewrites quotes gives them
    lines = list(nltk_data._by_line(["He", "``", "said", "''"], 'He "\nsaid "\n'))
    assert lines == [["He"], [], ["``", "said", "''"]]


def test_a_corpus_by_name_is_cut_into_words(folder):
    (folder / "corpora" / "brown" / "ca01").write_text(TAGGED * 10, encoding="utf-8")
    corpus = load_corpus("nltk:brown")
    assert (corpus.name, corpus.tokenizer, corpus.documents) == ("nltk:brown", "word", "line")
    # 20 sentences, 8 / 10 of their characters at least; 7 and 3 words and an end each
    assert len(corpus.train) + len(corpus.valid) + len(corpus.test) == 20
    assert {len(document.ids_L) for document in corpus.train} == {8, 4}


def test_one_that_is_not_here_is_told_with_its_command_and_where_it_was_looked_for(folder):
    with pytest.raises(MissingDataError, match=r"python -m nltk\.downloader reuters") as told:
        nltk_text("reuters")
    assert str(folder) in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(MissingDataError, match="no corpus 'os'"):
        nltk_text("os")


def test_an_empty_one_is_an_error(folder):
    (folder / "corpora" / "words" / "en").write_text("")
    with pytest.raises(CorpusError, match="'words' is empty"):
        nltk_text("words")


def test_without_nltk_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(MissingLibraryError, match=r"python -m pip install 'lmzoo\[text\]'"):
        nltk_text("brown")
