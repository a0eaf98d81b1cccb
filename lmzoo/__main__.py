"""`python -m lmzoo`, and the script `lmzoo`: the models from the command line."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command that was typed and give its exit status."""
    try:
        # here: Ctrl-C while modules are still being loaded ends as quietly as at any other time
        from lmzoo.cli import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
