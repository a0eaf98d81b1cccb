"""A corpus card for people: the same sheets as text for a terminal and as Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmzoo.card import Card, Counted, PartCard
from lmzoo.characters import code_of, sign_of

_BAR_CELLS = 24
_N_SYMBOLS = 12
_N_INVISIBLE = 20
# wide enough for every sheet where nothing says how wide a line may be
_UNLIMITED = 200
_MARKDOWN_SIGNS = str.maketrans({sign: f"&#{ord(sign)};" for sign in "|*_`\\[]"})


class _Output(Console):
    """Standard output, whose failures are the command's to answer."""

    def on_broken_pipe(self) -> None:
        """Without this, rich would end the program with status 1."""
        raise


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A titled table; columns named `…:` hold text, all others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def print_card(card: Card, file: IO[str]) -> None:
    """The card as text."""
    console = _Output(file=file, highlight=False)
    if not console.is_terminal:
        console = _Output(file=file, highlight=False, width=max(_UNLIMITED, console.width))
    for fact, value in _facts(card):
        console.print(Text(f"{fact}: {value}"), soft_wrap=True)
    for sheet in _sheets(card, all_in="--json"):
        table = Table(title=sheet.title, box=SIMPLE_HEAD, show_edge=False, title_justify="left", title_style="bold")
        for column in sheet.columns:
            table.add_column(Text(column.removesuffix(":")), justify="left" if column.endswith(":") else "right")
        for row in sheet.rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(table)
        if sheet.note:
            console.print(Text(sheet.note), soft_wrap=True)


def markdown(card: Card, plots: Sequence[tuple[str, str]]) -> str:
    """The card as Markdown; `plots` are titles and files of pictures."""
    lines = [f"# {_escaped(card.name)}", ""]
    lines += [f"* {fact}: {_escaped(value)}" for fact, value in _facts(card)]
    for sheet in _sheets(card, all_in="card.json"):
        rules = [":--" if column.endswith(":") else "--:" for column in sheet.columns]
        rows = [[column.removesuffix(":") for column in sheet.columns], rules, *sheet.rows]
        lines += ["", f"## {sheet.title}", ""]
        lines += [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
        lines += ["", sheet.note] if sheet.note else []
    lines += ["", "## Plots"] if plots else []
    for title, name in plots:
        lines += ["", f"![{title}]({name})"]
    return "\n".join(lines) + "\n"


def shown(symbol: str) -> str:
    """A symbol as it can be seen: what is blank or not printable by a short name or its code points."""
    if len(symbol) == 1 and (not symbol.isprintable() or symbol.isspace()):
        return sign_of(symbol)
    is_seen = symbol.isprintable() and symbol.strip() == symbol
    return symbol if is_seen else "".join(c if c.isprintable() and not c.isspace() else code_of(c) for c in symbol)


def _escaped(text: str) -> str:
    return html.escape(text, quote=False).translate(_MARKDOWN_SIGNS)


def _facts(card: Card) -> Iterator[tuple[str, str]]:
    yield "corpus", card.name
    yield "read as", f"{card.tokenizer} tokens, normalize {card.normalize}, documents {card.documents}"
    cut_off = f", min_freq {card.min_freq}" if card.min_freq > 1 else ""
    if len(card.parts) == 1:
        yield "parts", "one: too short to be cut into training, validation and test part"
    yield "vocabulary", f"{card.n_symbols:,} predictable symbols{cut_off}"
    yield "characters", f"{card.n_characters:,} different; letters: {_listed(card.scripts) or 'none'}"
    forms = card.normal_forms
    is_done = "nfc" in card.normalize.split("+")
    changes, as_read = ("changed", " before that") if is_done else ("would change", "")
    examples = f" ({', '.join(forms.examples)})" if forms.examples else ""
    yield (
        "normal forms",
        f"NFC {changes} {forms.n_changed:,} characters; {forms.n_words:,} words in several forms{examples}{as_read}",
    )
    yield "blank lines skipped", f"{card.n_blank_lines:,}"
    yield "literal markers", f"{card.n_markers:,}"
    if card.n_normalized:
        yield "changed by normal forms", f"{card.n_normalized:,} characters"
    if card.n_replaced:
        yield "replaced by U+FFFD", f"{card.n_replaced:,} sequences of bytes"
    xz = f"{card.xz_bits_per_byte:.3f} bits a byte"
    yield "compressed by xz", f"{xz} (the first {card.n_compressed_bytes:,} bytes of the training text)"
    yield "sha256", card.sha256


def _listed(counted: Sequence[Counted]) -> str:
    return ", ".join(f"{item.what} {item.count:,}" for item in counted)


def _sheets(card: Card, *, all_in: str) -> Iterator[Sheet]:
    """`all_in`: where there is more than a sheet has room for."""
    yield _parts(card)
    yield _repetitions(card)
    yield _coverage(card)
    yield _ngrams(card)
    yield _symbols(card)
    if card.invisible:
        yield _invisible(card, all_in)


def _parts(card: Card) -> Sheet:
    columns = ("part:", "documents", "lines", "tokens", "different", "OOV %", "characters", "bytes")
    return Sheet(
        title="Parts",
        columns=(*columns, "longest line", "it is line"),
        rows=[_part_row(part) for part in card.parts],
        note="The longest line is told in characters.",
    )


def _part_row(part: PartCard) -> list[str]:
    longest = part.longest_line
    return [
        part.name,
        *(f"{n:,}" for n in (part.n_documents, part.n_lines, part.n_tokens, part.n_types)),
        _percent(part.n_oov, part.n_tokens),
        *(f"{n:,}" for n in (part.n_chars, part.n_bytes)),
        *(("n/a", "n/a") if longest is None else (f"{longest.n_chars:,}", f"{longest.number:,}")),
    ]


def _percent(part: float, whole: float = 1) -> str:
    return f"{100 * part / whole:.2f}" if whole else "n/a"


def _repetitions(card: Card) -> Sheet:
    within = [
        [
            part.name,
            "itself",
            _percent(part.n_repeated_documents, part.n_documents),
            _percent(part.n_repeated_lines, part.n_lines),
        ]
        for part in card.parts
    ]
    across = [[row.part, row.found_in, _percent(row.documents), _percent(row.lines)] for row in card.overlaps]
    return Sheet(
        title="Repetitions",
        columns=("of:", "found before in:", "documents %", "lines %"),
        rows=[*within, *across],
        note="Word for word but for white space at the ends.",
    )


def _coverage(card: Card) -> Sheet:
    return Sheet(
        title="Unknown tokens by vocabulary",
        columns=("symbols kept", "min_freq", "train %", "valid %", "test %"),
        rows=[
            [
                f"{row.n_symbols:,}",
                "" if row.min_freq is None else str(row.min_freq),
                *("n/a" if oov is None else _percent(oov) for oov in (row.train_oov, row.valid_oov, row.test_oov)),
            ]
            for row in card.coverage
        ],
        note="The most frequent symbols of the training part are kept.",
    )


def _ngrams(card: Card) -> Sheet:
    return Sheet(
        title="N-grams",
        columns=("order", "seen", "possible", "seen %", "once %", "new in test %", "new types %"),
        rows=[
            [
                str(row.order),
                f"{row.n_seen:,}",
                row.possible_text,
                f"{100 * row.seen_share:.4g}",
                *(
                    "n/a" if share is None else _percent(share)
                    for share in (row.once_share, row.new_token_share, row.new_type_share)
                ),
            ]
            for row in card.ngrams
        ],
        note=f"Counted in {card.n_ngram_tokens:,} training tokens.",
    )


def _symbols(card: Card) -> Sheet:
    best = card.symbols[:_N_SYMBOLS]
    total = sum(part.n_tokens for part in card.parts if part.name == "train")
    return Sheet(
        title="Most frequent symbols",
        columns=("symbol:", "count", "%", ":"),
        rows=[
            [shown(s.what), f"{s.count:,}", _percent(s.count, total), "█" * round(_BAR_CELLS * s.count / best[0].count)]
            for s in best
        ],
    )


def _invisible(card: Card, all_in: str) -> Sheet:
    rest = len(card.invisible) - _N_INVISIBLE
    return Sheet(
        title="Invisible and control characters",
        columns=("code:", "name:", "count"),
        rows=[[str(c.code), str(c.name), f"{c.count:,}"] for c in card.invisible[:_N_INVISIBLE]],
        note=f"{rest:,} more: {all_in} has them all." if rest > 0 else "",
    )
