"""How signals end a run: as tidily as Ctrl-C does, and never in the middle of writing a record."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; `kill`, `timeout`; the end of the terminal.  Some systems have not all of them
SIGNALS = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
_SIGNALLED = 128


class _Handler:
    """Raises `KeyboardInterrupt`, or notes that it is to be raised as soon as nothing holds it."""

    def __init__(self) -> None:
        self.is_held = False
        self.came = False
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came, self.number = True, number
        if not self.is_held:
            raise KeyboardInterrupt


_HANDLER = _Handler()


def end_tidily_on_signals() -> None:
    """Let the signals that end a run be as tidy as Ctrl-C, and let Ctrl-C reach also a job in the background."""
    for number in SIGNALS:
        # `nohup` has the end of the terminal ignored, and means it
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _HANDLER)


def interrupted_status() -> int:
    """The exit status of what a signal has ended: 128 and its number, as shells have it; 130 (Ctrl-C) for none."""
    number, _HANDLER.number = _HANDLER.number, None
    return _SIGNALLED + (number or signal.SIGINT)


@contextmanager
def held() -> Iterator[None]:
    """What would end the run waits until the block is done.

    A flag, no mask of signals: another thread would be given the signal, and this one the interruption.
    """
    _HANDLER.came, _HANDLER.is_held = False, True
    try:
        yield
    finally:
        _HANDLER.is_held = False
    if _HANDLER.came:
        raise KeyboardInterrupt
