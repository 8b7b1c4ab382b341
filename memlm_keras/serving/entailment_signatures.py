"""The signatures of a served classifier of sentence pairs.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import tensorflow as tf

from memlm_keras.serving.checks import require
from memlm_keras.serving.checks import require_shape
from memlm_keras.serving.checks import require_words
from memlm_keras.serving.words import Words
from memlm_keras.serving.words import trace


class EntailmentSignatures:
    """Signatures of a served classifier, a method for each.

    Args:
        model: `memlm_keras.EntailmentClassifier`.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.
        labels: sequence of strings, one for each class.
    """

    def __init__(self, model, vocabulary, labels):
        self.model = model
        self.words = Words(vocabulary)
        self.labels = tf.constant(labels)

    def concrete_functions(self):
        """Returns the traced signatures by name."""
        texts = tf.TensorSpec((None,), tf.string)
        return trace(
            self, {"serving_default": {"premise": texts, "hypothesis": texts}}
        )

    def serving_default(self, premise, hypothesis):
        """Classifies pairs of texts `(B,)`.

        Returns:
            `label` string `(B,)`, the most probable one; `probabilities`
            float32 `(B, C)`, of all labels in their order.
        """
        premise = require_shape("premise", premise, (None,))
        rows = "premise", tf.size(premise)
        hypothesis = require_shape("hypothesis", hypothesis, (rows,))
        premise = require(
            rows[1] > 0, "`premise` must hold at least one row", premise
        )
        inputs = {
            **self._sentences("premise", premise),
            **self._sentences("hypothesis", hypothesis),
        }
        logits = tf.cast(self.model(inputs, training=False), tf.float32)
        return {
            "label": tf.gather(self.labels, tf.argmax(logits, axis=-1)),
            "probabilities": tf.nn.softmax(logits),
        }

    def _sentences(self, name, text):
        ids = require_words(name, self.words.encode(text))
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return {name: ids.to_tensor(), f"{name}_length": lengths}
