"""One table for models under several tokenizers and vocabularies, which have no perplexity in common.

What they have in common is the text.  Each is measured in bits per byte of it, or per character where bytes are not
known, and two of them are tested on the same pieces of it: documents where there are enough, else pieces that are cut
at the same characters whatever the tokens.  Compressors code the text itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from bench.records import Figure, Measured
from bench.report import wording
from bench.report.answer import label_of
from bench.report.rows import Group, Row, Tested, contests_of, mean
from bench.report.tables import Cell, write_csv
from bench.stats import Floats, Interval, PairTest, holm, paired_test

Unit = Literal["byte", "char"]
# bits of each piece, a row per seed, and the pieces' sizes
Pieces = tuple[Floats, Floats]

ACROSS_COLUMNS = (
    *("corpus", "normalize", "documents", "train_fraction", "device", "unit"),
    *("model_a", "tokenizer_a", "vocab_fingerprint_a", "model_b", "tokenizer_b", "vocab_fingerprint_b"),
    *("diff_bits", "low", "high", "p_holm", "verdict"),
)


@dataclass(frozen=True, kw_only=True)
class Contest(Tested):
    """Two rows of one text, tested on the same pieces of it; bits per unit of a less those of b."""

    def of(self, row: Row, other: Row) -> str | None:
        """How `row` fares against `other`: `better`, `worse` or `~`; None where it is not these two's."""
        if {id(row), id(other)} != {id(self.a), id(self.b)}:
            return None
        if self.verdict == "~":
            return "~"
        return "better" if (self.verdict == "a") == (row is self.a) else "worse"


@dataclass(frozen=True, kw_only=True)
class Across:
    """All rows of one text, whatever cut it into tokens: same sha256, normaliser, documents and fraction."""

    rows: Sequence[Row]

    @property
    def group(self) -> Group:
        """A group for what all of them share."""
        return text_of(self.rows[0].group)

    @cached_property
    def unit(self) -> Unit:
        """Bytes, unless no row has bits per byte."""
        known = [figure_of(m, "byte").number for row in self.rows for m in row.measured]
        return "byte" if any(value is not None for value in known) else "char"

    @property
    def unit_in_words(self) -> str:
        return f"bits per {'byte' if self.unit == 'byte' else 'character'}"

    @cached_property
    def order(self) -> Sequence[Row]:
        """Those with a figure, fewest bits first, and then the others."""
        values = [(self.value(row), row) for row in self.rows]
        known = sorted(
            ((value, row.model, row.group.tokenizer, row.device, place))
            for place, (value, row) in enumerate(values)
            if value is not None
        )
        return [*(self.rows[place] for *_, place in known), *(row for value, row in values if value is None)]

    @cached_property
    def contests(self) -> Sequence[Contest]:
        """Every pair that was measured on the same pieces, corrected together (Holm)."""
        pieces = {id(row): found for row in self.order if (found := pieces_of(row, self.unit)) is not None}
        tested = [
            (device, a, b, test)
            for device, a, b in contests_of([row for row in self.rows if id(row) in pieces])
            if (test := pieces_test(pieces[id(a)], pieces[id(b)])) is not None
        ]
        corrected = holm([test.p for *_, test in tested])
        return [
            Contest(device=device, a=a, b=b, test=test, p_holm=p)
            for (device, a, b, test), p in zip(tested, corrected, strict=True)
        ]

    def value(self, row: Row) -> float | None:
        """Bits per unit of a row that ended well, the mean over its seeds."""
        return bits_of(row, self.unit)

    def interval(self, row: Row) -> Interval | None:
        return row.interval_bits_per_byte if self.unit == "byte" else row.interval_bits_per_char

    def against_best(self, row: Row) -> str:
        """How a row fares against the first; n/a where no test of the two was possible."""
        best = self.order[0]
        if row is best:
            return "best"
        return next(filter(None, (c.of(row, best) for c in self.contests)), wording.NOT_AVAILABLE)

    def name(self, row: Row) -> str:
        """A row's name with what cut the text for it."""
        return f"{wording.isolated(label_of(row, self.rows))} ({self.tokens(row)})"

    def tokens(self, row: Row) -> str:
        """What cut the text for a row, with the number of symbols where that alone tells two vocabularies apart."""
        if row.family == "coder":
            return wording.TEXT_ITSELF
        tokenizer = row.group.tokenizer
        alike = {other.group.vocab_fingerprint for other in self.rows if other.group.tokenizer == tokenizer}
        n_symbols = {record.corpus.n_symbols for record in row.records if record.corpus}
        return f"{tokenizer}, {n_symbols.pop():,} symbols" if len(alike) > 1 and n_symbols else tokenizer


def text_of(group: Group) -> Group:
    """What a group shares with those that cut the same text otherwise."""
    return replace(group, tokenizer="", vocabulary_of="", vocab_fingerprint="")


def across_of(groups: Mapping[Group, Sequence[Row]]) -> list[Across]:
    """The texts whose models have no ranking by perplexity in common."""
    found: dict[Group, list[Row]] = {}
    for group, rows in groups.items():
        found.setdefault(text_of(group), []).extend(rows)
    return [Across(rows=rows) for rows in found.values() if _is_worth_a_table(rows)]


def _is_worth_a_table(rows: Sequence[Row]) -> bool:
    """Whether no ranking by perplexity has all: several vocabularies, or a code of what the tokens do not tell."""
    has_code_alone = any(row.family == "coder" and row.measured and row.test_perplexity is None for row in rows)
    return has_code_alone or len({row.group for row in rows if row.group.sha256}) > 1


def largest_fraction(several: Sequence[Across]) -> float:
    """The share of the training text that the report is about."""
    return max((one.group.train_fraction for one in several), default=1.0)


def bits_of(row: Row, unit: Unit) -> float | None:
    """Bits per unit of a row that ended well, the mean over its seeds."""
    return mean(figure_of(m, unit).number for m in row.measured) if row.status == "ok" else None


def figure_of(measured: Measured, unit: Unit) -> Figure:
    return measured.test.bits_per_byte if unit == "byte" else measured.test.bits_per_char


def pieces_of(row: Row, unit: Unit) -> Pieces | None:
    """The bits of a row by pieces of the text, and their sizes; None where it has no figure or no pieces."""
    if row.status != "ok" or not row.measured or any(figure_of(m, unit).number is None for m in row.measured):
        return None
    in_pieces = all(m.text_nats for m in row.measured)
    name = f"{'text' if in_pieces else 'block'}_{unit}s"
    sizes = {getattr(m, name) for m in row.measured}
    if len(sizes) != 1 or not (sizes_B := np.array(sizes.pop(), np.float64)).size:
        return None
    nats_SxB = row.per_seed("text_nats") if in_pieces else row.block_nats_SxB + row.per_seed("block_spelling_nats")
    return nats_SxB / math.log(2), sizes_B


def pieces_test(a: Pieces, b: Pieces) -> PairTest | None:
    """The paired test of two rows of one text; None where unlike sizes tell that the pieces are not the same."""
    (bits_a_SxB, sizes_B), (bits_b_SxB, others_B) = a, b
    # apportioned sizes of whole documents are whole numbers but for rounding
    if sizes_B.shape != others_B.shape or not np.allclose(sizes_B, others_B, rtol=1e-9, atol=1e-6):
        return None
    return paired_test(bits_a_SxB, bits_b_SxB, sizes_B)


def write_across(folder: Path, several: Iterable[Across]) -> None:
    """Write `across.csv` into a folder, where some text was cut in more than one way; otherwise there is none."""
    rows = [_csv_row(one, contest) for one in several for contest in one.contests]
    write_csv(folder / "across.csv", ACROSS_COLUMNS, rows)


def _csv_row(across: Across, contest: Contest) -> dict[str, Cell]:
    group = across.group
    sides = {
        f"{key}_{side}": value
        for side, row in (("a", contest.a), ("b", contest.b))
        for key, value in (
            ("model", row.model),
            ("tokenizer", row.group.tokenizer),
            ("vocab_fingerprint", row.group.vocab_fingerprint),
        )
    }
    return {
        **{key: getattr(group, key) for key in ("corpus", "normalize", "documents", "train_fraction")},
        **sides,
        "device": contest.device,
        "unit": across.unit,
        "diff_bits": contest.test.diff,
        "low": contest.test.low,
        "high": contest.test.high,
        "p_holm": contest.p_holm,
        "verdict": contest.verdict,
    }
