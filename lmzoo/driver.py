"""Training within a budget: the clock, the schedule of validations, which weights are kept, checkpoints."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo import checkpoints, storage
from lmzoo.budget import Budget
from lmzoo.checkpoints import Checkpoint, CheckpointWarning
from lmzoo.coding import code_tally
from lmzoo.corpus import Corpus, Split
from lmzoo.errors import (
    CorpusError,
    DivergedError,
    InputError,
    LmzooError,
    SpecError,
    StoppedError,
    StorageError,
    require_path,
    require_whole,
)
from lmzoo.evaluation import evaluate
from lmzoo.interface import LanguageModel, Progress, Resumable, Storable, Trainer, device_of, has_finite_weights, move
from lmzoo.registry import create_coder, create_trainer, family_of, resolve_config
from lmzoo.spec import Spec, as_spec
from lmzoo.tally import Tally

# validation is scored on its first so many tokens, at the first yield at or after 0.25 s x 2^(k/4)
VALIDATION_TOKENS = 100_000
FIRST_VALIDATION_S = 0.25
VALIDATIONS_PER_DOUBLING = 4

DEFAULT_NEURAL_SECONDS = 15.0
DEFAULT_CHECKPOINT_SECONDS = 60.0
# where no validation is due, the end is looked at on so few tokens
_GLANCE_TOKENS = 1_000


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One scheduled validation: training seconds and tokens so far, and the Tally of the validation head."""

    train_s: float
    train_tokens: int
    valid: Tally
    is_last: bool

    @property
    def perplexity(self) -> float:
        return self.valid.perplexity if self.valid.is_normalized else math.inf


class Training:
    """One training, driven: iterate over its validations, then take `model`.

    Under a budget of seconds the weights of the best validation are kept, otherwise the last ones, as those of a
    model that becomes adaptive at the end.  The watch of the budget runs only inside the trainer.
    """

    def __init__(self, trainer: Trainer, corpus: Corpus, budget: Budget, *, seed: int = 0) -> None:
        require_whole(seed, "seed", 0)
        self.trainer = trainer
        self.budget = budget
        self.progress = Progress(tokens=0)
        self.validations: list[Validation] = []
        self._corpus = corpus
        self._valid_head = corpus.valid.head(VALIDATION_TOKENS)
        self._rng = np.random.default_rng(seed)
        self._best: tuple[float, bytes | None] = (math.inf, None)
        self._validated_s = 0.0
        self._was_adaptive = False

    def __iter__(self) -> Iterator[Validation]:
        """Train to the end of the budget, yielding at each scheduled validation; the clock is paused meanwhile."""
        for progress in self.run():
            if self._is_due(progress):
                yield self._validate(is_last=False)
        yield self._validate(is_last=True)

    def run(self) -> Iterator[Progress]:
        """The trainer's own yields, timed.  A `DivergedError` holds the weights that are kept."""
        watch = self.budget.watch
        steps = self.trainer.steps(self._corpus.train, self._corpus.valid, self._rng, self.budget)
        while True:
            try:
                with watch.running():
                    progress = next(steps, None)
            except DivergedError as error:
                error.model = self._salvaged()
                raise
            if progress is None:
                return
            self.progress = progress
            yield progress

    @property
    def model(self) -> LanguageModel[Any]:
        """The model whose weights are kept."""
        _, kept = self._best
        if kept is None:
            return self.trainer.model
        model = storage.from_bytes(kept, "the best validation")
        # it is read onto the processor; what was trained on a device is scored and timed there
        move(model, device_of(self.trainer.model))
        return model

    def require_finite(self) -> None:
        """Raise `DivergedError` where the weights of a gradient trainer give no finite perplexity."""
        self._evaluated(self._valid_head.head(_GLANCE_TOKENS))

    def checkpoint(self, identity: Mapping[str, Any]) -> Checkpoint:
        """All that decides what follows.  The trainer has to be `Resumable`."""
        assert isinstance(self.trainer, Resumable)
        facts, arrays = self.trainer.checkpoint()
        perplexity, kept = self._best
        standing = {
            "train_s": self.budget.watch.elapsed_s,
            "validated_s": self._validated_s,
            "steps": self.progress.steps,
            "tokens": self.progress.tokens,
            "loss_nats": self.progress.loss_nats,
            "epochs": self.budget.epochs_done,
            "best_perplexity": perplexity if math.isfinite(perplexity) else None,
            "trainer": facts,
        }
        best = {} if kept is None else {"best": np.frombuffer(kept, np.uint8)}
        return Checkpoint(
            identity=identity, facts=standing, arrays={f"trainer/{name}": a for name, a in arrays.items()} | best
        )

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Stand where another training wrote its checkpoint; `validations` begin anew.

        Raises `LookupError`, `TypeError` or `ValueError` for one that is not of such a training.
        """
        assert isinstance(self.trainer, Resumable)
        facts = checkpoint.facts
        arrays = {
            name.removeprefix("trainer/"): array
            for name, array in checkpoint.arrays.items()
            if name.startswith("trainer/")
        }
        self.trainer.resume(facts["trainer"], arrays)
        self.budget.watch.go_on_from(float(facts["train_s"]))
        self.budget.note(steps_done=facts["steps"], epochs_done=facts["epochs"])
        self.progress = Progress(**{name: facts[name] for name in ("tokens", "steps", "loss_nats")})
        self._validated_s = float(facts["validated_s"])
        if "best" in checkpoint.arrays:
            perplexity = facts["best_perplexity"]
            self._best = (math.inf if perplexity is None else float(perplexity), checkpoint.arrays["best"].tobytes())

    def _salvaged(self) -> LanguageModel[Any] | None:
        """The weights that are kept of a training that diverged, or None."""
        if self._best[1] is not None:
            return self.model
        is_chosen = self.budget.seconds is not None
        return (
            None if is_chosen or not self.progress.steps or not has_finite_weights(self.trainer.model) else self.model
        )

    def _evaluated(self, split: Split) -> Tally:
        # what overflows is told by the error
        with np.errstate(over="ignore", invalid="ignore"):
            tally = evaluate(self.trainer.model, split)
        has_gradients = self.progress.loss_nats is not None
        if has_gradients and tally.is_normalized and not math.isfinite(tally.perplexity):
            error = DivergedError(self.progress.steps)
            error.model = self._salvaged()
            raise error
        return tally

    def _is_due(self, progress: Progress) -> bool:
        if self.budget.seconds is None and self.budget.steps is None and self.budget.epochs is None:
            return False  # a counting model is validated once, at its end
        if self.budget.is_spent:
            return False  # the last validation is about to follow
        return self.budget.watch.elapsed_s >= next_validation_s(self._validated_s)

    def _validate(self, *, is_last: bool) -> Validation:
        validation = Validation(
            train_s=self.budget.watch.elapsed_s,
            train_tokens=self.progress.tokens,
            valid=self._evaluated(self._valid_head),
            is_last=is_last,
        )
        self._validated_s = validation.train_s
        self.validations.append(validation)
        if self.budget.seconds is not None and isinstance(self.trainer.model, Storable):
            self._keep_best(validation)
        return validation

    def _keep_best(self, validation: Validation) -> None:
        # what has begun to adapt was asked for, and fitted to the last weights: a plain model never takes its place
        has_begun = self.trainer.model.is_adaptive and not self._was_adaptive
        self._was_adaptive = self.trainer.model.is_adaptive
        if has_begun or validation.perplexity <= self._best[0]:
            # the last weights need no copy: the trainer itself still holds them
            kept = None if validation.is_last else storage.to_bytes(self.trainer.model)
            self._best = (validation.perplexity, kept)


class LastingTraining(Training):
    """A training that the end of its process does not end: it writes checkpoints, and goes on from the last.

    Args:
        path: the file, replaced each time.
        identity: which training it is.
        every_s: training seconds between two checkpoints; one more is written at the end.  Writing is not charged.
        stop: asked after every step whether to write a checkpoint and raise `StoppedError`.
    """

    def __init__(
        self,
        *training: Any,
        path: Path,
        identity: Mapping[str, Any],
        every_s: float,
        stop: Callable[[], bool],
        **options: Any,
    ) -> None:
        super().__init__(*training, **options)
        if not isinstance(self.trainer, Resumable):
            raise SpecError(
                f"{identity['model']} has no checkpoints: they are for networks trained by themselves, "
                "such as lstm-scratch"
            )
        self._path = path
        self._identity = identity
        self._every_s = every_s
        self._stop = stop

    def resume(self) -> None:
        """Go on from the file.  Raises `TrainingMismatchError` for that of another training, or `StorageError`."""
        checkpoint = checkpoints.read(self._path)
        checkpoints.require_same(checkpoint, self._identity, self._path)
        try:
            self.go_on_from(checkpoint)
        except LmzooError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise checkpoints.damaged(self._path, error) from error

    def run(self) -> Iterator[Progress]:
        """The trainer's own yields, timed, with checkpoints between them."""
        written_s = self.budget.watch.elapsed_s
        steps = self.progress.steps
        for progress in super().run():
            if self._stop():
                checkpoints.write(self.checkpoint(self._identity), self._path)
                raise StoppedError(progress.steps, str(self._path))
            if self.budget.watch.elapsed_s - written_s >= self._every_s:
                self._try_to_write()
                written_s = self.budget.watch.elapsed_s
            yield progress
        if self.progress.steps > steps:
            self._try_to_write()

    def _try_to_write(self) -> None:
        """A full disk costs the checkpoint, and not what was learnt."""
        try:
            checkpoints.write(self.checkpoint(self._identity), self._path)
        except StorageError as error:
            told = f"{error}; the training goes on, and could not be gone on with from here"
            warnings.warn(told, CheckpointWarning, stacklevel=2)


def next_validation_s(elapsed_s: float) -> float:
    """The first scheduled validation after `elapsed_s`: the least 0.25 s x 2^(k/4) above it."""
    if elapsed_s < FIRST_VALIDATION_S:
        return FIRST_VALIDATION_S
    # a hair more, so that rounding never gives the mark that was just reached once again
    place = VALIDATIONS_PER_DOUBLING * math.log2(elapsed_s / FIRST_VALIDATION_S) + 1e-9
    due_s: float = FIRST_VALIDATION_S * 2.0 ** ((math.floor(place) + 1) / VALIDATIONS_PER_DOUBLING)
    return due_s


def budget_for(
    spec: Spec, *, seconds: float | None = None, epochs: float | None = None, max_steps: int | None = None
) -> Budget:
    """The budget of a spec: the limits given, or the model's default where none is (15 s for neural models).

    A counting model counts its text once, whatever the limits.
    """
    given = Budget(seconds=seconds, epochs=epochs, steps=max_steps)
    if family_of(spec) != "neural":
        return Budget()
    if seconds is None and epochs is None and max_steps is None:
        return Budget(seconds=DEFAULT_NEURAL_SECONDS)
    return given


def train(
    spec: Spec | str,
    corpus: Corpus,
    *,
    seed: int = 0,
    budget: float | None = None,
    epochs: float | None = None,
    max_steps: int | None = None,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    resume: bool = False,
    stop: Callable[[], bool] | None = None,
) -> LanguageModel[Any]:
    """Train a model by its spec on `corpus.train`.

    Args:
        spec: such as `"trigram"` or `"lstm-scratch:hidden=512"`.
        budget: seconds of training; with `epochs` and `max_steps`, whichever comes first.  None of them: the default.
        checkpoint: a file that is written now and then, from which the training of a network can go on.
        checkpoint_every: seconds of training between two checkpoints (default 60; 0: after every step).
        resume: go on from `checkpoint`, or start where it is not there.  Without it a file that is there is an error.
        stop: asked after every step; once it says true, `checkpoint` is written and `StoppedError` raised.

    Raises `SpecError`, `UnavailableError`, `DivergedError`, `StoppedError`; for a checkpoint that is of another
    training `TrainingMismatchError`, for one that cannot be read or written `StorageError`.
    """
    spec = as_spec(spec)
    if not isinstance(corpus, Corpus):
        raise CorpusError(f"a model is trained on a Corpus, got {type(corpus).__name__}; make one with load_corpus")
    limits = budget_for(spec, seconds=budget, epochs=epochs, max_steps=max_steps)
    if checkpoint is not None:
        require_path(checkpoint, "checkpoint")
    path = None if checkpoint is None else Path(checkpoint)
    require_checkpoints(spec, path, every_s=checkpoint_every, resume=resume, is_stoppable=stop is not None)
    parts = (create_trainer(spec, corpus.vocab, device=device), corpus, limits)
    if path is None:
        training = Training(*parts, seed=seed)
    else:
        every_s = DEFAULT_CHECKPOINT_SECONDS if checkpoint_every is None else checkpoint_every
        identity = _identity(spec, corpus, limits, seed=seed, device=device)
        training = lasting = LastingTraining(
            *parts, seed=seed, path=path, identity=identity, every_s=every_s, stop=stop or (lambda: False)
        )
        if path.exists():
            lasting.resume()
    if limits.seconds is None:
        for _ in training.run():
            pass
        training.require_finite()
    else:
        for _ in training:
            pass
    return training.model


def code_length(spec: Spec | str, corpus: Corpus) -> Tally:
    """What a compressor needs for `corpus.test`, given `corpus.train`: `.bits_per_char`, `.bits_per_byte`, `.nll_nats`.

    There is a `.perplexity` where the tokens give back the text and none is out of vocabulary.
    Raises `SpecError` for what is no compressor, `UnavailableError`.
    """
    if not isinstance(corpus, Corpus):
        raise CorpusError(f"a Corpus is coded, got {type(corpus).__name__}; make one with load_corpus")
    return code_tally(create_coder(spec).nll_nats(corpus.train, corpus.test), corpus.test)


def require_checkpoints(
    spec: Spec, path: Path | None, *, every_s: float | None, resume: bool, is_stoppable: bool = False
) -> None:
    """Raise `InputError` or `StorageError` where a model has no checkpoints or these options do not go together."""
    if path is None:
        given = {"resume": resume, "checkpoint_every": every_s is not None, "stop": is_stoppable}
        extra = next((name for name, is_given in given.items() if is_given), None)
        if extra is not None:
            raise InputError(
                f"{extra} is about a checkpoint, and none is given; name its file with checkpoint= (--checkpoint)"
            )
        return
    if family_of(spec) != "neural":
        raise SpecError(f"{spec} counts its text once and has no checkpoints; they are for networks: lstm-scratch")
    # written so that NaN is refused too
    if every_s is not None and not every_s >= 0:
        raise InputError(f"checkpoint_every must be at least 0 seconds, got {every_s}")
    checkpoints.require_free(path, resume=resume)


def _identity(spec: Spec, corpus: Corpus, budget: Budget, *, seed: int, device: str) -> dict[str, Any]:
    """What makes it this training and no other, by names that are told to people."""
    return {
        "model": spec.name,
        **dataclasses.asdict(resolve_config(spec)),
        "seed": seed,
        "device": device,
        **{f"budget of {name}": limit for name, limit in budget.limits.items()},
        "corpus sha256": corpus.sha256,
        "vocabulary": corpus.vocab.fingerprint,
        "documents": corpus.documents,
    }
