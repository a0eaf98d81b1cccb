"""Checks that a text's Tally depends on model and text alone, and that perplexity counts choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzoo.conformance.subject import Subject, checks_of, require, require_close
from lmzoo.corpus import Split
from lmzoo.evaluation import evaluate
from lmzoo.ids import split_from_ids
from lmzoo.interface import LogProbs, Tokens
from lmzoo.markers import BOS
from lmzoo.vocab import Vocab

# short, prime and odd: nothing that a batch or a chunk divides evenly
_LENGTHS = (2, 3, 36, 71, 1003)
_DOCUMENTS = (3, 1, 29, 8, 1, 17)
# (batch size, chunk length); None: what suits the model
_CUTS = ((None, None), (1, 512), (1, 5), (2, 7), (4, 512), (64, 3))
# rounding of a sum of a thousand logarithms, divided and exponentiated
_EXACT = 1e-12


def uniform_perplexity(subject: Subject) -> None:
    """A uniform model over this vocabulary has its number of predictable symbols as perplexity, on any text."""
    vocab = subject.model.vocab
    n_choices = sum(token != BOS for token in vocab.tokens)
    uniform = Uniform(vocab)
    for length in _LENGTHS:
        for batch_size, chunk_length in _CUTS:
            split = _split(subject, (length,))
            found = evaluate(uniform, split, batch_size=batch_size, chunk_length=chunk_length).perplexity
            require(
                abs(found / n_choices - 1) <= _EXACT,
                f"a uniform model over {n_choices} predictable symbols has perplexity {found:.12g} on {length} tokens",
            )


def tally_is_of_the_text(subject: Subject) -> None:
    """Batch size and chunk length never change the Tally, which is the sum over documents scored one by one."""
    split = _split(subject, _DOCUMENTS)
    alone = [subject.logprobs(document.ids_L[None, :].astype(np.int64)) for document in split]
    nats_N = -np.concatenate([np.asarray(a, np.float64)[0] for a in alone])
    possible = np.isfinite(nats_N)
    wanted = float(nats_N[possible].sum())
    for batch_size, chunk_length in _CUTS:
        tally = evaluate(subject.model, split, batch_size=batch_size, chunk_length=chunk_length)
        what = f"batches of {batch_size} and chunks of {chunk_length}"
        require(tally.n_tokens == split.n_tokens, f"{tally.n_tokens} of {split.n_tokens} tokens were scored in {what}")
        n_zero = int((~possible).sum())
        require(tally.n_zero == n_zero, f"{tally.n_zero} impossible tokens in {what}, {n_zero} one by one")
        require_close(tally.finite_nll_nats or 0.0, wanted, subject.total_tolerance * abs(wanted), f"nats in {what}")


def _split(subject: Subject, lengths: tuple[int, ...]) -> Split:
    """Random symbols in documents of these lengths; no text is needed, so any vocabulary will do."""
    ids_N = subject.tokens(1, sum(lengths), seed=5)[0]
    return split_from_ids(np.split(ids_N, np.cumsum(lengths)[:-1]), subject.model.vocab)


@dataclass
class Uniform:
    """Every predictable symbol is as likely as another; its state is an array as long as the batch."""

    vocab: Vocab
    context_size: int | None = 0
    is_normalized: bool = True
    is_adaptive: bool = False

    def initial_state(self, batch_size: int = 1, *, bos: bool = True) -> npt.NDArray[np.bool_]:
        return np.full(batch_size, bos)

    def logprobs(self, tokens_BxL: Tokens, state: npt.NDArray[np.bool_]) -> tuple[LogProbs, npt.NDArray[np.bool_]]:
        return self._logprobs_V()[tokens_BxL], state

    def next_logprobs(self, state: npt.NDArray[np.bool_]) -> LogProbs:
        return np.tile(self._logprobs_V(), (len(state), 1))

    def _logprobs_V(self) -> LogProbs:
        logprobs_V = np.full(len(self.vocab), -np.log(self.vocab.n_predictable))
        logprobs_V[self.vocab.bos_id] = -np.inf
        return logprobs_V


CHECKS = checks_of("accounting", (uniform_perplexity, tally_is_of_the_text))
