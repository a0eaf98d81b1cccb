"""`convert`: a model file in another format, or a smaller one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.flowing import tell_replaced
from lmzoo.cli.group import cli
from lmzoo.cli.outputs import require_output
from lmzoo.cli.scoring import read_split
from lmzoo.cli.texts import decoding_options
from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID

if TYPE_CHECKING:
    from lmzoo.decoding import Invalid
    from lmzoo.interface import LanguageModel
    from lmzoo.ngram.model import NgramModel

_EXAMPLES = """\b
Examples:
  python -m lmzoo convert book.lm book.arpa
  python -m lmzoo convert lm.arpa.gz lm.lm
  python -m lmzoo convert characters.arpa characters.lm --tokens char --normalize letters
  python -m lmzoo convert book.lm small.lm --max-bytes 2M --bits 8 --text chapter.txt
"""

_DEFAULT = click.core.ParameterSource.DEFAULT
_ARPA_ENDINGS = (".arpa", ".arpa.gz")


@cli.command(epilog=_EXAMPLES)
@click.argument("model")
@click.argument("output")
@click.option("--tokens", default="word", show_default=True, metavar="KIND", help="What the words of an ARPA file are.")
@click.option("--normalize", default="none", show_default=True, metavar="NAME", help="How text is rewritten for it.")
@click.option("--prune", type=float, metavar="SHARE", help="Leave out n-grams that matter less: 1e-8.")
@click.option("--max-ngrams", type=int, metavar="N", help="Keep the n-grams that matter most, so many at most.")
@click.option("--max-bytes", metavar="SIZE", help="The same until the file has at most so many bytes, such as 2M.")
@click.option("--bits", type=int, metavar="N", help="Round every ln p to so many bits, 8 to 16.")
@click.option("--text", metavar="FILE", help="Tell the perplexity of this text before and after.")
@decoding_options
def convert(
    model: str,
    output: str,
    tokens: str,
    normalize: str,
    text: str | None,
    encoding: str,
    invalid: Invalid,
    **smaller: Any,
) -> None:
    """Write a MODEL file in another format: ARPA where OUTPUT ends in .arpa or .arpa.gz, lmzoo's own otherwise.

    An ARPA file knows words alone; --tokens and --normalize say how text becomes them.  --prune, --max-ngrams,
    --max-bytes and --bits make a counting model smaller, in this order.
    """
    from lmzoo import storage
    from lmzoo.ngram.arpa import write_arpa

    require_output(output, [model] if text is None else [model, text])
    if text is None and (encoding, invalid) != (DEFAULT_ENCODING, DEFAULT_INVALID):
        raise click.UsageError("--encoding and --invalid are for --text")
    loaded = _loaded(model, tokens, normalize)
    wanted = {name: value for name, value in smaller.items() if value is not None}
    written = _smaller(loaded, **wanted) if wanted else loaded
    # a text that cannot be scored is told before anything is written
    told = None if text is None else _compared(loaded, written, text, encoding, invalid)
    if output.lower().endswith(_ARPA_ENDINGS):
        write_arpa(written, output)
    else:
        storage.save(written, output)
    if told is not None:
        click.echo(told, err=True)


def _loaded(model: str, tokens: str, normalize: str) -> LanguageModel[Any]:
    from lmzoo import storage
    from lmzoo.ngram.arpa import read_arpa

    if not storage.is_model_file(model):
        return read_arpa(model, tokenizer=tokens, normalizer=normalize)
    context = click.get_current_context()
    given = [name for name in ("tokens", "normalize") if context.get_parameter_source(name) is not _DEFAULT]
    if given:
        raise click.UsageError(f"--{given[0]} is for an ARPA file; {model} says itself how its text is read")
    return storage.load(model)


def _smaller(
    model: LanguageModel[Any],
    *,
    prune: float | None = None,
    max_ngrams: int | None = None,
    max_bytes: str | None = None,
    bits: int | None = None,
) -> NgramModel:
    from lmzoo.ngram.config import size_in_bytes
    from lmzoo.ngram.model import NgramModel
    from lmzoo.ngram.shrink import shrunk

    if not isinstance(model, NgramModel):
        raise click.UsageError("only a counting model can be made smaller")
    n_bytes = None if max_bytes is None else size_in_bytes(max_bytes, "--max-bytes")
    return shrunk(model, prune=prune, max_ngrams=max_ngrams, max_bytes=n_bytes, bits=bits)


def _compared(
    loaded: LanguageModel[Any], written: LanguageModel[Any], text: str, encoding: str, invalid: Invalid
) -> str:
    """The perplexities of a text by both, which share their vocabulary."""
    from lmzoo.decoding import Decoding
    from lmzoo.evaluation import evaluate

    decoding = Decoding(encoding=encoding, invalid=invalid)
    split = read_split(loaded, text, decoding=decoding)
    tell_replaced(decoding)
    before, after = (evaluate(model, split).perplexity for model in (loaded, written))
    return f"perplexity {before:.6g} before, {after:.6g} after ({after / before - 1:+.3%})"
