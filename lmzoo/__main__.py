"""`python -m lmzoo`: the models from the command line."""

from __future__ import annotations

import sys

from lmzoo.cli import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
