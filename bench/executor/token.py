"""Whether a Ray cluster wants a token, and has been shown the right one: known before Ray connects.

Ray looks for its token by itself only where it is told no address, tries a wrong one for half a minute, and ends the
process where it is to show one that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.executor.protocol import ExecutorError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_OPEN, _BY_TOKEN = "disabled", "token"
_STDERR = 2


@contextmanager
def shown(ray: Any, address: str) -> Iterator[None]:
    """Show this user's token meanwhile, if the cluster at `host:port` wants one.

    A cluster without a token is shown none: its nodes could not answer a process that wants theirs.  Raises
    `ExecutorError` where the cluster does not let this process in, or anybody although `RAY_AUTH_MODE` is token.
    """
    asked = os.environ.get(MODE)
    asked = None if asked is None else asked.lower()
    with _mode(ray, _OPEN):
        is_open = _lets_in(ray, address)
    if is_open and asked == _BY_TOKEN:
        raise ExecutorError(
            f"the Ray cluster at {address} has no token, so that anybody may use it, but {MODE} is {asked}; start it "
            f"with {MODE}={_BY_TOKEN} too, or unset {MODE}"
        )
    if not is_open and (why := _no_token(asked)):
        raise _refusal(address, why)
    with _mode(ray, _OPEN if is_open else _BY_TOKEN):
        if not is_open and not _lets_in(ray, address):
            raise _refusal(address, "the one found is another")
        yield


def _no_token(asked: str | None) -> str | None:
    """Why no token can be shown; None: one can."""
    if asked not in (None, _BY_TOKEN):
        return f"{MODE} is {asked}"
    return None if _has_token() else "none was found"


def _refusal(address: str, why: str) -> ExecutorError:
    return ExecutorError(
        f"the Ray cluster at {address} wants its token, but {why}; put the head's token into ~/.ray/auth_token, or "
        f"into a file that {TOKEN_PATH} names, and set {MODE}={_BY_TOKEN} or unset it"
    )


def _has_token() -> bool:
    """Whether there is one where Ray looks first; it looks no further."""
    if os.environ.get(TOKEN):
        return True
    named = os.environ.get(TOKEN_PATH)
    try:
        return bool((Path(named) if named else Path.home() / ".ray" / "auth_token").read_bytes().strip())
    except OSError:
        return False


def _lets_in(ray: Any, address: str) -> bool:
    """Whether the head answers a first question.  Raises `ExecutorError` where it is no head of a cluster."""
    try:
        with _silence():
            ray._raylet.GcsClient(address=address)
    except ray.exceptions.AuthenticationError:
        return False
    except ray.exceptions.RayError as error:
        raise ExecutorError(f"what listens at {address} does not answer as a Ray cluster does: {error}") from error
    return True


@contextmanager
def _mode(ray: Any, mode: str) -> Iterator[None]:
    """Ray's mode meanwhile.  It reads the variable when it is loaded, and again when told to."""
    before = os.environ.get(MODE)
    os.environ[MODE] = mode
    try:
        ray._raylet.Config.initialize("")
        yield
    finally:
        del os.environ[MODE]
        if before is not None:
            os.environ[MODE] = before
        ray._raylet.Config.initialize("")


@contextmanager
def _silence() -> Iterator[None]:
    """Ray's library writes a line about every refusal, past all logging."""
    kept = os.dup(_STDERR)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(nothing)
        os.close(kept)
