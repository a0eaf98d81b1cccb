"""Commands that refuse an option given twice instead of silently keeping the last value."""

from __future__ import annotations

from collections import Counter

import click


class ListOption(click.Option):
    """An option whose one value is a list, its items separated by commas."""


# of options that name something
_NAMES = {"FILE", "FOLDER", "KIND", "NAME", "POLICY"}


class OnceCommand(click.Command):
    """A command whose options of one value may be given once, and not as "" where they name something.

    Flags, and options that may be repeated, are free.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as any command does, then raise `click.UsageError` for the first option that is given again."""
        # parsing uses its list up
        typed = list(args)
        rest = super().parse_args(ctx, args)
        _, _, order = self.make_parser(ctx).parse_args(typed)
        for param, n_times in Counter(order).items():
            if n_times > 1 and _has_one_value(param):
                name = max(param.opts, key=len)
                times = "twice" if n_times == 2 else f"{n_times} times"
                cure = "give one list, separated by commas" if isinstance(param, ListOption) else "give it once"
                raise click.UsageError(f"{name} is given {times}; {cure}", ctx)
        for param in order:
            if param.metavar in _NAMES and not ctx.params.get(str(param.name), True):
                raise click.UsageError(f"{max(param.opts, key=len)} is given without a value", ctx)
        return rest


class OnceGroup(click.Group):
    """A group of such commands."""

    command_class = OnceCommand


def _has_one_value(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and not (param.multiple or param.is_flag or param.count)
