"""KenLM's module for Python: the query side alone, one word at a time."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import kenlm_binaries


def missing() -> str | None:
    """Why the module cannot be used, and how to get it; None where it can.  Its models are built by the programs."""
    if importlib.util.find_spec("kenlm") is None:
        return "kenlm is not installed: python -m pip install kenlm"
    return kenlm_binaries.missing()


class Reader:
    """A model file, read; log10 inside, as KenLM has it."""

    def __init__(self, binary: Path) -> None:
        self._kenlm = importlib.import_module("kenlm")
        self.model: Any = self._kenlm.Model(str(binary))

    def states(self, words: Sequence[str]) -> Iterator[Any]:
        """The state before each word of a text that begins with `<s>`."""
        state = self._kenlm.State()
        self.model.BeginSentenceWrite(state)
        for word in words:
            yield state
            after = self._kenlm.State()
            self.model.BaseScore(state, word, after)
            state = after

    def distribution(self, state: Any, vocabulary: Sequence[str]) -> npt.NDArray[np.float64]:
        """log10 of the probability of each word after a state: KenLM has no call for all of them."""
        score, after = self.model.BaseScore, self._kenlm.State()
        return np.fromiter((score(state, word, after) for word in vocabulary), np.float64, len(vocabulary))
