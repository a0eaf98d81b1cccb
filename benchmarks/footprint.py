"""Peak memory of training, each in a process of its own that does nothing else."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.memory import peak_rss_bytes

_ROOT = Path(__file__).parents[1]
_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Peak:
    """High-water marks of a process: once everything was imported, and at its end."""

    imports_bytes: int
    peak_bytes: int

    @property
    def beyond_imports_bytes(self) -> int:
        return self.peak_bytes - self.imports_bytes


@dataclass(frozen=True, kw_only=True)
class Counting:
    """What counting and smoothing a text of ids took: seconds, peak memory beyond the imports (the ids are in it)."""

    n_tokens: int
    n_symbols: int
    n_grams: int
    seconds: float
    peak_bytes: int
    loaded: tuple[str, ...]


def peak_of_training(spec: str, text: Path, short: Path) -> Peak:
    """The peak of reading a text file of words and training on it; `short` is the validation and test text."""
    arguments = ("training", spec, str(text), str(short))
    # a first process says which modules training loads on its way; in the second they count as imports
    found = _in_a_process(*arguments, *_in_a_process(*arguments)["loaded"])
    return Peak(imports_bytes=found["imports_bytes"], peak_bytes=found["peak_bytes"])


def counting(spec: str, text: Path, *modules: str) -> Counting:
    """Count and smooth the ids of an `.npz` file of `synthetic.EncodedText`, the modules imported before."""
    found = _in_a_process("counting", spec, str(text), *modules)
    return Counting(**{**found, "loaded": tuple(found["loaded"])})


def peak_of_program(command: Sequence[str]) -> int:
    """The high-water mark of another program, in bytes."""
    # started by a small process: a child's mark is never below that of the process it was forked from
    return int(_in_a_process("program", *command)["peak_bytes"])


def _in_a_process(task: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.footprint", task, *arguments]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"the process that measures {task} ended with {done.returncode}: {complaint}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _training(spec: str, text: str, short: str, *modules: str) -> dict[str, Any]:
    import lmzoo

    load_corpus, train = lmzoo.load_corpus, lmzoo.train
    for name in ("lmzoo.ngram.trainer", *modules):
        importlib.import_module(name)
    there, imports_bytes = set(sys.modules), peak_rss_bytes()
    train(spec, load_corpus(train=text, valid=short, test=short, tokens="word"))
    peak_bytes = peak_rss_bytes()
    return {"imports_bytes": imports_bytes, "peak_bytes": peak_bytes, "loaded": _loaded_since(there)}


def _counting(spec: str, text: str, *modules: str) -> dict[str, Any]:
    import numpy as np

    from benchmarks.synthetic import EncodedText, split_of
    from lmzoo.budget import Budget
    from lmzoo.registry import create_trainer

    for name in ("lmzoo.ngram.trainer", *modules):
        importlib.import_module(name)
    there, imports_bytes = set(sys.modules), peak_rss_bytes()
    with np.load(text) as arrays:
        split = split_of(EncodedText(**arrays))
    trainer, budget = create_trainer(spec, split.vocab), Budget()
    with budget.watch.running():
        for _ in trainer.steps(split, split, np.random.default_rng(0), budget):
            pass
    return {
        "n_tokens": split.n_tokens,
        "n_symbols": len(split.vocab),
        "n_grams": trainer.model.n_params,  # type: ignore[attr-defined]
        "seconds": budget.watch.elapsed_s,
        "peak_bytes": peak_rss_bytes() - imports_bytes,
        "loaded": _loaded_since(there),
    }


def _loaded_since(there: set[str]) -> list[str]:
    return sorted(name for name in set(sys.modules) - there if name.startswith("lmzoo."))


def _program(*command: str) -> dict[str, Any]:
    import resource  # not on every system

    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _KIB}


_TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "training": _training,
    "counting": _counting,
    "program": _program,
}

if __name__ == "__main__":
    print(json.dumps(_TASKS[sys.argv[1]](*sys.argv[2:])))
