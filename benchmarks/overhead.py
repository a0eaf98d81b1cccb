"""What a run costs beside measuring: a sweep of many small trials, its seconds and where they went."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.records import TrialRecord
from benchmarks.synthetic import zipf_text
from lmzoo.budget import Stopwatch

_ROOT = Path(__file__).parents[1]
_MODELS = ("unigram", "bigram", "trigram", "kn5", "ngram:order=3,smoothing=wb")
_FRACTIONS = ("1/16", "1/8", "1/4", "1/2", "1")
_WORDS = 5_000


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds of a run for each of its trials.  `measuring`: all that a trial measures."""

    n_trials: int
    whole_s: float
    measuring_s: float
    start_s: float
    load_s: float
    rest_s: float

    @property
    def overhead_s(self) -> float:
        """What was spent on anything but measuring."""
        return self.whole_s - self.measuring_s

    @property
    def runner_s(self) -> float:
        """What no trial's own clock saw: planning, waiting for processes, storing, the report."""
        return self.overhead_s - self.start_s - self.load_s - self.rest_s


def spent(whole_s: float, records: Sequence[TrialRecord]) -> Spent:
    """The seconds of a run whose trials all reached their end, divided by them."""
    parts = [record.parts for record in records if record.parts is not None]
    if not parts or len(parts) < len(records):
        raise ValueError(f"{len(records) - len(parts)} of {len(records)} trials have no parts: look at their records")
    n = len(parts)
    measuring_s = sum(
        (part.train_s or 0.0) + part.validate_s + part.test_s + part.throughput_s + part.profile_s for part in parts
    )
    start_s, load_s = sum(part.start_and_imports_s for part in parts), sum(part.load_s for part in parts)
    rest_s = sum(record.wall_s for record in records) - measuring_s - start_s - load_s
    return Spent(
        n_trials=n,
        whole_s=whole_s / n,
        measuring_s=measuring_s / n,
        start_s=start_s / n,
        load_s=load_s / n,
        rest_s=rest_s / n,
    )


def table(taken: Spent) -> list[str]:
    """A row for each part, in milliseconds of a trial."""
    rows = [
        (f"the whole run, {taken.n_trials} trials", taken.whole_s),
        ("of it measuring (training, validating, testing, timing throughput, profile)", taken.measuring_s),
        ("**overhead**", taken.overhead_s),
        ("of it a process and its imports", taken.start_s),
        ("reading the text", taken.load_s),
        ("checks, memory, environment, the record", taken.rest_s),
        ("the runner: plan, waiting, storing, the report", taken.runner_s),
    ]
    return ["| what | ms a trial |", "|---|---:|", *(f"| {what} | {seconds * 1e3:,.0f} |" for what, seconds in rows)]


def write_plan(folder: Path, n_texts: int) -> Path:
    """A plan file of 25 counting trials for each text, the texts beside it."""
    names = [f"t{seed}.txt" for seed in range(n_texts)]
    for seed, name in enumerate(names):
        (folder / name).write_text("\n".join(zipf_text(_WORDS, seed).lines()) + "\n", encoding="utf-8")
    options = {"models": _MODELS, "train_fractions": _FRACTIONS, "corpora": names, "tokens": "word"}
    path = folder / "sweep.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items()), encoding="utf-8")
    return path


def measured(n_texts: int, folder: Path) -> Spent:
    """Run such a sweep in a process of its own, as anybody would."""
    command = [
        sys.executable,
        "-m",
        "bench.run",
        "--plan",
        str(write_plan(folder, n_texts)),
        "--out",
        str(folder / "run"),
    ]
    watch = Stopwatch()
    with watch.running():
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}")
    paths = sorted((folder / "run" / "trials").glob("*.json"))
    return spent(watch.elapsed_s, [TrialRecord.model_validate_json(path.read_bytes()) for path in paths])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--texts", type=int, default=8, help="25 trials for each (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.texts < 1:
        parser.error(f"--texts must be at least 1, got {options.texts}")
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(table(measured(options.texts, Path(folder)))))


if __name__ == "__main__":
    main()
