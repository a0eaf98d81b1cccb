"""What a terminal cannot show is spelled out instead of ending the program."""

from __future__ import annotations

import io
import sys


def soften_console() -> None:
    """Print signs that the console's encoding lacks as escapes: a finished report is not lost to an arrow."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
