"""Where one text is cut into its training, validation and test part: the same place for every tokenizer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from lmzoo.segments import Segments
from lmzoo.text import Normalizer, raw_length
from lmzoo.tokens import normalized

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
