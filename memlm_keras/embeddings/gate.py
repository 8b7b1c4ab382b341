"""Letting gradients through to the vectors of some words, or not."""

import keras
from keras import ops

from memlm_keras.arguments import require_positive_integer


@keras.saving.register_keras_serializable(package="memlm_keras")
class GradientGate(keras.layers.Layer):
    """Returns vectors of words as they are, and hands back some gradients.

    Of words that are shut out, the gradient is zero, and optimizers without
    weight decay leave their vectors alone if they never moved them. Which words
    these are is a weight, to be changed while `fit` runs without compiling
    anything anew; `memlm_keras.training.FreezeEmbeddings` does so.

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

    >>> gate = memlm_keras.embeddings.GradientGate(5)
    >>> vectors = gate(np.ones((2, 3, 4), "float32"), np.zeros((2, 3), "int32"))
    >>> gate.shut(np.array([True, False, False, False, False]))
    >>> gate.open()
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

    def shut(self, words=None):
        """Lets no gradients through to some words.

        Args:
            words: boolean array `(V,)`, `None` for all.
        """
        shares = ops.zeros((self.vocabulary_size,))
        if words is not None:
            shares = 1.0 - ops.cast(words, "float32")
        self.shares.assign(shares)

    def open(self):
        """Lets all gradients through."""
        self.shares.assign(ops.ones((self.vocabulary_size,)))

    def call(self, inputs, token_ids):
        shares = ops.take(self.shares, ops.cast(token_ids, "int32"), axis=0)
        shares = ops.cast(shares, inputs.dtype)[..., None]
        return shares * inputs + (1 - shares) * ops.stop_gradient(inputs)

    def compute_output_spec(self, inputs, token_ids):
        """Shape and dtype of the inputs."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
        }
