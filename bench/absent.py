"""Why a figure of the test text is missing, in the words of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bench.records import FINE, Figure, TallyRecord, TrialRecord
from bench.report import wording

Pick = Callable[[TallyRecord], Figure]


def why_absent(records: Sequence[TrialRecord], what: str, pick: Pick) -> list[str]:
    """Each reason once, with the models where it is not that of all; infinite figures are there."""
    named: dict[str, list[str]] = {}
    models = dict.fromkeys(_name(record) for record in _measured(records))
    for record in _measured(records):
        figure = pick(record.measured.test) if record.measured else None
        if figure is not None and figure.number is None:
            names = named.setdefault(figure.reason or "", [])
            if _name(record) not in names:
                names.append(_name(record))
    return [
        f"{what} n/a{'' if len(names) == len(models) else f' ({wording.listed(names)})'}: {reason}"
        for reason, names in named.items()
    ]


def _measured(records: Sequence[TrialRecord]) -> Iterable[TrialRecord]:
    return (record for record in records if record.status in FINE and record.measured is not None)


def _name(record: TrialRecord) -> str:
    return f"{record.trial.model}{'*' if record.is_adaptive else ''}"
