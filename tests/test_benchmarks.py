"""The benchmarks: that each runs, and the arithmetic between what is measured and what is printed."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lmzoo
from benchmarks import adapted, footprint, growth, kenlm_binaries, peers, reading, startup
from benchmarks.contests import CONTESTS, Action, Contest, Side
from benchmarks.footprint import Counting
from benchmarks.growth import Point
from benchmarks.reading import Reading
from benchmarks.synthetic import encoded, split_of, zipf_text
from benchmarks.workbench import SAVED_FORMS, Workbench, write_lines
from benchmarks.workbench import encoded as encoded_text
from lmzoo.budget import Stopwatch
from lmzoo.corpus import corpus_from_texts
from lmzoo.ngram.counts import count_ngrams

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.delenv("LMZOO_DATA", raising=False)
    return Workbench(tmp_path)


class TestEveryBenchmarkRuns:
    def test_on_made_up_text(self) -> None:
        left_out = ("LMZOO_DATA", "PYTEST_ADDOPTS", "COV_CORE_SOURCE", "PYTHONUNBUFFERED")
        env = {name: value for name, value in os.environ.items() if name not in left_out}
        command = [sys.executable, "-m", "pytest", "-q", "--benchmark-disable", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "benchmarks/bench_ngram.py"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # all of lmzoo's own sides and, where they are not skipped, their peers'
        n_passed = int(re.findall(r"(\d+) passed", done.stdout)[-1])
        assert n_passed >= len(CONTESTS)
        skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
        cures = ("set KENLM_BIN", "python -m pip install")
        assert all(any(cure in line for cure in cures) for line in skipped), skipped

    def test_the_tables_name_what_is_missing(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(kenlm_binaries.VARIABLE, raising=False)
        title, header, _, *rows = peers.lines(bench, "to perplexity", 1)
        assert title.startswith("made-up words, ")
        assert header.startswith("| what | lmzoo | peer |")
        assert rows == [f"| text file to perplexity, order 5 |  | not here: {kenlm_binaries.missing()} |  |  |"]


class TestPairs:
    @staticmethod
    def contest(log: list[tuple[str, str]]) -> Contest:
        def side(name: str, n_items: int) -> Side:
            def prepare(bench: Workbench, text: Path) -> Action:
                content = text.read_text(encoding="utf-8")

                def act() -> int:
                    log.append((name, content))
                    return n_items

                return act

            return Side(name=name, prepare=prepare)

        return Contest(what="x", per="token", ours=side("a", 1), theirs=side("b", 4), missing=lambda: None)

    def test_sides_take_turns_on_the_same_fresh_text(self, bench: Workbench) -> None:
        log: list[tuple[str, str]] = []
        pairs = peers.paired_seconds(self.contest(log), bench, 3)
        assert len(pairs) == 3
        # a round more than is counted
        assert [name for name, _ in log] == ["a", "b"] * 4
        texts = [text for _, text in log]
        assert texts[::2] == texts[1::2]
        assert len(set(texts)) == 4

    def test_seconds_are_those_of_one_item(self, bench: Workbench) -> None:
        def new_watch() -> Stopwatch:
            # every action takes two seconds
            return Stopwatch(itertools.count(0, 2).__next__)

        # of `a` an action is one item, of `b` four
        assert peers.paired_seconds(self.contest([]), bench, 2, new_watch) == [(2.0, 0.5)] * 2

    def test_a_row_gives_medians_and_the_ratios_of_pairs(self) -> None:
        # ratios 2, 4 and 1.5; not the ratio of the medians, which is 3
        row = peers.speed_row(self.contest([]), [(1.0, 2.0), (1.0, 4.0), (2.0, 3.0)])
        assert row == "| x | a: 1 s/token | b: 3 s/token | 2 (1.5 to 4) |  |"

    @pytest.mark.parametrize(
        ("seconds", "spoken"), [(12.34, "12.3 s"), (1.0, "1 s"), (0.25, "250 ms"), (3.2e-5, "32 µs"), (2e-7, "0.2 µs")]
    )
    def test_units_suit_the_figure(self, seconds: float, spoken: str) -> None:
        assert peers.spoken_seconds(seconds) == spoken


# made-up text is too small for every discount
@pytest.mark.filterwarnings("ignore::lmzoo.ngram.discounts.DiscountWarning")
class TestSizes:
    def test_sums_of_an_exact_model_miss_nothing_and_of_a_rounded_one_little(self, bench: Workbench) -> None:
        exact, rounded = (
            peers.largest_miss(model, encoded_text(model, bench.short).ids_N)
            for model in (lmzoo.load(bench.saved(3, form)) for form in ("exact", "8 bits"))
        )
        assert exact < 1e-9
        # the tolerance of quantised models in the conformance checks
        assert exact < rounded < 2e-2

    def test_a_model_that_does_not_sum_to_one_is_found_out(self, bench: Workbench) -> None:
        corpus = bench.corpus(bench.short)
        model = lmzoo.train("ngram:order=2,smoothing=sb", corpus)
        assert peers.largest_miss(model, corpus.test.ids_N) > 0.01

    @pytest.mark.skipif(kenlm_binaries.missing() is not None, reason=str(kenlm_binaries.missing()))
    def test_the_tables_of_memory_and_size_are_whole(self, bench: Workbench) -> None:
        # a head of two lines; orders 3 and 5; of each all forms of both toolkits
        assert len(list(peers.memory(bench))) == 2 + 2
        rows = list(peers.sizes(bench))
        assert len(rows) == 2 + 2 * (len(SAVED_FORMS) + 3)
        assert {row.count(" | ") for row in rows[2:]} == {rows[0].count(" | ")}


class TestVariants:
    def test_each_has_one_line_turned_round(self, bench: Workbench) -> None:
        n = 20
        variants = [bench.variant().read_text(encoding="utf-8").splitlines() for _ in range(n)]
        assert len({tuple(lines) for lines in variants}) == n
        for lines in variants:
            ((old, new),) = [(a, b) for a, b in zip(bench.lines, lines, strict=True) if a != b]
            assert old.split() == new.split()[::-1]


class TestKenlm:
    def test_says_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv(kenlm_binaries.VARIABLE, raising=False)
        assert str(kenlm_binaries.missing()).startswith("KENLM_BIN is not set; build KenLM")
        monkeypatch.setenv(kenlm_binaries.VARIABLE, str(tmp_path))
        assert str(kenlm_binaries.missing()).startswith("KENLM_BIN names a folder without lmplz, build_binary, query;")

    def test_counts_the_ngrams_of_an_arpa_file(self) -> None:
        path = GOLDEN / "boats.3.arpa"
        # every entry is a line with a tab
        n_entries = sum("\t" in line for line in path.read_text(encoding="utf-8").splitlines())
        assert kenlm_binaries.n_grams(path) == n_entries

    def test_a_program_that_fails_is_quoted(self) -> None:
        with pytest.raises(RuntimeError, match=r"ended with 1: no room left$"):
            kenlm_binaries.run([sys.executable, "-c", "import sys; sys.exit('no room left')"])


class TestMadeUpText:
    @given(n_words=st.integers(1, 2000), seed=st.integers(0, 2**32))
    def test_documents_cover_the_words(self, n_words: int, seed: int) -> None:
        text = zipf_text(n_words, seed)
        assert len(text.ranks_N) == n_words
        assert text.ranks_N.min() >= 1
        assert text.starts_D1[0] == 0
        assert text.starts_D1[-1] == n_words
        assert (np.diff(text.starts_D1) > 0).all()
        assert sum(len(line.split()) for line in text.lines()) == n_words
        again = zipf_text(n_words, seed)
        assert (again.ranks_N == text.ranks_N).all()
        assert (again.starts_D1 == text.starts_D1).all()

    def test_no_words_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at least 1, got 0"):
            zipf_text(0, 0)

    def test_it_is_like_language(self) -> None:
        ranks_N = zipf_text(200_000, seed=1).ranks_N
        counts = np.sort(np.bincount(ranks_N))[::-1]
        # Zipf: the tenth word about a tenth as often as the first; drawn ranks pool with successors, hence the factor 3
        assert 1 / 30 < counts[9] / counts[0] < 3 / 10
        # Heaps: four times the text has more words, but far from four times as many
        assert 1.5 < len(np.unique(ranks_N)) / len(np.unique(ranks_N[:50_000])) < 3
        # habit: more trigrams come back than when the same words stand in any order
        shuffled_N = np.random.default_rng(0).permutation(ranks_N)
        assert len(trigrams(ranks_N)) < 0.9 * len(trigrams(shuffled_N))

    def test_ids_count_as_the_lines_do(self) -> None:
        text = zipf_text(5_000, seed=2)
        lines = text.lines()
        read = corpus_from_texts({"train": "\n".join(lines), "valid": lines[0], "test": lines[0]}, tokens="word").train
        made = split_of(encoded(text))
        assert (made.lengths_D == read.lengths_D).all()
        assert sorted(made.vocab.counts_V) == sorted(read.vocab.counts_V)
        assert (np.diff(made.vocab.counts_V[3:]) <= 0).all()
        # words of one frequency may have changed ids, n-grams only their order
        for ours, theirs in zip(count_ngrams(made, 3), count_ngrams(read, 3), strict=True):
            assert Counter(ours.counts_G.tolist()) == Counter(theirs.counts_G.tolist())


def trigrams(ranks_N: Any) -> set[tuple[int, ...]]:
    return set(zip(*(ranks_N[i : len(ranks_N) - 2 + i].tolist() for i in range(3)), strict=True))


def taken(n_tokens: int, seconds: float, peak_bytes: int = 1) -> Counting:
    return Counting(n_tokens=n_tokens, n_symbols=5, n_grams=9, seconds=seconds, peak_bytes=peak_bytes, loaded=())


class TestGrowth:
    def test_the_fit_finds_the_law(self) -> None:
        # 2 ns for each n log2 n; n = 2^10 and 2^20 have 10 and 20 of them
        points = [Point(order=3, n_words=n, taken=taken(n, 2e-9 * n * log)) for n, log in ((2**10, 10), (2**20, 20))]
        assert growth.factor_of_n_log_n(points) == pytest.approx(2e-9)
        *_, last = growth.table(points, 1e9)
        assert last == "| 3 | 1,048,576 | 5 | 9 | 0.04 | 40 | 1.00 | 0 |"

    def test_what_would_not_fit_is_left_out(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def counting(spec: str, text: Path, *loaded: str) -> Counting:
            n_words = int(text.stem)
            return taken(n_words, 1e-6 * n_words, peak_bytes=100 * n_words)

        monkeypatch.setattr(growth, "counting", counting)
        # 100 bytes a word: 20 words are the most that 2,000 bytes hold
        points = list(growth.measured([10, 20, 21], [3], 2000, 1, tmp_path))
        assert [p.taken is None for p in points] == [False, False, True]
        *_, last = growth.table(points, 2000)
        assert last.startswith("| 3 | 21 | left out: more than 2e-06 GB |")

    def test_the_fastest_repeat_is_shown(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        # the first process only says what it loads
        seconds = iter((9.0, 3.0, 1.0, 2.0))
        monkeypatch.setattr(growth, "counting", lambda *_: taken(10, next(seconds)))
        (point,) = growth.measured([10], [3], 1e9, 3, tmp_path)
        assert point.taken == taken(10, 1.0)

    def test_the_plot_is_the_same_for_the_same_figures(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        points = [Point(order=3, n_words=n, taken=taken(n, n * 1e-6, n)) for n in (10, 100)]
        points.append(Point(order=3, n_words=1000, taken=None))
        pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
        for picture in pictures:
            growth.plot(points, picture)
        first, second = (picture.read_bytes() for picture in pictures)
        assert first == second
        assert b"<svg" in first
        assert b"date" not in first.lower()


class TestProcesses:
    def test_counting_in_a_process_of_its_own(self, tmp_path: Path) -> None:
        text = zipf_text(3_000, seed=0)
        path = tmp_path / "text.npz"
        np.savez(path, **encoded(text)._asdict())
        found = footprint.counting("ngram:order=2,smoothing=mkn", path)
        words = [["<s>", *line.split(), "</s>"] for line in text.lines()]
        pairs = {pair for line in words for pair in itertools.pairwise(line)}
        n_symbols = len({word for line in words for word in line} | {"<unk>"})
        assert found.n_tokens == sum(len(line) - 1 for line in words)
        assert found.n_symbols == n_symbols
        assert found.n_grams == n_symbols + len(pairs)
        # the ids alone take four bytes each
        assert found.peak_bytes > 4 * found.n_tokens

    def test_training_is_measured_beyond_its_imports(self, bench: Workbench) -> None:
        peak = footprint.peak_of_training("ngram:order=2", bench.text, bench.short)
        # the text as read is part of it, numpy is not
        assert bench.text.stat().st_size < peak.beyond_imports_bytes < peak.peak_bytes - peak.beyond_imports_bytes

    @pytest.mark.skipif(sys.platform == "win32", reason="children's peaks are not kept there")
    def test_a_programs_own_peak(self) -> None:
        # bigger than what the program takes: it is not inherited
        ballast = np.ones(200_000_000, np.uint8)
        small, large = (footprint.peak_of_program([sys.executable, "-c", f"bytearray({n})"]) for n in (1, 100_000_000))
        assert small < 60_000_000 < len(ballast)
        # starting up, an interpreter takes some MB more than it holds when the array is made
        assert 90_000_000 < large - small < 105_000_000

    def test_a_failure_is_quoted(self) -> None:
        with pytest.raises(RuntimeError, match=r"measures training ended with 1: .*no model 'quadgram'"):
            footprint.peak_of_training("quadgram", GOLDEN / "boats.txt", GOLDEN / "boats.txt")


def test_lines_are_written_with_line_feeds(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "a", ["x y", "z"]).read_bytes() == b"x y\nz\n"


@pytest.mark.torch
class TestLargeVocabularies:
    def test_every_side_learns_and_is_compared_with_the_plain_loop(self) -> None:
        large = pytest.importorskip("benchmarks.large_vocabulary")
        corpus = corpus_from_texts({"whole": "\n".join(zipf_text(3_000, seed=0).lines())}, tokens="word")
        sides = [name for name, options in large.SIDES.items() if "bfloat16" not in options]
        rows = list(large.speeds(corpus, 1, 1, 1e-6, sides))
        assert [row.split(" | ")[1] for row in rows] == ["plain torch", *sides]
        assert rows[0].endswith("1.00 (1.00 to 1.00) |")
        for name in sides:
            (found,) = large.perplexities(corpus, large.SIDES[name], [0.01])
            assert found[0] > 0
            assert 1 < found[1] < float("inf")

    def test_the_layer_alone_has_three_times_and_two_ratios(self) -> None:
        large = pytest.importorskip("benchmarks.large_vocabulary")
        cells = large.layer(300, 1, 1, 1e-6).strip("| ").split(" | ")
        assert cells[:2] == ["1", "300"]
        assert all(float(cell) > 0 for cell in cells[2:])
        assert len(cells) == 7


class TestReading:
    @pytest.mark.parametrize("n_bytes", [1, 500, 100_000])
    def test_a_text_is_of_about_the_size_asked_for(self, n_bytes: int, tmp_path: Path) -> None:
        for path in (tmp_path / "a", tmp_path / "b"):
            reading.write_text(path, n_bytes)
        text = (tmp_path / "a").read_bytes()
        assert text == (tmp_path / "b").read_bytes()
        # whole lines: the last may be missing; a line has 20 words or so
        assert n_bytes - 2000 < len(text) <= n_bytes + 20

    def test_each_block_has_words_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "_BLOCK_WORDS", 1000)
        monkeypatch.setattr(reading, "_COMMON_RANK", 100)
        reading.write_text(tmp_path / "text", 50_000)
        words = set((tmp_path / "text").read_text(encoding="utf-8").split())
        assert {"w1", "w2"} <= words
        assert len({word.partition(".")[2] for word in words}) > reading._USES

    @pytest.mark.parametrize("kind", reading.KINDS)
    def test_what_was_read_is_counted(self, kind: str, tmp_path: Path) -> None:
        path = tmp_path / "text"
        path.write_text("a b a\nb a\n", encoding="utf-8")
        found = reading.measured(path, kind, 2, path)
        # five words and two line ends, or ten characters; two words and three symbols, or three characters or all bytes
        wanted = {"word": (7, 5), "char": (10, 6), "byte": (10, 258)}[kind]
        assert (found.n_tokens, found.n_symbols) == wanted
        assert (found.n_bytes, len(found.seconds), len(found.cpu_seconds)) == (10, 2, 2)

    def test_the_median_makes_the_rate(self) -> None:
        found = Reading(
            kind="word",
            n_bytes=2_000_000,
            n_tokens=1_000_000,
            n_symbols=9,
            seconds=(0.1, 0.2, 9.0),
            cpu_seconds=(0.3, 0.3, 0.1),
            peak_bytes=8_000_000,
        )
        *_, row = reading.table([found])
        assert row == "| `word` | 2 MB | 1,000,000 | 9 | 5.0 | 300.0 | 8.0 |"

    def test_a_process_that_fails_says_why(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match=r"reads word ended with 1: FileNotFoundError"):
            reading.measured(tmp_path / "none", "word", 1, tmp_path / "none")


class TestAdapted:
    """KenLM's figures through the adapter."""

    def test_without_kenlm_it_says_how_to_get_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("KENLM_BIN", raising=False)
        assert adapted.main() == 2
        assert re.search(r"python -m pip install kenlm|KENLM_BIN is not set", capsys.readouterr().err)

    def test_each_order_is_estimated_read_and_scored(self, tmp_path: Path) -> None:
        if (reason := adapted.missing()) is not None:
            pytest.skip(reason)
        lines = (GOLDEN / "market.txt").read_text(encoding="utf-8").splitlines()
        text = "\n".join(line.replace("river", "<unk>") for line in lines)
        corpus = corpus_from_texts({"train": text, "valid": lines[0], "test": lines[1]}, tokens="word", own_unk=True)
        *_, row = adapted.lines(tmp_path, corpus, (2,))
        # KenLM's own program, on the text that KenLM can read
        for line, cell in ((lines[0], 2), (lines[1], 4)):
            spelled = write_lines(tmp_path / "spelled.txt", [line.replace("river", "UNKTOK")])
            wanted = kenlm_binaries.query(tmp_path / "2.arpa", spelled)
            assert float(row.split("|")[cell]) == pytest.approx(wanted, rel=1e-4)


def test_what_starting_takes_is_told_of_each_case_once() -> None:
    title, _, *rows = startup.lines(1)
    assert title == "| what | wall s | processor s | promised s |"
    assert [row.split("`")[1] for row in rows] == list(startup.CASES)
    # no process is free
    assert all(float(cell) > 0 for row in rows for cell in row.split(" | ")[1:3])


@pytest.mark.torch
def test_recipes_train_a_network_once_and_go_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from benchmarks import recipes

    monkeypatch.setitem(recipes.COUNTS, "char", ("ngram:order=2,smoothing=wb",))
    arguments = ["markov:length=6000", "--spec", "gru-scratch:hidden=8", "--budget", "0.1", "--folder", str(tmp_path)]
    assert recipes.main(arguments) == 0
    first = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in first[2:]] == [
        "| the network alone",
        "| network, counts",
        "| network, counts, cache*",
        "| network with adapt=cache*",
        "| network with adapt=cache, counts, cache*",
        "| network with adapt=dynamic*",
        "| network with adapt=dynamic, counts, cache*",
    ]
    # the same network, so the same figures
    assert recipes.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == first
    assert len(list(tmp_path.glob("*/0.lm"))) == 1
