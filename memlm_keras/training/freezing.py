"""Embeddings that are kept as they are for the first epochs."""

import keras


class FreezeEmbeddings(keras.callbacks.Callback):
    """Does not train the embeddings of a model in its first epochs.

    Vectors that were learned elsewhere are so left alone until the rest of the
    model knows what to do with them (Weissenborn, 2016, Section 5.1). On every
    backend, nothing is compiled anew when they thaw, and the optimizer begins
    with them then.

    Args:
        epochs: integer, epochs of `fit` from the first, at least 0.

    Raises:
        ValueError: if `epochs` is negative; and in `fit`, for a model without
            an `embedding_gate`, which `memlm_keras.EntailmentClassifier` has.

    Example:

    >>> freeze = memlm_keras.training.FreezeEmbeddings(epochs=1)
    """

    def __init__(self, epochs=1):
        super().__init__()
        if epochs < 0:
            raise ValueError(
                f"`epochs` must be at least 0. Received: epochs={epochs}"
            )
        self.epochs = epochs

    def on_train_begin(self, logs=None):
        if not hasattr(self.model, "embedding_gate"):
            raise ValueError(
                "`FreezeEmbeddings` needs a model with an `embedding_gate`, a "
                "`memlm_keras.embeddings.GradientGate` behind its embeddings, "
                "as `memlm_keras.EntailmentClassifier` has. Received: "
                f"{type(self.model).__name__}"
            )

    def on_epoch_begin(self, epoch, logs=None):
        frozen = epoch < self.epochs
        self.model.embedding_gate.share.assign(0.0 if frozen else 1.0)
