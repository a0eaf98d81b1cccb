"""What a run does: corpora x fractions x models x devices x seeds, as a list of trials.  Loads no numerical library."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.environment import code_sha256, safe_name
from bench.records import RULES_VERSION, SCHEMA_VERSION, Answer, CorpusFacts, CorpusSpec, ModelFacts, TrialSpec
from lmzoo.errors import LmzooError

QUICK_BUDGET_S = 0.3
# what a folder of files and a report can still hold
MAX_TRIALS = 100_000
# a time limit is there to end what hangs; it leaves room for the validations of a large vocabulary on a slow machine
_TIME_LIMIT_BUDGETS = 3.0
_TIME_LIMIT_S = 600.0
_KEY_DIGITS = 8
# quick ones first, and those that give the targets before those that are to reach them
_ORDER = {"counting": 0, "coder": 1, "neural": 2}
# names, places, and limits that a trial either kept or says that it did not
_NOT_DECIDING = {
    "trial_id",
    "content_key",
    # part of the key as the code that makes the plan
    "code_sha256",
    "corpus",
    "corpus_sha256",
    "quick",
    "spec",
    "time_limit_s",
    "memory_limit_bytes",
}


class PlanError(LmzooError):
    """A plan that cannot be run."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What bounds each trial.  Without seconds, epochs and steps a neural model has the default seconds."""

    budget_s: float | None = None
    epochs: float | None = None
    max_steps: int | None = None
    threads: int = 1
    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    quick: bool = False


def make_plan(
    answer: Answer,
    *,
    devices: Sequence[str],
    seeds: int,
    limits: Limits,
    train_fractions: Sequence[float] = (1.0,),
    with_text: bool = True,
) -> list[TrialSpec]:
    """The trials, counting models first: the neural ones are measured against their perplexities.

    Counting models and compressors have no device path and no chance in them: they run once, on the CPU, whatever was
    asked.  Without `with_text` no record holds a word of the text.
    Raises `PlanError` for more trials than a run may have, and for a share of a text that is less than a token.
    """
    n_trials = _n_trials(answer, len(devices), seeds, train_fractions)
    if n_trials > MAX_TRIALS:
        raise PlanError(
            f"{n_trials:,} trials are asked for, at most {MAX_TRIALS:,} make a run; ask for fewer at a time"
        )
    _check_shares(answer, train_fractions)
    code = code_sha256()
    cells = _cells(answer, devices, seeds, train_fractions)
    trials = [_trial(cell, limits, answer.default_budget_s, code, with_text=with_text) for cell in cells]
    return sorted(trials, key=lambda trial: _ORDER[trial.family])


def _n_trials(answer: Answer, n_devices: int, n_seeds: int, train_fractions: Sequence[float]) -> int:
    """Counted before any is made: a slip in a number of seeds must not fill the memory."""
    n_trials = 0
    for model in answer.models:
        n_repetitions = 1
        if model.family == "neural":
            n_repetitions = n_devices * (1 if model.is_read else n_seeds)
        n_trials += len(_places(model, answer.facts)) * n_repetitions * len(_shares(model, train_fractions))
    return n_trials


def _shares(model: ModelFacts, train_fractions: Sequence[float]) -> Sequence[float]:
    """What a model is trained on; one that is read learns nothing here and stands beside those of the largest share."""
    return [max(train_fractions)] if model.is_read else train_fractions


def _places(model: ModelFacts, facts: Sequence[CorpusFacts]) -> set[int]:
    """Which of the texts a model is tried on: all, unless it makes the same of a text whatever cuts that into tokens.

    Such a one, a compressor or a model that is read, is tried on each text once: under the tokens that are its own, if
    they are there.
    """
    if model.family != "coder" and not model.is_read:
        return set(range(len(facts)))
    # the tokens of a text of characters are the text, so that a code of it has a perplexity too
    own = "char" if model.family == "coder" else model.options.get("tokens")
    chosen: dict[tuple[str, str, str], int] = {}
    for place, found in enumerate(facts):
        text = (found.sha256, found.normalize, found.documents)
        if text not in chosen or (found.tokenizer == own != facts[chosen[text]].tokenizer):
            chosen[text] = place
    return set(chosen.values())


def _check_shares(answer: Answer, train_fractions: Sequence[float]) -> None:
    smallest = min(train_fractions)
    for facts in answer.facts:
        if smallest * facts.n_train_tokens < 1:
            raise PlanError(
                f"{smallest:g} of the {facts.n_train_tokens:,} training tokens of {facts.name} is less than one token; "
                "ask for a larger share"
            )


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One place in the table of everything asked for."""

    corpus: CorpusSpec
    facts: CorpusFacts
    train_fraction: float
    model: ModelFacts
    device: str
    seed: int


def _cells(answer: Answer, devices: Sequence[str], seeds: int, train_fractions: Sequence[float]) -> Iterator[_Cell]:
    places = {model.spec: _places(model, answer.facts) for model in answer.models}
    for place, (corpus, facts) in enumerate(zip(answer.corpora, answer.facts, strict=True)):
        there = [model for model in answer.models if place in places[model.spec]]
        for fraction, model in itertools.product(train_fractions, there):
            if fraction not in _shares(model, train_fractions):
                continue
            for device, seed in _repetitions(model, devices, seeds):
                yield _Cell(corpus=corpus, facts=facts, train_fraction=fraction, model=model, device=device, seed=seed)


def _repetitions(model: ModelFacts, devices: Sequence[str], seeds: int) -> Iterator[tuple[str, int]]:
    if model.family != "neural":
        yield "cpu", 0
        return
    yield from itertools.product(devices, range(1 if model.is_read else seeds))


def _trial(cell: _Cell, limits: Limits, default_budget_s: float, code: str, *, with_text: bool) -> TrialSpec:
    model, facts = cell.model, cell.facts
    budget_s, epochs, max_steps = training_limits(model, limits, default_budget_s)
    time_limit_s = limits.time_limit_s
    if time_limit_s is None:
        time_limit_s = _TIME_LIMIT_S + _TIME_LIMIT_BUDGETS * (budget_s or 0.0)
    trial = TrialSpec(
        trial_id="unnamed",
        content_key="none yet",
        model=model.model,
        spec=model.spec,
        options=model.options,
        family=model.family,
        corpus=cell.corpus,
        corpus_sha256=facts.sha256,
        code_sha256=code,
        train_fraction=cell.train_fraction,
        device=cell.device,
        seed=cell.seed,
        budget_s=budget_s,
        epochs=epochs,
        max_steps=max_steps,
        threads=limits.threads,
        time_limit_s=time_limit_s,
        memory_limit_bytes=limits.memory_limit_bytes,
        quick=limits.quick,
        with_text=with_text,
    )
    key = content_key(trial, facts, code)
    return trial.model_copy(update={"content_key": key, "trial_id": trial_id(trial, facts, key)})


def training_limits(
    model: ModelFacts, limits: Limits, default_budget_s: float
) -> tuple[float | None, float | None, int | None]:
    """Seconds, epochs and steps of one training; only a network has any: others read their text once."""
    if model.family != "neural" or model.is_read:
        return None, None, None
    budget_s = limits.budget_s
    if budget_s is None and limits.epochs is None and limits.max_steps is None:
        budget_s = QUICK_BUDGET_S if limits.quick else default_budget_s
    return budget_s, limits.epochs, limits.max_steps


def content_key(trial: TrialSpec, facts: CorpusFacts, code: str) -> str:
    """A hash of everything that decides a trial's result, the code that makes it among them.

    A text is known by its content and how it was read, never by where it lies.
    """
    decides = trial.model_dump(mode="json", exclude=_NOT_DECIDING)
    decides |= {"corpus": facts.model_dump(mode="json"), "code": code}
    decides |= {"rules_version": RULES_VERSION, "schema_version": SCHEMA_VERSION}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def trial_id(trial: TrialSpec, facts: CorpusFacts, key: str) -> str:
    """A readable file name of ASCII letters, digits, `.`, `-` and `_`; the end of it makes it unique."""
    parts = [trial.model, facts.name, facts.tokenizer, facts.documents, trial.device, f"s{trial.seed}"]
    if trial.train_fraction != 1:
        parts.append(f"f{trial.train_fraction:g}")
    return "-".join([*map(safe_name, parts), key[:_KEY_DIGITS]])
