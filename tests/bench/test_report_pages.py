"""Markdown, HTML and plots: the answer, escaping, odd names, one model to fifty, rebuilding byte for byte."""

from __future__ import annotations

import csv
import html.parser
import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import report
from bench.records import CorpusSpec, Environment, Figure, TrialRecord
from bench.report import plots, wording
from bench.report.__main__ import main
from bench.report.build import build_report
from bench.report.html import pieces
from bench.report.markdown import escaped, escaped_line
from tests.bench.synthetic import facts, failed, info, ok, trial, usual, with_test, write

SCRIPTS = sorted(Path(report.__file__).parent.glob("*.js"))
STEMS = ("perplexity", "validation", "tokens", "memory", "size", "speed")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run, a failure and an infinite model among its rows."""
    folder = tmp_path_factory.mktemp("run")
    records = usual()
    warned = records[3].model_copy(update={"warnings": ("order 5: discounts undefined, fixed ones used",)})
    records[3] = warned
    records.append(ok(trial("ngram:smoothing=mle", family="counting"), 3.0, infinite_blocks=40))
    records.append(failed(trial("<script>alert(1)</script>"), "out_of_memory", "over | <b>100 MiB</b>"))
    write(
        folder,
        records,
        target_perplexities=(5.0, 1.0),
        unavailable={"kenlm:<path>": "kenlm is not installed"},
        corpora=(facts(test_overlap=0.31),),
    )
    assert build_report(folder) == []
    return folder


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of words alone: plots take most of a report's time."""
    monkeypatch.setattr(plots, "PLOTS", {})


class Page(html.parser.HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts.append(data)
        else:
            self.text += data


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def markdown_of(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


# --- what it says


def test_the_answer_comes_first(reported: Path) -> None:
    lead = markdown_of(reported).split("## Ranking")[0]
    assert "lstm-cudnn has the lowest test perplexity, 4.286 (95 % interval" in lead
    assert "passed unigram after 0.500 s, bigram after 2.83 s and trigram after 13.5 s of training" in lead
    assert "never passed perplexity 5.0, kn5" in lead


def test_markdown_and_html_say_the_same(reported: Path) -> None:
    text, page = markdown_of(reported), page_of(reported).text
    text = text.replace("\\", "")
    for figure in ("4.286", "not reached", "kenlm is not installed", "31.0 %", "discounts undefined", "numpy 2.1.0"):
        assert figure in text
        assert figure in page


def test_a_target_of_perplexity_one_is_not_reached_anywhere(reported: Path) -> None:
    table = markdown_of(reported).split("## Speed to perplexity")[1].split("##")[0]
    (line,) = [line for line in table.splitlines() if line.startswith("| lstm-cudnn")]
    assert line.rstrip(" |").endswith("not reached")


def test_an_infinite_perplexity_counts_its_impossible_tokens(reported: Path) -> None:
    assert "- ngram:smoothing=mle inf: 40 zero-probability tokens" in markdown_of(reported)


@pytest.mark.usefixtures("no_plots")
def test_ties_are_printed_as_ties(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("bigram"), 4.401), ok(trial("unigram"), 9.0)])
    build_report(tmp_path)
    lead = markdown_of(tmp_path).split("## Ranking")[0]
    assert " is not significantly worse, all others are." in lead
    ranking = markdown_of(tmp_path).split("## Ranking")[1].split("##")[0]
    (line,) = [line for line in ranking.splitlines() if line.startswith("| 2 |")]
    assert "| ~ |" in line


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize("n_ties", [1, 4])
def test_up_to_four_ties_are_named(tmp_path: Path, n_ties: int) -> None:
    ties = [f"kn{n}" for n in range(n_ties)]
    write(tmp_path, [ok(trial("best"), 4.4), *[ok(trial(name, family="counting"), 4.4005) for name in ties]])
    build_report(tmp_path)
    lead = markdown_of(tmp_path).split("## Ranking")[0]
    told = "is" if n_ties == 1 else "are"
    assert all(name in lead.split(f" {told} not significantly worse.")[0] for name in ties)
    assert " more" not in lead


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("seeds", "said"), [(1, "Each neural model ran with one seed"), (2, "With 2 seeds their spread is hardly known")]
)
def test_few_seeds_are_told_as_such(tmp_path: Path, seeds: int, said: str) -> None:
    write(tmp_path, usual(seeds))
    build_report(tmp_path)
    assert said in markdown_of(tmp_path).split("## Ranking")[0]


@pytest.mark.usefixtures("no_plots")
def test_five_seeds_are_enough(tmp_path: Path) -> None:
    write(tmp_path, usual(5))
    build_report(tmp_path)
    assert "--seeds" not in markdown_of(tmp_path).split("## Ranking")[0]


@pytest.mark.usefixtures("no_plots")
def test_what_was_not_run_is_no_failure_of_the_model(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 5.0)]
    write(tmp_path, records)
    (tmp_path / "trials" / f"{records[1].trial.trial_id}.json").unlink()
    build_report(tmp_path)
    answer = markdown_of(tmp_path).split("## Ranking")[0]
    assert "The run ended before mlp had a record; go on with --resume." in answer
    assert "did not finish well" not in answer


@pytest.mark.usefixtures("no_plots")
def test_the_answer_names_a_test_file_of_its_own_without_its_folder(tmp_path: Path) -> None:
    spec = CorpusSpec(train="/home/jo/a.txt", test="/home/jo/b.txt")
    write(tmp_path, [ok(trial("kn5").model_copy(update={"corpus": spec}), 4.4)])
    build_report(tmp_path)
    assert "a document per file), tested on b.txt:" in markdown_of(tmp_path)
    assert "/home" not in markdown_of(tmp_path)


@pytest.mark.usefixtures("no_plots")
def test_adaptive_models_are_starred(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("cache"), 4.4, changes={"is_adaptive": True}), ok(trial("kn5"), 5.0)])
    build_report(tmp_path)
    assert "| 1 | cache\\* |" in markdown_of(tmp_path)


def test_nothing_finished(tmp_path: Path) -> None:
    write(tmp_path, [failed(trial("mlp"), "killed", "signal 9")])
    assert build_report(tmp_path) == []
    assert "No model finished with a perplexity." in markdown_of(tmp_path)
    assert "signal 9" in page_of(tmp_path).text


def test_an_empty_plan_is_still_a_report(tmp_path: Path) -> None:
    write(tmp_path, [])
    assert build_report(tmp_path) == []
    assert "Provenance" in markdown_of(tmp_path)


def test_groups_are_told_apart(tmp_path: Path) -> None:
    kjv = facts("kjv", sha256="cd" * 32)
    write(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("mlp", corpus=kjv), 9.0, corpus=kjv)])
    build_report(tmp_path)
    text = markdown_of(tmp_path)
    assert "## genesis (char" in text
    assert "## kjv (char" in text
    assert (tmp_path / "plots" / "perplexity-2.png").is_file()


@pytest.mark.usefixtures("no_plots")
def test_why_a_figure_is_missing_stands_under_the_table(tmp_path: Path) -> None:
    lossy = {"bits_per_char": Figure.of(None, "words | lost")}
    write(tmp_path, [ok(trial("kn5"), 4.4), with_test(ok(trial("mlp"), 5.0), lossy)])
    build_report(tmp_path)
    ranking = markdown_of(tmp_path).split("## Ranking")[1].split("##")[0]
    assert "- bits/byte n/a: the normaliser loses some of the text\n" in ranking
    assert "- bits/char n/a (mlp): words \\| lost\n" in ranking
    assert "bits/char n/a (mlp): words | lost" in page_of(tmp_path).text


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(("n_oov", "shown"), [(0, False), (1000, True)])
def test_unknown_tokens_have_two_columns_where_there_are_any(tmp_path: Path, n_oov: int, shown: bool) -> None:
    changes = {"n_oov": n_oov, "perplexity_no_oov": Figure.of(3.25)}
    write(tmp_path, [with_test(ok(trial("kn5"), 4.4), changes if n_oov else {})])
    build_report(tmp_path)
    ranking = markdown_of(tmp_path).split("## Ranking")[1].split("##")[0]
    assert ("| OOV |" in ranking) == shown
    # 1,000 of 100 x 200 tokens
    assert ("| 5.00 % |" in ranking) == shown
    assert ("| test perplexity | without OOV | against best |" in ranking) == shown
    assert ("| 3.250 | best |" in ranking) == shown


@pytest.mark.usefixtures("no_plots")
def test_the_answer_tells_who_is_first_without_unknown_tokens(tmp_path: Path) -> None:
    def without(model: str, perplexity: float, no_oov: float, n_oov: int) -> TrialRecord:
        changes = {"n_oov": n_oov, "perplexity_no_oov": Figure.of(no_oov)}
        return with_test(ok(trial(model), perplexity), changes if n_oov else {})

    told = "Without out-of-vocabulary tokens the lowest is that of"
    for name, figures, n_oov, expected in (
        ("other", (4.0, 3.0), 90, f"{told} bigram, 3.000."),
        ("same", (3.0, 4.0), 90, None),
        ("none", (4.0, 3.0), 0, None),
    ):
        write(tmp_path / name, [without("kn5", 4.0, figures[0], n_oov), without("bigram", 5.0, figures[1], n_oov)])
        build_report(tmp_path / name)
        lead = markdown_of(tmp_path / name).split("## Ranking")[0]
        assert "kn5 has the lowest test perplexity" in lead
        assert (told in lead) == (expected is not None)
        assert expected is None or expected in lead


@pytest.mark.usefixtures("no_plots")
def test_nothing_but_unknown_tokens_has_no_figure_without_them(tmp_path: Path) -> None:
    changes = {"n_oov": 20_000, "perplexity_no_oov": Figure.of(None, "every token is out of vocabulary")}
    write(tmp_path, [with_test(ok(trial("kn5"), 4.4), changes)])
    build_report(tmp_path)
    assert "- without OOV n/a: every token is out of vocabulary\n" in markdown_of(tmp_path)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("kn5", ["kn5"]),
        ("ngram:order=5,smoothing=jm", ["ngram:", "order=5,", "smoothing=jm"]),
        ("kn5+mlp:a=1/2", ["kn5+", "mlp:", "a=1/2"]),
        ("a:,:b+", ["a:", ",", ":", "b+"]),
        ("", []),
    ],
)
def test_names_break_after_colons_commas_and_plus_signs_only(name: str, parts: list[str]) -> None:
    assert pieces(name) == parts
    assert "".join(parts) == name


@pytest.mark.usefixtures("no_plots")
def test_the_parts_of_a_name_are_kept_whole_in_the_page(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("ngram:order=1/2,<b>", family="counting"), 4.4)])
    build_report(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<span>ngram:</span><wbr><span>order=1/2,</span><wbr><span>&lt;b&gt;</span>" in page


# --- safety


def test_names_and_reasons_are_escaped(reported: Path) -> None:
    page = page_of(reported)
    scripts = [path.read_text(encoding="utf-8") for path in SCRIPTS]
    assert all(script in "".join(page.scripts) for script in scripts)
    assert len("".join(page.scripts)) == sum(map(len, scripts))
    assert "b" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    text = markdown_of(reported)
    assert "<script" not in text.replace("\\<script", "")
    assert "over \\| \\<b>100 MiB\\</b>" in text


def test_scripts_are_short_strict_and_cannot_end_early() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SCRIPTS]
    assert 0 < sum(len(text.splitlines()) for text in texts) < 300
    for text in texts:
        assert '\n  "use strict";\n' in text
        # what closes a script, or opens what must be closed
        assert not re.search(r"</script|<!--|<script", text, re.IGNORECASE)
        # everything stands in one function
        code = re.sub(r"^//.*\n", "", text, flags=re.MULTILINE).strip()
        assert code.startswith("(() => {")
        assert code.endswith("})();")
        assert not re.search(r"^\S", code.removeprefix("(() => {").removesuffix("})();"), re.MULTILINE)


def test_headings_and_landmarks_are_in_order(reported: Path) -> None:
    tags = page_of(reported).tags
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert [tags.count(tag) for tag in ("header", "nav", "main")] == [1, 1, 1]


@pytest.mark.whole
def test_the_page_needs_nothing_beside_it(reported: Path) -> None:
    page = page_of(reported)
    for name, value in page.attributes:
        if name in ("src", "href"):
            assert str(value).startswith(("data:", "#"))
    images = page.tags.count("img")
    assert images == len(STEMS)
    assert len([value for name, value in page.attributes if name == "alt" and value]) == images


@pytest.mark.parametrize("text", ["a|b", "*x*", "`c`", "<i>", "[a](b)", "$x$", "&lt;", "_x_", "~~x~~", "a\\|b"])
def test_markup_is_escaped_anywhere(text: str) -> None:
    assert escaped(text) != text
    # a backslash before a sign of punctuation is the sign itself
    assert re.sub(r"\\([^\w\s]|_)", r"\1", escaped(text)) == text


@pytest.mark.parametrize("text", ["1. x", "12) x", "- x", "+ x", "# x", "> x", "==="])
def test_markup_is_escaped_at_the_start_of_a_line(text: str) -> None:
    assert escaped(text) == text
    assert escaped_line(text).replace("\\", "", 1) == text


@pytest.mark.parametrize("text", ["4.304", "~", "out_of_memory", "ngram:order=6,smoothing=mkn", "AT&T", "红楼梦"])
def test_plain_text_stays_readable(text: str) -> None:
    assert escaped_line(text) == text


def test_line_breaks_cannot_end_a_table_row() -> None:
    assert escaped("a\n\n| b\r\n") == "a \\| b"


def test_odd_names_end_in_a_whole_report(tmp_path: Path) -> None:
    corpus = facts("红楼梦")
    names = ["红楼梦", "שלום", "مرحبا", "$x_1$ {}", "a" * 300, "tab\there", "\u202eevil"]
    records = [ok(trial(name, corpus=corpus), 60.0 + n, corpus=corpus) for n, name in enumerate(names)]
    write(tmp_path, records)
    assert build_report(tmp_path) == []
    text = " ".join(page_of(tmp_path).text.split())
    assert not [name for name in names if " ".join(name.split()) not in text]
    assert {path.stem for path in (tmp_path / "plots").iterdir()} == set(STEMS)


@pytest.mark.usefixtures("no_plots")
def test_a_name_from_right_to_left_does_not_turn_the_sentence(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("שלום"), 4.4), ok(trial("\u202eevil"), 5.0)])
    build_report(tmp_path)
    assert "\u2068שלום\u2069 has the lowest test perplexity" in markdown_of(tmp_path)


def test_a_name_with_isolates_of_its_own_neither_opens_nor_closes_those_around_it(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("a\u2067b"), 4.4), ok(trial("של\u2069ום"), 5.0)])
    build_report(tmp_path)
    answer = markdown_of(tmp_path).split("## Ranking")[0]
    assert "a\\\\u2067b has the lowest test perplexity" in answer or "a\\u2067b has the lowest" in answer
    assert answer.count("\u2068") == answer.count("\u2069")
    assert "\u2067" not in answer


@pytest.mark.usefixtures("no_plots")
def test_a_row_has_one_name_in_all_tables_though_its_other_device_failed(tmp_path: Path) -> None:
    fine = [ok(trial("kn5"), 4.4), ok(trial("mlp"), 4.0)]
    write(tmp_path, [*fine, failed(trial("mlp", device="cuda"), "out_of_memory", "over 1 GiB")])
    build_report(tmp_path)
    text = markdown_of(tmp_path)
    assert "mlp on cpu has the lowest test perplexity" in text
    names = set(re.findall(r"^\| (?:\d+ \| )?(mlp[^|]*?) \|", text, flags=re.MULTILINE))
    # the table of models in the provenance is about all devices
    assert names == {"mlp on cpu", "mlp on cuda", "mlp"}
    assert len(re.findall(r"^\| mlp \|", text, flags=re.MULTILINE)) == 1


@pytest.mark.usefixtures("no_plots")
def test_a_seed_that_failed_is_why_a_row_is_not_ranked_though_another_is_infinite(tmp_path: Path) -> None:
    infinite = ok(trial("mlp"), 4.0, infinite_blocks=3)
    write(tmp_path, [ok(trial("kn5"), 4.4), infinite, failed(trial("mlp", seed=1), "timed_out", "after 600 s")])
    build_report(tmp_path)
    (line,) = [line for line in markdown_of(tmp_path).splitlines() if line.startswith("|  | mlp |")]
    assert "1 of 2 seeds failed" in line
    assert "impossible" not in line.split("1 of 2")[0]


@pytest.mark.usefixtures("no_plots")
def test_perplexities_beyond_what_exp_can_hold_are_still_a_report(tmp_path: Path) -> None:
    seeds = [ok(trial("mlp", seed=seed), ppl) for seed, ppl in ((0, 5.0), (1, 1e50))]
    write(tmp_path, [ok(trial("kn5"), 4.4), *seeds])
    build_report(tmp_path)
    assert "kn5 has the lowest test perplexity" in markdown_of(tmp_path)


@pytest.mark.usefixtures("no_plots")
def test_what_is_told_to_be_there_is_there(tmp_path: Path) -> None:
    records = [ok(trial("kn5"), 4.4)]
    write(tmp_path, records)
    build_report(tmp_path)
    reading = markdown_of(tmp_path).split("## How to read this")[1].split("\n## ")[0]
    files = {path.name for path in (tmp_path / "tables").iterdir()}
    assert set(re.findall(r"\w+\.csv", reading)) == files
    assert "passage" not in reading


# --- rebuilding and the command


def outputs(folder: Path) -> dict[str, bytes]:
    kinds = ("tables/*.csv", "plots/*", "report.*")
    return {str(path.relative_to(folder)): path.read_bytes() for kind in kinds for path in folder.glob(kind)}


@pytest.mark.whole
def test_rebuilding_gives_the_same_bytes(reported: Path) -> None:
    before = outputs(reported)
    build_report(reported)
    assert outputs(reported) == before
    assert len(before) == 4 + 2 * len(STEMS) + 3


@pytest.mark.whole
def test_another_process_with_a_stale_display_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, usual()[:5])
    build_report(tmp_path)
    before = outputs(tmp_path)
    for name, value in {"DISPLAY": "localhost:99", "MPLBACKEND": "TkAgg", "PYTHONHASHSEED": "7"}.items():
        monkeypatch.setenv(name, value)
    script = (
        "import pathlib, sys\nfrom bench.report.build import build_report\n"
        "build_report(pathlib.Path(sys.argv[1]))\nprint('torch' in sys.modules)"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
    assert outputs(tmp_path) == before


@pytest.mark.whole
def test_a_backend_that_does_not_exist_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "no such backend")
    write(tmp_path, [ok(trial("kn5"), 4.4)])
    command = [sys.executable, "-m", "bench.report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "plots" / "perplexity.svg").is_file()


@pytest.mark.usefixtures("no_plots")
def test_the_command(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("kn5"), 4.4)])
    done = CliRunner().invoke(main, [str(tmp_path)])
    assert done.exit_code == 0
    assert done.stdout.strip() == str(tmp_path / "report.html")


@pytest.mark.parametrize("state", ["absent", "empty", "cut", "list", "incomplete", "newer"])
def test_a_folder_that_is_no_run_is_one_line_and_exit_2(tmp_path: Path, state: str) -> None:
    run = tmp_path / "run.json"
    good: list[TrialRecord] = [ok(trial("kn5"), 4.4)]
    text = info(good).model_dump_json()
    newer = json.dumps({**json.loads(text), "schema_version": 99, "something": "new"})
    contents = {"empty": "", "cut": text[:40], "list": "[]", "incomplete": '{"run_id": "x"}', "newer": newer}
    if state in contents:
        run.write_text(contents[state], encoding="utf-8")
    done = CliRunner().invoke(main, [str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert ("schema 99" in done.stderr) == (state == "newer")
    assert not (tmp_path / "tables").exists()


@pytest.mark.usefixtures("no_plots")
def test_a_gpu_is_named(tmp_path: Path) -> None:
    record = ok(trial("kn5"), 4.4)
    assert record.environment is not None
    machine = Environment(
        **{**record.environment.model_dump(), "gpu": "an accelerator", "driver": "1.2", "cudnn": None}
    )
    write(tmp_path, [record], environment=machine)
    build_report(tmp_path)
    assert "an accelerator, driver 1.2" in markdown_of(tmp_path)


@pytest.mark.usefixtures("no_plots")
def test_who_is_better_is_told_by_sign_and_by_colour(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("kn5"), 4.4), ok(trial("bigram"), 4.401), ok(trial("unigram"), 9.0)])
    build_report(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    cells = re.findall(r'<td class="s ?(\w*)"><bdi>([^<]*)</bdi></td>', page)
    assert sorted(kind for kind, _ in cells) == ["", "", "", "better", "better", "tie", "tie", "worse", "worse"]
    with (tmp_path / "tables" / "significance.csv").open(encoding="utf-8") as file:
        diffs = {(row["model_a"], row["model_b"]): float(row["diff_nats_per_token"]) for row in csv.DictReader(file)}
    # kn5 is below unigram by 1 - exp(difference), unigram above kn5 by exp(difference) - 1
    below = 100 * -math.expm1(diffs["kn5", "unigram"])
    above = 100 * math.expm1(-diffs["kn5", "unigram"])
    assert ("better", f"+ {wording.rounded(below, 2)} %") in cells
    assert ("worse", f"- {wording.rounded(above, 2)} %") in cells
    styles = page.split("</style>")[0]
    assert all(f".{name} {{ background: " in styles for name in ("better", "worse"))


@pytest.mark.usefixtures("no_plots")
def test_the_command_stands_before_everything_else(tmp_path: Path) -> None:
    write(tmp_path, [ok(trial("kn5"), 4.4)], command="python -m bench.run --models '<kn5>'")
    build_report(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    head = page.split("</header>")[0]
    assert "<code>python -m bench.run --models &#39;&lt;kn5&gt;&#39;</code>" in head
