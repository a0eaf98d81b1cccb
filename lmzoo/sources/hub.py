"""`hf:name[:config]` and `hf:folder`: texts through Hugging Face `datasets`, which fetches and caches them.

No code of a data set is ever run: `datasets` itself has refused to since version 4.  A local folder of parquet, JSON
lines or text files named like its splits is read without any network.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lmzoo.errors import CorpusError, MissingDataError, MissingLibraryError, UnknownCorpusError
from lmzoo.sources.source import Readers

_TEXT_COLUMN = "text"
# names that splits have, the most usual first
_SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
_ROWS_AT_ONCE = 1000
_LONGEST_MESSAGE = 200


def shown_name(name: str) -> str:
    """A data set as reports name it: of a folder the last part."""
    return Path(name).name if is_folder(name) else name


def checked_name(name: str) -> str:
    """The name of a data set, if it can be one.  Raises `UnknownCorpusError`."""
    if not name.strip(":/ "):
        raise UnknownCorpusError(
            f"a data set is named like hf:name, hf:owner/name:config or hf:folder, got 'hf:{name}'"
        )
    return name


def open_dataset(name: str) -> Readers:
    """What reads each part of a data set: a text whose lines are its rows.

    Of a single split 80/10/10 is cut as of any text; a validation split without a test split is the test part.

    Raises:
        MissingLibraryError: `datasets` is not installed.
        MissingDataError: it is neither cached nor can it be fetched.
        CorpusError: it has no column of texts, or no split to train on.
    """
    splits = _loaded(name)
    found = {part: next((splits[known] for known in names if known in splits), None) for part, names in _SPLITS.items()}
    if found["train"] is None:
        if len(splits) != 1:
            raise CorpusError(f"hf:{name} has no split 'train'; it has: {', '.join(splits)}")
        (found["train"],) = splits.values()
    if found["test"] is None:
        found["test"], found["valid"] = found["valid"], None
    parts: Readers = {part: partial(_text, split, _column(name, split)) for part, split in found.items() if split}
    return parts if "test" in parts else {"whole": parts["train"]}


def _loaded(name: str) -> Mapping[str, Any]:
    try:
        import datasets
    except ImportError as error:
        raise MissingLibraryError(
            "corpora named hf:… need datasets: python -m pip install 'lmzoo[datasets]'"
        ) from error
    path, config = (name, None) if is_folder(name) else _partitioned(name)
    try:
        with _quiet(datasets):
            splits: Mapping[str, Any] = datasets.load_dataset(path, config)
            return splits
    # what lies below (the hub, the network, parquet) raises kinds of its own
    except Exception as error:
        raise MissingDataError(f"hf:{name} cannot be had: {_first_line(error)}; {_cure(path)}") from error


def _cure(path: str) -> str:
    if is_folder(path):
        return "a folder holds files of one kind, such as train.parquet and test.parquet, or all .jsonl, or all .txt"
    return (
        "offline only what is cached can be read: fetch it where there is a network with python -m lmzoo corpora "
        "hf:… --fetch, and copy the folder that HF_HOME names, or save its files and give hf:folder"
    )


def is_folder(name: str) -> bool:
    """Whether a name is that of a folder here, which no network is asked for."""
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _partitioned(name: str) -> tuple[str, str | None]:
    path, _, config = name.partition(":")
    return path, config or None


def _column(name: str, split: Any) -> str:
    """The column of texts: the one called `text`, else the only one that holds any."""
    texts: list[str] = [
        column for column, feature in split.features.items() if "string" in str(getattr(feature, "dtype", ""))
    ]
    if _TEXT_COLUMN in texts:
        return _TEXT_COLUMN
    if len(texts) != 1:
        raise CorpusError(
            f"hf:{name} has {len(texts)} columns of texts, none called {_TEXT_COLUMN!r}; "
            f"its columns are: {', '.join(split.features)}"
        )
    return texts[0]


def _text(split: Any, column: str) -> str:
    """The rows of a column, each ending its last line."""
    batches = split.select_columns([column]).iter(_ROWS_AT_ONCE)
    rows: Iterator[str | None] = (row for batch in batches for row in batch[column])
    return "".join(row.removesuffix("\n") + "\n" for row in rows if row is not None)


def _first_line(error: Exception) -> str:
    """What an error says, short enough for a line of ours."""
    told = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {told}"[:_LONGEST_MESSAGE]


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """No bars and no word of each attempt to reach the hub: what comes of it is said once."""
    was_shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bar()
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if was_shown:
            datasets.enable_progress_bar()
