"""`models` and `corpora`: what there is."""

from __future__ import annotations

from lmzoo.cli.group import cli
from lmzoo.cli.rows import Rows


@cli.command(epilog="\b\nExample:\n  python -m lmzoo models")
def models() -> None:
    """List the models: name, description, and why one cannot run here."""
    from lmzoo.registry import all_entries

    rows = Rows(("name", "description", "not here because"))
    for name, entry in all_entries().items():
        rows.write(name, entry.description, entry.missing())


@cli.command(epilog="\b\nExample:\n  python -m lmzoo corpora")
def corpora() -> None:
    """List the corpora: name, licence, and the file or address each would come from.  Asks no network."""
    from lmzoo.sources import SOURCES

    rows = Rows(("name", "description", "licence", "from"))
    for source in SOURCES.values():
        rows.write(source.name, source.description, source.licence, source.origin)
