"""Model specs: `name`, `name:key=value,key=value` or `name:value,key=value`; and configs filled from their options.

A value in quotes, "..." or '...', is taken as it stands: a path with a comma, an equals sign or a single parenthesis
needs them.  The same quote inside is written twice.  A quote anywhere else is a character like others.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lmzoo.errors import OptionValueError, SpecError, UnknownOptionError, did_you_mean

Config = TypeVar("Config")

_QUOTES = "\"'"
# what a quoted value may follow
_BEFORE_VALUE = ":=,(+"
_KEY = re.compile(r"[\w-]+")
# neither of several items nor changed by stripping
_PLAIN = re.compile(r"[\w./\\~-]+")
# fields that hold one value; texts are the choices of a Literal
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "none"}
_QUOTING_CURE = '; a path with commas or parentheses is written in quotes, such as kenlm:"a,b.arpa"'


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A parsed spec.  `text` is as typed; `value` the bare first item (`kenlm:<path>`), if any."""

    text: str
    name: str
    value: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def parse_spec(text: str) -> Spec:
    """Parse one spec.  Raises `SpecError` that quotes the item at fault."""
    name, colon, rest = text.strip().partition(":")
    if not name:
        raise SpecError(f"a model spec starts with a name, got {text!r}")
    items = _split_outside(rest) if rest else []
    if colon and not rest:
        raise SpecError(f"nothing follows the colon of {text!r}; write {name!r} or {name}:key=value")
    value = None
    options: dict[str, str] = {}
    for position, item in enumerate(items):
        key, equals, setting = (piece.strip() for piece in item.partition("="))
        # 'a+b(c=1)' and 'folder/a=b.arpa' are bare values: what stands before their '=' is no key
        if not equals or not _KEY.fullmatch(key):
            if position or not item.strip():
                raise SpecError(f"{item.strip()!r} in {text!r} is not key=value{_QUOTING_CURE if position else ''}")
            value = _unquoted(item.strip())
        elif key in options:
            raise SpecError(f"{key!r} is given twice in {text!r}")
        else:
            options[key] = _unquoted(setting)
    return Spec(text=text.strip(), name=name, value=value, options=options)


def as_spec(spec: Spec | str) -> Spec:
    """A spec, parsed if it is text.  Raises `SpecError`."""
    if isinstance(spec, str):
        return parse_spec(spec)
    if not isinstance(spec, Spec):
        raise SpecError(f"a spec is text such as 'trigram', got {type(spec).__name__}")
    return spec


def parse_specs(text: str) -> list[Spec]:
    """Parse a comma-separated list; an item whose text before `=` has no colon continues the spec before it."""
    specs: list[str] = []
    for item in _split_outside(text):
        before, equals, _ = item.partition("=")
        if equals and ":" not in before and specs and "(" not in before:
            specs[-1] += ("," if ":" in specs[-1] else ":") + item.strip()
        elif item.strip():
            specs.append(item.strip())
        else:
            raise SpecError(f"an empty item in {text!r}; write names separated by single commas")
    return [parse_spec(s) for s in specs]


def parse_parts(spec: Spec) -> list[Spec]:
    """The parts of `name:a+b(key=value)+c`, in order; none for a spec without a bare value."""
    if spec.value is None:
        return []
    parts = []
    for item in _split_outside(spec.value, "+"):
        name, opening, rest = item.strip().partition("(")
        if not name:
            raise SpecError(f"an empty part in {spec.text!r}; write names joined by single '+'")
        if opening and not rest.endswith(")"):
            raise SpecError(f"{item!r} in {spec.text!r} is not name(key=value,key=value)")
        parts.append(parse_spec(f"{name}:{rest[:-1]}" if rest[:-1] else name))
    return parts


def configure(cls: type[Config], options: Mapping[str, Any], owner: str, *, fixed: Collection[str] = ()) -> Config:
    """A frozen config dataclass from text options, each converted to its field's type.

    `fixed`: options that the owner's name sets, so that nobody is told to give them.

    Raises `UnknownOptionError` naming the close match, `OptionValueError` with the value and what is wanted.
    """
    values = converted(cls, options, owner, fixed=fixed)
    try:
        return cls(**values)
    except OptionValueError as error:
        raise OptionValueError(f"{owner}: {error}") from error


def converted(cls: type[Any], options: Mapping[str, Any], owner: str, *, fixed: Collection[str] = ()) -> dict[str, Any]:
    """Options as a config takes them, not yet checked beside one another; as for `configure`."""
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    values = {}
    for key, text in options.items():
        if key not in names:
            known = sorted(set(names) - set(fixed))
            hint = did_you_mean(key, known)
            raise UnknownOptionError(f"{owner} has no option {key!r}.{hint} Options: {', '.join(known) or 'none'}")
        if not _is_of_kind(hints[key], text):
            raise OptionValueError(f"{owner}: {key} must be {_kinds_wanted(hints[key])}, got {text!r}")
        values[key] = _convert(hints[key], text, f"{key} of {owner}")
    return values


def _convert(hint: Any, text: Any, what: str) -> Any:
    if not isinstance(text, str):
        return text
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if text.lower() == "none":
            return None
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    if typing.get_origin(hint) is typing.Literal:
        choices = typing.get_args(hint)
        if text not in choices:
            raise OptionValueError(
                f"{what} is one of {', '.join(map(str, choices))}, got {text!r}.{did_you_mean(text, map(str, choices))}"
            )
        return text
    if hint is bool:
        return _convert_bool(text, what)
    try:
        return hint(text)
    except ValueError as error:
        raise OptionValueError(f"{what} is of type {hint.__name__}, got {text!r}") from error


def _kinds_wanted(hint: Any) -> str:
    kinds = typing.get_args(hint) or (hint,)
    return " or ".join(_KINDS.get(kind, repr(kind)) for kind in kinds)


def _is_of_kind(hint: Any, value: Any) -> bool:
    """Whether what is a number, or true or false, is one where a field wants it; true is no 1 and 1 is not true."""
    kinds = typing.get_args(hint) or (hint,)
    if not all(kind in _KINDS or isinstance(kind, str) for kind in kinds):
        return True
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int):
        return int in kinds or float in kinds
    return float in kinds or not isinstance(value, float)


def _convert_bool(text: str, what: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise OptionValueError(f"{what} is true or false, got {text!r}")
    return words[text.lower()]


def quoted(value: str) -> str:
    """A value as a spec writes it: in quotes where it would be taken apart without."""
    return value if _PLAIN.fullmatch(value) else '"' + value.replace('"', '""') + '"'


def _split_outside(text: str, separator: str = ",") -> Sequence[str]:
    """The pieces of a text between separators that stand neither in parentheses nor in quotes."""
    items, depth, start = [], 0, 0
    for i, c in _unquoted_characters(text):
        depth += (c == "(") - (c == ")")
        if depth < 0:
            raise SpecError(f"a ')' without its '(' in {text!r}{_QUOTING_CURE}")
        if c == separator and depth == 0:
            items.append(text[start:i])
            start = i + 1
    if depth:
        raise SpecError(f"a '(' without its ')' in {text!r}{_QUOTING_CURE}")
    return [*items, text[start:]]


def _unquoted_characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside quoted values and their places."""
    quote, before, closed_at = "", _BEFORE_VALUE[0], len(text)
    for i, c in enumerate(text):
        if quote:
            if c == quote:
                quote, before, closed_at = "", c, i
        # a quote written twice closes and opens again
        elif c in _QUOTES and (before in _BEFORE_VALUE or (closed_at == i - 1 and c == before)):
            quote = c
        else:
            before = before if c.isspace() else c
            yield i, c
    if quote:
        raise SpecError(f"a {quote} without its end in {text!r}; inside quotes the same quote is written twice")


def _unquoted(value: str) -> str:
    """A value without the quotes around it."""
    quote = value[:1]
    if not quote or quote not in _QUOTES:
        return value
    inner = value[1:-1]
    if len(value) < 2 or value[-1] != quote or quote in inner.replace(quote * 2, ""):
        raise SpecError(f"{value!r} goes on after its closing quote; write the whole value in quotes")
    return inner.replace(quote * 2, quote)
