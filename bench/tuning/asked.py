"""What the command line of a search asks for, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from bench import environment
from bench.asked import Asked, corpora_of, limits_of, mode_of, refuse_contradictions, refuse_what_this_machine_lacks
from bench.options import list_of, utf8
from bench.records import Question
from bench.tuning.spaces import with_options
from lmzoo.errors import SpecError
from lmzoo.spec import Spec, parse_spec, parse_specs

PROGRAM = "python -m bench.tune"


@dataclass(frozen=True, kw_only=True)
class SearchAsked:
    """What a search asks for: `run`, as a run would ask it, and how long and among what is searched."""

    run: Asked
    spec: Spec
    search_seconds: float
    most_trials: int | None
    seed: int
    only: tuple[str, ...]

    @property
    def device(self) -> str:
        return self.run.question.devices[0]


def search_asked(arguments: list[str], options: Mapping[str, Any]) -> SearchAsked:
    """The options of a command line as one value.  Raises `UsageError` and `SpecError` for what cannot be."""
    refuse_contradictions(options)
    refuse_what_this_machine_lacks(options["threads"], options["memory_limit"])
    spec = _spec(options["model"], options["fix"])
    corpora = corpora_of(options, with_test=False)
    devices = list_of(options["device"], "--device")
    if len(corpora) > 1 or len(devices) > 1:
        raise click.UsageError(
            "a search has one text and one device; give one --corpus, one kind of --tokens and one --device"
        )
    only = () if options["search"] is None else tuple(list_of(options["search"], "--search"))
    run = Asked(
        command=environment.command_line(PROGRAM, [utf8(a) for a in arguments]),
        question=Question(models=spec.text, corpora=tuple(corpora), devices=tuple(devices)),
        seeds=options["seeds"],
        train_fractions=(1.0,),
        limits=limits_of(options),
        targets=(),
        out=options["out"],
        mode=mode_of(options),
        no_text=True,
        debug=options["debug"],
    )
    return SearchAsked(
        run=run,
        spec=spec,
        search_seconds=options["search_seconds"],
        most_trials=options["trials"],
        seed=options["seed"],
        only=only,
    )


def _spec(model: str, fixed: str | None) -> Spec:
    """The model with all that is fixed of it, wherever that was given."""
    specs = parse_specs(utf8(model))
    if len(specs) != 1:
        raise SpecError(f"a search is for one model, got {model!r}")
    spec = specs[0]
    if fixed is None:
        return spec
    given = parse_spec(f"{spec.name}:{utf8(fixed)}")
    twice = sorted(set(given.options) & set(spec.options))
    if given.value is not None or twice:
        what = f"{twice[0]!r} is given in --model too" if twice else f"{given.value!r} is not key=value"
        raise SpecError(f"--fix {fixed}: {what}; write --fix hidden=512,layers=1")
    return parse_spec(with_options(spec, dict(given.options)))
