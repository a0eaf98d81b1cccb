"""A stand-in for the worker: each trial behaves as its model's name says, so that every kind of end can be shown.

As a module it makes the trials and the executor of the tests; as a script (`python stubs.py`) it is the worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from bench.executor.local import LocalExecutor
from bench.executor.protocol import Ended, Event, Started
from bench.records import CorpusSpec, Figure, Measured, Repeats, TallyRecord, TrialRecord, TrialSpec
from lmzoo.errors import LmzooError

MIB = 1024 * 1024
HELD_MIB = 200
N_LINES_OF_FLOOD = 30
# a model named here behaves as the value says: "trigram=sleeps,kn5=raises"
BEHAVIOUR = "LMZOO_TEST_BEHAVIOUR"


def make_trial(model: str = "unigram", **changes: Any) -> TrialSpec:
    values: dict[str, Any] = {
        "trial_id": f"{model}-text-char-file-cpu-s0-00000000",
        "content_key": "0" * 64,
        "model": model,
        "spec": model,
        "options": {},
        "family": "counting",
        "corpus": CorpusSpec(name="text"),
        "corpus_sha256": "1" * 64,
        "time_limit_s": 60.0,
    }
    if "corpus" in changes:
        values["corpus_sha256"] = _sha256_of(changes["corpus"])
    return TrialSpec(**(values | changes))


def _sha256_of(corpus: CorpusSpec) -> str:
    """Of a text as it lies there now; of one that is not there, something else."""
    # not at the top: as a worker this module stays light
    from bench.describe import read_corpus

    try:
        return read_corpus(corpus).sha256
    except LmzooError:
        return "1" * 64


def stub_executor() -> LocalExecutor:
    return LocalExecutor([sys.executable, __file__])


class InstantExecutor(LocalExecutor):
    """Every trial ends well at once, without a process: for tests of what stands around the trials."""

    def run(self, trials: Sequence[TrialSpec]) -> Generator[Event, None, None]:
        for trial in trials:
            yield Started(trial=trial)
            yield Ended(record=make_record(trial))


def run_all(trials: Sequence[TrialSpec]) -> list[Any]:
    return list(stub_executor().run(trials))


def make_record(trial: TrialSpec) -> TrialRecord:
    # 4 tokens at 1/2 each: 4 ln 2 nats, perplexity 2, 1 bit a character
    tally = TallyRecord(
        nll_nats=Figure(value=2.772588722239781),
        n_tokens=4,
        n_chars=4,
        n_bytes=4,
        n_oov=0,
        n_zero=0,
        perplexity=Figure(value=2.0),
        perplexity_no_oov=Figure(value=2.0),
        bits_per_char=Figure(value=1.0),
        bits_per_byte=Figure(value=1.0),
    )
    steady = Repeats(values=(1.0,) * 5, median=1.0, low_quartile=1.0, high_quartile=1.0, unstable=False)
    measured = Measured(
        test=tally,
        valid=tally,
        top1_accuracy=Figure(value=0.5),
        block_nats=(1.3862943611198906, 1.3862943611198906),
        block_tokens=(2, 2),
        n_params=2,
        model_bytes=Figure(value=100.0),
        train_tokens=4,
        train_tokens_per_s=4.0,
        eval_tokens_per_s=steady,
        next_token_us=steady,
        next_token_us_p99=1.0,
        kernel="numpy",
        kept="last",
    )
    return TrialRecord(
        trial=trial, status="ok", measured=measured, train_s=1.0, wall_s=2.0, started_utc="2026-01-01T00:00:00+00:00"
    )


def send_record(trial: TrialSpec) -> None:
    event = {"event": "record", "record": make_record(trial).model_dump(mode="json")}
    print(json.dumps(event), flush=True)


def send_garbage_first(trial: TrialSpec) -> None:
    print("not JSON", "[1, 2]", '{"event": "unheard of"}', "\x00\x01", sep="\n", flush=True)
    sys.stdout.buffer.write(b"\xff\xfe broken bytes\n")
    print(json.dumps({"event": "progress", "phase": "training", "train_s": 1.5, "share": 0.5, "perplexity": 3.0}))
    send_record(trial)


def send_half_a_record(trial: TrialSpec) -> None:
    print(json.dumps({"event": "record", "record": {"status": "ok"}}), flush=True)


def fail(_: TrialSpec) -> None:
    raise RuntimeError("the model at /secret/folder/model.bin broke")


def leave_silently(_: TrialSpec) -> None:
    sys.exit(7)


def kill_itself(_: TrialSpec) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_for_ever(_: TrialSpec) -> None:
    threading.Event().wait()


def hold_memory(_: TrialSpec) -> None:
    held = bytearray(HELD_MIB * MIB)
    held[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(held[:: os.sysconf("SC_PAGE_SIZE")])
    threading.Event().wait()


def _send_event(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def learn_and_hang(_: TrialSpec) -> None:
    point = {"train_s": 0.25, "wall_s": 0.5, "train_tokens": 7, "valid_perplexity": {"value": 9.0}}
    _send_event(event="so_far", so_far={"curve": [point], "train_s": 0.25})
    _send_event(event="so_far", so_far={"curve": "not a curve"})
    threading.Event().wait()


def learn_and_die(trial: TrialSpec) -> None:
    threading.Timer(0.1, kill_itself, (trial,)).start()
    learn_and_hang(trial)


def flood_with_progress(trial: TrialSpec) -> None:
    line = json.dumps({"event": "progress", "phase": "training", "train_s": 1.0, "filler": "x" * MIB})
    for _ in range(N_LINES_OF_FLOOD):
        print(line)
    send_record(trial)


def flood_without_end(trial: TrialSpec) -> None:
    for _ in range(N_LINES_OF_FLOOD):
        sys.stdout.write("x" * MIB)
        sys.stderr.write("e" * MIB)
    print()
    send_record(trial)


def never_end_an_event(_: TrialSpec) -> None:
    sys.stdout.write('{"event": "')
    while True:
        sys.stdout.write("x" * MIB)


def close_the_output(_: TrialSpec) -> None:
    os.close(1)
    threading.Event().wait()


def hang_at_exit(trial: TrialSpec) -> None:
    send_record(trial)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


def die_with_a_child(trial: TrialSpec) -> None:
    """The child keeps all streams open, the output among them."""
    if os.fork() == 0:
        sleep_for_ever(trial)
    kill_itself(trial)


def wait_to_be_let_go(trial: TrialSpec) -> None:
    """Tell who this process is and who watches it, and end with a record once there is a file `go`."""
    pids = f"{os.getpid()} {os.getppid()}"
    print(json.dumps({"event": "progress", "phase": pids, "train_s": 0.0}), flush=True)
    while not Path("go").exists():
        threading.Event().wait(0.02)
    send_record(trial)


BEHAVIOURS: dict[str, Callable[[TrialSpec], None]] = {
    "garbage": send_garbage_first,
    "half": send_half_a_record,
    "raises": fail,
    "leaves": leave_silently,
    "killed": kill_itself,
    "sleeps": sleep_for_ever,
    "greedy": hold_memory,
    "stuck": learn_and_hang,
    "shot": learn_and_die,
    "floods": flood_with_progress,
    "endless": flood_without_end,
    "unended": never_end_an_event,
    "mute": close_the_output,
    "lingers": hang_at_exit,
    "orphans": die_with_a_child,
    "waits": wait_to_be_let_go,
}


def main() -> None:
    trial = TrialSpec.model_validate_json(sys.stdin.readline())
    # like the real worker it ends with its runner
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    asked = dict(item.split("=") for item in os.environ.get(BEHAVIOUR, "").split(",") if item)
    BEHAVIOURS.get(asked.get(trial.model, trial.model), send_record)(trial)


if __name__ == "__main__":
    main()
