"""The group of all commands.  What loads numpy is imported inside them, so that `--help` answers at once."""

from __future__ import annotations

import click

from lmzoo.arguments import OnceGroup

_MAIN_EXAMPLES = """\b
Examples:
  python -m lmzoo train trigram book.txt -o book.lm
  python -m lmzoo train kn5 --corpus genesis --tokens word -o genesis.lm
  cat letter.txt | python -m lmzoo score book.lm
  python -m lmzoo generate book.lm --prompt "in the " --length 80
  python -m lmzoo next book.lm "in the " --k 5

\b
Exit status: 0 fine, 1 a check failed, 2 bad arguments or input, 130 Ctrl-C, 143 SIGTERM.
"""


@click.group(cls=OnceGroup, epilog=_MAIN_EXAMPLES, context_settings={"max_content_width": 110})
def cli() -> None:
    """Train language models, score and generate text with them."""
