"""What runs are called: by the names of their folders, never by the folders that these lie in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def shown_path(path: Path | str) -> str:
    """A path as text that any stream can take, also where the locale could not decode it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _last_part(folder: Path) -> str:
    """The name of a folder, also where the path does not end in it."""
    return folder.name if folder.name not in ("", "..") else Path(os.path.realpath(folder)).name


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each folder; those that share one are numbered."""
    names = [shown_path(_last_part(folder)) for folder in folders]
    counts, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if counts[name] > 1 else name)
    return numbered
