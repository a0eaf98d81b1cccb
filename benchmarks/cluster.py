"""What a trial costs on a cluster and on this machine alone: `python -m benchmarks.cluster`.

A Ray cluster has to be running here (`ray start --head --num-cpus=1`, so that both run one trial at a time).  The two
take turns with the same unigram trials; what is printed are seconds per trial, and their ratio in each round.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from bench.describe import answer
from bench.executor.cluster import RayExecutor
from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Executor
from bench.plan import Limits, make_plan
from bench.records import CorpusSpec, Question, TrialSpec
from lmzoo.budget import Stopwatch


def unigram_trials(n: int) -> list[TrialSpec]:
    """The same trial under `n` names."""
    found = answer(Question(models="unigram", corpora=(CorpusSpec(name="genesis"),), devices=("cpu",)))
    (trial,) = make_plan(found, devices=["cpu"], seeds=1, limits=Limits())
    return [trial.model_copy(update={"trial_id": f"{trial.trial_id}-{i}"}) for i in range(n)]


def seconds_per_trial(executor: Executor, trials: Sequence[TrialSpec], watch: Stopwatch) -> float:
    """Seconds from asking for the trials to the last record, by trial.  Raises `RuntimeError` where one failed."""
    before_s = watch.elapsed_s
    with watch.running():
        records = [event.record for event in executor.run(trials) if isinstance(event, Ended)]
    failed = [record for record in records if record.status != "ok"]
    if failed or len(records) != len(trials):
        raise RuntimeError(
            f"{len(failed)} of {len(trials)} trials failed: {failed[0].reason if failed else 'no record'}"
        )
    return (watch.elapsed_s - before_s) / len(trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    trials = unigram_trials(options.trials)
    executors: dict[str, Executor] = {"local": LocalExecutor(), "ray": RayExecutor()}
    executors["ray"].check(trials)
    rounds = [
        {name: seconds_per_trial(executor, trials, Stopwatch()) for name, executor in executors.items()}
        for _ in range(options.rounds)
    ]
    for name in executors:
        print(f"{name}: {statistics.median(times[name] for times in rounds):.3f} s per trial")
    ratios = [times["ray"] / times["local"] for times in rounds]
    extra_ms = [1000 * (times["ray"] - times["local"]) for times in rounds]
    print(f"ray / local: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"ray - local: {statistics.median(extra_ms):.0f} ms ({min(extra_ms):.0f} to {max(extra_ms):.0f})")


if __name__ == "__main__":
    main()
