"""`rank`, `next` and `generate`: what a model makes of candidates, of a context, of a prompt."""

from __future__ import annotations

from typing import Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows
from lmzoo.cli.scoring import STDIN, read_input


@cli.command(epilog="\b\nExample:\n  printf 'recognise speech\\nwreck a nice beach\\n' | python -m lmzoo rank book.lm")
@click.argument("model")
@click.argument("file", default=STDIN, metavar="[FILE]")
@click.option("--json-lines", is_flag=True, help="A JSON object a line instead of tab-separated values.")
def rank(model: str, file: str, json_lines: bool) -> None:
    """Sort the lines of FILE (or standard input), the most probable first, with ln p.  Blank lines are skipped."""
    from lmzoo import sampling
    from lmzoo.storage import load

    loaded = load(model)
    candidates = [line for line in read_input(file).split("\n") if line.strip(" \t")]
    rows = Rows(("logprob", "text"), json_lines=json_lines)
    for text, logprob in sampling.rank(loaded, candidates):
        rows.write(logprob, text)


@cli.command(name="next", epilog='\b\nExample:\n  python -m lmzoo next book.lm "in the " --k 5')
@click.argument("model")
@click.argument("context", default="")
@click.option("--k", default=10, show_default=True, type=click.IntRange(min=1), help="How many.")
def next_(model: str, context: str, k: int) -> None:
    """List the most probable symbols after CONTEXT with ln p."""
    from lmzoo.sampling import top_k
    from lmzoo.storage import load

    rows = Rows(("logprob", "token"))
    for token, logprob in top_k(load(model), context, k):
        rows.write(logprob, token)


@cli.command(epilog='\b\nExample:\n  python -m lmzoo generate book.lm --prompt "in the " --length 80 --temperature 0.8')
@click.argument("model")
@click.option("--prompt", default="", help="Text to go on from.")
@click.option("--length", default=50, show_default=True, type=click.IntRange(min=0), help="Tokens to add, at most.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Same seed, same text.")
@click.option("--temperature", default=1.0, show_default=True, help="Below 1 tamer, above 1 wilder; 0: the likeliest.")
@click.option("--top-k", type=click.IntRange(min=1), help="Draw among the k most probable symbols only.")
@click.option(
    "--top-p", type=float, metavar="P", help="Draw among the fewest symbols with this much of the probability (of K's)."
)
def generate(model: str, **options: Any) -> None:
    """Write text as the MODEL would go on."""
    from lmzoo.sampling import sample
    from lmzoo.storage import load

    click.echo(sample(load(model), **options))
