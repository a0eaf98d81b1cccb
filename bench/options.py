"""Values of the command line: what they may be, and the text that was typed whatever the locale."""

from __future__ import annotations

import math
import os

import click


def positive(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """A number above 0, and finite."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"{value:g} is not a finite number above 0", ctx, param)
    return value


def perplexities(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[float, ...]:
    """From a repeated option, each a number or a comma-separated list."""
    numbers = [_number(item.strip(), ctx, param) for value in values for item in value.split(",")]
    for number in numbers:
        if not 1 <= number < math.inf:
            raise click.BadParameter(f"a perplexity is finite and at least 1, got {number:g}", ctx, param)
    return tuple(dict.fromkeys(numbers))


def _number(text: str, ctx: click.Context, param: click.Parameter) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number", ctx, param) from error


def fractions(ctx: click.Context, param: click.Parameter, value: str) -> tuple[float, ...]:
    """Shares of the training text from a comma-separated list, such as 1/16,0.25,1: each once, the smallest first."""
    return tuple(sorted({_fraction(item.strip(), ctx, param) for item in value.split(",")}))


def _fraction(text: str, ctx: click.Context, param: click.Parameter) -> float:
    above, slash, below = text.partition("/")
    try:
        share = float(above) / float(below if slash else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(f"{text!r} is no fraction; write 1/4 or 0.25", ctx, param) from error
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text} is not above 0 and at most 1: a share of the training text", ctx, param)
    return share


def list_of(text: str, option: str) -> list[str]:
    """The items of a comma-separated list, each once."""
    items = [item.strip() for item in utf8(text).split(",")]
    if not all(items):
        raise click.UsageError(f"an empty item in {option} {text!r}; separate by single commas")
    return list(dict.fromkeys(items))


def utf8(argument: str) -> str:
    """An argument as the UTF-8 that was typed, whatever this process takes the locale's encoding to be."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError as error:
        shown = argument.encode("utf-8", "replace").decode("utf-8")
        raise click.UsageError(f"argument {shown!r} is not UTF-8") from error
