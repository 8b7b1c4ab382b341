"""Memory-augmented recurrent language models in Keras 3."""

from memlm_keras import analysis
from memlm_keras import cells
from memlm_keras import data
from memlm_keras import embeddings
from memlm_keras import evaluation
from memlm_keras import heads
from memlm_keras import memory
from memlm_keras import mixtures
from memlm_keras import ngrams
from memlm_keras import presets
from memlm_keras import serving
from memlm_keras import smoothing
from memlm_keras import training
from memlm_keras.models import Ensemble
from memlm_keras.models import EntailmentClassifier
from memlm_keras.models import LanguageModel
from memlm_keras.models import SequenceAutoencoder

__version__ = "0.1.0"

__all__ = [
    "Ensemble",
    "EntailmentClassifier",
    "LanguageModel",
    "SequenceAutoencoder",
    "analysis",
    "cells",
    "data",
    "embeddings",
    "evaluation",
    "heads",
    "memory",
    "mixtures",
    "ngrams",
    "presets",
    "serving",
    "smoothing",
    "training",
]
