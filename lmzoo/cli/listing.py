"""`models` and `corpora`: what there is."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import click

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows, json_lines_option

if TYPE_CHECKING:
    from lmzoo.sources import DataFile, Source

_CORPORA_EXAMPLES = """\b
Examples:
  python -m lmzoo corpora
  python -m lmzoo corpora timemachine
  python -m lmzoo corpora enwik8 --fetch
"""

_CORPORA_COLUMNS = ("name", "description", "bytes", "symbols", "licence", "verified", "from")


@cli.command(epilog="\b\nExample:\n  python -m lmzoo models")
@json_lines_option
def models(json_lines: bool) -> None:
    """List the models: name, description, and why one cannot run here, with the command that installs what is missing.

    Models of other packages stand last, with the package that adds each.
    """
    from lmzoo.registry import all_entries

    rows = Rows(("name", "description", "not here because", "package"), json_lines=json_lines)
    for name, entry in all_entries().items():
        rows.write(name, entry.description, entry.missing(), entry.package)


@cli.command(epilog=_CORPORA_EXAMPLES)
@click.argument("name", required=False)
@click.option("--fetch", is_flag=True, help="Download what is missing of NAME first, and replace what is corrupt.")
@click.option("--json-lines", is_flag=True, help="A JSON object a line instead of tab-separated values.")
def corpora(name: str | None, fetch: bool, json_lines: bool) -> None:
    """List the corpora, or tell all about NAME: its parts, their sizes, whether they are what was published.

    A list asks no network and reads no text.  Its columns: bytes of the text; predictable symbols under the corpus's
    own tokens; what a text is compared with whenever it is read (a checksum, its size, or nothing: unverified); the
    file or address it would come from.  Of what is not known the cell is empty.
    """
    if name is not None:
        _one(name, fetch=fetch, json_lines=json_lines)
    elif fetch:
        raise click.UsageError("--fetch takes the NAME of a corpus")
    else:
        _all(json_lines=json_lines)


def _all(*, json_lines: bool) -> None:
    from lmzoo.sources import PATTERNS, SOURCES

    rows = Rows(_CORPORA_COLUMNS, json_lines=json_lines)
    for source in (*SOURCES.values(), *PATTERNS.values()):
        about = (source.size_bytes, source.n_symbols, source.licence, source.check, source.origin)
        rows.write(source.name, source.description, *about)


def _one(name: str, *, fetch: bool, json_lines: bool) -> None:
    """What is known of one corpus: a row for each fact."""
    from lmzoo.sources import named_source

    source = named_source(name)
    if fetch:
        source.fetch()
    facts: dict[str, Any] = {
        "name": source.name,
        "description": source.description,
        "licence": source.licence,
        "from": source.origin,
        "verified": source.check,
        "tokens": source.tokens,
        "normalize": source.normalize,
        "own_unk": source.own_unk,
        "bytes": source.size_bytes,
        "symbols": source.n_symbols,
    }
    for part, file in source.files.items():
        facts |= {f"{part}.{fact}": value for fact, value in _facts_of(file).items()}
    facts |= _read(name, source, fetch=fetch)
    if json_lines:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    rows = Rows(("fact", "value"))
    for fact, value in facts.items():
        rows.write(fact, str(value).lower() if isinstance(value, bool) else value)


def _facts_of(file: DataFile) -> dict[str, str | int | None]:
    from lmzoo.sources.files import find_file, state_of

    found = find_file(file)
    return {
        "file": None if found is None else str(found),
        "bytes": file.n_bytes,
        "checksum": file.checksum,
        "state": state_of(file),
    }


def _read(name: str, source: Source, *, fetch: bool) -> dict[str, Any]:
    """What reading it under its own tokens shows, or the reason why it is not read."""
    from lmzoo.corpus import load_corpus
    from lmzoo.errors import LmzooError
    from lmzoo.sources import UnverifiedDataWarning
    from lmzoo.sources.files import state_of

    states = {part: state_of(file) for part, file in source.files.items()}
    lacking = [f"{part} is {state}" for part, state in states.items() if state in ("missing", "altered")]
    if source.is_remote and not fetch:
        lacking = ["it may have to be downloaded: --fetch"]
    if lacking:
        return {"reason": ", ".join(lacking)}
    try:
        with warnings.catch_warnings():
            # the states tell it already
            warnings.simplefilter("ignore", UnverifiedDataWarning)
            corpus = load_corpus(name)
    except LmzooError as error:
        return {"reason": str(error)}
    read: dict[str, Any] = {"symbols": corpus.vocab.n_predictable, "sha256": corpus.sha256}
    for split in (corpus.train, corpus.valid, corpus.test):
        sizes = {"documents": len(split), "tokens": split.n_tokens, "oov": split.n_oov}
        read |= {f"{split.name}.{fact}": n for fact, n in sizes.items()}
    return read
