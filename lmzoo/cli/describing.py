"""`describe`: what a corpus is like, before any model is made of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.outputs import require_output
from lmzoo.cli.progress import reading_shown
from lmzoo.cli.texts import corpus_of, files_read, text_options
from lmzoo.errors import StorageError

if TYPE_CHECKING:
    from lmzoo.card import Card
    from lmzoo.corpus import Corpus
    from lmzoo.inputs import File

_EXAMPLES = """\b
Examples:
  python -m lmzoo describe book.txt
  python -m lmzoo describe --corpus genesis --tokens word --json
  python -m lmzoo describe --train a.txt --test b.txt -o card
  python -m lmzoo describe book.txt --tokens word --parts parts
"""

_FILES = ("card.json", "card.md")
_PARTS = ("train.txt", "valid.txt", "test.txt")
# what stands behind a document
_ENDS = {"file": "", "line": "\n", "running": "\n", "paragraph": "\n\n"}


@cli.command(epilog=_EXAMPLES)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@text_options
@click.option("--order", type=int, default=5, show_default=True, metavar="N", help="The most tokens counted together.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every figure, instead of text.")
@click.option("-o", "--output", metavar="FOLDER", help="Write card.md, card.json and plots there too.")
@click.option(
    "--parts", metavar="FOLDER", help="Write the three parts there, normalised: train.txt, valid.txt, test.txt."
)
def describe(
    texts: tuple[str, ...], order: int, as_json: bool, output: str | None, parts: str | None, **reading: Any
) -> None:
    """Describe TEXT, or a named corpus, as it is cut into parts and tokens: sizes, repetitions, unknown tokens by
    vocabulary, characters, n-grams seen and unseen."""
    from lmzoo import card as cards

    files = files_read(texts, **reading)
    folder = None if output is None else _folder(output, files, _FILES)
    parts_folder = None if parts is None else _folder(parts, files, _PARTS)
    with reading_shown(files):
        corpus = corpus_of(texts, uncut_if_short=True, **reading)
    card = cards.describe(corpus, order=order)
    if folder is not None:
        _write(card, folder)
        click.echo(f"card in {output}", err=True)
    if parts_folder is not None:
        _write_parts(corpus, parts_folder)
        click.echo(f"parts in {parts}", err=True)
    if as_json:
        click.echo(_as_json(card))
        return
    from lmzoo.cli.cards import print_card

    print_card(card, sys.stdout)


def _folder(output: str, inputs: Sequence[File], names: Sequence[str]) -> Path:
    """The folder to write to, made if need be: looked at before any work, so that no text that is read is lost."""
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot write {output!r}: {getattr(error, 'strerror', None) or error}") from error
    for name in names:
        require_output(str(folder / name), [file for file in inputs if isinstance(file, Path)])
    return folder


def _as_json(card: Card) -> str:
    return json.dumps(card.to_json(), ensure_ascii=False, allow_nan=False, indent=2)


def _write(card: Card, folder: Path) -> None:
    from lmzoo.cli.cards import markdown

    figures, shown = (folder / name for name in _FILES)
    # what holds every figure comes before pictures, for which a disk may have no room
    _write_text(figures, _as_json(card) + "\n")
    _write_text(shown, markdown(card, _plots(card, folder)))


def _write_text(path: Path, text: str) -> None:
    from lmzoo.files import whole_file

    with whole_file(path) as file:
        # a text may hold halves of surrogate pairs, which UTF-8 has not
        file.write(text.encode("utf-8", "backslashreplace"))


def _write_parts(corpus: Corpus, folder: Path) -> None:
    """The parts as texts that are cut into the same tokens again when they are read with no normaliser."""
    from lmzoo.files import whole_file
    from lmzoo.normalizers import named_normalizer

    apply = named_normalizer(corpus.normalize).apply
    for name, split in zip(_PARTS, (corpus.train, corpus.valid, corpus.test), strict=True):
        with whole_file(folder / name) as file:
            for text in split.segments:
                file.write((apply(text) + _ENDS[split.documents]).encode("utf-8", "surrogatepass"))


def _plots(card: Card, folder: Path) -> list[tuple[str, str]]:
    try:
        from lmzoo.cli.card_plots import n_without_sign, save_plots
    except ImportError:
        click.echo("warning: no plots without matplotlib: python -m pip install 'lmzoo[plots]'", err=True)
        return []
    if n := n_without_sign(card):
        told = f"note: no font here draws {n} of the most frequent symbols, which the plots show as U+XXXX; install one"
        click.echo(f"{told} such as Noto Sans CJK", err=True)
    return save_plots(card, folder)
