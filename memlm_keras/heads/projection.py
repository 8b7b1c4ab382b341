"""Output projection with a matrix of its own."""

import keras

from memlm_keras.heads.blocks import BlockLosses


@keras.saving.register_keras_serializable(package="memlm_keras")
class OutputProjection(BlockLosses, keras.layers.Dense):
    """Logits from a matrix of their own: `logits = W h + b`.

    A `keras.layers.Dense` that may leave its size to the language model that
    it is given to.

    Args:
        units: integer, size of the vocabulary; `None` is that of the model.
        **kwargs: other arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: float tensor `(..., features)`.

    Returns:
        Float tensor `(..., units)`.

    Raises:
        ValueError: if it is built with neither `units` nor a model.

    Example:

    >>> lm = memlm_keras.LanguageModel(
    ...     vocabulary_size=100,
    ...     embedding_dim=16,
    ...     recurrent=[keras.layers.LSTM(30)],
    ...     head=memlm_keras.heads.OutputProjection(use_bias=False),
    ... )
    >>> lm.head.units
    100
    """

    def __init__(self, units=None, **kwargs):
        # Keras' layer takes no `None`.
        super().__init__(1 if units is None else units, **kwargs)
        self.units = units

    def build(self, input_shape):
        if self.units is None:
            raise ValueError(
                "`units` must be the size of the vocabulary, unless the "
                "projection is the `head` of a `memlm_keras.LanguageModel`. "
                "Received: units=None"
            )
        super().build(input_shape)

    def block_kernel(self):
        """The matrix, unless a call is another than that of Keras' layer."""
        usual = (
            type(self).call is keras.layers.Dense.call
            and self.activation is keras.activations.linear
            and self.quantization_mode is None
        )
        return (self.kernel, False) if usual else None

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantizes the matrix as `keras.layers.Dense` does."""
        return super().quantize(mode, type_check=False, config=config)
