"""`python -m bench.compare` within the process of a test: its exit status and what it says."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from bench.compare import main


@dataclass(frozen=True, kw_only=True)
class Called:
    exit_code: int
    stdout: str
    stderr: str


def called(*arguments: str | Path) -> Called:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(list(map(str, arguments)))
    return Called(exit_code=status, stdout=out.getvalue(), stderr=err.getvalue())
