"""What a GPU does with the recurrent networks, in at most 15 minutes: correctness, throughput, time to perplexity.

    python -m benchmarks.gpu --out results/gpu

First the tests that need a device, then whether the rules of measuring hold on it (`gpu_rules.py`); a failure ends it,
since the speed of a wrong kernel, or one that is measured wrongly, is worth nothing.  Then forward and
backward passes of one layer by width: the recurrence written out here, its plain loop, the loop through torch.compile,
the recurrence as a captured CUDA graph, and cuDNN with and without its deterministic algorithms.  Then a run of the
harness.  Every figure is written into `kernels.jsonl` as soon as it is known, so that nothing is lost when time is up.
`--device cpu` does the same on the processor, to try it out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import gpu_rules
from lmzoo.budget import Stopwatch
from lmzoo.neural.cells import CELLS
from lmzoo.neural.library import LibraryLayer
from lmzoo.neural.scratch import ScratchLayer

ROOT = Path(__file__).parents[1]
NUM_STEPS, BATCH_SIZE, N_SYMBOLS = 35, 32, 29
REPEATS = 5
REPEAT_S = 0.5
# what the run of the harness and the tests may take of the minutes given
_TESTS_SHARE, _RUN_SHARE = 0.2, 0.4
_MODELS = "lstm-scratch,lstm-cudnn,gru-cudnn,rnn-cudnn,transformer"

# learns nothing: forward and backward of one batch, queued on the device
Pass = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Tokens per second through forward and backward, every repeat; or why there is none."""

    cell: str
    way: str
    hidden: int
    device: str
    tokens_per_s: tuple[float, ...] = ()
    ready_s: float = 0.0
    reason: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.tokens_per_s) if self.tokens_per_s else None


def layer_of(way: str, cell: str, hidden: int, device: torch.device) -> nn.Module:
    made: nn.Module
    if way.startswith("cudnn"):
        made = LibraryLayer(cell, N_SYMBOLS, hidden)
    else:
        made = ScratchLayer(cell, N_SYMBOLS, hidden, by_loop=way in ("loop", "compiled"))
    drawing = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in made.parameters():
            weight.uniform_(-(hidden**-0.5), hidden**-0.5, generator=drawing)
    made.to(device)
    if isinstance(made, LibraryLayer):
        made.compact()
    return made


def pass_of(way: str, cell: str, hidden: int, device: torch.device) -> Pass:
    """One forward and backward pass, made ready: compiled or captured where the way asks for it."""
    layer = layer_of(way, cell, hidden, device)
    weights = list(layer.parameters())
    drawing = torch.Generator().manual_seed(1)
    ids_TxB = torch.randint(N_SYMBOLS, (NUM_STEPS, BATCH_SIZE), generator=drawing).to(device)
    states = tuple(torch.zeros(BATCH_SIZE, hidden, device=device) for _ in range(CELLS[cell].n_states))
    through: Any = torch.compile(layer) if way == "compiled" else layer

    def once() -> object:
        outputs_TxBxH, _ = through(ids_TxB, states)
        return torch.autograd.grad(outputs_TxBxH.square().mean(), weights)

    if way != "graph":
        return once
    if device.type != "cuda":
        raise RuntimeError("a graph is captured on CUDA alone")
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            once()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph.replay


def rate_of(way: str, cell: str, hidden: int, device: torch.device, repeat_s: float = REPEAT_S) -> Rate:
    """Warmed up, then repeats of at least `repeat_s`, the device idle at both ends of each."""
    facts = {"cell": cell, "way": way, "hidden": hidden, "device": str(device)}
    is_exact = way == "cudnn deterministic"
    try:
        torch.use_deterministic_algorithms(is_exact)
        ready = Stopwatch()
        with ready.running():
            once = pass_of(way, cell, hidden, device)
            for _ in range(3):
                once()
            _wait(device)
        rates = tuple(_repeat(once, device, repeat_s) for _ in range(REPEATS))
    except Exception as error:
        # one way that cannot be had here is a row with its reason, and the others go on
        return Rate(reason=" ".join(str(error).split())[:200] or type(error).__name__, **facts)  # type: ignore[arg-type]
    finally:
        torch.use_deterministic_algorithms(False)
    return Rate(tokens_per_s=rates, ready_s=ready.elapsed_s, **facts)  # type: ignore[arg-type]


def _repeat(once: Pass, device: torch.device, repeat_s: float) -> float:
    watch, n_passes = Stopwatch(), 0
    while not n_passes or watch.elapsed_s < repeat_s:
        with watch.running():
            # a few at a time: waiting for the device after each would be measured too
            for _ in range(4):
                once()
            _wait(device)
        n_passes += 4
    return n_passes * NUM_STEPS * BATCH_SIZE / watch.elapsed_s


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


WAYS = ("scratch", "loop", "compiled", "graph", "cudnn", "cudnn deterministic")


def rates(widths: Sequence[int], device: torch.device, is_over: Callable[[], bool], repeat_s: float) -> Iterator[Rate]:
    """Every way at every width, the cheapest first; none is begun once time is up."""
    for hidden in widths:
        for cell in CELLS:
            for way in WAYS:
                if is_over():
                    return
                yield rate_of(way, cell, hidden, device, repeat_s)


def lines(found: Sequence[Rate]) -> Iterator[str]:
    """Thousands of tokens per second by cell, width and way."""
    yield f"| cell | units | {' | '.join(WAYS)} |"
    yield f"|---|---:|{'---:|' * len(WAYS)}"
    by_place: dict[tuple[str, int], dict[str, Rate]] = {}
    for rate in found:
        by_place.setdefault((rate.cell, rate.hidden), {})[rate.way] = rate
    for (cell, hidden), ways in by_place.items():
        yield f"| {cell} | {hidden} | {' | '.join(_spoken(ways.get(way)) for way in WAYS)} |"


def _spoken(rate: Rate | None) -> str:
    return "n/a" if rate is None or rate.median is None else f"{rate.median / 1000:,.0f} k"


def tests_pass(seconds: float) -> bool:
    """Whether all tests that need a device pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=seconds).returncode == 0


def rules_hold(out: Path, device: str) -> bool:
    """Whether no rule of measuring is broken on the device."""
    return gpu_rules.main(["--out", str(out / "rules"), "--device", device]) == 0


def run_of_the_harness(out: Path, device: str, budget_s: float) -> int:
    command = [sys.executable, "-m", "bench.run", "--models", f"kn5,{_MODELS}", "--device", device]
    return subprocess.run(
        [*command, "--budget", f"{budget_s:.0f}", "--out", str(out), "--force"], check=False
    ).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/gpu"), help="folder that is written")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--hidden", default="256,512,1024,2048", help="widths, separated by commas")
    parser.add_argument("--minutes", type=float, default=15.0, help="when to be done")
    parser.add_argument("--repeat-s", type=float, default=REPEAT_S)
    given = parser.parse_args(arguments)
    device, seconds = torch.device(given.device), 60 * given.minutes
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.exit(2, f"{given.device} is not here: torch {torch.__version__}; try it out with --device cpu\n")
    watch = Stopwatch()
    with watch.running():
        given.out.mkdir(parents=True, exist_ok=True)
        if device.type == "cuda" and not (tests_pass(_TESTS_SHARE * seconds) and rules_hold(given.out, given.device)):
            return 1
        widths = [int(width) for width in given.hidden.split(",")]
        found = []
        with (given.out / "kernels.jsonl").open("w", encoding="utf-8") as file:
            is_over = lambda: watch.elapsed_s > (1 - _RUN_SHARE) * seconds  # noqa: E731
            for rate in rates(widths, device, is_over, given.repeat_s):
                found.append(rate)
                print(json.dumps(_plain(rate)), file=file, flush=True)
        for line in lines(found):
            print(line)
        # six models share what is left, and each is scored too
        left_s = max(seconds - watch.elapsed_s, 0.0)
        return run_of_the_harness(given.out / "run", given.device, max(left_s / 10, 1.0))


def _plain(rate: Rate) -> Mapping[str, Any]:
    return {**asdict(rate), "median": rate.median}


if __name__ == "__main__":
    sys.exit(main())
