"""Long arrays, read and written slice by slice: numpy's own in memory, or files that are gone when nobody holds them.

Whatever works on columns in slices gives the same on both; a `Room` says which they are and how much is worked on at
once.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lmzoo.errors import StorageError

# what a folder left behind by a killed process is known by
FOLDER_PREFIX = "lmzoo-counting-"


class Column(Protocol):
    """What an array and a file have in common: slices without a step."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> npt.NDArray[Any]: ...

    def __setitem__(self, part: slice, values: npt.NDArray[Any], /) -> None: ...


class DiskColumn:
    """A column in a file of its own.  What was never written must not be read.

    Raises `StorageError` where the disk takes no more.
    """

    def __init__(self, folder: Path, length: int, dtype: npt.DTypeLike, need: str) -> None:
        self.dtype = np.dtype(dtype)
        self._length = length
        self._folder = folder
        self._need = need
        try:
            # without a name on POSIX: whatever ends the process, the system takes the file back
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed when the column is gone
        except OSError as error:
            raise self._refused(error) from error
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        start, stop, _ = part.indices(self._length)
        values = np.empty(max(stop - start, 0), self.dtype)
        waiting = values.view(np.uint8).data
        self._file.seek(start * self.dtype.itemsize)
        while waiting:
            n_read = self._file.readinto(waiting)
            if not n_read:
                raise StorageError(f"a temporary file in {self._folder} is cut short; is the disk in order?")
            waiting = waiting[n_read:]
        return values

    def __setitem__(self, part: slice, values: npt.NDArray[Any]) -> None:
        start, _, _ = part.indices(self._length)
        waiting = np.ascontiguousarray(values, self.dtype).view(np.uint8).data
        try:
            self._file.seek(start * self.dtype.itemsize)
            while waiting:
                waiting = waiting[self._file.write(waiting) :]
        except OSError as error:
            raise self._refused(error) from error

    def grow(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        start = self._length
        self._length += len(values)
        self[start : self._length] = values

    def cut(self, length: int) -> None:
        """Keep the first so many only."""
        self._length = length

    def mapped(self) -> npt.NDArray[Any]:
        """The whole as an array that the system pages in as it is looked at; it outlives the column."""
        if not self._length:
            return np.zeros(0, self.dtype)
        return np.memmap(self._file, self.dtype, "r", shape=(self._length,))

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write temporary files to {self._folder}: {error.strerror or error}; {self._need}; "
            f"set TMPDIR to a folder with more room, or allow more memory"
        )


class Spool:
    """Values that come piece by piece, to be gone through once they are all there."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._pieces: list[npt.NDArray[Any]] = [np.zeros(0, dtype)]

    def append(self, values: npt.NDArray[Any]) -> None:
        self._pieces.append(values.astype(self._pieces[0].dtype, copy=False))

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return iter(self._pieces)

    def joined(self) -> Column:
        """All of them as one column."""
        return np.concatenate(self._pieces)


class DiskSpool(Spool):
    """The same on disk; read again so many at once."""

    def __init__(self, column: DiskColumn, n_at_once: int) -> None:
        self._column = column
        self._n_at_once = n_at_once

    def append(self, values: npt.NDArray[Any]) -> None:
        self._column.grow(values)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self._column[part] for part in parts_of(len(self._column), self._n_at_once))

    def joined(self) -> Column:
        return self._column


@dataclass(frozen=True, kw_only=True)
class Room:
    """Where columns lie and how much is in memory at once; here, in memory, without bounds.

    Attributes:
        n_grams: n-grams worked on at once: few enough that what is computed of them stays in the processor's cache.
        n_positions: tokens of the text sorted at once; None: all.
        n_values: values looked up at random that are held at once; None: all.
    """

    n_grams: int = 1 << 15
    n_positions: int | None = None
    n_values: int | None = None

    def empty(self, length: int, dtype: npt.DTypeLike) -> Column:
        """A column of this length, to be written before it is read."""
        return np.empty(length, dtype)

    def cut(self, column: Column, length: int) -> Column:
        """The first so many values of a column; it is used no more."""
        return column[:length]

    def mapped(self, column: Column) -> npt.NDArray[Any]:
        """A column as an array."""
        return column[:]

    def picked(self, values: Column, at: Column) -> Column:
        """`values[at]`, to be read slice by slice."""
        return Picked(values[:], at)

    def spool(self, dtype: npt.DTypeLike) -> Spool:
        """What is yet to come, of unknown length."""
        return Spool(dtype)


IN_MEMORY = Room()


@dataclass(frozen=True, kw_only=True)
class DiskRoom(Room):
    """Columns in files under one folder.  `need`: how much they may take, for whom the disk is too small."""

    folder: Path
    need: str

    def empty(self, length: int, dtype: npt.DTypeLike) -> DiskColumn:
        return DiskColumn(self.folder, length, dtype, self.need)

    def cut(self, column: Column, length: int) -> Column:
        assert isinstance(column, DiskColumn)
        column.cut(length)
        return column

    def mapped(self, column: Column) -> npt.NDArray[Any]:
        return column.mapped() if isinstance(column, DiskColumn) else column[:]

    def spool(self, dtype: npt.DTypeLike) -> Spool:
        return DiskSpool(self.empty(0, dtype), self.n_positions or self.n_grams)

    def picked(self, values: Column, at: Column) -> Column:
        """In one pass over `at` for as many values as fit in memory."""
        n_values = self.n_values or len(values)
        if len(values) <= n_values:
            return Picked(values[:], at)
        found = self.empty(len(at), values.dtype)
        for low in range(0, len(values), n_values):
            window = values[low : low + n_values]
            for part in parts_of(len(at), self.n_grams):
                place = at[part].astype(np.int64) - low
                is_here = (place >= 0) & (place < len(window))
                block = found[part] if low else np.zeros(len(place), values.dtype)
                block[is_here] = window[place[is_here]]
                found[part] = block
        return found


@contextlib.contextmanager
def disk_room(*, n_grams: int, n_positions: int, n_values: int, need: str) -> Iterator[DiskRoom]:
    """Room in a folder of its own under the system's folder for temporary files; it is gone at the end of the block.

    Mapped arrays live on where the system lets a file without a name be read; elsewhere until the process ends.
    """
    try:
        given = os.environ.get("TMPDIR")
        if given and not Path(given).is_dir():
            # Python would take another folder, on another disk perhaps
            raise StorageError(f"TMPDIR={given} is no folder; make it or name another for temporary files")
        folder = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:
        raise StorageError(
            f"cannot make a folder for temporary files in {tempfile.gettempdir()}: {error.strerror or error}"
        ) from error
    with folder as name:
        yield DiskRoom(n_grams=n_grams, n_positions=n_positions, n_values=n_values, folder=Path(name), need=need)


@dataclass(frozen=True, eq=False)
class Picked:
    """`values[at]` without ever being whole."""

    values: npt.NDArray[Any]
    at: Column

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        return np.asarray(self.values[self.at[part]])

    def __setitem__(self, part: slice, values: npt.NDArray[Any]) -> None:
        raise TypeError("what was picked from other values cannot be written")


def parts_of(length: int, n_at_once: int, start: int = 0) -> Iterator[slice]:
    """Slices that cover a length from `start` on, so many at once."""
    for at in range(start, length, n_at_once):
        yield slice(at, min(at + n_at_once, length))
