"""A child process that ends when the one that started it is gone, and takes along what it started itself."""

from __future__ import annotations

import os
import signal
import sys
import threading

# the exit status of a child whose parent is gone
ORPHANED = 3
_LOOK_EVERY_S = 0.2


def end_with_input() -> None:
    """End when standard input ends, of which the parent holds the other end and to which it writes nothing more.

    A parent that died before this call is noticed too: the end of a pipe is there for whoever reads it later.
    """
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def end_with_parent(parent: int) -> None:
    """The same where standard input serves for something else.

    parent: the process id that the parent itself gave, so that one that died before this call is noticed too.
    """
    threading.Thread(target=_wait_for_end_of, args=(parent,), daemon=True).start()


def _wait_for_end_of_input() -> None:
    # a read returns only at the end of the stream
    sys.stdin.read()
    _end()


def _wait_for_end_of(parent: int) -> None:
    while os.getppid() == parent:
        threading.Event().wait(_LOOK_EVERY_S)
    _end()


def _end() -> None:
    """End at once; the leader of a session of its own ends all of it, so that no grandchild stays behind."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(ORPHANED)
