"""Texts as they arrive: documents are handed on as soon as they are whole, and nothing else is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from lmzoo import reading
from lmzoo.decoding import replaced_text
from lmzoo.inputs import STDIN as STDIN

if TYPE_CHECKING:
    from lmzoo.decoding import Decoding
    from lmzoo.inputs import File
    from lmzoo.normalizers import Normalizer
    from lmzoo.parts import Policy
    from lmzoo.segments import Segments

# what is read, scored and written at a time: with much less, every call would cost more than its work
_BLOCK_BYTES = 1 << 16


def spoken(name: str) -> str:
    """What an input is called in messages."""
    return "standard input" if name == STDIN else name


def text_blocks(name: str | File, decoding: Decoding | None = None) -> Iterator[str]:
    """The text of a file, or of standard input for `-`, in pieces; of a pipe as soon as something comes."""
    return reading.text_blocks(name, decoding, block_bytes=_BLOCK_BYTES)


def tell_replaced(decoding: Decoding) -> None:
    """Note how much of what was read was no text in its encoding, where that is replaced."""
    if decoding.n_replaced:
        click.echo(f"note: {replaced_text(decoding.n_replaced)}", err=True)


def lines_of(name: str, decoding: Decoding | None = None) -> Iterator[str]:
    """The lines of a file, or of standard input for `-`, without their ends."""
    for text in whole_lines(text_blocks(name, decoding)):
        yield from text.removesuffix("\n").split("\n")


class Batch(NamedTuple):
    """Documents that became whole together.

    Attributes:
        lines: of the text, from 1, where each segment starts.
        n_blank: lines skipped since there is nothing but white space in them.
        n_emptied: lines skipped, or texts, of which the normaliser leaves nothing else.
    """

    segments: Segments
    lines: list[int]
    n_blank: int
    n_emptied: int


def documents_of(blocks: Iterator[str], policy: Policy, normalizer: Normalizer) -> Iterator[Batch]:
    """Documents in batches as they become whole.

    Lines and paragraphs come batch by batch, the same as from the whole text; under `file` and `running` a text is one
    document, which is whole at its end.
    """
    from lmzoo.parts import cut_segments

    if policy == "line":
        blocks = whole_lines(blocks)
    elif policy == "paragraph":
        blocks = whole_paragraphs(blocks, normalizer)
    else:
        blocks = iter(["".join(blocks)])
    n_before = 0
    for text in blocks:
        segments, n_skipped = cut_segments(text, policy, normalizer)
        if policy == "file":
            yield Batch(segments, [1] * len(segments), 0, int(is_emptied(text, normalizer)))
            continue
        lines, skipped = _located(text, segments)
        n_emptied = sum(bool(line.strip()) for line in skipped)
        yield Batch(segments, [n_before + line for line in lines], n_skipped - n_emptied, n_emptied)
        n_before += text.count("\n")


def is_emptied(text: str, normalizer: Normalizer) -> bool:
    """Whether a normaliser leaves nothing of a text that is more than white space."""
    return bool(text.strip()) and not normalizer.apply(text).strip()


def emptied_reason(text: str, normalizer: str) -> str | None:
    """What is to be said of a text of which a normaliser leaves nothing; None of another one."""
    from lmzoo.normalizers import named_normalizer

    return f"{normalizer} leaves nothing of the text" if is_emptied(text, named_normalizer(normalizer)) else None


def note_emptied(text: str, normalizer: str) -> None:
    """Say so of a context that is taken as an empty one."""
    reason = emptied_reason(text, normalizer)
    if reason is not None:
        click.echo(f"note: {text!r:.80} counts as empty: {reason}", err=True)


def _located(text: str, segments: Segments) -> tuple[list[int], list[str]]:
    """On which line of a text each of its segments starts, counted from 1; and the lines that are in none."""
    lines = text.removesuffix("\n").split("\n") if text else []
    starts, skipped, here = [], [], 0
    for segment in segments:
        first, *others = segment.split("\n")
        # equal lines are all skipped or none is
        while lines[here] != first:
            skipped.append(lines[here])
            here += 1
        starts.append(here + 1)
        here += 1 + len(others)
    return starts, skipped + lines[here:]


def whole_lines(blocks: Iterator[str]) -> Iterator[str]:
    """The same text in pieces that end where a line ends; the last line of a text may have no end."""
    waiting: list[str] = []
    for block in blocks:
        end = block.rfind("\n") + 1
        if end:
            yield "".join((*waiting, block[:end]))
            waiting.clear()
        if end < len(block):
            waiting.append(block[end:])
    if waiting:
        yield "".join(waiting)


def whole_paragraphs(blocks: Iterator[str], normalizer: Normalizer) -> Iterator[str]:
    """The same text in pieces that end with a blank line; what is blank is decided once it is normalised."""
    waiting: list[str] = []
    for text in whole_lines(blocks):
        end = _end_of_last_blank(text, normalizer)
        if end:
            yield "".join((*waiting, text[:end]))
            waiting.clear()
        if end < len(text):
            waiting.append(text[end:])
    if waiting:
        yield "".join(waiting)


def _end_of_last_blank(text: str, normalizer: Normalizer) -> int:
    """Where the last blank line of a text ends, 0 if there is none."""
    end = len(text)
    while end:
        start = text.rfind("\n", 0, end - 1) + 1
        if not normalizer.apply(text[start:end].removesuffix("\n")).strip(" \t"):
            return end
        end = start
    return 0
