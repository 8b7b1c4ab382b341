"""Models: layers assembled as functional Keras models."""

import keras

from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary
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

# Keras loads the vocabulary of a saved model only if its class is registered.
# `memlm_keras.data` does not import Keras: this module registers the classes.
for _class in (SubwordVocabulary, Tokenizer, Vocabulary):
    keras.saving.register_keras_serializable(package="memlm_keras")(_class)
