"""Rows and groups: trials of one model under several seeds become a row; only rows of one group are compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.environment import text_name
from bench.records import FINE, CorpusFacts, Measured, RunInfo, Status, TrialRecord, TrialSpec
from bench.report import wording
from bench.report.reading import Missing, Run
from bench.stats import (
    Floats,
    Interval,
    PairTest,
    Verdict,
    cost_interval,
    holm,
    over_seeds,
    paired_test,
    perplexity_interval,
)

Number = float | int


@dataclass(frozen=True, kw_only=True)
class Group:
    """What must be equal for two rows to be ranked together or tested against each other."""

    corpus: str
    normalize: str
    tokenizer: str
    documents: str
    train_fraction: float
    sha256: str
    vocab_fingerprint: str
    rules_version: int
    # the model that brought this vocabulary with it, where one did
    vocabulary_of: str = ""

    @property
    def title(self) -> str:
        """The group in words, for headings."""
        normalised = "not normalised" if self.normalize == "none" else f"normalised with {self.normalize}"
        parts = [part for part in (self.tokenizer, self.normalize and normalised) if part]
        if self.vocabulary_of:
            parts.insert(0, f"the vocabulary of {wording.isolated(self.vocabulary_of)}")
        if self.documents:
            parts.append(f"a document per {self.documents}" if self.documents != "running" else "running text")
        if self.train_fraction != 1:
            parts.append(f"{wording.fraction(self.train_fraction)} of the training text")
        return f"{self.corpus} ({', '.join(parts)})" if parts else self.corpus


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model on one device in one group: all its seeds."""

    model: str
    family: str
    device: str
    group: Group
    trials: tuple[TrialSpec, ...]
    records: tuple[TrialRecord, ...]
    status: Status
    reason: str
    is_reused: bool

    @cached_property
    def fine(self) -> tuple[TrialRecord, ...]:
        """The records whose figures count: failed trials lend none of theirs."""
        return tuple(record for record in self.records if record.status in FINE and record.measured is not None)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        return tuple(record.measured for record in self.fine if record.measured is not None)

    @property
    def status_in_words(self) -> str:
        """`timed out` for `timed_out`."""
        return self.status.replace("_", " ")

    @property
    def kinds(self) -> str:
        """Words by which a reader may ask for it beside its name: its family, and whether it is adaptive."""
        return f"{self.family} adaptive" if self.is_adaptive else self.family

    @property
    def is_trained(self) -> bool:
        """Whether a training stands behind it, which compressors and models of files have not."""
        return self.family != "coder" and not any("train_s" in m.absent for m in self.measured)

    @property
    def is_read(self) -> bool:
        """Whether it was read from a file: how much of the training text there is, is nothing to it."""
        return self.family != "coder" and not self.is_trained

    @property
    def is_adaptive(self) -> bool:
        return any(record.is_adaptive for record in self.records)

    @cached_property
    def test_perplexity(self) -> float | None:
        """exp of the nats per token, averaged over seeds: the geometric mean of the seeds' perplexities."""
        return geometric_mean(m.test.perplexity.number for m in self.measured)

    @cached_property
    def test_perplexity_no_oov(self) -> float | None:
        """The same over the tokens that are in the vocabulary."""
        return geometric_mean(m.test.perplexity_no_oov.number for m in self.measured)

    @property
    def is_ranked(self) -> bool:
        """Ranked with others: a perplexity (infinite counts), and no seed that failed."""
        return self.status == "ok" and self.test_perplexity is not None

    @cached_property
    def block_nats_SxB(self) -> Floats:
        return self.per_seed("block_nats")

    @cached_property
    def block_tokens(self) -> tuple[int, ...]:
        return self.measured[0].block_tokens

    @cached_property
    def interval(self) -> Interval | None:
        """95 % interval of the test perplexity."""
        if not self.is_measured_alike or self.test_perplexity is None:
            return None
        return perplexity_interval(self.block_nats_SxB, np.array(self.block_tokens, np.float64))

    @cached_property
    def interval_no_oov(self) -> Interval | None:
        """95 % interval of the perplexity over the tokens that are in the vocabulary."""
        if self.test_perplexity_no_oov is None or not self.is_measured_alike:
            return None
        if not any(m.test.n_oov for m in self.measured):
            return self.interval
        tokens_B = np.array(self.measured[0].block_known_tokens, np.float64)
        has_known = all(m.block_known_tokens for m in self.measured)
        return perplexity_interval(self.per_seed("block_known_nats"), tokens_B) if has_known else None

    @cached_property
    def interval_bits_per_char(self) -> Interval | None:
        """95 % interval of the bits per character."""
        return self._bits_interval("block_chars")

    @cached_property
    def interval_bits_per_byte(self) -> Interval | None:
        """95 % interval of the bits per byte."""
        return self._bits_interval("block_bytes")

    def _bits_interval(self, sizes: str) -> Interval | None:
        """That of nats and spelling over a size; None where the records do not hold it (schema 1) or there is none."""
        if not self.is_measured_alike or not all(getattr(m, sizes) for m in self.measured):
            return None
        bits_SxB = (self.block_nats_SxB + self.per_seed("block_spelling_nats")) / math.log(2)
        return cost_interval(bits_SxB, np.array(getattr(self.measured[0], sizes), np.float64))

    def per_seed(self, name: str) -> Floats:
        rows = [[math.inf if nats is None else nats for nats in getattr(m, name)] for m in self.measured]
        return np.array(rows, np.float64)

    @property
    def is_measured_alike(self) -> bool:
        """Every seed has the same blocks, and there are some."""
        shapes = {(m.block_tokens, len(m.block_nats)) for m in self.measured}
        return len(shapes) == 1 and all(n_blocks == len(tokens) > 0 for tokens, n_blocks in shapes)


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Two rows of a device, and what a paired test over the same text says of them."""

    device: str
    a: Row
    b: Row
    test: PairTest
    p_holm: float | None

    @property
    def verdict(self) -> Verdict:
        return self.test.verdict(self.p_holm)


@dataclass(frozen=True, kw_only=True)
class Pair(Tested):
    """Two rows of a group, tested on the same blocks."""

    group: Group


def rows_of(run: Run) -> list[Row]:
    """The rows of a run, in the order of its plan."""
    entries: dict[tuple[str, Group, str], list[TrialRecord | Missing]] = {}
    for item in _in_plan_order(run):
        entries.setdefault(_key_of(item, run), []).append(item)
    return [
        _row(model, group, device, items, set(run.info.reused)) for (model, group, device), items in entries.items()
    ]


def groups_of(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """Rows by group, groups in the order of their first row."""
    groups: dict[Group, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return groups


def ranked(rows: Iterable[Row]) -> list[Row]:
    """The rows that may be ranked, lowest perplexity first."""
    return sorted((row for row in rows if row.is_ranked), key=lambda r: (r.test_perplexity, r.model, r.device))


def ranked_first(rows: Sequence[Row]) -> list[Row]:
    """The ranked rows, lowest perplexity first, and then the others as they come."""
    return [*ranked(rows), *[row for row in rows if not row.is_ranked]]


def pairs_of(rows: Sequence[Row]) -> list[Pair]:
    """Every pair of ranked rows of one group, tested and corrected together (Holm).

    A pair belongs to a device: both ran there, or one of them ran on the CPU only (counting models have no other).
    Rows whose blocks differ were not measured on the same tokens and make no pair.
    """
    found = [
        (device, a, b, paired_test(a.block_nats_SxB, b.block_nats_SxB, np.array(a.block_tokens, np.float64)))
        for device, a, b in contests_of([row for row in rows if row.is_ranked and row.is_measured_alike])
        if a.block_tokens == b.block_tokens
    ]
    corrected = holm([test.p for *_, test in found])
    return [
        Pair(group=a.group, device=device, a=a, b=b, test=test, p_holm=p)
        for (device, a, b, test), p in zip(found, corrected, strict=True)
    ]


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """exp of the mean of the logarithms of positive numbers (inf stays inf); None without any."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    # one value comes back as it is: exp(log(x)) would change its last digit
    return known[0] if len(set(known)) == 1 else math.exp(math.fsum(map(math.log, known)) / len(known))


def mean(values: Iterable[Number | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def median(values: Iterable[Number | None]) -> Number | None:
    """The median; of an even number of integers, rounded down, since half a byte means nothing."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    return (low + high) // 2 if isinstance(low, int) and isinstance(high, int) else (low + high) / 2


def typical(values: Iterable[Number | None]) -> float | None:
    """One time or rate for several seeds: the median, from 5 seeds on the mean without the fastest and the slowest."""
    known = [value for value in values if value is not None]
    return over_seeds(known) if known else None


def of_measured(row: Row, value: Callable[[Measured], Number | None]) -> list[Number | None]:
    """One value of each seed that was measured."""
    return [value(measured) for measured in row.measured]


def contests_of(rows: Sequence[Row]) -> list[tuple[str, Row, Row]]:
    """Every two rows that may be set against each other, and the device on which: see `pairs_of`."""
    devices = sorted({row.device for row in rows})
    by_model: dict[tuple[str, Group], dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault((row.model, row.group), {})[row.device] = row
    contests = []
    for device in devices:
        present = [on.get(device) or on.get("cpu") for on in by_model.values()]
        for a, b in itertools.combinations([row for row in present if row is not None], 2):
            if device in (a.device, b.device):
                contests.append((device, a, b))
    return contests


def _in_plan_order(run: Run) -> list[TrialRecord | Missing]:
    items: dict[str, TrialRecord | Missing] = {record.trial.trial_id: record for record in run.records}
    items.update({missing.trial_id: missing for missing in run.missing})
    planned = [trial.trial_id for trial in run.info.plan if trial.trial_id in items]
    return [items[trial_id] for trial_id in [*planned, *sorted(items.keys() - set(planned))]]


def _key_of(item: TrialRecord | Missing, run: Run) -> tuple[str, Group, str]:
    trial = item.trial
    if trial is None:
        # a set-aside file of a trial that the plan does not know: its name is all there is
        facts = run.info.corpora[0] if len(run.info.corpora) == 1 else None
        return str(getattr(item, "trial_id", "")), _group(facts, None, run.info), "cpu"
    facts = item.corpus if isinstance(item, TrialRecord) and item.corpus else _facts_for(trial, run)
    return trial.model, _group(facts, trial, run.info), trial.device


def _facts_for(trial: TrialSpec, run: Run) -> CorpusFacts | None:
    """What a trial that never got so far would have read: as another trial of its corpus did, or as planned."""
    for record in run.records:
        other = record.trial
        if record.corpus and (other.corpus, other.corpus_sha256, other.train_fraction) == (
            trial.corpus,
            trial.corpus_sha256,
            trial.train_fraction,
        ):
            return record.corpus
    asked = {
        "tokenizer": trial.corpus.tokens,
        "normalize": trial.corpus.normalize,
        "documents": trial.corpus.documents,
    }
    for facts in run.info.corpora:
        fits = all(value is None or getattr(facts, name) == value for name, value in asked.items())
        if facts.sha256 == trial.corpus_sha256 and fits:
            return facts
    return None


def _group(facts: CorpusFacts | None, trial: TrialSpec | None, info: RunInfo) -> Group:
    fraction = trial.train_fraction if trial else 1.0
    if facts is not None:
        return Group(
            **{name: getattr(facts, name) for name in ("normalize", "tokenizer", "documents", "sha256")},
            corpus=facts.name,
            vocab_fingerprint=facts.vocab_fingerprint,
            vocabulary_of=facts.vocabulary_of or "",
            train_fraction=fraction,
            rules_version=info.rules_version,
        )
    spec = trial.corpus if trial else None
    return Group(
        corpus=(spec and text_name(spec)) or "unknown",
        normalize=(spec and spec.normalize) or "",
        tokenizer=(spec and spec.tokens) or "",
        documents=(spec and spec.documents) or "",
        train_fraction=fraction,
        sha256=trial.corpus_sha256 if trial else "",
        vocab_fingerprint="",
        rules_version=info.rules_version,
    )


def _row(model: str, group: Group, device: str, items: Sequence[TrialRecord | Missing], reused: set[str]) -> Row:
    records = tuple(item for item in items if isinstance(item, TrialRecord))
    trials = tuple(item.trial for item in items if item.trial is not None)
    status, reason = _outcome(items)
    return Row(
        model=model,
        family=trials[0].family if trials else "",
        device=device,
        group=group,
        trials=trials,
        records=records,
        status=status,
        reason=reason,
        is_reused=any(trial.trial_id in reused for trial in trials),
    )


def _outcome(items: Sequence[TrialRecord | Missing]) -> tuple[Status, str]:
    """The status of a row: its worst seed's, so that no failure hides behind the seeds that went well."""
    outcomes: list[tuple[Status, str, int]] = [
        (item.status, item.reason or "", item.trial.seed)
        if isinstance(item, TrialRecord)
        else ("failed", item.reason, item.trial.seed if item.trial else 0)
        for item in items
    ]
    status, reason, _ = min(outcomes, key=lambda o: (o[0] in FINE, o[0] == "ok"))
    if status in FINE or len(outcomes) == 1:
        return status, reason
    failed = [(seed, why) for one, why, seed in outcomes if one not in FINE]
    seeds = ", ".join(str(seed) for seed, _ in failed)
    which = "seeds" if len(failed) > 1 else "seed"
    return status, f"{len(failed)} of {len(outcomes)} seeds failed ({which} {seeds}): {reason}"
