"""Where texts are cut: into training, validation and test part, the same place for every tokenizer, and into segments.

The context policy says what a segment is, and thereby what a document is: a file, a line or a paragraph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from lmzoo.errors import InputError, did_you_mean
from lmzoo.normalizers import Normalizer, raw_length
from lmzoo.reading import check_encodable, with_line_feeds
from lmzoo.segments import Segments
from lmzoo.tokens import normalized

Policy = Literal["file", "line", "paragraph", "running"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

# a text, or what reads it
Text = str | Callable[[], str]

# the parts of a text that is cut here: tenths, but never more than these many characters held out
VALID_START = (8, 2_000_000)
TEST_START = (9, 1_000_000)
# white space is looked for this far beyond the mark
_REACH = 100


def split_at(
    segments: Segments, marks: Sequence[tuple[int, int]], normalizer: Normalizer, n_end_chars: int
) -> list[Segments]:
    """Cut segments at the marks, each (tenths from the start, most characters after it), by normalised characters.

    `n_end_chars`: how many characters the end of a segment counts as.  Many segments are cut between two of them, at
    the first place at or after a mark; a single one is cut at the first white space there.
    """
    rewritten = normalized(segments, normalizer)
    sizes = rewritten.chars_S + n_end_chars
    total = int(sizes.sum())
    wanted = [max(-(-total * tenths // 10), total - most) for tenths, most in marks]
    if len(segments) == 1:
        return [
            Segments.of([part] if part else []) for part in _cut_text(segments[0], rewritten[0], wanted, normalizer)
        ]
    cumulative = np.cumsum(sizes)
    ends = [int(np.searchsorted(cumulative, mark)) + 1 for mark in wanted]
    bounds = [0, *(min(end, len(segments)) for end in ends), len(segments)]
    return [segments[a:b] for a, b in itertools.pairwise(bounds)]


def _cut_text(text: str, rewritten: str, marks: Sequence[int], normalizer: Normalizer) -> list[str]:
    """Cut one raw text where its normalised form has the first white space at or after each mark."""
    cuts = [0]
    for mark in marks:
        reach = rewritten[mark : mark + _REACH]
        here = next((mark + i for i, c in enumerate(reach) if c.isspace()), min(mark, len(rewritten)))
        if not normalizer.lossless:
            here = raw_length(text, here, normalizer)
        cuts.append(here)
    cuts.append(len(text))
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


def named_policy(documents: str) -> Policy:
    """The context policy of this name.  Raises `InputError`, naming the closest."""
    found = next((policy for policy in POLICIES if policy == documents), None)
    if found is not None:
        return found
    raise InputError(
        f"no context policy {documents!r}.{did_you_mean(documents, POLICIES)} There are: {', '.join(POLICIES)}"
    )


def cut_parts(texts: Mapping[str, Text], policy: Policy, normalizer: Normalizer) -> tuple[dict[str, Segments], int]:
    """Segments of the three parts, and how many blank lines were skipped."""
    segments: dict[str, Segments] = {}
    n_blank = 0
    for part, text in texts.items():
        segments[part], skipped = cut_segments(text_of(part, text), policy, normalizer)
        n_blank += skipped
    n_end_chars = int(policy != "file")
    if "whole" in segments:
        train, valid, test = split_at(segments["whole"], (VALID_START, TEST_START), normalizer, n_end_chars)
        return {"train": train, "valid": valid, "test": test}, n_blank
    if "valid" not in segments:
        train, valid = split_at(segments["train"], (TEST_START,), normalizer, n_end_chars)
        return {"train": train, "valid": valid, "test": segments["test"]}, n_blank
    return {part: segments[part] for part in ("train", "valid", "test")}, n_blank


def cut_segments(text: str, policy: Policy, normalizer: Normalizer) -> tuple[Segments, int]:
    """Raw segments of one text: itself, its lines, or its blank-line-separated blocks; and the blank lines skipped."""
    if policy == "file":
        return Segments.of([text] if text else []), 0
    lines = Segments.lines_of(text)
    rewritten = normalized(lines, normalizer)
    is_blank_L = np.zeros(len(lines), bool)
    if rewritten.have_blanks():
        is_blank_L[:] = [not line.strip(" \t") for line in rewritten]
    kept = lines.where(~is_blank_L)
    if policy == "paragraph":
        is_first_L = np.concatenate(([True], is_blank_L))[: len(lines)]
        kept = kept.joined(is_first_L[~is_blank_L])
    return kept, int(is_blank_L.sum())


def text_of(part: str, given: Text) -> str:
    text = given if isinstance(given, str) else given()
    check_encodable(text, f"the {part} text")
    return with_line_feeds(text)
