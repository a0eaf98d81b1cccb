"""What two runs were asked and where they were made, as far as these differ: each difference once, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.comparing.conditions import commit_of, machines_of
from bench.comparing.naming import few_of, shortened
from bench.environment import THREAD_VARIABLES
from bench.records import CorpusFacts, Environment, TrialSpec
from bench.report import notices, wording
from bench.report.limits import length_of, memory_limit, networks_of, time_limit
from bench.report.reading import Run
from bench.report.rows import Row
from lmzoo.catalogue import PACKAGES_SHA256

# what a name stands for, by the options that hold a hash of it
FILE_OPTIONS = {
    "sha256": "the file or folder that it is read from",
    PACKAGES_SHA256: "the code of the package it comes from",
}
_NONE = "none"
_NOT_THERE = "not there"

Value = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that is not the same in both runs."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: from {self.before} to {self.after}"


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A run with the trials of its plan whose models the other run has too."""

    run: Run
    plan: Sequence[TrialSpec]


def configuration_differences(runs: tuple[Run, Run]) -> list[Difference]:
    """What was asked of the runs: models, texts and how they are read, options, limits, seeds, threads."""
    models = [_in_order(trial.model for trial in run.info.plan) for run in runs]
    shared = [model for model in models[0] if model in models[1]]
    first, second = (_Side(run=run, plan=[trial for trial in run.info.plan if trial.model in shared]) for run in runs)
    texts = [_in_order(facts.name for facts in run.info.corpora) for run in runs]
    return [
        *_lacking("models", models),
        *_lacking("texts", texts),
        *_differing(_ASKED, first, second),
        *_of_texts([name for name in texts[0] if name in texts[1]], runs),
        *_of_options(shared, first, second),
    ]


def row_differences(before: tuple[Run, Row], after: tuple[Run, Row]) -> list[Difference]:
    """What was asked of a row in two runs that its name does not tell: training, seeds, threads, options, files."""
    first, second = (_Side(run=run, plan=row.trials) for run, row in (before, after))
    a, b = (_options_of(before[1].model, side.plan) for side in (first, second))
    return [
        *_differing(_ASKED_OF_A_ROW, first, second),
        *_unequal((FILE_OPTIONS.get(name, name), _option(name, a), _option(name, b)) for name in _in_order([*a, *b])),
    ]


def _option(name: str, options: Mapping[str, str]) -> str:
    value = options.get(name, _NOT_THERE)
    return shortened(value) if name in FILE_OPTIONS else value


def environment_differences(runs: tuple[Run, Run]) -> list[Difference]:
    """Where the runs were made: processor, system, libraries, code, load, as the records of their trials say."""
    first, second = map(_environment_of, runs)
    return list(_unequal((what, first.get(what, _NONE), second.get(what, _NONE)) for what in first | second))


def _lacking(what: str, names: Sequence[Sequence[str]]) -> Iterator[Difference]:
    """What one run has and the other has not."""
    only = [[name for name in own if name not in other] for own, other in (names, names[::-1])]
    if any(only):
        before, after = (few_of(some) if some else _NONE for some in only)
        yield Difference(what=f"{what} that the other run lacks", before=before, after=after)


def _differing(values: Mapping[str, Callable[[_Side], str]], a: _Side, b: _Side) -> Iterator[Difference]:
    return _unequal((what, value(a), value(b)) for what, value in values.items())


def _unequal(values: Iterable[tuple[str, str, str]]) -> Iterator[Difference]:
    for what, before, after in values:
        if before != after:
            yield Difference(what=what, before=before, after=after)


_ASKED: Mapping[str, Callable[[_Side], str]] = {
    "training of each network": lambda side: _each(map(length_of, networks_of(side.plan))),
    "seeds of each network": lambda side: _each(str(trial.seed) for trial in networks_of(side.plan)),
    "quick run": lambda side: "yes" if side.run.info.quick else "no",
    "devices": lambda side: _each(trial.device for trial in side.plan),
    "fractions of the training text": lambda side: _each(map(wording.fraction, side.run.info.train_fractions)),
    "targets given": lambda side: _each(f"{level:g}" for level in side.run.info.target_perplexities),
    "executor": lambda side: side.run.info.executor,
    "threads per trial": lambda side: str(side.run.info.threads),
    "time limit of each trial": lambda side: _each(map(time_limit, side.plan)),
    "memory limit of each trial": lambda side: _each(map(memory_limit, side.plan)),
    "rules of measuring": lambda side: f"version {side.run.info.rules_version}",
}

_ASKED_OF_A_ROW: Mapping[str, Callable[[_Side], str]] = {
    "training": _ASKED["training of each network"],
    "seeds": _ASKED["seeds of each network"],
    "threads": _ASKED["threads per trial"],
}

_TEXT: Mapping[str, Callable[[CorpusFacts], str]] = {
    "sha256": lambda facts: shortened(facts.sha256),
    "tokens": lambda facts: facts.tokenizer,
    "normaliser": lambda facts: facts.normalize,
    "documents": lambda facts: facts.documents,
    "min_freq": lambda facts: str(facts.min_freq),
    "vocabulary": lambda facts: f"{facts.n_symbols:,} symbols ({shortened(facts.vocab_fingerprint)})",
    "tokens in training, validation, test": lambda facts: " / ".join(
        f"{n:,}" for n in (facts.n_train_tokens, facts.n_valid_tokens, facts.n_test_tokens)
    ),
}

_MACHINE: Mapping[str, Callable[[Environment], str | None]] = {
    "processor": lambda machine: machine.cpu_model,
    "CPUs usable": lambda machine: str(machine.n_cpus_usable),
    "memory": lambda machine: wording.size(machine.memory_total_bytes),
    "system": lambda machine: machine.platform,
    "GPU": lambda machine: machine.gpu,
    "driver": lambda machine: machine.driver,
    "CUDA": lambda machine: machine.cuda,
    "cuDNN": lambda machine: machine.cudnn,
    "Python": lambda machine: machine.python,
    "commit": commit_of,
}


def _of_texts(names: Sequence[str], runs: tuple[Run, Run]) -> Iterator[Difference]:
    """How texts of one name were read, where that differs."""
    for name in names:
        first, second = ([facts for facts in run.info.corpora if facts.name == name] for run in runs)
        yield from _unequal(
            (f"{what} of {wording.isolated(name)}", _each(map(value, first), "; "), _each(map(value, second), "; "))
            for what, value in _TEXT.items()
        )


def _of_options(models: Sequence[str], first: _Side, second: _Side) -> Iterator[Difference]:
    """Options of models of one name, as resolved: what is the same change in several models stands once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for model in models:
        values = [_options_of(model, side.plan) for side in (first, second)]
        for option in _in_order(option for own in values for option in own):
            before, after = (own.get(option, _NOT_THERE) for own in values)
            if before != after and option not in FILE_OPTIONS:
                found.setdefault((option, before, after), []).append(model)
    for (option, before, after), changed in found.items():
        yield Difference(what=f"{option} of {few_of(changed)}", before=before, after=after)


def _options_of(model: str, plan: Sequence[TrialSpec]) -> dict[str, str]:
    """Each option of a model with the values that its trials have."""
    options: dict[str, list[str]] = {}
    for trial in plan:
        if trial.model == model:
            for option, value in trial.options.items():
                options.setdefault(option, []).append(_shown(value))
    return {option: _each(values) for option, values in options.items()}


def _shown(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return {None: _NONE, True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else wording.isolated(str(value))


def _environment_of(run: Run) -> dict[str, str]:
    """What is known of the machines that a run's trials had, by what it is of."""
    machines = machines_of(run)
    libraries = sorted({name for machine in machines for name in machine.versions})
    variables = sorted({name for machine in machines for name in machine.thread_variables} - set(THREAD_VARIABLES))
    codes = (shortened(trial.code_sha256) for trial in run.info.plan if trial.code_sha256)
    loads = [machine.load_1min for machine in machines if machine.load_1min is not None]
    return {
        **{what: _each(filter(None, map(value, machines))) for what, value in _MACHINE.items()},
        "sources (sha256)": _each(codes),
        **{name: _each(m.versions[name] for m in machines if name in m.versions) for name in libraries},
        **{name: _each(m.thread_variables.get(name, _NONE) for m in machines) for name in variables},
        "load while trials ran": notices.load_range(loads) if loads else _NONE,
    }


def _each(values: Iterable[str], between: str = ", ") -> str:
    """Different values, in the order in which they come."""
    return between.join(_in_order(value for value in values if value)) or _NONE


def _in_order(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
