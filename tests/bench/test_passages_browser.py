"""Passages in a real browser: under the pointer, the keys and the finger; shades that can be read; hostile tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page as benchmark
from tests.bench.profiled import passage, with_profile
from tests.bench.synthetic import ok, trial
from tests.bench.test_report_browser import PHONE, built, visit

pytestmark = [pytest.mark.browser, pytest.mark.whole]

# a token of each shade, and one that is impossible
NATS = (0.1, 0.5, 1.0, 2.0, 3.5, 5.5, 8.0, 12.0, None)
TOKENS = tuple("abcdefghi")
HOSTILE = ("</script><script>window.breach = 1</script>", '"><img src=x onerror="window.breach = 1">', "\u202e", "\0")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with benchmark.browser() as driven:
        yield driven


def page(folder: Path, tokens: tuple[str, ...] = TOKENS, n_models: int = 2) -> Path:
    own = passage(tokens, nats=NATS[: len(tokens)], choices_p=((0.5, 0.25),) * len(tokens))
    names = [f"kn{n}" for n in range(n_models)]
    return built(
        folder,
        [with_profile(ok(trial(name, family="counting"), 4 + n / 9), passage=own) for n, name in enumerate(names)],
    )


def tokens_of(tab: Any, view: int) -> Any:
    return tab.locator(".views section").nth(view).locator(".passage span")


def test_the_pointer_shows_what_every_model_gave_a_token(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path)) as tab:
        panel = tab.locator(".told")
        assert not panel.is_visible()
        tokens_of(tab, 1).nth(2).hover()
        # 1 nat
        assert panel.locator("p").inner_text().startswith("c · the training text has")
        text = panel.inner_text()
        assert text.count("37 %") == 2
        assert text.count("1.4 bits") == 2
        assert text.count("likeliest: e 50 %, ␣ 25 %") == 2
        assert [name in text for name in ("kn0", "kn1")] == [True, True]
        # the same token is marked in both passages
        assert [tokens_of(tab, view).nth(2).get_attribute("class") for view in (0, 1)] == ["b2 at"] * 2
        tokens_of(tab, 0).nth(8).hover()
        assert "inf bits" in panel.inner_text()
        assert tab.locator(".passage [title]").count() == 0


def test_the_keys_go_through_a_passage_and_from_model_to_model(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path)) as tab:
        # one stop of the Tab key for each passage
        assert tab.locator('.passage span[tabindex="0"]').count() == 2
        tokens_of(tab, 0).nth(0).focus()
        for key, at, view in (
            ("ArrowRight", 1, 0),
            ("ArrowRight", 2, 0),
            ("ArrowLeft", 1, 0),
            ("ArrowDown", 1, 1),
            ("End", 8, 1),
            ("ArrowRight", 8, 1),
            ("ArrowUp", 8, 0),
            ("Home", 0, 0),
        ):
            tab.keyboard.press(key)
            assert tokens_of(tab, view).nth(at).evaluate("(token) => token === document.activeElement"), key
            assert tab.locator(".told p").inner_text().startswith(f"{TOKENS[at]} · ")
        assert tab.locator('.passage span[tabindex="0"]').count() == 2
        tab.keyboard.press("Escape")
        assert not tab.locator(".told").is_visible()


def test_what_the_filter_hides_is_neither_told_nor_in_the_way(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path, n_models=3)) as tab:
        tokens_of(tab, 0).nth(2).focus()
        assert "kn1" in tab.locator(".told").inner_text()
        tab.locator("#filter").fill("kn0, kn2")
        # what is shown follows
        assert "kn1" not in tab.locator(".told").inner_text()
        tokens_of(tab, 0).nth(2).focus()
        tab.keyboard.press("ArrowDown")
        assert tokens_of(tab, 2).nth(2).evaluate("(token) => token === document.activeElement")
        # the key closes the panel first, and what is filtered stays
        tab.keyboard.press("Escape")
        assert not tab.locator(".told").is_visible()
        assert tab.locator("#filter").input_value() == "kn0, kn2"
        tab.keyboard.press("Escape")
        assert tab.locator("#filter").input_value() == ""


def test_the_arrows_point_where_the_text_runs(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path, tuple("שלום עול"))) as tab:
        tokens_of(tab, 0).nth(1).focus()
        tab.keyboard.press("ArrowLeft")
        assert tokens_of(tab, 0).nth(2).evaluate("(token) => token === document.activeElement")


def test_what_is_read_out_is_the_token_in_focus_and_what_its_model_makes_of_it(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path)) as tab:
        heard = tab.locator("[role=status].heard")
        tokens_of(tab, 0).nth(1).hover()
        assert heard.text_content() == ""
        tokens_of(tab, 1).nth(2).focus()
        told = heard.text_content()
        assert told.startswith("c · the training text has")
        assert told.endswith(". kn1: 37 %, 1.4 bits, likeliest: e 50 %, ␣ 25 %")


def test_a_finger_does_the_same_and_the_page_stays_as_wide_as_a_phone(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path, n_models=14), PHONE, has_touch=True) as tab:
        tokens_of(tab, 0).nth(3).tap()
        assert tab.locator(".told").is_visible()
        assert "2.9 bits" in tab.locator(".told").inner_text()
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        # the panel is on the screen, and leaves most of it to the text
        box = tab.locator(".told").bounding_box()
        assert box["y"] + box["height"] <= PHONE[1] + 1
        assert box["height"] <= PHONE[1] / 2


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_shade_can_be_read_and_they_are_ordered_by_lightness(chromium: Any, tmp_path: Path, scheme: str) -> None:
    style = """(token) => {
      const own = getComputedStyle(token);
      const clear = own.backgroundColor === "rgba(0, 0, 0, 0)";
      return [own.color, clear ? getComputedStyle(document.body).backgroundColor : own.backgroundColor];
    }"""
    with visit(chromium, page(tmp_path), color_scheme=scheme) as tab:
        found = [tokens_of(tab, 0).nth(at).evaluate(style) for at in range(len(TOKENS))]
        outline = tokens_of(tab, 0).nth(8).evaluate("(token) => getComputedStyle(token).outlineStyle")
    shades = [(luminance(ink), luminance(paper)) for ink, paper in found]
    for ink, paper in shades:
        # WCAG 2.2, 1.4.3
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5
    papers = [paper for _, paper in shades[:8]]
    steps = [b - a for a, b in itertools.pairwise(papers)]
    assert all(step < 0 for step in steps) if scheme == "light" else all(step > 0 for step in steps)
    assert outline == "dashed"


def test_hostile_tokens_are_text(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path, HOSTILE)) as tab:
        tokens_of(tab, 0).nth(0).hover()
        assert tab.locator(".told p").inner_text().startswith("</script><script>")
        assert tab.evaluate("window.breach") is None
        assert tab.locator("img[src=x]").count() == 0
        assert tokens_of(tab, 0).nth(2).inner_text() == "\\u202e"


def test_without_script_the_title_of_a_token_tells_it(chromium: Any, tmp_path: Path) -> None:
    with visit(chromium, page(tmp_path), java_script_enabled=False) as tab:
        assert tokens_of(tab, 0).nth(2).get_attribute("title") == "37 %\n1.4 bits\nlikeliest: e 50 %, ␣ 25 %"
        assert not tab.locator(".told").is_visible()
