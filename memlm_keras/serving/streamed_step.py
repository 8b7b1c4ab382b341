"""One step of a language model in a TensorFlow graph, for engines of tensors.

Runs on the TensorFlow backend of Keras only.

Shapes below: B batch, V vocabulary.
"""

import contextlib

import keras
import tensorflow as tf

from memlm_keras.models.ensemble import models_of


class StreamedStep:
    """One step of a language model, as a function of ids and named state.

    What of the state holds nothing, as the window of a pointer to one word, is
    left out.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble` in float32.

    Attributes:
        model: the model.
        initial: dict of NumPy arrays, the state of one row before the first
            token, without its axis.
        specification: dict of `tf.TensorSpec`s, of the state.
    """

    def __init__(self, model):
        self.model = model
        state = {
            name: keras.ops.convert_to_numpy(value)[0]
            for name, value in model.initial_state(1).items()
        }
        self.initial = {
            name: value for name, value in state.items() if value.size
        }
        self.specification = {
            name: tf.TensorSpec((None, *value.shape), value.dtype, name)
            for name, value in self.initial.items()
        }

    def __call__(self, token_ids, state):
        """Reads one token a row.

        Args:
            token_ids: integer tensor `(B, 1)`.
            state: dict of tensors, by the names of `specification`.

        Returns:
            `(log_probabilities, state)`, the former float32 `(B, V)`: what
            follows the token.
        """
        token_ids = tf.cast(token_ids, tf.int32)
        empty = self.model.initial_state(tf.shape(token_ids)[0])
        logits, new = self.model.backbone.step(token_ids, {**empty, **state})
        return tf.nn.log_softmax(logits[:, -1]), {
            name: tf.ensure_shape(new[name], one.shape)
            for name, one in self.specification.items()
        }


def without_loops(model):
    """Context in which recurrent layers read one step without a loop.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble`.
    """
    return set_on_layers(recurrent_layers(model), lambda _: {"unroll": True})


def recurrent_layers(model):
    """List of the recurrent layers of a model, or of all of an ensemble."""
    return [
        layer
        for one in models_of(model)
        for layer in (*one.recurrent, *one.recurrent_above)
    ]


@contextlib.contextmanager
def set_on_layers(layers, attributes):
    """Context in which layers have other attributes.

    Args:
        layers: list of layers.
        attributes: function from a layer to a dict of attributes.
    """
    with contextlib.ExitStack() as stack:
        for layer in layers:
            for name, value in attributes(layer).items():
                if name in vars(layer):
                    stack.callback(setattr, layer, name, vars(layer)[name])
                else:
                    stack.callback(delattr, layer, name)
                setattr(layer, name, value)
        yield
