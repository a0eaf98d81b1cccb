"""Values of the command line: what they may be, and the text that was typed whatever the locale."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lmzoo.arguments import ListOption
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID, INVALID
from lmzoo.normalizers import NORMALIZERS
from lmzoo.tokenizers import TOKENIZER_KINDS

Command = TypeVar("Command", bound=Callable[..., Any])

# one: the same on every machine, and beside other load a second thread mostly makes the first one wait
DEFAULT_THREADS = 1


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


def _with(command: Command, *options: Callable[[Any], Any]) -> Command:
    """A command that has these options, listed in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def text_options(command: Command) -> Command:
    """Which text, and how it is read."""
    return _with(
        command,
        click.option(
            "--corpus",
            multiple=True,
            help="Name of a corpus, or path of a file, of a folder, or a quoted pattern; may be repeated.  "
            "[default: genesis]",
        ),
        click.option(
            "--train", multiple=True, help="Path of a training text; with --test.  Repeated: read in this order."
        ),
        click.option("--valid", help="Path of a validation text; without it the last tenth of --train serves."),
        click.option("--test", help="Path of a test text; with --train."),
        click.option(
            "--tokens",
            cls=ListOption,
            help=f"How text is cut, one or several separated by commas: {', '.join(TOKENIZER_KINDS)}.  "
            "[default: the corpus's own]",
        ),
        click.option(
            "--normalize",
            help=f"{', '.join(sorted(NORMALIZERS))}, or several in turn, such as nfc+lower.  "
            "[default: the corpus's own]",
        ),
        click.option(
            "--encoding",
            default=DEFAULT_ENCODING,
            show_default=True,
            help="What the bytes of texts of one's own are: utf-8, utf-16, latin-1, gb18030 …",
        ),
        click.option(
            "--invalid",
            type=click.Choice(INVALID),
            default=DEFAULT_INVALID,
            show_default=True,
            help="Bytes that the encoding does not have: an error, or replaced by U+FFFD.",
        ),
        click.option("--documents", help="Context policy: file, line, paragraph or running.  [default: by --tokens]"),
        click.option(
            "--min-freq",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Rarer training tokens become <unk>.",
        ),
    )


def training_options(command: Command) -> Command:
    """What bounds the training of each model, and its threads."""
    return _with(
        command,
        click.option(
            "--budget", type=float, callback=positive, help="Seconds of training of each neural model.  [default: 15]"
        ),
        click.option("--epochs", type=float, callback=positive, help="Epochs of training of each neural model."),
        click.option("--max-steps", type=click.IntRange(min=1), help="Optimiser steps of each neural model."),
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            default=DEFAULT_THREADS,
            show_default=True,
            help="Threads of every trial.",
        ),
    )


def folder_options(command: Command) -> Command:
    """What becomes of a folder that is there."""
    return _with(
        command,
        click.option("--resume", is_flag=True, help="Go on in an existing folder: what is finished is not run again."),
        click.option("--force", is_flag=True, help="Move an existing folder aside."),
    )


def limit_options(command: Command) -> Command:
    """What ends a trial that goes too far."""
    return _with(
        command,
        click.option(
            "--time-limit",
            type=float,
            callback=positive,
            help="Seconds after which a trial is ended.  [default: 600 + 3 budgets]",
        ),
        click.option(
            "--memory-limit", type=float, callback=positive, help="MiB of resident memory above which a trial is ended."
        ),
    )
