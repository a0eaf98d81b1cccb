"""`train` on several texts as one, and on all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from lmzoo.cli.keeping import save_or_keep
from lmzoo.cli.scoring import star
from lmzoo.cli.texts import require_texts


def train_on_all(spec: str, texts: Sequence[str], output: str, *, valid: str | None, **options: Any) -> None:
    """Train a counting model on all of some texts and write it."""
    from lmzoo.inputs import files_of
    from lmzoo.ngram.config import NgramConfig
    from lmzoo.ngram.streaming import train_ngram
    from lmzoo.registry import resolve_config

    config = resolve_config(spec)
    if not isinstance(config, NgramConfig):
        raise click.UsageError(f"--all is for counting models, such as kn5 or ngram:order=4, got {spec}")
    if not texts or any(options.pop(name) for name in ("corpus", "train", "test")):
        raise click.UsageError("--all takes TEXT files, not --corpus, --train or --test")
    require_texts(texts)
    # as for a text that is cut: characters unless words are asked for
    reading = {"tokens": "char", **{name: value for name, value in options.items() if value is not None}}
    model = train_ngram(files_of(texts), valid=valid, **reading, **dataclasses.asdict(config))
    save_or_keep(model, output)
    n_tokens = int(model.vocab.counts_V.sum() - model.vocab.counts_V[model.vocab.bos_id])
    size = f"{n_tokens} training tokens, {len(model.vocab)} symbols"
    click.echo(f"{spec}: {size}, written to {output}{star(model)}", err=True)
