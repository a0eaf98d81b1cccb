"""Mixtures of any models over one vocabulary; weights are fitted on validation text."""

from lmzoo.mixture.config import MixtureConfig
from lmzoo.mixture.model import MixtureModel
from lmzoo.mixture.trainer import MixtureTrainer, MixtureWarning

__all__ = ["MixtureConfig", "MixtureModel", "MixtureTrainer", "MixtureWarning"]
