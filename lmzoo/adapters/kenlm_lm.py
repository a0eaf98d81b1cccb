"""Models of KenLM (Heafield 2011), read from ARPA files and from its binary files.

KenLM keeps log10 in float32; here they are natural logarithms in float64.  Whatever it says is kept to the last digit,
but that `<s>`, which its files give a probability, is never predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzoo.adapters.kenlm_words import KenlmFile, inspect_file
from lmzoo.errors import InputError, StorageError, TokenError
from lmzoo.files import sha256_of
from lmzoo.interface import Tokens
from lmzoo.markers import BOS, EOS, UNK
from lmzoo.vocab import Vocab

Floats = npt.NDArray[np.float64]
# of each row KenLM's own state, which is never written to again
KenlmState = tuple[Any, ...]

_LN10 = math.log(10)
# what figures of a few digits in float32 add up to
_TOLERANCE = 1e-4
_TOLERANCE_QUANTIZED = 2e-2


@dataclass(frozen=True, kw_only=True)
class KenlmConfig:
    """A model of KenLM.

    Attributes:
        path: an ARPA file, also compressed, or a binary file.
        tokens: the tokenizer that made its words; the file does not say.
        normalize: what was done to its text.
        unk: the word that a text's own `<unk>` was written as, such as UNKTOK: KenLM takes no `<unk>` in a text.
    """

    path: str
    tokens: str = "word"
    normalize: str = "none"
    unk: str | None = None

    def recorded(self) -> dict[str, Any]:
        """The options as a record holds them: the file by its name and content."""
        path = Path(self.path)
        return {**asdict(self), "path": path.name, "sha256": sha256_of(path)}


class KenlmModel:
    """KenLM's tables behind the interface.

    Args:
        model: a `kenlm.Model`.
        words_V: of each id the word as KenLM has it.
    """

    is_normalized = True
    is_adaptive = False
    kernel_name = "kenlm"

    def __init__(self, model: Any, vocab: Vocab, words_V: Sequence[str], file: KenlmFile) -> None:
        self.vocab = vocab
        self.context_size: int | None = model.order - 1
        self.tolerance = _TOLERANCE_QUANTIZED if file.is_quantized else _TOLERANCE
        self.n_params = sum(file.counts)
        self.file_bytes = file.n_bytes
        self._model = model
        self._new_state = _library().State
        self._words_V = list(words_V)

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> KenlmState:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        state = self._new_state()
        if bos:
            self._model.BeginSentenceWrite(state)
        else:
            self._model.NullContextWrite(state)
        return (state,) * batch_size

    def logprobs(self, tokens_BxL: Tokens, state: KenlmState) -> tuple[Floats, KenlmState]:
        """ln p of each token and KenLM's states after the last one."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        if len(tokens_BxL) != len(state):
            raise TokenError(f"{len(tokens_BxL)} rows of tokens, but the state has {len(state)}")
        log10_BxL = np.empty(tokens_BxL.shape)
        after = []
        for row, before in enumerate(state):
            log10_BxL[row], last = self._walk(tokens_BxL[row].tolist(), before)
            after.append(last)
        logprobs_BxL = _natural(log10_BxL)
        logprobs_BxL[tokens_BxL == self.vocab.bos_id] = -np.inf
        return logprobs_BxL, tuple(after)

    def next_logprobs(self, state: KenlmState) -> Floats:
        """ln p over the whole vocabulary, shape (B, V): KenLM is asked word by word."""
        score, after = self._model.BaseScore, self._new_state()
        log10_BxV = np.array([[score(before, word, after) for word in self._words_V] for before in state])
        logprobs_BxV = _natural(log10_BxV)
        logprobs_BxV[:, self.vocab.bos_id] = -np.inf
        return logprobs_BxV

    def matched_orders(self, tokens_BxL: Tokens, state: KenlmState) -> npt.NDArray[np.int8]:
        """The order of the longest n-gram that ends in each token; 1 for unknown tokens."""
        tokens_BxL = self.vocab.checked(tokens_BxL)
        orders_BxL = np.ones(tokens_BxL.shape, np.int8)
        for row, before in enumerate(state):
            for column, token in enumerate(tokens_BxL[row].tolist()):
                after = self._new_state()
                orders_BxL[row, column] = self._model.BaseFullScore(before, self._words_V[token], after).ngram_length
                before = after
        return orders_BxL

    def select(self, state: KenlmState, rows: npt.ArrayLike) -> KenlmState:
        return tuple(state[row] for row in np.atleast_1d(np.asarray(rows)).tolist())

    def _walk(self, ids: Sequence[int], state: Any) -> tuple[list[float], Any]:
        """log10 p of each token of one text, and the state after it."""
        score, words, new_state = self._model.BaseScore, self._words_V, self._new_state
        log10: list[float] = []
        for token in ids:
            after = new_state()
            log10.append(score(state, words[token], after))
            state = after
        return log10, state


def read_kenlm(config: KenlmConfig, device: str = "cpu") -> KenlmModel:
    """The model of a file; it has no device path.

    Raises `StorageError` for what is no such file, and for a binary file that was built without its words.
    """
    path = Path(config.path)
    file = inspect_file(path)
    model = _opened(path)
    vocab, words_V = _vocab_of(file, config)
    return KenlmModel(model, vocab, words_V, file)


def _library() -> Any:
    import kenlm

    return kenlm


def _opened(path: Path) -> Any:
    kenlm = _library()
    quiet = kenlm.Config()
    quiet.show_progress = False
    quiet.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(str(path), quiet)
    except (OSError, RuntimeError) as error:
        raise StorageError(f"KenLM cannot read {path}: {' '.join(str(error).split())}") from error


def _vocab_of(file: KenlmFile, config: KenlmConfig) -> tuple[Vocab, list[str]]:
    """The vocabulary in the file's order, markers first, and of each id the word as KenLM has it."""
    written = dict(zip(file.tokens, file.words, strict=True))
    if config.unk is not None and config.unk not in written:
        raise StorageError(f"{file.path} has no word {config.unk!r}, which unk= says that a text's <unk> is")
    # KenLM knows both in every file, whether they are listed or not
    reserved = {UNK: config.unk or UNK, BOS: BOS} | ({EOS: EOS} if EOS in written else {})
    others = {token: word for token, word in written.items() if token not in reserved and token != config.unk}
    tokens = (*reserved, *others)
    vocab = Vocab(
        tokens=tokens,
        counts_V=np.zeros(len(tokens), np.int64),
        normalizer=config.normalize,
        tokenizer=config.tokens,
        own_unk=config.unk is not None,
    )
    return vocab, [*reserved.values(), *others.values()]


def _natural(log10: Floats) -> Floats:
    """Natural logarithms; float32 may be a hair above 0 where all is certain."""
    return np.minimum(log10 * _LN10, 0.0)
