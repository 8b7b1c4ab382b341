"""Models: layers assembled as functional Keras models."""

from memlm_keras.models.autoencoder import SequenceAutoencoder
from memlm_keras.models.ensemble import Ensemble
from memlm_keras.models.entailment import EntailmentClassifier
from memlm_keras.models.language_model import LanguageModel

__all__ = [
    "Ensemble",
    "EntailmentClassifier",
    "LanguageModel",
    "SequenceAutoencoder",
]
