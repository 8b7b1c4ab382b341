"""Embeddings that are kept as they are for the first epochs."""

import keras
import numpy as np


class FreezeEmbeddings(keras.callbacks.Callback):
    """Does not train the vectors of some words in the first epochs.

    Vectors that were learned elsewhere are so left alone until the rest of the
    model knows what to do with them (Weissenborn, 2016, Section 5.1). On every
    backend, nothing is compiled anew when they thaw.

    The optimizer remembers nothing of frozen vectors, but Adam corrects its
    means for all steps since the beginning: of those that thaw late, the first
    steps are up to `1 / sqrt(1 - beta_2)` times as long as at the start, 32
    times with a `beta_2` of 0.999. Weight decay is not held back.

    Args:
        epochs: integer, epochs of `fit` from the first, at least 0.
        words: boolean array `(V,)`, the words whose vectors are frozen, such as
            `WordVectors.found`; `None` for all.

    Raises:
        ValueError: if `epochs` is negative; and in `fit`, for a model without
            an `embedding_gate`, which `memlm_keras.EntailmentClassifier` has,
            or `words` of another vocabulary.

    Example:

    >>> freeze = memlm_keras.training.FreezeEmbeddings(1, vectors.found)
    """

    def __init__(self, epochs=1, words=None):
        super().__init__()
        if epochs < 0:
            raise ValueError(
                f"`epochs` must be at least 0. Received: epochs={epochs}"
            )
        self.epochs = epochs
        self.words = words

    def on_train_begin(self, logs=None):
        gate = getattr(self.model, "embedding_gate", None)
        if gate is None:
            raise ValueError(
                "`FreezeEmbeddings` needs a model with an `embedding_gate`, a "
                "`memlm_keras.embeddings.GradientGate` behind its embeddings, "
                "as `memlm_keras.EntailmentClassifier` has. Received: "
                f"{type(self.model).__name__}"
            )
        expected = (gate.vocabulary_size,)
        if self.words is not None and np.shape(self.words) != expected:
            raise ValueError(
                "`words` must tell of each word of the model's vocabulary, of "
                f"shape {expected}. Received: shape {np.shape(self.words)}"
            )

    def on_epoch_begin(self, epoch, logs=None):
        if epoch < self.epochs:
            self.model.embedding_gate.shut(self.words)
        else:
            self.model.embedding_gate.open()
