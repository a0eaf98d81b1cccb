"""A run's folder, read: `run.json` and the records of its trials, whatever state they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.records import SCHEMA_VERSION, RunInfo, TrialRecord, TrialSpec
from bench.sealed import read_json, read_record, schema_version
from bench.store import TRIALS
from lmzoo.errors import CorruptFileError, InputError, NewerFileError

UNREADABLE = "record unreadable"
OF_ANOTHER = "record is of another trial"
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
    Of a run without text the records hold none, whoever wrote them.
    """

    info: RunInfo
    records: tuple[TrialRecord, ...]
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]
    earlier: tuple[TrialRecord, ...] = ()


def read_run(folder: Path) -> Run:
    """Read a run's folder.

    Raises `InputError` where there is no run, or none of the records that it planned can be looked for, and
    `NewerFileError` for one that a newer version wrote.  A record that cannot be read, or that is of another trial than
    its file, is no error: it becomes a `Missing`.
    """
    info = _read_info(folder)
    plan = {trial.trial_id: trial for trial in info.plan}
    names = _names_in(folder, info)
    files = {name.removesuffix(".json"): folder / TRIALS / name for name in names if name.endswith(".json")}
    set_aside = {name.removesuffix(".json.bad") for name in names if name.endswith(".json.bad")}
    records, missing, other_rules = [], [], []
    for trial_id in [*plan, *sorted((files.keys() | set_aside) - plan.keys())]:
        record = _read_record(files[trial_id]) if trial_id in files else None
        if record is None:
            reason = UNREADABLE if trial_id in files or trial_id in set_aside else NOT_RUN
            missing.append(Missing(trial_id=trial_id, trial=plan.get(trial_id), reason=reason))
        elif not _is_of(record, trial_id, plan):
            missing.append(Missing(trial_id=trial_id, trial=plan.get(trial_id), reason=OF_ANOTHER))
        elif record.rules_version != info.rules_version:
            other_rules.append(record)
        else:
            records.append(record)
    aside = _set_aside(folder / TRIALS)
    texts = _about_texts([*records, *other_rules, *aside]) if info.no_text else ()
    if info.no_text:
        records = list(map(_without_text, records))
    kept, doubles = _without_doubles(records)
    warnings = (*_about_other_rules(info, other_rules), *map(_about_double, doubles), *texts)
    earlier = (*other_rules, *doubles, *aside)
    return Run(info=info, records=kept, missing=tuple(missing), warnings=warnings, earlier=earlier)


def _names_in(folder: Path, info: RunInfo) -> list[str]:
    """The files of the trials.  Without any folder of them nothing is known of a plan, not even that it did not run."""
    try:
        return sorted(path.name for path in (folder / TRIALS).iterdir())
    except OSError as error:
        if not info.plan:
            return []
        raise InputError(
            f"{folder} is no whole run: {TRIALS}, the folder with the records of its {len(info.plan)} trials: "
            f"{error.strerror or error}; put it back, or make the run again"
        ) from error


def _is_of(record: TrialRecord, trial_id: str, plan: Mapping[str, TrialSpec]) -> bool:
    """Whether a record is of the trial that its file is named after, and of the content that was planned for it."""
    planned = plan.get(trial_id, record.trial)
    return (record.trial.trial_id, record.trial.content_key) == (trial_id, planned.content_key)


def _without_text(record: TrialRecord) -> TrialRecord:
    if record.measured is None or record.measured.profile is None:
        return record
    profile = record.measured.profile.without_text()
    return record.model_copy(update={"measured": record.measured.model_copy(update={"profile": profile})})


def _about_texts(records: Sequence[TrialRecord]) -> tuple[str, ...]:
    """That files of a run without text hold some all the same, from an earlier one in the same folder."""
    n = sum(record != _without_text(record) for record in records)
    if not n:
        return ()
    return (
        f"{n} of the records in {TRIALS}/ hold text, from an earlier run in this folder that was made with it: before "
        "the folder is given away, make the run anew with --force",
    )


def _set_aside(folder: Path) -> list[TrialRecord]:
    """The readable ones among the records that made room for others."""
    paths = sorted([*folder.glob("*.json.before-*"), *folder.glob("*.json.outdated-*")])
    return [record for path in paths if (record := _read_record(path)) is not None]


def _read_info(folder: Path) -> RunInfo:
    try:
        data = read_json(folder / "run.json")
    except (OSError, CorruptFileError) as error:
        why = "run.json is not there" if isinstance(error, FileNotFoundError) else error
        raise InputError(f"{folder} is no run: {why}; give a folder that python -m bench.run wrote") from error
    if (version := schema_version(data)) > SCHEMA_VERSION:
        raise NewerFileError(
            f"{folder} was written in schema {version}, this version reads up to {SCHEMA_VERSION}; update lmzoo"
        )
    try:
        return RunInfo.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "run.json"
        raise InputError(f"{folder} is no run: run.json, {where}: {first['msg']}; make the run again") from error


def _read_record(path: Path) -> TrialRecord | None:
    """The record of a file, or None when it cannot be used (cut short, altered, no regular file)."""
    try:
        return read_record(path)
    except (FileNotFoundError, CorruptFileError):
        return None
    except NewerFileError as error:
        raise NewerFileError(f"{path.parent.parent}: {error}; update lmzoo") from error


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
