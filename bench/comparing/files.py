"""The files that a comparison is written to: whole or not at all, and never in the place of anything else."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.comparing.history import History
from bench.comparing.naming import shown_path
from bench.comparing.pages import history_page
from bench.records import Recorded
from bench.report.content import Figure, Report
from bench.sealed import read_json
from bench.store import StoreError, WriteError, write_atomically
from lmzoo.errors import CorruptFileError, StorageError, missing_library
from lmzoo.files import require_writable

# behind the page: by it the next comparison knows that it may write here
_MARK = b"<!-- written by python -m bench.compare -->\n"
_STDOUT = Path("-")
_KINDS = ("comparison", "history")


def require_free(page: Path | None, records: Path | None) -> None:
    """Raise unless both files can be written and hold nothing but an earlier comparison; nothing is changed.

    Raises `StoreError`, `WriteError` where the system refuses, and `MissingLibraryError` for a page without Jinja2.
    """
    if page is not None and importlib.util.find_spec("jinja2") is None:
        raise missing_library("jinja2", "plots", "pages")
    for path, what, is_own in ((page, "page", _is_page), (records, "JSON", _is_record)):
        if path is None:
            continue
        if path == _STDOUT:
            raise StoreError(
                f"- is no file for the {what}: standard output has the comparison; give the name of a file"
            )
        try:
            require_writable(path)
        except StorageError as error:
            raise WriteError(str(error)) from error
        # an empty file, as mktemp makes, holds nothing that could be lost
        if path.exists() and path.stat().st_size and not is_own(path):
            raise StoreError(
                f"{shown_path(path)} is there and is no {what} that bench.compare wrote; give another file"
            )
    if page is not None and records is not None and page.resolve() == records.resolve():
        raise StoreError(f"{shown_path(page)} cannot be the page and the JSON; give two files")


def write_page(path: Path, report: Report, plots: Path) -> None:
    """The page, its plots inside.  Raises `WriteError`."""
    from bench.report.html import to_html

    # half surrogates cannot be written as UTF-8
    _write(path, to_html(report, plots).encode("utf-8", "backslashreplace") + _MARK)


def write_history_page(path: Path, history: History) -> list[str]:
    """The page of a history with a plot for each text; what could not be drawn comes back as warnings.

    Raises `WriteError`.
    """
    try:
        with tempfile.TemporaryDirectory() as name:
            figures, warnings = _drawn(history, Path(name))
            write_page(path, history_page(history, figures, warnings), Path(name))
    except OSError as error:
        # no room even for the plots on their way into the page
        raise _lost(path, error) from error
    return warnings


def write_record(path: Path, record: Recorded) -> None:
    """The record as JSON.  Raises `WriteError`."""
    _write(path, record.model_dump_json(indent=1).encode() + b"\n")


def _drawn(history: History, folder: Path) -> tuple[Mapping[str, Figure], list[str]]:
    if importlib.util.find_spec("matplotlib") is None:
        return {}, ["no plots: matplotlib is not installed: python -m pip install 'lmzoo[plots]'"]
    # figures are drawn without a display; a backend left over from elsewhere could keep matplotlib from loading
    os.environ.pop("MPLBACKEND", None)
    try:
        from bench.comparing.history_plot import draw_history
    # matplotlib refuses to load for many reasons (settings of the user's, broken fonts); the tables do without it
    except Exception as error:
        return {}, [f"no plots: matplotlib cannot be loaded: {type(error).__name__}: {error}"]
    return draw_history(history, folder)


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomically(path, data)
    except OSError as error:
        raise _lost(path, error) from error


def _lost(path: Path, error: OSError) -> WriteError:
    return WriteError(f"cannot write {shown_path(path)}: {error.strerror or error}")


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - len(_MARK), 0))
            return file.read() == _MARK
    except OSError:
        # what cannot be read is not known to be one
        return False


def _is_record(path: Path) -> bool:
    try:
        data = read_json(path.resolve())
    except (CorruptFileError, FileNotFoundError):
        return False
    return isinstance(data, dict) and data.get("kind") in _KINDS
