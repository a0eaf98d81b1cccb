"""What a run shows, on a terminal, elsewhere, and on a console that cannot show every letter."""

from __future__ import annotations

import io
import math
import re
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench import terminal
from bench.absent import why_absent
from bench.executor.protocol import Ended, Moved, Started
from bench.records import CorpusSpec, Figure
from lmzoo.streams import never_raise_on_output
from tests.bench.stubs import make_record, make_trial
from tests.bench.synthetic import tally, with_test

COLUMNS = (
    "model,corpus,normalize,tokenizer,documents,train_fraction,device,status,reason,"
    "test_perplexity,test_perplexity_low,test_perplexity_high,"
    "bits_per_char,train_s,eval_tokens_per_s,next_token_us,peak_rss_bytes,is_adaptive,model_bytes,"
    "test_perplexity_no_oov,n_oov"
)
ROWS = (
    "mle,a,none,char,file,1.0,cpu,ok,,inf,,,,0.01,5000.0,3.0,62914560,False,2048,inf,0",
    "broken,a,none,char,file,1.0,cpu,killed,signal 9 (SIGKILL),,,,,,,,,False,,,",
    "kn5,a,none,char,file,1.0,cpu,ok,,3.3203,3.19,3.46,1.731,0.0426,693655.2,426.1,65011712,False,425062.4,3.3203,0",
    "cache,a,none,char,file,1.0,cpu,ok,,3.1,3.0,3.2,1.63,0.1,1000.0,50.0,65011712,True,1536,3.1,0",
)


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    path = tmp_path / "summary.csv"
    path.write_text("\n".join([COLUMNS, *ROWS]) + "\n", encoding="utf-8")
    return path


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_best_comes_first_and_what_has_no_perplexity_last(summary: Path) -> None:
    assert [row["model"] for row in terminal.read_summary(summary)] == ["cache", "kn5", "mle", "broken"]


def test_what_is_ranked_apart_stands_apart(tmp_path: Path) -> None:
    share = "kn5,a,none,char,file,0.25,cpu,ok,,2.5,,,,0.1,1000.0,50.0,65011712,False,1536,2.5,0"
    path = tmp_path / "summary.csv"
    path.write_text("\n".join([COLUMNS, share, *ROWS]) + "\n", encoding="utf-8")
    rows = terminal.read_summary(path)
    # a lower perplexity on less text is no better place
    assert [row["train_fraction"] for row in rows] == ["1.0"] * 4 + ["0.25"]
    console = terminal.console_on(io.StringIO())
    console.print(terminal.comparison_table(rows))
    assert shown(console).count("├") == 1


SIGNIFICANCE = "corpus,normalize,tokenizer,documents,train_fraction,device,model_a,model_b,verdict"


@pytest.mark.parametrize(
    ("pairs", "tied"),
    [
        (["a,none,char,file,1.0,cpu,kn5,cache,~", "a,none,char,file,1.0,cpu,mle,cache,b"], ["kn5"]),
        (["a,none,char,file,1.0,cpu,cache,kn5,~", "a,none,char,file,1.0,cpu,mle,kn5,~"], ["kn5"]),
        # of another text, or from a device that neither ran on
        (["b,none,char,file,1.0,cpu,kn5,cache,~", "a,none,char,file,1.0,cuda,mle,cache,~"], []),
        ([], []),
    ],
)
def test_what_is_tied_with_the_best_says_so(summary: Path, pairs: list[str], tied: list[str]) -> None:
    summary.with_name("significance.csv").write_text("\n".join([SIGNIFICANCE, *pairs]) + "\n", encoding="utf-8")
    rows = terminal.read_summary(summary)
    assert [row["model"] for row in rows if row["tie"]] == tied
    console = terminal.console_on(io.StringIO())
    console.print(terminal.comparison_table(rows))
    assert ("│     ~ 3.32 │" in shown(console)) == bool(tied)
    assert ("~ no significant difference from the best" in shown(console)) == bool(tied)


def test_a_row_is_tied_on_the_device_that_it_was_tested_on(tmp_path: Path) -> None:
    """The best ran on a GPU: a counting model was tested against it, a network's row of the CPU was not."""
    rows = ["device,model,status,test_perplexity,corpus,train_fraction"]
    places = ["cuda,lstm,ok,3.0", "cpu,lstm,ok,3.1", "cuda,mlp,ok,3.2", "cpu,mlp,ok,3.3", "cpu,kn5,ok,3.4"]
    rows += [f"{place},a,1.0" for place in places]
    pairs = ["corpus,train_fraction,device,model_a,model_b,verdict"]
    pairs += [f"a,1.0,{pair},~" for pair in ("cuda,lstm,mlp", "cpu,lstm,mlp", "cuda,lstm,kn5", "cpu,lstm,kn5")]
    for name, lines in (("summary", rows), ("significance", pairs)):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = [(row["model"], row["device"]) for row in terminal.read_summary(tmp_path / "summary.csv") if row["tie"]]
    assert found == [("mlp", "cuda"), ("kn5", "cpu")]


def test_the_table_has_intervals_stars_and_reasons(summary: Path) -> None:
    console = terminal.console_on(io.StringIO())
    console.print(terminal.comparison_table(terminal.read_summary(summary)))
    lines = shown(console).splitlines()
    (kn5,) = [line for line in lines if "kn5" in line]
    # 65,011,712 bytes are 62 MiB
    assert [cell.strip() for cell in kn5.split("│")[1:-1]] == [
        "kn5",
        "3.32",
        "3.19 to 3.46",
        "1.731",
        "0.0426",
        "693,655",
        "426",
        "62",
        # 425,062.4 bytes are 415.1 KiB
        "415",
        "ok",
    ]
    assert any("cache*" in line for line in lines)
    assert any("inf" in line and "mle" in line for line in lines)
    assert any("killed: signal 9 (SIGKILL)" in line and "n/a" in line for line in lines)


def test_columns_that_tell_rows_apart_are_shown(summary: Path) -> None:
    rows = terminal.read_summary(summary)
    rows[0] |= {"device": "cuda", "train_fraction": "0.25"}
    titles = [column.header for column in terminal.comparison_table(rows).columns]
    assert titles[1:3] == ["train fraction", "device"]
    assert "corpus" not in titles


def test_of_many_rows_the_best_of_each_text_are_shown_and_the_others_counted(summary: Path) -> None:
    row = terminal.read_summary(summary)[1]
    # 5 texts of 30 models each, all models of a text better than those of the next
    rows = [
        row | {"corpus": f"t{text}", "model": f"m{place}", "test_perplexity": str(30 * text + place + 1)}
        for text in range(5)
        for place in range(30)
    ]
    table = terminal.comparison_table(rows)
    shown = [*zip(*(column.cells for column in table.columns[:2]), strict=True)]
    assert shown == [(f"m{place}", f"t{text}") for text in range(5) for place in range(8)]
    assert table.caption is not None
    assert "no room for 110 of 150 rows, the best of each text being here" in str(table.caption)
    assert terminal.comparison_table(rows[: terminal.MOST_ROWS]).row_count == terminal.MOST_ROWS


def test_perplexity_without_unknown_tokens_stands_beside_the_other_where_there_are_any(summary: Path) -> None:
    rows = terminal.read_summary(summary)
    titles = [column.header for column in terminal.comparison_table(rows).columns]
    assert "without OOV" not in titles
    rows[1] |= {"n_oov": "226", "test_perplexity_no_oov": "2.71828"}
    titles = [column.header for column in terminal.comparison_table(rows).columns]
    assert titles[titles.index("perplexity") + 1] == "without OOV"
    lines = at_width(rows, 60)
    (kn5,) = [line for line in lines if "kn5" in line]
    assert [cell.strip() for cell in kn5.split("│")[1:4]] == ["kn5", "3.32", "2.718"]


def at_width(rows: list[dict[str, str]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal.comparison_table(rows, width))
    return shown(console).splitlines()


def test_a_narrow_terminal_has_fewer_columns_no_figure_cut_and_says_which_are_left_out(summary: Path) -> None:
    lines = at_width(terminal.read_summary(summary), 80)
    (kn5,) = [line for line in lines if "kn5" in line]
    # the status is wide here: one model was killed by a signal
    assert [cell.strip() for cell in kn5.split("│")[1:-1]] == ["kn5", "3.32", "3.19 to 3.46", "1.731", "0.0426", "ok"]
    assert " ".join(" ".join(lines).split()).endswith(
        "no room for scored tokens/s, next token µs, peak MiB, size KiB: see report.md or tables/summary.csv"
    )


def test_bits_and_next_token_are_kept_before_memory(summary: Path) -> None:
    fine = [row for row in terminal.read_summary(summary) if row["status"] == "ok"]
    fine[0]["model"] = "mixture:unigram+trigram"
    lines = at_width(fine, 80)
    (kn5,) = [line for line in lines if "kn5" in line]
    cells = [cell.strip() for cell in kn5.split("│")[1:-1]]
    assert cells[:6] == ["kn5", "3.32", "3.19 to 3.46", "1.731", "0.0426", "426"]
    assert "62" not in cells
    assert "no room for scored tokens/s, peak MiB" in " ".join(lines)


@given(st.integers(min_value=45, max_value=200))
def test_no_line_is_wider_than_the_terminal_and_every_figure_is_there_or_named(width: int) -> None:
    rows = [dict(zip(COLUMNS.split(","), row.split(","), strict=True)) for row in ROWS]
    lines = at_width(rows, width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for title, figure in (
        ("peak MiB", " 62 "),
        ("size KiB", " 415 "),
        ("next token µs", " 426 "),
        ("train s", "0.0426"),
    ):
        assert (figure in text) != (title in text.partition("no room for")[2])


def test_without_a_terminal_each_finished_trial_is_a_line() -> None:
    console = terminal.console_on(io.StringIO())
    trial = make_trial("lstm:hidden=[512]", corpus=CorpusSpec(train="/home/jo/a.txt"), seed=1, device="cuda")
    with terminal.ProgressView(console, 12).showing() as view:
        view.note_reused([make_record(make_trial("kn5"))])
        view.handle(Started(trial=trial))
        view.handle(Moved(trial=trial, phase="training", train_s=1.0, share=0.5, perplexity=4.0))
        view.handle(Ended(record=make_record(trial)))
    assert shown(console).splitlines() == [
        "[ 1/12] kn5 on text: perplexity 2 (there already)",
        "[ 2/12] lstm:hidden=[512] on a.txt cuda seed 1: perplexity 2 (2.0 s)",
    ]


def test_of_many_trials_that_are_there_already_only_failures_are_named() -> None:
    console = terminal.console_on(io.StringIO())
    ended = make_record(make_trial("kn5")).model_copy(update={"status": "killed", "reason": "signal 9"})
    with terminal.ProgressView(console, 200).showing() as view:
        view.note_reused([make_record(make_trial(f"m{i}")) for i in range(150)] + [ended])
    assert shown(console).splitlines() == [
        "[151/200] kn5 on text: killed, signal 9 (there already)",
        "151 of 200 trials are there already",
    ]


def test_lines_name_the_tokenizer_where_there_are_several() -> None:
    console = terminal.console_on(io.StringIO())
    with terminal.ProgressView(console, 1, name_tokenizers=True).showing() as view:
        view.note_reused([make_record(make_trial("kn5", corpus=CorpusSpec(name="genesis", tokens="word")))])
    assert shown(console).startswith("[1/1] kn5 on genesis (word): perplexity")


def test_a_terminal_shows_trial_seconds_left_and_perplexity() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, markup=False, highlight=False)
    trial = make_trial("lstm")
    view = terminal.ProgressView(console, 3)
    with view.showing():
        view.handle(Started(trial=trial))
        view.handle(Moved(trial=trial, phase="training", train_s=5.0, share=0.25, perplexity=4.5))
        assert view._bars is not None
        view._bars.refresh()
        view.handle(Ended(record=make_record(trial)))
    assert "trial 1/3 lstm on text" in shown(console)
    # a quarter took 5 s, so three quarters take 15
    assert "training, 15 s left, perplexity 4.5" in shown(console)
    assert "[1/3] lstm on text: perplexity 2" in shown(console)


def test_trials_side_by_side_have_a_bar_each_and_end_in_any_order() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, markup=False, highlight=False)
    first, second = make_trial("lstm"), make_trial("gru")
    view = terminal.ProgressView(console, 2)
    with view.showing():
        for trial in (first, second):
            view.handle(Started(trial=trial))
        view.handle(Moved(trial=first, phase="training", train_s=5.0, share=0.25, perplexity=4.5))
        view.handle(Moved(trial=second, phase="scoring", train_s=5.0, share=1.0, perplexity=3.5))
        assert view._bars is not None
        states = {task.description: task.fields["state"] for task in view._bars.tasks}
        assert states == {
            "trial 1/2 lstm on text": "training, 15 s left, perplexity 4.5",
            "trial 2/2 gru on text": "scoring, perplexity 3.5",
        }
        view.handle(Ended(record=make_record(second)))
        assert [task.description for task in view._bars.tasks] == ["trial 1/2 lstm on text"]
        view.handle(Ended(record=make_record(first)))
        assert not view._bars.tasks
    assert re.findall(r"\[\d/2\] \w+ on text: perplexity 2 \(2.0 s\)", shown(console)) == [
        "[1/2] gru on text: perplexity 2 (2.0 s)",
        "[2/2] lstm on text: perplexity 2 (2.0 s)",
    ]


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(value=3.32031), "perplexity 3.32"),
        (Figure(infinite=True, reason="3 tokens of probability zero"), "perplexity inf (3 tokens of probability zero)"),
        (Figure(reason="no tokens"), "1 bits per byte"),
    ],
)
def test_an_outcome_in_a_few_words(figure: Figure, text: str) -> None:
    record = make_record(make_trial())
    assert record.measured is not None
    test = record.measured.test.model_copy(update={"perplexity": figure})
    measured = record.measured.model_copy(update={"test": test})
    assert terminal.outcome_text(record.model_copy(update={"measured": measured})) == text


def test_without_any_figure_the_reason_is_told() -> None:
    record = make_record(make_trial())
    assert record.measured is not None
    none = dict.fromkeys(("perplexity", "bits_per_char", "bits_per_byte"), Figure(reason="no tokens"))
    test = record.measured.test.model_copy(update=none)
    measured = record.measured.model_copy(update={"test": test})
    assert terminal.outcome_text(record.model_copy(update={"measured": measured})) == "no perplexity (no tokens)"


def test_a_letter_that_the_console_lacks_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", narrow)
    never_raise_on_output("replace")
    terminal.console_on(narrow).print("红 µ", end="")
    narrow.flush()
    assert narrow.buffer.getvalue() == "? µ".encode("cp1252")  # type: ignore[attr-defined]


def test_a_tie_is_with_the_best_of_its_block_and_a_vocabulary_is_a_block(tmp_path: Path) -> None:
    """Where only the vocabulary differs rows stand apart too; what failed knows none and stays where it is."""
    lines = [
        "model,status,test_perplexity,corpus,normalize,tokenizer,documents,train_fraction,device,vocab_fingerprint",
        "kn5,ok,3.0,a,none,word,line,1.0,cpu,v",
        "mle,ok,3.1,a,none,word,line,1.0,cpu,v",
        "kenlm,ok,2.0,a,none,word,line,1.0,cpu,{other}",
    ]
    columns = {"is_adaptive": "false", "reason": "", "n_oov": "0", "tie": "~"}
    figures = ("test_perplexity_low", "test_perplexity_high", "test_perplexity_no_oov", "bits_per_char", "train_s")
    empty = dict.fromkeys((*figures, "eval_tokens_per_s", "next_token_us", "peak_rss_bytes", "model_bytes"), "")
    for other, n_blocks in (("w", 2), ("v", 1), ("", 1)):
        path = tmp_path / "summary.csv"
        path.write_text("\n".join(lines).format(other=other) + "\n", encoding="utf-8")
        table = terminal.comparison_table([{**row, **columns, **empty} for row in terminal.rows_of_csv(path)])
        assert sum(row.end_section for row in table.rows) == n_blocks - 1
        assert ("of the same block" in str(table.caption)) == (n_blocks > 1)


def test_reasons_for_missing_figures_stand_below_the_table(summary: Path) -> None:
    table = terminal.comparison_table(terminal.read_summary(summary), reasons=["bits/char n/a (kn5): of a kind"])
    assert "bits/char n/a (kn5): of a kind" in str(table.caption)


def test_why_a_figure_is_missing_is_told_once_and_of_whom() -> None:
    why = Figure(reason="the tokens do not give back the normalised text")
    records = [make_record(make_trial(name)) for name in ("kn5", "mle", "mlp")]
    lossy = [with_test(record, {"bits_per_char": why}) for record in records]
    lost = tally([math.inf, 1.0], 4)
    measured = records[0].measured
    assert measured is not None
    infinite = records[0].model_copy(update={"measured": measured.model_copy(update={"test": lost})})
    of = attrgetter("bits_per_char")
    assert why_absent([*records, infinite], "bits/char", of) == []
    assert why_absent([*lossy[:2], records[2]], "bits/char", of) == [f"bits/char n/a (kn5 and mle): {why.reason}"]
    assert why_absent(lossy, "bits/char", of) == [f"bits/char n/a: {why.reason}"]
