"""What things are called: runs by the names of their folders, never by those that these lie in; hashes, numbers."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bench.report import wording

_DIGITS = 12
# more names than this are counted instead of listed
_MAX_NAMES = 4


def shown_path(path: Path | str) -> str:
    """A path as text that any stream can take, also where the locale could not decode it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _last_part(folder: Path) -> str:
    """The name of a folder, also where the path does not end in it; that of the root is its sign."""
    return folder.name if folder.name not in ("", "..") else Path(os.path.realpath(folder)).name or os.sep


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each folder, no two alike; those that share one are numbered, by numbers that no folder's name has."""
    names = [shown_path(_last_part(folder)) for folder in folders]
    counts = Counter(names)
    numbered = {name: _numbered(name, counts) for name in counts}
    return [next(numbered[name]) if counts[name] > 1 else name for name in names]


def _numbered(name: str, taken: Collection[str]) -> Iterator[str]:
    return (text for n in itertools.count(1) if (text := f"{name} ({n})") not in taken)


def shortened(digest: str) -> str:
    """As much of a hash as tells it from others."""
    return digest[:_DIGITS]


def few_of(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    shown = [wording.isolated(name) for name in names[:_MAX_NAMES]]
    more = len(names) - len(shown)
    return wording.listed([*shown, f"{more} more"] if more else shown)


def counted(n: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
