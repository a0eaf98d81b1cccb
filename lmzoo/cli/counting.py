"""`counts`: what counting a text shows before any model is made of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows, json_lines_option
from lmzoo.cli.texts import corpus_of, text_options

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus

_EXAMPLES = """\b
Examples:
  python -m lmzoo counts book.txt --order 5 --tokens word
  python -m lmzoo counts --corpus genesis --tokens word --ngram "of the" --k 5
  python -m lmzoo counts --corpus timemachine --order 4 --discounts mkn
"""

_SPARSITY_COLUMNS = ("order", "seen", "possible", "seen_share", "once_share", "new_in_test", "new_types", "bytes")
_DISCOUNT_COLUMNS = ("order", "counts", "n1", "n2", "n3", "n4", "discounts", "reason")
_ABOUT_COLUMNS = ("fact", "token", "count")


@cli.command(epilog=_EXAMPLES)
@click.argument("text", required=False, metavar="[TEXT]")
@text_options
@click.option("--order", type=int, default=5, show_default=True, metavar="N", help="The most tokens counted together.")
@click.option("--ngram", metavar="TEXT", help="Answer about this n-gram, however long, instead.")
@click.option("--k", default=10, show_default=True, type=click.IntRange(min=1), help="How many that follow --ngram.")
@click.option(
    "--discounts", metavar="SMOOTHING", help="Counts of counts, and what mkn, kn, ad or katz takes off, instead."
)
@json_lines_option
def counts(
    text: str | None,
    order: int,
    ngram: str | None,
    k: int,
    discounts: str | None,
    json_lines: bool,
    **reading: Any,
) -> None:
    """Count the n-grams of TEXT (a UTF-8 file, cut 80/10/10), or of a named corpus: a row per order.

    Columns: n-grams seen in the training part; possible, were every symbol free to follow every other; the share of
    these seen; the share of the seen that was seen once; the shares of the test part's n-grams, and of its different
    ones, that were never seen; bytes of the order in the file of a Kneser-Ney model.
    """
    if ngram is not None and discounts is not None:
        raise click.UsageError("give one of --ngram and --discounts")
    corpus = corpus_of([] if text is None else [text], **reading)
    if ngram is not None:
        _about(corpus, ngram, k, json_lines=json_lines)
    elif discounts is not None:
        _discounts(corpus, order, discounts, json_lines=json_lines)
    else:
        _sparsity(corpus, order, json_lines=json_lines)


def _about(corpus: Corpus, ngram: str, k: int, *, json_lines: bool) -> None:
    from lmzoo.ngram.config import MAX_ORDER
    from lmzoo.ngram.questions import NgramCounts

    # one order more than it has tokens shows what stands before and after it
    n_tokens = len(corpus.vocab.encode(ngram))
    if n_tokens >= MAX_ORDER:
        raise click.UsageError(f"--ngram takes at most {MAX_ORDER - 1} tokens, got {n_tokens}")
    counted = NgramCounts(corpus.train, n_tokens + 1)
    count, continuation_count = counted.count(ngram), counted.continuation_count(ngram)
    following = counted.following(ngram, None)
    rows = Rows(_ABOUT_COLUMNS, json_lines=json_lines)
    rows.write("count", None, count)
    rows.write("different_before", None, continuation_count)
    rows.write("different_after", None, len(following))
    for token, n in following[:k]:
        rows.write("next", token, n)


def _discounts(corpus: Corpus, order: int, smoothing: str, *, json_lines: bool) -> None:
    from lmzoo.ngram.questions import NgramCounts

    counted = NgramCounts(corpus.train, order)
    estimated = counted.discounts(smoothing)
    is_continuation = smoothing in ("mkn", "kn")
    rows = Rows(_DISCOUNT_COLUMNS, json_lines=json_lines)
    for k, (n, discount) in enumerate(
        zip(counted.counts_of_counts(continuation=is_continuation), estimated, strict=True), start=1
    ):
        amounts = " ".join(f"{amount:.6g}" for amount in discount.amounts)
        rows.write(k, "continuation" if is_continuation and k < order else "plain", *n, amounts, discount.reason)


def _sparsity(corpus: Corpus, order: int, *, json_lines: bool) -> None:
    from lmzoo import driver
    from lmzoo.ngram.discounts import DiscountWarning
    from lmzoo.ngram.questions import NgramCounts
    from lmzoo.ngram.sparsity import sparsity

    counted = NgramCounts(corpus.train, order)
    with warnings.catch_warnings():
        # the bytes are wanted, no probability
        warnings.simplefilter("ignore", DiscountWarning)
        model = driver.train(f"ngram:order={order}", corpus)
    rows = Rows(_SPARSITY_COLUMNS, json_lines=json_lines)
    for row in sparsity(counted, corpus.test, model):
        rows.write(
            row.order,
            row.n_seen,
            # a number for programs, as people write it for people
            row.n_possible if json_lines else row.possible_text,
            row.seen_share,
            row.once_share,
            row.new_token_share,
            row.new_type_share,
            row.n_bytes,
        )
