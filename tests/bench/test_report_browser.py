"""The page in a real browser: sorting, filtering, marking, the keyboard, what it asks of the network, how it looks.

`python -m pip install -e '.[browser]'` and a Chromium on the PATH; without them these tests are skipped.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import report
from bench.records import Figure, TrialRecord
from bench.report import plots, wording
from bench.report.build import build_report
from bench.report.content import Report, Section
from bench.report.html import to_html
from bench.report.reading import read_run
from bench.report.sheets import Sheet
from benchmarks import page as benchmark
from tests.bench.profiled import passage, with_profile
from tests.bench.synthetic import facts, failed, ok, repeats, trial, usual, write

pytestmark = [pytest.mark.browser, pytest.mark.whole]

ROOT = Path(__file__).parents[2]
PHONE, DESKTOP = (360, 740), (1280, 800)
LONG = "ngram:" + ",".join(f"part{n}=value" for n in range(12)) + "," + "w" * 60
HOSTILE = (
    "</script><script>window.breach = 1</script>",
    '<img src="x" onerror="window.breach = 1">',
    '"><svg onload="window.breach = 1">',
    "\u202eevil",
    "nul\0here",
    "a\u2028b' onmouseover='window.breach = 1",
)
ODD = (*HOSTILE, LONG, "红楼梦" * 20, "שלום", "مرحبا", "5", "", "~", "a  b")


# --- pages


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with benchmark.browser() as driven:
        yield driven


@contextlib.contextmanager
def visit(chromium: Any, file: Path, size: tuple[int, int] = DESKTOP, **settings: Any) -> Iterator[Any]:
    """A tab with a page; whatever it asked of a network, told in the console or threw is a failure of the test."""
    width, height = size
    context = chromium.new_context(viewport={"width": width, "height": height}, **settings)
    tab = context.new_page()
    told: list[str] = []
    tab.on("console", lambda message: told.append(message.text))
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("dialog", lambda dialog: told.append(dialog.message))
    tab.on("request", lambda request: told.append(request.url) if not request.url.startswith("data:") else None)
    try:
        tab.goto(file.as_uri())
        yield tab
        assert told == [file.as_uri()]
    finally:
        context.close()


def built(folder: Path, records: Sequence[TrialRecord], *, drawn: Sequence[str] = (), **changes: Any) -> Path:
    write(folder, records, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "PLOTS", {name: plots.PLOTS[name] for name in drawn})
        assert build_report(folder) == []
    return folder / "report.html"


@pytest.fixture(scope="module")
def usual_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven models with a passage, one that adapts, one that is infinite and one that failed, with a few plots."""
    records = [with_profile(record) for record in usual()]
    records.append(ok(trial("lstm-cudnn:adapt=cache"), 4.3, changes={"is_adaptive": True}))
    records.append(ok(trial("ngram:smoothing=mle", family="counting"), 3.0, infinite_blocks=40))
    records.append(failed(trial("transformer"), "out_of_memory", "over 100 MiB"))
    return built(
        tmp_path_factory.mktemp("usual"), records, drawn=("perplexity", "memory"), target_perplexities=(5.0, 1.0)
    )


@pytest.fixture(scope="module")
def odd_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names and reasons that are meant to break a page, enough rows to be scrolled, texts in two languages."""
    corpora = [facts(), facts("红楼梦 </title>", sha256="cd" * 32)]
    records = []
    for corpus in corpora:
        for place, name in enumerate(ODD):
            spec = trial(name, corpus=corpus, trial_id=f"{corpus.name[:3]}-{place}")
            fine = place % 4 or not name
            if fine:
                record = ok(spec, 4.0 + place, corpus=corpus)
                records.append(with_profile(record, passage=passage([*HOSTILE, "\t", "", "א", "漢"])))
            else:
                records.append(failed(spec, "failed", f"{name}\n{name}"))
        for n in range(2, 14):
            spec = trial(f"kn{n}", corpus=corpus, trial_id=f"{corpus.name[:3]}-kn{n}")
            records.append(ok(spec, 30.0 + n, corpus=corpus))
    return built(tmp_path_factory.mktemp("odd"), records)


def page_of(folder: Path, *sheets: Sheet, kinds: dict[str, str] | None = None) -> Path:
    content = Report(title="a report", sections=[Section(title="Tables", sheets=sheets)], kinds=kinds or {})
    file = folder / "report.html"
    file.write_text(to_html(content, folder), encoding="utf-8")
    return file


def sheet(headers: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> Sheet:
    return Sheet(caption="a table", headers=headers, align=align, rows=rows)


# --- what a reader does and sees

CELLS = """(table) => [...table.tBodies[0].rows].filter((row) => !row.hidden)
  .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"""


def rows_of(table: Any) -> list[list[str]]:
    """The rows that are shown, in their order."""
    found: list[list[str]] = table.evaluate(CELLS)
    return found


def press(table: Any, header: str) -> str | None:
    """Press a column's header; how the column says that it is sorted."""
    head = table.locator("thead th").filter(has=table.page.get_by_role("button", name=header, exact=True))
    head.get_by_role("button").click()
    order: str | None = head.get_attribute("aria-sort")
    return order


def shown_models(tab: Any, where: str = "table.sheet") -> set[str]:
    script = "(rows) => rows.filter((row) => !row.hidden).map((row) => row.dataset.model)"
    return set(tab.locator(f"{where} tbody tr[data-model]").evaluate_all(script))


def table_of(tab: Any, caption: str) -> Any:
    return tab.locator("table.sheet").filter(has=tab.locator("caption", has_text=caption)).first


# --- sorting

Show = Callable[[float | None], str]
SHOWN: dict[str, tuple[Show, float]] = {
    "plain": (wording.rounded, 1e-6),
    "size": (wording.size, 1.0),
    "training": (wording.seconds, 1e-3),
    "parameters": (wording.count, 1.0),
    "top-1": (wording.percent, 1e-4),
    "p": (lambda value: wording.with_interval(value, value and value / 2, value and value * 2), 1e-3),
    "next token, µs": (lambda us: "n/a" if us is None else f"{wording.rounded(us)} (unstable)", 1e-2),
}


def test_columns_sort_by_value_with_what_is_missing_last(chromium: Any, tmp_path: Path) -> None:
    """Eleven digits apart, in random order, infinite and missing ones among them."""
    values = [*[1.8**k for k in range(45)], math.inf, None]
    random.Random(7).shuffle(values)
    cells = [
        [f"m{n}", *[show(value and value * low) for show, low in SHOWN.values()]] for n, value in enumerate(values)
    ]
    file = page_of(tmp_path, sheet(["model", *SHOWN], "n" + "r" * len(SHOWN), cells))
    order = sorted((n for n, value in enumerate(values) if value is not None), key=lambda n: values[n] or 0.0)
    missing = values.index(None)
    with visit(chromium, file) as tab:
        table = tab.locator("table.sheet")
        for name in SHOWN:
            for direction, wanted in (
                ("ascending", [*order, missing]),
                ("descending", [*reversed(order), missing]),
                (None, range(len(values))),
            ):
                assert press(table, name) == direction, name
                assert [row[0] for row in rows_of(table)] == [f"m{n}" for n in wanted], (name, direction)


# how a column is aligned, what stands in it, and the places of that in ascending order
ORDERS: Sequence[tuple[str, Sequence[str], Sequence[int]]] = (
    ("r", ["not reached", "38.1 s (after 30)", "n/a", "1,204 s", "2.50 s"], [4, 1, 3, 0, 2]),
    ("r", ["1.2 MiB", "900 KiB", "failed", "", "3 GiB", "12 B"], [5, 1, 0, 4, 2, 3]),
    ("r", ["3,417", "inf", "-inf", "-2.50", "1.00e-15", "0", "< 0.0001"], [2, 3, 5, 4, 6, 0, 1]),
    ("r", ["+", "~", "-", "", "+"], [2, 0, 4, 1, 3]),
    ("r", ["+23.5 points", "-3.1 points", "0 points", "+inf", "+1.25 points"], [1, 2, 4, 0, 3]),
    ("l", ["~", "worse", "best", "n/a", "better"], [0, 2, 4, 1, 3]),
    ("n", ["kn10", "kn9", "Kn2", "3gram", "1e5"], [4, 3, 2, 1, 0]),
    ("r", ["0.50 ± 0.03", "0.25 ± 0.9", "1 to 2", "0.125 (0.1 to 7)"], [3, 1, 0, 2]),
)


def test_what_stands_in_cells_is_ordered(chromium: Any, tmp_path: Path) -> None:
    sheets = [
        sheet(["#", "x"], f"r{align}", [[str(place), text] for place, text in enumerate(texts)])
        for align, texts, _ in ORDERS
    ]
    with visit(chromium, page_of(tmp_path, *sheets)) as tab:
        for table, (_, texts, wanted) in zip(tab.locator("table.sheet").all(), ORDERS, strict=True):
            press(table, "x")
            assert [int(row[0]) for row in rows_of(table)] == wanted, texts


def test_a_rank_stays_with_its_row(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page) as tab:
        ranking = table_of(tab, "ranked by test perplexity")
        before = {row[1]: row for row in rows_of(ranking)}
        assert press(ranking, "size") == "ascending"
        after = rows_of(ranking)
        assert [row[0] for row in after] != sorted((row[0] for row in after), key=lambda rank: int(rank or 99))
        assert {row[1]: row for row in after} == before
        # another column takes over
        assert press(ranking, "model") == "ascending"
        assert ranking.locator("[aria-sort]").count() == 1


# --- filtering

FILES = {"small": 9e6, "big": 13e6, "tiny": 100.0, "unsized": None}


@pytest.fixture
def sized_page(tmp_path: Path) -> Path:
    """Four models whose sizes are known, and one more that only the second table has."""
    rows = [
        [name, wording.size(n_bytes), wording.seconds(30.0 + n), f"{10 * (n + 1)} (90)", wording.percent(0.1 + 0.2 * n)]
        for n, (name, n_bytes) in enumerate(FILES.items())
    ]
    first = sheet(["model", "size", "training", "next token, µs (p99)", "top-1"], "nrrrr", rows)
    again = sheet(["model", "p99, µs", "size"], "nrr", [[name, "20", "1 B"] for name in (*FILES, "other")])
    notes = sheet(["what", "value"], "ll", [["size", "1 B"]])
    return page_of(tmp_path, first, again, notes, kinds={"small": "counting", "big": "neural adaptive"})


# what is typed, and the models that are left
SHOWN_BY = (
    ("", {*FILES, "other"}),
    ("IN", {"tiny"}),
    ("size<10MB", {"small", "tiny", "unsized", "other"}),
    ("size < 10 mb", {"small", "tiny", "unsized", "other"}),
    ("size<=8.6MiB size>1kB", {"small"}),
    ("size>=12000000", {"big"}),
    ("training<32", {"small", "big"}),
    ("training<0.51min", {"small"}),
    ("next-token<0.025ms", {"small", "big"}),
    ("nexttoken<=30", {"small", "big", "tiny"}),
    ("p99<25us", {*FILES, "other"}),
    ("top-1>40%", {"tiny", "unsized"}),
    ("top-1>40", {"tiny", "unsized"}),
    ("neural", {"big"}),
    ("adapt", {"big"}),
    ("counting size<10MB", {"small"}),
    ("neural size<10MB", set()),
    ("next token < 25 us", {"small", "big"}),
    ("neural next token<30", {"big"}),
    ("small, neural", {"small", "big"}),
    ("tiny,neural size>10MB", {"tiny", "big"}),
    ("size<9,500,000, big,", {"small", "tiny", "unsized", "other", "big"}),
    ("size<", {*FILES, "other"}),
    ("next token<", {*FILES, "other"}),
    (" , ", {*FILES, "other"}),
)


def test_a_column_of_that_very_name_goes_before_those_that_have_it_inside(chromium: Any, tmp_path: Path) -> None:
    rows = [["a", "120.1", "3.00 %"], ["b", "99.0", "8.00 %"]]
    with visit(chromium, page_of(tmp_path, sheet(["model", "without OOV", "OOV"], "nrr", rows))) as tab:
        for text, wanted in (("OOV<5%", ["a"]), ("without OOV<100", ["b"]), ("without<100", ["b"])):
            tab.locator("#filter").fill(text)
            assert [row[0] for row in rows_of(tab.locator("table.sheet"))] == wanted, text


def test_a_name_is_found_as_it_stands_with_its_commas(chromium: Any, tmp_path: Path) -> None:
    names = ["lstm:hidden=64,layers=2", "gru:hidden=64,layers=2", "lstm:hidden=64"]
    rows = [[name, f"{n + 1}.00 MiB"] for n, name in enumerate(names)]
    with visit(chromium, page_of(tmp_path, sheet(["model", "size"], "nr", rows))) as tab:
        for text, wanted in (
            (names[0], names[:1]),
            (f"{names[0]} size<5MB", names[:1]),
            (f"{names[0]} size<0.5MB", []),
            (f"gru, {names[0]}", names[:2]),
            ("gru, hidden=64", names),
        ):
            tab.locator("#filter").fill(text)
            assert [row[0] for row in rows_of(tab.locator("table.sheet"))] == wanted, text


def test_a_model_with_several_rows_in_a_table_is_asked_row_by_row(chromium: Any, tmp_path: Path) -> None:
    rows = [
        ["kn5", "word", "0.90", "40.0 KiB"],
        ["kn5", "char", "0.30", "25.0 KiB"],
        ["mlp", "char", "0.40", "9.00 KiB"],
    ]
    across = sheet(["model", "tokens", "bits/byte", "size"], "nlrr", rows)
    with visit(chromium, page_of(tmp_path, across, kinds={"kn5": "counting", "mlp": "neural"})) as tab:
        for text, wanted in (
            ("size<30KiB", rows[1:]),
            ("bits/byte<0.35", rows[1:2]),
            ("kn5 word", rows[:1]),
            ("counting char", rows[1:2]),
            ("neural, word", [rows[0], rows[2]]),
        ):
            tab.locator("#filter").fill(text)
            assert [list(row) for row in rows_of(tab.locator("table.sheet"))] == wanted, text


def test_what_fits_nothing_and_what_is_taken_in_bytes_is_told(chromium: Any, sized_page: Path) -> None:
    with visit(chromium, sized_page) as tab:
        for text, told in (
            ("size=3", "0 of 5 models; nothing has size=3"),
            ("foo, small", "1 of 5 models; nothing has foo"),
            ("size<10", "2 of 5 models; size<10 is in bytes"),
        ):
            tab.locator("#filter").fill(text)
            assert tab.locator("#shown").text_content() == told


def test_one_box_filters_all_tables_by_name_family_and_limits(chromium: Any, sized_page: Path) -> None:
    with visit(chromium, sized_page) as tab:
        for text, wanted in SHOWN_BY:
            tab.locator("#filter").fill(text)
            assert shown_models(tab) == wanted, text
            assert tab.locator("#shown").text_content().split(";")[0] == f"{len(wanted)} of 5 models"
            # what is about no model stays
            assert rows_of(tab.locator("table.sheet").last) == [["size", "1 B"]]


TOLD = (
    ("size<10xb", "5 of 5 models; cannot read size<10xb"),
    ("size<10m", "5 of 5 models; cannot read size<10m"),
    ("colour<3", "0 of 5 models; no figures for colour<3"),
    ("-<3", "5 of 5 models; cannot read -<3"),
)


def test_a_limit_that_cannot_be_answered_says_so(chromium: Any, sized_page: Path) -> None:
    with visit(chromium, sized_page) as tab:
        for text, told in TOLD:
            tab.locator("#filter").fill(text)
            assert tab.locator("#shown").text_content() == told


def test_which_model_is_under_10_mb(chromium: Any, tmp_path: Path) -> None:
    """The sizes of the records are what decides; models whose file has no size are not under it."""
    sizes = {f"m{n}": 0.5e6 * n for n in range(15, 26)}
    records = [ok(trial(name), 5.0, measures={"model_bytes": Figure.of(size)}) for name, size in sizes.items()]
    records.append(ok(trial("unsized"), 5.0, measures={"model_bytes": Figure.of(None, "it has no file")}))
    with visit(chromium, built(tmp_path, records)) as tab:
        tab.locator("#filter").fill("size<10MB")
        assert shown_models(tab) == {name for name, size in sizes.items() if size < 10e6}
        ranks = [int(row[0]) for row in rows_of(table_of(tab, "ranked"))]
        assert ranks == sorted(ranks)
        assert ranks != list(range(1, len(ranks) + 1))


def test_a_limit_looks_at_the_figures_of_its_own_text(chromium: Any, tmp_path: Path) -> None:
    texts = [facts(), facts("kjv", sha256="cd" * 32)]
    records = [
        ok(
            trial("kn5", corpus=corpus, trial_id=corpus.name),
            4.0,
            corpus=corpus,
            measures={"next_token_us": repeats(us)},
        )
        for corpus, us in zip(texts, (10.0, 90.0), strict=True)
    ]
    with visit(chromium, built(tmp_path, records)) as tab:
        tab.locator("#filter").fill("next-token<50us")
        script = (
            "(all) => all.map((table) => [table.closest('section').dataset.group, table.tBodies[0].rows[0].hidden])"
        )
        found = {tuple(one) for one in tab.locator("table.sheet:has([data-model])").evaluate_all(script)}
        assert found == {("1", False), ("2", True)}


def test_escape_clears_the_filter_wherever_one_is(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page) as tab:
        box, ranking = tab.locator("#filter"), table_of(tab, "ranked")
        everything = rows_of(ranking)
        for leave in (False, True):
            box.fill("kn5")
            assert [row[1] for row in rows_of(ranking)] == ["kn5"]
            if leave:
                ranking.locator("tbody tr:visible").focus()
            tab.keyboard.press("Escape")
            assert box.input_value() == ""
            assert rows_of(ranking) == everything


# --- one model in all tables


def marked(tab: Any) -> list[str]:
    found: list[str] = tab.locator(".same").evaluate_all("(all) => all.map((one) => one.dataset.model)")
    return found


def test_a_model_under_the_pointer_or_in_focus_is_marked_in_all_tables(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page) as tab:
        rows = tab.locator("tr[data-model='kn5']")
        # its rows, and its passage
        n_places = tab.locator("[data-model='kn5']").count()
        assert n_places > rows.count() > 3
        rows.first.hover()
        assert marked(tab) == ["kn5"] * n_places
        tab.locator("tr[data-model='bigram']").nth(1).evaluate("(row) => row.focus({ preventScroll: true })")
        # the pointer has not moved
        assert marked(tab) == ["kn5"] * n_places
        tab.locator("h1").hover()
        assert set(marked(tab)) == {"bigram"}
        tab.locator("#filter").focus()
        assert marked(tab) == []


# --- the keyboard alone

FOCUSED = """() => { const one = document.activeElement;
  return [one.tagName, one.closest("[data-model]")?.dataset.model ?? one.textContent.trim()]; }"""


def test_all_of_it_is_done_with_the_keyboard(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page) as tab:

        def go(key: str) -> tuple[str, str]:
            tab.keyboard.press(key)
            tag, text = tab.evaluate(FOCUSED)
            return tag, text

        assert go("Tab") == ("A", "Skip to the content")
        assert tab.locator(".skip").bounding_box()["y"] >= 0
        assert go("Enter")[0] == "MAIN"
        # plot, table, headers, one row
        while (found := go("Tab")) != ("BUTTON", "model"):
            assert found[0] in ("DIV", "BUTTON")
        go("Enter")
        ranking = table_of(tab, "ranked")
        assert ranking.locator("[aria-sort=ascending]").inner_text() == "model"
        models = [row[1] for row in rows_of(ranking)]
        assert models == sorted(models)
        while go("Tab")[0] != "TR":
            pass
        assert tab.evaluate(FOCUSED) == ["TR", models[0]]
        assert set(marked(tab)) == {models[0]}
        assert [go("ArrowDown")[1], go("ArrowDown")[1], go("ArrowUp")[1]] == [models[1], models[2], models[1]]
        assert go("Tab")[0] != "TR"
        assert go("Shift+Tab") == ("TR", models[1])
        ring = tab.locator("tr:focus-visible > *").first.evaluate("(cell) => getComputedStyle(cell).boxShadow")
        assert ring != "none"


def test_every_control_has_a_name_and_a_visible_focus(chromium: Any, usual_page: Path) -> None:
    script = """(all) => all.filter((one) => { one.focus({focusVisible: true}); const style = getComputedStyle(one);
      return style.outlineStyle === "none" || style.outlineWidth === "0px"; }).map((one) => one.outerHTML)"""
    with visit(chromium, usual_page) as tab:
        controls = tab.locator("a, button, input, [tabindex='0']:not(tr)")
        assert controls.count() > 50
        assert controls.evaluate_all(script) == []
        assert tab.get_by_role("combobox", name="Show").count() == 1
        assert tab.locator("[role=region]:not([aria-label]), [role=group]:not([aria-label])").count() == 0


# --- hostile text


def test_names_and_reasons_run_nothing(chromium: Any, odd_page: Path) -> None:
    with visit(chromium, odd_page) as tab:
        tab.locator("#filter").fill("onmouseover")
        tab.locator("tbody tr[data-model]:visible").first.hover()
        tab.locator("#filter").fill("")
        assert tab.evaluate("window.breach") is None
        assert tab.locator("main img:not([src^='data:']), main svg").count() == 0
        assert tab.locator("script").count() == len(list(Path(report.__file__).parent.glob("*.js")))
        names = {name.replace("\0", "\ufffd") for name in ODD}
        assert shown_models(tab) == names | {f"kn{n}" for n in range(2, 14)}
        # a name that turns the order of signs turns its own alone
        assert tab.locator("tr[data-model='\u202eevil'] th bdi").first.evaluate("(bdi) => bdi.dir") == ""


def test_the_page_runs_its_own_scripts_alone(chromium: Any, usual_page: Path) -> None:
    """Even if a text got through unescaped, the browser refuses it, and any request."""
    context = chromium.new_context()
    tab = context.new_page()
    refused: list[str] = []
    tab.on("console", lambda message: refused.append(message.text))
    tab.goto(usual_page.as_uri())
    tab.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "window.breach = 1";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", "<img src='https://example.org/x.png'>");
    }""")
    tab.wait_for_function("() => document.images[document.images.length - 1].complete")
    assert tab.evaluate("window.breach") is None
    assert len(refused) == 2
    assert all("Content Security Policy" in text for text in refused)
    context.close()


# --- looks

TOO_FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const mixed = new Map();
  const mix = (colour, ground) => {
    canvas.fillStyle = `rgb(${ground})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const over = (colour, ground) => {
    const key = colour + ground;
    if (!mixed.has(key)) mixed.set(key, mix(colour, ground));
    return mixed.get(key);
  };
  const light = (colour) => colour.map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const groundOf = (element) => {
    const below = element.parentElement ? groundOf(element.parentElement) : [255, 255, 255];
    return over(getComputedStyle(element).backgroundColor, below);
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const ground = groundOf(element);
    const [a, b] = [light(over(getComputedStyle(element).color, ground)), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.add(element.tagName + ": " + element.textContent.trim().slice(0, 40));
  }
  return [...faint];
}"""


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("which", ["usual_page", "odd_page"])
def test_nothing_overflows_and_all_text_can_be_read(
    chromium: Any, tmp_path: Path, request: pytest.FixtureRequest, which: str, size: tuple[int, int]
) -> None:
    with visit(chromium, request.getfixturevalue(which), size) as tab:
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            assert len(tab.screenshot(path=tmp_path / f"{scheme}.png")) > 10_000
            assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
            # the ground follows the scheme
            ground = tab.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
            assert (int(ground) > 128) == (scheme == "light")
            assert tab.evaluate(TOO_FAINT) == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_models_headers_and_parts_stay_in_sight(chromium: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    """However far a table is scrolled, and the page down; the figures beside the names have room too."""
    rows = [[str(n), f"{LONG}{n}", *["1.234 (1.111 to 1.333)"] * 12] for n in range(40)]
    file = page_of(tmp_path, sheet(["#", "model", *[f"column {n}" for n in range(12)]], f"rn{'r' * 12}", rows))
    with visit(chromium, file, size) as tab:
        region = tab.get_by_role("region", name="a table")
        region.evaluate("(box) => { box.scrollLeft = 1e6; box.scrollTop = 200; }")
        left, top, width = (region.bounding_box()[key] for key in ("x", "y", "width"))
        for cell in region.locator("tr:nth-child(3) :is(.rank, .pinned)").all():
            box = cell.bounding_box()
            assert left <= box["x"]
            assert box["x"] + box["width"] < left + 0.75 * width
        assert region.locator("thead th").first.bounding_box()["y"] == pytest.approx(top, abs=2)
        tab.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert tab.locator("nav").bounding_box()["y"] == 0


def test_headings_reached_by_a_link_are_not_under_the_bar(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page) as tab:
        bar = tab.locator(".bar").bounding_box()["height"]
        for link in tab.locator("nav a").all()[1:4]:
            link.click()
            heading = tab.locator(link.get_attribute("href"))
            assert heading.bounding_box()["y"] >= bar
            assert heading.text_content() == link.text_content()


@pytest.mark.parametrize("which", ["usual_page", "odd_page"])
def test_no_heading_is_left_out(chromium: Any, request: pytest.FixtureRequest, which: str) -> None:
    with visit(chromium, request.getfixturevalue(which)) as tab:
        levels = tab.locator("h1, h2, h3, h4, h5, h6").evaluate_all("(all) => all.map((one) => +one.tagName[1])")
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_paper_has_all_of_it_and_no_controls(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page, color_scheme="dark") as tab:
        tab.emulate_media(media="print")
        assert not tab.locator(".bar").is_visible()
        clipped = "(all) => all.filter((box) => getComputedStyle(box).overflowX !== 'visible').length"
        assert tab.locator(".scroll, .wide").evaluate_all(clipped) == 0
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_plots_have_their_room_before_they_are_drawn(chromium: Any, usual_page: Path) -> None:
    """Those below are drawn once they come into sight; a page that is printed has all of them."""
    with visit(chromium, usual_page) as tab:
        boxes = tab.locator("figure img").evaluate_all("(all) => all.map((one) => [one.width, one.height])")
        tab.locator("figure img").last.scroll_into_view_if_needed()
        tab.wait_for_function("() => [...document.images].at(-1).complete")
        assert tab.locator("figure img").last.evaluate("(one) => one.naturalWidth") > 300
        after = tab.locator("figure img").evaluate_all("(all) => all.map((one) => [one.width, one.height])")
        # widths and heights are whole numbers
        for box, drawn in zip(boxes, after, strict=True):
            assert drawn == pytest.approx(box, abs=1)
        assert min(min(box) for box in boxes) > 100


def test_without_script_it_is_the_plain_page(chromium: Any, usual_page: Path) -> None:
    with visit(chromium, usual_page, java_script_enabled=False) as tab:
        assert not tab.locator("#filter").is_visible()
        assert tab.locator("button").count() == 0
        assert tab.locator("tr[data-model='kn5']").first.is_visible()


# --- size


def test_what_opening_a_page_takes_is_told(chromium: Any, usual_page: Path) -> None:
    *_, row = benchmark.lines(chromium, {"usual": usual_page}, n_runs=1)
    name, megabytes, n_elements, *times_ms = row.strip("| ").split(" | ")
    assert (name, float(megabytes)) == ("usual", round(usual_page.stat().st_size / 1e6, 2))
    assert int(n_elements) > 1000
    assert len(times_ms) == 3


@pytest.mark.parametrize("n_models", [1, 50])
def test_one_model_and_fifty_make_a_page_of_bounded_size(chromium: Any, tmp_path: Path, n_models: int) -> None:
    """How long it takes to open is measured by benchmarks/page.py; here stands what it follows from."""
    run = read_run(ROOT / "results" / "reference")
    folder = benchmark.crowd(run, tmp_path / "crowd", n_models)
    with pytest.MonkeyPatch.context() as patch:
        if n_models == 1:
            # its plots are small
            patch.setattr(plots, "PLOTS", {})
        assert build_report(folder) == []
    assert (folder / "report.html").stat().st_size < 5e6
    with visit(chromium, folder / "report.html", PHONE) as tab:
        assert tab.locator("#shown").text_content() == f"{n_models} of {n_models} models"
        assert tab.evaluate("document.querySelectorAll('*').length") < 6_000 + 150 * n_models
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
