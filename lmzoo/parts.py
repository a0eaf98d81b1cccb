"""Where texts are cut: into training, validation and test part, the same place for every tokenizer, and into segments.

The context policy says what a segment is, and thereby what a document is: a file, a line or a paragraph.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from lmzoo.decoding import check_encodable
from lmzoo.errors import InputError, described, did_you_mean, require_kind
from lmzoo.normalizers import Normalizer, raw_length
from lmzoo.reading import with_line_feeds
from lmzoo.segments import Segments
from lmzoo.tokens import normalized

Policy = Literal["file", "line", "paragraph", "running"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

# a text, or what reads it; several are those of several files
Text = str | Callable[[], str | Iterable[str]]

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
    the first place at or after a mark.  A single one is cut at the first white space there, and so are files
    (`n_end_chars` 0) that are too few for each part to have one.
    """
    rewritten = normalized(segments, normalizer)
    sizes = rewritten.chars_S + n_end_chars
    total = int(sizes.sum())
    wanted = [max(-(-total * tenths // 10), total - most) for tenths, most in marks]
    cumulative = np.cumsum(sizes)
    ends = [int(np.searchsorted(cumulative, mark)) + 1 for mark in wanted]
    bounds = [0, *(min(end, len(segments)) for end in ends), len(segments)]
    parts = [segments[a:b] for a, b in itertools.pairwise(bounds)]
    if len(segments) == 1 or (len(segments) and not n_end_chars and not all(map(len, parts))):
        return _cut_inside(segments, rewritten, wanted, normalizer)
    return parts


def _cut_inside(
    segments: Segments, rewritten: Segments, marks: Sequence[int], normalizer: Normalizer
) -> list[Segments]:
    """Cut raw segments where their normalised forms, laid end to end, have the first white space at or after marks."""
    starts_S = np.cumsum(rewritten.chars_S) - rewritten.chars_S
    places = [(0, 0)]
    for mark in marks:
        s = max(int(np.searchsorted(starts_S, mark, side="right")) - 1, 0)
        places.append((s, _place_in(segments[s], rewritten[s], mark - int(starts_S[s]), normalizer)))
    places.append((len(segments), 0))
    return [Segments.of(_between(segments, a, b)) for a, b in itertools.pairwise(places)]


def _place_in(text: str, rewritten: str, mark: int, normalizer: Normalizer) -> int:
    """Where a raw text is cut so that its normalised form is cut at the first white space at or after a mark.

    At a mark where it starts it is not cut.
    """
    if not mark:
        return 0
    reach = rewritten[mark : mark + _REACH]
    here = next((mark + i for i, c in enumerate(reach) if c.isspace()), min(mark, len(rewritten)))
    return here if normalizer.lossless else raw_length(text, here, normalizer)


def _between(segments: Segments, start: tuple[int, int], end: tuple[int, int]) -> list[str]:
    """The texts between two places, each a segment and a character of it."""
    (first, a), (last, b) = start, end
    texts = [segments[s] for s in range(first, min(last + 1, len(segments)))]
    if last < len(segments):
        texts[-1] = texts[-1][:b]
    if texts:
        texts[0] = texts[0][a:]
    return [text for text in texts if text]


def named_policy(documents: str) -> Policy:
    """The context policy of this name.  Raises `InputError`, naming the closest."""
    require_kind(documents, str, "a context policy", f"one of {', '.join(POLICIES)}")
    found = next((policy for policy in POLICIES if policy == documents), None)
    if found is not None:
        return found
    raise InputError(
        f"no context policy {documents!r}.{did_you_mean(documents, POLICIES)} There are: {', '.join(POLICIES)}"
    )


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The segments of the three parts, and what was found on the way.

    Attributes:
        n_blank: blank lines that were skipped.
        n_read: characters of all texts as read.
        n_normalized: characters that normal forms change.
        is_uncut: all is training part, and the others are empty.
    """

    parts: Mapping[str, Segments]
    n_blank: int
    n_read: int
    n_normalized: int
    is_uncut: bool = False


def cut_parts(
    texts: Mapping[str, Text],
    policy: Policy,
    normalizer: Normalizer,
    *,
    uncut_if_short: bool = False,
    with_test: bool = True,
) -> Cut:
    """The three parts of a text, or of given parts; each text is read once.

    `uncut_if_short`: a text that is too short for three parts is the training part, and the others are empty.
    `with_test`: without, the test part is empty, and a text that is given for it is not read.
    """
    if not with_test and "whole" not in texts:
        texts = {**texts, "test": ""}
    segments: dict[str, Segments] = {}
    n_blank = n_read = 0
    for part, text in texts.items():
        read = [(*cut_segments(piece, policy, normalizer), len(piece)) for piece in texts_of(part, text)]
        segments[part] = Segments.together([found for found, _, _ in read])
        n_blank += sum(skipped for _, skipped, _ in read)
        n_read += sum(n_chars for _, _, n_chars in read)
    parts = _three_parts(segments, normalizer, n_end_chars=int(policy != "file"))
    is_uncut = uncut_if_short and "whole" in segments and not all(map(len, parts.values()))
    if is_uncut:
        parts = {"train": segments["whole"], "valid": Segments.of([]), "test": Segments.of([])}
    if not with_test:
        parts["test"] = Segments.of([])
    return Cut(
        parts=parts,
        n_blank=n_blank,
        n_read=n_read,
        n_normalized=sum(normalizer.n_changed(found.text) for found in segments.values()) if normalizer.joins else 0,
        is_uncut=is_uncut,
    )


def _three_parts(segments: Mapping[str, Segments], normalizer: Normalizer, *, n_end_chars: int) -> dict[str, Segments]:
    if "whole" in segments:
        train, valid, test = split_at(segments["whole"], (VALID_START, TEST_START), normalizer, n_end_chars)
        return {"train": train, "valid": valid, "test": test}
    if "valid" not in segments:
        train, valid = split_at(segments["train"], (TEST_START,), normalizer, n_end_chars)
        return {"train": train, "valid": valid, "test": segments["test"]}
    return {part: segments[part] for part in ("train", "valid", "test")}


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


def texts_of(part: str, given: Text) -> Iterator[str]:
    """The texts that are given or read, with LF line ends.  Raises `TextError` for half a surrogate pair."""
    if not isinstance(given, str) and not callable(given):
        raise InputError(f"the {part} text is a str, or a function that reads one, got {described(given)}")
    read = given if isinstance(given, str) else given()
    for text in [read] if isinstance(read, str) else read:
        check_encodable(text, f"the {part} text")
        yield with_line_feeds(text)


def content_sha256(parts: Mapping[str, Segments]) -> str:
    """Of all parts as they were cut, so that another cut of the same text is another corpus."""
    digest = hashlib.sha256()
    for part, segments in parts.items():
        digest.update(f"{part} {len(segments)}\n".encode())
        digest.update(segments.view)
        if segments.n_inner_ends and len(segments) > 1:
            # the same lines may be cut into as many segments elsewhere
            digest.update(np.cumsum(segments.bytes_S).astype("<i8").tobytes())
    return digest.hexdigest()


def share_of_lines(train: Segments, test: Segments) -> float:
    """The share of test lines that stand verbatim in the training text (0 to 1; blank lines do not count)."""
    lines = [line for line in map(str.strip, test.lines()) if line]
    seen = set(lines).intersection(map(str.strip, train.lines()))
    return sum(line in seen for line in lines) / len(lines) if lines else 0.0


def nothing_left(part: str, name: str, n_read: int, n_left: int, normalize: str) -> str:
    """Why a part of a text has no tokens, and the cure."""
    if not n_read:
        cure = "it is empty"
    elif 2 * n_left < n_read:
        cure = f"{normalize} leaves {n_left} of {n_read} characters"
    else:
        cure = (
            "give more text, or try --documents line (documents='line'), or parts of your own (--train, --valid, "
            "--test); lmzoo train takes all of a text for training with --all"
        )
    return f"the {part} part of {name} has 0 tokens, at least 1 is needed; {cure}"
