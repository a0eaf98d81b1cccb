"""What a worker writes, read by threads in bounded memory: however much it is, and also when a line has no end."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import IO

# an event is a JSON object on one line; the longest is the record of a text of many documents
LONGEST_EVENT_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
# lines that wait to be looked at; a worker that writes faster waits too
_MOST_WAITING = 16
_LOOK_EVERY_S = 0.1
_ERROR_LINES_KEPT = 20
_ERROR_LINE_BYTES = 1000


class TooLongError(Exception):
    """A line that starts like an event and has no end."""


class Events:
    """The lines of a worker's standard output that may be events; all others are dropped unread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lines: queue.Queue[bytes | TooLongError | None] = queue.Queue(_MOST_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self, timeout_s: float) -> bytes | None:
        """The next line, or None at the end of the output.  Raises `queue.Empty` and `TooLongError`."""
        line = self._lines.get(timeout=timeout_s)
        if isinstance(line, TooLongError):
            raise line
        return line

    def close(self, timeout_s: float) -> None:
        """Stop reading.  Where something that outlived the worker holds the pipe, the thread keeps it."""
        self._closed.set()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._stream.close()

    def _read(self) -> None:
        try:
            for line in _objects_in(self._stream):
                self._put(line)
            self._put(None)
        except TooLongError as error:
            self._put(error)

    def _put(self, line: bytes | TooLongError | None) -> None:
        while not self._closed.is_set():
            try:
                self._lines.put(line, timeout=_LOOK_EVERY_S)
            except queue.Full:
                continue
            return


class Errors:
    """The last lines of a worker's standard error, each cut where it is long; `echo` shows all of it as well."""

    def __init__(self, stream: IO[bytes], *, echo: bool) -> None:
        self._stream = stream
        self._echo = echo
        self._last: deque[str] = deque(maxlen=_ERROR_LINES_KEPT)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def last_line(self, timeout_s: float) -> str:
        """The last line, once the worker has closed the stream or the time is over."""
        self._thread.join(timeout_s)
        return self._last[-1] if self._last else "it said nothing"

    def close(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._stream.close()

    def _read(self) -> None:
        while piece := self._stream.readline(_ERROR_LINE_BYTES):
            text = piece.decode("utf-8", "replace")
            if text.strip():
                self._last.append(text.strip())
            if self._echo:
                sys.stderr.write(text)


def _objects_in(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines that start with a brace.  Raises `TooLongError` for one of more than `LONGEST_EVENT_BYTES`."""
    while line := stream.readline(_PIECE_BYTES):
        pieces, n_bytes = [line], len(line)
        while not line.endswith(b"\n") and (line := stream.readline(_PIECE_BYTES)):
            if pieces[0].startswith(b"{"):
                pieces.append(line)
                n_bytes += len(line)
            if n_bytes > LONGEST_EVENT_BYTES:
                raise TooLongError
        if pieces[0].startswith(b"{"):
            yield b"".join(pieces)
