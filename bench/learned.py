"""A model that is fit to be scored, wherever it comes from: trained here, or read from a file.

A model that is read brings a vocabulary of its own.  The text is encoded by that one, and its figures per token are
those of its own tokens; where both vocabularies hold the same symbols they are the corpus's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench.records import Figure
from lmzoo import storage
from lmzoo.corpus import Corpus
from lmzoo.driver import Training, Validation
from lmzoo.errors import InputError, StorageError
from lmzoo.evaluation import evaluate
from lmzoo.interface import LanguageModel
from lmzoo.normalizers import named_normalizer
from lmzoo.segments import Segments
from lmzoo.spelling import Spelling
from lmzoo.tally import Tally
from lmzoo.tokens import normalized, tokens_of
from lmzoo.vocab import Vocab, vocab_of

READ = "read from a file: nothing was trained here"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A model, how it came about, and what of that does not exist, with the reason (`absent`).

    `trained_by`: the kernel that trained it, None where nobody says.  `valid`: the Tally of the validation that chose
    its weights, if any did.
    """

    model: LanguageModel[Any]
    trained_by: str | None
    kept: str
    valid: Tally | None = None
    train_tokens: int | None = None
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        """What trained the model and, where that is another, what answers: known once it has answered something."""
        answers = str(getattr(self.model, "kernel_name", "numpy"))
        return answers if self.trained_by in (None, answers) else f"{self.trained_by}, answers: {answers}"

    def whole_validation(self, corpus: Corpus) -> Tally:
        """The Tally of the whole validation part; where the schedule scored all of it, that is what it gave."""
        if self.valid is not None and self.valid.n_tokens == corpus.valid.n_tokens:
            return self.valid
        return evaluate(self.model, corpus.valid)

    def model_bytes(self) -> Figure:
        """The size of its file: the one it was read from, or the one that it would be written to."""
        n_bytes = getattr(self.model, "file_bytes", None)
        if n_bytes is not None:
            return Figure.of(float(n_bytes))
        try:
            return Figure.of(float(len(storage.to_bytes(self.model))))
        except StorageError as error:
            return Figure(reason=" ".join(str(error).split()))


def trained(training: Training) -> Learned:
    """What a training that is over has left."""
    model = training.model
    kept = kept_validation(training, model)
    return Learned(
        model=model,
        trained_by=getattr(training.trainer, "kernel_name", None),
        kept="last" if kept.is_last else f"best validation at {kept.train_s:.2f} s",
        valid=kept.valid,
        train_tokens=training.progress.tokens,
    )


def was_read(model: LanguageModel[Any]) -> Learned:
    """What a file held."""
    absent = dict.fromkeys(("train_s", "train_tokens", "train_tokens_per_s"), READ)
    return Learned(model=model, trained_by=None, kept="those of the file", absent=absent)


def kept_validation(training: Training, model: LanguageModel[Any]) -> Validation:
    """The validation of the weights that are scored: under a budget of seconds the best, otherwise the last."""
    last = training.validations[-1]
    if training.budget.seconds is None or model is training.trainer.model:
        return last
    # of equal ones the driver keeps the later
    return min(reversed(training.validations), key=lambda validation: validation.perplexity)


def encoded_for(corpus: Corpus, vocab: Vocab) -> Corpus:
    """The same text under a model's own vocabulary.

    What that does not know is charged its spelling by the training text's characters, as under every vocabulary.
    Raises `InputError` where the text's documents end and the model knows no end: nobody would pay for it.
    """
    if corpus.documents != "file" and vocab.eos_id is None:
        raise InputError(
            f"the model's vocabulary has no end of a document, which every one has under {corpus.documents}, and it "
            "would get line ends for nothing; use --documents file"
        )
    if vocab.spelling is None:
        vocab = replace(vocab, spelling=_spelling_of(corpus, vocab))
    train, valid, test = (split.encoded_with(vocab) for split in (corpus.train, corpus.valid, corpus.test))
    entropy_nats = corpus.entropy_nats if has_same_symbols(corpus.vocab, vocab) else None
    return replace(corpus, vocab=vocab, train=train, valid=valid, test=test, entropy_nats=entropy_nats)


def has_same_symbols(a: Vocab, b: Vocab) -> bool:
    """Whether two vocabularies cut every text into the same symbols, whatever the ids: perplexities then compare."""
    return _cutting(a) == _cutting(b) and set(a.tokens) == set(b.tokens)


def _cutting(vocab: Vocab) -> tuple[object, ...]:
    # a trained tokenizer is what it was trained to, whatever it is called
    return vocab.normalizer, vocab.tokenizer_state or vocab.tokenizer, vocab.own_unk


def _spelling_of(corpus: Corpus, vocab: Vocab) -> Spelling | None:
    """What the training text says of the spelling of a vocabulary's unknown tokens."""
    segments = corpus.train.segments
    held = segments if isinstance(segments, Segments) else Segments.of(segments)
    texts = normalized(held, named_normalizer(vocab.normalizer))
    return vocab_of(
        tokens_of(texts, vocab.cutter),
        normalizer=vocab.normalizer,
        tokenizer=vocab.cutter,
        has_eos=False,
        n_starts=None,
        own_unk=vocab.own_unk,
        min_freq=1,
    ).spelling
