"""How many configurations were measured on each test text: the best of many looks better than it is."""

from __future__ import annotations

from collections.abc import Iterable

from bench.records import TrialRecord
from bench.report.reading import Run

# what can be chosen by looking at the test text; seeds and devices repeat a choice
_CHOSEN = {"spec", "options", "corpus", "train_fraction", "budget_s", "epochs", "max_steps"}


def configurations(run: Run) -> list[str]:
    """For each text, how many this run measured, and how many with what else lies in its folder."""
    planned = {trial.trial_id for trial in run.info.plan}
    own = _by_text(record for record in run.records if record.trial.trial_id in planned)
    ever = _by_text([*run.records, *run.earlier])
    lines = []
    for text, all_keys in ever.items():
        keys = own.get(text, set())
        more = f", {len(all_keys)} with earlier runs in this folder" if len(all_keys) > len(keys) else ""
        lines.append(f"{text[0]}: {len(keys)}{more}")
    return lines


def _by_text(records: Iterable[TrialRecord]) -> dict[tuple[str, str], set[str]]:
    """The configurations whose test perplexity was seen, by name and sha256 of the text."""
    found: dict[tuple[str, str], set[str]] = {}
    for record in records:
        if record.measured is not None and record.corpus is not None:
            text = (record.corpus.name, record.corpus.sha256)
            found.setdefault(text, set()).add(record.trial.model_dump_json(include=_CHOSEN))
    return found
