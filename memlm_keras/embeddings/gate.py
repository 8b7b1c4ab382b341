"""Letting gradients through to a layer's inputs, or not."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="memlm_keras")
class GradientGate(keras.layers.Layer):
    """Returns its inputs as they are, and hands back a share of the gradient.

    With a share of 0 what lies before is not trained: its gradient is zero, so
    optimizers move it by what they remember of earlier gradients and by weight
    decay alone. The share is a weight, to be changed while `fit` runs without
    compiling anything anew; `memlm_keras.training.FreezeEmbeddings` does so.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor of any shape.

    Returns:
        Tensor of that shape.

    Example:

    >>> gate = memlm_keras.embeddings.GradientGate()
    >>> keras.ops.shape(gate(np.ones((2, 3), "float32")))
    (2, 3)
    >>> _ = gate.share.assign(0.0)
    """

    def build(self, inputs_shape):
        self.share = self.add_weight(
            name="share", shape=(), initializer="ones", trainable=False
        )

    def call(self, inputs):
        share = ops.cast(self.share, inputs.dtype)
        return share * inputs + (1 - share) * ops.stop_gradient(inputs)

    def compute_output_spec(self, inputs):
        """Shape and dtype of the inputs."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
