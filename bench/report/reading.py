"""A run's folder, read: `run.json` and the records of its trials, whatever state they are in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.records import SCHEMA_VERSION, RunInfo, TrialRecord, TrialSpec
from lmzoo.errors import InputError, NewerFileError

UNREADABLE = "record unreadable"
NOT_RUN = "no record: the run ended before this trial"


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A trial without a usable record.  `trial` is None for a file that the plan does not know."""

    trial_id: str
    trial: TrialSpec | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a folder holds: usable records in the order of the plan, and what is missing or was left out.

    `earlier`: what was measured too, by other plans, options, texts, code or rules, and stands in no table.
    """

    info: RunInfo
    records: tuple[TrialRecord, ...]
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]
    earlier: tuple[TrialRecord, ...] = ()


def read_run(folder: Path) -> Run:
    """Read a run's folder.

    Raises `InputError` where there is no run, and `NewerFileError` for one that a newer version wrote.  A record that
    cannot be read is no error: it becomes a `Missing`.
    """
    info = _read_info(folder)
    plan = {trial.trial_id: trial for trial in info.plan}
    files = {path.stem: path for path in sorted((folder / "trials").glob("*.json"))}
    set_aside = {path.name.removesuffix(".json.bad") for path in sorted((folder / "trials").glob("*.json.bad"))}
    records, missing, other_rules = [], [], []
    for trial_id in [*plan, *sorted((files.keys() | set_aside) - plan.keys())]:
        record = _read_record(files[trial_id]) if trial_id in files else None
        if record is None:
            reason = UNREADABLE if trial_id in files or trial_id in set_aside else NOT_RUN
            missing.append(Missing(trial_id=trial_id, trial=plan.get(trial_id), reason=reason))
        elif record.rules_version != info.rules_version:
            other_rules.append(record)
        else:
            records.append(record)
    kept, doubles = _without_doubles(records)
    warnings = (*_about_other_rules(info, other_rules), *map(_about_double, doubles))
    earlier = (*other_rules, *doubles, *_set_aside(folder / "trials"))
    return Run(info=info, records=kept, missing=tuple(missing), warnings=warnings, earlier=earlier)


def _set_aside(folder: Path) -> list[TrialRecord]:
    """The readable ones among the records that made room for others."""
    paths = sorted([*folder.glob("*.json.before-*"), *folder.glob("*.json.outdated-*")])
    return [record for path in paths if (record := _read_record(path)) is not None]


def _read_info(folder: Path) -> RunInfo:
    path = folder / "run.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{folder} is no run: {error.strerror or 'unreadable'}: run.json; "
            "give a folder that python -m bench.run wrote"
        ) from error
    except ValueError as error:
        raise InputError(f"{folder} is no run: run.json is not JSON ({error}); make the run again") from error
    version = _schema_version(data)
    if version > SCHEMA_VERSION:
        raise NewerFileError(
            f"{folder} was written in schema {version}, this version reads up to {SCHEMA_VERSION}; update lmzoo"
        )
    try:
        return RunInfo.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "run.json"
        raise InputError(f"{folder} is no run: run.json, {where}: {first['msg']}; make the run again") from error


def _read_record(path: Path) -> TrialRecord | None:
    """The record of a file, or None when it cannot be used (cut short, altered, from a newer schema)."""
    try:
        record = TrialRecord.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    # a newer schema may use the same fields for something else
    return record if record.schema_version <= SCHEMA_VERSION else None


def _schema_version(data: Any) -> int:
    version = data.get("schema_version", SCHEMA_VERSION) if isinstance(data, dict) else SCHEMA_VERSION
    return version if isinstance(version, int) else SCHEMA_VERSION


def _without_doubles(records: list[TrialRecord]) -> tuple[tuple[TrialRecord, ...], list[TrialRecord]]:
    """One record for each model, text, device and seed, and the others: a second one would be taken for another seed.

    Planned ones come first; what an earlier plan left behind is a double.
    """
    kept: dict[tuple[object, ...], TrialRecord] = {}
    doubles = []
    for record in records:
        trial = record.trial
        place = (trial.model, trial.device, trial.seed, trial.train_fraction, trial.corpus, trial.corpus_sha256)
        if kept.setdefault(place, record) is not record:
            doubles.append(record)
    return tuple(kept.values()), doubles


def _about_double(record: TrialRecord) -> str:
    trial = record.trial
    return f"{trial.model} (seed {trial.seed}): record {trial.trial_id} of an earlier plan is left out"


def _about_other_rules(info: RunInfo, records: list[TrialRecord]) -> tuple[str, ...]:
    return tuple(
        f"{record.trial.model} (seed {record.trial.seed}) is left out: it was measured under version "
        f"{record.rules_version} of the rules, this run under version {info.rules_version}; run it again"
        for record in records
    )
