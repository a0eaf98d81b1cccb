"""`corpora`: what is listed, what is told of one, what is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmzoo.sources import files, hub
from tests.lmzoo.typing_at import Typed, table


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder and a cache, both empty."""
    monkeypatch.setenv("LMZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "data"


def facts_of(typed: Typed, name: str) -> dict[str, str]:
    status, out, _ = typed("corpora", name)
    assert status == 0
    return {row["fact"]: row["value"] for row in table(out)}


def test_the_list(typed: Typed) -> None:
    rows = {row["name"]: row for row in table(typed("corpora")[1])}
    assert {"genesis", "ptb", "enwik8", "markov:…", "nltk:…", "hf:…"} <= set(rows)
    assert all(row["licence"] and row["verified"] and row["from"] for row in rows.values())
    assert (rows["ptb"]["bytes"], rows["ptb"]["symbols"]) == ("5951345", "10000")
    assert rows["text8"]["verified"] == "unverified (size alone)"
    objects = [json.loads(line) for line in typed("corpora", "--json-lines")[1].splitlines()]
    assert [row["name"] for row in objects] == list(rows)
    assert (objects[0]["bytes"], objects[-1]["bytes"]) == (199_508, None)


def test_one_that_is_made_here(typed: Typed) -> None:
    facts = facts_of(typed, "markov:length=1000,symbols=3")
    # three symbols and <unk>
    assert (facts["symbols"], facts["own_unk"], facts["verified"]) == ("4", "false", "made here")
    assert sum(int(facts[f"{part}.tokens"]) for part in ("train", "valid", "test")) == 1000


def test_one_as_an_object(typed: Typed) -> None:
    told = json.loads(typed("corpora", "genesis", "--json-lines")[1])
    assert (told["symbols"], told["train.documents"], told["test.tokens"]) == (28, 1, 19_040)
    assert told["own_unk"] is False


def test_the_state_of_each_file_is_told(typed: Typed, data: Path) -> None:
    part = data / "wikitext-2" / "wiki.train.tokens"
    part.parent.mkdir(parents=True)
    part.write_text("a b <unk>\n", encoding="utf-8")
    facts = facts_of(typed, "wikitext-2")
    assert (facts["train.file"], facts["train.state"]) == (str(part), "unverified")
    assert (facts["valid.file"], facts["valid.state"]) == ("", "missing")
    assert facts["reason"] == "valid is missing, test is missing"
    (part.parent / "wiki.valid.tokens").write_text("not what was published\n", encoding="utf-8")
    assert facts_of(typed, "wikitext-2")["valid.state"] == "altered"


@pytest.mark.usefixtures("data")
def test_what_cannot_be_fetched_says_where_to_put_it(typed: Typed) -> None:
    status, out, err = typed("corpora", "text8", "--fetch")
    assert (status, out) == (2, "")
    assert "no checksum of it is known; it is published at http://mattmahoney.net/dc/text8.zip; put the file at" in err


def test_mistakes_are_told(typed: Typed) -> None:
    assert typed("corpora", "--fetch")[0] == 2
    status, _, err = typed("corpora", "timemachin")
    assert status == 2
    assert err.startswith("error: no corpus and no file 'timemachin'. Did you mean 'timemachine'?")


def test_what_may_be_downloaded_is_so_only_when_asked(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_dataset(name: str) -> hub.Readers:
        opened.append(name)
        return {"whole": lambda: "a few words\n" * 40}

    monkeypatch.setattr(hub, "open_dataset", open_dataset)
    assert facts_of(typed, "hf:owner/name")["reason"] == "it may have to be downloaded: --fetch"
    assert not opened
    facts = {row["fact"]: row["value"] for row in table(typed("corpora", "hf:owner/name", "--fetch")[1])}
    assert set(opened) == {"owner/name"}
    # 480 characters: the first space at or after 384 opens the next part
    assert facts["train.tokens"] == "385"
