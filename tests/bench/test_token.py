"""To which clusters a token is shown, without any: a head that wants one, or none, and a library that asks it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.executor.protocol import ExecutorError
from bench.executor.token import shown

ADDRESS = "head:6379"
RIGHT, WRONG = "right", "wrong"


class FakeRayError(Exception):
    """What its errors have in common."""


class FakeAuthenticationError(FakeRayError):
    """Not let in."""


class FakeRay:
    """A library that shows its token by the mode that it read last, and a head that lets in who has `wanted`.

    `wanted`: the head's token; None: it wants none.
    """

    def __init__(self, wanted: str | None) -> None:
        self.exceptions = SimpleNamespace(RayError=FakeRayError, AuthenticationError=FakeAuthenticationError)
        self._raylet = SimpleNamespace(GcsClient=self._ask, Config=SimpleNamespace(initialize=self._read))
        self._wanted = wanted
        self._read("")

    @property
    def shown(self) -> str | None:
        """The token, by the mode that was read last; like the library it fails where there is none."""
        return Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text(encoding="ascii") if self._shows else None

    def _read(self, _: str) -> None:
        self._shows = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"

    def _ask(self, address: str) -> None:
        assert address == ADDRESS
        # the library writes there itself
        os.write(2, b"the head answered something\n")
        if self._wanted not in (None, self.shown):
            raise FakeAuthenticationError


@pytest.fixture
def has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets this user's token and mode; None: not there."""

    def put(token: str | None, mode: str | None) -> None:
        monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
        if token is not None:
            (tmp_path / "token").write_text(token, encoding="ascii")
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        if mode is not None:
            monkeypatch.setenv("RAY_AUTH_MODE", mode)

    return put


@pytest.mark.parametrize(
    ("wanted", "token", "mode", "is_shown"),
    [
        (RIGHT, RIGHT, None, True),
        (RIGHT, RIGHT, "token", True),
        (RIGHT, RIGHT, "Token", True),
        # nodes without a token do not answer who wants theirs
        (None, RIGHT, None, False),
        (None, None, None, False),
        (None, RIGHT, "disabled", False),
    ],
)
def test_a_token_is_shown_to_who_wants_it_and_only_meanwhile(
    has: Any, capfd: Any, wanted: str | None, token: str | None, mode: str | None, is_shown: bool
) -> None:
    has(token, mode)
    ray = FakeRay(wanted)
    before = ray.shown
    with shown(ray, ADDRESS):
        assert ray.shown == (token if is_shown else None)
    assert (os.environ.get("RAY_AUTH_MODE"), ray.shown) == (mode, before)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("wanted", "token", "mode", "why"),
    [
        (RIGHT, None, None, "wants its token, but none was found; put the head's token into ~/.ray/auth_token"),
        (RIGHT, None, "token", "wants its token, but none was found"),
        (RIGHT, "", None, "wants its token, but none was found"),
        (RIGHT, WRONG, None, "wants its token, but the one found is another"),
        (RIGHT, WRONG, "token", "wants its token, but the one found is another"),
        (RIGHT, RIGHT, "disabled", "wants its token, but RAY_AUTH_MODE is disabled"),
        (None, RIGHT, "token", "has no token, so that anybody may use it, but RAY_AUTH_MODE is token"),
    ],
)
def test_who_is_not_let_in_is_told_why_in_one_line(
    has: Any, capfd: Any, wanted: str | None, token: str | None, mode: str | None, why: str
) -> None:
    has(token, mode)
    ray = FakeRay(wanted)
    with pytest.raises(ExecutorError) as caught, shown(ray, ADDRESS):
        pass
    assert str(caught.value).startswith(f"the Ray cluster at {ADDRESS} {why}")
    assert os.environ.get("RAY_AUTH_MODE") == mode
    assert capfd.readouterr() == ("", "")


def test_what_is_no_head_is_told(has: Any) -> None:
    has(None, None)
    ray = FakeRay(None)

    def time_out(address: str) -> None:
        raise FakeRayError(f"{address} timed out")

    ray._raylet.GcsClient = time_out
    with pytest.raises(ExecutorError, match="not answer as a Ray cluster does: head:6379 timed"), shown(ray, ADDRESS):
        pass
