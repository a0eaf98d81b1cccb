"""`describe`: text, JSON, a folder; the same figures in each."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

import lmzoo
from lmzoo.card import Card
from lmzoo.cli.cards import markdown, shown
from lmzoo.errors import StorageError
from tests.lmzoo.typing_at import Typed

pytestmark = pytest.mark.plain

TEXT = "the cat sat on the mat\nthe dog sat on the | cat\na dog\u00a0ate <unk> the mat\n" * 20


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def card(text_file: Path) -> Card:
    return lmzoo.describe(lmzoo.load_corpus(text_file, tokens="word"), order=2)


def test_text(typed: Typed, text_file: Path, card: Card) -> None:
    status, out, err = typed("describe", text_file, "--tokens", "word", "--order", 2)
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "corpus: text.txt" in lines
    assert "vocabulary: 12 predictable symbols" in lines
    train = card.parts[0]
    assert any(line.startswith(f"train {train.n_documents} {train.n_lines} {train.n_tokens} ") for line in lines)
    assert "U+00A0 NO-BREAK SPACE 20" in lines
    # nothing is cut off where no terminal limits a line
    assert "…" not in out


def test_json_is_the_card(typed: Typed, text_file: Path, card: Card) -> None:
    status, out, _ = typed("describe", text_file, "--tokens", "word", "--order", 2, "--json")
    assert status == 0
    assert json.loads(out) == json.loads(json.dumps(card.to_json()))


def test_a_folder(typed: Typed, text_file: Path, tmp_path: Path, card: Card) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    folder = tmp_path / "a" / "card"
    folder.mkdir(parents=True)
    (folder / "card.md").write_text("an older card", encoding="utf-8")
    status, _, err = typed("describe", text_file, "--tokens", "word", "--order", 2, "-o", folder)
    assert (status, err) == (0, f"card in {folder}\n")
    plots = {f"{name}.{ending}" for name in ("symbols", "zipf", "growth") for ending in ("png", "svg")}
    assert {path.name for path in folder.iterdir()} == {"card.md", "card.json", *plots}
    assert json.loads((folder / "card.json").read_text(encoding="utf-8")) == json.loads(json.dumps(card.to_json()))
    page = (folder / "card.md").read_text(encoding="utf-8")
    assert all(f"]({name}.png)" in page for name in ("symbols", "zipf", "growth"))
    assert (folder / "zipf.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in (folder / "zipf.svg").read_bytes()


def test_pictures_for_which_a_disk_has_no_room_cost_no_figures(
    typed: Typed, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plots = pytest.importorskip("lmzoo.cli.card_plots", reason="matplotlib is not installed")

    def full(*_: object) -> list[tuple[str, str]]:
        raise StorageError("cannot write symbols.svg: No space left on device")

    monkeypatch.setattr(plots, "save_plots", full)
    assert typed("describe", text_file, "-o", tmp_path / "card")[0] == 2
    assert json.loads((tmp_path / "card" / "card.json").read_text(encoding="utf-8"))


def test_without_matplotlib_the_card_has_no_plots(
    typed: Typed, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lmzoo.cli.card_plots", None)
    status, _, err = typed("describe", text_file, "-o", tmp_path / "card")
    assert status == 0
    assert "python -m pip install 'lmzoo[plots]'" in err
    assert {path.name for path in (tmp_path / "card").iterdir()} == {"card.md", "card.json"}


def test_mistakes_are_told_before_any_text_is_read(typed: Typed, text_file: Path) -> None:
    status, _, err = typed("describe", "nowhere.txt", "-o", text_file)
    assert status == 2
    assert err.startswith(f"error: cannot write '{text_file}'")
    assert typed("describe")[0] == 2
    page = text_file.with_name("card.md")
    page.write_text(TEXT, encoding="utf-8")
    assert "card.md is read and would be overwritten" in typed("describe", page, "-o", page.parent)[2]
    assert page.read_text(encoding="utf-8") == TEXT
    assert "order must be 1 to 32" in typed("describe", text_file, "--order", 40)[2]


def test_a_table_of_markdown_keeps_its_columns(card: Card) -> None:
    page = markdown(card, [])
    tables = [line for line in page.splitlines() if line.startswith("|")]
    symbols = [line for line in tables if "&#124;" in line or "&lt;unk" in line]
    assert len(symbols) == 2
    for line in tables:
        assert line.endswith("|")
    assert page.count("|:--") == page.count("| :-- |:--")
    assert "## Plots" not in page


@pytest.mark.parametrize(
    ("symbol", "seen"),
    [
        ("a", "a"),
        (" ", "SPACE"),
        ("\u200b", "ZERO WIDTH SPACE"),
        ("\n", "U+000A"),
        ("红", "红"),
        ("a\u00a0b", "aU+00A0b"),
    ],
)
def test_what_is_blank_is_shown_by_its_name_or_code(symbol: str, seen: str) -> None:
    assert shown(symbol) == seen


def test_a_symbol_without_a_sign_in_the_font_is_drawn_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from lmzoo.cli.card_plots import label_of

    card_plots = importlib.import_module("lmzoo.cli.card_plots")
    monkeypatch.setattr(card_plots, "_glyphs", lambda: frozenset(range(0x20, 0x250)))
    assert [label_of(symbol) for symbol in ("a", "é", "$x$", "红", " ")] == ["a", "é", "$x$", "U+7EA2", "SPACE"]
    assert label_of("x" * 50) == "x" * 19 + "…"


def test_signs_that_no_font_has_are_told_once(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path = tmp_path / "zh.txt"
    path.write_text("红楼梦 a\n" * 40, encoding="utf-8")
    card_plots = importlib.import_module("lmzoo.cli.card_plots")
    monkeypatch.setattr(card_plots, "_glyphs", lambda: frozenset(range(0x20, 0x250)))
    status, out, err = typed("describe", path, "-o", tmp_path / "card")
    assert status == 0
    assert "letters: Han 120, Latin 40" in out
    told = [line for line in err.splitlines() if line.startswith("note:")]
    assert len(told) == 1
    assert "3 of the most frequent symbols" in told[0]
    assert "Noto Sans CJK" in told[0]


def test_ten_lines_are_described_as_one_part(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("今天下雨。\n", encoding="utf-8")
    status, out, err = typed("describe", path, "--json", "-o", tmp_path / "card", "--parts", tmp_path / "parts")
    assert status == 0, err
    (part,) = json.loads(out)["parts"]
    assert (part["name"], part["n_tokens"], part["n_chars"]) == ("train", 6, 6)
    assert next(row["test_oov"] for row in json.loads(out)["coverage"]) is None
    assert (tmp_path / "parts" / "train.txt").read_text(encoding="utf-8") == "今天下雨。\n"
    assert (tmp_path / "parts" / "test.txt").read_bytes() == b""
    assert "too short to be cut" in typed("describe", path)[1]
    status, _, err = typed("train", "kn5", path, "-o", tmp_path / "m.lm")
    assert status == 2
    for cure in ("--documents line", "--all", "--train, --valid, --test"):
        assert cure in err


def test_a_text_without_any_token_has_no_card(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    status, _, err = typed("describe", tmp_path / "empty.txt")
    assert status == 2
    assert "the train part of empty.txt has 0 tokens" in err


@pytest.mark.parametrize("documents", ["file", "line", "paragraph", "running"])
def test_parts_that_are_written_are_the_same_tokens_again(typed: Typed, tmp_path: Path, documents: str) -> None:
    path = tmp_path / "own.txt"
    path.write_text("Un cafe\u0301, deux\ncafés\n\nle chat\nest l\u00e0\n\n" * 30, encoding="utf-8")
    status, out, err = typed(
        *("describe", path, "--normalize", "nfc", "--documents", documents, "--parts", tmp_path / "parts")
    )
    assert (status, err) == (0, f"parts in {tmp_path / 'parts'}\n")
    assert "NFC changed" in out
    wanted = lmzoo.load_corpus(path, normalize="nfc", documents=documents)
    files = {part: tmp_path / "parts" / f"{part}.txt" for part in ("train", "valid", "test")}
    again = lmzoo.load_corpus(**files, documents=documents)
    assert again.n_normalized == 0
    for split, found in zip(
        (wanted.train, wanted.valid, wanted.test), (again.train, again.valid, again.test), strict=True
    ):
        assert found.ids_N.tolist() == split.ids_N.tolist()
        assert found.starts_D1.tolist() == split.starts_D1.tolist()


def test_where_all_invisible_characters_stand(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text(
        "".join(map(chr, range(0x2000, 0x2010))) * 40 + "".join(map(chr, range(1, 9))) * 40, encoding="utf-8"
    )
    _, out, _ = typed("describe", path, "-o", tmp_path / "card")
    assert "4 more: --json has them all." in out
    assert "4 more: card.json has them all." in (tmp_path / "card" / "card.md").read_text(encoding="utf-8")


def test_an_empty_test_text_is_an_error_and_no_missing_part(typed: Typed, text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    status, _, err = typed("describe", "--train", text_file, "--test", tmp_path / "empty.txt")
    assert status == 2
    assert "the test part of" in err
