"""Checks that a model survives its file, and that a bad file is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
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
from lmzoo.registry import STORED_KINDS

_READER_LIMIT_S = 120.0

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
    header_end = 16 + int.from_bytes(data[8:16], "little")
    cuts = {4, 12, 16, header_end // 2, header_end - 1, (header_end + len(data)) // 2, len(data) - 1}
    for cut in sorted(cut for cut in cuts if cut < len(data)):
        _require_refusal(data[:cut], CorruptFileError, f"a file cut to {cut} of {len(data)} bytes")


def altered_file(subject: Subject) -> None:
    """A file with a changed byte among its arrays, or without its arrays, raises `CorruptFileError`."""
    data = bytearray(_file_of(subject))
    header_end = 16 + int.from_bytes(data[8:16], "little")
    if header_end < len(data):
        data[-1] ^= 0xFF
        _require_refusal(bytes(data), CorruptFileError, "a file with its last byte changed")
        data[-1] ^= 0xFF
    _require_refusal(_with_header(bytes(data), arrays=[]), CorruptFileError, "a file whose header lists no arrays")


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
    """A file of a later format, or of a kind not known yet, raises `NewerFileError`."""
    data = _file_of(subject)
    later = {"format": storage.FORMAT + 1}, {"kind": "a-kind-of-tomorrow"}
    for change in later:
        _require_refusal(_with_header(data, **change), NewerFileError, f"a file with {change}")


def _file_of(subject: Subject) -> bytes:
    """The bytes of the model's file.  Raises `NotApplicableError` where it has none."""
    model = subject.model
    if not isinstance(model, Storable):
        raise NotApplicableError("the model cannot be saved (it has no kind and to_parts)")
    if model.kind not in STORED_KINDS:
        raise NotApplicableError(f"the model cannot be saved (its kind {model.kind!r} is not registered)")
    return storage.to_bytes(subject.model)


def _with_header(data: bytes, **changes: Any) -> bytes:
    """The file with other values in its header."""
    end = 16 + int.from_bytes(data[8:16], "little")
    header = json.dumps({**json.loads(data[16:end]), **changes}).encode()
    return data[:8] + len(header).to_bytes(8, "little") + header + data[end:]


def _require_refusal(data: bytes, wanted: type[StorageError], what: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model"
        path.write_bytes(data)
        try:
            storage.load(path)
        except wanted:
            return
        except Exception as error:
            raise BrokenLawError(
                f"{what} raises {type(error).__name__} instead of {wanted.__name__}: {error}"
            ) from error
    raise BrokenLawError(f"{what} was loaded, {wanted.__name__} is wanted")


CHECKS = checks_of("persistence", (equal_in_fresh_process, truncated_file, altered_file, foreign_file, newer_file))
