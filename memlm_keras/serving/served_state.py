"""The state of a model as requests carry it.

Runs on the TensorFlow backend of Keras only.
"""

import hashlib

import tensorflow as tf
from keras import ops

from memlm_keras.models.ensemble import models_of
from memlm_keras.serving.checks import require
from memlm_keras.serving.checks import require_range
from memlm_keras.serving.checks import require_shape

FINGERPRINT = "fingerprint"


class ServedState:
    """The state of a model as requests carry it.

    Floating numbers are float32, whatever the model computes in, and integers
    int32: JSON has neither bfloat16 nor float16. What holds nothing, as the
    window of a pointer to one word, is left out: JSON forgets its shape. Each
    row has the `fingerprint` of the model besides, int32 `(B,)`.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.

    Attributes:
        own: dict of `tf.TensorSpec`s, of the state that the model takes.
        specification: dict of `tf.TensorSpec`s, of that of requests.
    """

    def __init__(self, model, vocabulary):
        self.model = model
        self.own = {
            name: tf.TensorSpec((None, *value.shape[1:]), value.dtype)
            for name, value in model.initial_state(1).items()
        }
        self.specification = {
            name: tf.TensorSpec(
                one.shape, tf.float32 if one.dtype.is_floating else tf.int32
            )
            for name, one in self.own.items()
            if 0 not in one.shape[1:].as_list()
        }
        self.specification[FINGERPRINT] = tf.TensorSpec((None,), tf.int32)
        self.fingerprint = fingerprint(model, vocabulary, self.own)

    def initial(self, rows):
        """The state of so many rows before the first token, as the model's."""
        return self.model.initial_state(rows)

    def from_request(self, received, of_rows):
        """The state that a request has brought, as the model takes it.

        Args:
            received: dict of tensors.
            of_rows: pair of the name of the input that says how many rows
                there are, and their number.

        Returns:
            Dict of tensors, which stop the graph if they are no state of this
            model and of so many rows.
        """
        marks = require_shape(FINGERPRINT, received[FINGERPRINT], (of_rows,))
        marks = require(
            tf.reduce_all(marks == self.fingerprint),
            f"`{FINGERPRINT}` is not that of this model: the state is of "
            "another model or another version. Begin anew, by `begin` or "
            "`initial_state`",
            marks,
        )
        state = {}
        for name, one in self.own.items():
            if name not in self.specification:
                shape = (of_rows[1], *one.shape[1:])
                state[name] = tf.zeros(shape, one.dtype)
                continue
            with tf.control_dependencies([marks]):
                value = tf.identity(received[name])
            value = require_shape(name, value, (of_rows, *one.shape[1:]))
            state[name] = self._checked_numbers(name, value)
        return state

    def _checked_numbers(self, name, value):
        one = self.own[name]
        if one.dtype.is_floating:
            value = tf.cast(value, one.dtype)
            return require(
                tf.reduce_all(tf.math.is_finite(value)),
                f"`{name}` must be finite numbers, within {one.dtype.name}",
                value,
            )
        # Integers are token ids, or for each row how many of them there are.
        is_ids = len(one.shape) > 1
        most = self.model.vocabulary_size - 1 if is_ids else None
        return tf.cast(require_range(name, value, 0, most), one.dtype)

    def to_request(self, state):
        """A state of the model, as requests carry it."""
        carried = {
            name: tf.cast(state[name], one.dtype)
            for name, one in self.specification.items()
            if name != FINGERPRINT
        }
        rows = tf.shape(next(iter(state.values())))[:1]
        return {**carried, FINGERPRINT: tf.fill(rows, self.fingerprint)}


def fingerprint(model, vocabulary, state):
    """Number that a state of other weights, words or shapes does not have.

    Args:
        model: a `memlm_keras.LanguageModel` or `Ensemble`.
        vocabulary: `memlm_keras.data.Vocabulary`.
        state: dict of `tf.TensorSpec`s of the model's state.

    Returns:
        Integer from 1 to 2^31 - 1, so that zeros are none.
    """
    digest = hashlib.sha256(vocabulary.fingerprint.encode())
    digest.update(repr(sorted(state.items())).encode())
    for part in models_of(model):
        for layer in part.backbone.layers().values():
            for weight in layer.weights:
                value = ops.convert_to_numpy(weight)
                digest.update(f"{value.shape} {value.dtype} ".encode())
                digest.update(value.tobytes())
    return int.from_bytes(digest.digest()[:8], "big") % (2**31 - 1) + 1
