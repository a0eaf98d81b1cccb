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
_BY_TOKEN = "token"
_STDERR = 2


@contextmanager
def shown(ray: Any, address: str) -> Iterator[None]:
    """Show the token of this user meanwhile, if the cluster at `host:port` wants one and nobody has set `RAY_AUTH_MODE`.

    A cluster without a token is shown none: its nodes could not talk to a process that asks for it.  Raises
    `ExecutorError` where the cluster does not let this process in.
    """
    mode = os.environ.get(MODE)
    wants_token = mode is None and not _lets_in(ray, address)
    if wants_token:
        os.environ[MODE] = _BY_TOKEN
    try:
        _require_entry(ray, address)
        yield
    finally:
        if wants_token:
            del os.environ[MODE]
            _read_mode(ray)


def _require_entry(ray: Any, address: str) -> None:
    shows = os.environ.get(MODE, "").lower() == _BY_TOKEN
    has = _has_token()
    if (has or not shows) and _lets_in(ray, address):
        return
    if not shows:
        why = f"none was shown, since {MODE} is {os.environ.get(MODE)}; unset it"
    elif has:
        why = "this is another one"
    else:
        why = "none is here"
    raise ExecutorError(
        f"the Ray cluster at {address} lets in who has its token, and {why}: the head's token belongs into "
        f"~/.ray/auth_token, or into a file that {TOKEN_PATH} names, and {MODE} is to be token or unset"
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
    _read_mode(ray)
    try:
        with _silence():
            ray._raylet.GcsClient(address=address)
    except ray.exceptions.AuthenticationError:
        return False
    except ray.exceptions.RayError as error:
        raise ExecutorError(f"what listens at {address} does not answer as a Ray cluster does: {error}") from error
    return True


def _read_mode(ray: Any) -> None:
    """Make Ray look at the variable again: it does so once, when it is loaded."""
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
