"""Gradient descent: SGD, Adam, clipping, learning-rate schedules.

Written out: torch.optim loads torch's compiler at the first optimizer, a second and tens of megabytes that every
training would be charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lmzoo.budget import Budget
from lmzoo.neural.config import TrainingConfig

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_LARGEST_FACTOR = torch.finfo(torch.float32).max
# the steps in which the learning rate rises (a budget without a limit is never used up, so they are counted), and the
# share of it that is left at the end
_RISE_STEPS = 20
_REST = 0.01
_WHOLE_UNTIL = 0.6


class Optimizer(Protocol):
    """`n_steps`: how many were taken."""

    n_steps: int

    def memory(self) -> Mapping[str, Sequence[Tensor]]:
        """What it keeps of earlier gradients, by what it is, a tensor for each parameter: the very ones it works on."""

    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        """Change the parameters in place.  A gradient may be one of some rows alone: a coalesced sparse tensor."""


class Sgd:
    """Plain stochastic gradient descent."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self.n_steps = 0

    def memory(self) -> Mapping[str, Sequence[Tensor]]:
        """Nothing."""
        return {}

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        self.n_steps += 1
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.add_(gradient, alpha=-lr)


class Adam:
    """Adam with bias correction (Kingma & Ba 2015, algorithm 1); beta 0.9 and 0.999, epsilon 1e-8.

    Of a sparse gradient only its rows move, and only their moments change, as in torch.optim.SparseAdam: a step costs
    what its rows cost.

    Args:
        weight_decay: the share of a weight, times the learning rate, that a step takes away, apart from the gradient
            (AdamW: Loshchilov & Hutter 2019, algorithm 2).
    """

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float = 0.0) -> None:
        self._parameters = parameters
        self._weight_decay = weight_decay
        self._mean = [torch.zeros_like(p) for p in parameters]
        self._square = [torch.zeros_like(p) for p in parameters]
        self.n_steps = 0

    def memory(self) -> Mapping[str, Sequence[Tensor]]:
        """The running means of gradients and of their squares."""
        return {"mean": self._mean, "square": self._square}

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        self.n_steps += 1
        mean_share = 1.0 - _BETA1**self.n_steps
        square_root = math.sqrt(1.0 - _BETA2**self.n_steps)
        for gradient, *numbers in zip(gradients, self._parameters, self._mean, self._square, strict=True):
            if gradient.is_sparse:
                ids_R = gradient.indices()[0]
                rows = [whole.index_select(0, ids_R) for whole in numbers]
                self._move(gradient.values(), rows, lr, mean_share, square_root)
                for whole, part in zip(numbers, rows, strict=True):
                    whole.index_copy_(0, ids_R, part)
            else:
                self._move(gradient, numbers, lr, mean_share, square_root)

    def _move(
        self, gradient: Tensor, numbers: Sequence[Tensor], lr: float, mean_share: float, square_root: float
    ) -> None:
        parameter, mean, square = numbers
        mean.lerp_(gradient, 1.0 - _BETA1)
        square.mul_(_BETA2).addcmul_(gradient, gradient, value=1.0 - _BETA2)
        if self._weight_decay:
            parameter.mul_(1.0 - lr * self._weight_decay)
        divisor = square.sqrt().div_(square_root).add_(_EPSILON)
        # beyond what float32 holds torch refuses a factor, where the weights would show that it was too large
        parameter.addcdiv_(mean, divisor, value=-min(lr / mean_share, _LARGEST_FACTOR))


class Averaging:
    """An optimizer whose running mean of the parameters is what counts (Polyak & Juditsky 1992).

    The mean after t steps is (1 - s) times the mean before and s times the parameters, s = (k + 1) / (t + k) (Shamir &
    Zhang 2013, section 4): over all steps for k = 0, over about the last 1 / (k + 1) of them for larger k.

    Args:
        means: where the mean of each parameter is kept.
    """

    def __init__(self, optimizer: Optimizer, parameters: Sequence[Tensor], means: Sequence[Tensor], k: float) -> None:
        self._optimizer = optimizer
        self._parameters = parameters
        self._means = means
        self._k = k

    @property
    def n_steps(self) -> int:
        return self._optimizer.n_steps

    @n_steps.setter
    def n_steps(self, n_steps: int) -> None:
        self._optimizer.n_steps = n_steps

    def memory(self) -> Mapping[str, Sequence[Tensor]]:
        """That of the optimizer, and the means."""
        return {**self._optimizer.memory(), "average": self._means}

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        self._optimizer.step(gradients, lr)
        share = (self._k + 1) / (self.n_steps + self._k)
        for mean, parameter in zip(self._means, self._parameters, strict=True):
            mean.lerp_(parameter, share)


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {"sgd": Sgd, "adam": Adam, "adamw": Adam}


def optimizer_of(config: TrainingConfig, parameters: Sequence[Tensor], means: Sequence[Tensor]) -> Optimizer:
    """The optimizer of a config, which keeps `means` where it averages."""
    options = {"weight_decay": config.weight_decay} if config.optimizer == "adamw" else {}
    optimizer = OPTIMIZERS[config.optimizer](parameters, **options)
    return Averaging(optimizer, parameters, means, config.averaging) if config.averaging else optimizer


def constant(used: float, step: int) -> float:
    """The whole learning rate all the time."""
    return 1.0


def cosine(used: float, step: int) -> float:
    """A linear rise over the first 20 steps, times half a cosine down to a hundredth (Loshchilov & Hutter 2017)."""
    return min(step / _RISE_STEPS, 1.0) * (_REST + (1.0 - _REST) * 0.5 * (1.0 + math.cos(math.pi * used)))


def trapezoid(used: float, step: int) -> float:
    """The same rise, times the whole rate until 60 % of the budget are used, then straight down to a hundredth."""
    left = min((1.0 - used) / (1.0 - _WHOLE_UNTIL), 1.0)
    return min(step / _RISE_STEPS, 1.0) * (_REST + (1.0 - _REST) * left)


SCHEDULES: Mapping[str, Callable[[float, int], float]] = {
    "constant": constant,
    "cosine": cosine,
    "trapezoid": trapezoid,
}


def phase_of(name: str, used: float, step: int) -> str:
    """What a schedule does at a step, in words that change a few times in a training: at its halvings at most."""
    if name == "constant":
        return "constant"
    if step < _RISE_STEPS:
        return "rise"
    if SCHEDULES[name](used, step) == 1.0:
        return "whole"
    halvings = int(-math.log2(SCHEDULES[name](used, step)))
    return f"at most 1/{2**halvings}" if halvings else "fall"


class LearningRate:
    """The learning rate of each step; its schedule follows a budget, which is told of each new phase.

    Args:
        largest: the rate that the schedule takes a share of.
    """

    def __init__(self, schedule: str, largest: float, budget: Budget) -> None:
        self._schedule = schedule
        self._largest = largest
        self._budget = budget
        self._phase = ""

    def of_step(self, step: int) -> float:
        """The rate of a step, the first of which is 1."""
        used = self._budget.used
        phase = phase_of(self._schedule, used, step)
        if phase != self._phase:
            self._phase = phase
            self._budget.note_change(f"learning rate, {self._schedule}", phase, step=step - 1)
        return self._largest * SCHEDULES[self._schedule](used, step)


def numbers_of(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The numbers of each gradient, to be changed in place: of a sparse one those of its rows."""
    return [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]


@torch.no_grad()
def clip_global_norm(gradients: Sequence[Tensor], largest: float) -> Tensor:
    """Scale gradients in place so that their global L2 norm is at most `largest` (Pascanu et al. 2013); 0: leave them.

    Returns the norm that they had.
    """
    numbers = numbers_of(gradients)
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in numbers]))
    if largest:
        # the same operations whether it bites or not, so that nothing waits for the device
        factor = (largest / norm).clamp(max=1.0)
        for gradient in numbers:
            gradient.mul_(factor)
    return norm
