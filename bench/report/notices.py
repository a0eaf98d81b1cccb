"""What a reader has to know about the conditions of a run before believing its figures, one sentence each.

The terminal and the report say the same: both take their sentences from here.  Loads no numerical library.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.plan import QUICK_BUDGET_S
from bench.records import FINE, CorpusFacts, TrialRecord, TrialSpec
from bench.report import wording
from lmzoo.decoding import replaced_text

# from these shares on, of test lines in the training text and of test tokens that it does not have
_OVERLAP_WORTH_A_WARNING = 0.01
_OOV_WORTH_A_WARNING = 0.05
# standard errors below the entropy of its source at which a model's nats are no chance: 1 in 30,000
_BEYOND_NOISE = 4.0
_FEW_RUNS = 20
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
# in a line that has warnings of many models
_MOST_NAMES = 3


def of_run(
    plan: Sequence[TrialSpec],
    corpora: Sequence[CorpusFacts],
    records: Sequence[TrialRecord],
    *,
    in_brief: bool = False,
) -> list[str]:
    """All notices, what touches every figure first; warnings of the models themselves last.

    `in_brief`: a line for all warnings of a kind.
    """
    return list(
        dict.fromkeys(
            [
                *below_source(records),
                *about_plan(plan),
                *about_texts(corpora),
                *about_load(records),
                *about_devices(records),
                *about_other_normalizers(records),
                *(of_models_in_brief(records) if in_brief else of_models(records)),
            ]
        )
    )


def about_plan(plan: Sequence[TrialSpec]) -> list[str]:
    """That a run was a quick one."""
    if not is_quick(plan):
        return []
    return [
        f"a quick run: neural networks were trained for {QUICK_BUDGET_S:g} s only, so that their perplexities are far "
        "from what they can reach"
    ]


def is_quick(plan: Iterable[TrialSpec]) -> bool:
    """Whether networks were trained for the seconds of --quick (with a budget of its own, --quick changes nothing)."""
    return any(t.quick and t.family == "neural" and t.budget_s == QUICK_BUDGET_S for t in plan)


def about_texts(corpora: Sequence[CorpusFacts]) -> list[str]:
    """Bytes that were replaced, test lines that stand in the training text, and test tokens that it does not have."""
    place = place_in(corpora)
    found = []
    for facts in corpora:
        if facts.n_replaced:
            found.append(f"{facts.name}: {replaced_text(facts.n_replaced)}")
        if facts.test_overlap >= _OVERLAP_WORTH_A_WARNING:
            found.append(
                f"{facts.name}: {wording.percent(facts.test_overlap)} of the test lines stand verbatim in the training "
                "text; models that remember long stretches profit most"
            )
        share = oov_share(facts)
        if share >= _OOV_WORTH_A_WARNING:
            found.append(
                f"{place(facts) or facts.name}: {wording.percent(share)} of the test tokens are out of vocabulary and "
                "scored as <unk>; what a model gives <unk> is a matter of its smoothing and may make it look better or "
                "worse than it is: compare 'without OOV' too"
            )
    # two tokenizers of one text share its lines
    return list(dict.fromkeys(found))


def below_source(records: Sequence[TrialRecord]) -> list[str]:
    """Models whose perplexity no honest model can have: the text's source is known, and they are below its entropy."""
    models = list(dict.fromkeys(record.trial.model for record in records if is_below_source(record)))
    if not models:
        return []
    return [
        f"WRONG: {wording.named(models)} scored below the entropy of the source that the text was drawn from, by more "
        "than noise; that is a fault of measuring, or test text was seen in training"
    ]


def is_below_source(record: TrialRecord) -> bool:
    """Whether a trial's nats per token are more than four standard errors below the known entropy of its text."""
    measured, entropy_nats = record.measured, record.corpus.entropy_nats if record.corpus else None
    if measured is None or entropy_nats is None or record.status not in FINE:
        return False
    blocks = [(nats, n) for nats, n in zip(measured.block_nats, measured.block_tokens, strict=True) if nats is not None]
    if len(blocks) < max(len(measured.block_nats), 2):
        return False
    n_tokens = sum(n for _, n in blocks)
    excess = math.fsum(nats for nats, _ in blocks) / n_tokens - entropy_nats
    # of a ratio of sums, from what each block has more or less than its share
    rests = [nats - (entropy_nats + excess) * n for nats, n in blocks]
    # neighbours may be alike: whichever tells of more noise, single blocks or a few long runs of them
    variance = max(_variance_of_sum(rests, n_parts) for n_parts in (len(rests), min(len(rests), _FEW_RUNS)))
    return excess < -_BEYOND_NOISE * math.sqrt(variance) / n_tokens


def _variance_of_sum(rests: Sequence[float], n_parts: int) -> float:
    """Of values that sum to nothing, cut into so many runs of neighbours."""
    bounds = [len(rests) * k // n_parts for k in range(n_parts + 1)]
    squares = math.fsum(math.fsum(rests[a:b]) ** 2 for a, b in itertools.pairwise(bounds))
    return squares * n_parts / (n_parts - 1)


def oov_share(facts: CorpusFacts) -> float:
    """Test tokens that the training text does not have, 0 to 1."""
    return facts.n_test_oov / facts.n_test_tokens if facts.n_test_tokens else 0.0


def about_load(records: Iterable[TrialRecord]) -> list[str]:
    """Trials beside which the machine had more to do than it has cores."""
    # a cluster has machines of several sizes
    machines: dict[int, dict[str, float]] = {}
    for record in records:
        machine = record.environment
        if machine is None or machine.load_1min is None:
            continue
        # the load is the whole machine's, also where a trial may use a part of its CPUs
        n_machine = machine.n_cpus or machine.n_cpus_usable
        if machine.load_1min > n_machine:
            loads = machines.setdefault(n_machine, {})
            loads[record.trial.model] = max(loads.get(record.trial.model, 0.0), machine.load_1min)
    return [
        f"the machine was busy (load {load_range(list(loads.values()))} on {n_cores} cores) during "
        f"{wording.named(list(loads))}: their times, and under a budget of seconds their perplexities, may be worse "
        "than on a free machine"
        for n_cores, loads in machines.items()
    ]


def about_devices(records: Iterable[TrialRecord]) -> list[str]:
    """Trials whose device another process used."""
    models: dict[str, list[str]] = {}
    for record in records:
        if record.environment and record.environment.device_shared:
            models.setdefault(record.trial.device, []).append(record.trial.model)
    return [
        f"another process used {device} during {wording.named(list(dict.fromkeys(names)))}: their times, and under a "
        "budget of seconds their perplexities, may be worse than on a free device"
        for device, names in models.items()
    ]


def load_range(loads: Sequence[float]) -> str:
    """The lowest and the highest load, with a digit behind the point."""
    low, high = f"{min(loads):.1f}", f"{max(loads):.1f}"
    return low if low == high else f"{low} to {high}"


def of_models(records: Sequence[TrialRecord]) -> list[str]:
    """What trials warned of: each once, with the models and, where there are several texts, the text it is about."""
    place = place_in([record.corpus for record in records if record.corpus])
    models: dict[tuple[str, str], list[str]] = {}
    for record in records:
        share = record.trial.train_fraction
        where = [place(record.corpus), f"{wording.fraction(share)} of the training text" if share != 1 else ""]
        for warning in record.warnings:
            named = models.setdefault((", ".join(filter(None, where)), warning), [])
            if record.trial.model not in named:
                named.append(record.trial.model)
    return [
        f"{', '.join(map(wording.isolated, names))}{f' on {where}' if where else ''}: {warning}"
        for (where, warning), names in models.items()
    ]


def about_other_normalizers(records: Iterable[TrialRecord]) -> list[str]:
    """Models whose own vocabulary normalises the text in another way than was asked for: they read another text."""
    models: dict[tuple[str, str], list[str]] = {}
    for record in records:
        facts, asked = record.corpus, record.trial.corpus.normalize
        if facts is not None and facts.vocabulary_of and asked is not None and facts.normalize != asked:
            models.setdefault((facts.normalize, asked), []).append(record.trial.model)
    return [
        f"{wording.named(list(dict.fromkeys(names)))} read the text under the normaliser {own}, the others under "
        f"{asked}: not the same text, so no table has both; where the model was made of such text, its option "
        f"normalize={asked} says so, else run all with --normalize {own}"
        for (own, asked), names in models.items()
    ]


def of_models_in_brief(records: Sequence[TrialRecord]) -> list[str]:
    """The same with one line for all warnings of a kind: those that differ in their numbers, or end in the same.

    What a warning ends in, after a semicolon, is what follows from what it found.
    """
    kinds: dict[str, dict[str, list[str]]] = {}
    for record in records:
        for warning in record.warnings:
            models = kinds.setdefault(_NUMBER.sub("#", warning.rpartition("; ")[2]), {}).setdefault(warning, [])
            models.append(record.trial.model)
    n_lines = len(of_models(records))
    return of_models(records) if n_lines <= len(kinds) else [_brief(found) for found in kinds.values()]


def _brief(found: Mapping[str, Sequence[str]]) -> str:
    """Warnings of one kind, by their text, with the models that gave them."""
    texts = list(found)
    n_given = sum(map(len, found.values()))
    names = list(dict.fromkeys(itertools.chain.from_iterable(found.values())))
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    said = texts[0]
    if len(texts) > 1:
        ends = {text.rpartition("; ")[2] for text in texts}
        said = ends.pop() if len(ends) == 1 else f"{said}, and the like"
    times = f" ({n_given} such warnings, each in report.md)" if n_given > 1 else ""
    return f"{wording.named(names)}: {said}{times}"


def place_in(corpora: Iterable[CorpusFacts]) -> Callable[[CorpusFacts | None], str]:
    """How to name a text among these, its tokenizer included where that differs; empty where there is only one."""
    known = set(corpora)
    names, tokenizers = {facts.name for facts in known}, {facts.tokenizer for facts in known}

    def place(facts: CorpusFacts | None) -> str:
        if facts is None or (len(names) < 2 and len(tokenizers) < 2):
            return ""
        return f"{facts.name} ({facts.tokenizer})" if len(tokenizers) > 1 else facts.name

    return place
