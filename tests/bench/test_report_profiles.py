"""Where models differ, in the report: tables, passages in colour, plots; any text, any number of models, no text."""

from __future__ import annotations

import csv
import html.parser
import math
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import asked, describe, report, running, throughput
from bench import run as run_module
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Event, Started
from bench.measure import Trial
from bench.profiled import Bucket, Sample
from bench.records import TrialRecord, TrialSpec
from bench.report import plots
from bench.report.build import build_report
from bench.report.passages import LEVELS, called, most_shown, readable
from bench.report.profiles import chosen, named
from bench.report.reading import read_run
from bench.report.rows import rows_of
from tests.bench.profiled import TOKENS, confidences, passage, with_profile
from tests.bench.synthetic import facts, failed, ok, trial, write

TABLES = ("surprisal", "calibration", "passage", "samples")


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})


def two(**changes: Any) -> list[TrialRecord]:
    """A counting model and a network, whose passages differ most at the end."""
    nats = tuple(0.5 * at for at in range(len(changes.get("tokens", TOKENS))))
    own = passage(changes.pop("tokens", TOKENS), nats=nats, **changes)
    kn5 = with_profile(ok(trial("kn5"), 4.4), passage=own, sample=Sample(prompt="and god", seed=0, text=" said"))
    return [kn5, with_profile(ok(trial("mlp"), 5.0), passage=own.model_copy(update={"nats": passage(own.tokens).nats}))]


def reported(folder: Path, records: Sequence[TrialRecord], **changes: Any) -> str:
    write(folder, records, **changes)
    assert build_report(folder) == []
    return (folder / "report.md").read_text(encoding="utf-8")


def part(report: str, title: str) -> str:
    return report.split(f"## {title}\n")[1].split("\n## ")[0]


class Cells(html.parser.HTMLParser):
    """The tokens of each passage in a page: text, classes and title; and the names in the template."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.views: list[list[tuple[str, str, str]]] = []
        self.models: list[str] = []
        self.names: list[str] = []
        self.tags: list[str] = []
        self._inside = ""
        self.feed((folder / "report.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "section" and given.get("data-model"):
            self.models.append(given["data-model"] or "")
        if tag == "template":
            self._inside = tag
        if tag == "p":
            self._inside = "p" if given.get("class") == "passage" else ""
            self.views += [[]] * (self._inside == "p")
            if self._inside:
                self.views[-1] = []
        if tag == "span" and self._inside == "p":
            self.views[-1].append(("", given.get("class") or "", given.get("title") or ""))
        if tag == "span" and self._inside == "template":
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "template"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "p" and self.views[-1]:
            text, classes, title = self.views[-1][-1]
            self.views[-1][-1] = (text + data, classes, title)
        if self._inside == "template" and self.names:
            self.names[-1] += data

    def texts(self, view: int = 0) -> list[str]:
        return [text for text, _, _ in self.views[view]]


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- tables and Markdown


@pytest.mark.usefixtures("no_plots")
def test_the_tokens_that_two_models_disagree_about_come_with_both_figures(tmp_path: Path) -> None:
    lines = part(reported(tmp_path, two()), "Where models differ").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [^:]", line)]
    header, first, *_ = rows
    assert header[:4] == ["token", "kn5", "mlp", "difference, bits"]
    shown = rows[1:11]
    # the last tokens, 0.25 nats more apart each; the first two, which differ least, are left out
    assert len([row for row in shown if "[" in row[0]]) == 10
    # the fourth token: 1.5 nats, and 0.75
    assert "\\[␣\\]" in first[0]
    assert [first[1], first[2]] == [f"{100 * math.exp(-1.5):.0f} %", f"{100 * math.exp(-0.75):.0f} %"]
    assert first[3] == f"+{0.75 / math.log(2):.1f}"


@pytest.mark.usefixtures("no_plots")
def test_kinds_of_tokens_have_a_line_each_and_rare_ones_are_told(tmp_path: Path) -> None:
    text = part(reported(tmp_path, two()), "Where models differ")
    # a tenth of 20,000 tokens, three tenths of the nats: bits are three times the mean
    record = two()[0]
    assert record.measured is not None
    bits = (record.measured.test.nll_nats.value or 0.0) / 20_000 / math.log(2)
    assert f"| OOV | 2,000 | 10.0 % | {3 * bits:.2f} |" in text
    assert "| 100-999 | 18,000 | 90.0 % |" in text
    assert "| 6 or more | 18,000 |" in text
    assert "out of vocabulary (OOV), or that the training text has fewer than 10 times, are 10.0 % of all" in text
    assert "take 30.0 % of the bits of kn5" in text


@pytest.mark.usefixtures("no_plots")
def test_calibration_tells_how_far_confidence_is_off(tmp_path: Path) -> None:
    text = part(reported(tmp_path, two()), "Calibration")
    # 200 predictions: 0.735 sure on average, 0.5 right; |97 - 50| of 200 off
    assert "| kn5 | 23.5 % | 73.5 % | 50.0 % | +23.5 points | yes |" in text
    assert "Guo et al. 2017" in text


@pytest.mark.usefixtures("no_plots")
def test_a_model_whose_probabilities_do_not_sum_to_1_is_told_as_such(tmp_path: Path) -> None:
    bad = with_profile(ok(trial("raw"), 3.0))
    assert bad.measured is not None
    measured = bad.measured.model_copy(update={"checks": {"probability.sums_to_one": "failed"}})
    bad = bad.model_copy(update={"measured": measured, "status": "invalid", "reason": "sums to 2"})
    text = part(reported(tmp_path, [*two(), bad]), "Calibration")
    (line,) = [line for line in text.splitlines() if line.startswith("| raw |")]
    assert line.endswith("| NO |")


@pytest.mark.usefixtures("no_plots")
def test_one_seed_that_does_not_sum_to_1_is_told_though_the_others_do(tmp_path: Path) -> None:
    seeds = [with_profile(ok(trial("raw", seed=seed), 3.0)) for seed in range(3)]
    assert seeds[1].measured is not None
    measured = seeds[1].measured.model_copy(update={"checks": {"probability.sums_to_one": "failed"}})
    seeds[1] = seeds[1].model_copy(update={"measured": measured, "status": "invalid", "reason": "sums to 2"})
    text = part(reported(tmp_path, [*two(), *seeds]), "Calibration")
    (line,) = [line for line in text.splitlines() if line.startswith("| raw |")]
    assert line.endswith("| NO |")


@pytest.mark.usefixtures("no_plots")
def test_samples_stand_side_by_side_with_their_prompt_and_seed(tmp_path: Path) -> None:
    mute = with_profile(
        ok(trial("mute"), 6.0), sample=Sample(prompt="and god", seed=0, text=None, reason="RuntimeError: x")
    )
    text = part(reported(tmp_path, [*two(), mute]), "Samples")
    assert "what each model writes after the words “and god”, drawn with seed 0:" in text
    assert "| kn5 | said |" in text
    assert "| mlp | said unto noah ↵ and |" in text
    assert "| mute | no text: RuntimeError: x |" in text


@pytest.mark.usefixtures("no_plots")
def test_the_tables_hold_the_same_figures(tmp_path: Path) -> None:
    reported(tmp_path, two())
    surprisal = table(tmp_path, "surprisal")
    assert {(line["model"], line["sorted_by"]) for line in surprisal} == {
        (model, kind) for model in ("kn5", "mlp") for kind in ("frequency", "position", "order")
    }
    assert [line["low"] for line in surprisal[:2]] == ["", "100"]
    assert sum(int(line["n_tokens"]) for line in surprisal if line["sorted_by"] == "order") == 2 * 20_000
    bins = table(tmp_path, "calibration")
    assert [(line["n_tokens"], line["mean_confidence"], line["accuracy"]) for line in bins[:2]] == [
        ("100", "0.5", "0.5"),
        ("100", "0.97", "0.5"),
    ]
    tokens = table(tmp_path, "passage")
    assert [line["token"] for line in tokens[: len(TOKENS)]] == list(TOKENS)
    assert [float(line["nats"]) for line in tokens[: len(TOKENS)]] == [0.5 * at for at in range(len(TOKENS))]
    assert [line["text"] for line in table(tmp_path, "samples")] == [" said", " said unto noah\nand"]


@pytest.mark.usefixtures("no_plots")
def test_records_without_profiles_make_no_sections_and_no_tables(tmp_path: Path) -> None:
    reported(tmp_path, two())
    for record in two():
        (tmp_path / "trials" / f"{record.trial.trial_id}.json").unlink()
    text = reported(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0)])
    assert "## Where models differ" not in text
    assert not [name for name in TABLES if (tmp_path / "tables" / f"{name}.csv").exists()]


@pytest.mark.usefixtures("no_plots")
def test_seeds_are_joined(tmp_path: Path) -> None:
    def seed(number: int, n_right: int) -> TrialRecord:
        record = ok(trial("mlp", seed=number), 5.0)
        return with_profile(record, confidences=confidences(b7=(100, 50.0, n_right), b14=(100, 97.0, 100 - n_right)))

    text = part(reported(tmp_path, [seed(0, 50), seed(1, 40)]), "Calibration")
    # errors of 47/200 and (10 + 37)/200
    assert "| mlp | 23.5 % |" in text
    assert {line["seed"] for line in table(tmp_path, "surprisal")} == {"0", "1"}


@pytest.mark.usefixtures("no_plots")
def test_places_of_few_tokens_are_joined_where_they_are_read_and_apart_in_the_table(tmp_path: Path) -> None:
    record = ok(trial("kn5"), 4.4)
    assert record.measured is not None
    n_tokens, nats = record.measured.test.n_tokens, record.measured.test.nll_nats.value
    assert nats is not None
    places = (
        Bucket(low=1, high=1, n_tokens=1, nats=10.0),
        Bucket(low=2, high=3, n_tokens=98, nats=89.0),
        Bucket(low=4, high=7, n_tokens=n_tokens - 104, nats=nats - 99.0),
        Bucket(low=8, high=15, n_tokens=5, nats=0.0),
    )
    text = part(reported(tmp_path, [with_profile(record, by_position=places)]), "Where models differ")
    lines = text.split("by its place in the document")[1].split("bits per token")[0].splitlines()
    rows = [line.split(" | ")[:2] for line in lines if re.match(r"\| \d", line)]
    # 99 tokens are too few: the next ones stand with them
    assert rows == [["| 1-7", f"{n_tokens - 5:,}"], ["| 8-15", "5"]]
    assert [row["low"] for row in table(tmp_path, "surprisal") if row["sorted_by"] == "position"] == [
        "1",
        "2",
        "4",
        "8",
    ]


# --- the passage in colour


@pytest.mark.usefixtures("no_plots")
def test_a_page_has_every_token_of_every_model(tmp_path: Path) -> None:
    reported(tmp_path, two(model_orders=(3,) * len(TOKENS)))
    cells = Cells(tmp_path)
    assert cells.models == ["kn5", "mlp"]
    assert [cells.texts(view) for view in (0, 1)] == [list(TOKENS)] * 2
    text, level, told = cells.views[0][4]
    # 2 nats: 13.5 %, 2.9 bits
    assert (text, level) == ("g", "b3")
    assert told.split("\n") == ["14 %", "2.9 bits", "matched 3 tokens", "likeliest: e 50 %, ␣ 25 %"]
    assert cells.names[4] == "g · the training text has the last 4 tokens together"
    assert cells.names[0] == "a · the training text has no such token"


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    "tokens",
    [
        ("<script>", "</span>", '"', "'", "&lt;", "</template>", "{{ 7*7 }}"),
        tuple("子曰學而時習之"),
        tuple("שלום עולם"),
        tuple("مرحبا"),
        ("e", "\u0301", "o", "\u0308"),
        ("👩\u200d👧", "\u0915\u094d\u200d\u0937"),
    ],
)
def test_letters_of_any_script_and_hostile_text_stay_as_they_are(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    reported(tmp_path, two(tokens=tokens))
    cells = Cells(tmp_path)
    assert cells.texts() == list(tokens)
    # nothing out of the text is a tag
    assert cells.tags.count("template") == 1
    assert cells.tags.count("script") == len(list(Path(report.__file__).parent.glob("*.js")))
    assert [row["token"] for row in table(tmp_path, "passage")][: len(tokens)] == list(tokens)


@pytest.mark.usefixtures("no_plots")
def test_what_could_turn_or_break_the_text_is_spelt_out(tmp_path: Path) -> None:
    tokens = ("a", "\u202e", "\x00", "\n", "\u2066", "\u200f", "\u2028", "b")
    text = reported(tmp_path, two(tokens=tokens))
    assert Cells(tmp_path).texts() == ["a", "\\u202e", "\\x00", "↵\n", "\\u2066", "\\u200f", "\\u2028", "b"]
    assert not set("\u202e\x00\u2066\u200f\u2028") & set(text + (tmp_path / "report.html").read_text(encoding="utf-8"))


def test_a_token_alone_is_seen() -> None:
    shown = {" ": "␣", "\n": "↵", "\t": "⇥", "\u0301": "◌\u0301", "e": "e", "a b": "a␣b"}
    assert {token: called(token) for token in shown} == shown
    assert readable("a\u202eb c") == "a\\u202eb c"


@pytest.mark.usefixtures("no_plots")
def test_impossible_unknown_and_end_have_marks_of_their_own(tmp_path: Path) -> None:
    tokens = ("the", "unicorn", "</s>")
    own = {"nats": (None, 1.0, 1.0), "separator": " ", "unknown": (1,), "ends": (2,), "orders": (3, 0, 2)}
    records = [
        with_profile(ok(trial(name), 4 + n), passage=passage(tokens, **own)) for n, name in enumerate(("kn5", "mlp"))
    ]
    text = reported(tmp_path, records)
    (view, _) = Cells(tmp_path).views
    assert [classes for _, classes, _ in view] == ["never", "b2 oov", "b2 end"]
    assert view[0][2].startswith("0 %\ninf bits")
    assert [cell[0] for cell in view] == ["the ", "unicorn ", "</s>\n"]
    # the training text may have it, too seldom for the vocabulary
    assert Cells(tmp_path).names[1] == "unicorn, out of vocabulary: scored as <unk>"
    # both hold the first impossible: no difference
    assert "[the]" not in text.replace("\\", "")


@pytest.mark.usefixtures("no_plots")
def test_what_one_alone_holds_impossible_is_the_largest_difference(tmp_path: Path) -> None:
    _, b = two()
    own = passage(nats=(None, *[0.5 * at for at in range(1, len(TOKENS))]))
    text = reported(tmp_path, [with_profile(ok(trial("kn5"), 4.4), passage=own), b])
    (line,) = [line for line in text.splitlines() if line.startswith("| \\[a\\]")]
    assert "| 0 % | 100 % | +inf |" in line


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize("tokens", [("a",), TOKENS])
def test_one_model_and_one_token_are_a_report(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    text = reported(tmp_path, two(tokens=tokens)[:1])
    assert "differ most" not in text
    assert Cells(tmp_path).texts() == list(tokens)


@pytest.mark.usefixtures("no_plots")
def test_infinite_models_and_failures_stand_beside_the_others(tmp_path: Path) -> None:
    records = [
        *two(),
        with_profile(ok(trial("mle", family="counting"), 3.0, infinite_blocks=9)),
        failed(trial("gru-scratch"), "diverged", "step 3"),
        ok(trial("old"), 7.0),
    ]
    text = reported(tmp_path, records)
    assert "| OOV | 2,000 | 10.0 % |" in text
    assert "| inf |" in part(text, "Where models differ")
    assert Cells(tmp_path).models == ["kn5", "mlp", "mle"]


@pytest.mark.usefixtures("no_plots")
def test_fifty_models_stay_a_small_page(tmp_path: Path) -> None:
    tokens = tuple("the beginning of it " * 15)
    names = [f"lstm-cudnn:hidden={n},layers=2" for n in range(46)]
    records = [with_profile(ok(trial(name), 4 + n / 9), passage=passage(tokens)) for n, name in enumerate(names)]
    counting = ("unigram", "bigram", "trigram", "kn5")
    records += [with_profile(ok(trial(name), 20.0 + n), passage=passage(tokens)) for n, name in enumerate(counting)]
    text = reported(tmp_path, records)
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    cells = Cells(tmp_path)
    # the best, and the best of the other family
    assert cells.models == [*names[:11], "unigram"]
    assert "44 more models are in tables/surprisal.csv, for every kind" in text
    assert len(table(tmp_path, "samples")) == 50


def test_of_many_the_best_of_each_family_and_the_best_are_shown(tmp_path: Path) -> None:
    names = [("a", "neural"), ("b", "neural"), ("c", "neural"), ("d", "counting"), ("e", "counting")]
    write(tmp_path, [ok(trial(name, family=family), 4.0 + n) for n, (name, family) in enumerate(names)])
    rows = rows_of(read_run(tmp_path))
    assert [[row.model for row in chosen(rows, most)] for most in (1, 2, 3, 9)] == [
        ["a"],
        ["a", "d"],
        ["a", "b", "d"],
        ["a", "b", "c", "d", "e"],
    ]


def test_many_texts_share_the_room() -> None:
    assert [most_shown(n) for n in (1, 4, 8, 16, 17)] == [12, 12, 6, 3, 0]


@pytest.mark.parametrize(
    ("bounds", "name"), [((None, None), "OOV"), ((1, 1), "1"), ((2, 9), "2-9"), ((6, None), "6 or more")]
)
def test_buckets_have_names(bounds: tuple[int | None, int | None], name: str) -> None:
    assert named(bounds) == name


@pytest.mark.usefixtures("no_plots")
def test_a_shade_begins_at_its_bits(tmp_path: Path) -> None:
    bits = [step * bound for bound in LEVELS for step in (0.999, 1.001)]
    own = passage(tuple("ab" * len(LEVELS)), nats=tuple(one * math.log(2) for one in bits))
    reported(tmp_path, [with_profile(ok(trial("kn5"), 4.4), passage=own)])
    (view,) = Cells(tmp_path).views
    assert [level for _, level, _ in view] == [f"b{n + over}" for n in range(len(LEVELS)) for over in (0, 1)]


@pytest.mark.usefixtures("no_plots")
def test_a_passage_of_another_text_is_not_set_beside_it(tmp_path: Path) -> None:
    other = with_profile(ok(trial("old"), 4.6), passage=passage(tuple("another text")))
    reported(tmp_path, [*two(), other])
    assert Cells(tmp_path).models == ["kn5", "mlp"]


# --- plots


@pytest.mark.whole
def test_both_plots_are_drawn_and_rebuilt_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {name: plots.PLOTS[name] for name in ("surprisal", "calibration")}
    monkeypatch.setattr(plots, "PLOTS", own)
    records = [*two(), with_profile(ok(trial("mle", family="counting"), 3.0, infinite_blocks=9))]
    text = reported(tmp_path, records)
    assert "![Bits per token. By times in the training text: " in part(text, "Where models differ")
    assert "kn5: OOV " in text
    assert "![Reliability curves of the first choices; expected calibration error: kn5 23.5 %" in text
    files = [*tmp_path.glob("tables/*.csv"), *tmp_path.glob("plots/*"), *tmp_path.glob("report.*")]
    before = {path: path.read_bytes() for path in files}
    assert len([path for path in files if path.parent.name == "plots"]) == 4
    build_report(tmp_path)
    assert {path: path.read_bytes() for path in before} == before


# --- without text

WORDS = ("zorvak", "plimset", "quandro", "feltzig", "brunhask", "wimbrel")
NONSENSE = "".join(f"{WORDS[n % 6]} {WORDS[(n * n + 1) % 6]} {WORDS[n % 5]}\n" for n in range(120))


class Inside(LocalExecutor):
    """Trials in the process of the runner."""

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for spec in trials:
            yield Started(trial=spec)
            yield Ended(record=Trial(spec, lambda: 1.0, lambda _: None).run())


@pytest.fixture
def run_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs without processes of their own; gives the text that they are on."""
    monkeypatch.setattr(throughput, "REPEAT_S", 0.001)
    monkeypatch.setattr(plots, "PLOTS", {})
    monkeypatch.setitem(asked.EXECUTORS, "local", Inside)
    monkeypatch.setattr(running, "ask", lambda question: describe.answer(question.question))
    monkeypatch.setattr(running, "_report", lambda folder, _: build_report(folder) == [])
    path = tmp_path / "text.txt"
    path.write_text(NONSENSE, encoding="utf-8")
    return path


def files_with_words(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return [path.name for path in found if any(word.encode() in path.read_bytes() for word in WORDS)]


@pytest.mark.whole
def test_a_run_without_text_leaves_no_word_of_it(run_inside: Path, tmp_path: Path) -> None:
    arguments = ["--models", "bigram,trigram", "--corpus", str(run_inside), "--tokens", "word"]
    assert run_module.main([*arguments, "--out", str(tmp_path / "with")]) == 0
    assert {"report.md", "report.html", "passage.csv", "samples.csv"} <= set(files_with_words(tmp_path / "with"))
    assert run_module.main([*arguments, "--no-text", "--out", str(tmp_path / "without")]) == 0
    assert files_with_words(tmp_path / "without") == []
    text = (tmp_path / "without" / "report.md").read_text(encoding="utf-8")
    # sums by kind and confidence say nothing of the words
    assert "bits per token by its place in the document" in text
    assert "## Calibration" in text
    assert "## Samples" not in text


@pytest.mark.whole
def test_a_record_without_text_is_not_taken_where_text_is_asked_for(run_inside: Path, tmp_path: Path) -> None:
    arguments = ["--models", "bigram", "--corpus", str(run_inside), "--out", str(tmp_path / "run")]
    assert run_module.main([*arguments, "--no-text"]) == 0
    assert run_module.main([*arguments, "--resume"]) == 0
    run = read_run(tmp_path / "run")
    assert run.info.reused == ()
    (record,) = run.records
    assert record.measured is not None
    assert record.measured.profile is not None
    assert record.measured.profile.passage is not None
    assert run_module.main([*arguments, "--resume"]) == 0
    assert len(read_run(tmp_path / "run").info.reused) == 1


@pytest.mark.usefixtures("no_plots")
def test_the_report_of_a_run_without_text_shows_none_that_a_record_holds(tmp_path: Path) -> None:
    records = two(tokens=("zorvak", "plimset"))
    write(tmp_path, records, no_text=True)
    (warning,) = build_report(tmp_path)
    assert warning.startswith("2 of the records in trials/ hold text, from an earlier run in this folder")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert warning in text
    assert "zorvak" not in text
    assert "zorvak" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "tables" / "passage.csv").exists()
    assert not (tmp_path / "tables" / "samples.csv").exists()
    assert "## Calibration" in text


def test_several_texts_have_a_part_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "PLOTS", {})
    kjv = facts("kjv", sha256="cd" * 32)
    other = with_profile(ok(trial("mlp", corpus=kjv, trial_id="other"), 9.0, corpus=kjv))
    text = reported(tmp_path, [*two(), other])
    assert text.count("### Where models differ") == 2
    assert len(Cells(tmp_path).views) == 3
