"""Requests to end: at once where nothing is lost, and after the step under way where a checkpoint is kept."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

# after so long the callback is over, mostly; if not, it is asked once more
_AGAIN_S = 0.02
_REQUESTS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class SignalledError(BaseException):
    """A signal that would have ended the process at once; so what was begun is cleared away first."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let a request to end, as `timeout` and batch systems send it, clear away what was begun."""
    # what the caller chose to ignore (nohup) or to handle stays as it is
    defaults = [number for number in _REQUESTS if signal.getsignal(number) is signal.SIG_DFL]
    # where no thread can be signalled, what callbacks drop is lost
    again = _said_again() if hasattr(signal, "pthread_kill") else contextlib.nullcontext()
    with _handled(_raise, defaults), again:
        yield


@contextlib.contextmanager
def _said_again() -> Iterator[None]:
    """Make a request again that came while compiled code called back, which drops what is raised there."""
    dropped: list[signal.Signals] = []
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        if not isinstance(error, (KeyboardInterrupt, SignalledError)):
            before(unraisable)
            return
        number = signal.Signals(error.signal) if isinstance(error, SignalledError) else signal.SIGINT
        dropped.append(number)
        again = threading.Timer(_AGAIN_S, _ask, [dropped, number])
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
        if dropped:
            # the work ended before it could be asked again
            _end(dropped[-1])
    finally:
        sys.unraisablehook = before
        dropped.clear()


def _ask(dropped: list[signal.Signals], number: signal.Signals) -> None:
    # nothing is left to be ended once the block is over
    if dropped and callable(signal.getsignal(number)):
        # to the main thread, which may be waiting for something
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def _end(number: int) -> NoReturn:
    """End as this signal would end it."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SignalledError(number)


class Request:
    """A request to end that is held back.  Called, it says whether there was one."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __call__(self) -> bool:
        return self._number is not None

    def hold(self, number: int) -> None:
        """Keep the signal for later."""
        self._number = number

    def fulfil(self) -> NoReturn:
        """End as the signal would have ended it."""
        _end(signal.SIGINT if self._number is None else self._number)


@contextlib.contextmanager
def held_back() -> Iterator[Request]:
    """Hold the first request to end within the block back, Ctrl-C among them; a second one acts at once."""
    request = Request()
    numbers = [number for number in (signal.SIGINT, *_REQUESTS) if callable(signal.getsignal(number))]
    with contextlib.ExitStack() as handling:

        def hold(number: int, _: FrameType | None) -> None:
            request.hold(number)
            handling.close()

        handling.enter_context(_handled(hold, numbers))
        yield request


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], numbers: list[int]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def _raise(number: int, _: FrameType | None) -> None:
    raise SignalledError(number)
