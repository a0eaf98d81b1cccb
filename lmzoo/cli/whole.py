"""`train` on several texts as one, and on all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from lmzoo.cli.scoring import star
from lmzoo.cli.texts import require_files


def train_on_all(spec: str, texts: Sequence[str], output: str, *, valid: str | None, **options: Any) -> None:
    """Train a counting model on all of some texts and write it."""
    from lmzoo import storage
    from lmzoo.ngram.config import NgramConfig
    from lmzoo.ngram.streaming import train_ngram
    from lmzoo.registry import resolve_config

    config = resolve_config(spec)
    if not isinstance(config, NgramConfig):
        raise click.UsageError(f"--all is for counting models, such as kn5 or ngram:order=4, got {spec}")
    if not texts or any(options.pop(name) for name in ("corpus", "train", "test")):
        raise click.UsageError("--all takes TEXT files, not --corpus, --train or --test")
    require_files(texts)
    # as for a text that is cut: characters unless words are asked for
    reading = {"tokens": "char", **{name: value for name, value in options.items() if value is not None}}
    held_out = None if valid is None else Path(valid)
    model = train_ngram([*map(Path, texts)], valid=held_out, **reading, **dataclasses.asdict(config))
    storage.save(model, output)
    n_tokens = int(model.vocab.counts_V.sum() - model.vocab.counts_V[model.vocab.bos_id])
    size = f"{n_tokens} training tokens, {len(model.vocab)} symbols"
    click.echo(f"{spec}: {size}, written to {output}{star(model)}", err=True)
