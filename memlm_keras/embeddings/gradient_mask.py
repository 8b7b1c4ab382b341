"""Gradients of the vectors of some words, let through or not."""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer


@keras.saving.register_keras_serializable(package="memlm_keras")
class GradientMask(keras.layers.Layer):
    """Returns vectors of words as they are, and masks their gradients.

    Vectors of frozen words get a gradient of zero. An optimizer that remembers
    earlier gradients, or decays weights, may move them all the same;
    `memlm_keras.training.FreezeEmbeddings` puts them back after each batch.

    Which words are frozen is a weight, so it may change while `fit` runs
    without compiling anything anew. It belongs to a training and not to a
    model: it is not saved, and a loaded model has no frozen words.

    Args:
        vocabulary_size: integer, V.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., units)`.
        token_ids: integer tensor `(...)`, the words that the vectors are of.

    Returns:
        Tensor `(..., units)`.

    Raises:
        ValueError: if `vocabulary_size` is not a positive integer.

    Example:

    >>> mask = memlm_keras.embeddings.GradientMask(5)
    >>> vectors = mask(np.ones((2, 3, 4), "float32"), np.zeros((2, 3), "int32"))
    >>> mask.freeze(np.array([True, False, False, False, False]))
    >>> mask.unfreeze()
    """

    def __init__(self, vocabulary_size, **kwargs):
        require_positive_integer("vocabulary_size", vocabulary_size)
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    def build(self, inputs_shape, token_ids_shape=None):
        self.shares = self.add_weight(
            name="shares",
            shape=(self.vocabulary_size,),
            initializer="ones",
            dtype="float32",
            autocast=False,
            trainable=False,
        )

    def freeze(self, words=None):
        """Lets no gradients through to some words.

        Args:
            words: boolean array `(V,)`, `None` for all.
        """
        shares = ops.zeros((self.vocabulary_size,))
        if words is not None:
            shares = 1.0 - ops.cast(words, "float32")
        self.shares.assign(shares)

    def unfreeze(self):
        """Lets all gradients through."""
        self.shares.assign(ops.ones((self.vocabulary_size,)))

    def call(self, inputs, token_ids):
        shares = ops.take(self.shares, ops.cast(token_ids, "int32"), axis=0)
        shares = ops.cast(shares, inputs.dtype)[..., None]
        return shares * inputs + (1 - shares) * ops.stop_gradient(inputs)

    def compute_output_spec(self, inputs, token_ids):
        """Shape and dtype of the inputs."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def save_own_variables(self, store):
        pass

    def load_own_variables(self, store):
        self.unfreeze()

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
        }
