"""Whether the rules of measuring hold on a GPU: two small runs of the harness, and what their records have to show.

    python -m benchmarks.gpu_rules --out results/gpu-rules

The second run has the same trials the other way round, so that what one trial leaves behind for the next would show.
Takes a minute or two; `--device cpu` tries it out, and what only a GPU has is then told as such.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.agreement import TOLERANCE_NATS
from bench.records import TrialRecord

_EXACT, _WIDE, _WIDER = (
    "lstm-cudnn:hidden=256,deterministic=true",
    "lstm-cudnn:hidden=1024",
    "lstm-cudnn:hidden=2048",
)
_MODELS = (_EXACT, _WIDE, _WIDER)
_STEPS = 60
_BYTES_A_WEIGHT = 4
# an allocator rounds up to blocks, which depends on nothing but what is asked of it
_SAME_PEAK_BYTES = 2 * 2**20
# the parts of a trial cover its wall clock but for the making of the record
_UNEXPLAINED = 0.05

Records = Mapping[str, TrialRecord]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A rule, whether it holds (None: nothing to see here), and the figures that say so."""

    rule: str
    holds: bool | None
    said: str

    def __str__(self) -> str:
        word = {True: "holds", False: "BROKEN", None: "n/a"}[self.holds]
        return f"{word:6}  {self.rule}: {self.said}"


def checks(first: Records, second: Records, errors: Sequence[str]) -> Iterator[Check]:
    """Every rule that these two runs can show; `errors`: their lines on standard error."""
    both = [*first.values(), *second.values()]
    failed = [f"{record.trial.model}: {record.reason}" for record in both if record.status != "ok"]
    yield Check(rule="every trial ends well", holds=not failed, said="; ".join(failed) or f"{len(both)} trials")
    if failed:
        return
    yield _width(first)
    yield _weights(both)
    yield _independent(first[_EXACT], second[_EXACT])
    yield _agreement(both)
    yield _same(first[_EXACT], second[_EXACT])
    yield _quiet(both, errors)
    yield _explained(both)
    yield _alone(both)
    yield _energy(both)


def _width(records: Records) -> Check:
    narrow, wide = (_ms_a_step(records[model]) for model in (_WIDE, _WIDER))
    said = f"{narrow:.2f} ms a step with 1024 units, {wide:.2f} with 2048"
    return Check(rule="twice the units take longer", holds=wide > narrow, said=said)


def _ms_a_step(record: TrialRecord) -> float:
    assert record.train_s is not None
    return 1000 * record.train_s / _STEPS


def _weights(records: Sequence[TrialRecord]) -> Check:
    seen, holds = [], []
    for record in records:
        assert record.measured is not None
        assert record.memory is not None
        least = _BYTES_A_WEIGHT * (record.measured.n_params or 0)
        allocated, reserved = record.memory.peak_device_bytes, record.memory.peak_device_reserved_bytes
        if allocated is not None and reserved is not None:
            holds.append(least <= allocated <= reserved)
            seen.append(f"{least >> 20} <= {allocated >> 20} <= {reserved >> 20} MiB")
    rule = "weights are inside the peak allocated, and that inside the peak reserved"
    return Check(rule=rule, holds=all(holds) if holds else None, said="; ".join(seen) or "no device memory")


def _independent(first: TrialRecord, second: TrialRecord) -> Check:
    peaks = [record.memory.peak_device_bytes for record in (first, second) if record.memory]
    alone, after = peaks
    rule = "a peak does not depend on the trial before"
    if alone is None or after is None:
        return Check(rule=rule, holds=None, said="no device memory")
    said = f"{alone / 2**20:.1f} MiB as the first trial, {after / 2**20:.1f} as the last"
    return Check(rule=rule, holds=abs(alone - after) <= _SAME_PEAK_BYTES, said=said)


def _agreement(records: Sequence[TrialRecord]) -> Check:
    figures = [record.measured.device_agreement for record in records if record.measured]
    found = [figure.number for figure in figures if figure.number is not None]
    rule = f"device and CPU agree to {TOLERANCE_NATS:g} nats"
    if not found:
        return Check(rule=rule, holds=None, said=str(figures[0].reason))
    # a figure that is missing on a device is as bad as a large one
    holds = len(found) == len(figures) and max(found) <= TOLERANCE_NATS
    return Check(rule=rule, holds=holds, said=f"at most {max(found):.2g} nats a token in {len(found)} trials")


def _same(first: TrialRecord, second: TrialRecord) -> Check:
    nats = [record.measured.block_nats for record in (first, second) if record.measured]
    perplexities = [[point.valid_perplexity.number for point in record.curve][-1:] for record in (first, second)]
    holds = nats[0] == nats[1] and perplexities[0] == perplexities[1]
    said = f"validation perplexities {perplexities[0]} and {perplexities[1]}"
    return Check(rule="deterministic trainings give the same to the last digit", holds=holds, said=said)


def _quiet(records: Sequence[TrialRecord], errors: Sequence[str]) -> Check:
    repeated = [line for line, n in Counter(line for line in errors if "warning" in line.lower()).items() if n > 1]
    for record in records:
        repeated += [warning for warning, n in Counter(record.warnings).items() if n > 1]
    said = repeated[0] if repeated else f"{sum(len(record.warnings) for record in records)} warnings in the records"
    return Check(rule="no warning is repeated", holds=not repeated, said=said)


def _explained(records: Sequence[TrialRecord]) -> Check:
    shares = []
    for record in records:
        assert record.parts is not None
        parts_s = sum(s for name, s in record.parts.model_dump().items() if name != "compile_s")
        shares.append(1 - parts_s / record.wall_s)
    rule = f"the parts explain the wall clock but for {_UNEXPLAINED:.0%}"
    return Check(rule=rule, holds=max(shares) <= _UNEXPLAINED, said=f"at most {max(shares):.1%} unexplained")


def _alone(records: Sequence[TrialRecord]) -> Check:
    told = {record.environment.device_shared for record in records if record.environment}
    rule = "nobody else used the device"
    if told == {None}:
        return Check(rule=rule, holds=None, said="nobody tells")
    return Check(rule=rule, holds=True not in told, said=f"shared: {sorted(map(str, told))}")


def _energy(records: Sequence[TrialRecord]) -> Check:
    figures = [record.energy.device_joules for record in records if record.energy]
    found = [figure.value for figure in figures if figure.value is not None]
    if not found:
        return Check(rule="energy of the device", holds=None, said=str(figures[0].reason if figures else "no training"))
    joules = ", ".join(f"{joule:.0f}" for joule in found)
    return Check(rule="energy of the device", holds=min(found) > 0, said=f"{joules} J")


def run(models: Sequence[str], out: Path, device: str) -> tuple[Records, list[str]]:
    """The records of a run by model, and its lines on standard error."""
    command = [sys.executable, "-m", "bench.run", "--models", ",".join(models), "--device", device, "--force"]
    limits = ["--max-steps", str(_STEPS), "--time-limit", "200", "--no-text"]
    done = subprocess.run([*command, *limits, "--out", str(out)], capture_output=True, encoding="utf-8", check=False)
    paths = sorted((out / "trials").glob("*.json"))
    records = [TrialRecord.model_validate_json(path.read_bytes()) for path in paths]
    if len(records) < len(models):
        raise SystemExit(f"a run gave {len(records)} of {len(models)} records:\n{done.stderr[-2000:]}")
    return {record.trial.model: record for record in records}, done.stderr.splitlines()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/gpu-rules"), help="folder of the two runs")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args(arguments)
    first, errors = run(_MODELS, given.out / "first", given.device)
    second, more_errors = run(_MODELS[::-1], given.out / "second", given.device)
    # what both runs say is said once by each
    found = [*checks(first, second, max(errors, more_errors, key=len))]
    for check in found:
        print(check)
    return 1 if any(check.holds is False for check in found) else 0


if __name__ == "__main__":
    sys.exit(main())
