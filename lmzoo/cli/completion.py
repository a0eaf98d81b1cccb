"""Shell completion: what can be typed next, and the script that teaches it to a shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from lmzoo.cli.group import cli

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# the installed script: shells complete commands, not modules of an interpreter
SCRIPT = "lmzoo"
# what the shell's function sets; its value says which shell asks, and for what
VARIABLE = "_LMZOO_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@cli.command(
    epilog='\b\nExamples:\n  eval "$(python -m lmzoo completion bash)"\n'
    "  python -m lmzoo completion fish > ~/.config/fish/completions/lmzoo.fish"
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Write the script by which SHELL completes the commands, options and names of `lmzoo`."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    # not source(): it would start a bash to ask for its version
    complete = made(cli, {}, SCRIPT, VARIABLE)
    click.echo(complete.source_template % complete.source_vars())


def answer(instruction: str) -> int:
    """Tell a shell that asks, by `instruction`, what can be typed next."""
    from click.shell_completion import shell_complete

    _install_names(cli)
    return shell_complete(cli, {}, SCRIPT, VARIABLE, instruction)


class _Names(click.types.StringParamType):
    """Text some of whose values have names."""

    def __init__(self, names: Callable[[], Iterable[str]], *, or_file: bool = False) -> None:
        self._names, self._or_file = names, or_file

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that start so, and the files, which the shell finds itself."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        return [*found, CompletionItem(incomplete, type="file")] if self._or_file else found


def _specs() -> list[str]:
    from lmzoo.registry import all_entries

    return list(all_entries())


def _specs_that_are_read() -> list[str]:
    from lmzoo.registry import all_entries

    return [f"{name}:" for name, entry in all_entries().items() if entry.is_read]


def _corpora() -> list[str]:
    from lmzoo.sources import SOURCES

    return list(SOURCES)


def _tokenizers() -> list[str]:
    from lmzoo.tokenizers import TOKENIZERS, TRAINED

    return [*TOKENIZERS, *(f"{name}:" for name in TRAINED)]


def _normalizers() -> list[str]:
    from lmzoo.normalizers import NORMALIZERS

    return list(NORMALIZERS)


def _policies() -> Sequence[str]:
    from lmzoo.parts import POLICIES

    return POLICIES


def _layouts() -> list[str]:
    from lmzoo.cli.ranking import LAYOUTS

    return list(LAYOUTS)


def _no_names() -> list[str]:
    return []


_FILES = _Names(_no_names, or_file=True)
# by the name of a parameter, whichever command has it
_TYPES: dict[str, _Names] = {
    "spec": _Names(_specs),
    "model": _Names(_specs_that_are_read, or_file=True),
    "corpus": _Names(_corpora, or_file=True),
    # of the command corpora
    "name": _Names(_corpora),
    "tokens": _Names(_tokenizers, or_file=True),
    "normalize": _Names(_normalizers),
    "documents": _Names(_policies),
    "layout": _Names(_layouts),
    "device": _Names(lambda: ["cpu", "cuda"]),
    **dict.fromkeys(("text", "texts", "file", "files", "train", "valid", "test", "output", "checkpoint"), _FILES),
}


def _install_names(command: click.Command) -> None:
    """Give every parameter of a command, and of those in it, the type that knows its names."""
    for parameter in command.params:
        # what chooses among values of its own, or takes a number, stays as it is
        if parameter.type is click.STRING and parameter.name in _TYPES:
            parameter.type = _TYPES[parameter.name]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _install_names(inner)
