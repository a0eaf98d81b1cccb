"""A command line to be typed at."""

from __future__ import annotations

import io
import sys

import pytest

from lmzoo.cli import run
from tests.lmzoo.typing_at import Typed


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run a command, standard input given, and give its status, output and error text."""

    def call(*arguments: object, stdin: str | bytes = b"") -> tuple[int, str, str]:
        stream = io.TextIOWrapper(io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin))
        monkeypatch.setattr(sys, "stdin", stream)
        status = run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call
