"""One trial in a fresh interpreter: its spec comes as a line of JSON on standard input, its record goes to the output.

Standard input stays open as long as the runner lives; when it ends, so does this process.  Whatever a model or a
library prints goes to standard error: the real standard output carries events, one JSON object a line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import traceback
from typing import Any, TextIO

from bench import environment

# the exit status of a worker whose runner is gone
_ORPHANED = 3
_LOOK_EVERY_S = 0.2


def main(arguments: list[str]) -> int:
    """`--describe` answers a question and ends; otherwise one trial runs."""
    events = _claim_stdout()
    line = sys.stdin.readline()
    if "--describe" in arguments:
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        _describe(line, events)
    else:
        threading.Thread(target=_end_with_runner, daemon=True).start()
        _run_trial(line, events, debug="--debug" in arguments)
    return 0


def _claim_stdout() -> TextIO:
    """The real standard output as a private stream; descriptor 1 is standard error from now on."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return events


def _end_with_runner() -> None:
    # a read returns only at the end of the stream: the runner writes nothing more
    sys.stdin.read()
    os._exit(_ORPHANED)


def _end_with_parent(parent: int) -> None:
    # the question is all that comes on standard input, so its end tells nothing
    while os.getppid() == parent:
        threading.Event().wait(_LOOK_EVERY_S)
    os._exit(_ORPHANED)


def _describe(line: str, events: TextIO) -> None:
    from bench.describe import answer
    from bench.records import Question

    events.write(answer(Question.model_validate_json(line)).model_dump_json() + "\n")
    events.flush()


def _run_trial(line: str, events: TextIO, *, debug: bool) -> None:
    from bench.measure import Moment, Trial
    from bench.records import TrialSpec
    from lmzoo.budget import Stopwatch

    def tell(moment: Moment) -> None:
        _send(events, {"event": "progress", **vars(moment)})

    def log(error: BaseException) -> None:
        if debug:
            traceback.print_exception(error)

    # the imports above are part of a trial's wall clock
    age_s = environment.process_age_s()
    watch = Stopwatch()
    with watch.running():
        trial = Trial(TrialSpec.model_validate_json(line), lambda: age_s + watch.elapsed_s, tell, log)
        record = trial.run()
    _send(events, {"event": "record", "record": record.model_dump(mode="json")})


def _send(events: TextIO, event: dict[str, Any]) -> None:
    events.write(json.dumps(event, allow_nan=False) + "\n")
    events.flush()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    # what lives now goes with the process: looking through it for cycles takes longer than all else at its end
    gc.freeze()
    sys.exit(status)
