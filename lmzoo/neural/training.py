"""The one training loop of all neural models: truncated backpropagation through time within a budget."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzoo.batches import Batch, largest_batch, random_batches, sequential_batches, warn_of_short_text
from lmzoo.budget import Budget, Stopwatch
from lmzoo.compiled import VARIABLE, can_be_used
from lmzoo.corpus import Split
from lmzoo.errors import DivergedError, LmzooError, TooShortError, TrainingMismatchError, VocabularyMismatchError
from lmzoo.interface import Arrays, Progress
from lmzoo.neural.adapting import AdaptiveModel, adaptive
from lmzoo.neural.attending import TransformerModel
from lmzoo.neural.checkpoint import Place, Standing, epochs
from lmzoo.neural.config import Config, RecurrentConfig, TransformerConfig, WindowConfig, resolved_softmax
from lmzoo.neural.devices import Queue, algorithms, find_device, require_deterministic
from lmzoo.neural.models import RecurrentModel, WindowModel
from lmzoo.neural.network import Dropout, Dropouts, Network, RecurrentNetwork, WindowNetwork, initialize
from lmzoo.neural.optimizers import LearningRate, clip_global_norm, optimizer_of
from lmzoo.neural.precision import WorkingCopy, check_precision
from lmzoo.neural.scratch import ScratchLayer
from lmzoo.neural.softmax import Sampler
from lmzoo.neural.transformer import TransformerNetwork
from lmzoo.vocab import Vocab

# numba takes half a second and more to load, and saves a step of 256 units some milliseconds
_LEAST_COMPILED_S, _LEAST_COMPILED_STEPS = 10.0, 500
# what is minimised, of the mean nats of a batch
_LOSSES: Mapping[str, Callable[[Tensor], Tensor]] = {"cross_entropy": lambda nats: nats, "perplexity": torch.exp}

TrainedModel = RecurrentModel | WindowModel | TransformerModel
_MODELS: Mapping[type[Config], Callable[[Vocab, Any], TrainedModel]] = {
    RecurrentConfig: RecurrentModel,
    WindowConfig: WindowModel,
    TransformerConfig: TransformerModel,
}


@dataclass(frozen=True, eq=False)
class Turn:
    """One batch, forward.

    Attributes:
        loss_nats: mean nats a token, with its graph.
        n_tokens: tokens predicted.
        epochs_done, place: where the training stands once it has been learnt.
        carried: the state that goes on into the next batch, cut from the graph.
    """

    loss_nats: Tensor
    n_tokens: int
    epochs_done: float
    place: Place
    carried: tuple[Tensor, ...] = ()


class NeuralTrainer:
    """Trains a recurrent network, a transformer or a window model.

    Args:
        device: cpu, cuda or cuda:n.  Raises `MissingDeviceError` where it is not there.
    """

    def __init__(self, config: Config, vocab: Vocab, device: str = "cpu") -> None:
        config = dataclasses.replace(config, softmax=resolved_softmax(config, len(vocab)))
        self.config = config
        self._device = find_device(device)
        check_precision(config.precision, self._device)
        if config.deterministic:
            require_deterministic(self._device)
        # the processor is done with a step when its call returns; CUDA is given the next ones meanwhile
        self.waits_for_every_step = self._device.type == "cpu"
        self._takes_compiled_gates = False
        self._took_compiled_gates: bool | None = None
        # seconds of the training clock that loading numba and compiling took; None where neither was done
        self.compile_s: float | None = None
        self._model = _MODELS[type(config)](vocab, config)
        self._model.move_to(device)
        # where weights are averaged, those that take the steps stand apart from those that are scored
        self._trained = copy.deepcopy(self._model) if config.averaging else self._model
        self._adapting: AdaptiveModel | None = None
        self._standing: Standing | None = None
        self._resumed: Standing | None = None

    @property
    def model(self) -> TrainedModel | AdaptiveModel:
        """The model in training: uniform until `steps` has begun; adaptive, where asked for, once it has ended."""
        return self._adapting or self._model

    def steps(self, train: Split, valid: Split, rng: np.random.Generator, budget: Budget) -> Iterator[Progress]:
        """Learn from new weights on, or from where `resume` put it, until the budget is spent.

        Yields after every step, on CUDA every 0.1 s or so, the device idle.  Nothing is taken from `valid`.  Raises
        `DivergedError` at the first gradient, loss or perplexity that is not finite, before it could change a weight,
        and at the end for weights that are not; `TooShortError` for a text without tokens.  Warns of one that does not
        fill a batch.
        """
        _check_text(train, self.model.vocab)
        _note_short_text(train, self.config)
        standing = self._standing = self._resumed or self._started(rng)
        weights = self._weights()
        rate = LearningRate(self.config.schedule, self.config.lr, budget)
        working = WorkingCopy(self._trained.network, self.config.precision)
        loss = _LOSSES[self.config.loss]
        self._choose_gates(working.network, train, budget)
        losses = self._losses(working.network, train, rng, standing)
        queue = Queue(watch=budget.watch, is_waiting=self.waits_for_every_step)
        while not budget.is_spent:
            with algorithms(self.config.deterministic):
                turn = next(losses)
                gradients = working.gradients(loss(turn.loss_nats))
                queue.add(turn.loss_nats, clip_global_norm(gradients, self.config.clip), gradients)
                step = standing.steps + 1
                loss_nats = queue.settle(step) if self.waits_for_every_step else math.nan
                standing.optimizer.step(gradients, rate.of_step(step))
                working.refresh()
            standing.steps, standing.place, standing.carried = step, turn.place, turn.carried
            standing.tokens += turn.n_tokens
            budget.note(steps_done=step, epochs_done=turn.epochs_done)
            if not self.waits_for_every_step:
                if not (queue.is_full or budget.is_spent):
                    continue
                loss_nats = queue.settle(step)
                self._wait()
            yield Progress(tokens=standing.tokens, steps=step, loss_nats=loss_nats)
        if not all(bool(weight.isfinite().all()) for weight in weights):
            raise DivergedError(standing.steps)
        if isinstance(self._model, RecurrentModel):
            self._adapting = adaptive(self._model, train, valid, budget)

    def checkpoint(self) -> tuple[dict[str, Any], Arrays]:
        """All that decides what follows the last step, as JSON values and arrays of its own."""
        if self._standing is None or self._standing.place is None:
            raise LmzooError("nothing was trained yet; take a step of steps() first")
        facts, arrays = self._standing.to_parts(self._trained.network.weights())
        return {**facts, "compiled_gates": self._takes_compiled_gates}, arrays

    def resume(self, facts: Mapping[str, Any], arrays: Arrays) -> None:
        """Have `steps` go on where another trainer of the same config and text wrote its `checkpoint`.

        Raises `LookupError`, `TypeError` or `ValueError` for parts that are not of such a trainer.
        """
        standing = self._new_standing(torch.Generator(self._device))
        standing.restore(self._trained.network.weights(), facts, arrays)
        self._resumed = standing
        self._took_compiled_gates = bool(facts["compiled_gates"])
        if self._took_compiled_gates and not can_be_used():
            raise TrainingMismatchError(
                "the training began with compiled gates, which cannot be used here and round otherwise than torch's; "
                f"install numba (python -m pip install 'lmzoo[fast]') and leave {VARIABLE}=0 out"
            )

    @property
    def kernel_name(self) -> str:
        """What trains it: the model's own kernel, `+numba` where compiled gates are taken."""
        return self._model.kernel_with(numba=self._takes_compiled_gates)

    def _choose_gates(self, network: Network, train: Split, budget: Budget) -> None:
        """Take compiled gates for a training long enough: a matter of what was asked for, never of the load."""
        layers = [module for module in network.modules() if isinstance(module, ScratchLayer)]
        if not any(layer.steps.has_gates for layer in layers) or self._device.type != "cpu":
            return
        watch = Stopwatch()
        with watch.running():
            if self._took_compiled_gates is not None:
                # the bits of a training that goes on are those it began with
                self._takes_compiled_gates = self._took_compiled_gates
            else:
                is_float32 = self.config.precision == "float32"
                self._takes_compiled_gates = is_float32 and _is_long(self.config, train, budget) and can_be_used()
            for layer in layers:
                layer.steps.prepare(self._takes_compiled_gates)
        self.compile_s = watch.elapsed_s if self._takes_compiled_gates else None

    def _started(self, rng: np.random.Generator) -> Standing:
        drawn, dropping = _generators(rng, self._device)
        counts_V = self.model.vocab.counts_V if self.config.output_bias == "unigram" else None
        initialize(self._trained.network, drawn, counts_V)
        standing = self._new_standing(dropping)
        if "softmax" in standing.generators:
            standing.generators["softmax"].manual_seed(int(rng.integers(2**63)))
        return standing

    def _new_standing(self, dropping: torch.Generator) -> Standing:
        optimizer = optimizer_of(self.config, self._weights(), list(self._model.network.weights().values()))
        generators = {"dropout": dropping}
        if self.config.softmax == "sampled":
            generators["softmax"] = torch.Generator(self._device)
        return Standing(optimizer=optimizer, generators=generators)

    def _weights(self) -> list[Tensor]:
        return list(self._trained.network.weights().values())

    def _losses(self, network: Network, train: Split, rng: np.random.Generator, standing: Standing) -> Iterator[Turn]:
        config, sampler = self.config, self._sampler(standing)
        dropouts = _dropouts(config, standing.generators["dropout"])
        if isinstance(network, WindowNetwork):
            assert isinstance(config, WindowConfig)
            return window_losses(config, network, train, rng, dropouts, standing, sampler)
        assert isinstance(network, RecurrentNetwork | TransformerNetwork)
        assert not isinstance(config, WindowConfig)
        return recurrent_losses(config, network, train, rng, dropouts, standing, sampler)

    def _sampler(self, standing: Standing) -> Sampler | None:
        if "softmax" not in standing.generators:
            return None
        vocab = self.model.vocab
        return Sampler(vocab.counts_V, vocab.bos_id, self.config.samples, standing.generators["softmax"])

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def recurrent_losses(
    config: RecurrentConfig | TransformerConfig,
    network: RecurrentNetwork | TransformerNetwork,
    train: Split,
    rng: np.random.Generator,
    dropouts: Dropouts,
    standing: Standing | None = None,
    sampler: Sampler | None = None,
) -> Iterator[Turn]:
    """Losses of the batches of epoch after epoch, each computed with the weights of the moment it is asked for.

    The state goes on from batch to batch, cut from the graph; it starts anew where a batch is fresh.  They begin after
    the last batch of `standing`, where it had any, with the state that it carried.
    """
    device = network.device
    place, carried = (None, ()) if standing is None else (standing.place, standing.carried)
    (state,) = carried or (network.zero_state(0),)
    for batch, epochs_done, place_after in epochs(
        lambda: _batches(config, train, rng),
        lambda batch: batch.n_tokens / train.n_tokens,
        rng,
        place,
    ):
        # astype copies: torch warns of arrays that are read-only, as parts of a text may be
        ids_TxB = torch.from_numpy(batch.inputs_TxB.astype(np.int64)).to(device)
        targets_TxB = torch.from_numpy(batch.targets_TxB.astype(np.int64)).to(device)
        if batch.is_fresh:
            state = network.zero_state(ids_TxB.shape[1])
        hidden_TxBxH, state = network(ids_TxB, state, dropouts)
        state = state.detach()
        if batch.mask_TxB is None:
            hidden_NxH, targets_N = hidden_TxBxH.flatten(0, 1), targets_TxB.flatten()
        else:
            mask_TxB = torch.from_numpy(batch.mask_TxB).to(device)
            hidden_NxH, targets_N = hidden_TxBxH[mask_TxB], targets_TxB[mask_TxB]
        yield Turn(
            loss_nats=network.mean_nats(hidden_NxH, targets_N, sampler, config.label_smoothing),
            n_tokens=batch.n_tokens,
            epochs_done=epochs_done,
            place=place_after,
            carried=(state,),
        )


def window_losses(
    config: WindowConfig,
    network: WindowNetwork,
    train: Split,
    rng: np.random.Generator,
    dropouts: Dropouts,
    standing: Standing | None = None,
    sampler: Sampler | None = None,
) -> Iterator[Turn]:
    """Losses of batches of windows, drawn without replacement, epoch after epoch; from the last of `standing` on."""

    def draw() -> Iterator[npt.NDArray[np.int64]]:
        order_N = rng.permutation(train.n_tokens)
        return (order_N[start : start + config.batch_size] for start in range(0, len(order_N), config.batch_size))

    first_N = np.repeat(train.starts_D1[:-1], train.lengths_D)
    for positions_B, epochs_done, place in epochs(
        draw, lambda positions_B: len(positions_B) / train.n_tokens, rng, None if standing is None else standing.place
    ):
        windows_BxC = torch.from_numpy(_windows(train, first_N, positions_B, config.context_size)).to(network.device)
        targets_B = torch.from_numpy(train.ids_N[positions_B]).long().to(network.device)
        loss_nats = network.mean_nats(network(windows_BxC, dropouts), targets_B, sampler, config.label_smoothing)
        yield Turn(loss_nats=loss_nats, n_tokens=len(positions_B), epochs_done=epochs_done, place=place)


def _batches(config: RecurrentConfig | TransformerConfig, train: Split, rng: np.random.Generator) -> Iterator[Batch]:
    """One epoch of them."""
    sizes = {"batch_size": config.batch_size, "num_steps": config.num_steps}
    if config.sampling == "random":
        return random_batches(train, rng=rng, **sizes)
    return sequential_batches(train, rng=rng, spread=config.num_steps_spread, **sizes)


def _dropouts(config: Config, generator: torch.Generator) -> Dropouts:
    """What a config drops where, all drawn from one generator."""
    is_locked = getattr(config, "locked", True)
    shares = (config.dropout_input, config.dropout_hidden, config.dropout_output, getattr(config, "weight_drop", 0.0))
    return Dropouts(*(Dropout(share, generator, is_locked=is_locked) if share else None for share in shares))


def _is_long(config: Config, train: Split, budget: Budget) -> bool:
    """Whether a training within this budget earns back what loading numba takes."""
    if budget.seconds is not None and budget.seconds < _LEAST_COMPILED_S:
        return False
    if budget.steps is not None and budget.steps < _LEAST_COMPILED_STEPS:
        return False
    steps_an_epoch = train.n_tokens / (config.batch_size * getattr(config, "num_steps", 1))
    return budget.epochs is None or budget.epochs * steps_an_epoch >= _LEAST_COMPILED_STEPS


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


def _note_short_text(train: Split, config: Config) -> None:
    if isinstance(config, WindowConfig):
        used = (min(config.batch_size, train.n_tokens),)
        warn_of_short_text(train.n_tokens, asked=(config.batch_size,), used=used)
        return
    asked = (config.batch_size, config.num_steps)
    is_sequential = config.sampling == "sequential"
    shape = largest_batch(train, batch_size=asked[0], num_steps=asked[1], is_sequential=is_sequential)
    warn_of_short_text(train.n_tokens, asked=asked, used=shape)
