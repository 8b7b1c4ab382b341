"""Mixtures of the head's distribution with a distribution over recent words."""

from memlm_keras.mixtures.base import Mixture
from memlm_keras.mixtures.grave2017 import NeuralCache
from memlm_keras.mixtures.merity2017 import PointerSentinel

__all__ = ["Mixture", "NeuralCache", "PointerSentinel"]
