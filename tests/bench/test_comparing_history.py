"""A figure over many runs: their order, lines that break, what is left out, the page and its plot."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bench.comparing import history_plot
from bench.comparing.history import History, Line, Point, history_of, segments_of
from bench.comparing.history_plot import draw_history
from bench.comparing.metrics import METRICS
from bench.comparing.naming import names_of
from bench.comparing.records import HistoryRecord
from bench.records import RULES_VERSION, CorpusSpec, Figure, TrialRecord
from bench.report.reading import read_run
from bench.report.rows import Row, rows_of
from lmzoo.errors import InputError
from tests.bench.calling import called
from tests.bench.synthetic import ENVIRONMENT, facts, failed, ok, repeats, tally, trial, usual, write

pytestmark = pytest.mark.plain


def on_day(folder: Path, day: int, records: Sequence[TrialRecord], **changes: Any) -> Path:
    return write(folder, records, **({"started_utc": f"2026-01-{day:02}T00:00:00Z"} | changes))


def one(perplexity: float, model: str = "kn5", **changes: Any) -> list[TrialRecord]:
    return [ok(trial(model), perplexity, **changes)]


def days(tmp_path: Path, *runs: list[TrialRecord]) -> list[Path]:
    return [on_day(tmp_path / f"day-{day}", day, records) for day, records in enumerate(runs, start=1)]


def follow(folders: Sequence[Path], metric: str = "test_perplexity") -> History:
    return history_of(folders, METRICS[metric])


def values_of(line: Line) -> list[float | None]:
    return [None if point is None else point.value for point in line.points]


def test_runs_stand_in_the_order_of_their_starts(tmp_path: Path) -> None:
    levels = {3: 4.2, 1: 4.4, 2: 4.3}
    folders = [on_day(tmp_path / f"named-{9 - day}", day, one(level)) for day, level in levels.items()]
    found = follow(folders)
    assert [entry.name for entry in found.entries] == ["named-8", "named-7", "named-6"]
    (line,) = found.lines
    values = [value or 0.0 for value in values_of(line)]
    assert values == sorted(values, reverse=True)
    assert (found.left_out, found.notices) == ([], [])


def test_starts_in_other_time_zones_are_ordered_too(tmp_path: Path) -> None:
    starts = {"b": "2026-01-01T12:00:00+00:00", "a": "2026-01-01T12:30:00+02:00", "c": "2026-01-01T13:00:00"}
    folders = [write(tmp_path / name, one(4.4), started_utc=start) for name, start in starts.items()]
    assert [entry.name for entry in follow(folders).entries] == ["a", "b", "c"]


def test_values_and_intervals_are_those_of_the_reports(tmp_path: Path) -> None:
    folders = days(tmp_path, usual(), usual(seeds=3), usual())
    found = follow(folders)
    for place, folder in enumerate(folders):
        for row, line in zip(rows_of(read_run(folder)), found.lines, strict=True):
            point = line.points[place]
            assert point is not None
            assert row.interval is not None
            assert (point.value, point.span) == (row.test_perplexity, (row.interval.low, row.interval.high))


def test_costs_have_the_span_of_their_processes(tmp_path: Path) -> None:
    def timed(*times: float) -> list[TrialRecord]:
        return [
            ok(trial("mlp", seed=seed), 4.4, measures={"next_token_us": repeats(us)}) for seed, us in enumerate(times)
        ]

    (line,) = follow(days(tmp_path, timed(30.0), timed(20.0, 50.0, 30.0)), "next_token_us").lines
    assert values_of(line) == [30.0, 30.0]
    assert [point and point.span for point in line.points] == [None, (20.0, 50.0)]


def test_another_text_or_other_rules_break_the_line_and_are_named(tmp_path: Path) -> None:
    text = facts(sha256="cd" * 32)
    changed = [ok(trial(model, corpus=text), 4.3, corpus=text) for model in ("kn5", "mlp")]
    newer = [record.model_copy(update={"rules_version": RULES_VERSION + 1}) for record in changed]
    folders = days(tmp_path, [*one(4.4), *one(5.0, "mlp")], changed, changed)
    folders.append(on_day(tmp_path / "day-4", 4, newer, rules_version=RULES_VERSION + 1))
    found = follow(folders)
    for line in found.lines:
        assert [point and point.breaks for point in line.points] == [
            "",
            "another text",
            "",
            "another version of the rules of measuring",
        ]
        assert [[place for place, _ in segment] for segment in segments_of(line)] == [[0], [1, 2], [3]]
    title = "genesis (char, normalised with letters, a document per file)"
    assert found.notices == [
        f"{run} cannot be compared with what is before it: it has {why}; the lines of kn5 and mlp on {title} break "
        "there"
        for run, why in (("day-2", "another text"), ("day-4", "another version of the rules of measuring"))
    ]


def test_runs_without_a_model_or_whose_trial_failed_leave_a_gap_with_a_reason(tmp_path: Path) -> None:
    broken = failed(trial("mlp"), "diverged", "at step 3")
    found = follow(days(tmp_path, [*one(4.4), *one(5.0, "mlp")], one(4.4), [*one(4.4), broken]))
    line = found.lines[1]
    assert line.row.model == "mlp"
    assert line.points[1] is None
    last = line.points[2]
    assert last is not None
    assert (last.value, last.reason, last.row.status) == (None, "at step 3", "diverged")


def test_a_figure_that_a_row_lacks_has_a_reason(tmp_path: Path) -> None:
    no_file = one(4.4, measures={"model_bytes": Figure.of(None, "it is not written to files")})
    (line,) = follow(days(tmp_path, one(4.4), no_file), "model_bytes").lines
    assert line.points[1] is not None
    assert line.points[1].reason == "it has no model size"


def test_texts_that_share_a_name_have_a_line_each(tmp_path: Path) -> None:
    texts = [facts("x.txt", sha256=letter * 64) for letter in "ab"]
    records = [ok(trial("kn5", corpus=text, trial_id=text.sha256[:3]), 4.4, corpus=text) for text in texts]
    found = follow(days(tmp_path, records, records[::-1]))
    assert [len(segments_of(line)) for line in found.lines] == [1, 1]
    assert found.notices == []


def test_a_text_that_was_read_in_two_ways_has_a_line_for_each_which_other_rules_break(tmp_path: Path) -> None:
    texts = [facts(min_freq=n, vocab_fingerprint=f"of {n}") for n in (1, 2)]
    records = []
    for text in texts:
        spec = trial("kn5", corpus=text, trial_id=f"from-{text.min_freq}")
        spec = spec.model_copy(update={"corpus": CorpusSpec(name="genesis", min_freq=text.min_freq)})
        records.append(ok(spec, 4.0 + text.min_freq, corpus=text))
    newer = [record.model_copy(update={"rules_version": RULES_VERSION + 1}) for record in records]
    folders = days(tmp_path, records, records[::-1], records[:1])
    folders.append(on_day(tmp_path / "day-4", 4, newer, rules_version=RULES_VERSION + 1))
    lines = follow(folders).lines
    assert [[round(value) if value else None for value in values_of(line)] for line in lines] == [
        [5, 5, 5, 5],
        [6, 6, None, 6],
    ]
    assert [[place for place, _ in segment] for segment in segments_of(lines[1])] == [[0, 1], [3]]


def test_only_the_folder_itself_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = days(tmp_path, one(4.4), one(4.3))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    told = follow([Path(), *folders]).left_out
    assert told == ["empty is no run: run.json is not there; give a folder that python -m bench.run wrote"]
    # by whatever path, and nowhere else than by its name
    assert follow([empty, *folders]).left_out == follow([Path("..", "empty"), *folders]).left_out == told


def test_what_is_no_run_is_left_out_and_named(tmp_path: Path) -> None:
    folders = days(tmp_path, one(4.4), one(4.3))
    (tmp_path / "README.md").write_text("# Results\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    other = write(tmp_path / "timeless", one(4.4), started_utc="yesterday")
    found = follow([*folders, tmp_path / "README.md", tmp_path / "empty", other])
    assert [entry.name for entry in found.entries] == ["day-1", "day-2"]
    told = found.left_out
    assert [line.split()[0] for line in told] == ["README.md", "empty", "timeless"]
    assert told[2] == "timeless has no place in time: it started at 'yesterday', which is no date"


def test_a_path_that_is_not_there_is_one_line_and_exit_2(tmp_path: Path) -> None:
    folders = days(tmp_path, one(4.4), one(4.3))
    done = called(*folders, tmp_path / "day3", "--html", tmp_path / "x.html")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'day3'} is not there; give folders that" in done.stderr
    with pytest.raises(InputError, match=r"nope is not there \(and 1 other path\)"):
        follow([*folders, tmp_path / "nope", tmp_path / "no"])


@given(numbers=st.lists(st.sampled_from(["a", "a (1)", "a (2)", "a (1) (1)", "b"]), max_size=6))
def test_no_two_runs_are_called_alike_whatever_their_folders_are(numbers: list[str]) -> None:
    names = names_of([Path(str(place), name) for place, name in enumerate(numbers)])
    assert len(set(names)) == len(names)
    assert all(name.startswith(own) for name, own in zip(names, numbers, strict=True))


def test_every_folder_has_a_name() -> None:
    assert names_of([Path("/")]) == ["/"]


def test_every_year_has_four_digits(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, one(4.4), started_utc=f"{name}-01-01T00:00:00Z") for name in ("0001", "2026")]
    assert [entry.day for entry in follow(folders).entries] == ["0001-01-01", "2026-01-01"]
    assert "│ 0001-01-01 00:00 │" in called(*folders, folders[0] / "trials").stdout


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    folders = days(tmp_path, one(4.4), one(4.3))
    found = follow([*folders, folders[0] / ".", folders[1]])
    assert [entry.name for entry in found.entries] == ["day-1", "day-2"]
    assert found.left_out == ["a folder that is named twice counts once"]


def test_folders_of_one_name_are_numbered(tmp_path: Path) -> None:
    folders = [on_day(tmp_path / str(day) / "run", day, one(4.4)) for day in (1, 2)]
    assert [entry.name for entry in follow(folders).entries] == ["run (1)", "run (2)"]


@pytest.mark.parametrize(("n_runs", "found"), [(0, "no run"), (1, "one run (day-1)")])
def test_fewer_than_two_runs_are_an_error_that_says_so(tmp_path: Path, n_runs: int, found: str) -> None:
    folders = days(tmp_path, *[one(4.4)] * n_runs)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="at least two runs") as error:
        follow([*folders, tmp_path / "a.txt", tmp_path / "b.txt"])
    assert f"there is {found}: " in str(error.value)
    assert "a.txt is no run" in str(error.value)


def test_a_figure_that_no_run_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run has a cpu_joules"):
        follow(days(tmp_path, one(4.4), one(4.3)), "cpu_joules")


def test_times_on_another_processor_are_told(tmp_path: Path) -> None:
    folders = days(tmp_path, one(4.4), one(4.3))
    other = ENVIRONMENT.model_copy(update={"cpu_model": "another processor"})
    folders.append(on_day(tmp_path / "day-3", 3, one(4.3, changes={"environment": other})))
    assert follow(folders, "next_token_us").notices == [
        "day-3 was measured on another processor than day-2: another processor and a processor"
    ]
    assert follow(folders).notices == []


def test_the_processor_is_that_of_the_trials(tmp_path: Path) -> None:
    other = ENVIRONMENT.model_copy(update={"cpu_model": "a node's processor"})
    folders = days(tmp_path, one(4.4), one(4.3, changes={"environment": other}), one(4.2))
    assert follow(folders, "next_token_us").notices == [
        "day-2 was measured on another processor than day-1: a node's processor and a processor",
        "day-3 was measured on another processor than day-2: a processor and a node's processor",
    ]
    assert "a node's processor" in called(*folders).stdout


def test_the_conditions_of_runs_are_told_once_for_all_that_share_them(tmp_path: Path) -> None:
    busy = one(4.4, changes={"environment": ENVIRONMENT.model_copy(update={"load_1min": 9.0})})
    folders = days(tmp_path, busy, one(4.4), busy)
    folders.append(on_day(tmp_path / "day-4", 4, one(4.4), warnings=("a lock",)))
    told = follow(folders).notices
    assert [notice.split(" (")[0] for notice in told] == ["day-1 and day-3: the machine was busy", "day-4: a lock"]


def test_what_was_asked_otherwise_than_before_is_told_and_breaks_no_line(tmp_path: Path) -> None:
    def asked(steps: int, seeds: int = 1, **options: Any) -> list[TrialRecord]:
        specs = [trial(m, max_steps=steps, seed=seed, options=options) for m in ("mlp", "rnn") for seed in range(seeds)]
        return [*one(4.4), *[ok(spec, 5.0) for spec in specs]]

    runs = [asked(50), one(4.4), asked(100), asked(100, seeds=2, hidden=8), asked(100, seeds=2, hidden=8)]
    folders = days(tmp_path, *runs)
    folders.append(on_day(tmp_path / "day-6", 6, runs[-1], threads=2))
    found = follow(folders)
    assert found.notices == [
        "day-3 was asked otherwise than day-1: training: from 50 steps to 100 steps (mlp and rnn)",
        "day-4 was asked otherwise than day-3: seeds: from 0 to 0, 1 (mlp and rnn); hidden: from not there to 8 (mlp "
        "and rnn)",
        "day-6 was asked otherwise than day-5: threads: from 1 to 2 (kn5, mlp and rnn)",
    ]
    assert not [point.breaks for line in found.lines for point in line.points if point and point.breaks]
    assert f"warning: {found.notices[0]}" in called(*folders).stdout.splitlines()


def test_that_a_name_stands_for_another_file_is_told(tmp_path: Path) -> None:
    files = [[ok(trial("kn5", options={"sha256": letter * 64}), 4.4)] for letter in "ab"]
    assert follow(days(tmp_path, *files)).notices == [
        "day-2 was asked otherwise than day-1: the file or folder that it is read from: from aaaaaaaaaaaa to "
        "bbbbbbbbbbbb (kn5)"
    ]


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Row:
    (found,) = rows_of(read_run(write(tmp_path_factory.mktemp("run"), one(4.4))))
    return found


@given(data=st.data())
def test_segments_hold_every_finite_value_once_in_order_and_cross_no_break(row: Row, data: st.DataObject) -> None:
    values = st.one_of(st.none(), st.floats(1, 100), st.just(float("inf")))
    drawn = data.draw(st.lists(st.one_of(st.none(), st.tuples(values, st.booleans())), max_size=12))
    points = [
        None if p is None else Point(row=row, value=p[0], span=None, breaks="another text" if p[1] and p[0] else "")
        for p in drawn
    ]
    segments = segments_of(Line(points=points))
    places = [place for segment in segments for place, _ in segment]
    finite = [n for n, p in enumerate(points) if p and p.value is not None and p.value < float("inf")]
    assert places == finite
    for segment in segments:
        for place in range(segment[0][0] + 1, segment[-1][0] + 1):
            point = points[place]
            # nor a run that has the model and no value
            assert point is None or not (point.breaks or point.value is None or math.isinf(point.value))


def test_the_terminal_shows_runs_and_a_table_for_each_text(tmp_path: Path) -> None:
    text = facts(sha256="cd" * 32)
    last = [ok(trial("kn5", corpus=text), 4.2, corpus=text)]
    folders = days(tmp_path, [*one(4.4), *one(5.0, "mlp[x]")], one(4.3), last)
    (tmp_path / "README.md").touch()
    done = called(*folders, tmp_path / "README.md")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Runs, oldest first:"
    assert [line for line in lines if line.startswith("test perplexity on genesis (char")]
    kn5 = next(line for line in lines if line.startswith("│ kn5"))
    assert kn5.count(" to ") == 3
    assert kn5.endswith(") † │")
    # it has no such row in two of them
    absent = next(line for line in lines if line.startswith("│ mlp[x]"))
    assert [cell.strip() for cell in absent.split("│")[3:5]] == ["-", "-"]
    assert [line for line in lines if line.startswith("left out: ") and "README.md is no run" in line]
    assert [line for line in lines if line.startswith("warning: day-3 cannot be compared")]


def test_why_a_figure_is_missing_stands_under_its_table(tmp_path: Path) -> None:
    broken = failed(trial("mlp"), "out_of_memory", "over 1 GiB")
    done = called(*days(tmp_path, [*one(4.4), *one(5.0, "mlp")], [*one(4.4), broken], [*one(4.4), broken]))
    assert "mlp in run 2 and mlp in run 3: out of memory, over 1 GiB" in done.stdout.splitlines()


def test_many_runs_stand_in_several_tables(tmp_path: Path) -> None:
    done = called(*days(tmp_path, *[one(4.4 - day / 100) for day in range(12)]))
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│ kn5")]
    assert [len(cells) - 1 for cells in rows] == [5, 5, 2]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--metric", "test_perplexit"], "Did you mean 'test_perplexity'"),
        (["--fail-on", "test_perplexity:1%"], "--fail-on compares two runs, and 3 were given"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(tmp_path: Path, options: list[str], why: str) -> None:
    done = called(*days(tmp_path, one(4.4), one(4.3), one(4.2)), *options)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr


def test_one_run_alone_is_exit_2(tmp_path: Path) -> None:
    done = called(*days(tmp_path, one(4.4)))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "give a second to compare it with" in done.stderr


def test_the_record_holds_every_point(tmp_path: Path) -> None:
    broken = failed(trial("mlp"), "diverged", "at step 3")
    infinite = one(4.4, infinite_blocks=3)
    folders = days(tmp_path, [*one(4.4), *one(5.0, "mlp")], infinite, [*one(4.3), broken])
    assert called(*folders, tmp_path, "--json", str(tmp_path / "h.json")).exit_code == 0
    record = HistoryRecord.model_validate_json((tmp_path / "h.json").read_bytes())
    assert [run.name for run in record.runs] == ["day-1", "day-2", "day-3"]
    kn5, mlp = record.lines
    assert [point.run for point in kn5.points] == [0, 1, 2]
    assert (kn5.points[1].value.infinite, kn5.points[1].low) == (True, None)
    # day-2 has no mlp
    assert [(point.run, point.status, point.value.reason) for point in mlp.points] == [
        (0, "ok", None),
        (2, "diverged", "at step 3"),
    ]
    assert str(tmp_path) not in "".join(run.model_dump_json() for run in record.runs)


def test_an_end_that_is_infinite_is_null_in_the_record(tmp_path: Path) -> None:
    infinite = {"valid": tally([math.inf, 1.0], 2)}
    seeds = [ok(trial("mlp"), 4.4), ok(trial("mlp", seed=1), 4.4, measures=infinite)]
    folders = days(tmp_path, one(4.4, "mlp"), seeds)
    options = ["--metric", "valid_perplexity", "--json", str(tmp_path / "h.json")]
    assert called(*folders, tmp_path, *options).exit_code == 0
    (line,) = HistoryRecord.model_validate_json((tmp_path / "h.json").read_bytes()).lines
    last = line.points[1]
    assert last.low is not None
    assert (last.high, last.value.infinite) == (None, True)


HOSTILE = ["<script>alert(1)</script>", '网络:a="b"', "\u202eevil", "a|b&amp;$x$", "m" * 300]


@pytest.mark.whole
def test_the_page_has_plots_inside_and_escapes_every_name(tmp_path: Path) -> None:

    def records(shift: float) -> list[TrialRecord]:
        spread = [ok(trial(name), 5.0 + shift + n / 10) for n, name in enumerate(HOSTILE)]
        return [*one(4.4 + shift), *spread, ok(trial("inf"), 4.0, infinite_blocks=5)]

    folders = [on_day(tmp_path / "<b>1", 1, records(0.0)), *days(tmp_path, records(0.1), records(-0.2))]
    page = tmp_path / "history.html"
    done = called(*folders, "--html", str(page))
    assert done.exit_code == 0
    assert "could not be drawn" not in done.stdout
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/svg+xml;base64,") == 1
    assert "could not be drawn" not in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "<b>1" not in text
    first = page.read_bytes()
    assert called(*folders, "--html", str(page)).exit_code == 0
    assert page.read_bytes() == first


@pytest.mark.whole
def test_a_plot_that_fails_is_told_on_the_page_and_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_plot, "_draw", None)
    done = called(*days(tmp_path, *[one(4.4)] * 3), "--html", tmp_path / "x.html")
    assert done.exit_code == 0
    assert "warning: plot history-1 could not be drawn: TypeError" in done.stdout
    assert "<li>plot history-1 could not be drawn: TypeError" in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", ["eval_tokens_per_s", "above_baseline_bytes", "top1_accuracy"])
def test_every_scale_can_be_drawn(tmp_path: Path, metric: str) -> None:
    # from nothing above the baseline to much, and a thousandfold in speed
    def records(factor: float) -> list[TrialRecord]:
        return one(4.4, memory_mib=int(40 * factor), measures={"eval_tokens_per_s": repeats(100 * factor**10)})

    found = follow(days(tmp_path, records(1.0), records(1.5), records(2.0)), metric)
    figures, warnings = draw_history(found, tmp_path / "plots")
    assert warnings == []
    ((title, figure),) = figures.items()
    assert (title, figure.stem) == (found.lines[0].row.group.title, "history-1")
    assert figure.alt.startswith(f"{METRICS[metric].name} over runs, oldest first: kn5 ")


def test_nothing_finite_is_no_plot_and_no_warning(tmp_path: Path) -> None:
    found = follow(days(tmp_path, *[one(4.4, infinite_blocks=5)] * 2))
    assert draw_history(found, tmp_path / "plots") == ({}, [])


def test_the_glob_of_a_folder_of_runs_works(tmp_path: Path) -> None:
    """As a shell gives it: runs, an archive, a page of comparison, whatever else lies there."""
    folders = days(tmp_path, one(4.4), one(4.3), one(4.2))
    shutil.make_archive(str(tmp_path / "old"), "zip", folders[0])
    (tmp_path / "c.json").write_text(json.dumps({"kind": "comparison"}), encoding="utf-8")
    done = called(*sorted(tmp_path.iterdir()))
    assert done.exit_code == 0
    assert done.stdout.count("left out: ") == 2
