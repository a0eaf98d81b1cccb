"""One trial in a fresh interpreter: its spec comes as a line of JSON on standard input, its record goes to the output.

Standard input stays open as long as the runner lives; when it ends, so does this process.  Whatever a model or a
library prints goes to standard error: the real standard output carries events, one JSON object a line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from typing import Any, TextIO

from bench import environment, lifeline


def main(arguments: list[str]) -> int:
    """`--describe PARENT` answers a question and ends, also with its parent; otherwise one trial runs."""
    events = _claim_stdout()
    if "--describe" in arguments:
        # the question is all that comes on standard input, so its end tells nothing
        lifeline.end_with_parent(int(arguments[arguments.index("--describe") + 1]))
        _describe(sys.stdin.readline(), events)
    else:
        line = sys.stdin.readline()
        lifeline.end_with_input()
        _run_trial(line, events, debug="--debug" in arguments)
    return 0


def _claim_stdout() -> TextIO:
    """The real standard output as a private stream; descriptor 1 is standard error from now on."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return events


def _describe(line: str, events: TextIO) -> None:
    from bench.describe import answer
    from bench.records import Question

    events.write(answer(Question.model_validate_json(line)).model_dump_json() + "\n")
    events.flush()


def _run_trial(line: str, events: TextIO, *, debug: bool) -> None:
    from bench.measure import Moment, Trial
    from bench.records import SoFar, TrialSpec
    from lmzoo.budget import Stopwatch

    def tell(moment: Moment) -> None:
        _send(events, {"event": "progress", **vars(moment)})

    def keep(so_far: SoFar) -> None:
        _send(events, {"event": "so_far", "so_far": so_far.model_dump(mode="json")})

    def log(error: BaseException) -> None:
        if debug:
            traceback.print_exception(error)

    # the imports above are part of a trial's wall clock
    age_s = environment.process_age_s()
    watch = Stopwatch()
    with watch.running():
        trial = Trial(TrialSpec.model_validate_json(line), lambda: age_s + watch.elapsed_s, tell, log, keep)
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
