"""`mix`: trained models in, a mixture of them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.flowing import spoken, tell_replaced
from lmzoo.cli.group import cli
from lmzoo.cli.keeping import save_or_keep
from lmzoo.cli.opening import open_model
from lmzoo.cli.outputs import require_output
from lmzoo.cli.scoring import policy_for, read_split, star
from lmzoo.cli.texts import decoding_options
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID

if TYPE_CHECKING:
    from lmzoo.corpus import Split
    from lmzoo.decoding import Invalid
    from lmzoo.interface import LanguageModel
    from lmzoo.mixture.config import Kind

_CACHE = "cache"
# of two models that never agree a weight is then known to 0.05, the square root of 1/4 of 1/100, and worse of others
_TOKENS_FOR_A_MODEL = 50
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
@decoding_options
def mix(
    models: tuple[str, ...],
    text: str | None,
    corpus: str | None,
    output: str,
    documents: str | None,
    encoding: str,
    invalid: Invalid,
    **options: Any,
) -> None:
    """Mix trained models: fit their weights on a validation text, and write the mixture to a file.

    A MODEL is a file of lmzoo; a cache, which has nothing to learn before, is named: cache, or cache:order=1.  The text
    is one that none of them was trained on.
    """
    from lmzoo import evaluation, mixing
    from lmzoo.decoding import Decoding

    files = [model for model in models if not _is_cache(model)]
    if not files:
        raise click.UsageError("a mixture needs a model that was trained; name its file")
    if (text is None) == (corpus is None):
        raise click.UsageError("give one of: --text FILE or --corpus NAME")
    if text is None and (encoding, invalid) != (DEFAULT_ENCODING, DEFAULT_INVALID):
        raise click.UsageError("--encoding and --invalid are for --text; a corpus by name is read as it is known to be")
    require_output(output, files if text is None else [*files, text])
    parts = [model if _is_cache(model) else open_model(model, also=[_CACHE]) for model in models]
    first: LanguageModel[Any] = next(part for part in parts if not isinstance(part, str))
    if text is None:
        split = _valid_part(first, str(corpus), documents)
    else:
        decoding = Decoding(encoding=encoding, invalid=invalid)
        split = read_split(first, text, documents, decoding)
        tell_replaced(decoding)
    _tell_text(split, f"the validation part of {corpus}" if text is None else spoken(text), len(parts), options["kind"])
    mixture = mixing.mix(parts, split, names=models, **options)
    weights = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(models, mixture.weights_K.tolist(), strict=True))
    click.echo(f"weights of all contexts: {weights}", err=True)
    # an older mixture is replaced by nothing that cannot be scored
    perplexity = evaluation.evaluate(mixture, split).perplexity
    save_or_keep(mixture, output)
    click.echo(f"perplexity {perplexity:.6g} of the text they were fitted on{star(mixture)}", err=True)


def _tell_text(split: Split, name: str, n_models: int, kind: Kind) -> None:
    """Say what weights are about to be fitted on, as that may take a while, and whether it is enough."""
    from lmzoo.mixture.trainer import HeldOut

    head = HeldOut(split).fitting_head(n_models) if kind == "loglinear" else split
    rest = "" if head.n_tokens == split.n_tokens else f"the first {head.n_tokens} of "
    slow = "; log-linear mixtures take whole distributions, which is slow" if kind == "loglinear" else ""
    n_oov = len(head.oov_M)
    click.echo(f"fitting weights on {rest}{split.n_tokens} tokens of {name}, {n_oov} of them OOV{slow}", err=True)
    n_known, n_wanted = head.n_tokens - n_oov, _TOKENS_FOR_A_MODEL * n_models
    if n_known < n_wanted:
        click.echo(
            f"warning: {n_known} known tokens are too few to tell which of {n_models} models suits a text; the weights "
            f"mean little below {n_wanted}",
            err=True,
        )


def _valid_part(model: LanguageModel[Any], name: str, documents: str | None) -> Split:
    """The validation part of a corpus, encoded for a model."""
    from lmzoo.corpus import load_corpus

    policy = policy_for(model, documents)
    corpus = load_corpus(name, normalize=model.vocab.normalizer, documents=policy, with_test=False)
    return corpus.valid.encoded_with(model.vocab)


def _is_cache(model: str) -> bool:
    return model.partition(":")[0] == _CACHE
