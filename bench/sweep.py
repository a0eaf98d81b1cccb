"""A plan file: what a run asks for, in TOML, its keys named like the options of the command line.

What a key may hold is said by the option alone: a value of a plan goes through the conversion and the checks of a value
that is typed.  Beyond the options there is `corpora`, a list of texts each read in its own way.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from lmzoo.arguments import ListOption
from lmzoo.errors import LmzooError, did_you_mean
from lmzoo.inputs import is_text
from lmzoo.sources import SOURCES, is_named
from lmzoo.spec import parse_specs

CORPORA = "corpora"
# keys of a table of `corpora`, and the options that they are
_OF_A_TEXT = {"name": "corpus"} | {
    key: key
    for key in ("train", "valid", "test", "tokens", "normalize", "documents", "min_freq", "encoding", "invalid")
}
_NAMING_TEXTS = ("corpus", "train", "valid", "test")
_PATHS = ("train", "valid", "test", "out")
# how to run, not what: here the command line may say otherwise than the plan
_HOW_TO_RUN = {"out", "resume", "force", "debug", "executor", "quick"}
_EXISTING_FOLDER = {"resume", "force"}
# TOML promises no more
_LARGEST_WHOLE_NUMBER = 2**63 - 1


def with_plan(ctx: click.Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command line, those of its plan file in their places.

    `corpora` holds for each text the options that are its own; one of none where no plan names texts one by one.
    Raises `UsageError` for a plan that cannot be read or followed, and for what is asked for in both places.
    """
    if options["plan"] is None:
        return {**options, CORPORA: [{}]}
    plan = _Plan(options["plan"], ctx)
    typed = {name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    given = plan.options()
    corpora = plan.corpora()
    plan.refuse_what_is_typed_too(typed)
    kept = {name: options[name] for name in typed & _HOW_TO_RUN}
    if typed & _EXISTING_FOLDER:
        # one question with one answer
        kept |= {name: options[name] for name in _EXISTING_FOLDER}
    return {**options, **given, **kept, CORPORA: corpora}


class _Plan:
    """A plan file that was read; every complaint names it."""

    def __init__(self, path: Path, ctx: click.Context) -> None:
        self._path = path
        self._ctx = ctx
        self._params = {str(param.name): param for param in ctx.command.params if param.name != "plan"}
        self._values = self._read()
        if not self._values:
            raise self._error("it asks for nothing; name models, say")
        self._require_known(self._values, [*self._params, CORPORA], "option")

    def options(self) -> dict[str, Any]:
        """The value of each option in the plan."""
        return {key: self._converted(key, key, value) for key, value in self._values.items() if key != CORPORA}

    def corpora(self) -> list[dict[str, Any]]:
        """For each text the options that are its own."""
        if CORPORA not in self._values:
            return [{}]
        others = [key for key in _NAMING_TEXTS if key in self._values]
        if others:
            raise self._error(f"{CORPORA} and {others[0]} exclude each other")
        texts = self._values[CORPORA]
        if not isinstance(texts, list) or not texts:
            raise self._error(f"{CORPORA}: wanted a list of names, paths or tables, got {_shown(texts)}")
        return [self._text(text) for text in texts]

    def refuse_what_is_typed_too(self, typed: set[str]) -> None:
        """Raise `UsageError` for an option that the plan and the command line have both."""
        both = sorted((typed & set(self._given())) - _HOW_TO_RUN)
        if both:
            option = max(self._params[both[0]].opts, key=len)
            raise self._error(f"{both[0]} is given here and by {option}; give it in one place")

    def _given(self) -> Iterator[str]:
        for key, value in self._values.items():
            if key != CORPORA:
                yield key
                continue
            yield from _NAMING_TEXTS
            yield from (_OF_A_TEXT[own] for text in value if isinstance(text, dict) for own in text)

    def _read(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8-sig")
            return tomllib.loads(text)
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8 at byte {error.start}") from error
        except RecursionError as error:
            raise self._error("its lists are nested too deeply") from error
        except ValueError as error:
            lines = text.split("\n")
            end = f"at line {len(lines)}, column {len(lines[-1]) + 1}"
            raise self._error(f"is no TOML: {str(error).replace('at end of document', end)}") from error

    def _text(self, text: Any) -> dict[str, Any]:
        """The options of one text: a name or path, or a table."""
        if not isinstance(text, dict):
            text = {"name": text}
        self._require_known(text, _OF_A_TEXT, f"key in a table of {CORPORA}")
        parts = {"name", "train", "valid", "test"} & set(text)
        if parts != {"name"} and ("name" in parts or not {"train", "test"} <= parts):
            raise self._error(f"{CORPORA}: a table has name, or train and test; got {', '.join(text) or 'none'}")
        return {_OF_A_TEXT[key]: self._converted(f"{CORPORA}: {key}", _OF_A_TEXT[key], text[key]) for key in text}

    def _require_known(self, values: Mapping[str, Any], known: Collection[str], what: str) -> None:
        for key in values:
            if key not in known:
                raise self._error(f"no {what} {key!r}.{did_you_mean(key, known)} There are: {', '.join(known)}")

    def _converted(self, where: str, name: str, value: Any) -> Any:
        """A value as the option makes it of a typed one."""
        param = self._params[name]
        wanted, fits = _wanted(param)
        items = value if isinstance(value, list) and value and _is_list(param) else [value]
        for item in items:
            if not fits(item):
                raise self._error(f"{where}: wanted {wanted}, got {_shown(item)}")
        texts = [self._placed(where, name, _as_typed(item)) for item in items]
        if name == "models":
            self._check_models(texts)
        try:
            return param.process_value(self._ctx, texts if param.multiple else ",".join(texts))
        except click.BadParameter as error:
            raise self._error(f"{where}: {error.message}") from error

    def _check_models(self, specs: list[str]) -> None:
        """Each must be complete: joined, half a spec would go on from the one before it."""
        for spec in specs:
            try:
                parse_specs(spec)
            except LmzooError as error:
                raise self._error(f"models: {error}") from error

    def _placed(self, where: str, name: str, text: str) -> str:
        """A text; a path in it starts from the folder of the plan."""
        beside = self._path.parent / text
        if name in _PATHS or (name == "corpus" and not is_named(text) and is_text(str(beside))):
            return str(beside)
        if name == "corpus" and not is_named(text):
            close = did_you_mean(text, SOURCES)
            raise self._error(f"{where}: no corpus, and beside the plan no file {text!r}.{close}")
        return text

    def _error(self, message: str) -> click.UsageError:
        return click.UsageError(f"--plan {self._path}: {message}")


def _wanted(param: click.Parameter) -> tuple[str, Callable[[Any], bool]]:
    """What a plan may hold for an option, in words and as a test of one item."""
    if _is_list(param):
        return "text, a number, or a list of them", lambda item: _is_text(item) or _is_number(item)
    if isinstance(param, click.Option) and param.is_flag:
        return "true or false", lambda item: isinstance(item, bool)
    if isinstance(param.type, click.types.IntParamType):
        return "a whole number", lambda item: _is_number(item) and isinstance(item, int)
    if isinstance(param.type, click.types.FloatParamType):
        return "a number", _is_number
    return "text", _is_text


def _is_list(param: click.Parameter) -> bool:
    return param.multiple or isinstance(param, ListOption)


def _is_text(item: Any) -> bool:
    # no path and no name has a NUL in it
    return isinstance(item, str) and "\0" not in item


def _is_number(item: Any) -> bool:
    return isinstance(item, float) or (type(item) is int and abs(item) <= _LARGEST_WHOLE_NUMBER)


def _as_typed(item: str | float | bool) -> str:
    """A value as the argument that it would be on the command line, whatever the locale makes of arguments there."""
    return os.fsdecode(item.encode()) if isinstance(item, str) else str(item).lower()


def _shown(value: Any) -> str:
    """What stands in a plan, short enough for one line."""
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a table"
    return str(value).lower() if isinstance(value, bool) else repr(value)[:60]
