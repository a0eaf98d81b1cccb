"""Checks that a model survives its file, and that a bad file is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lmzoo import storage
from lmzoo.conformance.subject import (
    BrokenLawError,
    NotApplicableError,
    Subject,
    checks_of,
    require,
    require_close,
)
from lmzoo.errors import CorruptFileError, ForeignFileError, NewerFileError, StorageError
from lmzoo.interface import Storable
from lmzoo.registry import STORED_KINDS, stored_path

_READER_LIMIT_S = 120.0
_N_CUTS = 12

# kinds that were registered while running are registered there as well
_READER = """
import json, sys
from pathlib import Path
import numpy as np
from lmzoo import registry, storage

folder = Path(sys.argv[1])
registry.STORED_KINDS.update(json.loads((folder / "kinds.json").read_text(encoding="utf-8")))
model = storage.load(folder / "model")
tokens = np.load(folder / "tokens.npy")
logprobs, state = model.logprobs(tokens, model.initial_state(len(tokens)))
np.savez(folder / "found.npz", logprobs=logprobs, next_logprobs=model.next_logprobs(state),
         null_logprobs=model.next_logprobs(model.initial_state(bos=False)))
facts = {"vocabulary": model.vocab.fingerprint, "context_size": model.context_size,
         "is_normalized": model.is_normalized, "is_adaptive": model.is_adaptive}
(folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
"""


def equal_in_fresh_process(subject: Subject) -> None:
    """A model that was saved says the same when another process loads it."""
    data = _file_of(subject)
    tokens_BxL = subject.tokens(subject.batch_sizes[-1], 11)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").write_bytes(data)
        (folder / "kinds.json").write_text(json.dumps(dict(STORED_KINDS)), encoding="utf-8")
        np.save(folder / "tokens.npy", tokens_BxL)
        _run_reader(folder)
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        with np.load(folder / "found.npz") as arrays:
            found = dict(arrays)
    for fact, wanted in _facts(subject).items():
        require(facts[fact] == wanted, f"{fact} is {facts[fact]!r} after loading, {wanted!r} before")
    logprobs_BxL, state = subject.model.logprobs(tokens_BxL, subject.model.initial_state(len(tokens_BxL)))
    wanted_arrays = {
        "logprobs": logprobs_BxL,
        "next_logprobs": subject.model.next_logprobs(state),
        "null_logprobs": subject.model.next_logprobs(subject.model.initial_state(bos=False)),
    }
    for method, wanted_array in wanted_arrays.items():
        require_close(
            found[method], wanted_array, subject.token_tolerance, f"{method} after loading in a fresh process"
        )


def _facts(subject: Subject) -> dict[str, Any]:
    model = subject.model
    return {
        "vocabulary": model.vocab.fingerprint,
        "context_size": model.context_size,
        "is_normalized": model.is_normalized,
        "is_adaptive": model.is_adaptive,
    }


def _run_reader(folder: Path) -> None:
    """Load and score in a fresh interpreter that finds the same packages as this one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or str(Path.cwd()) for p in sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _READER, str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=_READER_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BrokenLawError(f"a fresh process cannot load the file (exit {done.returncode}): {last}")


def truncated_file(subject: Subject) -> None:
    """A file cut short raises `CorruptFileError`, wherever it is cut."""
    data = _file_of(subject)
    for cut in sorted({4, 12, *np.linspace(16, len(data) - 1, _N_CUTS).astype(int).tolist()}):
        _require_refusal(data[:cut], CorruptFileError, f"a file cut to {cut} of {len(data)} bytes")


def altered_file(subject: Subject) -> None:
    """A file with a changed byte, or without the model's arrays, raises `CorruptFileError`."""
    data = _file_of(subject)
    for place in (len(data) // 2, len(data) - 1):
        altered = bytearray(data)
        altered[place] ^= 0xFF
        _require_refusal(bytes(altered), CorruptFileError, f"a file with byte {place} changed")
    _require_refusal(storage.to_bytes(_emptied(subject)), CorruptFileError, "a file without the model's arrays")


def _emptied(subject: Subject) -> Any:
    """What is saved as the model is, but for its arrays.  Raises `NotApplicableError` for a model that has none."""
    model: Any = subject.model
    options, arrays = model.to_parts()
    if not arrays:
        raise NotApplicableError("the model's file holds no arrays")
    return SimpleNamespace(kind=model.kind, vocab=model.vocab, to_parts=lambda: (options, {}))


def foreign_file(subject: Subject) -> None:
    """A file of another kind, or an empty one, raises `ForeignFileError`."""
    data = _file_of(subject)
    for what, foreign in {
        "an empty file": b"",
        "a text": b"once upon a time\n" * 9,
        "a zip file": b"PK\x03\x04",
    }.items():
        _require_refusal(foreign, ForeignFileError, what)
    _require_refusal(b"\x00" + data, ForeignFileError, "a file with a byte before it")


def newer_file(subject: Subject) -> None:
    """A file of a later format raises `NewerFileError`."""
    data = _file_of(subject)
    # ten times the format in as many bytes, so that nothing else moves
    now, later = (f'"format":{written}'.encode() for written in (f" {storage.FORMAT}", f"{storage.FORMAT}0"))
    require(now in data, f"the file does not say {now.decode()}")
    _require_refusal(data.replace(now, later, 1), NewerFileError, "a file of a later format")


def _file_of(subject: Subject) -> bytes:
    """The bytes of the model's file.  Raises `NotApplicableError` where it has none."""
    model = subject.model
    if not isinstance(model, Storable):
        raise NotApplicableError("the model cannot be saved (it has no kind and to_parts)")
    if stored_path(model.kind) is None:
        raise NotApplicableError(f"the model cannot be saved (its kind {model.kind!r} is not registered)")
    return storage.to_bytes(subject.model)


def _require_refusal(data: bytes, wanted: type[StorageError], what: str) -> None:
    try:
        storage.from_bytes(data, what)
    except wanted:
        return
    except Exception as error:
        raise BrokenLawError(f"{what} raises {type(error).__name__} instead of {wanted.__name__}: {error}") from error
    raise BrokenLawError(f"{what} was loaded, {wanted.__name__} is wanted")


CHECKS = checks_of("persistence", (equal_in_fresh_process, truncated_file, altered_file, foreign_file, newer_file))
