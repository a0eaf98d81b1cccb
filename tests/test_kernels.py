"""The benchmarks of the recurrences: the arithmetic between what is measured and what is printed; that each runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lmzoo.budget import Stopwatch

torch = pytest.importorskip("torch")

from benchmarks import gpu, kernels  # noqa: E402
from benchmarks.gpu import Rate  # noqa: E402
from benchmarks.kernels import Setting  # noqa: E402
from benchmarks.plain_torch import PlainTraining  # noqa: E402
from lmzoo.neural.scratch import ScratchLayer  # noqa: E402

pytestmark = pytest.mark.torch

SMALL = Setting(cell="gru", hidden=4, batch_size=2, threads=1)


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def slow_clock(seconds: float) -> Callable[[], Stopwatch]:
    """Watches on which whatever is timed takes so many seconds."""
    return lambda: Stopwatch(itertools.count(0.0, seconds).__next__)


class TestKernels:
    def test_sides_take_turns_and_the_first_round_is_not_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernels, "Stopwatch", slow_clock(2.0))
        log: list[str] = []

        def side(name: str, n_tokens: int) -> Callable[[], int]:
            def step() -> int:
                log.append(name)
                return n_tokens

            return step

        # a step takes 2 s, which is longer than a block
        assert kernels.rates([side("a", 10), side("b", 30)], rounds=2, block_s=1.0) == [[5.0, 15.0], [5.0, 15.0]]
        assert log == ["a", "b"] * 3

    def test_a_row_gives_medians_and_the_ratios_of_rounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds = [[4.0, 2.0, 1.0], [6.0, 2.0, 6.0], [9.0, 3.0, 3.0]]
        monkeypatch.setattr(kernels, "rates", lambda *_: rounds)
        # medians 6, 2, 3; ratios 2, 3, 3 and 4, 1, 3
        wanted = "| gru | 4 | 2 | 1 | 6 | 2 | 3 | 3.00 (2.00 to 3.00) | 3.00 (1.00 to 4.00) |"
        assert kernels.measured(SMALL, rounds=3) == wanted

    def test_every_side_learns_whole_batches(self) -> None:
        corpus = kernels.letters(20 * kernels.NUM_STEPS * SMALL.batch_size)
        sides = [kernels.of_lmzoo(corpus, SMALL, kernel) for kernel in ("scratch", "cudnn")]
        for step in (*sides, kernels.of_torch(corpus, SMALL)):
            assert [step() for _ in range(3)] == [kernels.NUM_STEPS * SMALL.batch_size] * 3

    def test_the_plain_script_learns(self) -> None:
        text_TxB = torch.arange(4).repeat(9)[:36, None].expand(36, 2)
        torch.manual_seed(0)
        plain = PlainTraining("rnn", text_TxB, 4, 8)
        before = [parameter.detach().clone() for parameter in plain._parameters]
        assert plain.step() == 70
        assert any(not torch.equal(old, new) for old, new in zip(before, plain._parameters, strict=True))

    def test_a_table_has_a_row_for_each_setting(self, capsys: pytest.CaptureFixture[str]) -> None:
        kernels.main(["--cells", "rnn,gru", "--hidden", "4", "--batch-sizes", "2", "--threads", "1", "--rounds", "1"])
        header, _, *rows = capsys.readouterr().out.splitlines()
        assert header.startswith("| cell | units | batch | threads |")
        assert [row.split(" | ")[0] for row in rows] == ["| rnn", "| gru"]


class TestGpu:
    def test_every_way_starts_from_the_same_weights(self) -> None:
        ways = ("scratch", "loop", "cudnn")
        weights = [gpu.layer_of(way, "lstm", 5, torch.device("cpu")).weights() for way in ways]
        for name, weight in weights[0].items():
            assert all(torch.equal(weight, other[name]) for other in weights[1:])
        loop = gpu.layer_of("loop", "gru", 5, torch.device("cpu"))
        assert isinstance(loop, ScratchLayer)
        assert loop.by_loop

    def test_a_way_that_is_not_here_is_a_row_with_its_reason(self) -> None:
        rate = gpu.rate_of("graph", "rnn", 4, torch.device("cpu"), repeat_s=0.0)
        assert rate.reason == "a graph is captured on CUDA alone"
        assert rate.median is None

    def test_rates_are_tokens_over_seconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu, "Stopwatch", slow_clock(2.0))
        # four passes of 35 x 32 tokens take 2 s
        assert gpu._repeat(lambda: None, torch.device("cpu"), 1.0) == 4 * 35 * 32 / 2

    def test_deterministic_algorithms_end_with_the_way_that_asked_for_them(self) -> None:
        assert gpu.rate_of("cudnn deterministic", "rnn", 4, torch.device("cpu"), repeat_s=0.0).tokens_per_s
        assert not torch.are_deterministic_algorithms_enabled()

    def test_a_table_has_thousands_of_tokens_by_way(self) -> None:
        found = [
            Rate(cell="rnn", way="scratch", hidden=4, device="cpu", tokens_per_s=(1e6, 3e6, 2e6)),
            Rate(cell="rnn", way="graph", hidden=4, device="cpu", reason="none"),
        ]
        *_, row = gpu.lines(found)
        assert row == "| rnn | 4 | 2,000 k | n/a | n/a | n/a | n/a | n/a |"

    def test_what_is_known_is_written_before_time_is_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(gpu, "WAYS", ("scratch", "cudnn"))
        asked: list[float] = []

        def harness(out: Path, device: str, budget_s: float) -> int:
            asked.append(budget_s)
            return 0

        monkeypatch.setattr(gpu, "run_of_the_harness", harness)
        options = ["--device", "cpu", "--hidden", "4", "--minutes", "5", "--repeat-s", "0", "--out", str(tmp_path)]
        assert gpu.main(options) == 0
        rates = [json.loads(line) for line in (tmp_path / "kernels.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [(rate["cell"], rate["way"]) for rate in rates] == [
            (cell, way) for cell in ("rnn", "gru", "lstm") for way in ("scratch", "cudnn")
        ]
        # six models share the five minutes, less what the rest took
        assert 20 < asked[0] <= 30
        assert "| lstm | 4 |" in capsys.readouterr().out

    def test_no_way_is_begun_once_time_is_up(self) -> None:
        assert not list(gpu.rates([4], torch.device("cpu"), lambda: True, 0.0))

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    def test_a_gpu_that_is_not_here_is_told_in_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            gpu.main([])
        assert caught.value.code == 2
        assert "try it out with --device cpu" in capsys.readouterr().err
