"""The one training loop of all neural models: truncated backpropagation through time within a budget."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lmzoo.batches import random_batches, sequential_batches
from lmzoo.budget import Budget
from lmzoo.corpus import Split
from lmzoo.errors import DivergedError, MissingDeviceError, OptionValueError, TooShortError, VocabularyMismatchError
from lmzoo.interface import Progress
from lmzoo.neural.attending import TransformerModel
from lmzoo.neural.config import Config, RecurrentConfig, TransformerConfig, WindowConfig
from lmzoo.neural.library import LibraryLayer
from lmzoo.neural.models import RecurrentModel, WindowModel
from lmzoo.neural.network import Dropout, RecurrentNetwork, WindowNetwork, initialize
from lmzoo.neural.optimizers import OPTIMIZERS, SCHEDULES, clip_global_norm
from lmzoo.neural.transformer import TransformerNetwork
from lmzoo.vocab import Vocab

Batched = TypeVar("Batched")

# beyond it the perplexity is no finite number, though the loss itself may be: saturated units can hide a divergence
_LARGEST_LOSS_NATS = math.log(sys.float_info.max)
_BATCHES = {"sequential": sequential_batches, "random": random_batches}

TrainedModel = RecurrentModel | WindowModel | TransformerModel
_MODELS: Mapping[type[Config], Callable[[Vocab, Any], TrainedModel]] = {
    RecurrentConfig: RecurrentModel,
    WindowConfig: WindowModel,
    TransformerConfig: TransformerModel,
}


@dataclass(frozen=True, eq=False)
class Turn:
    """One batch, forward: mean nats a token (with its graph), tokens, epochs done once it has been learnt."""

    loss_nats: Tensor
    n_tokens: int
    epochs_done: float


class NeuralTrainer:
    """Trains a recurrent network, a transformer or a window model.

    Args:
        device: cpu, cuda or cuda:n.  Raises `MissingDeviceError` where it is not there.
    """

    def __init__(self, config: Config, vocab: Vocab, device: str = "cpu") -> None:
        self.config = config
        self._device = find_device(device)
        self._model = _MODELS[type(config)](vocab, config)
        self._model.network.to(self._device)
        for module in self._model.network.modules():
            if isinstance(module, LibraryLayer):
                module.compact()

    @property
    def model(self) -> TrainedModel:
        """The model in training: uniform until `steps` has begun."""
        return self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Learn from new weights on, until the budget is spent; yields after every step, the device idle.

        Nothing is taken from `valid`.  Raises `DivergedError` at the first gradient, loss or perplexity that is not
        finite, before it could change a weight, and `TooShortError` for a text without tokens.
        """
        _check_text(train, self.model.vocab)
        drawn, dropping = _generators(rng, self._device)
        network = self.model.network
        initialize(network, drawn)
        dropout = Dropout(self.config.dropout, dropping) if self.config.dropout else None
        losses = self._losses(train, rng, dropout)
        weights = list(network.weights().values())
        optimizer = OPTIMIZERS[self.config.optimizer](weights)
        schedule = SCHEDULES[self.config.schedule]
        n_tokens = 0
        for step, turn in enumerate(losses, 1):
            gradients = torch.autograd.grad(turn.loss_nats, weights)
            norm = clip_global_norm(gradients, self.config.clip)
            loss_nats = float(turn.loss_nats.detach())
            if not (loss_nats < _LARGEST_LOSS_NATS and math.isfinite(float(norm))):
                raise DivergedError(step)
            optimizer.step(gradients, self.config.lr * schedule(budget.used, step))
            n_tokens += turn.n_tokens
            self._wait()
            budget.note(steps_done=step, epochs_done=turn.epochs_done)
            yield Progress(tokens=n_tokens, steps=step, loss_nats=loss_nats)
            if budget.is_spent:
                return

    def _losses(self, train: Split, rng: np.random.Generator, dropout: Dropout | None) -> Iterator[Turn]:
        if isinstance(self._model, WindowModel):
            return window_losses(self._model.config, self._model.network, train, rng, dropout)
        return recurrent_losses(self._model.config, self._model.network, train, rng, dropout)

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def recurrent_losses(
    config: RecurrentConfig | TransformerConfig,
    network: RecurrentNetwork | TransformerNetwork,
    train: Split,
    rng: np.random.Generator,
    dropout: Dropout | None,
) -> Iterator[Turn]:
    """Losses of the batches of epoch after epoch, each computed with the weights of the moment it is asked for.

    The state goes on from batch to batch, cut from the graph; it starts anew where a batch is fresh.
    """
    draw, device = _BATCHES[config.sampling], network.device
    state = network.zero_state(0)
    for batch, epochs_done in _epochs(
        lambda: draw(train, batch_size=config.batch_size, num_steps=config.num_steps, rng=rng),
        lambda batch: batch.n_tokens / train.n_tokens,
    ):
        # astype copies: torch warns of arrays that are read-only, as parts of a text may be
        ids_TxB = torch.from_numpy(batch.inputs_TxB.astype(np.int64)).to(device)
        targets_TxB = torch.from_numpy(batch.targets_TxB.astype(np.int64)).to(device)
        if batch.is_fresh:
            state = network.zero_state(ids_TxB.shape[1])
        hidden_TxBxH, state = network(ids_TxB, state.detach(), dropout)
        if batch.mask_TxB is None:
            hidden_NxH, targets_N = hidden_TxBxH.flatten(0, 1), targets_TxB.flatten()
        else:
            mask_TxB = torch.from_numpy(batch.mask_TxB).to(device)
            hidden_NxH, targets_N = hidden_TxBxH[mask_TxB], targets_TxB[mask_TxB]
        yield Turn(functional.cross_entropy(network.logits(hidden_NxH), targets_N), batch.n_tokens, epochs_done)


def window_losses(
    config: WindowConfig, network: WindowNetwork, train: Split, rng: np.random.Generator, dropout: Dropout | None
) -> Iterator[Turn]:
    """Losses of batches of windows, drawn without replacement, epoch after epoch."""

    def draw() -> Iterator[npt.NDArray[np.int64]]:
        order_N = rng.permutation(train.n_tokens)
        return (order_N[start : start + config.batch_size] for start in range(0, len(order_N), config.batch_size))

    first_N = np.repeat(train.starts_D1[:-1], train.lengths_D)
    for positions_B, epochs_done in _epochs(draw, lambda positions_B: len(positions_B) / train.n_tokens):
        windows_BxC = torch.from_numpy(_windows(train, first_N, positions_B, config.context_size)).to(network.device)
        targets_B = torch.from_numpy(train.ids_N[positions_B]).long().to(network.device)
        loss_nats = functional.cross_entropy(network.logits(network(windows_BxC, dropout)), targets_B)
        yield Turn(loss_nats, len(positions_B), epochs_done)


def find_device(name: str) -> torch.device:
    """The device of this name.  Raises `MissingDeviceError` with what was found and the cure."""
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise OptionValueError(f"device is cpu, cuda or cuda:n, got {name!r}")
    if kind == "cuda":
        with warnings.catch_warnings():
            # an old driver is told of in a warning; the error below says what matters
            warnings.simplefilter("ignore")
            n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= n_devices:
            build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU alone"
            raise MissingDeviceError(
                f"device {name} is not here: torch {torch.__version__}, built for {build}, finds {n_devices} CUDA "
                "devices; use device cpu, or a CUDA build of torch with a driver: https://pytorch.org/get-started/locally"
            )
        # float32 means float32, for every kernel: cuDNN's recurrent layers would round their factors to 10 bits
        torch.backends.cudnn.allow_tf32 = False
    return torch.device(name)


def _epochs(
    draw: Callable[[], Iterator[Batched]], share: Callable[[Batched], float]
) -> Iterator[tuple[Batched, float]]:
    """Batches of epoch after epoch with the epochs done after each: whole after the last, whatever tail was lost."""
    for epoch in itertools.count():
        done = 0.0
        # the batch after this one tells whether it is the last
        for batch, following in itertools.pairwise(itertools.chain(draw(), (None,))):
            assert batch is not None
            done += share(batch)
            yield batch, epoch + (1.0 if following is None else min(done, 1.0))


def _windows(
    split: Split, first_N: npt.NDArray[np.int64], positions_B: npt.NDArray[np.int64], context_size: int
) -> npt.NDArray[np.int64]:
    """The `context_size` tokens before each position, the newest last; `<s>` before its document's first token."""
    sources_BxC = positions_B[:, None] + np.arange(-context_size, 0)
    is_inside_BxC = sources_BxC >= first_N[positions_B, None]
    return np.where(is_inside_BxC, split.ids_N[np.maximum(sources_BxC, 0)], split.vocab.bos_id).astype(np.int64)


def _generators(rng: np.random.Generator, device: torch.device) -> tuple[torch.Generator, torch.Generator]:
    """Two generators of torch's seeded from numpy's: for the weights, on the CPU, and for dropout, on the device."""
    seeds = rng.integers(2**63, size=2).tolist()
    drawn, dropping = torch.Generator(), torch.Generator(device)
    return drawn.manual_seed(seeds[0]), dropping.manual_seed(seeds[1])


def _check_text(train: Split, vocab: Vocab) -> None:
    if train.vocab.fingerprint != vocab.fingerprint:
        raise VocabularyMismatchError(
            f"the training text was encoded with vocabulary {train.vocab.fingerprint}, the model's is "
            f"{vocab.fingerprint}; make the trainer with the text's own, or encode it with split.encoded_with(vocab)"
        )
    if not train.n_tokens:
        raise TooShortError("the training text has no tokens; at least 1 is needed")
