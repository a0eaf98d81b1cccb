"""Where the figures of a report come from: what was asked, by which command, on which machine, of which text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.records import CorpusFacts, Environment, RunInfo, TrialSpec
from bench.report import notices, wording
from bench.report.limits import length_of, memory_limit, networks_of, time_limit
from bench.report.reading import Run
from bench.report.sheets import Sheet
from bench.report.tried import configurations

# how a text may have been read in several ways
_READINGS = ("tokenizer", "normalize", "documents")


def provenance_sheets(run: Run) -> list[Sheet]:
    """What was asked, the run and its machines, and a table for each text."""
    info = run.info
    rows = [
        ("command, absolute paths cut to names", info.command),
        ("run", f"{info.run_id}, started {info.started_utc}"),
        ("rules of measuring", f"version {info.rules_version} (records: schema {info.schema_version})"),
        ("configurations measured on each test text", "; ".join(configurations(run)) or wording.NOT_AVAILABLE),
        ("reused records", _reused(info)),
        *_machine(info.environment),
        *_other_machines(run),
        *_load(run),
        ("thread variables of the trials", _thread_variables(run)),
    ]
    sheets = [_pairs_sheet("what was asked", _asked(info)), _models(info), _pairs_sheet("run and machine", rows)]
    corpora = corpora_of(run)
    return [*sheets, *[_corpus_sheet(facts, corpora) for facts in corpora]]


def _asked(info: RunInfo) -> list[tuple[str, str]]:
    """The plan in words: a command line may name a file, or leave to defaults, what decided the figures."""
    plan = info.plan
    networks = networks_of(plan)
    seeds = sorted({trial.seed for trial in networks})
    quick = " (--quick)" if notices.is_quick(plan) else ""
    rows = [
        ("trials", f"{len(plan):,}"),
        ("models", _each(wording.isolated(trial.model) for trial in plan)),
        ("devices", _each(trial.device for trial in plan)),
        ("training of each network", f"{_each(map(length_of, networks))}{quick}"),
        ("seeds of each network", f"{len(seeds)} ({_each(map(str, seeds))})" if seeds else ""),
        ("fractions of the training text", _each(map(wording.fraction, info.train_fractions))),
        ("targets given", _each(f"perplexity {level:g}" for level in info.target_perplexities)),
        ("executor", info.executor),
        ("threads per trial", str(info.threads)),
        ("time limit of each trial", _limits(plan, time_limit)),
        ("memory limit of each trial", _limits(plan, memory_limit)),
    ]
    return [(what, value or wording.NOT_AVAILABLE) for what, value in rows]


def _each(values: Iterable[str]) -> str:
    """Different values, in the order in which they come."""
    return ", ".join(dict.fromkeys(values))


def _limits(plan: Sequence[TrialSpec], of: Callable[[TrialSpec], str]) -> str:
    """Limits of all trials; where those of networks, whose training needs time, are others, they stand apart."""
    trained, others = _each(map(of, networks_of(plan))), _each(of(trial) for trial in plan if trial.family != "neural")
    return f"{others}; of networks {trained}" if trained and others and trained != others else trained or others


def _models(info: RunInfo) -> Sheet:
    """What each model is, and every option that it had, those typed and those that it took by itself."""
    models = {trial.model: trial for trial in info.plan}
    rows = [
        (wording.isolated(name), info.descriptions.get(name, ""), _options(trial.options))
        for name, trial in models.items()
    ]
    return Sheet(
        caption="models",
        headers=("model", "what it is", "options"),
        align="lll",
        rows=rows,
        notes=["options that are off (none, false or 0) are left out; run.json has all"],
    )


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(
        name if value is True else f"{name}={value}" for name, value in options.items() if value and value != "none"
    )


def _machine(environment: Environment) -> list[tuple[str, str]]:
    memory = wording.size(environment.memory_total_bytes)
    commit = environment.git_commit or wording.NOT_AVAILABLE
    rows = [
        ("code", f"git {commit}{uncommitted(environment)}"),
        ("machine", f"{environment.cpu_model}, {environment.n_cpus_usable} cores usable, {memory} memory"),
        ("system", f"{environment.platform}, Python {environment.python}"),
        ("libraries", ", ".join(f"{name} {version}" for name, version in sorted(environment.versions.items()))),
    ]
    if environment.gpu:
        parts = [("driver", environment.driver), ("CUDA", environment.cuda), ("cuDNN", environment.cudnn)]
        rows.append(("GPU", ", ".join([environment.gpu, *[f"{name} {value}" for name, value in parts if value]])))
    return rows


def uncommitted(environment: Environment) -> str:
    """What stands behind the commit of code that differs from it."""
    return " with uncommitted changes" if environment.git_dirty else ""


def _reused(info: RunInfo) -> str:
    """How many records were there already, and whose."""
    models = dict.fromkeys(wording.isolated(trial.model) for trial in info.plan if trial.trial_id in info.reused)
    return f"{len(info.reused)} of {len(info.plan)}{f': {_each(models)}' if models else ''}"


def _other_machines(run: Run) -> list[tuple[str, str]]:
    """Where trials ran on another machine, or with other code, than the run that this report is of."""
    own = dict(_machine(run.info.environment))
    found: dict[tuple[str, str], list[str]] = {}
    for record in run.records:
        machine = _machine(record.environment) if record.environment else []
        for what, value in machine:
            if own.get(what) != value:
                found.setdefault((what, value), []).append(wording.isolated(record.trial.model))
    return [(f"{what} of {_each(models)}", value) for (what, value), models in found.items()]


def _thread_variables(run: Run) -> str:
    machines = [record.environment for record in run.records if record.environment]
    found = {f"{name}={value}" for machine in machines for name, value in machine.thread_variables.items()}
    return ", ".join(sorted(found)) or wording.NOT_AVAILABLE


def _load(run: Run) -> list[tuple[str, str]]:
    loads = [r.environment.load_1min for r in run.records if r.environment and r.environment.load_1min is not None]
    return [("load while trials ran", f"{notices.load_range(loads)} (mean of a minute)")] if loads else []


def corpora_of(run: Run) -> list[CorpusFacts]:
    """What was read, those of the trials included; a text of which a fraction was learned from stands there whole."""
    found = [*run.info.corpora, *[record.corpus for record in run.records if record.corpus]]
    whole: dict[CorpusFacts, CorpusFacts] = {}
    for facts in found:
        whole.setdefault(facts.model_copy(update={"n_train_tokens": 0, "n_train_documents": 0}), facts)
    return list(whole.values())


def _corpus_sheet(facts: CorpusFacts, corpora: Sequence[CorpusFacts]) -> Sheet:
    """What is known of a text; its caption has what tells it from the others of its name."""
    alike = [other for other in corpora if other.name == facts.name]
    own = [str(getattr(facts, key)) for key in _READINGS if len({getattr(other, key) for other in alike}) > 1]
    if facts.vocabulary_of:
        own.append(f"the vocabulary of {wording.isolated(facts.vocabulary_of)}")
    rows = [
        ("sha256", facts.sha256),
        ("vocabulary", f"{facts.n_symbols:,} predictable symbols, min_freq {facts.min_freq}"),
        ("vocabulary fingerprint", facts.vocab_fingerprint),
        ("tokens, normaliser, documents", f"{facts.tokenizer}, {facts.normalize}, {facts.documents}"),
        (
            "tokens in training, validation, test",
            f"{facts.n_train_tokens:,}, {facts.n_valid_tokens:,}, {facts.n_test_tokens:,}",
        ),
        ("out of vocabulary in test", f"{facts.n_test_oov:,}"),
        ("test lines found in training", wording.percent(facts.test_overlap)),
        ("blank lines skipped, literal markers", f"{facts.n_blank_lines:,}, {facts.n_markers:,}"),
        ("characters changed by normal forms, invalid bytes", f"{facts.n_normalized:,}, {facts.n_replaced:,}"),
    ]
    told = f" ({', '.join(own)})" if own else ""
    return _pairs_sheet(f"corpus {facts.name}{told}", rows)


def _pairs_sheet(caption: str, rows: Sequence[tuple[str, str]]) -> Sheet:
    return Sheet(caption=caption, headers=("what", "value"), align="ll", rows=rows)
