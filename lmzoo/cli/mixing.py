"""`mix`: trained models in, a mixture of them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.outputs import require_output
from lmzoo.cli.scoring import policy_for, read_split, star

if TYPE_CHECKING:
    from lmzoo.corpus import Split
    from lmzoo.interface import LanguageModel

_EXAMPLES = """\b
Examples:
  python -m lmzoo mix kn5.lm lstm.lm --text valid.txt -o mix.lm
  python -m lmzoo mix kn5.lm lstm.lm --corpus genesis -o mix.lm
  python -m lmzoo mix kn5.lm lstm.lm cache cache:order=1 --text valid.txt -o mix.lm
"""


@cli.command(epilog=_EXAMPLES)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--text", metavar="FILE", help="The validation text that weights are fitted on.")
@click.option("--corpus", metavar="NAME", help="The same, of a corpus by name: its validation part.")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the mixture is written.")
@click.option(
    "--kind", type=click.Choice(["linear", "loglinear"]), default="linear", show_default=True, help="Of mixing."
)
@click.option("--weights", type=click.Choice(["one", "context"]), help="One for each model, or others by context.")
@click.option("--documents", metavar="POLICY", help="How the text is cut into documents (default: as the models say).")
def mix(
    models: tuple[str, ...], text: str | None, corpus: str | None, output: str, documents: str | None, **options: Any
) -> None:
    """Mix trained models: fit their weights on a validation text, and write the mixture to a file.

    A MODEL is a file of lmzoo; a cache, which has nothing to learn before, is named: cache, or cache:order=1.
    """
    from lmzoo import evaluation, mixing, storage

    files = [model for model in models if _is_file(model)]
    if not files:
        raise click.UsageError("a mixture needs a model that was trained; name its file")
    if (text is None) == (corpus is None):
        raise click.UsageError("give one of: --text FILE or --corpus NAME")
    require_output(output, files if text is None else [*files, text])
    parts = [storage.load(model) if _is_file(model) else model for model in models]
    first: LanguageModel[Any] = next(part for part in parts if not isinstance(part, str))
    split = _valid_part(first, str(corpus), documents) if text is None else read_split(first, text, documents)
    mixture = mixing.mix(parts, split, **options)
    storage.save(mixture, output)
    weights = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(models, mixture.weights_K.tolist(), strict=True))
    click.echo(f"weights of all contexts: {weights}", err=True)
    perplexity = evaluation.evaluate(mixture, split).perplexity
    click.echo(f"perplexity {perplexity:.6g} of the text they were fitted on{star(mixture)}", err=True)


def _valid_part(model: LanguageModel[Any], name: str, documents: str | None) -> Split:
    """The validation part of a corpus, encoded for a model."""
    from lmzoo.corpus import load_corpus

    policy = policy_for(model, documents)
    corpus = load_corpus(name, normalize=model.vocab.normalizer, documents=policy, with_test=False)
    return corpus.valid.encoded_with(model.vocab)


def _is_file(model: str) -> bool:
    return model.partition(":")[0] != "cache"
