"""What a training of a network knows between two steps: all that decides what follows, as JSON values and arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzoo.interface import Arrays
from lmzoo.neural.optimizers import Optimizer

Batched = TypeVar("Batched")

# the types of numbers that a carried state may have; numpy has no bfloat16, so all are written as float32 or float64
_STATE_TYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which batch was the last: in which epoch (from 0), the how many-th of it, and how the epoch was drawn.

    `drawn_from` is the state of numpy's generator at the epoch's start.  Drawing the epoch from it once more gives the
    same batches, and leaves the generator as it was.
    """

    epoch: int
    n_batches: int
    drawn_from: Mapping[str, Any]


def epochs(
    draw: Callable[[], Iterator[Batched]],
    share: Callable[[Batched], float],
    rng: np.random.Generator,
    after: Place | None = None,
) -> Iterator[tuple[Batched, float, Place]]:
    """Batches of epoch after epoch, with the epochs done after each and its place.

    The epochs are whole after the last batch of one, whatever tail was lost.

    Args:
        draw: one epoch of batches, from `rng` alone.
        share: which share of an epoch a batch is.
        after: begin with the batch after this place.  Those before it are drawn again and let go.
    """
    first, n_done = (0, 0) if after is None else (after.epoch, after.n_batches)
    if after is not None:
        rng.bit_generator.state = after.drawn_from
    for epoch in itertools.count(first):
        drawn_from = rng.bit_generator.state
        done = 0.0
        # the batch after this one tells whether it is the last
        for n, (batch, following) in enumerate(itertools.pairwise(itertools.chain(draw(), (None,))), 1):
            assert batch is not None
            done += share(batch)
            if epoch > first or n > n_done:
                epochs_done = epoch + (1.0 if following is None else min(done, 1.0))
                yield batch, epochs_done, Place(epoch=epoch, n_batches=n, drawn_from=drawn_from)


@dataclass(kw_only=True)
class Standing:
    """Where a training stands, its weights apart.

    Attributes:
        optimizer: with what it remembers of earlier gradients.
        generators: torch's, by what they draw.
        steps, tokens: those done so far.
        place: that of the last batch; None before the first.
        carried: the state that goes on into the next batch, of one tensor or several; empty where there is none.
    """

    optimizer: Optimizer
    generators: Mapping[str, torch.Generator]
    steps: int = 0
    tokens: int = 0
    place: Place | None = None
    carried: tuple[Tensor, ...] = field(default=())

    def to_parts(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Any], Arrays]:
        """JSON values, and arrays by what they are and their name; they share no memory with the training."""
        assert self.place is not None
        facts = {
            "steps": self.steps,
            "tokens": self.tokens,
            "place": {**vars(self.place)},
            "carried": [str(state.dtype).removeprefix("torch.") for state in self.carried],
        }
        named = {f"weight/{name}": weight for name, weight in weights.items()}
        for what, tensors in self.optimizer.memory().items():
            named |= {f"{what}/{name}": tensor for name, tensor in zip(weights, tensors, strict=True)}
        named |= {f"generator/{name}": generator.get_state() for name, generator in self.generators.items()}
        named |= {f"carried/{i}": state for i, state in enumerate(self.carried)}
        return facts, {name: _array(tensor) for name, tensor in named.items()}

    def restore(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any], arrays: Arrays) -> None:
        """The inverse of `to_parts`, into a training that has not begun; `weights` are overwritten.

        Raises `LookupError`, `TypeError` or `ValueError` where these are not the parts of such a training.
        """
        self.steps, self.tokens = _count(facts["steps"]), _count(facts["tokens"])
        place = facts["place"]
        self.place = Place(
            epoch=_count(place["epoch"]), n_batches=_count(place["n_batches"]), drawn_from=place["drawn_from"]
        )
        # refuses what is no state of such a generator
        np.random.default_rng().bit_generator.state = self.place.drawn_from
        _fill(weights, arrays, "weight")
        for what, tensors in self.optimizer.memory().items():
            _fill(dict(zip(weights, tensors, strict=True)), arrays, what)
        self.optimizer.n_steps = self.steps
        for name, generator in self.generators.items():
            try:
                generator.set_state(torch.tensor(arrays[f"generator/{name}"]))
            except RuntimeError as error:
                raise ValueError(f"generator {name}: {error}") from error
        device = next(iter(weights.values())).device
        self.carried = tuple(
            torch.tensor(arrays[f"carried/{i}"], dtype=_STATE_TYPES[dtype], device=device)
            for i, dtype in enumerate(facts["carried"])
        )


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.numpy().copy()


def _fill(tensors: Mapping[str, Tensor], arrays: Arrays, what: str) -> None:
    with torch.no_grad():
        for name, tensor in tensors.items():
            array = arrays[f"{what}/{name}"]
            if array.shape != tuple(tensor.shape):
                raise ValueError(f"{what} of {name} has shape {array.shape}, wanted {tuple(tensor.shape)}")
            tensor.copy_(torch.tensor(array))


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} counts nothing")
    return value
