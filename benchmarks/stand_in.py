"""A runner whose trials take a moment and give made-up figures: faults are injected into the harness, not into models.

`python benchmarks/stand_in.py run ...` takes the options of `python -m bench.run`; without `run` it is the worker of
such a run, which imports next to nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

# how long a trial takes
TRIAL_S = 0.3
# no report where this is set: it takes longer than all the trials
NO_REPORT = "LMZOO_STAND_IN_NO_REPORT"

_STEADY = {"values": [1.0] * 5, "median": 1.0, "low_quartile": 1.0, "high_quartile": 1.0, "unstable": False}
# 4 tokens at 1/2 each: 4 ln 2 nats, perplexity 2, 1 bit a character
_TALLY = {
    "nll_nats": {"value": 2.772588722239781},
    **{"n_tokens": 4, "n_chars": 4, "n_bytes": 4, "n_oov": 0, "n_zero": 0},
    **{name: {"value": 2.0} for name in ("perplexity", "perplexity_no_oov")},
    **{name: {"value": 1.0} for name in ("bits_per_char", "bits_per_byte")},
}
_MEASURED = {
    "test": _TALLY,
    "valid": _TALLY,
    "top1_accuracy": {"value": 0.5},
    "block_nats": [1.3862943611198906] * 2,
    "block_tokens": [2, 2],
    "n_params": 2,
    "model_bytes": {"value": 100.0},
    "train_tokens": 4,
    "train_tokens_per_s": 4.0,
    "eval_tokens_per_s": _STEADY,
    "next_token_us": _STEADY,
    "next_token_us_p99": 1.0,
    "kernel": "numpy",
    "kept": "last",
}


def record_of(trial: dict[str, Any]) -> dict[str, Any]:
    """The record of a trial, as JSON."""
    started = "2026-01-01T00:00:00+00:00"
    return {
        "trial": trial,
        "status": "ok",
        "measured": _MEASURED,
        "train_s": 1.0,
        "wall_s": 2.0,
        "started_utc": started,
    }


def work() -> None:
    trial = json.loads(sys.stdin.readline())
    # like the real worker it ends with its runner
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    threading.Event().wait(TRIAL_S)
    sys.stdout.write(json.dumps({"event": "record", "record": record_of(trial)}) + "\n")
    sys.stdout.flush()


def run(arguments: list[str]) -> int:
    from bench import asked, ending, running
    from bench.executor.local import LocalExecutor
    from bench.run import main

    def stand_in(**_: Any) -> LocalExecutor:
        return LocalExecutor([sys.executable, __file__])

    asked.EXECUTORS["local"] = stand_in
    if os.environ.get(NO_REPORT):
        setattr(running, "_report", lambda *_: False)  # noqa: B010
    ending.end_tidily_on_signals()
    return main(arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(sys.argv[2:]))
    work()
